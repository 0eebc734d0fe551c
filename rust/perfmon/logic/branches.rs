// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The filter of the branch records, which selects the branches that are recorded. It follows from an event's modes, or from
//! `branch_sample_type` of a `struct perf_event_attr` (Intel SDM, volume 3B, section 18.4.2).
//!
//! [`super::branch_records`] has the kinds of branch records and their control registers, [`super::lbr`] the form of each
//! record, and [`super::recorded_branches`] the branches in the processor's records of precise samples.

use super::event_attr::{
    InvalidAttr, PerfEventAttr, PERF_SAMPLE_BRANCH_ANY, PERF_SAMPLE_BRANCH_ANY_CALL,
    PERF_SAMPLE_BRANCH_ANY_RETURN, PERF_SAMPLE_BRANCH_CALL, PERF_SAMPLE_BRANCH_CALL_STACK,
    PERF_SAMPLE_BRANCH_COND, PERF_SAMPLE_BRANCH_HV, PERF_SAMPLE_BRANCH_HW_INDEX,
    PERF_SAMPLE_BRANCH_IND_CALL, PERF_SAMPLE_BRANCH_IND_JUMP, PERF_SAMPLE_BRANCH_KERNEL,
    PERF_SAMPLE_BRANCH_NO_CYCLES, PERF_SAMPLE_BRANCH_NO_FLAGS, PERF_SAMPLE_BRANCH_PLM_ALL,
    PERF_SAMPLE_BRANCH_TYPE_SAVE, PERF_SAMPLE_BRANCH_USER,
};
use super::lbr::{FLAGS, TYPE};

/// Bit of `MSR_LBR_SELECT` that leaves out branches that end in ring 0.
const NO_KERNEL: u64 = 1 << 0;
/// Bit of `MSR_LBR_SELECT` that leaves out branches that end in other rings.
const NO_USER: u64 = 1 << 1;
/// Bit of `MSR_LBR_SELECT` that leaves out conditional branches. Each of the following bits leaves
/// out a different kind of branches.
const NO_CONDITIONAL: u64 = 1 << 2;
const NO_RELATIVE_CALL: u64 = 1 << 3;
const NO_INDIRECT_CALL: u64 = 1 << 4;
const NO_RETURN: u64 = 1 << 5;
const NO_INDIRECT_JUMP: u64 = 1 << 6;
const NO_RELATIVE_JUMP: u64 = 1 << 7;
const NO_FAR: u64 = 1 << 8;
/// Bit of `MSR_LBR_SELECT` that makes a return remove the record of the newest call
/// (`EN_CALLSTACK`).
const CALL_STACK: u64 = 1 << 9;
/// The bits that leave out all kinds of branches.
const NO_KIND: u64 = NO_CONDITIONAL
    | NO_RELATIVE_CALL
    | NO_INDIRECT_CALL
    | NO_RETURN
    | NO_INDIRECT_JUMP
    | NO_RELATIVE_JUMP
    | NO_FAR;

/// The filter of a call stack, which records calls and returns.
const CALL_STACK_KINDS: u64 =
    NO_KIND & !(NO_RELATIVE_CALL | NO_INDIRECT_CALL | NO_RETURN) | CALL_STACK;

/// Pairs: a bit of `branch_sample_type`, and the filter bits of the kinds of branches that it asks for. System calls,
/// interrupts, and the returns from both are far branches. They are neither calls nor returns here, because the processor
/// does not distinguish them.
const BRANCH_KINDS: [(u64, u64); 7] = [
    (PERF_SAMPLE_BRANCH_ANY, NO_KIND),
    (
        PERF_SAMPLE_BRANCH_ANY_CALL,
        NO_RELATIVE_CALL | NO_INDIRECT_CALL,
    ),
    (PERF_SAMPLE_BRANCH_ANY_RETURN, NO_RETURN),
    (PERF_SAMPLE_BRANCH_IND_CALL, NO_INDIRECT_CALL),
    (PERF_SAMPLE_BRANCH_COND, NO_CONDITIONAL),
    (PERF_SAMPLE_BRANCH_IND_JUMP, NO_INDIRECT_JUMP),
    (PERF_SAMPLE_BRANCH_CALL, NO_RELATIVE_CALL),
];

/// The bit that is set in all addresses of the kernel, which are in the upper half.
const KERNEL_BIT: u64 = 1 << 63;

/// The selection of the branches that are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branches {
    /// The value of `MSR_LBR_SELECT`, which AMD has under another number and Intel's architectural records in another
    /// form ([`BranchMsrs::selection`](super::branch_records::BranchMsrs::selection)).
    pub filter: u64,
    /// The bit that all kernel addresses have, if branches with a kernel address must not be shown; else 0. The filter
    /// tests the target only, so it does not leave out returns from the kernel to the program.
    pub kernel_bit: u64,
}

