// SPDX-License-Identifier: GPL-2.0-only
//! Starting and stopping counters, and bringing their values up to date.

use super::{repair, skid::SKID_TICKS};
use crate::{
    cpu::{msr, timer, timestamp, ThisCpu},
    logic::{
        counter::{each_counter, mask_of, CounterId},
        plan::Step,
        pmu::Pmu,
        regs::GlobalMsrs,
    },
    percpu::{Expectation, TIMER_TICKING},
    sys::time::jiffies,
};

impl Pmu {
    /// Starts a counter.
    pub(crate) fn start(&self, here: ThisCpu<'_>, counter: CounterId) {
        let percpu = here.percpu();
        let select = percpu.value(counter).select();
        if select.is_kernel() {
            percpu.slow_path.insert(counter.bit());
        }
        // The counter is enabled in the global register before it is marked as active, since `repair` marks an active
        // counter that is disabled there as lost.
        if let Some(step) = self.registers.enable_global(counter) {
            msr::execute_step(here, &step);
        }
        self.rmw_shared(here, || {
            // The counter is marked as active before it counts, since it may overflow at once. It is not marked before
            // `rmw_shared`, which stops the counter again if the overflow handler stops it meanwhile.
            percpu.active_mask.insert(counter.bit());
            msr::execute_step(here, &self.registers.control(counter, select, true));
        });
        self.watch_counters(here);
    }

    /// Starts the timer that watches this CPU, if the timer does not run. To be called after a counter was started.
    #[inline(always)]
    pub(super) fn watch_counters(&self, here: ThisCpu<'_>) {
        if here.percpu().watch.timer_mode.get() != TIMER_TICKING {
            self.start_watching(here);
        }
    }

    /// Starts the timer that watches the CPU while counters are active.
    #[cold]
    fn start_watching(&self, here: ThisCpu<'_>) {
        let percpu = here.percpu();
        percpu.budget.start(&self.throttle_limits);
        percpu.watch.start(timestamp());
        timer::start(here, timer::period_ns());
    }

    /// Calls `change` to change the registers of a counter. All fixed-function counters share one of these registers
    /// (`IA32_FIXED_CTR_CTRL`).
    ///
    /// When a buffer is full, the overflow handler stops counters. If the handler runs between the read and the write
    /// of the change, the write starts these counters again, so this function stops them again.
    #[inline(always)]
    pub(super) fn rmw_shared(&self, here: ThisCpu<'_>, change: impl FnOnce()) {
        let percpu = here.percpu();
        let stops_before = percpu.handler_stops.get();
        change();
        if percpu.handler_stops.get() != stops_before {
            self.stop_again(here);
        }
    }

    /// Stops the counters that the overflow handler has stopped because the trace's buffer is full. Not inlined, since
    /// [`Self::rmw_shared`] is inlined at every change of a register.
    #[cold]
    #[inline(never)]
    fn stop_again(&self, here: ThisCpu<'_>) {
        let percpu = here.percpu();
        for counter in each_counter(percpu.trace.counters.get() & !percpu.active_mask.get()) {
            self.stop_unchecked(here, counter);
        }
    }

    /// Stops the active counters of the trace, if its buffer is full. To be called also after counters were started one
    /// after the other: if the buffer has become full meanwhile, the overflow handler has stopped only the counters that
    /// had been started until then.
    pub(crate) fn stop_trace_if_full(&self, here: ThisCpu<'_>) {
        let percpu = here.percpu();
        if percpu.trace.full.get() == 0 {
            return;
        }
        for counter in each_counter(percpu.trace.counters.get() & percpu.active_mask.get()) {
            self.stop_unchecked(here, counter);
        }
    }

    /// Stops a counter and updates its value. Marks the counter as tampered with if other software has changed its
    /// control register.
    pub(crate) fn stop(&self, here: ThisCpu<'_>, counter: CounterId) {
        let percpu = here.percpu();
        let select = percpu.value(counter).select();
        let written_step = self.registers.control(counter, select, true);
        let stop_step = self.registers.control(counter, select, false);
        let control = msr::read(here, written_step.msr);
        if percpu.active_mask.get() & counter.bit() == 0 {
            // The buffer has become full since the caller tested `active_mask`, and the handler has stopped the
            // counter.
            return;
        }
        self.verify(here, &written_step, control, counter);
        self.repair_global(here, counter.bit());
        self.check_place_holder(here, counter.bit());
        self.stop_and_update(here, counter, &stop_step);
        repair::log_found_disabled(here);
    }

