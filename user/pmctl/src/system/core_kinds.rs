// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kinds of cores of a hybrid processor, by the names of Linux's PMUs.

use perfmon::Pmu;
use perfmon::pmu::CoreKind;

use crate::system::machine::Machine;

/// The PMU of the big cores, on which raw events count.
const BIG_CORES: &str = CoreKind::NAMES[0];

/// Returns the PMU of the machine, with the kinds of its cores.
pub(crate) fn pmu_with_kinds(machine: &Machine) -> Pmu {
    if machine.is_this_machine() {
        return Pmu::of_this_cpu();
    }
    let pmu = Pmu::from_cpuid(machine.cpuid());
    let kind = |name| {
        let pmu = match machine.recorded_cpuid_of(name) {
            Some(cpuid) => Pmu::from_cpuid(&cpuid),
            None => (name == BIG_CORES).then(|| pmu.clone())?,
        };
        let perf_type = read(machine, name, "type")?.parse().ok()?;
        Some(CoreKind::new(
            name,
            perf_type,
            read(machine, name, "cpus")?,
            pmu,
        ))
    };
    let kinds = CoreKind::NAMES.into_iter().filter_map(kind).collect();
    pmu.with_core_kinds(kinds)
}

/// Returns the kinds with their CPUs, in words; `None` if the processor is not hybrid.
pub(crate) fn describe(machine: &Machine) -> Option<String> {
    let kind = |pmu: &str| Some(format!("{pmu} (CPUs {})", read(machine, pmu, "cpus")?));
    kind(BIG_CORES)?;
    let kinds: Vec<String> = CoreKind::NAMES.into_iter().filter_map(kind).collect();
    Some(format!(
        "{}; raw events count on {BIG_CORES}",
        kinds.join(", ")
    ))
}

/// Describes a kind of core: its name, its CPUs and its counters.
pub(crate) fn describe_counters(kind: &CoreKind) -> String {
    format!(
        "{} (CPUs {}): {} general and {} fixed counters",
        kind.name(),
        kind.cpus(),
        kind.pmu().general_counters(),
        kind.pmu().fixed_counters().count()
    )
}

/// Returns the types of raw events of all kinds of cores but the big ones.
pub(crate) fn small_core_types(machine: &Machine) -> Vec<u32> {
    let types = CoreKind::NAMES
        .into_iter()
        .filter(|name| *name != BIG_CORES);
    types
        .filter_map(|pmu| read(machine, pmu, "type")?.parse().ok())
        .collect()
}

/// Reads a file of one of Linux's PMUs.
fn read(machine: &Machine, pmu: &str, name: &str) -> Option<String> {
    let file = format!("/sys/bus/event_source/devices/{pmu}/{name}");
    machine.text(&file).ok().flatten()
}
