// SPDX-License-Identifier: GPL-2.0-only
//! Intel's PMU, as far as it differs from AMD's by more than register numbers.

use super::skid::MAX_SKID;
use crate::{
    percpu::PerCpu,
    sys::time::{jiffies, jiffies_after},
};
use core::hint;

/// Expects a PMI for overflows that came while the handler ran. Delivering a PMI masks LVTPC (SDM volume 3A,
/// section 12.5.1), so only these overflows can raise a PMI after the handler has served them.
pub(super) fn expect_late_pmis(percpu: &PerCpu, has_drained: bool) {
    if has_drained {
        // The expectation lasts one tick longer than the expectation of a task that stops a
        // counter. So if the handler has interrupted such a task in the same tick, the task's
        // `cancel` does not mistake this expectation for its own.
        let expected_until = jiffies_after(MAX_SKID).wrapping_add(1);
        let _ = percpu.pending_pmi.expect(expected_until);
    }
}

/// Waits for a late PMI, which would mask LVTPC for its next owner. The wait is short, since the PMI may not come at
/// all.
pub(super) fn await_late_pmi(percpu: &PerCpu) {
    /// The number of polls, which together take some microseconds: longer than any skid.
    const MAX_POLLS: u32 = 512;

    for _ in 0..MAX_POLLS {
        if !percpu.pending_pmi.is_expected(jiffies()) {
            break;
        }
        hint::spin_loop();
    }
}
