// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! What CPUID says about a processor's counters.
//!
//! [`Processor`] holds the leaves that matter; [`Capabilities`] is what follows from them. The leaves
//! are asked for through a function, so that they may come from the instruction, from
//! `/dev/cpu/N/cpuid`, or from a recorded dump.

use super::count::Width;
use super::counter::{CounterId, Kind, MAX_FIXED, MAX_GENERAL};

/// What one CPUID leaf returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leaf {
    /// EAX
    pub eax: u32,
    /// EBX
    pub ebx: u32,
    /// ECX
    pub ecx: u32,
    /// EDX
    pub edx: u32,
}

/// The leaves that tell about the counters, and who made the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processor {
    /// The maker, 12 characters (leaf 0).
    pub vendor: [u8; 12],
    /// Leaf 1: family, model, features.
    version: Leaf,
    /// Leaf 0x0a: Intel's architectural performance monitoring; all zero if there is no such leaf.
    arch_perfmon: Leaf,
}

/// What of a PMU can be used, counted for all CPUs that are to be counted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Version of architectural performance monitoring.
    pub version: u8,
    /// General counters: 0 to [`MAX_GENERAL`].
    pub general: u8,
    /// Their width in bits.
    pub general_width: u8,
    /// Fixed-function counters: bit n for counter n. There may be holes.
    pub fixed: u16,
    /// Their width in bits.
    pub fixed_width: u8,
    /// Whether a write sets all bits of a counter (`IA32_PERF_CAPABILITIES.FW_WRITE`).
    pub full_width_writes: bool,
}

/// Why a processor can't be counted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPmu {
    /// The maker's PMU is unknown to this driver.
    Vendor,
    /// There is no leaf 0x0a, or it says version 0.
    Version,
    /// It has a version, but no counter.
    Counters,
}

impl NoPmu {
    /// In words, to go after the name of the processor.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Vendor => "processors of this maker are not supported",
            Self::Version => "CPUID leaf 0x0a reports no version of performance monitoring",
            Self::Counters => "CPUID leaf 0x0a reports no general counter",
        }
    }
}

impl Processor {
    const INTEL: [u8; 12] = *b"GenuineIntel";

    /// Asks `cpuid` for the leaves; its argument is EAX, and ECX is 0.
    pub fn read(cpuid: impl Fn(u32) -> Leaf) -> Self {
        let first = cpuid(0);
        let leaf = |number| {
            if number <= first.eax {
                cpuid(number)
            } else {
                Leaf::default()
            }
        };
        let mut vendor = [0; 12];
        for (to, from) in vendor
            .chunks_exact_mut(4)
            .zip([first.ebx, first.edx, first.ecx])
        {
            to.copy_from_slice(&from.to_le_bytes());
        }
        Self {
            vendor,
            version: leaf(1),
            arch_perfmon: leaf(0x0a),
        }
    }

    /// Family, as the makers and /proc/cpuinfo give it.
    #[must_use]
    pub const fn family(&self) -> u32 {
        let base = self.version.eax >> 8 & 0xf;
        if base == 0xf {
            base + (self.version.eax >> 20 & 0xff)
        } else {
            base
        }
    }

    /// Model, as the makers and /proc/cpuinfo give it.
    #[must_use]
    pub const fn model(&self) -> u32 {
        let base = self.version.eax >> 4 & 0xf;
        if self.family() >= 6 {
            base | self.version.eax >> 12 & 0xf0
        } else {
            base
        }
    }

    /// Whether a hypervisor says that it is there.
    #[must_use]
    pub const fn is_virtual(&self) -> bool {
        self.version.ecx >> 31 & 1 != 0
    }

    /// Whether `IA32_PERF_CAPABILITIES` exists.
    #[must_use]
    pub const fn has_perf_capabilities(&self) -> bool {
        self.version.ecx >> 15 & 1 != 0
    }

