// SPDX-License-Identifier: GPL-2.0-only
//! The CPUs that counters count on: their probe at load, their hotplug, and the sleep of the system.

mod probe;
mod trial;

use crate::{
    abi,
    cpu::{self, irqs_off, Hotplug, HotplugCallbacks, PowerCallbacks, ThisCpu},
    event,
    logic::{
        core_kinds::{CoreKind, Encodings},
        counter::{mask_of, CounterId},
        counter_state::CounterState,
        cpuid::Capabilities,
        load_limit::LoadLimit,
        throttle::Limits,
    },
    ownership::{clean_dirty_counters_here, CountingSetup, Ownership, OWNERSHIP, PLACE_HOLDERS},
    percpu, pmu, trace,
};
use kernel::prelude::*;

/// Detects the PMU and prepares to count on the machine's CPUs.
///
/// # Errors
///
/// ENODEV if no counter can be used, EINVAL if a module parameter has a value that these CPUs do
/// not support; the log says why.
///
/// # Safety
///
/// To be called once in the module's life, before any other use of this folder and of [`OWNERSHIP`].
pub(crate) unsafe fn init(
    place_holder: bool,
    period_bits: u32,
    throttle_limits: Limits,
) -> Result<Hotplug<CpuCallbacks>> {
    // SAFETY: `OWNERSHIP.init` must be called once, before any other use of `OWNERSHIP`, which this function's caller
    // promises.
    unsafe { OWNERSHIP.init() };
    let capabilities = probe::detect_capabilities()?;
    OWNERSHIP
        .lock()
        .cpus_mut()
        .set_common_capabilities(capabilities);
    let cpus = Hotplug::register()?;
    {
        // CPUs that come online after `pmu::set_common` don't change the common capabilities.
        let load_limit = LoadLimit::for_processor(&pmu::processor(cpu::pin().here()));
        let perf_types = probe::perf_types();
        let mut ownership = OWNERSHIP.lock();
        let mut kinds = *ownership.cpus().kinds();
        kinds.set_types(|kind| perf_types[kind.number()]);
        let (common, counter) =
            probe::leave_place_holder(*ownership.cpus().common_capabilities(), place_holder)?;
        if let Some(counter) = counter {
            kinds.leave_place_holder(counter);
        }
        ownership.cpus_mut().set_common_capabilities(common);
        probe::check_load_distance(period_bits, &common)?;
        pmu::set_common(
            common,
            &kinds,
            counter,
            period_bits,
            throttle_limits,
            load_limit,
        );
    }
    trial::run()?;
    Ok(cpus)
}

/// The callbacks for hotplug and for sleep.
pub(crate) struct CpuCallbacks;

impl HotplugCallbacks for CpuCallbacks {
    fn online(here: ThisCpu<'_>) {
        let cpu = here.id();
        let mut place_holders = PLACE_HOLDERS.lock();
        let place_holder_result = place_holders.add(cpu);
        // A caller that reserves the counters after this check finds this CPU online, and cleans it.
        if place_holder_result.is_ok() && OWNERSHIP.lock().is_reserved() {
            clean_dirty_counters_here(here);
        }
        let mut ownership = OWNERSHIP.lock();
        let checked_cpu = match place_holder_result {
            Ok(()) => check_cpu(&mut ownership, here),
            Err(refusal) => Err(refusal.reason()),
        };
        let (capabilities, kind) = match checked_cpu {
            Ok(checked) => checked,
            Err(reason) => {
                ownership.cpus_mut().add_incapable(cpu);
                here.percpu().is_refused.set(1);
                drop(ownership);
                place_holders.remove(cpu);
                pr_warn!(
                    "CPU {} is not used for counting: {reason}. Events of tasks that run there fail with EIO: keep such tasks off \
                     this CPU\n",
                    cpu.as_u32()
                );
                return;
            }
        };
        let percpu = here.percpu();
        let [general, fixed] = &percpu.widths;
        general.set(capabilities.general_width.into());
        fixed.set(capabilities.fixed_width.into());
        percpu.set_core_kind(kind);
        percpu.arch_events.set(capabilities.arch_events.into());
        percpu
            .extended_counters
            .set(pmu::processor(here).extended_counters());

        let is_awake = ownership.cpus_mut().add(cpu);
        let used_cpus = ownership.cpus().ever_used();
        let is_only_cpu = used_cpus.only_cpu().is_some();
        for cpu in used_cpus.iter() {
            percpu::of_cpu(cpu).single_cpu.set(is_only_cpu.into());
        }
        if is_awake {
            bring_up(&ownership, irqs_off().here());
        }
    }

