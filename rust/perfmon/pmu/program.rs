// SPDX-License-Identifier: GPL-2.0-only
//! Setting up counters: their registers, and their values in memory.

use crate::{
    cpu::{msr, ThisCpu},
    logic::{
        counter::{CounterId, CounterKind},
        evtsel::EventSelect,
        extend64::Width,
        msr::Msr,
        plan::Step,
        pmu::Pmu,
    },
};
use kernel::pr_err_once;

impl Pmu {
    /// Sets a counter up, stopped and zero. Marks the counter as tampered with if its control register does not hold
    /// the value that was written.
    pub(crate) fn program(&self, here: ThisCpu<'_>, counter: CounterId, select: EventSelect) {
        let percpu = here.percpu();
        if percpu.active_mask.get() & counter.bit() != 0 {
            self.stop(here, counter);
        }
        let width = self.write_registers(here, counter, select);
        percpu
            .value(counter)
            .init(self.msrs(counter).read, width, select);
        percpu.tampered.remove(counter.bit());
        let written = self.registers.control(counter, select, false);
        self.verify(here, &written, msr::read(here, written.msr), counter);
    }

    /// Sets a counter up again, stopped, on a CPU whose registers have lost the setup. The
    /// counter's value stays.
    pub(crate) fn reprogram(&self, here: ThisCpu<'_>, counter: CounterId, select: EventSelect) {
        let width = self.write_registers(here, counter, select);
        let value = here.percpu().value(counter);
        value.continue_on_counter(self.msrs(counter).read, width, select);
    }

    /// Writes the registers of a counter that is stopped, and caches its control values. Returns its width.
    fn write_registers(&self, here: ThisCpu<'_>, counter: CounterId, select: EventSelect) -> Width {
        let percpu = here.percpu();
        let [general, fixed] = &percpu.widths;
        let bits = match counter.kind() {
            CounterKind::General(_) => general,
            CounterKind::Fixed(_) => fixed,
        };
        let mut width = Width::new(bits.get() as u8, self.capabilities.full_width_writes);
        if self.period_bits != 0 {
            width = width.with_load_distance(self.period_bits);
        }
        self.rmw_shared(here, || {
            msr::execute(
                here,
                &self.registers.program(counter, select, width.load_value()),
            );
        });
        percpu.value(counter).set_expected_control(
            &self.registers.control(counter, select, true),
            &self.registers.control(counter, select, false),
        );
        percpu
            .sampled_counter(counter)
            .set_unsampled(width.load_distance);
        width
    }

    /// Marks a counter as tampered with if its control register, which holds `actual`, has other bits than the step
    /// `written`.
    #[inline(always)]
    pub(super) fn verify(
        &self,
        here: ThisCpu<'_>,
        written: &Step,
        actual: u64,
        counter: CounterId,
    ) {
        if !written.matches(actual) {
            mark_and_log_tampered(here, counter, written.msr, actual, written.apply(actual));
        }
    }
}

/// Marks a counter as tampered with, because its control register holds `actual` instead of `expected`. Logs this once.
#[cold]
#[inline(never)]
fn mark_and_log_tampered(
    here: ThisCpu<'_>,
    counter: CounterId,
    control: Msr,
    actual: u64,
    expected: u64,
) {
    here.percpu().mark_tampered(counter.bit());
    pr_err_once!(
        "MSR {:#x} of CPU {} holds {:#x} instead of {:#x}: something else writes the counters (a \
         hypervisor, or KVM's mediated vPMU), so their values can't be trusted\n",
        control.number(),
        here.id().as_u32(),
        actual,
        expected
    );
}
