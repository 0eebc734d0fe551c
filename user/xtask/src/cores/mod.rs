// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the module's tables of each core (`rust/perfmon/logic/cores`) with Linux's own tables.
//! For each Intel model that Linux knows, it compares the counters and extra registers of all
//! events and unit masks, the counters that can take precise samples of the events, the access to
//! memory in these samples, the hardware events and the cache events; for AMD's cores only the
//! hardware and cache events.

mod differences;
mod full_pmu;
mod memory;
mod memory_tables;
mod setup;
mod source;
mod tables;
#[cfg(test)]
mod tests;

use std::path::Path;

use anyhow::{Result, bail, ensure};
use perfmon_core::logic::cache_events::cache_event;
use perfmon_core::logic::core_kinds::CoreKinds;
use perfmon_core::logic::cpuid::{Architecture, Capabilities, Leaf, Microarchitecture, Processor};
use perfmon_core::logic::event_attr::{InvalidAttr, PERF_TYPE_RAW, PerfEventAttr};
use perfmon_core::logic::event_config::EventConfig;
use perfmon_core::logic::event_counters::EventCounters;
use perfmon_core::logic::evtsel::EventSelect;
use perfmon_core::logic::extra_registers::ExtraRegister;
use perfmon_core::logic::hardware_events::hardware_event;
use perfmon_core::logic::pebs::PebsFormat;
use perfmon_core::logic::precise::CYCLES;

use differences::CoreDifferences;
use full_pmu::{GENERAL_COUNTERS, capabilities, precise_attr, precise_format};
use memory::compare_memory;
use setup::{Kind, Setup, setups};
use source::{Source, number};
use tables::{
    CACHES, CacheTable, Counters, EventMap, ExtraEvent, HARDWARE, OPERATIONS, RESULTS,
    constrained_counters,
};

/// The version of Linux that the module's tables were made from.
const LINUX_VERSION: &str = "7.3";

/// Models that Linux has no case for, each with a model that has the same cores.
const SUBSTITUTE_MODELS: [(&str, &str); 2] = [
    ("INTEL_PANTHERLAKE_R", "INTEL_PANTHERLAKE_L"),
    ("INTEL_BARTLETTLAKE", "INTEL_SAPPHIRERAPIDS_X"),
];

/// Exceptions: events (number and unit mask) that the module counts on fewer counters than Linux, which limits only
/// their precise samples. The last field is the module's counters, bit n for counter n.
const EXCEPTIONS: [(Microarchitecture, u64, u64); 1] =
    [(Microarchitecture::Broadwell, 0x01c0, 0x2)];

/// Linux's names of the extra registers that the module writes.
const EXTRA_REGISTERS: [(&str, ExtraRegister); 6] = [
    ("MSR_OFFCORE_RSP_0", ExtraRegister::OffcoreResponse0),
    ("MSR_OFFCORE_RSP_1", ExtraRegister::OffcoreResponse1),
    ("MSR_PEBS_LD_LAT_THRESHOLD", ExtraRegister::LoadLatency),
    ("MSR_PEBS_FRONTEND", ExtraRegister::Frontend),
    ("MSR_SNOOP_RSP_0", ExtraRegister::SnoopResponse0),
    ("MSR_SNOOP_RSP_1", ExtraRegister::SnoopResponse1),
];

/// Cores that share the extra registers, or whose threads do, so that the module does not write them.
const SHARED_REGISTERS: [Microarchitecture; 3] = [
    Microarchitecture::Nehalem,
    Microarchitecture::Westmere,
    Microarchitecture::Silvermont,
];

/// Cores whose models differ in the bits of the extra registers: the module accepts the bits of all
/// models, and a processor refuses the bits that it lacks.
const DIFFERENT_BITS: [Microarchitecture; 2] =
    [Microarchitecture::SandyBridge, Microarchitecture::IvyBridge];

/// AMD's cores: a family and a model, and the names of Linux's tables of hardware events and of cache events.
const AMD: [((u32, u32), &str, &str); 7] = [
    ((0x10, 2), "amd_perfmon_event_map", "amd_hw_cache_event_ids"),
    ((0x15, 2), "amd_perfmon_event_map", "amd_hw_cache_event_ids"),
    (
        (0x17, 0x01),
        "amd_zen1_perfmon_event_map",
        "amd_hw_cache_event_ids_f17h",
    ),
    (
        (0x19, 0x21),
        "amd_zen2_perfmon_event_map",
        "amd_hw_cache_event_ids_f17h",
    ),
    (
        (0x19, 0x61),
        "amd_zen4_perfmon_event_map",
        "amd_hw_cache_event_ids_f17h",
    ),
    (
        (0x1a, 0x44),
        "amd_zen4_perfmon_event_map",
        "amd_hw_cache_event_ids_f17h",
    ),
    (
        (0x1a, 0x50),
        "amd_zen4_perfmon_event_map",
        "amd_hw_cache_event_ids_f17h",
    ),
];

