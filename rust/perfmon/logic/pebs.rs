// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! PEBS (processor event-based sampling), the samples that Intel's processors write without an interrupt: when a
//! counter overflows, the processor writes a record of the very instruction into a buffer, and reloads the counter. It
//! raises an interrupt when the buffer is filled up to a threshold.
//!
//! Intel SDM, volume 3B, section 21.4.9 and, for the formats, table 21-84 and section 21.9.

use super::counter::{CounterId, CounterKind, MAX_GENERAL};
use super::event_attr::{
    PERF_SAMPLE_CPU, PERF_SAMPLE_ID, PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP, PERF_SAMPLE_PERIOD,
    PERF_SAMPLE_STREAM_ID, PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
};
use super::memory_access::{RecordedAccess, MEMORY_PARTS};

/// The parts of samples (`PERF_SAMPLE_*`) that the records give, and those that are the same for all records.
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
    /// Ice Lake and Tremont: [`BasicRecord`], or [`MemoryRecord`] while an event needs the group of memory.
    Four,
    /// Formats 5 and 6, the latter of Lunar Lake: as format 4, but the DS area has more values to reload counters with.
    Five,
    /// The project's virtual PMU: [`MergedRecord`]. It merges the records of an instruction if each instruction has one,
    /// and adds them to the buffer when `IA32_PEBS_ENABLE` is written.
    Merged,
}

/// A record of one instruction.
pub trait PebsRecord {
    /// The offset of the address, in bytes.
    const IP: usize;
    /// The offset of the overflowed counters.
    const COUNTERS: usize;
    /// The offset of the time-stamp counter.
    const TSC: usize;
    /// The record may stand for several overflows.
    const IS_MERGED: bool = false;

    /// Returns the word at an offset in bytes.
    fn word(&self, offset: usize) -> u64;

    /// Returns the number of overflows that the record stands for.
    #[inline(always)]
    fn overflows(&self) -> u64 {
        1
    }

