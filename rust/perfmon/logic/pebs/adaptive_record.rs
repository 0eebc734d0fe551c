// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The records of formats 4 to 6, which consist of groups.

use super::super::memory_access::RecordedAccess;
use super::super::recorded_branches::RecordedBranches;
use super::groups::RecordGroups;
use super::record::{word_index, PebsRecord, RecordRegisters};

/// A record of formats 4 to 6. It consists of groups, in this order: basic, access to memory, registers, branches. The
/// number of words determines which of the last three groups the record has.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct AdaptiveRecord<const WORDS: usize>([u64; WORDS]);

/// The number of words of each group.
const BASIC_WORDS: usize = 4;
const ACCESS_WORDS: usize = 4;
const REGISTER_WORDS: usize = 18;
const BRANCH_WORDS: usize = RecordedBranches::WORDS;

/// A record with the basic group alone.
pub type BasicRecord = AdaptiveRecord<BASIC_WORDS>;
/// A record with the groups basic and access to memory.
pub type AccessRecord = AdaptiveRecord<{ BASIC_WORDS + ACCESS_WORDS }>;
/// A record with the groups basic and registers.
pub type RegisterRecord = AdaptiveRecord<{ BASIC_WORDS + REGISTER_WORDS }>;
/// A record with the groups basic, access to memory, and registers.
pub type AccessRegisterRecord = AdaptiveRecord<{ BASIC_WORDS + ACCESS_WORDS + REGISTER_WORDS }>;
/// A record with the groups basic and branches.
pub type BranchRecord = AdaptiveRecord<{ BASIC_WORDS + BRANCH_WORDS }>;
/// A record with the groups basic, access to memory, and branches.
pub type AccessBranchRecord = AdaptiveRecord<{ BASIC_WORDS + ACCESS_WORDS + BRANCH_WORDS }>;
/// A record with the groups basic, registers, and branches.
pub type RegisterBranchRecord = AdaptiveRecord<{ BASIC_WORDS + REGISTER_WORDS + BRANCH_WORDS }>;
/// A record with all groups.
pub type LongRecord =
    AdaptiveRecord<{ BASIC_WORDS + ACCESS_WORDS + REGISTER_WORDS + BRANCH_WORDS }>;

/// Returns the size in bytes in the first word of a record of format 4, in bits 63:48.
const fn record_size(first_word: u64) -> usize {
    (first_word >> 48) as usize
}

/// The bits of the groups of a record of format 4 in its first word. They are the same as in
/// `MSR_PEBS_DATA_CFG`: access to memory, registers, XMM, branches.
const ALL_GROUPS: u64 = 0xf;

/// Returns the retire latency in the first word of a record of format 4, in bits 47:32.
const fn retire_latency(first_word: u64) -> u16 {
    (first_word >> 32) as u16
}

impl<const WORDS: usize> AdaptiveRecord<WORDS> {
    const HAS_REGISTERS: bool = Self::WORDS_BEFORE_BRANCHES >= BASIC_WORDS + REGISTER_WORDS;
    const WORDS_BEFORE_BRANCHES: usize = if <Self as PebsRecord>::HAS_BRANCHES {
        WORDS - BRANCH_WORDS
    } else {
        WORDS
    };
    /// The bits of the groups, as in the first word.
    const GROUPS: u64 = RecordGroups::ACCESS
        .filter(<Self as PebsRecord>::HAS_ACCESS)
        .union(RecordGroups::REGISTERS.filter(Self::HAS_REGISTERS))
        .union(RecordGroups::BRANCHES.filter(<Self as PebsRecord>::HAS_BRANCHES))
        .bits();
    /// The offset of the group of the access to memory, in bytes.
    const ACCESS: usize = 8 * BASIC_WORDS;
    /// The offset of the group of the registers, in bytes.
    const REGISTERS: usize = if Self::HAS_ACCESS {
        8 * (BASIC_WORDS + ACCESS_WORDS)
    } else {
        8 * BASIC_WORDS
    };
}

impl<const WORDS: usize> PebsRecord for AdaptiveRecord<WORDS> {
    const IP: usize = 0x08;
    const COUNTERS: usize = 0x10;
    const TSC: usize = 0x18;
    const HAS_ACCESS: bool = Self::WORDS_BEFORE_BRANCHES == BASIC_WORDS + ACCESS_WORDS
        || Self::WORDS_BEFORE_BRANCHES == BASIC_WORDS + ACCESS_WORDS + REGISTER_WORDS;
    const HAS_BRANCHES: bool = WORDS >= BASIC_WORDS + BRANCH_WORDS;

    #[inline(always)]
    fn word(&self, offset: usize) -> u64 {
        self.0[word_index(offset)]
    }

    fn has_expected_groups(&self) -> bool {
        let first_word = self.word(0x00);
        record_size(first_word) == size_of::<Self>()
            && first_word & ALL_GROUPS == Self::GROUPS & ALL_GROUPS
    }

    #[inline(always)]
    fn access(&self) -> RecordedAccess {
        if !Self::HAS_ACCESS {
            return RecordedAccess::NONE;
        }
        RecordedAccess {
            address: self.word(Self::ACCESS),
            source: self.word(Self::ACCESS + 0x08),
            latency: self.word(Self::ACCESS + 0x10),
            transaction: self.word(Self::ACCESS + 0x18),
            retire_latency: retire_latency(self.word(0x00)),
        }
    }

