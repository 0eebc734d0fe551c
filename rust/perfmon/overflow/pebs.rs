// SPDX-License-Identifier: GPL-2.0-only
//! The interrupt of a full buffer of the processor's samples.

use crate::{cpu::ThisCpu, logic::pmu::Pmu};

/// Takes the samples, in an NMI. Returns how many interrupts of the buffer it stands for.
///
/// Each NMI does this, whatever its cause. The buffer's interrupt is acknowledged while the counters stand still: no
/// record may fill the buffer before Linux perf's handler has looked, which follows in the same NMI while Intel PT is
/// in use. That handler would take the buffer for perf's own, which does not exist (`cpu_hw_events.ds` is null).
#[cold]
#[inline(never)]
pub(super) fn serve(here: ThisCpu<'_>, pmu: &Pmu) -> u32 {
    // Otherwise a task is reading the buffer.
    let paused = pmu.take_samples_in_nmi(here);
    let is_full = pmu.acknowledge_buffer(here);
    if let Some(paused) = paused {
        pmu.resume_precise(here, paused);
    }
    if is_full {
        here.percpu().pending.served();
    }
    is_full.into()
}
