// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The header, the parts and the length of the records of a ring: `enum perf_event_type` of `<linux/perf_event.h>`.
//!
//! All parts of a record are words of 64 bits. Two numbers of 32 bits share a word, the first number in the lower half.

use super::event_attr::{
    InvalidAttr, PERF_SAMPLE_ADDR, PERF_SAMPLE_BRANCH_STACK, PERF_SAMPLE_CALLCHAIN,
    PERF_SAMPLE_CGROUP, PERF_SAMPLE_CPU, PERF_SAMPLE_DATA_SRC, PERF_SAMPLE_ID,
    PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP, PERF_SAMPLE_PERIOD, PERF_SAMPLE_READ,
    PERF_SAMPLE_REGS_INTR, PERF_SAMPLE_REGS_USER, PERF_SAMPLE_STACK_USER, PERF_SAMPLE_STREAM_ID,
    PERF_SAMPLE_TID, PERF_SAMPLE_TIME, PERF_SAMPLE_TRANSACTION, PERF_SAMPLE_WEIGHT,
    PERF_SAMPLE_WEIGHT_STRUCT,
};

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// `PERF_RECORD_*`
    pub kind: u32,
    /// `PERF_RECORD_MISC_*`
    pub misc: u16,
    /// The number of 64-bit words of the record, including the header.
    pub words: usize,
}

impl Header {
    /// Returns the header as the word in the ring. A record is shorter than 2^16 bytes.
    #[inline]
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "a record is shorter")]
    pub const fn word(self) -> u64 {
        let size = self.words.wrapping_mul(size_of::<u64>()) as u16;
        self.kind as u64 | (self.misc as u64) << 32 | (size as u64) << 48
    }

    /// Returns the word of a header for a record that is longer by `words` words. The whole record is shorter than 2^16 bytes.
    #[inline]
    #[must_use]
    pub const fn word_with_more(word: u64, words: usize) -> u64 {
        word.wrapping_add((words.wrapping_mul(size_of::<u64>()) as u64) << 48)
    }
}

/// The parts of a sample and, with `sample_id_all`, the parts at the end of records that are not
/// samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleFormat {
    /// `PERF_SAMPLE_*`
    bits: u64,
    /// `sample_id_all`
    id_all: bool,
    /// The result of [`Self::fixed_words`].
    fixed_words: usize,
}

/// The parts of a sample that are one word each.
const ONE_WORD_PARTS: u64 = PERF_SAMPLE_IDENTIFIER
    | PERF_SAMPLE_IP
    | PERF_SAMPLE_TID
    | PERF_SAMPLE_TIME
    | PERF_SAMPLE_ADDR
    | PERF_SAMPLE_ID
    | PERF_SAMPLE_STREAM_ID
    | PERF_SAMPLE_CPU
    | PERF_SAMPLE_PERIOD
    | PERF_SAMPLE_WEIGHT
    | PERF_SAMPLE_WEIGHT_STRUCT
    | PERF_SAMPLE_DATA_SRC
    | PERF_SAMPLE_TRANSACTION
    | PERF_SAMPLE_CGROUP;

/// The parts whose length varies.
const VARIABLE_LENGTH_PARTS: u64 = PERF_SAMPLE_READ
    | PERF_SAMPLE_CALLCHAIN
    | PERF_SAMPLE_BRANCH_STACK
    | PERF_SAMPLE_REGS_USER
    | PERF_SAMPLE_STACK_USER
    | PERF_SAMPLE_REGS_INTR;

/// The parts that records other than samples can have at their end.
const TRAILER_PARTS: u64 = PERF_SAMPLE_TID
    | PERF_SAMPLE_TIME
    | PERF_SAMPLE_ID
    | PERF_SAMPLE_STREAM_ID
    | PERF_SAMPLE_CPU
    | PERF_SAMPLE_IDENTIFIER;

