// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! How records get from the one who writes a buffer to those who read it: by one word, the offset at which
//! they end.
//!
//! The writer stores it with release order when all before it has been written for good; whoever loads it
//! with acquire order sees all of that. Nothing else orders the two. It is here, and not where the memory
//! is, so that the module, the library and the test that tries every order of their steps
//! (user/perfmon-core/tests/loom.rs) do the same.

use super::record::HEADER;
use core::ops::Range;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{self, Acquire, Release},
};

/// An atomic word: the processor's, or one of a test.
pub trait Word {
    /// Loads it.
    fn load(&self, order: Ordering) -> u64;
    /// Stores it.
    fn store(&self, value: u64, order: Ordering);
}

impl Word for AtomicU64 {
    #[inline(always)]
    fn load(&self, order: Ordering) -> u64 {
        AtomicU64::load(self, order)
    }

    #[inline(always)]
    fn store(&self, value: u64, order: Ordering) {
        AtomicU64::store(self, value, order);
    }
}

/// Lets readers see all records before the offset `end`, which have been written and don't change any more.
#[inline(always)]
pub fn publish(word: &impl Word, end: u64) {
    word.store(end, Release);
}

/// The offsets of the records that there are now, in a buffer of which `length` bytes can be read. `None` if
/// the word holds what can't be: records are after the header and multiples of 4 bytes.
#[must_use]
pub fn published(word: &impl Word, length: usize) -> Option<Range<usize>> {
    let start = HEADER as usize;
    let end = usize::try_from(word.load(Acquire)).ok()?;
    (start <= end && end <= length && (end - start) % 4 == 0).then_some(start..end)
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_publish))]
mod tests {
    use super::*;

    #[test]
    fn records_are_between_the_header_and_the_end() {
        let word = AtomicU64::new(0);
        let now = |end| {
            publish(&word, end);
            published(&word, 4096)
        };
        assert_eq!(now(24), Some(24..24));
        assert_eq!(now(28), Some(24..28));
        assert_eq!(now(4096), Some(24..4096));
        for end in [0, 20, 25, 26, 4100, u64::MAX] {
            assert_eq!(now(end), None);
        }
    }
}
