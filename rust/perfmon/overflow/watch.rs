// SPDX-License-Identifier: GPL-2.0-only
//! The timer that watches a CPU while counters are active there: with each tick it gives the overflow handler
//! a new budget, looks at what others may have changed, and finds overflows whose PMI never came.

use crate::{
    cpu::{ThisCpu, Word},
    ffi,
    logic::counter::{each, CounterId, MAX_COUNTERS},
    pmu::Model,
};

/// What the timer knows of its CPU. All bits zero: it does not run.
pub(crate) struct Watch {
    /// Not 0 while the timer runs.
    running: Word,
    /// Bits of the counters that had overflowed at the last tick.
    overflowed: Word,
    /// What [`Count::load_id`](crate::count::Count::load_id) of these was.
    loads: [Word; MAX_COUNTERS],
}

impl Watch {
    /// Starts the timer unless it runs. Counters of this CPU, `here`, have become active.
    #[inline(always)]
    pub(crate) fn start(&self, here: &ThisCpu, model: &Model) {
        if self.running.get() == 0 {
            self.start_timer(here, model);
        }
    }

    #[cold]
    fn start_timer(&self, here: &ThisCpu, model: &Model) {
        here.slot().budget.refill(&model.limits);
        self.overflowed.set(0);
        self.running.set(1);
        // SAFETY: The caller stays on the CPU, and the slots outlive the timer, which `stop` cancels.
        unsafe { ffi::perfmon_timer_start() };
    }

    /// Stops the timer: the registers are given back.
    pub(crate) fn stop(&self, _here: &ThisCpu) {
        if self.running.get() != 0 {
            // SAFETY: The caller stays on the CPU.
            unsafe { ffi::perfmon_timer_stop() };
            self.running.set(0);
        }
    }

    /// Returns whether the counter `id`, which has overflowed and was loaded by the load `load`, had done so
    /// at the last tick.
    fn is_stuck(&self, id: CounterId, load: u64) -> bool {
        let seen = self.overflowed.get() & id.bit() != 0;
        self.loads.get(id.index()).is_some_and(|last| {
            let same = last.get() == load;
            last.set(load);
            seen && same
        })
    }
}

/// A tick of the timer, with interrupts off. Returns whether it is to go on.
pub(crate) fn tick(here: &ThisCpu, model: &Model) -> bool {
    let slot = here.slot();
    slot.budget.refill(&model.limits);
    slot.recorder.tick(here, model);
    let active = slot.active.get();
    if active == 0 {
        slot.watch.running.set(0);
        return false;
    }
    model.look(here);
    look_for_overflows(here, model, active);
    true
}

/// Brings the active counters up to date, and finds those that overflowed before the last tick and were not
/// reloaded since: their PMI is lost, and they would raise no other for half of their range.
fn look_for_overflows(here: &ThisCpu, model: &Model, active: u64) {
    let slot = here.slot();
    let watch = &slot.watch;
    let (mut overflowed, mut lost) = (0, 0);
    for counter in each(active) {
        model.update(here, counter);
        let count = slot.count(counter);
        if count.has_overflowed(here, model.lines(counter).read) {
            if watch.is_stuck(counter, count.load_id()) {
                lost |= counter.bit();
            } else {
                overflowed |= counter.bit();
            }
        }
    }
    watch.overflowed.set(overflowed);
    if lost & slot.recorder.ticking() != 0 {
        slot.recorder.restart(here, model);
        lost &= !slot.recorder.ticking();
    }
    // What is only counted misses no event by that.
    for counter in each(lost & slot.active.get()) {
        model.halt(here, counter);
        model.start(here, counter);
    }
}
