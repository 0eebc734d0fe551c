// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! What CPUID says about a processor's counters.
//!
//! [`Processor`] holds the leaves that matter; [`Capabilities`] is what follows from them. The leaves
//! are asked for through a function, so that they may come from the instruction, from
//! `/dev/cpu/N/cpuid`, or from a recorded dump.

use super::counter::{MAX_FIXED, MAX_GENERAL};
use super::evtsel::EventSelect;
use super::lbr;

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
    /// Leaf 0x0a: Intel's architectural performance monitoring. Zero, as all that follow, if there is
    /// no such leaf.
    arch_perfmon: Leaf,
    /// Leaf 0x8000_0001: AMD's features.
    amd_features: Leaf,
    /// Leaf 0x23, which tells more of what leaf 0x0a tells. Subleaves that are not there are zero.
    perfmon_ext: Leaf,
    /// Its subleaf 1: bitmaps of the general (EAX) and of the fixed-function counters (EBX).
    perfmon_counters: Leaf,
    /// Its subleaf 3: bitmap of the architectural events that are there (EAX).
    perfmon_events: Leaf,
    /// Leaf 0x8000_0022: AMD's extended performance monitoring.
    amd_perfmon: Leaf,
}

/// Which registers a PMU has, and how it tells of an overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Intel's architectural performance monitoring.
    Intel,
    /// AMD's four counters since the K7; no global registers.
    AmdLegacy,
    /// The six that AMD calls core performance counters (PerfCtrExtCore); no global registers.
    AmdCore,
    /// These, with global registers (PerfMonV2).
    AmdV2,
}

/// What of a PMU can be used, counted for all CPUs that are to be counted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// What the rest is to be understood by.
    pub architecture: Architecture,
    /// Version of architectural performance monitoring; on AMD 1, or 2 with PerfMonV2.
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
    /// Architectural events that can be counted, by their bits in CPUID.0AH:EBX (where a set bit says
    /// that the event is missing): 0 core cycles, 1 instructions, 2 reference cycles, 3 LLC references,
    /// 4 LLC misses, 5 branches, 6 branch misses, 7 top-down slots.
    pub arch_events: u32,
    /// The bits that an event select has.
    pub select_bits: u64,
    /// Whether branches are recorded, in the stack of 32 that [`super::lbr`] knows.
    pub last_branch: bool,
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
    /// CPUID does not tell, and the registers don't hold what is written.
    Registers,
}

impl NoPmu {
    /// In words, to go after the name of the processor.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Vendor => "processors of this maker are not supported",
            Self::Version => "CPUID leaf 0x0a reports no version of performance monitoring",
            Self::Counters => "CPUID reports performance monitoring, but no general counter",
            Self::Registers => "CPUID does not tell, and its counter registers don't work",
        }
    }
}

impl Processor {
    const INTEL: [u8; 12] = *b"GenuineIntel";
    const AMD: [u8; 12] = *b"AuthenticAMD";
    /// Zen, made in China.
    const HYGON: [u8; 12] = *b"HygonGenuine";
    /// The architectural events for which AMD's processors have events of their own: all but reference
    /// cycles and top-down slots.
    const AMD_EVENTS: u32 = 0b0111_1011;

