// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kinds of cores of a hybrid processor, by the names of Linux's PMUs.

use crate::system::machine::Machine;

/// The PMU of the big cores, on which raw events count.
const BIG_CORES: &str = "cpu_core";

/// The PMUs of the other kinds.
const SMALL_CORES: [&str; 2] = ["cpu_atom", "cpu_lowpower"];

/// Returns the kinds with their CPUs, in words; `None` if the processor is not hybrid.
pub(crate) fn describe(machine: &Machine) -> Option<String> {
    let kind = |pmu: &str| Some(format!("{pmu} (CPUs {})", read(machine, pmu, "cpus")?));
    let big = kind(BIG_CORES)?;
    let small = SMALL_CORES.into_iter().filter_map(kind);
    let kinds: Vec<String> = std::iter::once(big).chain(small).collect();
    Some(format!(
        "{}; raw events count on {BIG_CORES}",
        kinds.join(", ")
    ))
}

/// Returns the types of raw events of the cores that are not big ones.
pub(crate) fn small_core_types(machine: &Machine) -> Vec<u32> {
    let types = SMALL_CORES.into_iter();
    types
        .filter_map(|pmu| read(machine, pmu, "type")?.parse().ok())
        .collect()
}

/// Reads a file of one of Linux's PMUs.
fn read(machine: &Machine, pmu: &str, name: &str) -> Option<String> {
    let file = format!("/sys/bus/event_source/devices/{pmu}/{name}");
    machine.text(&file).ok().flatten()
}
