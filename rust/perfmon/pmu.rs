// SPDX-License-Identifier: GPL-2.0-only
//! The PMU: what it has, and what is done to the counters of the current CPU.
//!
//! The functions here execute what [`crate::logic::plan`] prescribes. Who may call them for which
//! counter is the arbiter's business. What the makers do differently, beyond the numbers of the
//! registers, is in [`Maker`].

mod amd;
mod intel;
pub(crate) mod lbr;
mod repair;

use crate::{
    cpu::{
        self, in_ticks, jiffies, Regs, Slot, ThisCpu, Word, HEED_AMD, HEED_BRANCHES, HEED_KERNEL,
    },
    ffi,
    logic::{
        counter::{bits, each, CounterId, CounterKind, MAX_COUNTERS, MAX_GENERAL},
        cpuid::{Architecture, Capabilities, Leaf, NoPmu, Processor},
        evtsel::EventSelect,
        extend64::Width,
        load_limit::LoadLimit,
        plan::{RestoreValues, Step},
        regs::{GlobalMsrs, Msr, Registers},
        throttle::Limits,
    },
    msr,
    recorder::Set,
};
use core::{
    ptr,
    sync::atomic::{AtomicPtr, Ordering::Relaxed},
};
use kernel::{pr_err_once, prelude::*, sync::SetOnce, time::Msecs};

/// How late a PMI may be, in milliseconds: far more than any skid.
const SKID: Msecs = 10;

/// What one maker's PMU does differently from another's, beyond its registers. No trait: the overflow handler
/// is too short for calls through a table.
#[derive(Clone, Copy)]
pub(crate) enum Maker {
    Intel,
    Amd,
}

impl Maker {
    /// Expects the PMIs that may come after an NMI has served all overflows. `drained`: some of them came
    /// while the handler ran.
    fn expect_after(self, slot: &Slot, drained: bool) {
        match self {
            Self::Intel => intel::expect_after(slot, drained),
            Self::Amd => amd::expect_after(slot),
        }
    }
}

/// The registers of one counter.
#[derive(Clone, Copy)]
pub(crate) struct Lines {
    /// Where it is read.
    pub(crate) read: Msr,
    /// Where it is written.
    pub(crate) write: Msr,
    /// Where it is started and stopped.
    control: Msr,
}

impl Lines {
    /// Those of all counters that there may be, so that the overflow handler needs not work them out.
    const fn all(registers: &Registers) -> [Self; MAX_COUNTERS] {
        let mut all = [Self {
            read: registers.fixed_control,
            write: registers.fixed_control,
            control: registers.fixed_control,
        }; MAX_COUNTERS];
        let mut index = 0;
        while let Some(counter) = CounterId::from_index(index) {
            all[counter.index()] = Self {
                read: registers.read_msr(counter),
                write: registers.write_msr(counter),
                control: registers
                    .control(counter, EventSelect::new(0, 0), false)
                    .msr,
            };
            index += 1;
        }
        all
    }
}

/// A kind of PMU: what it can do, where its registers are, what is special about it.
pub(crate) struct Model {
    pub(crate) capabilities: Capabilities,
    pub(crate) registers: Registers,
    /// By [`CounterId::index`].
    lines: [Lines; MAX_COUNTERS],
    pub(crate) maker: Maker,
    /// If not 0, counters overflow after 2^`period_bits` events.
    pub(crate) period_bits: u32,
    /// What overflow interrupts may take of a CPU's time.
    pub(crate) limits: Limits,
    /// How few events a counter may be loaded for.
    pub(crate) load_limit: LoadLimit,
}

/// What all CPUs that are counted on have in common. Set when the module has been loaded.
static MODEL: SetOnce<Model> = SetOnce::new();

/// What all CPUs that are counted on have in common; nothing as long as that is being found out.
#[inline]
pub(crate) fn model() -> &'static Model {
    static NOTHING: Model = Model::new(Capabilities::NONE);

    MODEL.as_ref().unwrap_or(&NOTHING)
}

/// What [`model`] is, if that is settled.
#[inline(always)]
pub(crate) fn settled() -> Option<&'static Model> {
    MODEL.as_ref()
}

/// A place for the model of a CPU. All bits zero is an empty one.
///
/// ATOMICS: relaxed, as a [`Word`] of the same slot.
///
/// # Invariants
///
/// It is null, or points to a model that lives for ever.
pub(crate) struct ModelCell(AtomicPtr<Model>);

