// SPDX-License-Identifier: GPL-2.0-only
//! What is special about Intel's PMU.

use super::SKID;
use crate::cpu::{in_ticks, jiffies, Slot};
use core::hint;

/// As [`super::Maker::expect_after`]. Delivering a PMI masks the local APIC's entry, so PMIs are raised after
/// the handler only for what overflowed in it.
pub(super) fn expect_after(slot: &Slot, drained: bool) {
    if drained {
        let _ = slot.pending.expect(in_ticks(SKID));
    }
}

/// Waits for a late PMI, before the local APIC's entry is given back: delivering it would mask the entry for
/// its next user. Not for long: it may not come at all.
pub(super) fn await_late(slot: &Slot) {
    /// Takes longer than any skid, and some microseconds.
    const ROUNDS: u32 = 512;

    for _ in 0..ROUNDS {
        if !slot.pending.is_expected(jiffies()) {
            break;
        }
        hint::spin_loop();
    }
}
