// SPDX-License-Identifier: GPL-2.0-only
//! The interrupt of a full buffer of the processor's samples.

use crate::{cpu::ThisCpu, logic::pmu::Pmu};

/// Takes the samples, in an NMI. Returns how many interrupts of the buffer it stands for.
///
/// That is done in each NMI, whatever its cause, and the buffer's interrupt is acknowledged while the counters stand
/// still: no record may fill the buffer before Linux perf's handler has looked, which follows in the same NMI while Intel PT
/// is in use. It would take the buffer for perf's own, which is not there (`cpu_hw_events.ds` is null).
#[cold]
#[inline(never)]
pub(super) fn serve(here: ThisCpu<'_>, pmu: &Pmu) -> u32 {
    // Otherwise a task is reading the buffer.
    let resting = pmu.take_samples_in_nmi(here);
    let is_full = pmu.acknowledge_buffer(here);
    if let Some(resting) = resting {
        pmu.end_rest(here, resting);
    }
    if is_full {
        here.percpu().pending.served();
    }
    is_full.into()
}