impl ModelCell {
    /// The model that was put in, if there is one.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<&'static Model> {
        // SAFETY: By the type invariant.
        unsafe { self.0.load(Relaxed).as_ref() }
    }

    /// Puts `model` in, or nothing.
    fn set(&self, model: Option<&'static Model>) {
        let model = model.map_or(ptr::null(), ptr::from_ref);
        // INVARIANT: So says the argument's lifetime. Nobody makes anything but shared references of it.
        self.0.store(model.cast_mut(), Relaxed);
    }
}

/// Settles what [`model`] is.
///
/// Not inlined: keeps the [`Model`] off the stack of the caller.
#[inline(never)]
pub(crate) fn settle(
    capabilities: Capabilities,
    period_bits: u32,
    limits: Limits,
    load_limit: LoadLimit,
) {
    let mut model = Model::new(capabilities);
    model.period_bits = period_bits;
    model.limits = limits;
    model.load_limit = load_limit;
    MODEL.populate(model);
}

/// Who made the current CPU, and what CPUID says about its counters.
pub(crate) fn processor(_here: &ThisCpu) -> Processor {
    Processor::read(|leaf, subleaf| {
        let found = cpu::cpuid(leaf, subleaf);
        Leaf {
            eax: found.eax,
            ebx: found.ebx,
            ecx: found.ecx,
            edx: found.edx,
        }
    })
}

/// What the current CPU can do.
///
/// # Errors
///
/// Why there is nothing to count with.
pub(crate) fn probe(here: &ThisCpu) -> Result<Capabilities, NoPmu> {
    let processor = processor(here);
    let perf_capabilities = if processor.has_perf_capabilities() {
        // A hypervisor may show it in CPUID and not have it. Then nothing of it can be used.
        msr::read_safe(here, Msr::PERF_CAPABILITIES).unwrap_or(0)
    } else {
        0
    };
    processor.capabilities(perf_capabilities)
}

/// What the registers of a CPU held before its first counter was set up.
pub(crate) struct SavedRegisters {
    select: [Word; MAX_GENERAL],
    fixed_control: Word,
    global_control: Word,
    lvtpc: Word,
}

impl RestoreValues for SavedRegisters {
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

/// The local APIC's entry for performance-monitoring interrupts (Intel SDM, volume 3A, section
/// 12.5.1; AMD APM, volume 2, section 16.4.5).
pub(crate) struct Lvtpc(u32);

impl Lvtpc {
    /// Delivers them as NMIs, not masked.
    pub(crate) const NMI: Self = Self(0b100 << 8);
    const DELIVERY_MODE: u32 = 0b111 << 8;
    const MASKED: u32 = 1 << 16;

    /// Reads the current CPU's.
    pub(crate) fn read(_here: &ThisCpu) -> Self {
        // SAFETY: The caller stays on the CPU; reading the entry has no effect.
        Self(unsafe { ffi::perfmon_lvtpc_read() })
    }

    /// Writes the current CPU's.
    pub(crate) fn write(self, _here: &ThisCpu) {
        // SAFETY: The caller stays on the CPU. The value is `NMI`, for which the module has a handler,
        // or what was read here before.
        unsafe { ffi::perfmon_lvtpc_write(self.0) };
    }

    /// Whether interrupts are NMIs, masked or not.
    pub(crate) fn is_nmi(&self) -> bool {
        self.0 & Self::DELIVERY_MODE == Self::NMI.0
    }

    /// Returns whether interrupts are NMIs and are delivered.
    pub(crate) fn is_open(&self) -> bool {
        self.0 & (Self::DELIVERY_MODE | Self::MASKED) == Self::NMI.0
    }
}

impl Model {
    /// The model of a PMU with these capabilities.
    pub(crate) const fn new(capabilities: Capabilities) -> Self {
        let registers = Registers::new(&capabilities);
        Self {
            capabilities,
            registers,
            lines: Lines::all(&registers),
            maker: match capabilities.architecture {
                Architecture::Intel => Maker::Intel,
                Architecture::AmdLegacy | Architecture::AmdCore | Architecture::AmdV2 => Maker::Amd,
            },
            period_bits: 0,
            limits: Limits::NONE,
            load_limit: LoadLimit::Two,
        }
    }

    /// The registers of a counter.
    #[inline(always)]
    pub(crate) fn lines(&self, counter: CounterId) -> &Lines {
        &self.lines[counter.index()]
    }