/// The mask of the general counters that are compared.
const ALL_GENERAL: u64 = (1 << GENERAL_COUNTERS) - 1;

/// Fails with a list of the differences from Linux. With another version of Linux than
/// [`LINUX_VERSION`], only prints the list.
pub(crate) fn check(linux: &Path) -> Result<()> {
    let x86 = linux.join("arch/x86");
    let models = Source::read(&x86, &["include/asm/intel-family.h"])?;
    let intel = Source::read(&x86, &["events/intel/core.c", "events/intel/ds.c"])?;
    let amd = Source::read(&x86, &["events/amd/core.c"])?;
    let mut messages = Vec::new();
    let mut models_with_tables = 0;
    for (name, family, model) in intel_models(&models)? {
        models_with_tables +=
            usize::from(check_intel(&intel, &name, family, model, &mut messages)?);
    }
    // If Linux's source changes so that it can't be parsed, models would seem to have no tables.
    ensure!(
        models_with_tables >= 70,
        "tables in Linux's source were found for only {models_with_tables} models"
    );
    for ((family, model), events, caches) in AMD {
        let cpu = amd_processor(family, model);
        let name = format!("{:?}", cpu.microarchitecture());
        let differences = CoreDifferences {
            name: &name,
            messages: &mut messages,
        };
        let hardware = tables::event_map(&amd, events)?;
        let caches = tables::cache_table(&amd, caches)?;
        compare_events(
            &cpu,
            Architecture::AmdCore,
            &hardware,
            &caches,
            &[],
            differences,
        );
    }
    if messages.is_empty() {
        return Ok(());
    }
    let messages = messages.join("\n  ");
    let version = std::fs::read_to_string(linux.join("version"))?;
    if !version.starts_with(LINUX_VERSION) {
        println!(
            "Linux {version} has different tables of events from {LINUX_VERSION}:\n  {messages}"
        );
        return Ok(());
    }
    bail!("rust/perfmon/logic/cores differs from Linux {LINUX_VERSION}:\n  {messages}")
}

/// Returns Intel's models: name, family, model.
fn intel_models(source: &Source) -> Result<Vec<(String, u32, u32)>> {
    let mut models = Vec::new();
    for line in source.lines() {
        let Some((name, numbers)) = line
            .strip_prefix("#define INTEL_")
            .and_then(|rest| rest.split_once("IFM("))
        else {
            continue;
        };
        let numbers = numbers.split(')').next().unwrap_or("");
        let Some((family, model)) = numbers.split_once(',') else {
            continue;
        };
        if let (Ok(family), Ok(model)) = (number(family), number(model)) {
            let (family, model) = (u32::try_from(family)?, u32::try_from(model)?);
            models.push((format!("INTEL_{}", name.trim()), family, model));
        }
    }
    Ok(models)
}

/// Compares an Intel model. Returns whether Linux has tables for it.
fn check_intel(
    source: &Source,
    name: &str,
    family: u32,
    model: u32,
    messages: &mut Vec<String>,
) -> Result<bool> {
    let substitute = SUBSTITUTE_MODELS.iter().find(|(ours, _)| *ours == name);
    let name_in_linux = substitute.map_or(name, |(_, same)| same);
    let setups = setups(source, name_in_linux)?;
    let has_tables = |setup: &Setup| setup.caches != CacheTable::default();
    for (&kind, setup) in setups.iter().filter(|(_, setup)| has_tables(setup)) {
        let cpu = intel_processor(family, model, kind);
        let core = cpu.microarchitecture();
        let name = format!("{core:?} ({name}, {kind:?})");
        if core == Microarchitecture::Unknown {
            messages.push(format!("{name}: the module does not know it"));
            continue;
        }
        let mut differences = CoreDifferences {
            name: &name,
            messages: &mut *messages,
        };
        compare_counters(core, setup, &mut differences);
        compare_precise_counters(core, setup, &mut differences);
        compare_registers(core, setup, &mut differences);
        compare_memory(source, core, setup, &mut differences)?;
        compare_events(
            &cpu,
            Architecture::Intel,
            &setup.hardware_events,
            &setup.caches,
            &setup.extra_register_events,
            differences,
        );
    }
    let is_known = setups.values().any(has_tables);
    let core = intel_processor(family, model, Kind::Only).microarchitecture();
    if !is_known && core != Microarchitecture::Unknown {
        messages.push(format!("{core:?} ({name}): Linux does not know it"));
    }
    if let Some(big) = setups.get(&Kind::Core) {
        // If the small cores are switched off, CPUID reports no hybrid processor, and all cores are
        // big.
        ensure!(has_tables(big), "{name} has big cores without tables");
        let big_core = intel_processor(family, model, Kind::Core).microarchitecture();
        if core != big_core {
            messages.push(format!(
                "{core:?} ({name}): with the small cores off, it should be {big_core:?}"
            ));
        }
    }
    Ok(is_known)
}

