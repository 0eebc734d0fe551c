// SPDX-License-Identifier: GPL-2.0-only
//! Where a slot is between two samples of its event.

use crate::{logic::sampling::Trigger, ring::Sampler};

/// Where a slot is between two samples of its event.
#[derive(Clone, Copy)]
pub(super) struct Phase {
    /// The period or the frequency ([`Sampler::period_or_frequency`]) that this was computed from.
    period_or_frequency: u64,
    /// The events from one sample to the next; 0 if the event is not sampled.
    pub(super) period: u64,
    /// The events to the next sample; negative if it is overdue. While the window is open, the counter's total then.
    pub(super) left: u64,
    /// The time since the last sample, in cycles of the time-stamp counter.
    pub(super) elapsed: u64,
}

/// The first period of an event with a frequency, which is soon adjusted: that of an event that comes once in a cycle of
/// a processor of 1 GHz.
const EVENTS_PER_SECOND: u64 = 1_000_000_000;

impl Phase {
    /// Returns the beginning of a period.
    pub(super) fn new(sampler: &Sampler) -> Self {
        let period_or_frequency = sampler.period_or_frequency();
        let period = match sampler.sampling.trigger {
            Trigger::Never => 0,
            Trigger::Period(_) => period_or_frequency,
            Trigger::Frequency(_) => EVENTS_PER_SECOND
                .checked_div(period_or_frequency)
                .unwrap_or(0)
                .max(1),
        };
        Self {
            period_or_frequency,
            period,
            left: period,
            elapsed: 0,
        }
    }

    /// Follows a change of the period or the frequency. A new period takes effect at once; so does a new frequency if no
    /// window was opened yet. Later, a frequency finds its period with the next samples, which stand for what was counted before, too.
    pub(super) fn follow_period(&mut self, sampler: &Sampler) {
        if self.period_or_frequency == sampler.period_or_frequency() {
            return;
        }
        match sampler.sampling.trigger {
            Trigger::Frequency(_) if self.elapsed != 0 => {
                self.period_or_frequency = sampler.period_or_frequency();
            }
            Trigger::Frequency(_) => *self = Self::new(sampler),
            Trigger::Never | Trigger::Period(_) => {
                self.end(sampler);
                *self = Self::new(sampler);
            }
        }
    }

    /// Returns how many samples are due that will not be taken any more.
    pub(super) fn overdue(&self) -> u64 {
        let left = self.left as i64;
        if self.period == 0 || left > 0 {
            0
        } else {
            1 + left.unsigned_abs().checked_div(self.period).unwrap_or(0)
        }
    }

    /// Notes that the slot, whose window is closed, takes no samples any more.
    pub(super) fn end(&self, sampler: &Sampler) {
        let overdue = self.overdue();
        if overdue != 0 {
            sampler.lose(overdue);
        }
    }
}
