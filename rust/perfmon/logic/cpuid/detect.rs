// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The detection of a PMU: from CPUID leaves to capabilities.

use super::super::branch_records::{BranchRecords, OldStack};
use super::super::counter::{MAX_FIXED, MAX_GENERAL};
use super::super::evtsel::EventSelect;
use super::super::lbr;
use super::super::pebs::PebsFormat;
use super::Microarchitecture as Core;
use super::{Architecture, Capabilities, Leaf, NoPmu, Processor};
use crate::abi;

impl Processor {
    pub(super) const INTEL: [u8; 12] = *b"GenuineIntel";
    pub(super) const AMD: [u8; 12] = *b"AuthenticAMD";
    /// Hygon, whose processors have Zen cores.
    pub(super) const HYGON: [u8; 12] = *b"HygonGenuine";
    /// The architectural events that AMD has equivalents of: all but reference cycles and top-down slots.
    const AMD_ARCH_EVENTS: u32 = 0b0111_1011;

    /// Returns the capabilities of the PMU.
    ///
    /// `perf_capabilities` is the value of `IA32_PERF_CAPABILITIES`, or 0 if the register does not exist.
    ///
    /// # Errors
    ///
    /// [`NoPmu`], the reason why the PMU can't be used.
    pub fn capabilities(&self, perf_capabilities: u64) -> Result<Capabilities, NoPmu> {
        match self.vendor_id {
            Self::INTEL => self.intel_capabilities(perf_capabilities),
            Self::AMD | Self::HYGON => self.amd_capabilities(),
            _ => Err(NoPmu::Vendor),
        }
    }

    /// Returns the capabilities of an Intel processor (Intel SDM, volume 2A, "CPUID", leaves 0AH and 23H).
    fn intel_capabilities(&self, perf_capabilities: u64) -> Result<Capabilities, NoPmu> {
        /// Bit 13 of `IA32_PERF_CAPABILITIES` (SDM volume 4).
        const FW_WRITE: u64 = 1 << 13;
        /// Bit 17 of `IA32_PERF_CAPABILITIES`.
        const PEBS_TIMING_INFO: u64 = 1 << 17;

        let leaf = self.arch_perfmon;
        let [version, general_count, general_width, events] = leaf.eax.to_le_bytes();
        if version == 0 {
            return Err(NoPmu::Version);
        }
        // The leaf has the number of fixed-function counters from version 2 on, and a bitmap from 5
        // on. The first processors report fewer than the three counters that all of them have, and
        // no width (Linux: `intel_pmu_init()`).
        let reported_fixed = (leaf.edx & 0x1f, (leaf.edx >> 5 & 0xff) as u8);
        let (fixed_count, fixed_width) = match (version, reported_fixed) {
            (0 | 1, (_, width)) => (0, width),
            (2..5, (0..3, width)) if !self.is_virtual() => {
                (3, if width == 0 { general_width } else { width })
            }
            (_, reported) => reported,
        };
        let fixed_bits = if version >= 5 { leaf.ecx } else { 0 };
        let fixed = low_bits(fixed_count as u8) | fixed_bits;
        let arch_events = low_bits(events) & !leaf.ebx;
        // Leaf 0x23 describes this very core; leaf 0x0a may describe only the counters that all
        // kinds of cores have in common.
        let (all_general_count, general_count, fixed) = match self.perfmon_counters {
            Leaf { eax: 0, .. } => {
                let (unlisted_general, unlisted_fixed) = self.unlisted_counters();
                let general_count = general_count.max(unlisted_general);
                (general_count, general_count, fixed | unlisted_fixed)
            }
            // Counters above a gap are not used, because the ABI numbers general counters from 0 up.
            Leaf { eax, ebx, .. } => {
                let contiguous_count = eax.trailing_ones() as u8;
                (contiguous_count, contiguous_count.min(LEGACY_GENERAL), ebx)
            }
        };
        let general_count = if self.is_counter_taken_for_tsx() {
            general_count.min(TSX_COUNTER)
        } else {
            general_count
        };
        let arch_events = match self.perfmon_events.eax {
            0 => arch_events | self.unlisted_arch_events(),
            listed_events => listed_events,
        };
        if general_count == 0 || general_width == 0 {
            return Err(NoPmu::Counters);
        }
        // Some hypervisors report fixed-function counters of width 0, which don't exist.
        let fixed = if fixed_width == 0 { 0 } else { fixed };
        Ok(Capabilities {
            architecture: Architecture::Intel,
            microarchitecture: self.microarchitecture(),
            version,
            general_count: general_count.min(MAX_GENERAL as u8),
            all_general_count: all_general_count.min(MAX_GENERAL as u8),
            general_width,
            fixed: (fixed & ((1 << MAX_FIXED) - 1)) as u16,
            fixed_width,
            full_width_writes: perf_capabilities & FW_WRITE != 0,
            arch_events,
            select_bits: EventSelect::COMMON_BITS | self.extended_select_bits(),
            last_branch: self.intel_branches(version, perf_capabilities),
            intel_pt_excludes_branches: false,
            pebs: PebsFormat::detect(perf_capabilities).filter(|_| self.has_debug_store()),
            has_retire_latency: perf_capabilities & PEBS_TIMING_INFO != 0,
            values: self.values(),
            server_memory_unit: self.has_server_memory_unit(),
        })
    }

