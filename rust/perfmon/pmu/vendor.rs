// SPDX-License-Identifier: GPL-2.0-only
//! Dispatch by vendor. No other file of the module depends on the vendor.

use super::{amd, intel};
use crate::{logic::pmu::Vendor, percpu::PerCpu};

impl Vendor {
    /// Returns the vendor's bits of [`PerCpu::slow_path`].
    pub(crate) fn slow_path(self) -> u64 {
        match self {
            Self::Intel => 0,
            Self::Amd => amd::SLOW_PATH,
        }
    }

    /// Expects the PMIs that may come after an NMI has served all overflows. `has_drained` says that some of the
    /// overflows came while the handler ran.
    pub(crate) fn expect_late_pmis(self, percpu: &PerCpu, has_drained: bool) {
        match self {
            Self::Intel => intel::expect_late_pmis(percpu, has_drained),
            Self::Amd => amd::expect_late_pmis(percpu),
        }
    }

    /// Waits for a late PMI before LVTPC gets its old value back: the PMI would mask the entry of the next owner.
    pub(crate) fn await_late_pmi(self, percpu: &PerCpu) {
        match self {
            Self::Intel => intel::await_late_pmi(percpu),
            Self::Amd => {}
        }
    }
}
