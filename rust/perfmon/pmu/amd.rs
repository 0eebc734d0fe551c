// SPDX-License-Identifier: GPL-2.0-only
//! AMD's PMU, as far as it differs from Intel's by more than register numbers.

use crate::{
    percpu::{PerCpu, SLOW_VENDOR},
    sys::time::jiffies_after,
};
use kernel::time::Msecs;

/// The longest time from an NMI that has served an overflow to the PMI of that overflow, in
/// milliseconds: as in Linux perf (arch/x86/events/amd/core.c).
const LATE_PMI_WINDOW: Msecs = 100;

/// AMD's bits of [`PerCpu::slow_path`]. With them each overflow takes the slow path, which calls
/// [`expect_late_pmis`].
pub(super) const SLOW_PATH: u64 = SLOW_VENDOR;

/// Opens the window for late PMIs.
pub(super) fn expect_late_pmis(percpu: &PerCpu) {
    percpu
        .pending_pmi
        .open_window(jiffies_after(LATE_PMI_WINDOW));
}