/// The branches of a sample, and the parts of each branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchStack {
    /// The branches that are recorded.
    pub branches: Branches,
    /// The parts of a branch besides its addresses, as a mask: bits of [`FLAGS`] and [`TYPE`].
    pub info_mask: u64,
    /// The sample has, before the branches, the number of the register with the newest branch
    /// (`PERF_SAMPLE_BRANCH_HW_INDEX`).
    pub has_index: bool,
}

impl Branches {
    /// Returns the selection of all branches in these modes.
    #[must_use]
    pub const fn in_modes(user: bool, kernel: bool) -> Self {
        Self {
            filter: if kernel { 0 } else { NO_KERNEL } | if user { 0 } else { NO_USER },
            kernel_bit: if kernel { 0 } else { KERNEL_BIT },
        }
    }

    /// Returns whether branches of the kernel are recorded.
    #[must_use]
    pub const fn has_kernel(self) -> bool {
        self.kernel_bit == 0
    }

    /// Returns whether calls or returns are recorded, but not all jumps.
    #[must_use]
    pub const fn has_calls_without_jumps(self) -> bool {
        const CALLS: u64 = NO_RELATIVE_CALL | NO_INDIRECT_CALL | NO_RETURN;

        self.filter & CALLS != CALLS && self.filter & (NO_RELATIVE_JUMP | NO_INDIRECT_JUMP) != 0
    }

    /// Returns whether the branches are a call stack: the calls that have not returned.
    #[must_use]
    pub const fn are_calls(self) -> bool {
        is_call_stack(self.filter)
    }
}

/// Returns whether the filter is that of a call stack.
#[must_use]
#[inline]
pub const fn is_call_stack(filter: u64) -> bool {
    filter & CALL_STACK != 0
}

impl BranchStack {
    /// Returns whether samples show the type of each branch.
    #[must_use]
    pub const fn has_types(&self) -> bool {
        self.info_mask & TYPE != 0
    }

    /// Returns the branches that `attr` asks for.
    ///
    /// # Errors
    ///
    /// [`InvalidAttr::Unsupported`] for branches of transactions, for parts of a branch that no CPU
    /// records, and for a call stack in other modes than user mode, since interrupts would disturb
    /// a call stack of the kernel. [`InvalidAttr::Invalid`] for a call stack together with other
    /// kinds of branches.
    pub const fn new(attr: &PerfEventAttr) -> Result<Self, InvalidAttr> {
        /// The bits of `branch_sample_type` which together leave out flags and cycles, as in Linux perf.
        const NO_INFO: u64 = PERF_SAMPLE_BRANCH_NO_FLAGS | PERF_SAMPLE_BRANCH_NO_CYCLES;

        let branch_sample_type = attr.branch_sample_type;
        let mut kind_filter = match kind_filter(branch_sample_type) {
            Ok(filter) => filter,
            Err(error) => return Err(error),
        };
        let (user, kernel) = recorded_modes(attr);
        if branch_sample_type & PERF_SAMPLE_BRANCH_CALL_STACK != 0 {
            if kind_filter != NO_KIND {
                return Err(InvalidAttr::Invalid);
            }
            if kernel || !user {
                return Err(InvalidAttr::Unsupported);
            }
            kind_filter = CALL_STACK_KINDS;
        }
        let Branches { filter, kernel_bit } = Branches::in_modes(user, kernel);
        Ok(Self {
            branches: Branches {
                filter: filter | kind_filter,
                kernel_bit,
            },
            info_mask: if branch_sample_type & NO_INFO == NO_INFO {
                0
            } else {
                FLAGS
            } | if branch_sample_type & PERF_SAMPLE_BRANCH_TYPE_SAVE == 0 {
                0
            } else {
                TYPE
            },
            has_index: branch_sample_type & PERF_SAMPLE_BRANCH_HW_INDEX != 0,
        })
    }
}

/// Returns the filter that leaves out the kinds of branches that `branch_sample_type` does not ask for.
///
/// # Errors
///
/// [`InvalidAttr::Unsupported`] for other kinds than [`BRANCH_KINDS`] and a call stack, and for parts of a branch that
/// no CPU records.
const fn kind_filter(branch_sample_type: u64) -> Result<u64, InvalidAttr> {
    const OTHER_BITS: u64 = PERF_SAMPLE_BRANCH_PLM_ALL
        | PERF_SAMPLE_BRANCH_NO_FLAGS
        | PERF_SAMPLE_BRANCH_NO_CYCLES
        | PERF_SAMPLE_BRANCH_TYPE_SAVE
        | PERF_SAMPLE_BRANCH_HW_INDEX
        | PERF_SAMPLE_BRANCH_CALL_STACK;

    let (mut unsupported_bits, mut filter) = (branch_sample_type & !OTHER_BITS, NO_KIND);
    let mut n = 0;
    while n < BRANCH_KINDS.len() {
        let (bit, kinds) = BRANCH_KINDS[n];
        if branch_sample_type & bit != 0 {
            filter &= !kinds;
            unsupported_bits &= !bit;
        }
        n += 1;
    }
    if unsupported_bits == 0 {
        Ok(filter)
    } else {
        Err(InvalidAttr::Unsupported)
    }
}