    /// Returns whether this core may have counters and events that leaf 0x0a does not list. On
    /// hybrid processors without leaf 0x23 (Alder Lake, Raptor Lake), leaf 0x0a lists the counters
    /// and events that all kinds of cores have in common, and the big cores (Golden Cove) have
    /// more. Under a hypervisor, the leaf lists all that the hypervisor provides.
    fn has_more_than_leaf_0a(&self) -> bool {
        self.is_hybrid() && !self.is_virtual() && self.microarchitecture() == Core::GoldenCove
    }

    /// Returns the number of general counters, and the bitmap of fixed-function counters, that this
    /// core has even if leaf 0x0a lists fewer (Linux: `intel_pmu_init()`). Both are 0 for a core
    /// that has only the listed counters.
    fn unlisted_counters(&self) -> (u8, u32) {
        if self.has_more_than_leaf_0a() {
            (8, 0b1111)
        } else {
            (0, 0)
        }
    }

    /// Returns the architectural events that this core has even if leaf 0x0a does not list them.
    fn unlisted_arch_events(&self) -> u32 {
        const SLOTS: u32 = 1 << abi::PERFMON_ARCH_EVENT_TOPDOWN_SLOTS;

        if self.has_more_than_leaf_0a() {
            SLOTS
        } else {
            0
        }
    }

    /// Returns whether the microcode uses general counter [`TSX_COUNTER`] while transactions are executed, so that the
    /// counter's value is wrong. Software can turn this off by aborting all transactions (bit 0 of MSR 0x10f,
    /// `TSX_FORCE_ABORT`). Only Linux perf does that; this module does not use the counter.
    ///
    /// Source: Intel, "Performance Monitoring Impact of Intel Transactional Synchronization Extension Memory Ordering
    /// Issue" (document 604224).
    #[must_use]
    pub const fn is_counter_taken_for_tsx(&self) -> bool {
        /// Bit of leaf 7, EBX: the processor has transactions.
        const RTM: u32 = 1 << 11;
        /// Bit of leaf 7, EDX: newer microcode aborts all transactions and needs no counter.
        const RTM_ALWAYS_ABORT: u32 = 1 << 11;
        /// Bit of leaf 7, EDX: MSR 0x10f exists.
        const TSX_FORCE_ABORT: u32 = 1 << 13;

        self.features.ebx & RTM != 0
            && self.features.edx & (TSX_FORCE_ABORT | RTM_ALWAYS_ABORT) == TSX_FORCE_ABORT
    }

