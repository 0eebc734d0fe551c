// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kinds of cores of a hybrid processor, by the names of Linux's PMUs: `cpu_core`, `cpu_atom`, `cpu_lowpower`.

use std::fs;

use raw_cpuid::CpuIdReaderNative;

use crate::big_core::{on_cpus, parse_cpus};
use crate::pmu::Pmu;

/// A kind of core, whose events are written as `cpu_atom/cycles/`.
#[derive(Clone, Debug)]
pub struct CoreKind {
    name: &'static str,
    perf_type: u32,
    cpus: String,
    pmu: Pmu,
}

impl CoreKind {
    /// The names of all kinds: the big cores, the small ones, and those of the low-power island.
    pub const NAMES: [&'static str; 3] = ["cpu_core", "cpu_atom", "cpu_lowpower"];

    /// Creates a kind from what Linux's PMU `name` has in sysfs, its `type` and its `cpus`, and the PMU of such a core.
    #[must_use]
    pub fn new(name: &'static str, perf_type: u32, cpus: String, pmu: Pmu) -> Self {
        Self {
            name,
            perf_type,
            cpus,
            pmu,
        }
    }

    /// Returns the name of Linux's PMU.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the `type` of raw events of this kind in `struct perf_event_attr`.
    #[must_use]
    pub fn perf_type(&self) -> u32 {
        self.perf_type
    }

    /// Returns the CPUs of this kind, as a list such as `0-7,16`.
    #[must_use]
    pub fn cpus(&self) -> &str {
        &self.cpus
    }

    /// Returns the PMU of these cores.
    #[must_use]
    pub fn pmu(&self) -> &Pmu {
        &self.pmu
    }

    /// Returns the kind with its PMU changed by `f`.
    pub(crate) fn map_pmu(self, f: impl FnOnce(Pmu) -> Pmu) -> Self {
        let pmu = f(self.pmu);
        Self { pmu, ..self }
    }
}

/// Returns the kinds of cores of this machine; none if its processor is not hybrid. A kind is left out if the calling
/// program may not run on its CPUs.
pub(crate) fn of_this_machine() -> Vec<CoreKind> {
    let kind = |name| {
        let text =
            |file| fs::read_to_string(format!("/sys/bus/event_source/devices/{name}/{file}"));
        let perf_type = text("type").ok()?.trim().parse().ok()?;
        let cpus = text("cpus").ok()?;
        let read = |is_there: bool| is_there.then(|| Pmu::from_cpuid(&CpuIdReaderNative));
        let pmu = on_cpus(&parse_cpus(&cpus)?, read)?;
        Some(CoreKind::new(name, perf_type, cpus.trim().to_owned(), pmu))
    };
    CoreKind::NAMES.into_iter().filter_map(kind).collect()
}
