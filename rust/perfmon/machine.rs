// SPDX-License-Identifier: GPL-2.0-only
//! The CPUs that are counted on: those found at load, those that come and go, and all of them when
//! the system sleeps.

use crate::{
    arbiter::{Arbiter, Reservation, ARBITER},
    cpu::{self, on_each, undisturbed, Callbacks, Hotplug, ThisCpu},
    dirty,
    logic::{
        counter_state::CounterState,
        cpuid::{Architecture, Capabilities, NoPmu},
        extend64::Width,
        load_limit::LoadLimit,
        throttle::Limits,
    },
    msr,
    pmu::{self, Model},
    trace, trial,
};
use kernel::{cpu::CpuId, prelude::*};

/// Looks at the machine and gets ready to count on its CPUs.
///
/// # Errors
///
/// ENODEV if there is nothing to count with, EINVAL if `period_bits` is out of its range; the log says
/// what was found.
///
/// # Safety
///
/// To be called once in the module's life, before anything else of this file and of
/// [`crate::arbiter`] is used.
pub(crate) unsafe fn begin(
    unarbitrated: bool,
    period_bits: u32,
    limits: Limits,
) -> Result<Hotplug<Machine>> {
    // SAFETY: By the requirement this is the first use, and the only initialization.
    unsafe { ARBITER.init() };
    ARBITER.lock().common = find(unarbitrated)?;
    let cpus = Hotplug::register()?;
    {
        // Until here, each CPU that joined could lessen what all have in common.
        let arbiter = ARBITER.lock();
        check_period(period_bits, &arbiter.common).map(|()| {
            let load_limit = LoadLimit::for_processor(&pmu::processor(&cpu::pin()));
            pmu::settle(arbiter.common, period_bits, limits, load_limit);
        })?;
        trial::run(&arbiter)
    }?;
    Ok(cpus)
}

/// Whether all counters can be made to overflow after 2^`bits` events.
fn check_period(bits: u32, common: &Capabilities) -> Result {
    /// With less the machine would do little else than serve overflows.
    const LEAST: u32 = 8;

    if bits == 0 {
        return Ok(());
    }
    let mut most = Width::new(common.general_width, common.full_width_writes);
    if common.fixed != 0 {
        let fixed = Width::new(common.fixed_width, common.full_width_writes);
        most = most.with_period(fixed.period.trailing_zeros());
    }
    let most = most.period.trailing_zeros();
    if !(LEAST..=most).contains(&bits) {
        pr_err!("period_bits={bits}: on these CPUs it is 0, or {LEAST} to {most}\n");
        return Err(EINVAL);
    }
    pr_info!("for tests, counters overflow after 2^{bits} events\n");
    Ok(())
}