    /// Asks `cpuid` for the leaves; its arguments are EAX and ECX, the leaf and the subleaf.
    pub fn read(cpuid: impl Fn(u32, u32) -> Leaf) -> Self {
        const EXTENDED: u32 = 0x8000_0000;

        let first = cpuid(0, 0);
        let extended = cpuid(EXTENDED, 0);
        let leaf = |number| {
            let last = if number < EXTENDED {
                first.eax
            } else {
                extended.eax
            };
            if number <= last {
                cpuid(number, 0)
            } else {
                Leaf::default()
            }
        };
        let perfmon_ext = leaf(0x23);
        let perfmon_subleaf = |number: u32| {
            // EAX of subleaf 0 has a bit for each one that is there.
            if perfmon_ext.eax >> number & 1 != 0 {
                cpuid(0x23, number)
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
            perfmon_ext,
            perfmon_counters: perfmon_subleaf(1),
            perfmon_events: perfmon_subleaf(3),
            amd_features: leaf(0x8000_0001),
            amd_perfmon: leaf(0x8000_0022),
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
        match self.vendor {
            Self::INTEL => self.intel(perf_capabilities),
            Self::AMD | Self::HYGON => self.amd(),
            _ => Err(NoPmu::Vendor),
        }
    }

    /// Intel SDM, volume 2A, "CPUID", leaves 0AH and 23H.
    fn intel(&self, perf_capabilities: u64) -> Result<Capabilities, NoPmu> {
        /// Bit 13 of `IA32_PERF_CAPABILITIES` (SDM volume 4).
        const FW_WRITE: u64 = 1 << 13;
        /// Bits 5:0 of the same.
        const LBR_FORMAT: u64 = 0x3f;

        let leaf = self.arch_perfmon;
        let [version, general, general_width, events] = leaf.eax.to_le_bytes();
        if version == 0 {
            return Err(NoPmu::Version);
        }
        // The leaf counts fixed-function counters from version 2 on, and lists them from 5 on.
        let contiguous = if version >= 2 { leaf.edx & 0x1f } else { 0 };
        let listed = if version >= 5 { leaf.ecx } else { 0 };
        let fixed = low_bits(contiguous as u8) | listed;
        let arch_events = low_bits(events) & !leaf.ebx;
        // Leaf 0x23 tells the same of this very core: 0x0a may tell what all kinds of cores have.
        let (general, fixed) = match self.perfmon_counters {
            Leaf { eax: 0, .. } => (general, fixed),
            Leaf { eax, ebx, .. } => (contiguous_below(eax, LEGACY_GENERAL), ebx),
        };
        let arch_events = match self.perfmon_events.eax {
            0 => arch_events,
            listed => listed,
        };
        if general == 0 || general_width == 0 {
            return Err(NoPmu::Counters);
        }
        let fixed_width = (leaf.edx >> 5 & 0xff) as u8;
        // Hypervisors list counters that they don't have.
        let fixed = if fixed_width == 0 { 0 } else { fixed };
        Ok(Capabilities {
            architecture: Architecture::Intel,
            version,
            general: general.min(MAX_GENERAL as u8),
            general_width,
            fixed: (fixed & ((1 << MAX_FIXED) - 1)) as u16,
            fixed_width,
            full_width_writes: perf_capabilities & FW_WRITE != 0,
            arch_events,
            select_bits: EventSelect::COMMON_BITS | self.extended_select_bits(),
            last_branch: version >= 2 && perf_capabilities & LBR_FORMAT == lbr::FORMAT_INFO,
        })
    }

    /// The fields of event selects that leaf 0x23 says are there.
    const fn extended_select_bits(&self) -> u64 {
        const UNIT_MASK_2: u32 = 1 << 0;
        const EQUAL: u32 = 1 << 1;

        let mut bits = 0;
        if self.perfmon_ext.ebx & UNIT_MASK_2 != 0 {
            bits |= EventSelect::UNIT_MASK_2;
        }
        if self.perfmon_ext.ebx & EQUAL != 0 {
            bits |= EventSelect::EQUAL;
        }
        bits
    }

    /// AMD APM, volume 2, section 13.2, and volume 3, appendix E.
    fn amd(&self) -> Result<Capabilities, NoPmu> {
        const PERF_CTR_EXT_CORE: u32 = 1 << 23;
        const PERF_MON_V2: u32 = 1 << 0;

        // The first with 64-bit mode; earlier ones have counters of their own.
        if self.family() < 0xf {
            return Err(NoPmu::Vendor);
        }
        let core = self.amd_features.ecx & PERF_CTR_EXT_CORE != 0;
        let v2 = core && self.amd_perfmon.eax & PERF_MON_V2 != 0;
        let (architecture, version, general) = match (core, v2) {
            (_, true) => (Architecture::AmdV2, 2, (self.amd_perfmon.ebx & 0xf) as u8),
            (true, false) => (Architecture::AmdCore, 1, 6),
            (false, false) => (Architecture::AmdLegacy, 1, 4),
        };
        if general == 0 {
            return Err(NoPmu::Counters);
        }
        Ok(Capabilities {
            architecture,
            version,
            general,
            general_width: 48,
            fixed: 0,
            fixed_width: 0,
            full_width_writes: true,
            arch_events: Self::AMD_EVENTS,
            select_bits: EventSelect::COMMON_BITS | EventSelect::EVENT_HIGH,
            last_branch: false,
        })
    }
}

/// General counters whose registers lie where the kernel's reservation knows them: those of further
/// ones came with version 6, at 0x1900 and up (Intel SDM, volume 4, table 2-2).
const LEGACY_GENERAL: u32 = 8;

/// How many counters `bitmap` has from the lowest on without a gap, at most `most`. What is above a gap
/// is not used: the ABI counts general counters from 0 up.
const fn contiguous_below(bitmap: u32, most: u32) -> u8 {
    let found = bitmap.trailing_ones();
    if found < most {
        found as u8
    } else {
        most as u8
    }
}

/// A word with its lowest `count` bits set.
const fn low_bits(count: u8) -> u32 {
    match u32::MAX.checked_shl(count as u32) {
        Some(rest) => !rest,
        None => u32::MAX,
    }
}

impl Capabilities {
    /// Those of a machine on which nothing can be counted.
    pub const NOTHING: Self = Self {
        architecture: Architecture::Intel,
        version: 0,
        general: 0,
        general_width: 0,
        fixed: 0,
        fixed_width: 0,
        full_width_writes: false,
        arch_events: 0,
        select_bits: EventSelect::COMMON_BITS,
        last_branch: false,
    };

    /// What both have.
    #[must_use]
    pub fn common(self, other: Self) -> Self {
        if self.architecture != other.architecture {
            return Self::NOTHING;
        }
        Self {
            architecture: self.architecture,
            version: self.version.min(other.version),
            general: self.general.min(other.general),
            general_width: self.general_width.min(other.general_width),
            fixed: self.fixed & other.fixed,
            fixed_width: self.fixed_width.min(other.fixed_width),
            full_width_writes: self.full_width_writes && other.full_width_writes,
            arch_events: self.arch_events & other.arch_events,
            select_bits: self.select_bits & other.select_bits,
            last_branch: self.last_branch && other.last_branch,
        }
    }

    /// Whether all that `needed` has is here.
    #[must_use]
    pub fn cover(self, needed: Self) -> bool {
        self.common(needed) == needed
    }

    /// The bits of all counters, as in `IA32_PERF_GLOBAL_CTRL`.
    #[must_use]
    pub const fn counters(&self) -> u64 {
        (self.fixed as u64) << MAX_GENERAL | ((1u64 << self.general) - 1)
    }

    /// Whether the kernel can keep Linux perf and this module apart.
    ///
    /// From version 6 on perf uses registers that the kernel's reservation does not know (0x1900 and
    /// up).
    #[must_use]
    pub const fn is_arbitrated(&self) -> bool {
        !matches!(self.architecture, Architecture::Intel) || self.version < 6
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
mod dumps;

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_cpuid))]
mod tests {
    use super::dumps::{Dump, DUMPS};
    use super::*;

