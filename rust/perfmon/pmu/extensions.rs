// SPDX-License-Identifier: GPL-2.0-only
//! The extensions of Intel's counters from version 6 on: a counter can be reloaded when another counter overflows
//! (`IA32_PMC_x_CFG_B`), and a counter can write records (`IA32_PMC_x_CFG_C`).
//!
//! Both take effect when the counter is enabled. Linux perf sets these registers for an event, and leaves them set when
//! the event ends.

use crate::{
    cpu::{msr, ThisCpu},
    logic::{
        counter::{each, CounterId},
        msr::Msr,
        pmu::Pmu,
    },
    percpu::Word,
};

impl Pmu {
    /// Saves and clears the extensions of this CPU's counters, which then only count.
    pub(super) fn clear_extensions(&self, here: ThisCpu<'_>) {
        let saved = &here.percpu().saved;
        self.each_extension(here, |counter| {
            clear_register(here, Msr::reload(counter), &saved.reload[counter.index()]);
            clear_register(here, Msr::records(counter), &saved.records[counter.index()]);
        });
    }

    /// Undoes [`Self::clear_extensions`].
    pub(super) fn restore_extensions(&self, here: ThisCpu<'_>) {
        let saved = &here.percpu().saved;
        self.each_extension(here, |counter| {
            restore_register(here, Msr::reload(counter), &saved.reload[counter.index()]);
            restore_register(here, Msr::records(counter), &saved.records[counter.index()]);
        });
    }

    /// Calls `f` for each counter that has extensions on this CPU.
    fn each_extension(&self, here: ThisCpu<'_>, f: impl Fn(CounterId)) {
        let extended = here.percpu().extended_counters.get() & self.capabilities.counters();
        each(extended).for_each(f);
    }
}

/// Saves and clears a register. Under a hypervisor, CPUID may report a register that is missing.
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
