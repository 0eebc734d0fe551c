// SPDX-License-Identifier: GPL-2.0-only
//! The values of registers before the module claimed them.

use super::{scratch::Scratch, Word};
use crate::logic::{
    counter::{MAX_COUNTERS, MAX_GENERAL},
    lbr::MAX_DEPTH,
    plan::RestoreValues,
};

/// The registers of the PMU, as they were when the module claimed the CPU.
pub(crate) struct SavedRegisters {
    pub(crate) select: [Word; MAX_GENERAL],
    pub(crate) fixed_control: Word,
    pub(crate) global_control: Word,
    pub(crate) lvtpc: Word,
    /// `IA32_PMC_x_CFG_B` of each counter, by [`CounterId::index`](crate::logic::counter::CounterId::index).
    pub(crate) reload: [Word; MAX_COUNTERS],
    /// `IA32_PMC_x_CFG_C` of each counter, by [`CounterId::index`](crate::logic::counter::CounterId::index).
    pub(crate) records: [Word; MAX_COUNTERS],
}

impl RestoreValues for SavedRegisters {
    fn select(&self, n: u8) -> u64 {
        self.select.get(usize::from(n)).map_or(0, Word::get)
    }

    fn fixed_control(&self) -> u64 {
        self.fixed_control.get()
    }

    fn global_control(&self) -> u64 {
        self.global_control.get()
    }
}

/// The values that the registers of the branch records had before the module used them, and the present state of the
/// records.
pub(crate) struct BranchState {
    /// The number of users on this CPU: a trace, or events whose windows are open.
    pub(crate) user_count: Word,
    /// The users that read the branch records in overflow interrupts: bits of counters, and
    /// [`BRANCHES_OF_TRACE`]. While there is such a user, interrupts freeze the records.
    pub(crate) interrupt_users: Word,
    /// The value of `IA32_DEBUGCTL` before the first user.
    pub(crate) debugctl: Word,
    /// The value of [`BranchMsrs::select`](crate::logic::branch_records::BranchMsrs::select) before the first user.
    pub(crate) select: Word,
    /// The value of the register of [`BranchMsrs::enable_bit`](crate::logic::branch_records::BranchMsrs::enable_bit)
    /// before the first user.
    pub(crate) enable_bit: Word,
    /// The value of [`BranchMsrs::depth`](crate::logic::branch_records::BranchMsrs::depth) before the first user.
    pub(crate) depth: Word,
    /// Not 0 if, at some time since the records were last enabled, they could not be accessed
    /// because Intel PT was tracing.
    pub(crate) was_excluded: Word,
    /// Not 0 if the records were found disabled, or with another filter, since the processor's
    /// samples were last read: then it is not known when the branches in later samples were
    /// recorded.
    pub(crate) were_broken: Word,
    /// The value of the filter register while branches are recorded:
    /// [`BranchMsrs::selection`](crate::logic::branch_records::BranchMsrs::selection).
    pub(crate) selection: Word,
    /// The bits that are set in `IA32_DEBUGCTL` while branches are recorded.
    pub(crate) debugctl_bits: Word,
    /// The bit of `IA32_DEBUGCTL` that makes interrupts freeze the records. The bit is set while a
    /// user reads the records in interrupts. 0 if the bit is not used: for example, a call stack is
    /// never frozen.
    pub(crate) freeze_bit: Word,
    /// The bit of addresses by which branches are hidden: a branch whose source or target has the
    /// bit is not shown. 0 if no branch is hidden. From
    /// [`Branches::kernel_bit`](crate::logic::branches::Branches::kernel_bit).
    pub(crate) hidden_address_mask: Word,
    /// Memory for the branches of a sample, for the overflow handler.
    pub(crate) stack: Scratch<BRANCH_WORDS>,
}

/// The bit of a trace in [`BranchState::interrupt_users`]. No counter has it.
pub(crate) const BRANCHES_OF_TRACE: u64 = 1 << 63;

/// The largest number of words of the branches in a sample.
pub(crate) const BRANCH_WORDS: usize = 3 * MAX_DEPTH as usize;
