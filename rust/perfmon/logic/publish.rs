// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Publication of records: an atomic word of a buffer has the offset at which the records end.
//!
//! The writer stores this offset with release order, after it has written all records before the offset. A reader that
//! loads the offset with acquire order sees all these records. Nothing else orders the writer and the readers. The
//! module, the library and the test that tries every order of their steps (user/perfmon-core/tests/loom.rs) use these
//! functions.

use super::trace_record::HEADER_BYTES;
use core::ops::Range;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{self, Acquire, Release},
};

/// An atomic word of memory, or the simulation of one in a test.
pub trait AtomicWord {
    /// Loads the word.
    fn load(&self, order: Ordering) -> u64;
    /// Stores the word.
    fn store(&self, value: u64, order: Ordering);
}

impl AtomicWord for AtomicU64 {
    #[inline(always)]
    fn load(&self, order: Ordering) -> u64 {
        AtomicU64::load(self, order)
    }

    #[inline(always)]
    fn store(&self, value: u64, order: Ordering) {
        AtomicU64::store(self, value, order);
    }
}

/// Publishes all records before the offset `end`. The caller must have written the records, and must not change them
/// after this.
#[inline(always)]
pub fn publish(word: &impl AtomicWord, end: u64) {
    word.store(end, Release);
}

/// Returns the range of offsets of the published records in a buffer with `length` readable bytes. `None` if the
/// word is invalid: records come after the header, and their sizes are multiples of 4 bytes.
#[must_use]
pub fn published_range(word: &impl AtomicWord, length: usize) -> Option<Range<usize>> {
    let start = HEADER_BYTES as usize;
    let end = usize::try_from(word.load(Acquire)).ok()?;
    (start <= end && end <= length && (end - start) % 4 == 0).then_some(start..end)
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_publish))]
mod tests {
    use super::*;

    #[test]
    fn published_range_starts_behind_the_header() {
        let word = AtomicU64::new(0);
        let published_after = |end| {
            publish(&word, end);
            published_range(&word, 4096)
        };
        assert_eq!(published_after(24), Some(24..24));
        assert_eq!(published_after(28), Some(24..28));
        assert_eq!(published_after(4096), Some(24..4096));
        for end in [0, 20, 25, 26, 4100, u64::MAX] {
            assert_eq!(published_after(end), None);
        }
    }
}
