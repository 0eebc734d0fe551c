// SPDX-License-Identifier: GPL-2.0-only
//! What is special about AMD's PMU.

use crate::cpu::{in_ticks, Slot};
use kernel::time::Msecs;

/// How late a PMI may be after an NMI has served its overflow, in milliseconds: as in Linux perf
/// (arch/x86/events/amd/core.c).
const LATE: Msecs = 100;

/// As [`super::Maker::expect_after`].
pub(super) fn expect_after(slot: &Slot) {
    slot.pending.open_window(in_ticks(LATE));
}
