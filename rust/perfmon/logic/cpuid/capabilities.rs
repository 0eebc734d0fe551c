// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The capabilities of a PMU.

use super::super::branch_records::BranchRecords;
use super::super::counter::counter_bits;
use super::super::evtsel::EventSelect;
use super::super::pebs::PebsFormat;
use super::Microarchitecture;

/// The register layout of a PMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Intel's architectural performance monitoring.
    Intel,
    /// AMD's four counters since the K7; no global registers.
    AmdLegacy,
    /// AMD's six core performance counters (PerfCtrExtCore); no global registers.
    AmdCore,
    /// AMD's core performance counters with global registers (PerfMonV2).
    AmdV2,
}

/// The reason why a processor's PMU can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPmu {
    /// This driver does not know the vendor's PMU.
    Vendor,
    /// CPUID has no leaf 0x0a, or the leaf reports version 0.
    Version,
    /// CPUID reports a version, but no counter.
    Counters,
    /// CPUID has no bit for the counters, and the registers don't hold the values that are written.
    Registers,
}

impl NoPmu {
    /// Returns the reason in words, to follow the name of the processor.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Vendor => "processors of this vendor are not supported",
            Self::Version => "CPUID leaf 0x0a reports no version of performance monitoring",
            Self::Counters => "CPUID reports performance monitoring, but no general counter",
            Self::Registers => "CPUID reports no PMU, and the counter registers don't work",
        }
    }
}

/// The capabilities of a PMU, or the capabilities that all PMUs of a machine have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The register layout.
    pub architecture: Architecture,
    /// The kind of core, which determines the events that CPUID does not report.
    pub microarchitecture: Microarchitecture,
    /// The version of architectural performance monitoring; on AMD 1, or 2 with PerfMonV2.
    pub version: u8,
    /// The number of general counters: 0 to [`MAX_GENERAL`](super::super::counter::MAX_GENERAL).
    pub general_count: u8,
    /// The number of general counters that exist, including counters that the module does not use.
    pub all_general_count: u8,
    /// The width of general counters in bits.
    pub general_width: u8,
    /// Fixed-function counters: bit n for counter n. There may be gaps.
    pub fixed: u16,
    /// The width of fixed-function counters in bits.
    pub fixed_width: u8,
    /// A write sets all bits of a counter (`IA32_PERF_CAPABILITIES.FW_WRITE`).
    pub full_width_writes: bool,
    /// Architectural events, by their bits in CPUID.0AH:EBX (where a set bit means that the event is
    /// missing): 0 core cycles, 1 instructions, 2 reference cycles, 3 LLC references, 4 LLC misses, 5 branches,
    /// 6 branch misses, 7 top-down slots.
    pub arch_events: u32,
    /// The bits that an event select has.
    pub select_bits: u64,
    /// The kind of branch records; `None` if the CPU has none that the module supports.
    pub last_branch: Option<BranchRecords>,
    /// Intel PT and the branch records exclude each other, so [`Sensor::TRACE_CONTROL`] has to be read.
    ///
    /// [`Sensor::TRACE_CONTROL`]: super::super::values::Sensor::TRACE_CONTROL
    pub intel_pt_excludes_branches: bool,
    /// The format of the records of precise samples; `None` if the CPU has no format that the module supports.
    pub pebs: Option<PebsFormat>,
    /// The records of precise samples have the retire latency (`IA32_PERF_CAPABILITIES.PEBS_TIMING_INFO`).
    pub has_retire_latency: bool,
    /// The energies, temperatures and clocks that can be read, as a set of values
    /// ([`MiscEvent::bit`](super::super::values::MiscEvent::bit)).
    pub values: u16,
    /// The energy of the memory has a unit of its own ([`values`](super::super::values)).
    pub server_memory_unit: bool,
}

impl Capabilities {
    /// No counters.
    pub const NONE: Self = Self {
        architecture: Architecture::Intel,
        microarchitecture: Microarchitecture::Unknown,
        version: 0,
        general_count: 0,
        all_general_count: 0,
        general_width: 0,
        fixed: 0,
        fixed_width: 0,
        full_width_writes: false,
        arch_events: 0,
        select_bits: EventSelect::COMMON_BITS,
        last_branch: None,
        intel_pt_excludes_branches: false,
        pebs: None,
        has_retire_latency: false,
        values: 0,
        server_memory_unit: false,
    };

