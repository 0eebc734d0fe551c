// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of PMUs, and PMUs for tests.

use perfmon::pmu::{Architecture, Capabilities};
use perfmon::spec::EventSpec;
use perfmon::{Device, Encoding, Pmu};

use crate::system::machine::Machine;

/// Returns the PMU of the machine, with the counters that the driver has if it can be asked.
pub(crate) fn of(machine: &Machine) -> Pmu {
    let pmu = Pmu::from_cpuid(machine.cpuid());
    if !machine.is_here() {
        return pmu;
    }
    match Device::open() {
        Ok(device) => pmu.with_counters_of(&device),
        Err(_) => pmu,
    }
}

/// Returns the vendor's name of such a PMU.
pub(crate) fn architecture(capabilities: Capabilities) -> String {
    match capabilities.architecture {
        Architecture::Intel => format!(
            "architectural performance monitoring, version {}",
            capabilities.version
        ),
        Architecture::AmdLegacy => "AMD's legacy counters".to_owned(),
        Architecture::AmdCore => "AMD's core counters (PerfCtrExtCore)".to_owned(),
        Architecture::AmdV2 => "AMD's performance monitoring, version 2 (PerfMonV2)".to_owned(),
    }
}

/// Returns of which events the counts say nothing, if there are some: QEMU's emulation takes every event by its number,
/// and most stay at 0.
pub(crate) fn uncounted_by_emulation<'a>(
    events: impl Iterator<Item = &'a EventSpec>,
    pmu: &Pmu,
) -> Option<String> {
    let is_idle = |event: &&EventSpec| match event.encoding {
        Some(Encoding::Raw(select)) => !pmu.counts(select.bits()),
        _ => false,
    };
    let labels: Vec<&str> = events
        .filter(is_idle)
        .map(|event| &event.label[..])
        .collect();
    (!labels.is_empty()).then(|| {
        format!(
            "QEMU's emulation counts instructions, clocks and branches only, and has no count of {}",
            labels.join(", ")
        )
    })
}

pub(crate) mod testing {
    //! PMUs for tests and for the fuzzer.

    use perfmon::Pmu;

    use crate::system::machine::Leaves;

    /// AMD's, with `PerfMonV2` and 6 counters.
    pub(crate) fn amd() -> Pmu {
        let leaves = [
            (0, [0x10, 0x6874_7541, 0x444d_4163, 0x6974_6e65]),
            (1, [0x00a6_0f12, 0, 0, 0]),
            (0x8000_0000, [0x8000_0028, 0, 0, 0]),
            (0x8000_0001, [0, 0, 1 << 23, 0]),
            (0x8000_0022, [1, 6, 0, 0]),
        ];
        Pmu::from_cpuid(&Leaves::recorded(&leaves))
    }

    /// Intel's, version 4: 8 general and 3 fixed counters, all architectural events but cache misses.
    pub(crate) fn intel() -> Pmu {
        let leaves = [
            (0, [0x16, 0x756e_6547, 0x6c65_746e, 0x4965_6e69]),
            (0xa, [0x0730_0804, 1 << 4, 0, 0x603]),
        ];
        Pmu::from_cpuid(&Leaves::recorded(&leaves))
    }
}