/// What the current CPU can do.
fn find(unarbitrated: bool) -> Result<Capabilities> {
    let here = cpu::pin();
    match pmu::probe(&here).and_then(|found| check(&here, found)) {
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
            let cpu = pmu::processor(&here);
            pr_err!(
                "no PMU: {} family {} model {:#x}{}: {}\n",
                core::str::from_utf8(&cpu.vendor_id).unwrap_or("unknown maker"),
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

/// Finds out whether the counters are there where CPUID does not tell: every AMD processor has the
/// legacy ones, but not every hypervisor.
///
/// Not inlined: keeps the [`Model`] off the stack of [`begin`].
#[inline(never)]
fn check(here: &ThisCpu, found: Capabilities) -> Result<Capabilities, NoPmu> {
    /// Something that no counter holds by chance.
    const PATTERN: u64 = 0x5a5a_a5a5;

    if found.architecture != Architecture::AmdLegacy {
        return Ok(found);
    }
    let model = Model::new(found);
    let counter = model.registers.counter_msr(0);
    msr::read_safe(here, counter).map_err(|_| NoPmu::Registers)?;
    // If they are Linux perf's, they are there.
    let Ok(_reservation) = Reservation::new(&model) else {
        return Ok(found);
    };
    let before = msr::read(here, counter);
    msr::write(here, counter, PATTERN);
    let holds = msr::read(here, counter) == PATTERN;
    msr::write(here, counter, before);
    if holds {
        Ok(found)
    } else {
        Err(NoPmu::Registers)
    }
}

/// What happens when CPUs come and go.
pub(crate) struct Machine;

impl Callbacks for Machine {
    fn online(cpu: CpuId, here: &ThisCpu) {
        let mut arbiter = ARBITER.lock();
        let found = match pmu::probe(here) {
            Ok(found) => found,
            Err(reason) => {
                arbiter.unfit.add(cpu);
                pr_warn!(
                    "CPU {} is not counted on: {}\n",
                    cpu.as_u32(),
                    reason.reason()
                );
                return;
            }
        };
        if pmu::settled().is_none() {
            arbiter.common = arbiter.common.intersection(found);
        } else if !found.includes(arbiter.common) {
            arbiter.unfit.add(cpu);
            pr_warn!(
                "CPU {} is not counted on: it has fewer counters or events than the others\n",
                cpu.as_u32()
            );
            return;
        }
        let [general, fixed] = &here.slot().widths;
        general.set(found.general_width.into());
        fixed.set(found.fixed_width.into());
        here.slot().arch_events.set(found.arch_events.into());
        arbiter.known.add(cpu);
        arbiter.counted.add(cpu);
        let alone = arbiter.known.iter().count() == 1;
        for known in arbiter.known.iter() {
            cpu::slot(known).alone.set(alone.into());
        }
        if arbiter.is_reserved() {
            dirty::clean_here(here);
        }
        undisturbed(|here| join(&arbiter, here));
    }

    fn offline(cpu: CpuId, _here: &ThisCpu) {
        let mut arbiter = ARBITER.lock();
        arbiter.paused.remove(cpu);
        arbiter.unfit.remove(cpu);
        if arbiter.counted.remove(cpu) {
            undisturbed(|here| part(&arbiter, here));
        }
    }
}

/// Begins to count on a CPU. Nothing else may run on it meanwhile: a task could read the counters.
fn join(arbiter: &Arbiter, here: &ThisCpu) {
    let model = pmu::model();
    if arbiter.is_reserved() {
        model.take(here);
        for (id, counter) in arbiter.all() {
            model.resume(here, id, counter.select);
            let slot = here.slot();
            slot.readable.insert(id.bit() & !slot.tampered.get());
            if counter.state == CounterState::Running {
                model.start(here, id);
            }
        }
    }
    here.slot().counted.set(1);
}

/// Ceases to count on a CPU; the values stay. Nothing else may run on it meanwhile, as in [`join`].
fn part(arbiter: &Arbiter, here: &ThisCpu) {
    let model = pmu::model();
    here.slot().counted.set(0);
    if !arbiter.is_reserved() {
        return;
    }
    trace::part(here, model);
    for (id, counter) in arbiter.all() {
        if counter.state == CounterState::Running {
            model.stop(here, id);
        }
        model.give_back(here, id.bit());
    }
    model.leave(here);
}

/// Ceases to count on all CPUs. Calls from programs go on: they find no CPU to do anything on.
pub(crate) fn pause() {
    let mut guard = ARBITER.lock();
    let arbiter: &Arbiter = &guard;
    on_each(&arbiter.counted, |here| part(arbiter, here));
    guard.pause();
}

/// Counts again on the CPUs that were counted on when [`pause`] was called, except those gone offline
/// since.
pub(crate) fn resume() {
    let mut guard = ARBITER.lock();
    guard.resume();
    let arbiter: &Arbiter = &guard;
    on_each(&arbiter.counted, |here| {
        if here.slot().counted.get() == 0 {
            join(arbiter, here);
        }
    });
}