    const INTEL: Leaf = Leaf {
        eax: 0x16,
        ebx: 0x756e_6547,
        ecx: 0x6c65_746e,
        edx: 0x4965_6e69,
    };

    /// An Intel processor with this leaf 0x0a, on which other leaves than those asked for are garbage.
    fn intel(first: Leaf, features: u32, arch_perfmon: Leaf) -> Processor {
        Processor::read(|leaf, _| match leaf {
            0 => first,
            1 => Leaf {
                eax: 0x0005_06e3,
                ecx: features,
                ..Leaf::default()
            },
            0x0a => arch_perfmon,
            0x8000_0000 => Leaf::default(),
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

    /// The first processor on which something else is found than it has.
    fn first_wrong(is_right: impl Fn(&Dump, Processor) -> bool) -> Option<&'static str> {
        let read = |dump: &Dump| Processor::read(|leaf, subleaf| dump.leaf(leaf, subleaf));
        let wrong = |dump: &&Dump| !is_right(dump, read(dump));
        DUMPS.iter().find(wrong).map(|dump| dump.name)
    }

    #[test]
    fn real_processors_have_their_names() {
        assert_eq!(
            first_wrong(|dump, cpu| (cpu.family(), cpu.model()) == dump.model
                && cpu.is_virtual() == dump.is_virtual),
            None
        );
    }

    #[test]
    fn real_processors_have_their_counters() {
        assert_eq!(
            first_wrong(|dump, cpu| {
                let found = cpu.capabilities(0);
                dump.expected
                    == found.map(|c| {
                        (
                            c.architecture,
                            c.version,
                            c.general,
                            c.general_width,
                            c.fixed,
                            c.arch_events,
                        )
                    })
            }),
            None
        );
    }

    #[test]
    fn vendor_is_in_reading_order() {
        assert_eq!(&intel(INTEL, 0, Leaf::default()).vendor, b"GenuineIntel");
    }

    #[test]
    fn full_width_writes_are_told_by_a_register() {
        let cpu = intel(INTEL, 1 << 15, perfmon(0x0730_0404, 0, 0x603));
        assert!(cpu.has_perf_capabilities());
        assert_eq!(
            cpu.capabilities(1 << 13).map(|c| c.full_width_writes),
            Ok(true)
        );
        assert_eq!(
            cpu.capabilities(!(1 << 13)).map(|c| c.full_width_writes),
            Ok(false)
        );
    }

    #[test]
    fn version_1_has_no_fixed_counters() {
        let cpu = intel(INTEL, 0, perfmon(0x0728_0201, 0xff, 0x603));
        assert_eq!(
            cpu.capabilities(0).map(|c| (c.version, c.fixed)),
            Ok((1, 0))
        );
    }

    #[test]
    fn version_5_lists_its_fixed_counters() {
        // Counters 0 to 2 by number, 4 by its bit.
        let cpu = intel(INTEL, 0, perfmon(0x0830_0805, 0b1_0000, 0x8603));
        assert_eq!(cpu.capabilities(0).map(|c| c.fixed), Ok(0b1_0111));
        // Before version 5, ECX is reserved.
        let cpu = intel(INTEL, 0, perfmon(0x0830_0804, 0b1_0000, 0x603));
        assert_eq!(cpu.capabilities(0).map(|c| c.fixed), Ok(0b111));
    }

    #[test]
    fn fixed_counters_without_a_width_are_none() {
        let cpu = intel(INTEL, 0, perfmon(0x0830_0805, 0b1_0000, 0x8003));
        assert_eq!(
            cpu.capabilities(0).map(|c| (c.fixed, c.fixed_width)),
            Ok((0, 0))
        );
    }

    #[test]
    fn a_set_bit_is_a_missing_event() {
        let events = |count: u32, missing| {
            let leaf = Leaf {
                ebx: missing,
                ..perfmon(count << 24 | 0x30_0404, 0, 0x603)
            };
            let found = intel(INTEL, 0, leaf).capabilities(0);
            found.map(|c| c.arch_events)
        };
        assert_eq!(events(7, 0), Ok(0x7f));
        assert_eq!(events(7, 0b100), Ok(0x7b));
        // Bits beyond the count tell nothing: the events are not there.
        assert_eq!(events(5, !0b1_1111), Ok(0x1f));
        assert_eq!(events(0, 0), Ok(0));
        assert_eq!(events(31, 0), Ok(0x7fff_ffff));
        assert_eq!(events(32, 0), Ok(u32::MAX));
        assert_eq!(events(255, 1), Ok(u32::MAX - 1));
    }

    /// A processor of version 6 with these subleaves 0, 1 and 3 of leaf 0x23: EAX and EBX. Made up, for
    /// cases that no dump has.
    fn version_6(subleaves: [(u32, u32); 3]) -> Capabilities {
        let cpu = Processor::read(|leaf, subleaf| match (leaf, subleaf) {
            (0, _) => Leaf { eax: 0x23, ..INTEL },
            (0x0a, _) => perfmon(0x0830_0806, 0xf, 0x604),
            (0x23, 0 | 1 | 3) => {
                let (eax, ebx) = subleaves[subleaf.div_ceil(2) as usize];
                Leaf {
                    eax,
                    ebx,
                    ..Leaf::default()
                }
            }
            _ => Leaf::default(),
        });
        cpu.capabilities(0).unwrap_or(Capabilities::NOTHING)
    }

    #[test]
    fn version_6_tells_each_core_its_own() {
        let found = version_6([(0b1011, 0), (0x3f, 0x77), (0x1fff, 0)]);
        assert_eq!((found.general, found.fixed), (6, 0x77));
        assert_eq!(found.arch_events, 0x1fff);
        assert_eq!(found.select_bits, 0xffff_ffff);
        assert!(!found.is_arbitrated());
    }

    #[test]
    fn subleaves_that_are_not_there_tell_nothing() {
        let found = version_6([(0b0001, 0), (0x3f, 0x77), (0x1fff, 0)]);
        assert_eq!((found.general, found.fixed), (8, 0xf));
        assert_eq!(found.arch_events, 0xff);
    }

    #[test]
    fn general_counters_above_a_gap_are_not_used() {
        let general = |bitmap| version_6([(0b1011, 0), (bitmap, 0), (0, 0)]).general;
        assert_eq!(general(0b1011_1111), 6);
        // The registers of the others are elsewhere.
        assert_eq!(general(0x3ff), 8);
        assert_eq!(general(u32::MAX), 8);
        assert_eq!(general(0b10), 0);
    }

    #[test]
    fn version_6_has_wider_event_selects() {
        let bits = |fields| version_6([(0b0001, fields), (0, 0), (0, 0)]).select_bits;
        assert_eq!(bits(0b01), 0xff00_ffff_ffff);
        assert_eq!(bits(0b10), 0x0010_ffff_ffff);
        assert_eq!(bits(0b11), 0xff10_ffff_ffff);
    }

    #[test]
    fn no_leaf_is_no_pmu() {
        let old = Leaf { eax: 5, ..INTEL };
        let cpu = intel(old, 0, perfmon(0x0730_0404, 0, 0x603));
        assert_eq!(cpu.capabilities(0), Err(NoPmu::Version));
    }

    #[test]
    fn hypervisors_that_give_none() {
        let cpu = intel(INTEL, 1 << 31, Leaf::default());
        assert!(cpu.is_virtual());
        assert_eq!(cpu.capabilities(0), Err(NoPmu::Version));
        let cpu = intel(INTEL, 1 << 31, perfmon(0x0730_0002, 0, 0));
        assert_eq!(cpu.capabilities(0), Err(NoPmu::Counters));
    }

    #[test]
    fn other_makers() {
        let via = Leaf {
            ebx: 0x746e_6543,
            edx: 0x4872_7561,
            ecx: 0x736c_7561,
            ..INTEL
        };
        let cpu = intel(via, 0, perfmon(0x0730_0404, 0, 0x603));
        assert_eq!(&cpu.vendor, b"CentaurHauls");
        assert_eq!(cpu.capabilities(0), Err(NoPmu::Vendor));
    }

    #[test]
    fn absurd_numbers_stay_in_range() {
        let cpu = intel(INTEL, 0, perfmon(u32::MAX, u32::MAX, u32::MAX));
        let c = cpu.capabilities(0);
        assert_eq!(c.map(|c| (c.general, c.fixed)), Ok((32, u16::MAX)));
        assert!(c.is_ok_and(|c| !c.is_arbitrated()));
    }

    #[test]
    fn cpus_that_differ() {
        let big = Capabilities {
            architecture: Architecture::Intel,
            version: 5,
            general: 8,
            general_width: 48,
            fixed: 0b1111,
            fixed_width: 48,
            full_width_writes: true,
            arch_events: 0xff,
            select_bits: EventSelect::COMMON_BITS | EventSelect::UNIT_MASK_2,
            last_branch: true,
        };
        let little = Capabilities {
            general: 6,
            fixed: 0b111,
            arch_events: 0x7f,
            select_bits: EventSelect::COMMON_BITS,
            ..big
        };
        assert_eq!(big.common(little), little);
        assert!(big.cover(little));
        assert!(!little.cover(big));
        assert!(little.cover(Capabilities::NOTHING));
        let amd = Capabilities {
            architecture: Architecture::AmdV2,
            ..big
        };
        assert_eq!(big.common(amd), Capabilities::NOTHING);
        assert!(!amd.cover(big));
    }
}