    /// What the counters can do.
    ///
    /// `perf_capabilities` is the register of that name, or 0 if it does not exist.
    ///
    /// # Errors
    ///
    /// [`NoPmu`] says why there is nothing to count with.
    pub fn capabilities(&self, perf_capabilities: u64) -> Result<Capabilities, NoPmu> {
        if self.vendor != Self::INTEL {
            return Err(NoPmu::Vendor);
        }
        self.architectural(perf_capabilities)
    }

    /// Intel SDM, volume 2A, "CPUID", leaf 0AH.
    fn architectural(&self, perf_capabilities: u64) -> Result<Capabilities, NoPmu> {
        /// Bit 13 of `IA32_PERF_CAPABILITIES` (SDM volume 4).
        const FW_WRITE: u64 = 1 << 13;

        let leaf = self.arch_perfmon;
        let [version, general, general_width, _] = leaf.eax.to_le_bytes();
        if version == 0 {
            return Err(NoPmu::Version);
        }
        if general == 0 || general_width == 0 {
            return Err(NoPmu::Counters);
        }
        // The leaf counts fixed-function counters from version 2 on, and lists them from 5 on.
        let contiguous = if version >= 2 { leaf.edx & 0x1f } else { 0 };
        let listed = if version >= 5 { leaf.ecx } else { 0 };
        let fixed = ((1u64 << contiguous) - 1) as u32 | listed;
        Ok(Capabilities {
            version,
            general: general.min(MAX_GENERAL as u8),
            general_width,
            fixed: (fixed & ((1 << MAX_FIXED) - 1)) as u16,
            fixed_width: (leaf.edx >> 5 & 0xff) as u8,
            full_width_writes: perf_capabilities & FW_WRITE != 0,
        })
    }
}

impl Capabilities {
    /// Those of a machine on which nothing can be counted.
    pub const NOTHING: Self = Self {
        version: 0,
        general: 0,
        general_width: 0,
        fixed: 0,
        fixed_width: 0,
        full_width_writes: false,
    };

    /// What both have.
    #[must_use]
    pub fn common(self, other: Self) -> Self {
        Self {
            version: self.version.min(other.version),
            general: self.general.min(other.general),
            general_width: self.general_width.min(other.general_width),
            fixed: self.fixed & other.fixed,
            fixed_width: self.fixed_width.min(other.fixed_width),
            full_width_writes: self.full_width_writes && other.full_width_writes,
        }
    }

    /// Whether all that `needed` has is here.
    #[must_use]
    pub fn cover(self, needed: Self) -> bool {
        self.common(needed) == needed
    }

    /// Whether the kernel can keep Linux perf and this module apart.
    ///
    /// From version 6 on perf uses registers that the kernel's reservation does not know (0x1900 and
    /// up).
    #[must_use]
    pub const fn is_arbitrated(&self) -> bool {
        self.version < 6
    }

    /// Bits of a counter.
    #[must_use]
    pub const fn width(&self, counter: CounterId) -> Width {
        let bits = match counter.kind() {
            Kind::General(_) => self.general_width,
            Kind::Fixed(_) => self.fixed_width,
        };
        Width::new(bits, self.full_width_writes)
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_cpuid))]
mod tests {
    use super::*;

    const INTEL: Leaf = Leaf {
        eax: 0x16,
        ebx: 0x756e_6547,
        ecx: 0x6c65_746e,
        edx: 0x4965_6e69,
    };
    const AMD: Leaf = Leaf {
        eax: 0x10,
        ebx: 0x6874_7541,
        ecx: 0x444d_4163,
        edx: 0x6974_6e65,
    };

    fn processor(first: Leaf, version: u32, features: u32, perfmon: Leaf) -> Processor {
        Processor::read(|leaf| match leaf {
            0 => first,
            1 => Leaf {
                eax: version,
                ecx: features,
                ..Leaf::default()
            },
            0x0a => perfmon,
            // A leaf beyond those asked for would be garbage.
            _ => Leaf {
                eax: u32::MAX,
                ebx: u32::MAX,
                ecx: u32::MAX,
                edx: u32::MAX,
            },
        })
    }

    fn perfmon(eax: u32, ecx: u32, edx: u32) -> Leaf {
        Leaf {
            eax,
            ebx: 0,
            ecx,
            edx,
        }
    }