    /// Returns the counters of this very core that do more than count, as in `IA32_PERF_GLOBAL_CTRL`: they can be
    /// reloaded when another counter overflows (`IA32_PMC_x_CFG_B`), or can write records (`IA32_PMC_x_CFG_C`).
    #[must_use]
    pub const fn extended_counters(&self) -> u64 {
        let reload = &self.perfmon_reload;
        let records = &self.perfmon_records;
        let general = reload.eax | records.eax;
        let fixed = reload.ebx | records.ecx;
        (fixed as u64) << MAX_GENERAL | general as u64
    }

    /// Returns the bits of event selects that leaf 0x23 reports.
    const fn extended_select_bits(&self) -> u64 {
        const HAS_UNIT_MASK_2: u32 = 1 << 0;
        const HAS_EQUAL_FLAG: u32 = 1 << 1;

        let mut bits = 0;
        if self.perfmon_ext.ebx & HAS_UNIT_MASK_2 != 0 {
            bits |= EventSelect::UNIT_MASK_2;
        }
        if self.perfmon_ext.ebx & HAS_EQUAL_FLAG != 0 {
            bits |= EventSelect::EQUAL;
        }
        bits
    }

    /// Returns whether the processor has a DS area, with addresses of 64 bits.
    const fn has_debug_store(&self) -> bool {
        const DS: u32 = 1 << 21;
        const DTES64: u32 = 1 << 2;

        self.version.edx & DS != 0 && self.version.ecx & DTES64 != 0
    }

    /// Returns the branch records of an Intel processor.
    fn intel_branches(&self, version: u8, perf_capabilities: u64) -> Option<BranchRecords> {
        /// Bits 5:0 of `IA32_PERF_CAPABILITIES`.
        const LBR_FORMAT: u64 = 0x3f;
        /// The bit of leaf 7 that is set if leaf 0x1c exists.
        const ARCHITECTURAL: u32 = 1 << 19;
        /// The features in EBX (filters, call stacks) and in ECX (mispredictions, cycles, types) of
        /// leaf 0x1c. All processors so far have all these features.
        const ALL_FEATURES: u32 = 0b111;

        if version >= 4 && self.features.edx & ARCHITECTURAL != 0 {
            let leaf = self.branch_records;
            let has_all_features = leaf.ebx & leaf.ecx & ALL_FEATURES == ALL_FEATURES;
            // Bit n of EAX is for 8 (n + 1) branches.
            let depth = [32, 16, 8]
                .into_iter()
                .find(|depth: &u8| leaf.eax >> (depth / 8 - 1) & 1 != 0)?;
            return has_all_features.then_some(BranchRecords::Architectural { depth });
        }
        let old_stack = match self.microarchitecture() {
            Core::Nehalem | Core::Westmere => OldStack::Nehalem,
            Core::SandyBridge | Core::IvyBridge => OldStack::SandyBridge,
            _ => OldStack::Haswell,
        };
        match perf_capabilities & LBR_FORMAT {
            _ if version < 2 => None,
            lbr::FORMAT_INFO | lbr::FORMAT_INFO_2 => Some(BranchRecords::Stack),
            lbr::FORMAT_FLAGS if old_stack < OldStack::Haswell => {
                Some(BranchRecords::OldStack(old_stack))
            }
            lbr::FORMAT_FLAGS_2
                if matches!(self.microarchitecture(), Core::Haswell | Core::Broadwell) =>
            {
                Some(BranchRecords::OldStack(old_stack))
            }
            _ => None,
        }
    }

    /// Returns the branch records of an AMD processor with PerfMonV2.
    fn amd_branches(&self) -> Option<BranchRecords> {
        const LBR_V2: u32 = 1 << 1;
        const LBR_FREEZE: u32 = 1 << 2;

        let leaf = self.amd_perfmon;
        let depth = (leaf.ebx >> 4 & 0x3f).min(lbr::MAX_DEPTH) as u8;
        let address_bits = (self.addresses.eax >> 8 & 0xff) as u8;
        // The registers have 58 bits for an address, and no processor reports a width outside of this range.
        let has_width = matches!(address_bits, 48..=57);
        (leaf.eax & LBR_V2 != 0 && depth != 0 && has_width).then_some(BranchRecords::Amd {
            depth,
            address_bits,
            freezes: leaf.eax & LBR_FREEZE != 0,
        })
    }