/// Returns whether branches of user mode are recorded, and whether branches of kernel mode are. If `branch_sample_type`
/// has no privilege level, the branches have the modes of the event.
const fn recorded_modes(attr: &PerfEventAttr) -> (bool, bool) {
    let levels = attr.branch_sample_type & PERF_SAMPLE_BRANCH_PLM_ALL;
    if levels & !PERF_SAMPLE_BRANCH_HV == 0 {
        (
            !attr.has(PerfEventAttr::EXCLUDE_USER),
            !attr.has(PerfEventAttr::EXCLUDE_KERNEL),
        )
    } else {
        (
            levels & PERF_SAMPLE_BRANCH_USER != 0,
            levels & PERF_SAMPLE_BRANCH_KERNEL != 0,
        )
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_branches))]
mod tests {
    use super::*;

    #[test]
    fn filter_follows_the_modes() {
        let filter = |user, kernel| Branches::in_modes(user, kernel).filter;
        assert_eq!(filter(true, true), 0);
        assert_eq!(filter(true, false), 0b01);
        assert_eq!(filter(false, true), 0b10);
        assert_eq!(filter(false, false), 0b11);
        assert!(Branches::in_modes(false, true).has_kernel());
        assert!(!Branches::in_modes(true, false).has_kernel());
    }

    fn stack_for(branch_sample_type: u64, flags: u64) -> Result<BranchStack, InvalidAttr> {
        BranchStack::new(&PerfEventAttr {
            branch_sample_type,
            flags,
            ..PerfEventAttr::ZERO
        })
    }

    fn filter(branch_sample_type: u64, flags: u64) -> u64 {
        stack_for(branch_sample_type, flags).map_or(!0, |stack| stack.branches.filter)
    }

    #[test]
    fn filter_follows_the_kinds() {
        const USER_ONLY: u64 = PerfEventAttr::EXCLUDE_KERNEL;
        assert_eq!(filter(PERF_SAMPLE_BRANCH_ANY, 0), 0);
        assert_eq!(filter(PERF_SAMPLE_BRANCH_ANY, USER_ONLY), 0b01);
        assert_eq!(
            filter(PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_USER, 0),
            0b01
        );
        assert_eq!(filter(PERF_SAMPLE_BRANCH_ANY_CALL, 0), 0b1_1110_0100);
        assert_eq!(filter(PERF_SAMPLE_BRANCH_COND, 0), 0b1_1111_1000);
        assert_eq!(
            filter(PERF_SAMPLE_BRANCH_ANY_RETURN | PERF_SAMPLE_BRANCH_CALL, 0),
            0b1_1101_0100
        );
    }

    #[test]
    fn call_stack_requires_user_mode() {
        const CALLS: u64 = PERF_SAMPLE_BRANCH_CALL_STACK;
        const USER: u64 = PERF_SAMPLE_BRANCH_USER;
        let calls = stack_for(CALLS | USER, 0);
        assert!(calls.is_ok_and(|stack| stack.branches.are_calls()));
        assert_eq!(filter(CALLS | USER, 0), 0b11_1100_0101);
        assert_eq!(filter(CALLS, PerfEventAttr::EXCLUDE_KERNEL), 0b11_1100_0101);
        for other_mode in [
            PERF_SAMPLE_BRANCH_KERNEL,
            USER | PERF_SAMPLE_BRANCH_KERNEL,
            0,
        ] {
            assert_eq!(
                stack_for(CALLS | other_mode, 0),
                Err(InvalidAttr::Unsupported)
            );
        }
        let calls_and_any_call = stack_for(CALLS | USER | PERF_SAMPLE_BRANCH_ANY_CALL, 0);
        assert_eq!(calls_and_any_call, Err(InvalidAttr::Invalid));
    }

    #[test]
    fn unsupported_branches_are_refused() {
        // The bits of transactions (7, 8 and 9), of privilege levels (18), and of counters (19).
        for bit in [7, 8, 9, 18, 19] {
            let stack = stack_for(PERF_SAMPLE_BRANCH_ANY | 1 << bit, 0);
            assert_eq!(stack, Err(InvalidAttr::Unsupported));
        }
        assert!(
            stack_for(PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_HW_INDEX, 0)
                .is_ok_and(|stack| stack.has_index && stack.info_mask == FLAGS)
        );
    }
}