/// Returns the extra register of an event of Linux's, if the module writes that register.
fn written_register(core: Microarchitecture, event: &ExtraEvent) -> Option<ExtraRegister> {
    let mut registers = EXTRA_REGISTERS.iter();
    let register = registers.find(|(name, _)| *name == event.register)?.1;
    let is_written = match register {
        // The event of this register is counted with precise samples only.
        ExtraRegister::LoadLatency => precise_format(core).is_some(),
        _ => !SHARED_REGISTERS.contains(&core),
    };
    is_written.then_some(register)
}

/// Compares the extra registers of events: the register, and the bits of its value that are accepted.
fn compare_registers(
    core: Microarchitecture,
    setup: &Setup,
    differences: &mut CoreDifferences<'_>,
) {
    let capabilities = Capabilities {
        microarchitecture: core,
        pebs: precise_format(core),
        ..capabilities(Architecture::Intel)
    };
    let kinds = CoreKinds::one(&capabilities);
    for event in 0..=0xffff {
        let extra_event = setup.extra_event(event);
        let linux = extra_event.and_then(|extra| written_register(core, extra));
        let attr = match linux {
            Some(ExtraRegister::LoadLatency) => precise_attr(event),
            _ => PerfEventAttr {
                type_: PERF_TYPE_RAW,
                config: event,
                ..PerfEventAttr::ZERO
            },
        };
        let config = |value| {
            let attr = PerfEventAttr {
                config1: value,
                ..attr
            };
            EventConfig::new(&attr, &capabilities, &kinds)
        };
        let ours = config(0).ok().and_then(|config| config.extra);
        let name = format!("extra register of event {event:#06x}");
        differences.compare(&name, &ours.map(|extra| extra.register), &linux);
        if let (Some(_), Some(extra)) = (linux, extra_event) {
            let bits = (0..u64::BITS).filter(|bit| config(1 << bit).is_ok());
            let mut mask = bits.fold(0, |mask, bit| mask | 1_u64 << bit);
            if DIFFERENT_BITS.contains(&core) && mask & extra.mask == extra.mask {
                mask = extra.mask;
            }
            differences.compare(&format!("bits of the {name}"), &mask, &extra.mask);
        }
    }
}

/// Compares the fixed counter and the mask of general counters of each event with Linux's. The module must refuse an
/// event that needs an extra register which the module does not write.
fn compare_counters(core: Microarchitecture, setup: &Setup, differences: &mut CoreDifferences<'_>) {
    let capabilities = capabilities(Architecture::Intel);
    // Event number 0 is for Linux's pseudo-events.
    for event in (0..=0xffff).filter(|event| event & 0xff != 0) {
        let select = EventSelect::from_bits(event);
        let module_counters = match EventCounters::new(select, &capabilities, core) {
            Ok(counters) => Some((
                counters.fixed.map(|counter| counter.index() - 32),
                counters.general,
            )),
            Err(InvalidAttr::Unsupported) => None,
            Err(_) => Some((None, 0)),
        };
        let constrained = constrained_counters(&setup.constraints, event);
        let exception = EXCEPTIONS
            .iter()
            .find(|(excepted_core, number, _)| (*excepted_core, *number) == (core, event));
        let extra_event = setup.extra_event(event);
        let expected_counters = match (constrained, exception) {
            _ if extra_event.is_some_and(|extra| written_register(core, extra).is_none()) => None,
            (_, Some((_, _, counters))) => Some((None, counters & ALL_GENERAL)),
            (None, None) => Some((None, ALL_GENERAL)),
            (Some(counters), None) => Some(match counters {
                Counters::Fixed(counter) => (Some(counter.into()), ALL_GENERAL),
                Counters::General(counters) => (None, counters & ALL_GENERAL),
            }),
        };
        differences.compare(
            &format!("counters of event {event:#06x}"),
            &module_counters,
            &expected_counters,
        );
    }
}

