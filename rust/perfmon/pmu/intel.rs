// SPDX-License-Identifier: GPL-2.0-only
//! What is special about Intel's PMU.

use super::{Lvtpc, Pmu};
use crate::cpu::ThisCpu;

/// Intel's architectural performance monitoring.
pub(super) struct Intel;

impl Pmu for Intel {
    fn unmask(&self, here: &ThisCpu) {
        // Delivering an interrupt masks the entry (SDM volume 3A, section 12.5.1).
        Lvtpc::NMI.write(here);
    }

    fn answer(&self, here: &ThisCpu, served: u32) -> u32 {
        served.max(here.slot().take_late())
    }
}
