// SPDX-License-Identifier: GPL-2.0-only
//! The samples of slots: begun when their windows are opened, ended when they are closed.

use super::{call_stack, list::Slots, phase::Phase, readings::Readings, slot::Slot};
use crate::{
    cpu::ThisCpu,
    logic::event_attr::PERF_SAMPLE_READ,
    percpu::{ArmedSampler, PerCpu},
    pmu::{lbr, pebs::may_run_guests},
};
use kernel::bindings;

/// Begins the samples of the windows that have just been opened, at the time `now`.
#[cold]
#[inline(never)]
pub(super) fn begin(here: ThisCpu<'_>, slots: &mut Slots, now: u64) {
    let task = slots.task;
    let mut with_counts = false;
    for slot in slots.iter_mut() {
        if slot.is_open() && slot.is_sampled() {
            slot.stop_counter(here);
            with_counts |= slot.samples_have_counts();
        }
    }
    call_stack::restore(here, slots);
    if with_counts {
        note_counts(here, slots);
    }
    for slot in slots.iter_mut() {
        if slot.is_open() && slot.is_sampled() {
            slot.arm(here, now, task);
        }
    }
    // Counters were loaded that others may share, of whose events programs read the pages meanwhile.
    here.percpu().correct_pages();
}

/// Notes the counts that samples show of the windows that are open: of events, or of their groups.
#[cold]
#[inline(never)]
fn note_counts(here: ThisCpu<'_>, slots: &Slots) {
    let percpu = here.percpu();
    let counts = percpu.group_counts(slots.task);
    for slot in slots.iter().filter(|slot| slot.samples_have_counts()) {
        let is_group = slot.event().sampler.sampling.read.is_group();
        let members = || {
            let members = slots.group(slot.event());
            members.filter(|member| is_group || member.is_of_event(slot.event()))
        };
        if members().any(|member| member.event().is_broken()) {
            continue;
        }
        // From the last one to the first.
        let first = members().rev().try_fold(None, |next, member| {
            let (counter, sampler) = (member.counter(), &member.event().sampler);
            // SAFETY: The sampler lives as long as the event, whose slot is here until the samples are disarmed.
            unsafe { counts.begin(counter, sampler, member.count_base(), next) }.map(Some)
        });
        percpu.set_first_count(slot.counter(), first.flatten());
    }
}

/// Closes the windows that are open, and ends their samples before.
#[cold]
#[inline(never)]
pub(super) fn close_windows(readings: &mut Readings, here: ThisCpu<'_>, slots: &mut Slots) {
    call_stack::save(here, slots);
    for slot in slots.iter_mut().filter(|slot| slot.is_open()) {
        let stands = slot.is_sampled() && slot.disarm(here, readings.now());
        let total = readings.close_window(here, slot);
        if stands {
            here.pmu().start(here, slot.counter());
        }
        if slot.is_sampled() {
            slot.update_left(here.percpu(), total);
        }
    }
}

impl Slot {
    /// Stops the counter. The window has just been opened, and begins where the counter stands still.
    fn stop_counter(&mut self, here: ThisCpu<'_>) {
        if let Some(stack) = self.event().sampler.sampling.branches {
            lbr::start(here, stack.branches);
        }
        here.pmu().stop_unchecked(here, self.counter());
        self.start_at(here.percpu().value(self.counter()).total());
    }

    /// Returns whether samples have counts.
    fn samples_have_counts(&self) -> bool {
        let format = self.event().sampler.sampling.format;
        self.is_open() && self.is_sampled() && format.has(PERF_SAMPLE_READ)
    }

    /// Makes overflows of the counter, which [`Self::stop_counter`] has stopped, samples of `task`, or of a CPU if
    /// that is null.
    fn arm(&mut self, here: ThisCpu<'_>, now: u64, task: *mut bindings::task_struct) {
        let event = self.event();
        let sampler = &event.sampler;
        self.phase.follow_period(sampler);
        let (percpu, pmu, counter) = (here.percpu(), here.pmu(), self.counter());
        let value = percpu.value(counter);
        let total = value.total();
        let Phase {
            period,
            left,
            elapsed,
            ..
        } = self.phase;
        let armed = ArmedSampler {
            period,
            due: total.wrapping_add(left),
            time: now.wrapping_sub(elapsed),
        };
        let min_load = pmu.load_limit.min_events(event.select);
        // SAFETY: The sampler lives as long as the event, whose window is closed before, with `disarm`.
        let state = unsafe { percpu.arm(counter, sampler, task, armed, min_load) };
        let left = (left as i64).max(0) as u64;
        if sampler.sampling.precise && !may_run_guests(here) {
            return pmu.start_precise(here, counter, left, period);
        }
        let load = if sampler.sampling.precise {
            // Samples are missing.
            event.mark_broken();
            state.max_load.get()
        } else {
            state.load_for(left)
        };
        value.load(here, pmu.msrs(counter).write, load, total);
        pmu.start(here, counter);
    }

    /// Ends [`Self::arm`]; [`Self::update_left`] follows. Returns whether the counter stands still, and has to be started.
    fn disarm(&mut self, here: ThisCpu<'_>, now: u64) -> bool {
        let is_precise = here.percpu().pebs.armed.get() & self.counter().bit() != 0;
        if is_precise {
            here.pmu().stop_precise(here, self.counter());
        }
        let armed = here.percpu().disarm(self.counter());
        if self.event().sampler.sampling.branches.is_some() {
            lbr::stop(here, here.pmu());
        }
        self.phase.period = armed.period;
        self.phase.left = armed.due;
        self.phase.elapsed = now.wrapping_sub(armed.time);
        is_precise
    }

    /// Notes what is left to the next sample when the window closes at this total of the counter.
    fn update_left(&mut self, percpu: &PerCpu, total: u64) {
        self.phase.left = self.phase.left.wrapping_sub(total);
        if percpu.samplers.suspended.get() != 0 {
            // Those that were suspended are lost, not late.
            let overdue = self.phase.overdue();
            self.phase.end(&self.event().sampler);
            let skipped = overdue.wrapping_mul(self.phase.period);
            self.phase.left = self.phase.left.wrapping_add(skipped);
        }
    }
}