    /// Returns the capabilities of an AMD processor (AMD APM, volume 2, section 13.2, and volume 3, appendix E).
    fn amd_capabilities(&self) -> Result<Capabilities, NoPmu> {
        const PERF_CTR_EXT_CORE: u32 = 1 << 23;
        const PERF_MON_V2: u32 = 1 << 0;

        // Family 0xf is the first with 64-bit mode. Earlier families have other counters.
        if self.family() < 0xf {
            return Err(NoPmu::Vendor);
        }
        let has_core_counters = self.amd_features.ecx & PERF_CTR_EXT_CORE != 0;
        let has_v2 = has_core_counters && self.amd_perfmon.eax & PERF_MON_V2 != 0;
        let (architecture, version, general_count) = match (has_core_counters, has_v2) {
            (_, true) => (Architecture::AmdV2, 2, (self.amd_perfmon.ebx & 0xf) as u8),
            (true, false) => (Architecture::AmdCore, 1, 6),
            (false, false) => (Architecture::AmdLegacy, 1, 4),
        };
        if general_count == 0 {
            return Err(NoPmu::Counters);
        }
        Ok(Capabilities {
            architecture,
            microarchitecture: self.microarchitecture(),
            version,
            general_count,
            all_general_count: general_count,
            general_width: 48,
            fixed: 0,
            fixed_width: 0,
            full_width_writes: true,
            arch_events: Self::AMD_ARCH_EVENTS,
            select_bits: EventSelect::COMMON_BITS | EventSelect::EVENT_HIGH,
            last_branch: self.amd_branches().filter(|_| has_v2),
            intel_pt_excludes_branches: false,
            pebs: None,
            has_retire_latency: false,
            values: self.values(),
            server_memory_unit: false,
        })
    }
}

/// The largest number of general counters that the module uses: the counters at 0xc1 to 0xc8, with
/// event selects at 0x186 to 0x18d. Linux perf uses the numbers that follow for the further
/// counters of Arrow Lake-H, which has version 5. From version 6 on perf uses registers from 0x1900
/// on, and it is not known whether the further counters exist under the older numbers, too.
const LEGACY_GENERAL: u8 = 8;

/// The general counter that the microcode of some processors uses
/// ([`is_counter_taken_for_tsx`](Processor::is_counter_taken_for_tsx)). Counters above it are not used either, because
/// the ABI numbers general counters from 0 up.
const TSX_COUNTER: u8 = 3;

/// Returns a word whose lowest `count` bits are set.
const fn low_bits(count: u8) -> u32 {
    match u32::MAX.checked_shl(count as u32) {
        Some(rest) => !rest,
        None => u32::MAX,
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_detect))]
mod tests {
    use super::super::{dumps, Leaf};
    use super::*;

    const INTEL: Leaf = Leaf {
        eax: 0x16,
        ebx: 0x756e_6547,
        ecx: 0x6c65_746e,
        edx: 0x4965_6e69,
    };

