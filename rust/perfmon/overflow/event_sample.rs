// SPDX-License-Identifier: GPL-2.0-only
//! The samples of events, which are written to rings.

use crate::{
    cpu::{timestamp, tsc_khz, Regs, ThisCpu},
    logic::{
        counter::{each_counter, CounterId},
        event_attr::PERF_SAMPLE_READ,
        pmu::Pmu,
        sampling::{missed_interval, period_for, Trigger},
    },
    percpu::{SampledCounter, Word},
    pmu::{read_sample_parts, SAMPLE_PARTS},
    ring::{Interrupt, PmuReadings, Sampler},
};

/// Takes the due sample of a counter with the total `total`, in an NMI that came at the time `now` and interrupted
/// `regs`. Returns the number of events to load the counter for.
#[inline(never)]
pub(super) fn take_sample(
    here: ThisCpu<'_>,
    counter: CounterId,
    total: u64,
    regs: Regs<'_>,
    now: u64,
) -> u64 {
    let percpu = here.percpu();
    let sampled = percpu.sampled_counter(counter);
    let Some(sampler) = percpu.sampler(counter) else {
        return sampled.max_load.get();
    };
    if percpu.samplers.suspended.get() != 0 {
        return sampled.max_load.get();
    }
    let period = sampled.period.get();
    let (events, events_since_due) = match sampler.sampling.trigger {
        // The timer may have shortened the period, so the sample stands for all events since the last sample.
        Trigger::Frequency(_) => (sampled.take_unrecorded(total), 0),
        Trigger::Never | Trigger::Period(_) => {
            (period, account_for_due_samples(sampled, sampler, total, 1))
        }
    };
    let pmu_readings;
    let readings = if sampler.sampling.format.has(SAMPLE_PARTS) {
        // SAFETY: `read_pmu_parts` must be called in this CPU's overflow handler, while the counter is armed, and not
        // again before its result is dropped. `handle_overflows`, the only caller of this function, runs in the
        // handler; the counter is armed, since it has a sampler; and the result is dropped when this function returns.
        pmu_readings = unsafe { read_pmu_parts(here, counter, sampler, (regs, now)) };
        if pmu_readings.is_none() {
            sampler.lose_sample();
            return sampled.events_to_load(sampled.period.get().saturating_sub(events_since_due));
        }
        pmu_readings.as_ref()
    } else {
        None
    };
    sampler.sample(Interrupt {
        place: regs.get(),
        task: percpu.task_of_sample(counter, sampler),
        period: events,
        cpu: here.id().as_u32(),
        readings,
        // SAFETY: `words` must be called by the overflow handler, and not again before its result is dropped. This is
        // the handler, it calls `words` here only, and the result is dropped when `sample` returns.
        chain: unsafe { percpu.samplers.chain.words() },
    });
    if let (Trigger::Frequency(_), Some(time)) =
        (sampler.sampling.trigger, percpu.sample_time(counter))
    {
        adjust_period(sampled, sampler, events, now.wrapping_sub(time.get()));
        time.set(now);
    }
    sampled.events_to_load(sampled.period.get().saturating_sub(events_since_due))
}

/// Adjusts the period of an event with a frequency after a sample, which stands for `events` events in `elapsed`
/// cycles.
#[inline(always)]
fn adjust_period(sampled: &SampledCounter, sampler: &Sampler, events: u64, elapsed: u64) {
    let period = sampled.period.get();
    let interval = sampler.interval(tsc_khz());
    let new_period = period_for_interval(events, elapsed, interval);
    sampled.period.set(if missed_interval(elapsed, interval) {
        new_period
    } else {
        // Changes the period by a quarter of the difference, so that a single slow sample has little effect.
        (period - period / 4).wrapping_add(new_period / 4).max(1)
    });
}

