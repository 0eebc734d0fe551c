// SPDX-License-Identifier: GPL-2.0-only
//! The interrupt of a nearly full buffer of the processor's samples (PEBS).

use super::event_sample::lose_overdue_samples;
use crate::{
    cpu::{Regs, ThisCpu},
    logic::pmu::Pmu,
};

/// Takes the processor's samples from the buffer, in an NMI that has interrupted `regs`. Returns the number of buffer
/// interrupts that the NMI stands for.
///
/// While the processor takes samples, each NMI calls this, whatever its cause. The counters are stopped while the
/// interrupt is acknowledged, because the buffer must not be full when this returns: with a place-holder, or while
/// Intel PT is in use, Linux perf's handler runs next in the same NMI. If the buffer were full, perf would discard the
/// records (with a place-holder), or read its own buffer, whose pointer (`cpu_hw_events.ds`) is null.
#[cold]
#[inline(never)]
pub(super) fn serve(here: ThisCpu<'_>, pmu: &Pmu, regs: Regs<'_>) -> u32 {
    // `None` if the NMI has interrupted code that is reading the buffer and has paused the counters.
    let paused = pmu.convert_records_in_nmi(here, regs);
    let is_full = pmu.acknowledge_buffer(here);
    if let Some(paused) = paused {
        pmu.delay_kernel_records(here, |counter, sampler, total| {
            lose_overdue_samples(here.percpu().sampled_counter(counter), sampler, total)
        });
        pmu.resume_precise(here, paused);
    }
    if is_full {
        here.percpu().pending_pmi.end_expectation();
    }
    is_full.into()
}
