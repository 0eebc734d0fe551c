// SPDX-License-Identifier: GPL-2.0-only
//! Counters that events share. These counters run all the time, and the count of an event is the difference between two
//! readings of the counter's total.
//!
//! The context switch calls these functions, too, so they print nothing.

use crate::{
    cpu::{msr, ThisCpu},
    logic::{
        counter::{each_counter, CounterId},
        evtsel::EventSelect,
        pmu::Pmu,
    },
};

impl Pmu {
    /// Makes a running counter count another event. The caller must have written the extra register that the event
    /// needs, and must have updated the counter's total. Until the event select is written, the counter counts the old
    /// event.
    #[cold]
    pub(crate) fn change_event_select(
        &self,
        here: ThisCpu<'_>,
        counter: CounterId,
        select: EventSelect,
    ) {
        let percpu = here.percpu();
        let value = percpu.value(counter);
        let start_step = self.registers.control(counter, select, true);
        value.begin_select_change(select, &start_step);
        self.rmw_shared(here, || msr::execute_step(here, &start_step));
        value.finish_select_change(&self.registers.control(counter, select, false));
        if select.is_kernel() {
            percpu.slow_path.insert(counter.bit());
        } else {
            percpu.slow_path.remove(counter.bit());
        }
    }

    /// Loads the counters that events of tasks share, so that a program can't read earlier counts by RDPMC. The totals
    /// don't change.
    #[cold]
    #[inline(never)]
    pub(crate) fn hide_counters(&self, here: ThisCpu<'_>) {
        let percpu = here.percpu();
        for counter in each_counter(percpu.task_counters.get() & percpu.active_mask.get()) {
            // Sampled events of the CPU and of cgroups may use these counters, so their next samples stay due at the
            // same totals.
            self.reload(here, counter, |total| {
                percpu
                    .sampled_counter(counter)
                    .due_sample(total)
                    .err()
                    .unwrap_or(0)
            });
        }
    }

    /// Sets a tampered counter up again, and starts it. If Linux perf has taken the counter, leaves it to perf, and
    /// marks it as tampered with.
    #[cold]
    pub(crate) fn set_up_tampered(
        &self,
        here: ThisCpu<'_>,
        counter: CounterId,
        select: EventSelect,
    ) {
        let percpu = here.percpu();
        let select = select.without_extra_register();
        if !self.has_kept_perf_off(here) {
            percpu.mark_tampered(counter.bit());
            return;
        }
        if percpu.active_mask.get() & counter.bit() != 0 {
            self.stop_unchecked(here, counter);
        }
        self.reprogram(here, counter, select);
        percpu.tampered.remove(counter.bit());
        self.start(here, counter);
    }
}
