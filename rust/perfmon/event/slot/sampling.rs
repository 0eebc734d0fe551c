// SPDX-License-Identifier: GPL-2.0-only
//! The samples of slots: counters are armed when windows open, and disarmed when they close.

use super::{
    call_stack,
    list::{ExecStage, Slots},
    phase::Phase,
    readings::Readings,
    slot::Slot,
};
use crate::{
    cpu::ThisCpu,
    logic::{event_attr::PERF_SAMPLE_READ, precise::closest_period, sampling::Trigger},
    percpu::{ArmedSampler, PerCpu},
    pmu::{lbr, pebs::may_run_guests},
    sys::ffi,
};
use core::slice;
use kernel::bindings;

/// Arms the counters of sampled slots, whose windows have just been opened. `now` is the time in TSC cycles.
#[cold]
#[inline(never)]
pub(super) fn arm_slots(here: ThisCpu<'_>, slots: &mut Slots, now: u64) {
    let task = slots.task;
    let mut needs_counts = false;
    for slot in slots.iter_mut() {
        if slot.is_open() && slot.is_sampled() {
            slot.stop_counter(here);
            needs_counts |= slot.samples_have_counts();
        }
    }
    call_stack::restore(here, slots);
    if slots.exec != ExecStage::Done {
        hide_program(here, slots);
    }
    if needs_counts {
        prepare_counts(here, slots);
    }
    for slot in slots.iter_mut() {
        if slot.is_open() && slot.is_sampled() {
            slot.arm_counter(here, now, task);
        }
    }
    // Other events may share the counters that were loaded, and programs may be reading the pages
    // of these events. So the offsets in the pages are corrected.
    here.percpu().correct_pages();
}

/// Prepares the counts that samples with PERF_SAMPLE_READ have: the count of the sampled event, or
/// the counts of its group.
#[cold]
#[inline(never)]
fn prepare_counts(here: ThisCpu<'_>, slots: &Slots) {
    let percpu = here.percpu();
    let counts = percpu.group_counts(slots.task);
    for slot in slots.iter().filter(|slot| slot.samples_have_counts()) {
        let members = if slot.event().sampler.sampling.read.is_group() {
            slots.group(slot.event())
        } else {
            slice::from_ref(slot)
        };
        if members.iter().any(|member| member.event().is_broken()) {
            continue;
        }
        // The list is built from the last member to the first.
        let first = members.iter().rev().try_fold(None, |next, member| {
            let (counter, sampler) = (member.counter(), &member.event().sampler);
            // SAFETY: `add_count` requires a sampler that lives until the counts are removed, which disarming does. The
            // sampler lives as long as the event, whose slot stays in this context until its window was closed and its
            // counter disarmed.
            unsafe { counts.add_count(counter, sampler, member.count_base(), next) }.map(Some)
        });
        percpu.set_first_count_entry(slot.counter(), first.flatten());
    }
}

/// Disarms the sampled slots, and closes all open windows.
#[cold]
#[inline(never)]
pub(super) fn close_windows(readings: &mut Readings, here: ThisCpu<'_>, slots: &mut Slots) {
    call_stack::save(here, slots);
    for slot in slots.iter_mut().filter(|slot| slot.is_open()) {
        let is_stopped = slot.is_sampled() && slot.disarm_counter(here, readings.now());
        // The last records of precise samples may have shown that earlier records are missing.
        if slot.is_sampled() && here.percpu().tampered.get() & slot.counter().bit() != 0 {
            slot.event().mark_broken();
        }
        let total = readings.close_window(here, slot);
        if is_stopped {
            here.pmu().start(here, slot.counter());
        }
        if slot.is_sampled() {
            slot.update_events_left(here.percpu(), total);
        }
    }
    if slots.exec != ExecStage::Done {
        show_program(here);
    }
}

/// Makes samples show nothing of the program that the current task has begun to execute, until the windows close.
#[cold]
fn hide_program(_here: ThisCpu<'_>, slots: &Slots) {
    if slots.iter().any(|slot| slot.is_open() && slot.is_sampled()) {
        // SAFETY: The function requires interrupts off: in this folder a `ThisCpu`, such as `_here`, is passed on only
        // while interrupts are off.
        unsafe { ffi::perfmon_hide_program(true) };
    }
}

/// Undoes [`hide_program`].
#[cold]
pub(in crate::event) fn show_program(_here: ThisCpu<'_>) {
    // SAFETY: The function requires interrupts off: in this folder a `ThisCpu`, such as `_here`, is passed on only while
    // interrupts are off.
    unsafe { ffi::perfmon_hide_program(false) };
}

impl Slot {
    /// Stops the counter of a window that has just been opened, and moves the window's beginning to the total where
    /// the counter stopped.
    fn stop_counter(&mut self, here: ThisCpu<'_>) {
        let sampler = &self.event().sampler;
        if let Some(stack) = sampler.sampling.branches {
            let interrupt_user = match sampler.sampling.recorded_branches {
                Some(_) => 0,
                None => self.counter().bit(),
            };
            lbr::start(here, stack.branches, interrupt_user);
        }
        here.pmu().stop_unchecked(here, self.counter());
        self.set_start_total(here.percpu().value(self.counter()).total());
    }

