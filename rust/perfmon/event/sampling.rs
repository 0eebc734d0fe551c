// SPDX-License-Identifier: GPL-2.0-only
//! The samples of a slot: where between two of them its event is while the window is closed.

use super::{event::Event, slot::Slot};
use crate::{
    cpu::ThisCpu,
    logic::sampling::Rate,
    percpu::{Armed, PerCpu},
    ring::Sampler,
};

/// Where a slot is between two samples of its event.
#[derive(Clone, Copy)]
pub(super) struct Phase {
    /// [`Sampler::rate`] that this was made for.
    rate: u64,
    /// The events from one sample to the next; 0 if the event is not sampled.
    period: u64,
    /// The events to the next sample; negative if it is overdue. While the window is open, the counter's total then.
    left: u64,
    /// The time since the last sample, in cycles of the time-stamp counter.
    elapsed: u64,
}

/// The first period of an event with a frequency, which is soon adjusted: that of an event that comes once in a cycle of
/// a processor of 1 GHz.
const EVENTS_PER_SECOND: u64 = 1_000_000_000;

impl Phase {
    /// Returns the beginning of a period.
    pub(super) fn new(sampler: &Sampler) -> Self {
        let rate = sampler.rate();
        let period = match sampler.sampling.rate {
            Rate::Never => 0,
            Rate::Period(_) => rate,
            Rate::Frequency(_) => EVENTS_PER_SECOND.checked_div(rate).unwrap_or(0).max(1),
        };
        Self {
            rate,
            period,
            left: period,
            elapsed: 0,
        }
    }

    /// Returns how many samples are due that will not be taken any more.
    fn overdue(&self) -> u64 {
        let left = self.left as i64;
        if self.period == 0 || left > 0 {
            0
        } else {
            1 + left.unsigned_abs().checked_div(self.period).unwrap_or(0)
        }
    }
}

/// Notes that a slot whose window is closed takes no samples any more.
pub(super) fn end(event: &Event, phase: &Phase) {
    let overdue = phase.overdue();
    if overdue != 0 {
        event.sampler.lose(overdue);
    }
}

impl Slot {
    /// Makes overflows of the counter samples. The window has just been opened.
    #[cold]
    #[inline(never)]
    pub(super) fn arm(&mut self, here: ThisCpu<'_>, now: u64) {
        let event = self.event();
        let sampler = &event.sampler;
        if self.phase.rate != sampler.rate() {
            self.phase = Phase::new(sampler);
        }
        let (percpu, pmu, counter) = (here.percpu(), here.pmu(), self.counter());
        // The handler must not come between. The window begins where the counter stands still.
        pmu.stop_unchecked(here, counter);
        let value = percpu.value(counter);
        let total = value.total();
        self.start_at(total);
        let Phase {
            period,
            left,
            elapsed,
            ..
        } = self.phase;
        let armed = Armed {
            period,
            due: total.wrapping_add(left),
            time: now.wrapping_sub(elapsed),
        };
        let min_load = pmu.load_limit.min_events(event.select);
        // SAFETY: The sampler lives as long as the event, whose window is closed before, with `disarm`.
        let state = unsafe { percpu.arm(counter, sampler, armed, min_load) };
        let left = (left as i64).max(0) as u64;
        value.load(here, pmu.msrs(counter).write, state.load_for(left), total);
        pmu.start(here, counter);
    }

    /// Ends [`Self::arm`]; [`Self::settle`] follows.
    #[cold]
    pub(super) fn disarm(&mut self, percpu: &PerCpu, now: u64) {
        let armed = percpu.disarm(self.counter());
        self.phase.period = armed.period;
        self.phase.left = armed.due;
        self.phase.elapsed = now.wrapping_sub(armed.time);
    }

    /// Notes what is left to the next sample when the window closes at this total of the counter.
    #[cold]
    pub(super) fn settle(&mut self, percpu: &PerCpu, total: u64) {
        self.phase.left = self.phase.left.wrapping_sub(total);
        if percpu.samplers.suspended.get() != 0 {
            // Those that were suspended are lost, not late.
            let overdue = self.phase.overdue();
            end(self.event(), &self.phase);
            let skipped = overdue.wrapping_mul(self.phase.period);
            self.phase.left = self.phase.left.wrapping_add(skipped);
        }
    }

    /// Returns whether the event is sampled.
    #[inline(always)]
    pub(super) fn is_sampled(&self) -> bool {
        self.phase.period != 0
    }
}
