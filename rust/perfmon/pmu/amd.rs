// SPDX-License-Identifier: GPL-2.0-only
//! What is special about AMD's PMU.

use crate::cpu::{jiffies, ThisCpu};
use kernel::time::msecs_to_jiffies;

/// How long after an overflow another interrupt may come for it, in milliseconds: as in Linux perf
/// (arch/x86/events/amd/core.c).
const LATE: u32 = 100;

/// As [`super::Maker::answer`].
pub(super) fn answer(here: &ThisCpu, served: u32) -> u32 {
    let slot = here.slot();
    if served != 0 {
        slot.late_until
            .set(jiffies() + msecs_to_jiffies(LATE) as u64);
        return served;
    }
    let in_time = slot.late_until.get().wrapping_sub(jiffies()) as i64 >= 0;
    slot.take_late().max(u32::from(in_time))
}
