// SPDX-License-Identifier: GPL-2.0-only
//! What is special about AMD's PMU.

use crate::cpu::ThisCpu;
use kernel::time::Msecs;

/// How long after an overflow another interrupt may come for it, in milliseconds: as in Linux perf
/// (arch/x86/events/amd/core.c).
const LATE: Msecs = 100;

/// As [`super::Maker::answer`].
pub(super) fn answer(here: &ThisCpu, served: u32) -> u32 {
    let slot = here.slot();
    if served == 0 {
        return slot.is_late().into();
    }
    slot.expect_late_for(LATE);
    served
}
