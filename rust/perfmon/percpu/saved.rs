// SPDX-License-Identifier: GPL-2.0-only
//! Registers as they were before they became ours.

use super::Word;
use crate::logic::{counter::MAX_GENERAL, plan::RestoreValues};

/// The registers of the counters before the first one was set up.
pub(crate) struct SavedRegisters {
    pub(crate) select: [Word; MAX_GENERAL],
    pub(crate) fixed_control: Word,
    pub(crate) global_control: Word,
    pub(crate) lvtpc: Word,
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

/// The registers of the branch records before a trace recorded branches, and how the trace uses them.
pub(crate) struct SavedBranches {
    pub(crate) debugctl: Word,
    pub(crate) select: Word,
    /// `MSR_LBR_SELECT` while branches are recorded.
    pub(crate) filter: Word,
    /// The bit of addresses that must not be told, or none.
    pub(crate) kernel_bit: Word,
}
