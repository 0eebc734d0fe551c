// SPDX-License-Identifier: GPL-2.0-only
//! The extensions of Intel's counters. From version 6 on a counter can be reloaded when another counter overflows
//! (`IA32_PMC_x_CFG_B`), and a counter can write records (`IA32_PMC_x_CFG_C`). From Ice Lake on fixed-function counter
//! 3 can run with top-down metrics (`PERF_METRICS`), which have a bit of their own in `IA32_PERF_GLOBAL_CTRL` and in
//! `IA32_PERF_GLOBAL_STATUS`: an overflow of the metrics raises an interrupt, which the handler would not acknowledge.
//!
//! All extensions take effect when the counter is enabled. Linux perf sets the registers of a counter for an event, and
//! leaves them set when the event ends. Perf also sets the bit of the metrics with each event, and leaves it set.

use crate::{
    cpu::{msr, ThisCpu},
    logic::{
        counter::{each_counter, CounterId},
        msr::Msr,
        pmu::Pmu,
    },
    percpu::Word,
};

impl Pmu {
    /// Saves and clears the extensions of this CPU's counters, which then only count.
    pub(super) fn clear_extensions(&self, here: ThisCpu<'_>) {
        let saved = &here.percpu().saved;
        self.disable_metrics(here);
        self.each_extended_counter(here, |counter| {
            clear_register(here, Msr::reload(counter), &saved.reload[counter.index()]);
            clear_register(here, Msr::records(counter), &saved.records[counter.index()]);
        });
    }

    /// Undoes [`Self::clear_extensions`].
    pub(super) fn restore_extensions(&self, here: ThisCpu<'_>) {
        let saved = &here.percpu().saved;
        self.write_metrics_bit(here, saved.global_control.get());
        self.each_extended_counter(here, |counter| {
            restore_register(here, Msr::reload(counter), &saved.reload[counter.index()]);
            restore_register(here, Msr::records(counter), &saved.records[counter.index()]);
        });
    }

    /// Disables the top-down metrics of this CPU.
    pub(super) fn disable_metrics(&self, here: ThisCpu<'_>) {
        self.write_metrics_bit(here, 0);
    }

    /// Enables or disables the top-down metrics as `global_control` does, a value of the global control register.
    fn write_metrics_bit(&self, here: ThisCpu<'_>, global_control: u64) {
        if let Some(step) = self.registers.control_metrics(global_control) {
            msr::execute_step(here, &step);
        }
    }

    /// Calls `f` for each counter that has extensions on this CPU.
    fn each_extended_counter(&self, here: ThisCpu<'_>, f: impl Fn(CounterId)) {
        let extended = here.percpu().extended_counters.get() & self.counters_on(here);
        each_counter(extended).for_each(f);
    }
}

/// Saves and clears a register. A register that is missing although CPUID reports it, as under some hypervisors, is
/// saved as 0.
fn clear_register(here: ThisCpu<'_>, msr: Msr, saved: &Word) {
    let value = msr::read_safe(here, msr).unwrap_or(0);
    saved.set(value);
    if value != 0 {
        msr::write(here, msr, 0);
    }
}

/// Restores a register that [`clear_register`] has cleared.
fn restore_register(here: ThisCpu<'_>, msr: Msr, saved: &Word) {
    let value = saved.get();
    if value != 0 {
        msr::write(here, msr, value);
    }
}
