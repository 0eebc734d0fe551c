// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The formats of records: how a processor's format is detected, and what its records can have.

use super::super::counter::MAX_GENERAL;
use super::super::event_attr::{
    PERF_SAMPLE_CPU, PERF_SAMPLE_ID, PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP, PERF_SAMPLE_PERIOD,
    PERF_SAMPLE_STREAM_ID, PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
};
use super::super::memory_access::MEMORY_PARTS;
use super::groups::RecordGroups;
use super::layout::RecordLayout;

/// The parts of samples (`PERF_SAMPLE_*`) for which records suffice, without an interrupt for each record: the parts that
/// records contain, and the parts that are the same for all records of an event. Records of some formats lack the access to
/// memory ([`PebsFormat::has_access`]).
pub const PARTS_OF_RECORDS: u64 = PERF_SAMPLE_IDENTIFIER
    | PERF_SAMPLE_IP
    | PERF_SAMPLE_TID
    | PERF_SAMPLE_TIME
    | PERF_SAMPLE_ID
    | PERF_SAMPLE_STREAM_ID
    | PERF_SAMPLE_CPU
    | PERF_SAMPLE_PERIOD
    | MEMORY_PARTS;

/// The format of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PebsFormat {
    /// Skylake and its successors: [`FullRecord`](super::FullRecord).
    Three,
    /// Ice Lake and Tremont: [`BasicRecord`](super::BasicRecord), or a longer record while an event needs more groups.
    Four,
    /// Format 5, and format 6 of Lunar Lake: as format 4, but the DS area has the reload values of more counters.
    Five,
    /// The project's virtual PMU: [`MergedRecord`](super::MergedRecord). If each instruction has a record, the virtual PMU
    /// merges the records of the same instruction, and adds the merged records to the buffer when `IA32_PEBS_ENABLE` is
    /// written.
    Merged,
}

impl PebsFormat {
    /// The period of an event whose records are merged.
    pub const MERGED_PERIOD: u64 = 1;

    /// Returns the format of a processor with this `IA32_PERF_CAPABILITIES`; `None` for formats that the module does
    /// not support: before format 3 records have no time, and 15 stands for the architectural PEBS, which has no DS area.
    #[must_use]
    pub const fn detect(perf_capabilities: u64) -> Option<Self> {
        /// `PEBS_BASELINE`: records of all counters, with the groups that `MSR_PEBS_DATA_CFG` asks for.
        const BASELINE: u64 = 1 << 14;

        match perf_capabilities >> 8 & 0xf {
            3 => Some(Self::Three),
            4 if perf_capabilities & BASELINE != 0 => Some(Self::Four),
            5 | 6 if perf_capabilities & BASELINE != 0 => Some(Self::Five),
            // No processor has this number.
            14 => Some(Self::Merged),
            _ => None,
        }
    }

    /// Returns the layout of records with these groups. A format whose groups can't be selected has one layout only.
    #[must_use]
    pub const fn layout(self, groups: RecordGroups) -> RecordLayout {
        let has_access = groups.has(RecordGroups::ACCESS);
        let has_registers = groups.has(RecordGroups::REGISTERS);
        let has_branches = groups.has(RecordGroups::BRANCHES);
        match (self, has_access, has_registers, has_branches) {
            (Self::Three, _, _, _) => RecordLayout::Full,
            (Self::Merged, _, _, _) => RecordLayout::Merged,
            (Self::Four | Self::Five, false, false, false) => RecordLayout::Basic,
            (Self::Four | Self::Five, true, false, false) => RecordLayout::Access,
            (Self::Four | Self::Five, false, true, false) => RecordLayout::Registers,
            (Self::Four | Self::Five, true, true, false) => RecordLayout::AccessAndRegisters,
            (Self::Four | Self::Five, false, false, true) => RecordLayout::Branches,
            (Self::Four | Self::Five, true, false, true) => RecordLayout::AccessAndBranches,
            (Self::Four | Self::Five, false, true, true) => RecordLayout::RegistersAndBranches,
            (Self::Four | Self::Five, true, true, true) => RecordLayout::Long,
        }
    }

