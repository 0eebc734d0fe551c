// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The detection of values: the energies, temperatures and clocks of a processor, from CPUID and from its model.

use super::super::values::sets;
use super::Processor;

/// The models of Intel's family 6 that have energy registers (RAPL), as in Linux perf. CPUID has no bit for these
/// registers.
const ENERGY_MODELS: [u32; 45] = [
    0x2a, 0x2d, 0x3a, 0x3e, // Sandy Bridge, Ivy Bridge
    0x3c, 0x3f, 0x45, 0x46, // Haswell
    0x3d, 0x47, 0x4f, 0x56, // Broadwell
    0x57, 0x85, // Knights Landing, Knights Mill
    0x4e, 0x5e, 0x55, 0x8e, 0x9e, 0xa5, 0xa6, 0x66, // Skylake to Comet Lake, Cannon Lake
    0x5c, 0x5f, 0x7a, // Goldmont
    0x7d, 0x7e, 0x6a, 0x6c, 0x8c, 0x8d, // Ice Lake, Tiger Lake
    0x97, 0x9a, 0xbe, 0xb7, 0xba, 0xbf, // Alder Lake, Raptor Lake
    0x8f, 0xcf, // Sapphire Rapids, Emerald Rapids
    0xaa, 0xac, 0xc5, 0xc6, 0xb5, 0xbd, // Meteor Lake, Arrow Lake, Lunar Lake
];

/// The servers among these models, whose memory energy is in units of 2^-16 Joules.
const SERVER_MODELS: [u32; 8] = [0x3f, 0x4f, 0x56, 0x57, 0x85, 0x55, 0x6a, 0x6c];

impl Processor {
    /// Returns the set of values that the processor should have. Only a read shows whether a value's register exists,
    /// since hypervisors lack most of these registers.
    pub(super) fn values(&self) -> u16 {
        const APERF_MPERF: u32 = 1 << 0;
        const THERMAL_SENSOR: u32 = 1 << 0;
        const PACKAGE_THERMAL: u32 = 1 << 6;
        const AMD_RAPL: u32 = 1 << 14;

        let if_present = |is_present: bool, set: u16| if is_present { set } else { 0 };
        let clocks = if_present(self.power.ecx & APERF_MPERF != 0, sets::CLOCKS);
        let sensors = match self.vendor_id {
            Self::INTEL => {
                let eax = self.power.eax;
                if_present(eax & THERMAL_SENSOR != 0, sets::CORE_TEMPERATURE)
                    | if_present(eax & PACKAGE_THERMAL != 0, sets::PACKAGE_TEMPERATURE)
                    | if_present(self.is_model(&ENERGY_MODELS), sets::INTEL_ENERGY)
            }
            _ => if_present(self.amd_power.edx & AMD_RAPL != 0, sets::AMD_ENERGY),
        };
        clocks | sensors
    }

    /// Returns whether the energy of the memory has a unit of its own.
    pub(super) fn has_server_memory_unit(&self) -> bool {
        self.is_model(&SERVER_MODELS)
    }

    /// Returns whether this is one of these models of Intel's family 6.
    fn is_model(&self, models: &[u32]) -> bool {
        self.vendor_id == Self::INTEL && self.family() == 6 && models.contains(&self.model())
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_power))]
mod tests {
    use super::super::Leaf;
    use super::*;

    /// Returns a processor with these leaves 0 (EBX, EDX, ECX), 1 (EAX), 6 (EAX, ECX) and 0x8000_0007 (EDX).
    fn processor(vendor: [u32; 3], version: u32, power: (u32, u32), amd_power: u32) -> Processor {
        let [ebx, edx, ecx] = vendor;
        Processor::read(|leaf, _| match leaf {
            0 => Leaf {
                eax: 6,
                ebx,
                ecx,
                edx,
            },
            1 => Leaf {
                eax: version,
                ..Leaf::default()
            },
            6 => Leaf {
                eax: power.0,
                ecx: power.1,
                ..Leaf::default()
            },
            0x8000_0000 => Leaf {
                eax: 0x8000_0008,
                ..Leaf::default()
            },
            0x8000_0007 => Leaf {
                edx: amd_power,
                ..Leaf::default()
            },
            _ => Leaf::default(),
        })
    }

    const INTEL: [u32; 3] = [0x756e_6547, 0x4965_6e69, 0x6c65_746e];
    const AMD: [u32; 3] = [0x6874_7541, 0x6974_6e65, 0x444d_4163];

    #[test]
    fn intel_has_energy_by_model() {
        let skylake = processor(INTEL, 0x0005_06e3, (0x41, 1), 0);
        assert_eq!(
            skylake.values(),
            sets::CLOCKS | sets::CORE_TEMPERATURE | sets::PACKAGE_TEMPERATURE | sets::INTEL_ENERGY
        );
        assert!(!skylake.has_server_memory_unit());
        let nehalem = processor(INTEL, 0x0001_06a5, (1, 1), 0);
        assert_eq!(nehalem.values(), sets::CLOCKS | sets::CORE_TEMPERATURE);
        let server = processor(INTEL, 0x0005_0654, (0, 0), 0);
        assert_eq!(server.values(), sets::INTEL_ENERGY);
        assert!(server.has_server_memory_unit());
    }

    #[test]
    fn amd_has_energy_by_cpuid() {
        // The bits of Intel's thermal sensors are reserved on AMD.
        let zen_4 = processor(AMD, 0x00a1_0f11, (0x41, 1), 1 << 14);
        assert_eq!(zen_4.values(), sets::CLOCKS | sets::AMD_ENERGY);
        let before_zen = processor(AMD, 0x0010_0f23, (0, 0), 1 << 8);
        assert_eq!(before_zen.values(), 0);
    }
}
