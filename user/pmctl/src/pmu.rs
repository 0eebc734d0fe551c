// SPDX-License-Identifier: MIT OR Apache-2.0
//! What CPUID says of the PMU: the module's own reading of it, and what only userland wants to know.

use perfmon_core::logic::{
    cpuid::{Architecture, Capabilities, Leaf, NoPmu, Processor},
    evtsel::EventSelect,
};
use raw_cpuid::CpuIdReader;

/// Whose events and registers a CPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vendor {
    /// Intel, and those who follow its architectural performance monitoring.
    Intel,
    /// AMD and Hygon.
    Amd,
}

/// A PMU, as CPUID describes it.
#[derive(Clone, Debug)]
pub(crate) struct Pmu {
    pub(crate) vendor: Vendor,
    pub(crate) processor: Processor,
    /// What the module would make of it.
    pub(crate) capabilities: Result<Capabilities, NoPmu>,
}

impl Pmu {
    /// Reads the leaves that describe the PMU.
    pub(crate) fn from_cpuid(cpuid: &impl CpuIdReader) -> Self {
        let processor = Processor::read(|leaf, subleaf| {
            let found = cpuid.cpuid2(leaf, subleaf);
            Leaf {
                eax: found.eax,
                ebx: found.ebx,
                ecx: found.ecx,
                edx: found.edx,
            }
        });
        // Whether writes reach all bits is in a register that a program can't read; it does not matter here.
        let capabilities = processor.capabilities(0);
        let vendor = match &processor.vendor_id {
            b"AuthenticAMD" | b"HygonGenuine" => Vendor::Amd,
            _ => Vendor::Intel,
        };
        Self {
            vendor,
            processor,
            capabilities,
        }
    }

    /// How many bits an event number has.
    pub(crate) fn event_bits(&self) -> u32 {
        if self.select_mask() & EventSelect::EVENT_HIGH == 0 {
            8
        } else {
            12
        }
    }

    /// The bits that an event select has.
    fn select_mask(&self) -> u64 {
        self.capabilities
            .map_or(EventSelect::COMMON_BITS, |capabilities| {
                capabilities.select_bits
            })
    }

    /// How many bits an event select has, to the highest one.
    pub(crate) fn select_bits(&self) -> u32 {
        u64::BITS - self.select_mask().leading_zeros()
    }

    /// How many general counters there are.
    pub(crate) fn general(&self) -> u8 {
        self.capabilities
            .map_or(0, |capabilities| capabilities.general)
    }

    /// Whether fixed counter `number` is there.
    pub(crate) fn has_fixed(&self, number: u8) -> bool {
        let fixed = self.fixed_bitmap();
        fixed.checked_shr(number.into()).unwrap_or(0) & 1 != 0
    }

    /// The fixed counters: bit n for counter n.
    pub(crate) fn fixed_bitmap(&self) -> u16 {
        self.capabilities
            .map_or(0, |capabilities| capabilities.fixed)
    }

    /// The fixed counters.
    pub(crate) fn fixed(&self) -> impl Iterator<Item = u8> + '_ {
        (0..16).filter(|number| self.has_fixed(*number))
    }

    /// Whether the architectural event of this number (CPUID.0AH:EBX) is there.
    pub(crate) fn has_architectural(&self, number: u8) -> bool {
        let events = self
            .capabilities
            .map_or(0, |capabilities| capabilities.arch_events);
        events >> number & 1 != 0
    }

    /// AMD's, with `PerfMonV2` and 6 counters.
    pub(crate) fn amd_for_tests() -> Self {
        let leaves = [
            (0, [0x10, 0x6874_7541, 0x444d_4163, 0x6974_6e65]),
            (1, [0x00a6_0f12, 0, 0, 0]),
            (0x8000_0000, [0x8000_0028, 0, 0, 0]),
            (0x8000_0001, [0, 0, 1 << 23, 0]),
            (0x8000_0022, [1, 6, 0, 0]),
        ];
        Self::from_cpuid(&crate::machine::Leaves::recorded(&leaves))
    }

    /// Intel's, version 4: 8 general and 3 fixed counters, all architectural events but cache misses.
    pub(crate) fn for_tests() -> Self {
        let leaves = [
            (0, [0x16, 0x756e_6547, 0x6c65_746e, 0x4965_6e69]),
            (0xa, [0x0730_0804, 1 << 4, 0, 0x603]),
        ];
        Self::from_cpuid(&crate::machine::Leaves::recorded(&leaves))
    }
}

/// What the makers call such a PMU.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_beyond_the_listed_ones_are_absent() {
        let pmu = Pmu::for_tests();
        assert!(pmu.has_architectural(0) && pmu.has_architectural(6));
        assert!(!pmu.has_architectural(4), "EBX says so");
        assert!(!pmu.has_architectural(7), "EAX knows seven events");
    }

    #[test]
    fn fixed_counters_are_told_one_by_one() {
        let pmu = Pmu::for_tests();
        assert_eq!(pmu.fixed().collect::<Vec<_>>(), [0, 1, 2]);
        assert!(!pmu.has_fixed(255));
    }
}