    /// Remembers what the registers hold, and directs the overflow interrupt: the counters of this CPU
    /// were just reserved.
    pub(crate) fn take(&'static self, here: &ThisCpu) {
        let saved = &here.slot().saved;
        for (n, select) in (0..self.capabilities.general).zip(&saved.select) {
            select.set(msr::read(here, self.registers.select_msr(n)));
        }
        if self.capabilities.fixed != 0 {
            saved
                .fixed_control
                .set(msr::read(here, self.registers.fixed_control));
        }
        if let Some(global) = self.registers.global {
            saved.global_control.set(msr::read(here, global.control));
        }
        saved.lvtpc.set(Lvtpc::read(here).0.into());
        Lvtpc::NMI.write(here);
        if matches!(self.maker, Maker::Amd) {
            here.slot().heed.insert(HEED_AMD);
        }
        here.slot().model.set(Some(self));
    }

    /// Stops counters, whatever they do, and puts back what their registers held.
    pub(crate) fn give_back(&self, here: &ThisCpu, counters: u64) {
        let slot = here.slot();
        for counter in each(counters & slot.active.get()) {
            self.stop(here, counter);
        }
        slot.readable.remove(counters);
        for counter in each(counters) {
            self.settle_shared(here, || {
                msr::execute(here, &self.registers.restore(counter, &slot.saved));
            });
        }
    }

    /// Puts back what belongs to no counter: the last has been given back.
    pub(crate) fn leave(&self, here: &ThisCpu) {
        let slot = here.slot();
        slot.watch.stop(here);
        if matches!(self.maker, Maker::Intel) {
            intel::await_late(slot);
        }
        slot.model.set(None);
        Lvtpc(here.slot().saved.lvtpc.get() as u32).write(here);
    }

    /// Sets a counter up, stopped and zero; or marks it as tampered with, if the event select does not
    /// keep what is written to it.
    pub(crate) fn program(&self, here: &ThisCpu, counter: CounterId, select: EventSelect) {
        let slot = here.slot();
        if slot.active.get() & counter.bit() != 0 {
            self.stop(here, counter);
        }
        let width = self.load(here, counter, select);
        slot.count(counter)
            .begin(self.lines(counter).read, width, select);
        slot.tampered.remove(counter.bit());
        let written = self.registers.control(counter, select, false);
        self.inspect(here, &written, msr::read(here, written.msr), counter);
    }

    /// Sets a counter up again, on a CPU that has lost its registers; the value stays.
    pub(crate) fn resume(&self, here: &ThisCpu, counter: CounterId, select: EventSelect) {
        let width = self.load(here, counter, select);
        let count = here.slot().count(counter);
        count.resume(self.lines(counter).read, width, select);
    }

    fn load(&self, here: &ThisCpu, counter: CounterId, select: EventSelect) -> Width {
        let [general, fixed] = &here.slot().widths;
        let bits = match counter.kind() {
            CounterKind::General(_) => general,
            CounterKind::Fixed(_) => fixed,
        };
        let mut width = Width::new(bits.get() as u8, self.capabilities.full_width_writes);
        if self.period_bits != 0 {
            width = width.with_period(self.period_bits);
        }
        self.settle_shared(here, || {
            msr::execute(
                here,
                &self.registers.program(counter, select, width.load_value()),
            );
        });
        let slot = here.slot();
        slot.count(counter).expect(
            &self.registers.control(counter, select, true),
            &self.registers.control(counter, select, false),
        );
        slot.event(counter).ignore(width.period);
        width
    }

    /// Lets a counter count.
    pub(crate) fn start(&self, here: &ThisCpu, counter: CounterId) {
        let slot = here.slot();
        let select = slot.count(counter).select();
        if select.is_kernel() {
            slot.heed.insert(counter.bit());
        }
        // An active counter that is not enabled there is one that somebody else has interrupted (`look`).
        if let Some(step) = self.registers.enable_global(counter) {
            msr::change(here, &step);
        }
        // Only now: as soon as it counts it may overflow.
        slot.active.insert(counter.bit());
        self.settle_shared(here, || {
            msr::change(here, &self.registers.control(counter, select, true));
        });
        slot.watch.start(here, self);
    }

