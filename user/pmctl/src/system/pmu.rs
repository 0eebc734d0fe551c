// SPDX-License-Identifier: MIT OR Apache-2.0
//! The PMU of the machine, its name, and PMUs for tests.

use perfmon::pmu::{Architecture, Capabilities};
use perfmon::spec::EventSpec;
use perfmon::{Device, Encoding, Pmu};

use crate::system::core_kinds;
use crate::system::machine::Machine;

/// Returns the PMU of the machine, with the driver's number of counters if the device can be opened.
pub(crate) fn of_machine(machine: &Machine) -> Pmu {
    let pmu = core_kinds::pmu_with_kinds(machine);
    if !machine.is_this_machine() {
        return pmu;
    }
    match Device::open() {
        Ok(device) => pmu.with_counters_of(&device),
        Err(_) => pmu,
    }
}

/// Returns the vendor's name of the kind of PMU that a processor has.
pub(crate) fn architecture_name(capabilities: Capabilities) -> String {
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

/// Returns the reason why the driver does not use all general counters; `None` if it can use all.
pub(crate) fn unused_counters_reason(pmu: &Pmu) -> Option<&'static str> {
    /// The number of general counters with registers that the kernel can reserve.
    const RESERVABLE_COUNTERS: u8 = 8;

    if pmu.processor().is_counter_taken_for_tsx() {
        return Some("PMC3 and up are not used: TSX's microcode needs PMC3");
    }
    let capabilities = pmu.capabilities().ok()?;
    let has_unreservable = capabilities.architecture == Architecture::Intel
        && capabilities.all_general_count > RESERVABLE_COUNTERS;
    has_unreservable.then_some("PMC8 and up are not used: Linux can't reserve their registers")
}

/// Returns a warning about events that QEMU's emulation accepts and does not count, so that their counts stay 0.
pub(crate) fn emulation_warning<'a>(
    events: impl Iterator<Item = &'a EventSpec>,
    pmu: &Pmu,
) -> Option<String> {
    let is_uncounted = |event: &&EventSpec| match event.encoding {
        Some(Encoding::Raw(select)) => !pmu.counts(select.bits()),
        _ => false,
    };
    let labels: Vec<&str> = events
        .filter(is_uncounted)
        .map(|event| &event.label[..])
        .collect();
    (!labels.is_empty()).then(|| {
        format!(
            "QEMU's emulation counts instructions, clocks, branches, loads and stores only, and not {}",
            labels.join(", ")
        )
    })
}

pub(crate) mod testing {
    //! PMUs for tests and for the fuzzer.

    use perfmon::Pmu;

    use crate::system::machine::Leaves;

    /// Returns a PMU of AMD with `PerfMonV2` and 6 counters.
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

    /// Returns a PMU of Intel, version 4, with 8 general and 3 fixed counters, and all architectural events except cache
    /// misses.
    pub(crate) fn intel() -> Pmu {
        let leaves = [
            (0, [0x16, 0x756e_6547, 0x6c65_746e, 0x4965_6e69]),
            (0xa, [0x0730_0804, 1 << 4, 0, 0x603]),
        ];
        Pmu::from_cpuid(&Leaves::recorded(&leaves))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::machine::Leaves;
    use raw_cpuid::CpuIdResult;

    #[test]
    fn counters_beyond_the_eighth_are_not_used() {
        let reason = |general: u32| {
            let mut leaves = Leaves::recorded(&[
                (0, [0x23, 0x756e_6547, 0x6c65_746e, 0x4965_6e69]),
                (0xa, [0x0730_0806, 0, 0, 0x603]),
                (0x23, [0b11, 0, 0, 0]),
            ]);
            let counters = CpuIdResult {
                eax: general,
                ebx: 0b111,
                ecx: 0,
                edx: 0,
            };
            if let Leaves::Recorded(leaves) = &mut leaves {
                leaves.insert((0x23, 1), counters);
            }
            unused_counters_reason(&Pmu::from_cpuid(&leaves))
        };
        assert_eq!(reason(0xff), None);
        let reason = reason(0x3ff).unwrap_or_default();
        assert!(reason.starts_with("PMC8 and up are not used"), "{reason}");
    }
}