    /// Returns whether the window is open and its samples have counts (PERF_SAMPLE_READ).
    fn samples_have_counts(&self) -> bool {
        let format = self.event().sampler.sampling.format;
        self.is_open() && self.is_sampled() && format.has(PERF_SAMPLE_READ)
    }

    /// Loads the counter, which [`Self::stop_counter`] has stopped, for the next sample, and starts it. Its overflows
    /// become samples of `task`, or of a CPU if `task` is null.
    fn arm_counter(&mut self, here: ThisCpu<'_>, now: u64, task: *mut bindings::task_struct) {
        let event = self.event();
        let sampler = &event.sampler;
        self.phase.apply_period_change(sampler);
        let (percpu, pmu, counter) = (here.percpu(), here.pmu(), self.counter());
        let value = percpu.value(counter);
        let total = value.total();
        let min_load = if sampler.sampling.is_precise {
            pmu.min_precise_load(event.select())
        } else {
            pmu.load_limit.min_events(event.select())
        };
        if sampler.sampling.is_precise {
            if let Trigger::Frequency(_) = sampler.sampling.trigger {
                // The processor does not accept every period that a frequency may lead to.
                let period = self.phase.period_for_load(min_load.into());
                let closest = closest_period(period, event.select(), &pmu.capabilities);
                self.phase.change_period(closest);
            }
            self.phase.prepare_precise(sampler, min_load.into());
        }
        let Phase {
            period,
            events_left,
            elapsed_cycles,
            ..
        } = self.phase;
        let armed = ArmedSampler {
            period,
            due_total: total.wrapping_add(events_left),
            time: now.wrapping_sub(elapsed_cycles),
        };
        // SAFETY: `arm_sampler` requires a sampler that lives until `disarm_sampler`: it lives as long as the event, and
        // `disarm_counter` calls that when the window closes, before the event can be freed.
        let state = unsafe { percpu.arm_sampler(counter, sampler, task, armed, min_load) };
        if ![0, self.recorded_suspension].contains(&percpu.samplers.suspension()) {
            // Samples of another event have taken too much time. This event takes no samples either
            // until the next tick.
            self.record_throttling(here, true);
        }
        let events_left = (events_left as i64).max(0) as u64;
        if sampler.sampling.is_precise && !may_run_guests(here) {
            return pmu.start_precise(here, counter, events_left, period);
        }
        let events_to_overflow = if sampler.sampling.is_precise {
            // Guests may run, so the processor takes no samples, and the event misses them.
            event.mark_broken();
            state.max_load.get()
        } else {
            state.events_to_load(events_left)
        };
        value.load(here, pmu.msrs(counter).write, events_to_overflow, total);
        pmu.start(here, counter);
    }

    /// Undoes [`Self::arm_counter`]. The caller calls [`Self::update_events_left`] afterwards. Returns true if the counter is
    /// stopped, and the caller has to start it.
    fn disarm_counter(&mut self, here: ThisCpu<'_>, now: u64) -> bool {
        let is_precise = here.percpu().pebs.armed_counters.get() & self.counter().bit() != 0;
        if is_precise {
            here.pmu().stop_precise(here, self.counter());
        }
        let armed = here.percpu().disarm_sampler(self.counter());
        // Writes the UNTHROTTLE record, if the window closes after its THROTTLE record and before the next tick.
        self.record_throttling(here, false);
        if self.event().sampler.sampling.branches.is_some() {
            lbr::stop(here, here.pmu(), self.counter().bit());
        }
        self.phase.period = armed.period;
        self.phase.events_left = armed.due_total;
        self.phase.elapsed_cycles = now.wrapping_sub(armed.time);
        is_precise
    }

    /// Writes the THROTTLE record of the open window if `throttled`, otherwise the UNTHROTTLE record. Does nothing if the
    /// record has been written.
    fn record_throttling(&mut self, here: ThisCpu<'_>, throttled: bool) {
        let (percpu, counter) = (here.percpu(), self.counter());
        if percpu.samplers.note_throttling(counter, throttled) {
            self.recorded_suspension = percpu.samplers.suspension();
            let sampler = &self.event().sampler;
            let task = percpu.task_of_sample(counter, sampler);
            sampler.write_throttling(task, here.id().as_u32(), throttled);
        }
    }

    /// Computes the number of events to the next sample, when the window closes at the counter's total `total`.
    fn update_events_left(&mut self, percpu: &PerCpu, total: u64) {
        self.phase.events_left = self.phase.events_left.wrapping_sub(total);
        if percpu.samplers.suspended.get() != 0 {
            // Samples that became due while sampling was suspended are lost, and not written later.
            self.phase.end_suspension(&self.event().sampler);
        }
    }
}