    /// Returns whether records can have the access to memory.
    #[must_use]
    pub const fn has_access(self) -> bool {
        !matches!(self, Self::Merged)
    }

    /// Returns the bits of the counters that can have records of this format, if the CPU has the counters.
    #[must_use]
    pub const fn counters(self) -> u64 {
        const FIXED: u64 = 0xf << MAX_GENERAL;

        match self {
            Self::Three => 0b1111,
            Self::Four => FIXED | 0xff,
            Self::Five | Self::Merged => FIXED | u32::MAX as u64,
        }
    }

    /// Returns whether records can have the registers.
    #[must_use]
    pub const fn has_registers(self) -> bool {
        !matches!(self, Self::Merged)
    }

    /// Returns whether `MSR_PEBS_DATA_CFG` selects the groups that records have.
    #[must_use]
    pub const fn is_adaptive(self) -> bool {
        matches!(self, Self::Four | Self::Five)
    }

    /// Returns whether `IA32_PEBS_ENABLE` has a second bit for each counter, which enables loads with a threshold.
    #[must_use]
    pub const fn enables_load_latency(self) -> bool {
        matches!(self, Self::Three)
    }

    /// Returns whether the records of an instruction are merged if there is one for each `period` events.
    #[must_use]
    pub const fn merges(self, period: u64) -> bool {
        matches!(self, Self::Merged) && period == Self::MERGED_PERIOD
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_pebs_format))]
mod tests {
    use super::*;

    #[test]
    fn records_have_the_groups_that_events_need() {
        let both = RecordGroups::ACCESS.union(RecordGroups::REGISTERS);
        let none = RecordGroups::NONE;
        assert_eq!(PebsFormat::Three.layout(both), RecordLayout::Full);
        assert_eq!(PebsFormat::Four.layout(none), RecordLayout::Basic);
        assert_eq!(
            PebsFormat::Five.layout(RecordGroups::ACCESS),
            RecordLayout::Access
        );
        assert_eq!(
            PebsFormat::Four.layout(RecordGroups::REGISTERS),
            RecordLayout::Registers
        );
        assert_eq!(
            PebsFormat::Four.layout(both),
            RecordLayout::AccessAndRegisters
        );
        let branches = RecordGroups::BRANCHES;
        let layouts = [none, RecordGroups::ACCESS, RecordGroups::REGISTERS, both]
            .map(|groups| PebsFormat::Five.layout(groups.union(branches)));
        assert_eq!(
            layouts,
            [
                RecordLayout::Branches,
                RecordLayout::AccessAndBranches,
                RecordLayout::RegistersAndBranches,
                RecordLayout::Long
            ]
        );
        assert!(PebsFormat::Three.has_access() && !PebsFormat::Merged.has_access());
        assert!(PebsFormat::Five.has_registers() && !PebsFormat::Merged.has_registers());
        assert!(PebsFormat::Three.enables_load_latency());
        assert!(!PebsFormat::Four.enables_load_latency());
        assert!(!PebsFormat::Merged.enables_load_latency());
    }

    #[test]
    fn records_are_merged_with_period_1_only() {
        assert!(PebsFormat::Merged.merges(1));
        assert!(!PebsFormat::Merged.merges(2));
        assert!(!PebsFormat::Four.merges(1));
    }

    #[test]
    fn supported_formats_are_detected() {
        const BASELINE: u64 = 1 << 14;

        assert_eq!(PebsFormat::detect(0x3c5), Some(PebsFormat::Three));
        assert_eq!(PebsFormat::detect(BASELINE | 0x4c5), Some(PebsFormat::Four));
        assert_eq!(PebsFormat::detect(BASELINE | 0x5c5), Some(PebsFormat::Five));
        assert_eq!(PebsFormat::detect(BASELINE | 0x6c5), Some(PebsFormat::Five));
        assert_eq!(PebsFormat::detect(0xec5), Some(PebsFormat::Merged));
        for unsupported in [
            0,
            0x1c5,
            0x2c5,
            0x4c5,
            0x6c5,
            BASELINE | 0x7c5,
            BASELINE | 0xfc5,
        ] {
            assert_eq!(PebsFormat::detect(unsupported), None);
        }
    }
}