/// Reads the counts and branches of a sample. Returns `None` if a count that the sample needs is not available.
///
/// # Safety
///
/// To be called in this CPU's overflow handler, which has interrupted `regs`, while `counter` is armed, and not again before
/// the result is dropped.
#[cold]
#[inline(never)]
unsafe fn read_pmu_parts<'a>(
    here: ThisCpu<'a>,
    counter: CounterId,
    sampler: &Sampler,
    (regs, now): (Regs<'_>, u64),
) -> Option<PmuReadings<'a>> {
    let (percpu, pmu) = (here.percpu(), here.pmu());
    // The counts have to include the events of the processor's samples that are still in its buffer.
    let must_convert =
        sampler.sampling.format.has(PERF_SAMPLE_READ) && percpu.pebs.armed_counters.get() != 0;
    let paused_counters = if must_convert {
        Some(pmu.convert_records_in_nmi(here, regs)?)
    } else {
        None
    };
    // SAFETY: `read_sample_parts` must be called in this CPU's overflow handler, while the counter is armed, and not
    // again before its result is dropped: the caller promises all three for this function, which returns the result. The
    // readings of the processor's samples, which `convert_records_in_nmi` has written, were dropped by that function.
    let readings = unsafe { read_sample_parts(here, counter, sampler, now) };
    if let Some(paused_counters) = paused_counters {
        pmu.resume_precise(here, paused_counters);
    }
    readings
}

/// Marks all due samples as recorded. `written` is the number of samples that were written; the other due samples are
/// counted as lost, because the overflow came too late for them. Returns the number of events since the last due
/// sample.
#[inline(always)]
fn account_for_due_samples(
    sampled: &SampledCounter,
    sampler: &Sampler,
    total: u64,
    written: u64,
) -> u64 {
    let period = sampled.period.get();
    let unrecorded = sampled.unrecorded_events(total);
    let due_samples = if unrecorded < period.wrapping_mul(2) {
        u64::from(unrecorded >= period)
    } else {
        // The period of a sampled event is not 0.
        unrecorded.checked_div(period).unwrap_or(1)
    };
    if due_samples > written {
        sampler.lose_samples(due_samples.wrapping_sub(written));
    }
    let events_since_due = unrecorded.wrapping_sub(due_samples.wrapping_mul(period));
    sampled
        .recorded_total
        .set(total.wrapping_sub(events_since_due));
    events_since_due
}

/// Returns the period that gives one sample every `interval` cycles, for an event that happened
/// `counted` times in `elapsed` cycles.
#[cold]
fn period_for_interval(counted: u64, elapsed: u64, interval: u64) -> u64 {
    period_for(counted, elapsed, interval)
}

/// Suspends the samples of events until the next tick of the timer.
#[cold]
pub(super) fn suspend(here: ThisCpu<'_>) {
    let percpu = here.percpu();
    if percpu.samplers.suspended.get() != 0 {
        return;
    }
    percpu.samplers.suspended.set(timestamp() | 1);
    record_throttling(here, true);
}

/// Writes THROTTLE records for all sampled counters if `suspended`, otherwise UNTHROTTLE records.
fn record_throttling(here: ThisCpu<'_>, suspended: bool) {
    let percpu = here.percpu();
    for counter in each_counter(percpu.samplers.counters.get()) {
        let is_new = percpu.samplers.note_throttling(counter, suspended);
        if let Some(sampler) = percpu.sampler(counter).filter(|_| is_new) {
            let task = percpu.task_of_sample(counter, sampler);
            sampler.write_throttling(task, here.id().as_u32(), suspended);
        }
    }
}

/// Resumes sampling at a tick of the timer, if it is suspended.
pub(super) fn end_suspension(here: ThisCpu<'_>, pmu: &Pmu) {
    let percpu = here.percpu();
    let samplers = &percpu.samplers;
    if samplers.suspended.get() == 0 {
        return;
    }
    // The order matters, since an event that counts in kernel mode may overflow between these steps, and its NMI may
    // suspend sampling again. First the UNTHROTTLE record is written, so that it precedes the next sample and the
    // THROTTLE record of the next suspension. Sampling is resumed before the counters are loaded, since an overflow
    // while sampling is suspended loads its counter for `max_load` events.
    //
    // `with_records_converted` first empties the buffer of precise samples. These samples are lost, since sampling is
    // still suspended.
    pmu.with_records_converted(here, || {
        record_throttling(here, false);
        samplers.suspended.set(0);
        pmu.reload_precise(here, |counter, total| {
            let sampler = percpu.sampler(counter);
            sampler.map_or(0, |sampler| {
                lose_suspended_samples(here, counter, sampler, total)
            })
        });
    });
    for counter in each_counter(samplers.counters.get() & !percpu.pebs.armed_counters.get()) {
        resume_counter(here, pmu, counter);
    }
}