    /// Returns whether the record has the size that it tells, if it tells one. Otherwise other software has changed the
    /// registers that select the groups of records.
    fn has_right_size(&self) -> bool {
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

/// The registers in a record, named as in `struct pt_regs`. They are those after the instruction: `ip` is the address of the
/// next one.
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
pub struct SingleRecord {
    /// The address of the instruction.
    pub ip: u64,
    /// The time-stamp counter at the instruction.
    pub tsc: u64,
    /// The access of the instruction to memory, if the record has it.
    pub access: RecordedAccess,
    /// The registers after the instruction, if the record has them.
    pub registers: Option<RecordRegisters>,
}

impl SingleRecord {
    /// Returns the parts of `record`.
    pub fn new(record: &impl PebsRecord) -> Self {
        Self {
            ip: record.ip(),
            tsc: record.tsc(),
            access: record.access(),
            registers: record.registers(),
        }
    }
}

/// Returns the size in bytes that a record of format 4 tells in its first word, in bits 63:48.
const fn told_size(first_word: u64) -> usize {
    (first_word >> 48) as usize
}

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

/// A record of format 4 with its basic group alone.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct BasicRecord([u64; 4]);

impl PebsRecord for BasicRecord {
    const IP: usize = 0x08;
    const COUNTERS: usize = 0x10;
    const TSC: usize = 0x18;

    fn has_right_size(&self) -> bool {
        told_size(self.word(0x00)) == size_of::<Self>()
    }

    #[inline(always)]
    fn word(&self, offset: usize) -> u64 {
        self.0[word_index(offset)]
    }
}

/// A record of format 4 with its basic group and the group of memory.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct MemoryRecord([u64; 8]);

impl PebsRecord for MemoryRecord {
    const IP: usize = BasicRecord::IP;
    const COUNTERS: usize = BasicRecord::COUNTERS;
    const TSC: usize = BasicRecord::TSC;

    fn has_right_size(&self) -> bool {
        told_size(self.word(0x00)) == size_of::<Self>()
    }

    #[inline(always)]
    fn word(&self, offset: usize) -> u64 {
        self.0[word_index(offset)]
    }

    #[inline(always)]
    fn access(&self) -> RecordedAccess {
        RecordedAccess {
            address: self.word(0x20),
            source: self.word(0x28),
            latency: self.word(0x30),
            transaction: self.word(0x38),
            retire_latency: retire_latency(self.word(0x00)),
        }
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

/// The layout of all records in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordLayout {
    /// [`FullRecord`]
    Full,
    /// [`BasicRecord`]
    Basic,
    /// [`MemoryRecord`]
    Memory,
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
            Self::Memory => size_of::<MemoryRecord>(),
            Self::Merged => size_of::<MergedRecord>(),
        };
        size as u64
    }

    /// Returns the value of `MSR_PEBS_DATA_CFG`, if the layout depends on it.
    #[must_use]
    pub const fn data_config(self) -> Option<u64> {
        /// The group of memory.
        const MEMORY: u64 = 1 << 0;

        match self {
            Self::Full | Self::Merged => None,
            Self::Basic => Some(0),
            Self::Memory => Some(MEMORY),
        }
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

    /// Returns the layout of the records, which `needs_access` to have the access to memory.
    #[must_use]
    pub const fn layout(self, needs_access: bool) -> RecordLayout {
        match self {
            Self::Three => RecordLayout::Full,
            Self::Four | Self::Five if needs_access => RecordLayout::Memory,
            Self::Four | Self::Five => RecordLayout::Basic,
            Self::Merged => RecordLayout::Merged,
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

    /// Returns whether records have the registers.
    #[must_use]
    pub const fn has_registers(self) -> bool {
        matches!(self, Self::Three)
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
    /// The address at which an interrupt is raised. After it there is room for the records until the interrupt arrives.
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
        let reserved_records = 2 + record_count / 64;
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
        let basic_record = BasicRecord(word_offsets());
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
        let accesses = [full_record.access(), MemoryRecord(word_offsets()).access()];
        assert_eq!(
            accesses.map(|a| [a.address, a.source, a.latency, a.transaction]),
            [[0x98, 0xa0, 0xa8, 0xb8], [0x20, 0x28, 0x30, 0x38]]
        );
        let mut words = word_offsets();
        words[0] = 0x0040_1234_0000_0001;
        let memory_record = MemoryRecord(words);
        assert_eq!(memory_record.access().retire_latency, 0x1234);
        assert!(memory_record.has_right_size() && !basic_record.has_right_size());
        assert!(full_record.has_right_size());
        assert_eq!(RecordLayout::Memory.record_size(), 64);
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
    fn records_have_the_access_only_if_an_event_needs_it() {
        assert_eq!(PebsFormat::Three.layout(true), RecordLayout::Full);
        assert_eq!(PebsFormat::Three.layout(false), RecordLayout::Full);
        assert_eq!(PebsFormat::Four.layout(false), RecordLayout::Basic);
        assert_eq!(PebsFormat::Five.layout(true), RecordLayout::Memory);
        assert_eq!(RecordLayout::Memory.data_config(), Some(1));
        assert_eq!(RecordLayout::Basic.data_config(), Some(0));
        assert_eq!(RecordLayout::Full.data_config(), None);
        assert!(PebsFormat::Three.has_access() && !PebsFormat::Merged.has_access());
        assert!(PebsFormat::Three.enables_load_latency());
        assert!(!PebsFormat::Four.enables_load_latency());
        assert!(!PebsFormat::Merged.enables_load_latency());
    }

    #[test]
    fn only_each_event_is_merged() {
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
        let small_buffer = PebsBuffer::new(0x200, 0x1000, 200);
        assert_eq!(small_buffer.maximum, 0x200 + 17 * 200);
        assert_eq!(small_buffer.threshold, 0x200 + 15 * 200);
        let no_buffer = PebsBuffer::new(0x200, 0x280, 200);
        assert_eq!((no_buffer.maximum, no_buffer.threshold), (0x200, 0x200));
    }
}
