// SPDX-License-Identifier: MIT OR Apache-2.0
//! The PMU of a processor as CPUID describes it, read as the module reads it.

use perfmon_core::logic::cpuid::Leaf;
use perfmon_core::logic::evtsel::EventSelect;
use raw_cpuid::{CpuIdReader, CpuIdReaderNative};

pub use perfmon_core::logic::cpuid::{
    Architecture, Capabilities, Microarchitecture, NoPmu, Processor,
};

/// The vendor whose events and registers a CPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    /// Intel, and vendors that follow its architectural performance monitoring.
    Intel,
    /// AMD and Hygon.
    Amd,
}

/// A PMU, as CPUID describes it.
///
/// ```
/// use perfmon::Pmu;
///
/// let pmu = Pmu::here();
/// println!("{} general counters, {} fixed ones", pmu.general(), pmu.fixed().count());
/// ```
#[derive(Clone, Debug)]
pub struct Pmu {
    vendor: Vendor,
    processor: Processor,
    capabilities: Result<Capabilities, NoPmu>,
}

impl Pmu {
    /// Reads CPUID of the current CPU.
    #[must_use]
    pub fn here() -> Self {
        Self::from_cpuid(&CpuIdReaderNative)
    }

    /// Reads the leaves that describe the PMU, of any machine.
    #[must_use]
    pub fn from_cpuid(cpuid: &impl CpuIdReader) -> Self {
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

    /// Returns whose events it has.
    #[must_use]
    pub fn vendor(&self) -> Vendor {
        self.vendor
    }

    /// Returns the processor's CPUID leaves: family, model, microarchitecture.
    #[must_use]
    pub fn processor(&self) -> &Processor {
        &self.processor
    }

    /// Returns what the module makes of it.
    ///
    /// # Errors
    /// The reason why there is no PMU.
    pub fn capabilities(&self) -> Result<Capabilities, NoPmu> {
        self.capabilities
    }

    /// Returns the number of bits of an event number.
    #[must_use]
    pub fn event_bits(&self) -> u32 {
        if self.select_mask() & EventSelect::EVENT_HIGH == 0 {
            8
        } else {
            12
        }
    }

    /// Returns the bits that an event select has.
    fn select_mask(&self) -> u64 {
        self.capabilities
            .map_or(EventSelect::COMMON_BITS, |capabilities| {
                capabilities.select_bits
            })
    }

    /// Returns the number of bits of an event select, up to the highest one.
    #[must_use]
    pub fn select_bits(&self) -> u32 {
        u64::BITS - self.select_mask().leading_zeros()
    }

    /// Returns the number of general counters.
    #[must_use]
    pub fn general(&self) -> u8 {
        self.capabilities
            .map_or(0, |capabilities| capabilities.general)
    }

    /// Returns whether fixed counter `number` is there.
    #[must_use]
    pub fn has_fixed(&self, number: u8) -> bool {
        let fixed = self.fixed_bitmap();
        fixed.checked_shr(number.into()).unwrap_or(0) & 1 != 0
    }

    /// Returns the fixed counters: bit n for counter n.
    #[must_use]
    pub fn fixed_bitmap(&self) -> u16 {
        self.capabilities
            .map_or(0, |capabilities| capabilities.fixed)
    }

    /// Returns the numbers of the fixed counters.
    pub fn fixed(&self) -> impl Iterator<Item = u8> + '_ {
        (0..16).filter(|number| self.has_fixed(*number))
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! PMUs for tests.

    use super::Pmu;
    use raw_cpuid::{CpuIdReader, CpuIdResult};

    /// Leaves by their numbers: EAX to EDX.
    #[derive(Clone)]
    struct Leaves(&'static [(u32, [u32; 4])]);

    impl CpuIdReader for Leaves {
        fn cpuid2(&self, leaf: u32, _: u32) -> CpuIdResult {
            let found = self.0.iter().find(|(number, _)| *number == leaf);
            let [eax, ebx, ecx, edx] = found.map_or([0; 4], |(_, registers)| *registers);
            CpuIdResult { eax, ebx, ecx, edx }
        }
    }

    const INTEL: [u32; 4] = [0x16, 0x756e_6547, 0x6c65_746e, 0x4965_6e69];

    /// Intel's of an unknown model, version 4: 8 general and 3 fixed counters, all architectural events but cache
    /// misses.
    pub(crate) fn intel() -> Pmu {
        Pmu::from_cpuid(&Leaves(&[
            (0, INTEL),
            (0xa, [0x0730_0804, 1 << 4, 0, 0x603]),
        ]))
    }

    /// The same of a Skylake, with all architectural events.
    pub(crate) fn skylake() -> Pmu {
        Pmu::from_cpuid(&Leaves(&[
            (0, INTEL),
            (1, [0x0005_06e3, 0, 0, 0]),
            (0xa, [0x0730_0804, 0, 0, 0x603]),
        ]))
    }

    /// AMD's Zen 4, with `PerfMonV2` and 6 counters.
    pub(crate) fn amd() -> Pmu {
        Pmu::from_cpuid(&Leaves(&[
            (0, [0x10, 0x6874_7541, 0x444d_4163, 0x6974_6e65]),
            (1, [0x00a6_0f12, 0, 0, 0]),
            (0x8000_0000, [0x8000_0028, 0, 0, 0]),
            (0x8000_0001, [0, 0, 1 << 23, 0]),
            (0x8000_0022, [1, 6, 0, 0]),
        ]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_counters_are_told_one_by_one() {
        let pmu = testing::intel();
        assert_eq!(pmu.fixed().collect::<Vec<_>>(), [0, 1, 2]);
        assert!(!pmu.has_fixed(255));
        assert_eq!(testing::amd().fixed().count(), 0);
    }

    #[test]
    fn a_select_has_the_bits_of_its_vendor() {
        let of = |pmu: Pmu| (pmu.event_bits(), pmu.select_bits(), pmu.general());
        assert_eq!(of(testing::intel()), (8, 32, 8));
        assert_eq!(of(testing::amd()), (12, 36, 6));
        assert_eq!(testing::amd().vendor(), Vendor::Amd);
    }
}