/// Shortens the periods of events with a frequency whose samples have become too rare, at a tick of the timer. Does
/// nothing while sampling is suspended.
pub(super) fn follow_frequencies(here: ThisCpu<'_>, pmu: &Pmu) {
    let percpu = here.percpu();
    let samplers = &percpu.samplers;
    if samplers.suspended.get() != 0 {
        return;
    }
    let mut precise = 0;
    for counter in each_counter(samplers.counters.get()) {
        let Some(sampler) = percpu.sampler(counter) else {
            continue;
        };
        let Trigger::Frequency(_) = sampler.sampling.trigger else {
            continue;
        };
        if sampler.sampling.is_precise {
            precise |= counter.bit();
            continue;
        }
        let elapsed = timestamp().wrapping_sub(percpu.sample_time(counter).map_or(0, Word::get));
        let interval = sampler.interval(tsc_khz());
        if missed_interval(elapsed, interval) {
            shorten_period(here, pmu, counter, elapsed, interval);
        }
    }
    if precise != 0 {
        pmu.follow_frequencies(here, precise);
    }
}

/// Loads a counter for its next sample after a suspension. The samples that were due during the suspension are counted
/// as lost.
fn resume_counter(here: ThisCpu<'_>, pmu: &Pmu, counter: CounterId) {
    // A precise event never has samples by interrupt, even while KVM is in use, so that the
    // processor takes no samples for the event.
    let Some(sampler) = here
        .percpu()
        .sampler(counter)
        .filter(|sampler| !sampler.sampling.is_precise)
    else {
        return;
    };
    pmu.reload(here, counter, |total| {
        lose_suspended_samples(here, counter, sampler, total)
    });
}

/// Counts the samples that were due in a suspension, up to the total `total`, as lost. Returns the number of events to
/// the next sample.
///
/// The period of an event with a frequency may have been far too short, which may be why sampling was suspended. So the
/// period is first made long enough for the frequency, and only as many samples are lost as the frequency asks for. The
/// time of the last sample becomes the time at which the last lost sample was due. Otherwise the next sample would seem
/// to come so late that the period would become too short again.
fn lose_suspended_samples(
    here: ThisCpu<'_>,
    counter: CounterId,
    sampler: &Sampler,
    total: u64,
) -> u64 {
    let percpu = here.percpu();
    let sampled = percpu.sampled_counter(counter);
    let (Trigger::Frequency(_), Some(time)) =
        (sampler.sampling.trigger, percpu.sample_time(counter))
    else {
        return lose_overdue_samples(sampled, sampler, total);
    };
    let (now, interval) = (timestamp(), sampler.interval(tsc_khz()));
    // The period of a precise event stays, since the processor loads the counter with it.
    if !sampler.sampling.is_precise {
        let elapsed = now.wrapping_sub(time.get());
        let period = period_for(sampled.unrecorded_events(total), elapsed, interval);
        sampled.period.set(sampled.period.get().max(period));
    }
    let events_left = lose_overdue_samples(sampled, sampler, total);
    let period = sampled.period.get();
    let cycles_since_due = period_for(period.saturating_sub(events_left), period, interval);
    time.set(now.wrapping_sub(cycles_since_due));
    events_left
}

/// Counts the samples that are due at the total `total` as lost. Returns the number of events to the next sample.
pub(super) fn lose_overdue_samples(sampled: &SampledCounter, sampler: &Sampler, total: u64) -> u64 {
    let events_since_due = account_for_due_samples(sampled, sampler, total, 0);
    sampled.period.get().saturating_sub(events_since_due)
}

/// Shortens the period of an event with a frequency, whose last sample was `elapsed` cycles ago. At the event's current
/// rate, the next sample is due after one `interval`; it stands for all events since the last sample.
///
/// Takes no sample at once, even if a sample is due, since its address would always be in this function.
fn shorten_period(here: ThisCpu<'_>, pmu: &Pmu, counter: CounterId, elapsed: u64, interval: u64) {
    let sampled = here.percpu().sampled_counter(counter);
    pmu.reload(here, counter, |total| {
        let events_since_sample = sampled.unrecorded_events(total);
        let events_left = sampled.period.get().saturating_sub(events_since_sample);
        let new_period = period_for_interval(events_since_sample, elapsed, interval);
        if events_left <= new_period {
            // With the current period the sample comes sooner than with the new one, so the period stays. If each tick
            // made the period longer, the sample of an event that becomes ever rarer would be delayed again and again.
            return events_left;
        }
        sampled
            .period
            .set(events_since_sample.wrapping_add(new_period));
        new_period
    });
}
