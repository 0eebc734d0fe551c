// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The groups of fields that `MSR_PEBS_DATA_CFG` selects for records.

use super::super::recorded_branches::RecordedBranches;

/// A set of groups that a record can have besides the basic group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordGroups(u64);

impl RecordGroups {
    /// No group besides the basic group.
    pub const NONE: Self = Self(0);
    /// The access to memory.
    pub const ACCESS: Self = Self(1 << 0);
    /// The registers.
    pub const REGISTERS: Self = Self(1 << 1);
    /// The branches, as many as [`RecordedBranches::COUNT`]; bits 31:24 are one less than their number.
    pub const BRANCHES: Self = Self(1 << 3 | (RecordedBranches::COUNT as u64 - 1) << 24);

    /// Returns the groups of both sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns these groups if `condition` is true, otherwise [`Self::NONE`].
    #[must_use]
    pub const fn filter(self, condition: bool) -> Self {
        if condition {
            self
        } else {
            Self::NONE
        }
    }

    /// Returns the groups of this set that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns whether this set has a group of `other`.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the value of `MSR_PEBS_DATA_CFG`.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Returns the set with these [`Self::bits`]. Ignores bits of other groups.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits & (Self::ACCESS.0 | Self::REGISTERS.0 | Self::BRANCHES.0))
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_pebs_groups))]
mod tests {
    use super::*;

    #[test]
    fn groups_have_the_bits_of_the_register() {
        let both = RecordGroups::ACCESS.union(RecordGroups::REGISTERS);
        let branches = RecordGroups::BRANCHES;
        let all = both.union(branches);
        assert_eq!(both.bits(), 0b11);
        assert_eq!(branches.bits(), 0x1f00_0008);
        assert_eq!(RecordGroups::from_bits(u64::MAX), all);
        assert_eq!(all.without(branches), both);
        assert_eq!(RecordGroups::ACCESS.filter(false), RecordGroups::NONE);
    }
}