    /// Stops a counter and updates its value, without checking the registers as [`Self::stop`] does.
    #[inline(never)]
    pub(crate) fn stop_unchecked(&self, here: ThisCpu<'_>, counter: CounterId) {
        let select = here.percpu().value(counter).select();
        let stop_step = self.registers.control(counter, select, false);
        self.stop_and_update(here, counter, &stop_step);
    }

    /// Loads an active counter for its next sample. `events_left` computes the number of events to that sample from the
    /// counter's total.
    pub(crate) fn reload(
        &self,
        here: ThisCpu<'_>,
        counter: CounterId,
        events_left: impl FnOnce(u64) -> u64,
    ) {
        let percpu = here.percpu();
        // The counter is stopped, so that the overflow handler does not change it.
        self.stop_unchecked(here, counter);
        let value = percpu.value(counter);
        let events = percpu
            .sampled_counter(counter)
            .events_to_load(events_left(value.total()));
        value.load(here, self.msrs(counter).write, events, value.total());
        self.start(here, counter);
    }

    /// Stops a counter by `stop_step` and updates its value: the common part of [`Self::stop`] and
    /// [`Self::stop_unchecked`].
    #[inline(always)]
    fn stop_and_update(&self, here: ThisCpu<'_>, counter: CounterId, stop_step: &Step) {
        let percpu = here.percpu();
        let value = percpu.value(counter);
        self.rmw_shared(here, || msr::execute_step(here, stop_step));

        // If the counter has overflowed on its last events, the PMI may come at any time. So the PMI is expected before
        // the handler ignores the counter, and before the overflow is tested.
        let expectation = percpu
            .pending_pmi
            .expect(jiffies().wrapping_add(SKID_TICKS));
        percpu.active_mask.remove(counter.bit());
        percpu.slow_path.remove(counter.bit());
        let register = self.msrs(counter).write;
        if !self.update(here, counter) {
            // The total is kept, and the register is loaded to fit it.
            value.load(here, register, value.load_distance(), value.total());
        }
        if value.reload_if_overflowed(here, register) {
            self.clear_overflow(here, counter, &expectation);
        } else {
            percpu.pending_pmi.cancel(expectation);
        }
    }

    /// Clears the overflow of a counter that has just been stopped. `expectation` is the
    /// expectation of the counter's PMI.
    #[cold]
    fn clear_overflow(&self, here: ThisCpu<'_>, counter: CounterId, expectation: &Expectation) {
        let Some(global) = &self.registers.global else {
            return;
        };
        let percpu = here.percpu();
        // With a place-holder, Linux perf's handler runs after this module's handler in each NMI,
        // and acknowledges each overflow that it finds. Counters that count in kernel mode may
        // overflow while perf's handler runs. Other overflows are left by this module's handler,
        // because the counter was inactive; the NMI has ended the expectation then.
        let beside_perf = self.place_holder.is_some();
        let may_overflow_in_perf = beside_perf && percpu.value(counter).select().is_kernel();
        let is_left_to_perf = || beside_perf && percpu.pending_pmi.has_ended(expectation);
        if !may_overflow_in_perf && !await_overflow(here, global, counter) && !is_left_to_perf() {
            // Other software has written the counter, or has acknowledged its overflow.
            percpu.mark_lost(counter.bit());
        }
        if let Some(clear) = self.registers.clear_overflow(counter) {
            msr::execute_step(here, &clear);
        }
    }

    /// Updates the value of a counter, and returns true. If other software has written the counter, marks it as
    /// tampered with and returns false.
    #[inline(always)]
    pub(crate) fn update(&self, here: ThisCpu<'_>, counter: CounterId) -> bool {
        let percpu = here.percpu();
        let update_result = percpu.value(counter).update(here, self.msrs(counter).read);
        if update_result.is_err() {
            percpu.mark_tampered(counter.bit());
        }
        update_result.is_ok()
    }

    /// Returns the counters of `counters` that have overflowed since they were loaded.
    #[cold]
    #[inline(never)]
    pub(crate) fn overflowed_counters(&self, here: ThisCpu<'_>, counters: u64) -> u64 {
        let percpu = here.percpu();
        mask_of(each_counter(counters).filter(|&counter| {
            let msr = self.msrs(counter).read;
            percpu.value(counter).has_overflowed(here, msr)
        }))
    }
}

/// Returns whether the status register shows the overflow of a counter that has just been stopped. Waits for a moment,
/// since processors may set bits of the register late.
#[cold]
fn await_overflow(here: ThisCpu<'_>, global: &GlobalMsrs, counter: CounterId) -> bool {
    /// The number of reads. Together they take about a microsecond, or tens of microseconds in a
    /// virtual machine.
    const MAX_READS: u32 = 16;

    (0..MAX_READS).any(|_| msr::read(here, global.status) & counter.bit() != 0)
}
