// SPDX-License-Identifier: GPL-2.0-only
//! Suspending the samples of one CPU: for a tick when they take too much of its time, for good when its buffer is
//! full. The counters of a suspended CPU count on, so that the sum stays exact.

use super::event_sample;
use crate::{
    abi,
    cpu::ThisCpu,
    logic::{counter::each, pmu::Pmu},
};

/// Suspends sampling until the next tick of the timer.
#[cold]
pub(super) fn suspend(here: ThisCpu<'_>) {
    if here.percpu().samplers.counters.get() != 0 {
        event_sample::suspend(here);
    }
    let trace = &here.percpu().trace;
    if trace.sampled() != 0 && trace.full.get() == 0 {
        trace.block_handler();
        trace.mark(abi::PERFMON_BUFFER_FLAG_THROTTLED);
    }
}

/// Ends a suspension, at a tick of the timer.
pub(super) fn end_suspension(here: ThisCpu<'_>, pmu: &Pmu) {
    let trace = &here.percpu().trace;
    if trace.suspended.get() != 0 && trace.sampled() != 0 && trace.full.get() == 0 {
        restart_counters(here, pmu);
    }
}

/// Restarts sampling after a PMI has been lost, whose counter would not overflow for long.
pub(super) fn restart_after_lost_pmi(here: ThisCpu<'_>, pmu: &Pmu) {
    let trace = &here.percpu().trace;
    trace.mark_lost();
    if trace.full.get() == 0 {
        trace.block_handler();
        restart_counters(here, pmu);
    }
}

/// Writes COUNT records of the events since the last samples, and begins new periods. The handler is blocked.
fn restart_counters(here: ThisCpu<'_>, pmu: &Pmu) {
    let percpu = here.percpu();
    let trace = &percpu.trace;
    let sampled = trace.sampled.get();
    if trace.sample_start.get() > trace.last_start.get() {
        return stop_full_trace(here, pmu);
    }
    // The handler, which still extends counters, must not come between.
    for counter in each(sampled) {
        pmu.stop_unchecked(here, counter);
    }
    // SAFETY: A trace that is sampled is recorded. There is room, as has just been seen, and the blocked handler
    // does not write.
    unsafe { percpu.write_counts(sampled, |writer| writer) };
    trace.unblock_handler();
    for counter in each(sampled) {
        let value = percpu.value(counter);
        let events = percpu.sampled(counter).load_for_period();
        value.load(here, pmu.msrs(counter).write, events, value.total());
        pmu.start(here, counter);
    }
}

/// Stops the trace's counters, because a sample did not fit into the buffer; nothing if sampling is suspended.
#[cold]
pub(super) fn stop_if_full(here: ThisCpu<'_>, pmu: &Pmu) {
    if here.percpu().trace.suspended.get() == 0 {
        stop_full_trace(here, pmu);
    }
}

/// Stops the trace's counters: the buffer is full.
#[cold]
fn stop_full_trace(here: ThisCpu<'_>, pmu: &Pmu) {
    let percpu = here.percpu();
    let trace = &percpu.trace;
    trace.full.set(1);
    trace.mark(abi::PERFMON_BUFFER_FLAG_FULL);
    percpu.handler_stops.increment();
    for counter in each(trace.counters.get() & percpu.active_mask.get()) {
        pmu.stop_unchecked(here, counter);
    }
}
