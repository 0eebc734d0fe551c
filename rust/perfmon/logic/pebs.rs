// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! PEBS (processor event-based sampling), the samples that Intel's processors write without an interrupt: when a
//! counter overflows, the processor writes a record of the exact instruction into a buffer, and reloads the counter. It
//! raises an interrupt when the buffer is filled up to a threshold.
//!
//! Intel SDM, volume 3B, section 21.4.9 and, for the formats, table 21-84 and section 21.9.

use super::counter::{CounterId, CounterKind, MAX_GENERAL};
use super::event_attr::{
    PERF_SAMPLE_CPU, PERF_SAMPLE_ID, PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP, PERF_SAMPLE_PERIOD,
    PERF_SAMPLE_STREAM_ID, PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
};
use super::memory_access::{RecordedAccess, MEMORY_PARTS};
use super::recorded_branches::RecordedBranches;

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
    /// Skylake and its successors: [`FullRecord`].
    Three,
    /// Ice Lake and Tremont: [`BasicRecord`], or a longer record while an event needs more groups.
    Four,
    /// Format 5, and format 6 of Lunar Lake: as format 4, but the DS area has the reload values of more counters.
    Five,
    /// The project's virtual PMU: [`MergedRecord`]. If each instruction has a record, the virtual PMU merges the records
    /// of the same instruction, and adds the merged records to the buffer when `IA32_PEBS_ENABLE` is written.
    Merged,
}

/// A record of one instruction.
pub trait PebsRecord {
    /// The offset of the address, in bytes.
    const IP: usize;
    /// The offset of the bits of the overflowed counters, in bytes.
    const COUNTERS: usize;
    /// The offset of the time-stamp counter, in bytes.
    const TSC: usize;
    /// The record may stand for several overflows.
    const IS_MERGED: bool = false;
    /// The record has the access of the instruction to memory.
    const HAS_ACCESS: bool = false;
    /// The record has the branches before the end of the instruction.
    const HAS_BRANCHES: bool = false;

    /// Returns the word at an offset in bytes.
    fn word(&self, offset: usize) -> u64;

    /// Returns the number of overflows that the record stands for.
    #[inline(always)]
    fn overflows(&self) -> u64 {
        1
    }

    /// Returns whether the first word of the record has the size and the groups of this type; true for types without
    /// such a word. If false, other software has changed the registers that select the groups of records.
    fn has_expected_groups(&self) -> bool {
        true
    }

    /// Returns the access of the instruction to memory, if the record has it.
    #[inline(always)]
    fn access(&self) -> RecordedAccess {
        RecordedAccess::NONE
    }

    /// Returns the registers after the instruction, if the record has them.
    fn registers(&self) -> Option<RecordRegisters> {
        None
    }

    /// Returns the words of the branches, if the record has them: see
    /// [`RecordedBranches`](super::recorded_branches::RecordedBranches).
    #[inline(always)]
    fn branches(&self) -> &[u64] {
        &[]
    }

    /// Returns the address of the instruction.
    #[inline(always)]
    fn ip(&self) -> u64 {
        self.word(Self::IP)
    }

    /// Returns the bits of the counters that have overflowed at the instruction.
    #[inline(always)]
    fn counters(&self) -> u64 {
        self.word(Self::COUNTERS)
    }

    /// Returns the time-stamp counter.
    #[inline(always)]
    fn tsc(&self) -> u64 {
        self.word(Self::TSC)
    }
}

impl<R: PebsRecord> PebsRecord for &R {
    const IP: usize = R::IP;
    const COUNTERS: usize = R::COUNTERS;
    const TSC: usize = R::TSC;
    const IS_MERGED: bool = R::IS_MERGED;
    const HAS_ACCESS: bool = R::HAS_ACCESS;
    const HAS_BRANCHES: bool = R::HAS_BRANCHES;

    #[inline(always)]
    fn word(&self, offset: usize) -> u64 {
        R::word(self, offset)
    }

    #[inline(always)]
    fn overflows(&self) -> u64 {
        R::overflows(self)
    }

    fn has_expected_groups(&self) -> bool {
        R::has_expected_groups(self)
    }

    #[inline(always)]
    fn access(&self) -> RecordedAccess {
        R::access(self)
    }

    fn registers(&self) -> Option<RecordRegisters> {
        R::registers(self)
    }

    #[inline(always)]
    fn branches(&self) -> &[u64] {
        R::branches(self)
    }
}

