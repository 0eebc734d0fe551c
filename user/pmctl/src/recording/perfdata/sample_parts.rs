// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fields of samples: those that all samples have, and the optional parts.

use perfmon_core::logic::event_attr as abi;

/// Fields of samples with the program's registers and stack, from which its call chain is unwound.
pub(super) const SAMPLE_USER: u64 = abi::PERF_SAMPLE_REGS_USER | abi::PERF_SAMPLE_STACK_USER;

/// Fields of the weight: as one number, or as its three parts.
pub(super) const SAMPLE_WEIGHTS: u64 = abi::PERF_SAMPLE_WEIGHT | abi::PERF_SAMPLE_WEIGHT_STRUCT;

/// Fields at the end of every record other than a sample.
pub(super) const STAMP_FIELDS: u64 = abi::PERF_SAMPLE_TID
    | abi::PERF_SAMPLE_TIME
    | abi::PERF_SAMPLE_CPU
    | abi::PERF_SAMPLE_IDENTIFIER;

/// Fields of every sample.
const COMMON_FIELDS: u64 = STAMP_FIELDS | abi::PERF_SAMPLE_IP | abi::PERF_SAMPLE_PERIOD;

/// Optional parts of samples. All samples of a recording have the same parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a part")]
pub(crate) struct SampleParts {
    /// The address of the data that the instruction reads or writes.
    pub(crate) has_data_address: bool,
    /// Call chains.
    pub(crate) has_chain: bool,
    /// The last branches.
    pub(crate) has_branches: bool,
    /// The registers and the stack of the program.
    pub(crate) has_user_stack: bool,
    /// The latency of the memory access.
    pub(crate) has_weight: bool,
    /// The place that the data came from.
    pub(crate) has_data_source: bool,
    /// The cgroup of the task.
    pub(crate) has_cgroup: bool,
}

impl SampleParts {
    /// Returns the parts that at least one of `self` and `other` has.
    pub(super) const fn or(self, other: Self) -> Self {
        Self {
            has_data_address: self.has_data_address || other.has_data_address,
            has_chain: self.has_chain || other.has_chain,
            has_branches: self.has_branches || other.has_branches,
            has_user_stack: self.has_user_stack || other.has_user_stack,
            has_weight: self.has_weight || other.has_weight,
            has_data_source: self.has_data_source || other.has_data_source,
            has_cgroup: self.has_cgroup || other.has_cgroup,
        }
    }

    /// Returns the parts that samples with these fields have.
    pub(super) const fn of(fields: u64) -> Self {
        Self {
            has_data_address: fields & abi::PERF_SAMPLE_ADDR != 0,
            has_chain: fields & abi::PERF_SAMPLE_CALLCHAIN != 0,
            has_branches: fields & abi::PERF_SAMPLE_BRANCH_STACK != 0,
            has_user_stack: fields & SAMPLE_USER == SAMPLE_USER,
            has_weight: fields & SAMPLE_WEIGHTS != 0,
            has_data_source: fields & abi::PERF_SAMPLE_DATA_SRC != 0,
            has_cgroup: fields & abi::PERF_SAMPLE_CGROUP != 0,
        }
    }

    /// Returns the fields of all samples of a recording.
    pub(super) fn fields(self) -> u64 {
        let optional_fields = [
            (self.has_data_address, abi::PERF_SAMPLE_ADDR),
            (self.has_chain, abi::PERF_SAMPLE_CALLCHAIN),
            (self.has_branches, abi::PERF_SAMPLE_BRANCH_STACK),
            (self.has_user_stack, SAMPLE_USER),
            (self.has_weight, abi::PERF_SAMPLE_WEIGHT_STRUCT),
            (self.has_data_source, abi::PERF_SAMPLE_DATA_SRC),
            (self.has_cgroup, abi::PERF_SAMPLE_CGROUP),
        ];
        let present = optional_fields
            .into_iter()
            .filter(|(is_present, _)| *is_present);
        present.fold(COMMON_FIELDS, |all, (_, field)| all | field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_has_its_field() {
        let none = SampleParts::default();
        assert_eq!(none.fields(), 0x1_0187);
        for (field, mask) in [
            (1 << 3, 1 << 3),
            (1 << 5, 1 << 5),
            (1 << 11, 1 << 11),
            (3 << 12, 3 << 12),
            // A weight is written as three parts.
            (1 << 14, 1 << 24),
            (1 << 15, 1 << 15),
            (1 << 21, 1 << 21),
            (1 << 24, 1 << 24),
        ] {
            let parts = SampleParts::of(field);
            assert_eq!(parts.fields(), none.fields() | mask);
            assert_eq!(parts.or(none), parts);
            assert_eq!(none.or(parts), parts);
        }
    }
}