    fn offline(here: ThisCpu<'_>) {
        let mut place_holders = PLACE_HOLDERS.lock();
        let mut ownership = OWNERSHIP.lock();
        here.percpu().is_refused.set(0);
        if ownership.cpus_mut().remove(here.id()) {
            tear_down(&ownership, irqs_off().here());
        }
        drop(ownership);
        place_holders.remove(here.id());
    }
}

impl PowerCallbacks for CpuCallbacks {
    /// Stops counting on all CPUs. Calls from programs are still served, but act on no CPU.
    fn suspend() {
        let mut ownership = OWNERSHIP.lock();
        ownership.on_each(|here| tear_down(&ownership, here));
        ownership.cpus_mut().pause();
    }

    /// Counts again on the CPUs that are online and can be used for counting, including CPUs that
    /// came online during the sleep.
    fn resume() {
        let mut ownership = OWNERSHIP.lock();
        ownership.cpus_mut().resume();
        ownership.on_each(|here| {
            if here.percpu().brought_up.get() == 0 {
                bring_up(&ownership, here);
            }
        });
    }
}

/// Checks whether a CPU that has come online can be used for counting, and returns its capabilities and its kind.
///
/// While the module is being loaded, a CPU that lacks capabilities of the CPUs checked before
/// reduces the common capabilities, and the CPU's kind is added. After that, such a CPU is refused.
///
/// # Errors
///
/// The reason why the CPU is refused, for the log.
fn check_cpu(
    ownership: &mut Ownership,
    here: ThisCpu<'_>,
) -> Result<(Capabilities, CoreKind), &'static str> {
    let capabilities = pmu::probe(here).map_err(|reason| reason.reason())?;
    let cpus = ownership.cpus_mut();
    let common = *cpus.common_capabilities();
    let kind = if !pmu::has_common() {
        let kind = cpus.kinds_mut().add(&capabilities);
        let kind = kind.ok_or(
            "the module supports three kinds of cores, and other CPUs are of three others",
        )?;
        // A CPU that was refused above does not reduce the common capabilities.
        cpus.set_common_capabilities(common.intersection(capabilities));
        kind
    } else if capabilities.includes(common) {
        let kind = pmu::common().kinds.kind_of(&capabilities);
        kind.ok_or(
            "it has fewer counters or events than the others of its kind, or is of a kind that was offline when the \
             module was loaded; reload the module while this CPU is online",
        )?
    } else {
        return Err("it has fewer counters or events than the others; reload the module while this CPU is online");
    };
    Ok((capabilities, kind))
}

/// Begins to count on a CPU. No program's task may run on the CPU meanwhile, since the task could
/// read the counters.
fn bring_up(ownership: &Ownership, here: ThisCpu<'_>) {
    let percpu = here.percpu();
    if ownership.is_claimed() {
        let pmu = pmu::common();
        pmu.claim(here);
        let counts_here = |(_, counting): &(CounterId, &CountingSetup)| counting.counts_on(percpu);
        for (id, counting) in ownership.counting_setups().filter(counts_here) {
            pmu.reprogram(here, id, counting.select);
            percpu.setup_mask.insert(id.bit() & !percpu.tampered.get());
            if counting.state == CounterState::Running {
                pmu.start(here, id);
            }
        }
        let counters = pmu.counters_on(here);
        let has_counter = |(id, _): &(CounterId, Encodings)| counters & id.bit() != 0;
        for (id, encodings) in ownership.event_counters().filter(has_counter) {
            pmu.set_up_tampered(here, id, encodings.select_or_empty(percpu.core_kind()));
        }
    }
    // Events may have been opened and closed while the CPU was offline.
    percpu.task_counters.set(ownership.counters_of_tasks());
    percpu
        .overlapping_counters
        .set(ownership.overlapping_counters());
    percpu.brought_up.set(1);
    event::load_contexts(here);
}

/// Stops counting on a CPU. The counters' values stay. No program's task may run on the CPU
/// meanwhile, since the task could read the counters.
fn tear_down(ownership: &Ownership, here: ThisCpu<'_>) {
    event::unload_contexts(here);
    here.percpu().brought_up.set(0);
    trace::cpu::finish(here, abi::PERFMON_BUFFER_FLAG_OFFLINE);
    if !ownership.is_claimed() {
        return;
    }
    let pmu = here.pmu();
    pmu.restore(here, mask_of(ownership.counting_setups().map(|(id, _)| id)));
    pmu.restore(here, mask_of(ownership.event_counters().map(|(id, _)| id)));
    pmu.release(here);
}
