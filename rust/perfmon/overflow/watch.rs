// SPDX-License-Identifier: GPL-2.0-only
//! The timer that watches a CPU while counters are active. At each tick it refills the budget of the overflow
//! handler, resumes sampling, shortens periods of events whose samples are too rare for their frequency, repairs
//! registers that other software has changed, and finds overflows whose PMI was lost. For the values of
//! a trace the timer also runs without active counters, but ticks less often. At the same tick, counters of events that
//! were tampered with are set up anew, and events take turns (`Ticks` in perfmon_main.rs).

use super::{
    event_sample,
    suspend::{end_suspension, restart_after_lost_pmi},
};
use crate::{
    cpu::{timer, timestamp, ThisCpu},
    logic::{counter::each_counter, pmu::Pmu},
    percpu::TIMER_SLOW,
    pmu::values,
    sys::wait::wake_cycles,
};
use core::num::NonZeroU64;

/// The work at each tick of a CPU's timer, which [`Pmu::start`] starts.
pub(crate) struct Watch;

impl timer::Tick for Watch {
    fn tick(here: ThisCpu<'_>) -> Option<NonZeroU64> {
        let (percpu, pmu) = (here.percpu(), here.pmu());
        percpu.budget.refill(&pmu.throttle_limits, wake_cycles());
        let is_idle = percpu.running_counters() == 0;
        // If no counter runs, the suspension ends now, since no later tick would end it.
        if percpu
            .watch
            .resumes_sampling(&pmu.throttle_limits, timestamp())
            || is_idle
        {
            end_suspension(here, pmu);
            event_sample::end_suspension(here, pmu);
        }
        event_sample::follow_frequencies(here, pmu);
        values::refresh(here);
        if percpu.pebs.armed_counters.get() != 0 {
            pmu.yield_to_guests(here);
        }
        let active = percpu.active_mask.get();
        if is_idle {
            let next_tick_ns = NonZeroU64::new(values::slow_timer_period(percpu));
            percpu.watch.timer_mode.set(if next_tick_ns.is_some() {
                TIMER_SLOW
            } else {
                0
            });
            return next_tick_ns;
        }
        pmu.repair(here);
        find_lost_pmis(here, pmu, active);
        NonZeroU64::new(timer::period_ns())
    }
}

/// Updates the active counters, and restarts the counters that overflowed before the last tick and have not been loaded
/// since: their PMI was lost, and their next PMI would come only after half of their range.
fn find_lost_pmis(here: ThisCpu<'_>, pmu: &Pmu, active: u64) {
    let percpu = here.percpu();
    let watch = &percpu.watch;
    let (mut overflowed_counters, mut lost_counters) = (0, 0);
    for counter in each_counter(active) {
        pmu.update(here, counter);
        let value = percpu.value(counter);
        if value.has_overflowed(here, pmu.msrs(counter).read) {
            if watch.is_stuck(counter, value.load_id()) {
                lost_counters |= counter.bit();
            } else {
                overflowed_counters |= counter.bit();
            }
        }
    }
    watch.overflowed_counters.set(overflowed_counters);
    let sampled_counters = percpu.trace.sampled_counters();
    if lost_counters & sampled_counters != 0 {
        restart_after_lost_pmi(here, pmu);
    }
    // Counters that the trace does not sample only have to be restarted: their totals are up to
    // date.
    for counter in each_counter(lost_counters & !sampled_counters & percpu.active_mask.get()) {
        pmu.stop_unchecked(here, counter);
        pmu.start(here, counter);
    }
    pmu.stop_trace_if_full(here);
    percpu.correct_pages();
}