/// Returns whether an address is a program's, in the lower half.
#[inline(always)]
#[must_use]
pub const fn is_user_address(ip: u64) -> bool {
    ip as i64 >= 0
}

/// Returns the address if it is a program's, else 0. The processor may record a late address in the kernel, which an
/// event that excludes the kernel must not show.
#[inline(always)]
#[must_use]
pub const fn user_address_or_zero(address: u64) -> u64 {
    address & !((address as i64 >> 63) as u64)
}

/// The registers in a record, as they are after the instruction: `ip` is the address of the next instruction. The names are
/// those of `struct pt_regs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct RecordRegisters {
    pub flags: u64,
    pub ip: u64,
    pub ax: u64,
    pub bx: u64,
    pub cx: u64,
    pub dx: u64,
    pub si: u64,
    pub di: u64,
    pub bp: u64,
    pub sp: u64,
    /// R8 to R15.
    pub r8_to_r15: [u64; 8],
}

/// The parts of a record that a sample with an interrupt of its own needs.
#[derive(Clone, Copy, Debug)]
pub struct SingleRecord<'a> {
    /// The address of the instruction.
    pub ip: u64,
    /// The time-stamp counter at the instruction.
    pub tsc: u64,
    /// The access of the instruction to memory, if the record has it.
    pub access: RecordedAccess,
    /// The registers after the instruction, if the record has them.
    pub registers: Option<RecordRegisters>,
    /// [`PebsRecord::branches`]
    pub branches: &'a [u64],
}

impl<'a> SingleRecord<'a> {
    /// Returns the parts of `record`. The branches are left out if `has_branches` is false.
    pub fn new(record: &'a impl PebsRecord, has_branches: bool) -> Self {
        Self {
            ip: record.ip(),
            tsc: record.tsc(),
            access: record.access(),
            registers: record.registers(),
            branches: if has_branches { record.branches() } else { &[] },
        }
    }
}

/// Returns the size in bytes in the first word of a record of format 4, in bits 63:48.
const fn record_size(first_word: u64) -> usize {
    (first_word >> 48) as usize
}

/// The bits of the groups of a record of format 4 in its first word, which are those of `MSR_PEBS_DATA_CFG`: access to
/// memory, registers, XMM, branches.
const ALL_GROUPS: u64 = 0xf;

/// Returns the retire latency in the first word of a record of format 4, in bits 47:32.
const fn retire_latency(first_word: u64) -> u16 {
    (first_word >> 32) as u16
}

/// Returns the index of the word at an offset in bytes.
const fn word_index(offset: usize) -> usize {
    offset / size_of::<u64>()
}

/// A record of format 3, with all registers.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct FullRecord([u64; 25]);

impl PebsRecord for FullRecord {
    const HAS_ACCESS: bool = true;
    const IP: usize = 0xb0;
    const COUNTERS: usize = 0x90;
    const TSC: usize = 0xc0;

    #[inline(always)]
    fn word(&self, offset: usize) -> u64 {
        self.0[word_index(offset)]
    }

    #[inline(always)]
    fn access(&self) -> RecordedAccess {
        RecordedAccess {
            address: self.word(0x98),
            source: self.word(0xa0),
            latency: self.word(0xa8),
            transaction: self.word(0xb8),
            retire_latency: 0,
        }
    }

    fn registers(&self) -> Option<RecordRegisters> {
        Some(RecordRegisters {
            flags: self.word(0x00),
            ip: self.word(0x08),
            ax: self.word(0x10),
            bx: self.word(0x18),
            cx: self.word(0x20),
            dx: self.word(0x28),
            si: self.word(0x30),
            di: self.word(0x38),
            bp: self.word(0x40),
            sp: self.word(0x48),
            r8_to_r15: core::array::from_fn(|n| self.word(0x50 + 8 * n)),
        })
    }
}

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

/// A record of the format [`PebsFormat::Merged`]: the basic group of format 4, and the number of overflows.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct MergedRecord([u64; 5]);

impl PebsRecord for MergedRecord {
    const IP: usize = BasicRecord::IP;
    const COUNTERS: usize = BasicRecord::COUNTERS;
    const TSC: usize = BasicRecord::TSC;
    const IS_MERGED: bool = true;

    #[inline(always)]
    fn word(&self, offset: usize) -> u64 {
        self.0[word_index(offset)]
    }

    #[inline(always)]
    fn overflows(&self) -> u64 {
        self.word(0x20)
    }
}

/// A set of groups that a record can have besides the basic one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordGroups(u64);

