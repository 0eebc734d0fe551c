// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records as they stand in the ring: 64-bit words, the first of which is the header.

use std::sync::atomic::{AtomicU64, Ordering};

/// A record as it stands in the ring: `struct perf_event_header`, and the fields after it.
///
/// Its size is checked, its content is not. The header is read once, so kind and size stay the same even if the ring is
/// written meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct RawRecord<'a> {
    ring: &'a [AtomicU64],
    /// Index of the first word, not yet reduced modulo the ring's length.
    start: usize,
    header: u64,
}

/// The size of a word in bytes; all other sizes are multiples of it.
pub(super) const WORD: usize = size_of::<u64>();

impl<'a> RawRecord<'a> {
    /// Returns the record at `start`; `None` if its size is not a whole number of words from 1 to `available`.
    pub(super) fn new(ring: &'a [AtomicU64], start: usize, available: usize) -> Option<Self> {
        let record = Self {
            ring,
            start,
            header: load(ring, start),
        };
        let bytes = record.bytes();
        let is_whole = bytes % WORD == 0 && bytes >= WORD && bytes / WORD <= available;
        is_whole.then_some(record)
    }

    const fn bytes(&self) -> usize {
        (self.header >> 48) as usize
    }

    /// Returns `PERF_RECORD_*`.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
    pub const fn kind(&self) -> u32 {
        self.header as u32
    }

    /// Returns `PERF_RECORD_MISC_*`.
    #[must_use]
    pub const fn misc(&self) -> u16 {
        (self.header >> 32 & 0xffff) as u16
    }

    /// Returns the number of words, with the header.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.bytes() / WORD
    }

    /// Returns word `index` of the record; word 0 is the header.
    ///
    /// # Panics
    /// If the record has no such word.
    #[must_use]
    #[inline]
    pub fn word(&self, index: usize) -> u64 {
        assert!(index < self.size(), "a word of the record");
        match index {
            0 => self.header,
            _ => load(self.ring, self.start.wrapping_add(index)),
        }
    }

    /// Returns the words.
    #[must_use]
    pub fn words(self) -> impl ExactSizeIterator<Item = u64> + 'a {
        (0..self.size()).map(move |index| self.word(index))
    }

    /// Appends the bytes of the record to `bytes`, as they stand in perf.data.
    pub fn copy_to(&self, bytes: &mut Vec<u8>) {
        bytes.reserve(self.bytes());
        self.words()
            .for_each(|word| bytes.extend_from_slice(&word.to_ne_bytes()));
    }
}

/// Returns the word at an index modulo the ring's length, which is a power of 2.
#[inline]
fn load(ring: &[AtomicU64], index: usize) -> u64 {
    // ATOMICS: The kernel has written the word before the head, which was acquired.
    ring[index & (ring.len() - 1)].load(Ordering::Relaxed)
}