    /// Returns the capabilities that both PMUs have in common.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        if self.architecture != other.architecture {
            return Self::NONE;
        }
        let last_branch = self
            .last_branch
            .filter(|_| self.last_branch == other.last_branch);
        Self {
            architecture: self.architecture,
            microarchitecture: self.microarchitecture.intersection(other.microarchitecture),
            version: self.version.min(other.version),
            general_count: self.general_count.min(other.general_count),
            all_general_count: self.all_general_count.min(other.all_general_count),
            general_width: self.general_width.min(other.general_width),
            fixed: self.fixed & other.fixed,
            fixed_width: self.fixed_width.min(other.fixed_width),
            full_width_writes: self.full_width_writes && other.full_width_writes,
            arch_events: self.arch_events & other.arch_events,
            select_bits: self.select_bits & other.select_bits,
            last_branch,
            // This field has no meaning for a PMU without branch records.
            intel_pt_excludes_branches: last_branch.is_some()
                && (self.intel_pt_excludes_branches || other.intel_pt_excludes_branches),
            pebs: self.pebs.filter(|_| self.pebs == other.pebs),
            has_retire_latency: self.has_retire_latency && other.has_retire_latency,
            values: self.values & other.values,
            server_memory_unit: self.server_memory_unit && other.server_memory_unit,
        }
    }

    /// Returns whether `self` has all capabilities of `needed`.
    #[must_use]
    pub fn includes(self, needed: Self) -> bool {
        self.intersection(needed) == needed
    }

    /// Returns the bits of all counters, as in `IA32_PERF_GLOBAL_CTRL`.
    #[must_use]
    pub const fn counters(&self) -> u64 {
        counter_bits(self.general_count, self.fixed)
    }

    /// Returns the capabilities without the last general counter, which a place-holder gets
    /// ([`Pmu::place_holder`](super::super::pmu::Pmu::place_holder)), and the number of that counter. `None` if no
    /// general counter would be left.
    #[must_use]
    pub const fn without_last(self) -> Option<(Self, u8)> {
        /// The first version of the PMU with counters that the module does not use.
        const FIRST_VERSION_WITH_SPARE_COUNTERS: u8 = 6;

        let all = self.all_general_count;
        if all < 2 {
            return None;
        }
        // If the module uses all counters of an older PMU except one, the microcode uses that
        // counter ([`is_counter_taken_for_tsx`](super::Processor::is_counter_taken_for_tsx)). perf
        // would abort all transactions while the place-holder has this counter.
        let last_counter =
            if self.version < FIRST_VERSION_WITH_SPARE_COUNTERS && self.general_count == all - 1 {
                all - 2
            } else {
                all - 1
            };
        let general_count = if self.general_count < last_counter {
            self.general_count
        } else {
            last_counter
        };
        match general_count {
            0 => None,
            _ => Some((
                Self {
                    general_count,
                    ..self
                },
                last_counter,
            )),
        }
    }

    /// Returns whether Linux perf uses other register numbers than this module for the same
    /// counters: the numbers from 0x1900 on, which came with version 6.
    #[must_use]
    pub const fn has_aliases(&self) -> bool {
        matches!(self.architecture, Architecture::Intel) && self.version >= 6
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_capabilities))]
mod tests {
    use super::*;

    #[test]
    fn intersection_has_what_differing_cpus_share() {
        let big = Capabilities {
            architecture: Architecture::Intel,
            microarchitecture: Microarchitecture::GoldenCove,
            version: 5,
            general_count: 8,
            all_general_count: 10,
            general_width: 48,
            fixed: 0b1111,
            fixed_width: 48,
            full_width_writes: true,
            arch_events: 0xff,
            select_bits: EventSelect::COMMON_BITS | EventSelect::UNIT_MASK_2,
            last_branch: Some(BranchRecords::Architectural { depth: 32 }),
            intel_pt_excludes_branches: false,
            pebs: None,
            has_retire_latency: false,
            values: 0x3ff,
            server_memory_unit: true,
        };
        let little = Capabilities {
            general_count: 6,
            all_general_count: 6,
            fixed: 0b111,
            arch_events: 0x7f,
            select_bits: EventSelect::COMMON_BITS,
            values: 0x301,
            ..big
        };
        assert_eq!(big.intersection(little), little);
        assert!(big.includes(little));
        let atom = Capabilities {
            microarchitecture: Microarchitecture::Gracemont,
            ..little
        };
        let hybrid = big.intersection(atom);
        assert_eq!(hybrid.microarchitecture, Microarchitecture::Unknown);
        assert!(big.includes(hybrid) && atom.includes(hybrid));
        assert!(!atom.includes(little));
        assert!(!little.includes(big));
        assert!(little.includes(Capabilities::NONE));
        // A CPU that was probed while Intel PT traced has no records; CPUs that were probed later have records.
        let excluded = Capabilities {
            last_branch: Some(BranchRecords::Stack),
            intel_pt_excludes_branches: true,
            ..big
        };
        let without_records = Capabilities {
            last_branch: None,
            intel_pt_excludes_branches: false,
            ..big
        };
        assert!(excluded.includes(without_records) && !without_records.includes(excluded));
        assert!(excluded.includes(excluded));
        let amd = Capabilities {
            architecture: Architecture::AmdV2,
            ..big
        };
        assert_eq!(big.intersection(amd), Capabilities::NONE);
        assert!(!amd.includes(big));
    }

    #[test]
    fn the_last_counter_is_left_to_the_place_holder() {
        let usable_and_last_of = |version, general_count, all_general_count| {
            let cpu = Capabilities {
                version,
                general_count,
                all_general_count,
                ..Capabilities::NONE
            };
            cpu.without_last()
                .map(|(rest, last)| (rest.general_count, last))
        };
        let usable_and_last = |general_count, all_general_count| {
            usable_and_last_of(6, general_count, all_general_count)
        };
        assert_eq!(usable_and_last(8, 8), Some((7, 7)));
        // The module did not use the last counter.
        assert_eq!(usable_and_last(8, 10), Some((8, 9)));
        assert_eq!(usable_and_last(8, 9), Some((8, 8)));
        assert_eq!(usable_and_last(2, 2), Some((1, 1)));
        // The microcode uses counter 3, also if there are eight counters, without Hyper-Threading.
        assert_eq!(usable_and_last_of(4, 3, 4), Some((2, 2)));
        assert_eq!(usable_and_last_of(4, 3, 8), Some((3, 7)));
        assert_eq!(usable_and_last_of(4, 4, 4), Some((3, 3)));
        assert_eq!(usable_and_last(1, 1), None);
        assert_eq!(usable_and_last(0, 0), None);
    }

    #[test]
    fn counters_are_the_bits_of_global_ctrl() {
        let cpu = Capabilities {
            general_count: 4,
            fixed: 0b101,
            ..Capabilities::NONE
        };
        assert_eq!(cpu.counters(), 0b101 << 32 | 0b1111);
        assert_eq!(Capabilities::NONE.counters(), 0);
    }
}