    /// Makes a change of a counter's registers, one of which all fixed-function counters share
    /// (`IA32_FIXED_CTR_CTRL`).
    ///
    /// The overflow handler stops counters for good when a buffer is full. If it did so between the read
    /// and the write of the change, that has started them again.
    fn settle_shared(&self, here: &ThisCpu, change: impl FnOnce()) {
        let slot = here.slot();
        let stops = slot.stops.get();
        change();
        if slot.stops.get() != stops {
            for counter in each(slot.recorder.counters.get() & !slot.active.get()) {
                self.halt(here, counter);
            }
        }
    }

    /// Stops a counter and brings its value up to date; or marks it as tampered with, if it was not
    /// counting what it should.
    pub(crate) fn stop(&self, here: &ThisCpu, counter: CounterId) {
        let slot = here.slot();
        let select = slot.count(counter).select();
        let written = self.registers.control(counter, select, true);
        let found = msr::read(here, written.msr);
        if slot.active.get() & counter.bit() == 0 {
            // The buffer has become full since the caller looked, and the handler has stopped it.
            return;
        }
        self.inspect(here, &written, found, counter);
        self.look_at_global(here, counter.bit());
        self.halt(here, counter);
        repair::report(here);
    }

    /// The same, without looking at what it was doing.
    pub(crate) fn halt(&self, here: &ThisCpu, counter: CounterId) {
        let slot = here.slot();
        let count = slot.count(counter);
        self.settle_shared(here, || {
            msr::change(
                here,
                &self.registers.control(counter, count.select(), false),
            );
        });

        // From here on the overflow handler lets the counter alone. If it has overflowed on its last events,
        // the interrupt is on its way and may come at any time, so it is expected before that is known.
        let expectation = slot.pending.expect(in_ticks(SKID));
        slot.active.remove(counter.bit());
        slot.heed.remove(counter.bit());
        self.update(here, counter);
        if count.overflow(here, self.lines(counter)) {
            self.forget_overflow(here, counter);
        } else {
            slot.pending.cancel(expectation);
        }
    }

    /// Marks a counter as tampered with if a register holds something else than was written to it.
    fn inspect(&self, here: &ThisCpu, written: &Step, found: u64, counter: CounterId) {
        if !written.matches(found) {
            here.slot().spoil(counter.bit());
            report_tampering(here, written, found);
        }
    }

    /// Clears the overflow of a counter that is not active any more.
    #[cold]
    fn forget_overflow(&self, here: &ThisCpu, counter: CounterId) {
        let Some(global) = &self.registers.global else {
            return;
        };
        if msr::read(here, global.status) & counter.bit() == 0 {
            // It did not overflow by counting, or its PMI has been taken for another's.
            here.slot().lose(counter.bit());
        }
        if let Some(clear) = self.registers.clear_overflow(counter) {
            msr::change(here, &clear);
        }
    }

    /// Brings the value of a counter up to date.
    #[inline(always)]
    pub(crate) fn update(&self, here: &ThisCpu, counter: CounterId) {
        let slot = here.slot();
        let counted = slot.count(counter).update(here, self.lines(counter).read);
        if counted.is_err() {
            // Nor can a trace's other records be right.
            slot.spoil(counter.bit());
        }
    }

    /// Serves the overflows of this CPU's counters, in an NMI that came at `regs`. Tells for how many
    /// interrupts that stands.
    #[inline(always)]
    pub(crate) fn serve(&self, here: &ThisCpu, regs: Regs<'_>) -> u32 {
        let begin = cpu::timestamp();
        let slot = here.slot();
        let active = slot.active.get();
        let mut found = 0;
        if let Some(global) = &self.registers.global {
            self.look_at_global(here, active);
            found = acknowledge(here, global, active);
        }
        if found == 0 {
            // There is no status, or somebody else has cleared it: the counters still tell.
            found = self.overflowed(here, active);
            if found == 0 {
                return self.conclude(here, regs, begin, 0);
            }
        }
        slot.pending.served();
        let served = self.extend(here, found, regs, begin);
        if slot.heed.get() != 0 || self.has_overflow(here, active) {
            return self.conclude(here, regs, begin, served);
        }
        Lvtpc::NMI.write(here);
        self.charge(here, begin);
        served
    }

    /// Returns whether the status shows an overflow. The entry of the local APIC is unmasked when it does not:
    /// silicon may raise one late.
    #[inline(always)]
    fn has_overflow(&self, here: &ThisCpu, counters: u64) -> bool {
        match &self.registers.global {
            Some(global) => msr::read(here, global.status) & counters != 0,
            None => false,
        }
    }

