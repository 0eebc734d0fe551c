// SPDX-License-Identifier: GPL-2.0-only
//! The PMU of the current CPU: what it has, and what is done to one counter.
//!
//! The functions here execute what [`crate::logic::plan`] prescribes. Who may call them for which
//! counter is the arbiter's business.

mod intel;

use crate::{
    cpu::{self, ThisCpu, Word},
    logic::{
        count::Width,
        counter::{each, CounterId, MAX_GENERAL},
        cpuid::{Capabilities, Leaf, NoPmu, Processor},
        evtsel::EventSelect,
        plan::Saved,
        regs::Registers,
    },
    msr::{self, Tampered},
};
use kernel::prelude::*;

/// A kind of PMU: what it can do, and where its registers are.
#[derive(Clone, Copy)]
pub(crate) struct Model {
    pub(crate) capabilities: Capabilities,
    pub(crate) registers: Registers,
}

impl Model {
    /// One that has nothing.
    pub(crate) const NOTHING: Self = Self::new(Capabilities::NOTHING);

    pub(crate) const fn new(capabilities: Capabilities) -> Self {
        Self {
            capabilities,
            registers: Registers::new(&capabilities),
        }
    }
}

/// Who made the current CPU, and what it says about its counters.
pub(crate) fn processor(_here: &ThisCpu) -> Processor {
    Processor::read(|leaf| {
        let found = cpu::cpuid(leaf);
        Leaf {
            eax: found.eax,
            ebx: found.ebx,
            ecx: found.ecx,
            edx: found.edx,
        }
    })
}

/// What the current CPU can do.
pub(crate) fn probe(here: &ThisCpu) -> Result<Capabilities, NoPmu> {
    let processor = processor(here);
    processor.capabilities(intel::perf_capabilities(here, &processor))
}

/// What the current CPU can do, when the module is loaded.
///
/// # Errors
///
/// ENODEV if it has no PMU that this module can use; the log says what was found.
pub(crate) fn find(unarbitrated: bool) -> Result<Capabilities> {
    let here = cpu::pin();
    match probe(&here) {
        Ok(found) if found.is_arbitrated() || unarbitrated => Ok(found),
        Ok(found) => {
            pr_err!(
                "CPUID shows performance monitoring version {}, whose counters this kernel can't \
                 reserve: Linux perf and this module would overwrite each other's. If nothing else \
                 uses perf, load with unarbitrated=1\n",
                found.version
            );
            Err(ENODEV)
        }
        Err(reason) => {
            let cpu = processor(&here);
            pr_err!(
                "no PMU: {} family {} model {:#x}{}: {}\n",
                core::str::from_utf8(&cpu.vendor).unwrap_or("unknown maker"),
                cpu.family(),
                cpu.model(),
                if cpu.is_virtual() {
                    " under a hypervisor"
                } else {
                    ""
                },
                reason.reason()
            );
            Err(ENODEV)
        }
    }
}

/// What the registers of a CPU held before its first counter was set up.
pub(crate) struct SavedRegisters {
    select: [Word; MAX_GENERAL],
    fixed_control: Word,
    global_control: Word,
}

impl Saved for SavedRegisters {
    fn select(&self, n: u8) -> u64 {
        self.select.get(usize::from(n)).map_or(0, Word::get)
    }

    fn fixed_control(&self) -> u64 {
        self.fixed_control.get()
    }

    fn global_control(&self) -> u64 {
        self.global_control.get()
    }
}

impl Model {
    /// Remembers what the registers hold: the counters of this CPU were just reserved.
    pub(crate) fn take(&self, here: &ThisCpu) {
        let saved = &here.slot().saved;
        for (n, select) in (0..self.capabilities.general).zip(&saved.select) {
            select.set(msr::read(here, self.registers.select(n)));
        }
        if self.capabilities.fixed != 0 {
            saved
                .fixed_control
                .set(msr::read(here, self.registers.fixed_control));
        }
        if let Some(global) = self.registers.global {
            saved.global_control.set(msr::read(here, global.control));
        }
    }

    /// Puts back what was remembered, for the counters of the set `touched`.
    pub(crate) fn give_back(&self, here: &ThisCpu, touched: u64) {
        for counter in each(touched) {
            msr::execute(here, &self.registers.restore(counter, &here.slot().saved));
        }
    }

    /// Sets a counter up, stopped and zero. Fails if the event select does not keep what is written.
    pub(crate) fn program(
        &self,
        here: &ThisCpu,
        counter: CounterId,
        select: EventSelect,
    ) -> Result<(), Tampered> {
        let width = self.load(here, counter, select);
        here.slot().counts[counter.index()].begin(width);
        msr::holds(here, &self.registers.control(counter, select, false))
    }

    /// Sets a counter up again on a CPU that lost its registers; the value stays.
    pub(crate) fn resume(&self, here: &ThisCpu, counter: CounterId, select: EventSelect) {
        let width = self.load(here, counter, select);
        here.slot().counts[counter.index()].resume(width);
    }

    fn load(&self, here: &ThisCpu, counter: CounterId, select: EventSelect) -> Width {
        let width = self.capabilities.width(counter);
        msr::execute(
            here,
            &self.registers.program(counter, select, width.start()),
        );
        width
    }

    /// Lets a counter count.
    pub(crate) fn start(&self, here: &ThisCpu, counter: CounterId, select: EventSelect) {
        msr::execute(here, &self.registers.start(counter, select));
    }

    /// Stops a counter and takes its value. Fails if it was not counting what it should.
    pub(crate) fn stop(
        &self,
        here: &ThisCpu,
        counter: CounterId,
        select: EventSelect,
    ) -> Result<(), Tampered> {
        let intact = msr::holds(here, &self.registers.control(counter, select, true));
        msr::change(here, &self.registers.control(counter, select, false));
        self.update(here, counter);
        intact
    }

    /// Brings the value of a counter up to date.
    #[inline(always)]
    pub(crate) fn update(&self, here: &ThisCpu, counter: CounterId) {
        here.slot().counts[counter.index()].update(here, self.registers.read(counter));
    }
}