impl SampleFormat {
    /// Returns the format of samples with these parts. `is_sampled` tells whether the event has samples, `id_all` is
    /// the flag `sample_id_all`.
    ///
    /// # Errors
    ///
    /// [`InvalidAttr::Unsupported`] for parts that samples can't have.
    pub const fn new(
        sample_type: u64,
        id_all: bool,
        is_sampled: bool,
    ) -> Result<Self, InvalidAttr> {
        if is_sampled && sample_type & !(ONE_WORD_PARTS | VARIABLE_LENGTH_PARTS) != 0 {
            return Err(InvalidAttr::Unsupported);
        }
        Ok(Self {
            bits: sample_type,
            id_all,
            fixed_words: 1 + (sample_type & ONE_WORD_PARTS).count_ones() as usize,
        })
    }

    /// Returns whether samples have any of these parts.
    #[inline]
    #[must_use]
    pub const fn has(self, parts: u64) -> bool {
        self.bits & parts != 0
    }

    /// Returns whether samples have exactly these parts.
    #[inline]
    #[must_use]
    pub const fn is_exactly(self, parts: u64) -> bool {
        self.bits == parts
    }

    /// Returns the number of words of a sample, including its header, without the parts whose length varies.
    #[inline]
    #[must_use]
    pub const fn fixed_words(self) -> usize {
        self.fixed_words
    }

    /// Returns the number of bytes of the program's stack that fit into a sample with `words` other words, at most
    /// `max_bytes`. `max_bytes` and the result are multiples of 8. A record is shorter than 2^16 bytes.
    #[must_use]
    pub const fn stack_room(max_bytes: u32, words: usize) -> u32 {
        const MAX_RECORD_BYTES: usize = u16::MAX as usize / size_of::<u64>() * size_of::<u64>();

        // The word before the stack and the word after it have its size.
        let room = MAX_RECORD_BYTES
            .saturating_sub(words.saturating_add(2).saturating_mul(size_of::<u64>()));
        #[allow(clippy::cast_possible_truncation, reason = "it is below 2^16")]
        let room = room as u32;
        if max_bytes < room {
            max_bytes
        } else {
            room
        }
    }

    /// Returns whether records that are not samples have this part at their end.
    #[inline]
    #[must_use]
    pub const fn has_in_trailer(self, part: u64) -> bool {
        self.id_all && self.has(part & TRAILER_PARTS)
    }

    /// Returns the number of words at the end of records that are not samples.
    #[inline]
    #[must_use]
    pub const fn trailer_words(self) -> usize {
        if self.id_all {
            (self.bits & TRAILER_PARTS).count_ones() as usize
        } else {
            0
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_sample_format))]
mod tests {
    use super::*;

    const USUAL_PARTS: u64 = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;

    fn word_counts(sample_type: u64, id_all: bool) -> (usize, usize) {
        SampleFormat::new(sample_type, id_all, true)
            .map_or((0, 0), |f| (f.fixed_words(), f.trailer_words()))
    }

    #[test]
    fn word_counts_follow_the_parts() {
        assert_eq!(word_counts(0, true), (1, 0));
        assert_eq!(word_counts(USUAL_PARTS, true), (4, 2));
        assert_eq!(word_counts(USUAL_PARTS, false), (4, 0));
        assert_eq!(
            word_counts(USUAL_PARTS | PERF_SAMPLE_CALLCHAIN, true),
            (4, 2)
        );
        assert_eq!(
            word_counts(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_PERIOD, true),
            (3, 1)
        );
    }

    #[test]
    fn unsupported_parts_are_refused_only_for_samples() {
        let raw = 1 << 10;
        assert_eq!(
            SampleFormat::new(raw, false, true),
            Err(InvalidAttr::Unsupported)
        );
        assert!(SampleFormat::new(raw, false, false).is_ok());
    }

    #[test]
    fn stack_room_keeps_records_below_64_kib() {
        assert_eq!(SampleFormat::stack_room(8192, 5), 8192);
        assert_eq!(SampleFormat::stack_room(65528, 0), 65512);
        assert_eq!(SampleFormat::stack_room(65528, 5), 65472);
        assert_eq!(SampleFormat::stack_room(8, 8189), 0);
    }

    #[test]
    fn header_word_matches_linux() {
        let header = Header {
            kind: 9,
            misc: 2,
            words: 4,
        };
        assert_eq!(header.word(), 0x0020_0002_0000_0009);
    }
}
