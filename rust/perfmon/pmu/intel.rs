// SPDX-License-Identifier: GPL-2.0-only
//! What is special about Intel's PMU.

use super::Lvtpc;
use crate::cpu::ThisCpu;

/// As [`super::Maker::unmask`].
#[inline(always)]
pub(super) fn unmask(here: &ThisCpu) {
    // Delivering an interrupt masks the entry (SDM volume 3A, section 12.5.1).
    Lvtpc::NMI.write(here);
}

/// As [`super::Maker::answer`].
#[inline(always)]
pub(super) fn answer(here: &ThisCpu, served: u32) -> u32 {
    let slot = here.slot();
    if served == 0 {
        return slot.is_late().into();
    }
    // Of several at once only one is delivered.
    slot.take_late();
    served
}
