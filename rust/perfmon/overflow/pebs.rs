// SPDX-License-Identifier: GPL-2.0-only
//! The interrupt of a nearly full buffer of the processor's samples (PEBS).

use crate::{cpu::ThisCpu, logic::pmu::Pmu};

/// Takes the processor's samples from the buffer, in an NMI. Returns the number of buffer interrupts that the NMI
/// stands for.
///
/// Called by each NMI, whatever its cause. The buffer's interrupt is acknowledged while the counters are stopped, so
/// that no record can fill the buffer again before Linux perf's handler has run, which follows in the same NMI while
/// Intel PT is in use. That handler would take a full buffer for perf's own, which does not exist (`cpu_hw_events.ds`
/// is null).
#[cold]
#[inline(never)]
pub(super) fn serve(here: ThisCpu<'_>, pmu: &Pmu) -> u32 {
    // `None` if the NMI has interrupted a task that is reading the buffer.
    let paused = pmu.convert_records_in_nmi(here);
    let is_full = pmu.acknowledge_buffer(here);
    if let Some(paused) = paused {
        pmu.resume_precise(here, paused);
    }
    if is_full {
        here.percpu().pending_pmi.end_expectation();
    }
    is_full.into()
}
