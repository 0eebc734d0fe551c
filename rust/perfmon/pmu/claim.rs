// SPDX-License-Identifier: GPL-2.0-only
//! Taking over the registers of a CPU, and restoring them.

use super::{extra, values, Lvtpc};
use crate::{
    cpu::{msr, timer, ThisCpu},
    logic::{
        counter::{each_counter, general_count, has_fixed},
        evtsel::EventSelect,
        msr::Msr,
        plan::has_running_fixed,
        pmu::Pmu,
    },
};

impl Pmu {
    /// Claims the registers of this CPU: saves them, and directs overflow interrupts to the handler. The caller must
    /// have just reserved the counters.
    pub(crate) fn claim(&'static self, here: ThisCpu<'_>) {
        let percpu = here.percpu();
        let saved = &percpu.saved;
        let counters = self.counters_on(here);
        for (n, select) in (0..general_count(counters)).zip(&saved.select) {
            select.set(msr::read(here, self.registers.select_msr(n)));
        }
        if has_fixed(counters) {
            saved
                .fixed_control
                .set(msr::read(here, self.registers.fixed_control));
        }
        if let Some(global) = self.registers.global {
            saved.global_control.set(msr::read(here, global.control));
        }
        self.clear_extensions(here);
        saved.lvtpc.set(Lvtpc::read(here).to_saved());
        Lvtpc::NMI.write(here);
        percpu.slow_path.insert(self.vendor.slow_path());
        percpu
            .has_place_holder
            .set(self.place_holder.is_some().into());
        percpu.pmu.set(Some(self));
    }

    /// Returns the control register of a general counter that counts on this CPU, or else the control register of all
    /// fixed-function counters if one of them counts; `None` if no counter counts.
    pub(crate) fn control_msr_in_use(&self, here: ThisCpu<'_>) -> Option<Msr> {
        let all_general_count = self.kinds.all_general_count(here.percpu().core_kind());
        let selects = (0..all_general_count).map(|n| self.registers.perf_select_msr(n));
        let is_counting = |select: &Msr| EventSelect::is_counting(msr::read(here, *select));
        let has_fixed = has_fixed(self.counters_on(here));
        let fixed_control = has_fixed.then_some(self.registers.fixed_control);
        selects
            .into_iter()
            .find(is_counting)
            .or_else(|| fixed_control.filter(|&msr| has_running_fixed(msr::read(here, msr))))
    }

    /// Stops counters, if they are active, and restores their registers. Counters that this CPU lacks are left out.
    pub(crate) fn restore(&self, here: ThisCpu<'_>, counters: u64) {
        let percpu = here.percpu();
        let counters = counters & self.counters_on(here);
        for counter in each_counter(counters & percpu.active_mask.get()) {
            self.stop(here, counter);
        }
        percpu.setup_mask.remove(counters);
        percpu.extra.counters.remove(counters);
        for counter in each_counter(counters) {
            self.rmw_shared(here, || {
                msr::execute(here, &self.registers.restore(counter, &percpu.saved));
            });
        }
    }

    /// Gives up the registers of this CPU: restores the registers that belong to no single counter.
    /// The caller must have called [`Self::restore`] for all counters.
    pub(crate) fn release(&self, here: ThisCpu<'_>) {
        let percpu = here.percpu();
        if percpu.watch.timer_mode.get() != 0 {
            timer::stop(here);
            percpu.watch.timer_mode.set(0);
            // The timer that would end the suspension is stopped.
            percpu.samplers.suspended.set(0);
            values::start_slow_timer(here);
        }
        self.end_pebs(here);
        self.vendor.await_late_pmi(percpu);
        self.restore_extensions(here);
        extra::restore(here);
        percpu.has_place_holder.set(0);
        percpu.pmu.set(None);
        Lvtpc::from_saved(percpu.saved.lvtpc.get()).write(here);
    }
}