    #[test]
    fn skylake() {
        let cpu = processor(
            INTEL,
            0x0005_06e3,
            0x7ffa_fbff,
            perfmon(0x0730_0404, 0, 0x603),
        );
        assert_eq!(&cpu.vendor, b"GenuineIntel");
        assert_eq!(cpu.family(), 6);
        assert_eq!(cpu.model(), 0x5e);
        assert!(!cpu.is_virtual());
        assert!(cpu.has_perf_capabilities());
        let expected = Capabilities {
            version: 4,
            general: 4,
            general_width: 48,
            fixed: 0b111,
            fixed_width: 48,
            full_width_writes: true,
        };
        assert_eq!(cpu.capabilities(1 << 13), Ok(expected));
        assert_eq!(cpu.capabilities(0).map(|c| c.full_width_writes), Ok(false));
    }

    #[test]
    fn version_1_has_no_fixed_counters() {
        let cpu = processor(INTEL, 0x6e8, 0, perfmon(0x0728_0201, 0xff, 0x603));
        let c = cpu.capabilities(0);
        assert_eq!(
            c.map(|c| (c.version, c.general, c.general_width)),
            Ok((1, 2, 40))
        );
        assert_eq!(c.map(|c| c.fixed), Ok(0));
    }

    #[test]
    fn version_5_lists_its_fixed_counters() {
        // Counters 0 to 2 by number, 4 by its bit.
        let leaf = perfmon(0x0830_0805, 0b1_0000, 0x8603);
        let cpu = processor(INTEL, 0x000a_0671, 0, leaf);
        assert_eq!(cpu.capabilities(0).map(|c| c.fixed), Ok(0b1_0111));
        // Before version 5, ECX is reserved.
        let cpu = processor(INTEL, 0x000a_0671, 0, perfmon(0x0830_0804, 0b1_0000, 0x603));
        assert_eq!(cpu.capabilities(0).map(|c| c.fixed), Ok(0b111));
    }

    #[test]
    fn no_leaf_is_no_pmu() {
        let old = Leaf { eax: 5, ..INTEL };
        let cpu = processor(old, 0xf29, 0, perfmon(0x0730_0404, 0, 0x603));
        assert_eq!(cpu.capabilities(0), Err(NoPmu::Version));
    }

    #[test]
    fn a_hypervisor_without_one() {
        let cpu = processor(INTEL, 0x0005_06e3, 1 << 31, Leaf::default());
        assert!(cpu.is_virtual());
        assert_eq!(cpu.capabilities(0), Err(NoPmu::Version));
        let cpu = processor(INTEL, 0x0005_06e3, 1 << 31, perfmon(0x0730_0002, 0, 0));
        assert_eq!(cpu.capabilities(0), Err(NoPmu::Counters));
    }

    #[test]
    fn other_makers() {
        let cpu = processor(AMD, 0x00a2_0f12, 0, perfmon(0x0730_0404, 0, 0x603));
        assert_eq!(&cpu.vendor, b"AuthenticAMD");
        assert_eq!(cpu.family(), 0x19);
        assert_eq!(cpu.model(), 0x21);
        assert_eq!(cpu.capabilities(0), Err(NoPmu::Vendor));
    }

    #[test]
    fn absurd_numbers_stay_in_range() {
        let cpu = processor(INTEL, 0, 0, perfmon(0xffff_ffff, u32::MAX, u32::MAX));
        let c = cpu.capabilities(0);
        assert_eq!(c.map(|c| (c.general, c.fixed)), Ok((32, u16::MAX)));
    }

    #[test]
    fn cpus_that_differ() {
        let big = Capabilities {
            version: 5,
            general: 8,
            general_width: 48,
            fixed: 0b1111,
            fixed_width: 48,
            full_width_writes: true,
        };
        let little = Capabilities {
            general: 6,
            fixed: 0b111,
            ..big
        };
        assert_eq!(big.common(little), little);
        assert!(big.cover(little));
        assert!(!little.cover(big));
        assert!(little.cover(Capabilities::NOTHING));
    }
}
