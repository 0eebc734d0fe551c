// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The fields that the module reads from records, whatever their layout.

use super::super::memory_access::RecordedAccess;

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
    /// [`RecordedBranches`](super::super::recorded_branches::RecordedBranches).
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

/// The registers in a record, as they are after the instruction: `ip` is the address of the next instruction. The fields
/// are named as in `struct pt_regs`.
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
    /// The words of [`PebsRecord::branches`].
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

/// Returns the index of the word at an offset in bytes.
pub(super) const fn word_index(offset: usize) -> usize {
    offset / size_of::<u64>()
}