    /// Returns an Intel processor with this leaf 0x0a. Leaves that must not be read are all ones.
    fn intel_processor(first: Leaf, features: u32, arch_perfmon: Leaf) -> Processor {
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

    fn perfmon_leaf(eax: u32, ecx: u32, edx: u32) -> Leaf {
        Leaf {
            eax,
            ebx: 0,
            ecx,
            edx,
        }
    }

    #[test]
    fn dumps_have_the_expected_counters() {
        assert_eq!(
            dumps::first_mismatch(|dump, cpu| {
                dump.expected
                    == cpu.capabilities(0).map(|c| {
                        (
                            c.architecture,
                            c.version,
                            c.general_count,
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
    fn dumps_have_the_expected_branch_records() {
        let amd = |address_bits, freezes| BranchRecords::Amd {
            depth: 16,
            address_bits,
            freezes,
        };
        assert_eq!(
            dumps::first_mismatch(|dump, cpu| {
                let expected = match dump.core {
                    Core::Zen4 => Some(amd(48, false)),
                    Core::Zen5 if dump.name.ends_with("(Turin)") => Some(amd(57, true)),
                    Core::Zen5 => Some(amd(48, true)),
                    Core::GoldenCove
                    | Core::RedwoodCove
                    | Core::LionCove
                    | Core::CougarCove
                    | Core::Gracemont
                    | Core::Crestmont
                    | Core::Skymont
                    | Core::Darkmont => Some(BranchRecords::Architectural { depth: 32 }),
                    // Only `IA32_PERF_CAPABILITIES` reports the branch records of other cores.
                    _ => None,
                };
                cpu.capabilities(0).map_or(None, |c| c.last_branch) == expected
            }),
            None
        );
    }

    #[test]
    fn branch_stack_follows_from_perf_capabilities() {
        let first_mismatch_with = |format| {
            let branches_of_dump = |dump: &dumps::Dump, cpu: Processor| {
                let branches = cpu.capabilities(format).ok()?.last_branch?;
                Some((dump.core, branches))
            };
            let expected = |core| match (format, core) {
                (3, Core::Nehalem | Core::Westmere) => Some(OldStack::Nehalem),
                (3, Core::SandyBridge | Core::IvyBridge) => Some(OldStack::SandyBridge),
                (4, Core::Haswell | Core::Broadwell) => Some(OldStack::Haswell),
                _ => None,
            };
            dumps::first_mismatch(|dump, cpu| match branches_of_dump(dump, cpu) {
                Some((core, BranchRecords::OldStack(old))) => expected(core) == Some(old),
                _ => expected(dump.core).is_none(),
            })
        };
        for format in 0..8 {
            assert_eq!(first_mismatch_with(format), None);
        }
    }

    #[test]
    fn full_width_writes_follow_from_perf_capabilities() {
        let cpu = intel_processor(INTEL, 1 << 15, perfmon_leaf(0x0730_0404, 0, 0x603));
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
        let cpu = intel_processor(INTEL, 0, perfmon_leaf(0x0728_0201, 0xff, 0x603));
        assert_eq!(
            cpu.capabilities(0).map(|c| (c.version, c.fixed)),
            Ok((1, 0))
        );
    }

    #[test]
    fn version_5_lists_its_fixed_counters() {
        // Counters 0 to 2 from EDX, counter 4 from ECX.
        let cpu = intel_processor(INTEL, 0, perfmon_leaf(0x0830_0805, 0b1_0000, 0x8603));
        assert_eq!(cpu.capabilities(0).map(|c| c.fixed), Ok(0b1_0111));
        // Before version 5, ECX is reserved.
        let cpu = intel_processor(INTEL, 0, perfmon_leaf(0x0830_0804, 0b1_0000, 0x603));
        assert_eq!(cpu.capabilities(0).map(|c| c.fixed), Ok(0b111));
    }

    #[test]
    fn fixed_counters_of_width_0_are_ignored() {
        let cpu = intel_processor(INTEL, 0, perfmon_leaf(0x0830_0805, 0b1_0000, 0x8003));
        assert_eq!(
            cpu.capabilities(0).map(|c| (c.fixed, c.fixed_width)),
            Ok((0, 0))
        );
    }

    #[test]
    fn set_bit_of_leaf_0a_ebx_is_a_missing_event() {
        let arch_events = |count: u32, missing| {
            let leaf = Leaf {
                ebx: missing,
                ..perfmon_leaf(count << 24 | 0x30_0404, 0, 0x603)
            };
            let capabilities = intel_processor(INTEL, 0, leaf).capabilities(0);
            capabilities.map(|c| c.arch_events)
        };
        assert_eq!(arch_events(7, 0), Ok(0x7f));
        assert_eq!(arch_events(7, 0b100), Ok(0x7b));
        // Events beyond the count are missing, whatever their bits are.
        assert_eq!(arch_events(5, !0b1_1111), Ok(0x1f));
        assert_eq!(arch_events(0, 0), Ok(0));
        assert_eq!(arch_events(31, 0), Ok(0x7fff_ffff));
        assert_eq!(arch_events(32, 0), Ok(u32::MAX));
        assert_eq!(arch_events(255, 1), Ok(u32::MAX - 1));
    }

    /// Returns the capabilities of an invented processor of version 6, for cases that no dump has. `subleaves` are EAX
    /// and EBX of the subleaves 0, 1 and 3 of leaf 0x23.
    fn version_6(subleaves: [(u32, u32); 3]) -> Capabilities {
        let cpu = Processor::read(|leaf, subleaf| match (leaf, subleaf) {
            (0, _) => Leaf { eax: 0x23, ..INTEL },
            (0x0a, _) => perfmon_leaf(0x0830_0806, 0xf, 0x604),
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
        cpu.capabilities(0).unwrap_or(Capabilities::NONE)
    }

    #[test]
    fn version_6_describes_each_core() {
        let cpu = version_6([(0b1011, 0), (0x3f, 0x77), (0x1fff, 0)]);
        assert_eq!((cpu.general_count, cpu.fixed), (6, 0x77));
        assert_eq!(cpu.arch_events, 0x1fff);
        assert_eq!(cpu.select_bits, 0xffff_ffff);
        assert!(cpu.has_aliases());
    }

    #[test]
    fn big_cores_without_leaf_23_have_unlisted_counters() {
        let counters = |kind: u32, features: u32, listed: Leaf| {
            let cpu = Processor::read(|leaf, _| match leaf {
                0 => Leaf { eax: 0x20, ..INTEL },
                1 => Leaf {
                    eax: 0x0009_0672,
                    ecx: features,
                    ..Leaf::default()
                },
                7 => Leaf {
                    edx: 1 << 15,
                    ..Leaf::default()
                },
                0x0a => listed,
                0x1a => Leaf {
                    eax: kind << 24 | 1,
                    ..Leaf::default()
                },
                _ => Leaf::default(),
            });
            cpu.capabilities(0)
                .map(|c| (c.general_count, c.all_general_count, c.fixed, c.arch_events))
        };
        let (big, small) = (0x40, 0x20);
        let common = perfmon_leaf(0x0730_0605, 0b111, 0x8603);
        assert_eq!(counters(big, 0, common), Ok((8, 8, 0b1111, 0xff)));
        assert_eq!(counters(small, 0, common), Ok((6, 6, 0b111, 0x7f)));
        // If the firmware has turned the small cores off, all is listed.
        let all = perfmon_leaf(0x0830_0805, 0b1111, 0x8604);
        assert_eq!(counters(big, 0, all), Ok((8, 8, 0b1111, 0xff)));
        // A hypervisor provides what it lists.
        assert_eq!(counters(big, 1 << 31, common), Ok((6, 6, 0b111, 0x7f)));
    }

    #[test]
    fn missing_subleaves_are_ignored() {
        let cpu = version_6([(0b0001, 0), (0x3f, 0x77), (0x1fff, 0)]);
        assert_eq!((cpu.general_count, cpu.fixed), (8, 0xf));
        assert_eq!(cpu.arch_events, 0xff);
    }

    #[test]
    fn general_counters_above_a_gap_are_not_used() {
        let general = |bitmap| {
            let cpu = version_6([(0b1011, 0), (bitmap, 0), (0, 0)]);
            (cpu.general_count, cpu.all_general_count)
        };
        assert_eq!(general(0b1011_1111), (6, 6));
        // At most eight are used.
        assert_eq!(general(0x3ff), (8, 10));
        assert_eq!(general(u32::MAX), (8, 32));
        assert_eq!(general(0b10), (0, 0));
    }

    #[test]
    fn version_6_has_wider_event_selects() {
        let select_bits = |fields| version_6([(0b0001, fields), (0, 0), (0, 0)]).select_bits;
        assert_eq!(select_bits(0b01), 0xff00_ffff_ffff);
        assert_eq!(select_bits(0b10), 0x0010_ffff_ffff);
        assert_eq!(select_bits(0b11), 0xff10_ffff_ffff);
    }

    #[test]
    fn extended_counters_are_those_that_reload_or_record() {
        let extended_counters = |subleaves| {
            let cpu = Processor::read(|leaf, subleaf| match (leaf, subleaf) {
                (0, _) => Leaf { eax: 0x23, ..INTEL },
                (0x23, 0) => Leaf {
                    eax: subleaves,
                    ..Leaf::default()
                },
                // The bitmaps of Lunar Lake's small cores.
                (0x23, 2) => Leaf {
                    eax: 0xfc,
                    ebx: 0x3,
                    ecx: 0xff,
                    edx: 0x77,
                },
                (0x23, 5) => Leaf {
                    eax: 0x01,
                    ebx: 0x02,
                    ecx: 0x10,
                    edx: 0x20,
                },
                _ => Leaf::default(),
            });
            cpu.extended_counters()
        };
        assert_eq!(extended_counters(0b00_1011), 0);
        assert_eq!(extended_counters(0b00_1111), 0x3_0000_00fc);
        assert_eq!(extended_counters(0b11_1111), 0x13_0000_00fd);
    }

    #[test]
    fn counter_of_tsx_is_not_used() {
        let general = |ebx: u32, edx: u32| {
            let cpu = Processor::read(|leaf, _| match leaf {
                0 => INTEL,
                7 => Leaf {
                    ebx,
                    edx,
                    ..Leaf::default()
                },
                0x0a => perfmon_leaf(0x0730_0804, 0, 0x603),
                _ => Leaf::default(),
            });
            let capabilities = cpu.capabilities(0).unwrap_or(Capabilities::NONE);
            (capabilities.general_count, capabilities.all_general_count)
        };
        // With TSX, and TSX_FORCE_ABORT to turn it off. Linux perf may use all counters.
        assert_eq!(general(1 << 11, 1 << 13), (3, 8));
        // No transactions.
        assert_eq!(general(0, 1 << 13), (8, 8));
        // All transactions abort, so no counter is needed.
        assert_eq!(general(1 << 11, 1 << 13 | 1 << 11), (8, 8));
        // Older microcode.
        assert_eq!(general(1 << 11, 0), (8, 8));
        // All bits but one.
        assert_eq!(general(!(1 << 11), !(1 << 11)), (8, 8));
        assert_eq!(general(!0, !(1 << 11)), (3, 8));
    }

    #[test]
    fn missing_leaf_0a_means_no_pmu() {
        let old_leaf_0 = Leaf { eax: 5, ..INTEL };
        let cpu = intel_processor(old_leaf_0, 0, perfmon_leaf(0x0730_0404, 0, 0x603));
        assert_eq!(cpu.capabilities(0), Err(NoPmu::Version));
    }

    #[test]
    fn hypervisors_without_a_pmu_are_refused() {
        let cpu = intel_processor(INTEL, 1 << 31, Leaf::default());
        assert!(cpu.is_virtual());
        assert_eq!(cpu.capabilities(0), Err(NoPmu::Version));
        let cpu = intel_processor(INTEL, 1 << 31, perfmon_leaf(0x0730_0002, 0, 0));
        assert_eq!(cpu.capabilities(0), Err(NoPmu::Counters));
    }

    #[test]
    fn other_vendors_are_refused() {
        let via_leaf_0 = Leaf {
            ebx: 0x746e_6543,
            edx: 0x4872_7561,
            ecx: 0x736c_7561,
            ..INTEL
        };
        let cpu = intel_processor(via_leaf_0, 0, perfmon_leaf(0x0730_0404, 0, 0x603));
        assert_eq!(&cpu.vendor_id, b"CentaurHauls");
        assert_eq!(cpu.capabilities(0), Err(NoPmu::Vendor));
    }

    #[test]
    fn absurd_numbers_stay_in_range() {
        let cpu = intel_processor(INTEL, 0, perfmon_leaf(u32::MAX, u32::MAX, u32::MAX));
        let c = cpu.capabilities(0);
        assert_eq!(c.map(|c| (c.general_count, c.fixed)), Ok((32, 0x7fff)));
        assert!(c.is_ok_and(|c| c.has_aliases()));
    }
}