impl RecordGroups {
    /// No group besides the basic one.
    pub const NONE: Self = Self(0);
    /// The access to memory.
    pub const ACCESS: Self = Self(1 << 0);
    /// The registers.
    pub const REGISTERS: Self = Self(1 << 1);
    /// The branches, as many as [`RecordedBranches::COUNT`]; bits 31:24 are one less than their number.
    pub const BRANCHES: Self = Self(1 << 3 | (RecordedBranches::COUNT as u64 - 1) << 24);

    /// Returns the groups of both sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the groups if `condition` holds, else none.
    #[must_use]
    pub const fn filter(self, condition: bool) -> Self {
        if condition {
            self
        } else {
            Self::NONE
        }
    }

    /// Returns the groups of this set that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns whether this set has a group of `other`.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the value of `MSR_PEBS_DATA_CFG`.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Returns the set with these [`Self::bits`]. Ignores bits of other groups.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits & (Self::ACCESS.0 | Self::REGISTERS.0 | Self::BRANCHES.0))
    }
}

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

    /// Returns the word of the DS area with the value that the processor reloads a counter with. The words of the
    /// fixed-function counters follow those of the general counters.
    #[must_use]
    pub const fn reset_word(self, counter: CounterId) -> DsWord {
        let general_words = match self {
            Self::Three | Self::Four => 8,
            Self::Five | Self::Merged => 32,
        };
        let n = match counter.kind() {
            CounterKind::General(n) => n,
            CounterKind::Fixed(n) => general_words + n,
        };
        DsWord(0x40 + 8 * n as u16)
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

/// The offset of a word of the DS area, the structure in memory from which the processor reads the addresses of the
/// buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DsWord(u16);

impl DsWord {
    /// The address of the beginning of the buffer.
    pub const BASE: Self = Self(0x20);
    /// The address of the next record.
    pub const INDEX: Self = Self(0x28);
    /// The address of the end of the buffer.
    pub const MAXIMUM: Self = Self(0x30);
    /// The address at which the index causes an interrupt.
    pub const THRESHOLD: Self = Self(0x38);

    /// Returns the offset in bytes.
    #[inline]
    #[must_use]
    pub const fn offset(self) -> usize {
        self.0 as usize
    }
}

/// The addresses of the buffer for records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PebsBuffer {
    /// The address of the first record.
    pub start: u64,
    /// The address after the last record.
    pub maximum: u64,
    /// The address at which an interrupt is raised. The records that the processor writes until the interrupt arrives
    /// have room after this address.
    pub threshold: u64,
}

impl PebsBuffer {
    /// Returns the buffer between two addresses, for records of `record_size` bytes.
    #[must_use]
    pub const fn new(start: u64, end: u64, record_size: u64) -> Self {
        let record_count = match end.saturating_sub(start).checked_div(record_size) {
            Some(records) => records,
            None => 0,
        };
        // Each counter may write a record or two before the interrupt arrives. A small buffer spares an eighth for these.
        let reserve_for_counters = if record_count / 8 < 16 {
            record_count / 8
        } else {
            16
        };
        let proportional_reserve = 2 + record_count / 64;
        let reserved_records = if proportional_reserve < reserve_for_counters {
            reserve_for_counters
        } else {
            proportional_reserve
        };
        let reserved_records = if reserved_records < record_count {
            reserved_records
        } else {
            record_count
        };
        Self {
            start,
            maximum: start + record_count * record_size,
            threshold: start + (record_count - reserved_records) * record_size,
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_pebs))]
mod tests {
    use super::*;

    fn word_offsets<const N: usize>() -> [u64; N] {
        core::array::from_fn(|n| 8 * n as u64)
    }

