// SPDX-License-Identifier: GPL-2.0-only
//! Suspending the samples of one CPU: until the next tick if they take too much of the CPU's time, and until the trace
//! ends if the CPU's buffer is full. While sampling is suspended until a tick, the counters keep counting, so that sums
//! stay exact.

use super::event_sample;
use crate::{
    abi,
    cpu::ThisCpu,
    logic::{counter::each_counter, pmu::Pmu},
};

/// Suspends the samples of events and of a trace on this CPU until the next tick of the timer.
#[cold]
pub(super) fn suspend(here: ThisCpu<'_>) {
    if here.percpu().samplers.counters.get() != 0 {
        event_sample::suspend(here);
    }
    let trace = &here.percpu().trace;
    if trace.sampled_counters() != 0 && trace.full.get() == 0 {
        trace.block_handler();
        trace.set_buffer_flags(abi::PERFMON_BUFFER_FLAG_THROTTLED);
    }
}

/// Resumes the samples of a trace at a tick of the timer, if the samples are suspended.
pub(super) fn end_suspension(here: ThisCpu<'_>, pmu: &Pmu) {
    let trace = &here.percpu().trace;
    if trace.suspended.get() != 0 && trace.sampled_counters() != 0 && trace.full.get() == 0 {
        restart_counters(here, pmu);
    }
}

/// Restarts the samples of a trace after a PMI was lost, since the counter of a lost PMI would not overflow again for
/// a long time.
pub(super) fn restart_after_lost_pmi(here: ThisCpu<'_>, pmu: &Pmu) {
    let trace = &here.percpu().trace;
    trace.mark_lost();
    if trace.full.get() == 0 {
        trace.block_handler();
        restart_counters(here, pmu);
    }
}

/// Writes COUNT records with the events since the last samples, and begins new periods. The caller must have blocked
/// the overflow handler.
fn restart_counters(here: ThisCpu<'_>, pmu: &Pmu) {
    let percpu = here.percpu();
    let trace = &percpu.trace;
    let sampled_counters = trace.sampled_counters.get();
    if trace.sample_start.get() > trace.last_start.get() {
        return stop_full_trace(here, pmu);
    }
    // The counters are stopped, because the handler still extends counters that overflow, and would change totals while
    // their counts are written.
    for counter in each_counter(sampled_counters) {
        pmu.stop_unchecked(here, counter);
    }
    // SAFETY: `write_counts` requires a trace that is recorded, which it is if a counter is sampled for it; room,
    // since `sample_start` is at most `last_start`; and no other writer: the handler is blocked.
    unsafe { percpu.write_counts(sampled_counters, |writer| writer) };
    trace.unblock_handler();
    // A counter that counts in kernel mode may fill the buffer before the others are started.
    for counter in each_counter(sampled_counters).take_while(|_| trace.full.get() == 0) {
        let value = percpu.value(counter);
        let events = percpu.sampled_counter(counter).events_to_load_for_period();
        value.load(here, pmu.msrs(counter).write, events, value.total());
        pmu.start(here, counter);
    }
    pmu.stop_trace_if_full(here);
}

/// Stops the trace's counters after a record could not be written, unless sampling is suspended: then records are
/// refused although the buffer may have room.
#[cold]
pub(super) fn stop_if_full(here: ThisCpu<'_>, pmu: &Pmu) {
    if here.percpu().trace.suspended.get() == 0 {
        stop_full_trace(here, pmu);
    }
}

/// Stops the trace's counters, and marks the buffer as full.
#[cold]
fn stop_full_trace(here: ThisCpu<'_>, pmu: &Pmu) {
    let percpu = here.percpu();
    let trace = &percpu.trace;
    trace.full.set(1);
    trace.set_buffer_flags(abi::PERFMON_BUFFER_FLAG_FULL);
    percpu.handler_stops.increment();
    pmu.stop_trace_if_full(here);
}