    fn registers(&self) -> Option<RecordRegisters> {
        if !Self::HAS_REGISTERS {
            return None;
        }
        let word = |n: usize| self.word(Self::REGISTERS + 8 * n);
        Some(RecordRegisters {
            flags: word(0),
            ip: word(1),
            ax: word(2),
            cx: word(3),
            dx: word(4),
            bx: word(5),
            sp: word(6),
            bp: word(7),
            si: word(8),
            di: word(9),
            r8_to_r15: core::array::from_fn(|n| word(10 + n)),
        })
    }

    #[inline(always)]
    fn branches(&self) -> &[u64] {
        self.0.get(Self::WORDS_BEFORE_BRANCHES..).unwrap_or(&[])
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(
    CONFIG_KUNIT = "y",
    kernel::macros::kunit_tests(perfmon_pebs_adaptive_record)
)]
mod tests {
    use super::*;

    fn word_offsets<const N: usize>() -> [u64; N] {
        core::array::from_fn(|n| 8 * n as u64)
    }

    #[test]
    fn fields_have_the_offsets_of_the_manual() {
        let basic_record = AdaptiveRecord::<4>(word_offsets());
        assert_eq!(
            [
                basic_record.ip(),
                basic_record.counters(),
                basic_record.tsc()
            ],
            [0x08, 0x10, 0x18]
        );
        assert_eq!(basic_record.overflows(), 1);
        assert_eq!(basic_record.access(), RecordedAccess::NONE);
        let access = AdaptiveRecord::<8>(word_offsets()).access();
        assert_eq!(
            [
                access.address,
                access.source,
                access.latency,
                access.transaction
            ],
            [0x20, 0x28, 0x30, 0x38]
        );
    }

    #[test]
    fn first_word_has_the_retire_latency_and_the_groups() {
        let mut words = word_offsets();
        words[0] = 0x0040_1234_0000_0001;
        let access_record = AdaptiveRecord::<8>(words);
        assert_eq!(access_record.access().retire_latency, 0x1234);
        assert!(access_record.has_expected_groups());
        words[0] = 0x0040_1234_0000_0008;
        assert!(!AdaptiveRecord::<8>(words).has_expected_groups());
        assert!(!AdaptiveRecord::<4>(word_offsets()).has_expected_groups());
    }

    #[test]
    fn registers_have_the_offsets_of_the_manual() {
        let offsets = |registers: Option<RecordRegisters>| {
            registers.map(|r| {
                let usual = [
                    r.flags, r.ip, r.ax, r.cx, r.dx, r.bx, r.sp, r.bp, r.si, r.di,
                ];
                (usual, r.r8_to_r15)
            })
        };
        let words_from = |start: u64| -> Option<([u64; 10], [u64; 8])> {
            Some((
                core::array::from_fn(|n| start + 8 * n as u64),
                core::array::from_fn(|n| start + 80 + 8 * n as u64),
            ))
        };
        let register_record = AdaptiveRecord::<22>(word_offsets());
        let long_record = AdaptiveRecord::<26>(word_offsets());
        assert_eq!(offsets(register_record.registers()), words_from(0x20));
        assert_eq!(register_record.access(), RecordedAccess::NONE);
        assert_eq!(offsets(long_record.registers()), words_from(0x40));
        assert_eq!(long_record.access().address, 0x20);
    }

    #[test]
    fn branches_follow_the_other_groups() {
        let offset_and_length = |branches: &[u64]| (branches.first().copied(), branches.len());
        assert_eq!(
            offset_and_length(AdaptiveRecord::<4>(word_offsets()).branches()),
            (None, 0)
        );
        let branch_record = AdaptiveRecord::<100>(word_offsets());
        assert_eq!(
            offset_and_length(branch_record.branches()),
            (Some(0x20), 96)
        );
        assert_eq!(branch_record.access(), RecordedAccess::NONE);
        assert_eq!(branch_record.registers(), None);
        let with_access = AdaptiveRecord::<104>(word_offsets());
        assert_eq!(offset_and_length(with_access.branches()), (Some(0x40), 96));
        assert_eq!(with_access.access().address, 0x20);
        let with_registers = AdaptiveRecord::<118>(word_offsets());
        assert_eq!(
            offset_and_length(with_registers.branches()),
            (Some(0xb0), 96)
        );
        assert_eq!(with_registers.registers().map(|r| r.flags), Some(0x20));
        let long_record = AdaptiveRecord::<122>(word_offsets());
        assert_eq!(offset_and_length(long_record.branches()), (Some(0xd0), 96));
        assert_eq!(long_record.access().address, 0x20);
        assert_eq!(long_record.registers().map(|r| r.flags), Some(0x40));
        let mut words = word_offsets();
        words[0] = 800 << 48 | RecordGroups::BRANCHES.bits();
        assert!(AdaptiveRecord::<100>(words).has_expected_groups());
        words[0] = 800 << 48;
        assert!(!AdaptiveRecord::<100>(words).has_expected_groups());
    }
}