    #[test]
    fn record_fields_have_the_offsets_of_the_manual() {
        let full_record = FullRecord(word_offsets());
        assert_eq!(
            [full_record.counters(), full_record.ip(), full_record.tsc()],
            [0x90, 0xb0, 0xc0]
        );
        let registers = full_record.registers();
        let words = registers.map(|r| {
            [
                r.flags, r.ip, r.ax, r.bx, r.cx, r.dx, r.si, r.di, r.bp, r.sp,
            ]
        });
        assert_eq!(
            words,
            Some([0x00, 0x08, 0x10, 0x18, 0x20, 0x28, 0x30, 0x38, 0x40, 0x48])
        );
        assert_eq!(
            registers.map(|r| r.r8_to_r15),
            Some([0x50, 0x58, 0x60, 0x68, 0x70, 0x78, 0x80, 0x88])
        );
        assert_eq!(RecordLayout::Full.record_size(), 200);
        let basic_record = AdaptiveRecord::<4>(word_offsets());
        assert_eq!(
            [
                basic_record.ip(),
                basic_record.counters(),
                basic_record.tsc()
            ],
            [0x08, 0x10, 0x18]
        );
        assert_eq!(RecordLayout::Basic.record_size(), 32);
        assert_eq!(basic_record.access(), RecordedAccess::NONE);
        let accesses = [
            full_record.access(),
            AdaptiveRecord::<8>(word_offsets()).access(),
        ];
        assert_eq!(
            accesses.map(|a| [a.address, a.source, a.latency, a.transaction]),
            [[0x98, 0xa0, 0xa8, 0xb8], [0x20, 0x28, 0x30, 0x38]]
        );
        let mut words = word_offsets();
        words[0] = 0x0040_1234_0000_0001;
        let mut words_of_branches = words;
        words_of_branches[0] = 0x0040_1234_0000_0008;
        let access_record = AdaptiveRecord::<8>(words);
        assert_eq!(access_record.access().retire_latency, 0x1234);
        assert!(!AdaptiveRecord::<8>(words_of_branches).has_expected_groups());
        assert!(access_record.has_expected_groups() && !basic_record.has_expected_groups());
        assert!(full_record.has_expected_groups());
        assert_eq!(RecordLayout::Access.record_size(), 64);
        let merged_record = MergedRecord(word_offsets());
        assert_eq!(
            [
                merged_record.ip(),
                merged_record.counters(),
                merged_record.tsc(),
                merged_record.overflows()
            ],
            [0x08, 0x10, 0x18, 0x20]
        );
        assert_eq!(basic_record.overflows(), 1);
        assert_eq!(RecordLayout::Merged.record_size(), 40);
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
        assert_eq!(RecordLayout::Registers.record_size(), 176);
        assert_eq!(RecordLayout::AccessAndRegisters.record_size(), 208);
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
        let sizes = [
            RecordLayout::Branches,
            RecordLayout::AccessAndBranches,
            RecordLayout::RegistersAndBranches,
            RecordLayout::Long,
        ]
        .map(RecordLayout::record_size);
        assert_eq!(sizes, [800, 832, 944, 976]);
        let mut words = word_offsets();
        words[0] = 800 << 48 | RecordGroups::BRANCHES.bits();
        assert!(AdaptiveRecord::<100>(words).has_expected_groups());
        words[0] = 800 << 48;
        assert!(!AdaptiveRecord::<100>(words).has_expected_groups());
    }

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
        assert_eq!(both.bits(), 0b11);
        let branches = RecordGroups::BRANCHES;
        let all = both.union(branches);
        assert_eq!(branches.bits(), 0x1f00_0008);
        assert_eq!(RecordGroups::from_bits(u64::MAX), all);
        assert_eq!(all.without(branches), both);
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
        assert_eq!(RecordGroups::ACCESS.filter(false), none);
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

    #[test]
    fn reset_words_have_the_offsets_of_the_manual() {
        let offsets = |format: PebsFormat| {
            let counters = [CounterId::general(3), CounterId::fixed(2)];
            counters.map(|counter| counter.map(|counter| format.reset_word(counter).offset()))
        };
        assert_eq!(offsets(PebsFormat::Four), [Some(0x58), Some(0x90)]);
        assert_eq!(offsets(PebsFormat::Five), [Some(0x58), Some(0x150)]);
    }

    #[test]
    fn buffer_holds_whole_records_and_a_reserve() {
        let large_buffer = PebsBuffer::new(0x1000, 0x11000, 32);
        assert_eq!(large_buffer.maximum, 0x11000);
        assert_eq!(large_buffer.threshold, 0x11000 - 34 * 32);
        let buffer_of_long_records = PebsBuffer::new(0x1000, 0x11000, 208);
        assert_eq!(buffer_of_long_records.maximum, 0x1000 + 315 * 208);
        assert_eq!(buffer_of_long_records.threshold, 0x1000 + 299 * 208);
        let small_buffer = PebsBuffer::new(0x200, 0x1000, 200);
        assert_eq!(small_buffer.maximum, 0x200 + 17 * 200);
        assert_eq!(small_buffer.threshold, 0x200 + 15 * 200);
        let no_buffer = PebsBuffer::new(0x200, 0x280, 200);
        assert_eq!((no_buffer.maximum, no_buffer.threshold), (0x200, 0x200));
    }
}
