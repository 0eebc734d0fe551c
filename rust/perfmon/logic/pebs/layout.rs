// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The layouts of records, and their sizes.

use super::adaptive_record::{
    AccessBranchRecord, AccessRecord, AccessRegisterRecord, BasicRecord, BranchRecord, LongRecord,
    RegisterBranchRecord, RegisterRecord,
};
use super::full_record::FullRecord;
use super::merged_record::MergedRecord;

/// The layout of all records in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordLayout {
    /// [`FullRecord`]
    Full,
    /// [`BasicRecord`]
    Basic,
    /// [`AccessRecord`]
    Access,
    /// [`RegisterRecord`]
    Registers,
    /// [`AccessRegisterRecord`]
    AccessAndRegisters,
    /// [`BranchRecord`]
    Branches,
    /// [`AccessBranchRecord`]
    AccessAndBranches,
    /// [`RegisterBranchRecord`]
    RegistersAndBranches,
    /// [`LongRecord`]
    Long,
    /// [`MergedRecord`]
    Merged,
}

impl RecordLayout {
    /// Returns the size of a record in bytes.
    #[must_use]
    pub const fn record_size(self) -> u64 {
        let size = match self {
            Self::Full => size_of::<FullRecord>(),
            Self::Basic => size_of::<BasicRecord>(),
            Self::Access => size_of::<AccessRecord>(),
            Self::Registers => size_of::<RegisterRecord>(),
            Self::AccessAndRegisters => size_of::<AccessRegisterRecord>(),
            Self::Branches => size_of::<BranchRecord>(),
            Self::AccessAndBranches => size_of::<AccessBranchRecord>(),
            Self::RegistersAndBranches => size_of::<RegisterBranchRecord>(),
            Self::Long => size_of::<LongRecord>(),
            Self::Merged => size_of::<MergedRecord>(),
        };
        size as u64
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_pebs_layout))]
mod tests {
    use super::*;

    #[test]
    fn records_have_the_sizes_of_the_manual() {
        let sizes = [
            (RecordLayout::Full, 200),
            (RecordLayout::Basic, 32),
            (RecordLayout::Access, 64),
            (RecordLayout::Registers, 176),
            (RecordLayout::AccessAndRegisters, 208),
            (RecordLayout::Branches, 800),
            (RecordLayout::AccessAndBranches, 832),
            (RecordLayout::RegistersAndBranches, 944),
            (RecordLayout::Long, 976),
            (RecordLayout::Merged, 40),
        ];
        for (layout, size) in sizes {
            assert_eq!(layout.record_size(), size);
        }
    }
}
