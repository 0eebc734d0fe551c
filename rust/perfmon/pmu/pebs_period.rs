// SPDX-License-Identifier: GPL-2.0-only
//! The periods of events with a frequency whose samples the processor takes (PEBS). A period changes only when the
//! buffer has just been emptied, so that all records in the buffer have the same period. The timer empties the buffer
//! at each tick; if samples come much faster than they should, an interrupt empties it earlier.

use crate::{
    cpu::{timer, timestamp, tsc_khz, ThisCpu},
    logic::{
        counter::{each_counter, CounterId},
        pebs::PebsFormat,
        pmu::Pmu,
        precise::{closest_period, records_to_interrupt, records_to_interrupt_if_overdue},
        sampling::{missed_interval, period_for, Trigger},
    },
};

impl Pmu {
    /// Sets the number of records that causes an interrupt:
    ///
    /// - One, if each sample of an armed counter needs an interrupt.
    /// - Few, if all armed counters have a frequency, or while a sample is overdue.
    /// - The number that the buffer has room for, otherwise.
    pub(super) fn set_pebs_thresholds(&self, here: ThisCpu<'_>, format: PebsFormat) {
        let percpu = here.percpu();
        if percpu.pebs.counters_with_interrupt_per_record.get() != 0 {
            return percpu.pebs.set_thresholds(1, 1, format);
        }
        let records =
            each_counter(percpu.pebs.armed_counters.get()).try_fold(0_u64, |sum, counter| {
                let sampler = percpu.sampler(counter)?;
                match sampler.sampling.trigger {
                    Trigger::Frequency(_) => {
                        let frequency = sampler.period_or_frequency();
                        Some(
                            sum.saturating_add(records_to_interrupt(frequency, timer::period_ns())),
                        )
                    }
                    Trigger::Never | Trigger::Period(_) => None,
                }
            });
        let kernel_counters = percpu.pebs.armed_counters.get() & percpu.slow_path.get();
        percpu.pebs.set_thresholds(
            records.unwrap_or(u64::MAX),
            records_to_interrupt_if_overdue(kernel_counters.count_ones()),
            format,
        );
    }

    /// Changes the periods to the periods that were computed from the samples in the buffer, which
    /// has just been emptied. The counters must not count meanwhile.
    pub(super) fn apply_next_periods(&self, here: ThisCpu<'_>) {
        let percpu = here.percpu();
        for counter in each_counter(percpu.pebs.armed_counters.get()) {
            let Some(next) = percpu.next_period(counter) else {
                continue;
            };
            if next.get() != 0 {
                self.change_period(here, counter, next.get());
                next.set(0);
            }
        }
    }

    /// Converts the records that the processor has written so far to samples, and shortens the periods of `counters`,
    /// whose events have a frequency, if their samples have become too rare. For the timer.
    pub(crate) fn follow_frequencies(&self, here: ThisCpu<'_>, counters: u64) {
        let percpu = here.percpu();
        self.with_records_converted(here, || {
            for counter in each_counter(counters & percpu.pebs.armed_counters.get()) {
                let (Some(sampler), Some(time)) =
                    (percpu.sampler(counter), percpu.sample_time(counter))
                else {
                    continue;
                };
                let elapsed = timestamp().wrapping_sub(time.get());
                let interval = sampler.interval(tsc_khz());
                if missed_interval(elapsed, interval) {
                    self.shorten_precise_period(here, counter, elapsed, interval);
                }
            }
        });
    }

    /// Shortens the period of an event whose last sample was `elapsed` cycles ago. The next sample comes after as many
    /// events as occur in one `interval` at the present rate, and its period includes the events since the last sample.
    fn shorten_precise_period(
        &self,
        here: ThisCpu<'_>,
        counter: CounterId,
        elapsed: u64,
        interval: u64,
    ) {
        let percpu = here.percpu();
        let sampled = percpu.sampled_counter(counter);
        let total = percpu
            .value(counter)
            .update_in_nmi(here, self.msrs(counter).read);
        let events_since_sample = sampled.unrecorded_events(total);
        let events_left = sampled.period.get().saturating_sub(events_since_sample);
        let new_events_left = period_for(events_since_sample, elapsed, interval);
        // The period is not made longer: at each tick that would delay the sample of an event that becomes ever rarer.
        if new_events_left < events_left {
            self.change_period(
                here,
                counter,
                events_since_sample.saturating_add(new_events_left),
            );
        }
    }

    /// Makes `wanted_period`, or the closest allowed number, the period of the next sample and of all later samples.
    /// The buffer must be empty. Does nothing if the next sample is due or overdue.
    #[cold]
    #[inline(never)]
    fn change_period(&self, here: ThisCpu<'_>, counter: CounterId, wanted_period: u64) {
        let Some(format) = self.capabilities.pebs else {
            return;
        };
        let percpu = here.percpu();
        let (value, sampled) = (percpu.value(counter), percpu.sampled_counter(counter));
        let (select, old_period) = (value.select(), sampled.period.get());
        let total = value.update_in_nmi(here, self.msrs(counter).read);
        let events_since_sample = sampled.unrecorded_events(total);
        let is_overdue = percpu.pebs.overdue_counters.get() & counter.bit() != 0;
        // After an overflow without a record, the processor writes the record and loads the counter at the next event.
        if is_overdue || events_since_sample >= old_period {
            return;
        }
        let min_period = events_since_sample.saturating_add(self.min_precise_load(select).into());
        let period = closest_period(wanted_period.max(min_period), select, &self.capabilities);
        if period == old_period || period < min_period {
            return;
        }
        sampled.period.set(period);
        let events_left = period.wrapping_sub(events_since_sample);
        value.load(here, self.msrs(counter).write, events_left, total);
        percpu
            .pebs
            .set_ds_word(format.reset_word(counter), value.load_value(period));
    }
}
