// SPDX-License-Identifier: GPL-2.0-only
//! The position of a slot between two samples of its event.

use crate::{
    cpu::tsc_khz,
    logic::{
        precise::stays_overdue,
        sampling::{period_for, Trigger},
    },
    ring::Sampler,
};

/// The position of a slot between two samples of its event.
#[derive(Clone, Copy)]
pub(super) struct Phase {
    /// The period or the frequency ([`Sampler::period_or_frequency`]) that the other fields were computed from.
    period_or_frequency: u64,
    /// The number of events from one sample to the next; 0 if the event is not sampled.
    pub(super) period: u64,
    /// The number of events to the next sample, as an `i64`: 0 or negative if the sample is overdue. Between
    /// `Slot::disarm_counter` and `Slot::update_events_left`, this is the counter's total at the next sample instead.
    pub(super) events_left: u64,
    /// The time since the last sample, in TSC cycles.
    pub(super) elapsed_cycles: u64,
}

/// The number of events per second that is assumed for the first period of an event with a frequency: one event per cycle
/// at 1 GHz. The first samples adjust the period.
const ASSUMED_EVENTS_PER_SECOND: u64 = 1_000_000_000;

impl Phase {
    /// Returns the position at the beginning of a period.
    pub(super) fn new(sampler: &Sampler) -> Self {
        let period_or_frequency = sampler.period_or_frequency();
        let period = match sampler.sampling.trigger {
            Trigger::Never => 0,
            Trigger::Period(_) => period_or_frequency,
            Trigger::Frequency(_) => ASSUMED_EVENTS_PER_SECOND
                .checked_div(period_or_frequency)
                .unwrap_or(0)
                .max(1),
        };
        Self {
            period_or_frequency,
            period,
            events_left: period,
            elapsed_cycles: 0,
        }
    }

    /// Applies a change of the event's period or frequency. A new period takes effect at once, and so does a new
    /// frequency before the first window. After the first window, a new frequency leaves the period as it is, and the
    /// next samples adjust it.
    pub(super) fn apply_period_change(&mut self, sampler: &Sampler) {
        if self.period_or_frequency == sampler.period_or_frequency() {
            return;
        }
        match sampler.sampling.trigger {
            Trigger::Frequency(_) if self.elapsed_cycles != 0 => {
                self.period_or_frequency = sampler.period_or_frequency();
            }
            Trigger::Frequency(_) => *self = Self::new(sampler),
            Trigger::Never | Trigger::Period(_) => {
                self.lose_overdue_samples(sampler);
                *self = Self::new(sampler);
            }
        }
    }

    /// Changes the period of the next samples. The sample that is due next comes later or earlier by the difference.
    pub(super) fn change_period(&mut self, period: u64) {
        let difference = period.wrapping_sub(self.period);
        self.events_left = self.events_left.wrapping_add(difference);
        self.period = period;
    }

    /// Returns the number of samples that are overdue.
    pub(super) fn overdue_samples(&self) -> u64 {
        let events_left = self.events_left as i64;
        if self.period == 0 || events_left > 0 {
            0
        } else {
            1 + events_left
                .unsigned_abs()
                .checked_div(self.period)
                .unwrap_or(0)
        }
    }

    /// Counts the samples that were due in a suspension as lost. With a frequency, their number follows from the period that
    /// the frequency demands, and the next adjustment of the period does not include the time of the suspension.
    pub(super) fn end_suspension(&mut self, sampler: &Sampler) {
        if let Trigger::Frequency(_) = sampler.sampling.trigger {
            let events = self.period.wrapping_sub(self.events_left);
            let interval = sampler.interval(tsc_khz());
            let period = period_for(events, self.elapsed_cycles, interval);
            // The period of precise samples is already in the processor, so it is not changed here.
            if !sampler.sampling.is_precise && period > self.period {
                self.change_period(period);
            }
            self.elapsed_cycles = 0;
        }
        self.skip_overdue_samples(sampler);
    }

    /// Counts the overdue samples as lost. The next sample is due at the end of the period in which the event is now.
    pub(super) fn skip_overdue_samples(&mut self, sampler: &Sampler) {
        let skipped_events = self.overdue_samples().wrapping_mul(self.period);
        self.lose_overdue_samples(sampler);
        self.events_left = self.events_left.wrapping_add(skipped_events);
    }

    /// Returns the period for the next sample, on a counter that can't be loaded for fewer than `min_load` events. If the
    /// sample is due earlier than after `min_load` events, the period is longer by the difference, so that the samples'
    /// periods still add up to the count.
    pub(super) fn period_for_load(&self, min_load: u64) -> u64 {
        if (1..min_load).contains(&self.events_left) {
            let missing_events = min_load.wrapping_sub(self.events_left);
            self.period.wrapping_add(missing_events)
        } else {
            self.period
        }
    }

    /// Prepares the position for precise samples (PEBS), whose counter can't be loaded for fewer than `min_load` events.
    /// With a frequency, the next sample also stands for the overdue events, as a sample by interrupt does. With a period,
    /// overdue samples are lost in two cases:
    ///
    /// - The event is a whole period or more behind: the processor would never make up for the
    ///   delay.
    /// - Each sample after the overdue one would be overdue, too.
    pub(super) fn prepare_precise(&mut self, sampler: &Sampler, min_load: u64) {
        match sampler.sampling.trigger {
            Trigger::Frequency(_) if (self.events_left as i64) < min_load as i64 => {
                self.events_left = min_load;
            }
            Trigger::Period(_) if stays_overdue(self.events_left, self.period, min_load) => {
                self.skip_overdue_samples(sampler);
            }
            Trigger::Never | Trigger::Period(_) | Trigger::Frequency(_) => {}
        }
    }

    /// Counts the overdue samples as lost, for a slot that takes no samples any more or begins a new period.
    pub(super) fn lose_overdue_samples(&self, sampler: &Sampler) {
        let overdue_samples = self.overdue_samples();
        if overdue_samples != 0 {
            sampler.lose_samples(overdue_samples);
        }
    }
}
