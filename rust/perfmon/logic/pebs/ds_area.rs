// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The DS area, from which the processor reads the addresses of the buffer and the values that it reloads counters with.

use super::super::counter::{CounterId, CounterKind};
use super::format::PebsFormat;

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

impl PebsFormat {
    /// Returns the word of the DS area with the value that the processor reloads a counter with.
    /// The words of the fixed-function counters follow the words of the general counters.
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
        // Each counter may write a record or two before the interrupt arrives. A small buffer
        // reserves an eighth of its records for these.
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
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_pebs_ds_area))]
mod tests {
    use super::*;

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