    /// Charges an NMI that began at `begin`. If its CPU spends too much time in such ones, sampling is
    /// suspended.
    #[inline(always)]
    fn charge(&self, here: &ThisCpu, begin: u64) {
        let slot = here.slot();
        let cycles = cpu::timestamp().wrapping_sub(begin);
        if slot.budget.charge(&self.limits, cycles) {
            slot.recorder.suspend();
        }
    }

    /// What else there may be to do when overflows have been served.
    #[cold]
    #[inline(never)]
    fn conclude(&self, here: &ThisCpu, regs: Regs<'_>, begin: u64, served: u32) -> u32 {
        let slot = here.slot();
        if slot.heed.get() & HEED_BRANCHES != 0 {
            lbr::unfreeze(here, self);
        }
        let mut drained = self.drain(here, regs);
        // Delivering a PMI masks the entry on Intel (SDM volume 3A, section 12.5.1). On AMD others may have
        // left it masked.
        Lvtpc::NMI.write(here);
        // What only counts programs can't overflow in here.
        if slot.heed.get() & HEED_KERNEL != 0 {
            // What overflowed between the last look and the unmasking has raised no interrupt.
            drained += self.drain(here, regs);
        }
        self.charge(here, begin);
        if served + drained == 0 {
            return slot.pending.consume(jiffies()).into();
        }
        self.maker.expect_after(slot, drained != 0);
        served + drained
    }

    /// Serves overflows until there is none.
    fn drain(&self, here: &ThisCpu, regs: Regs<'_>) -> u32 {
        /// So often that what is counted must be the handler itself.
        const TOO_OFTEN: u32 = 8;
        /// More than there are counters to overflow meanwhile: the status must be stuck.
        const ROUNDS: u32 = 64;

        let mut served = 0;
        for round in 0..ROUNDS {
            if round == TOO_OFTEN {
                here.slot().recorder.suspend();
            }
            // Serving may stop counters.
            let active = here.slot().active.get();
            let found = match &self.registers.global {
                Some(global) => acknowledge(here, global, active),
                None => self.overflowed(here, active),
            };
            if found == 0 {
                break;
            }
            served += self.extend(here, found, regs, cpu::timestamp());
        }
        served
    }

    /// Those of the counters that have overflowed since they were loaded.
    #[cold]
    #[inline(never)]
    fn overflowed(&self, here: &ThisCpu, counters: u64) -> u64 {
        bits(each(counters).filter(|&counter| {
            let msr = self.lines(counter).read;
            here.slot().count(counter).has_overflowed(here, msr)
        }))
    }

    /// Extends or records counters that have overflowed, as of the time `now`, and tells how many they are.
    #[inline(always)]
    fn extend(&self, here: &ThisCpu, found: u64, regs: Regs<'_>, now: u64) -> u32 {
        let slot = here.slot();
        let mut set = Set::new(&slot.recorder, regs, now);
        let mut served: u32 = 0;
        for counter in each(found) {
            let count = slot.count(counter);
            let lines = self.lines(counter);
            if !count.is_controlled_by(msr::read(here, lines.control)) {
                slot.spoil(counter.bit());
            }
            let total = count.update_in_nmi(here, lines.read);
            let events = set.serve(counter, slot.event(counter), total);
            count.load(here, lines.write, events, total);
            served = served.wrapping_add(1);
        }
        set.end(here, self);
        served
    }
}

/// Those of the counters `active` of which the status says that they have overflowed: it is cleared.
#[inline(always)]
fn acknowledge(here: &ThisCpu, global: &GlobalMsrs, active: u64) -> u64 {
    let found = msr::read(here, global.status) & active;
    if found != 0 {
        // Before the counters are looked at: what comes later sets it again.
        msr::write(here, global.clear, found);
    }
    found
}

/// Tells in the log what a register holds instead of what was written to it: once, for a cause like
/// this does not go away.
fn report_tampering(here: &ThisCpu, written: &Step, found: u64) {
    pr_err_once!(
        "MSR {:#x} of CPU {} holds {:#x} instead of {:#x}: somebody else writes the counters (a \
         hypervisor, or KVM's mediated vPMU), so they can't be relied on\n",
        written.msr.number(),
        here.number(),
        found,
        written.apply(found)
    );
}