/// Compares the general counters that can take precise samples of an event, on cores that have a format of records which the
/// module reads. Events that need an extra register which the module does not write are left out.
fn compare_precise_counters(
    core: Microarchitecture,
    setup: &Setup,
    differences: &mut CoreDifferences<'_>,
) {
    let Some(format) = precise_format(core) else {
        return;
    };
    let capabilities = Capabilities {
        microarchitecture: core,
        pebs: Some(format),
        ..capabilities(Architecture::Intel)
    };
    let kinds = CoreKinds::one(&capabilities);
    let is_refused = |event| {
        let extra_event = setup.extra_event(event);
        extra_event.is_some_and(|extra| written_register(core, extra).is_none())
    };
    // The module refuses precise samples of cycles before format 4. Linux samples another event in
    // place of cycles.
    let is_compared = |event: &u64| match event & 0xff {
        0 => false,
        number if number == u64::from(CYCLES) => format != PebsFormat::Three,
        _ => !is_refused(*event),
    };
    for event in (0..=0xffff).filter(is_compared) {
        let module_counters = EventConfig::new(&precise_attr(event), &capabilities, &kinds)
            .map_or(0, |config| config.counters() & ALL_GENERAL);
        let constrained = constrained_counters(&setup.precise_constraints, event)
            .or_else(|| constrained_counters(&setup.constraints, event));
        let linux = match constrained {
            Some(Counters::General(counters)) => counters & ALL_GENERAL,
            Some(Counters::Fixed(_)) | None => ALL_GENERAL,
        };
        differences.compare(
            &format!("counters of the precise event {event:#06x}"),
            &module_counters,
            &(linux & format.counters()),
        );
    }
}

/// Compares the hardware and cache events. The module must lack the events in `extra_register_events`.
fn compare_events(
    cpu: &Processor,
    architecture: Architecture,
    hardware: &EventMap,
    caches: &CacheTable,
    extra_register_events: &[ExtraEvent],
    mut differences: CoreDifferences<'_>,
) {
    let core = cpu.microarchitecture();
    let mut capabilities = capabilities(architecture);
    if architecture != Architecture::Intel {
        // AMD has no reference cycles among the architectural events.
        capabilities.arch_events = 0x7b;
    }
    for (at, (name, &select)) in (0..).zip(HARDWARE.iter().zip(hardware)) {
        let module_select = hardware_event(at, &capabilities, core).map(EventSelect::stopped);
        differences.compare(
            name,
            &module_select,
            &expected_select(select, extra_register_events),
        );
    }
    for (cache, operations) in (0u32..).zip(caches) {
        for (operation, results) in (0u32..).zip(operations) {
            for (result, &select) in (0u32..).zip(results) {
                let config = cache | operation << 8 | result << 16;
                let [cache, operation, result] = [cache, operation, result].map(|at| at as usize);
                let name = [CACHES[cache], OPERATIONS[operation], RESULTS[result]].join(" ");
                let module_select = cache_event(config, core).map(EventSelect::stopped);
                differences.compare(
                    &name,
                    &module_select,
                    &expected_select(select, extra_register_events),
                );
            }
        }
    }
}

/// Returns the event select, or the error, that the module should have for an event select of Linux's tables.
fn expected_select(select: u64, extra_register_events: &[ExtraEvent]) -> Result<u64, InvalidAttr> {
    let needs_register = |select| {
        extra_register_events
            .iter()
            .any(|extra| extra.event == select)
    };
    match select {
        u64::MAX => Err(InvalidAttr::Invalid),
        0 => Err(InvalidAttr::NoEvent),
        select if needs_register(select) => Err(InvalidAttr::NoEvent),
        select => Ok(select),
    }
}

/// Returns an Intel processor.
fn intel_processor(family: u32, model: u32, kind: Kind) -> Processor {
    const HYBRID: u32 = 1 << 15;

    let (hybrid, kind) = match kind {
        Kind::Only => (0, 0),
        Kind::Core => (HYBRID, 0x4000_0000),
        Kind::Atom => (HYBRID, 0x2000_0000),
        // Crestmont.
        Kind::LowPower => (HYBRID, 0x2000_0002),
    };
    processor(
        [0x1a, 0x756e_6547, 0x6c65_746e, 0x4965_6e69],
        family,
        model,
        (hybrid, kind),
    )
}

/// Returns an AMD processor.
fn amd_processor(family: u32, model: u32) -> Processor {
    processor(
        [0x10, 0x6874_7541, 0x444d_4163, 0x6974_6e65],
        family,
        model,
        (0, 0),
    )
}

/// Returns a processor with this leaf 0, family, model, EDX of leaf 7 and EAX of leaf 0x1a.
fn processor(leaf_0: [u32; 4], family: u32, model: u32, (features, kind): (u32, u32)) -> Processor {
    let family = family.min(0xf) << 8 | family.saturating_sub(0xf) << 20;
    let version = family | (model & 0xf) << 4 | model >> 4 << 16;
    Processor::read(|leaf, _| {
        let [eax, ebx, ecx, edx] = match leaf {
            0 => leaf_0,
            1 => [version, 0, 0, 0],
            7 => [0, 0, 0, features],
            0x1a => [kind, 0, 0, 0],
            _ => [0; 4],
        };
        Leaf { eax, ebx, ecx, edx }
    })
}
