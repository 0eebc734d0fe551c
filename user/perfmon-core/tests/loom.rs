// SPDX-License-Identifier: MIT OR Apache-2.0
//! Model test of a buffer that is read while it is written: loom tries every order of the steps of a CPU and a reader, and
//! every value that a load may return by the language's memory model.

use std::ops::Range;
use std::sync::atomic::Ordering;

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU64;
use loom::sync::Arc;
use loom::thread;
use perfmon_core::logic::publish::{publish, published_range, AtomicWord};
use perfmon_core::logic::trace_record::HEADER_BYTES;

/// The sets of records in the order in which they are written, as ranges of words.
const SETS: [Range<usize>; 3] = [0..2, 2..3, 3..5];
const WORDS: usize = 5;

/// A buffer: the end of the records from its header, and the words of records.
struct Buffer<W> {
    end: W,
    words: [UnsafeCell<usize>; WORDS],
}

// SAFETY: `Sync` requires that several threads may use a shared reference at once. All accesses to the words go through
// loom's `UnsafeCell`, which panics at a data race instead of allowing it.
unsafe impl<W: Sync> Sync for Buffer<W> {}

/// Returns the offset of a word in the buffer, in bytes.
fn offset(word: usize) -> usize {
    HEADER_BYTES as usize + 4 * word
}

impl<W: AtomicWord> Buffer<W> {
    fn new(end: W) -> Self {
        publish(&end, HEADER_BYTES);
        Self {
            end,
            words: [(); WORDS].map(|()| UnsafeCell::new(0)),
        }
    }

    /// Acts as the overflow handler: writes the sets one after the other, and publishes each of them.
    fn write(&self) {
        for set in SETS {
            let end = set.end;
            for word in set {
                // SAFETY: Writing through the pointer requires that it is valid and that nothing else accesses the
                // cell. loom passes a valid pointer to the cell's content, only this thread writes, and loom panics if
                // another thread reads the cell at the same time.
                self.words[word].with_mut(|to| unsafe { *to = word + 1 });
            }
            publish(&self.end, offset(end) as u64);
        }
    }

    /// Acts as a reader: checks the words after the first `already_read`, and returns the number of all published words.
    fn read(&self, already_read: usize) -> usize {
        let records = published_range(&self.end, offset(WORDS)).expect("it is never wrong");
        let published_words = (records.end - records.start) / 4;
        assert!(
            published_words >= already_read,
            "published words stay published"
        );
        assert!(
            published_words == 0 || SETS.iter().any(|set| set.end == published_words),
            "sets are whole"
        );
        for word in already_read..published_words {
            // SAFETY: Reading through the pointer requires that it is valid and that nothing writes the cell. loom
            // passes a valid pointer to the cell's content. Published words are not written again, and loom panics if
            // another thread writes the cell at the same time.
            let value = self.words[word].with(|from| unsafe { *from });
            assert_eq!(value, word + 1);
        }
        published_words
    }
}

/// Runs the model: a CPU writes while a program reads twice, and the program reads once more at the end.
fn read_while_written<W: AtomicWord + Send + Sync + 'static>(
    word: impl Fn() -> W + Send + Sync + 'static,
) {
    loom::model(move || {
        let buffer = Arc::new(Buffer::new(word()));
        let writer = {
            let buffer = buffer.clone();
            thread::spawn(move || buffer.write())
        };
        let already_read = buffer.read(buffer.read(0));
        writer.join().expect("it does not panic");
        assert_eq!(buffer.read(already_read), WORDS);
    });
}

/// An atomic word that loom checks.
struct CheckedWord(AtomicU64);

impl AtomicWord for CheckedWord {
    fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }

    fn store(&self, value: u64, order: Ordering) {
        self.0.store(value, order);
    }
}

#[test]
fn published_sets_are_whole() {
    read_while_written(|| CheckedWord(AtomicU64::new(0)));
}

/// An atomic word whose loads or stores are relaxed, which is an error that loom has to detect.
struct UnorderedWord {
    word: AtomicU64,
    /// The loads are relaxed; if unset, the stores are relaxed.
    is_load_relaxed: bool,
}

impl AtomicWord for UnorderedWord {
    fn load(&self, order: Ordering) -> u64 {
        let order = if self.is_load_relaxed {
            Ordering::Relaxed
        } else {
            order
        };
        self.word.load(order)
    }

    fn store(&self, value: u64, order: Ordering) {
        let order = if self.is_load_relaxed {
            order
        } else {
            Ordering::Relaxed
        };
        self.word.store(value, order);
    }
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_writer_without_order_is_detected() {
    read_while_written(|| UnorderedWord {
        word: AtomicU64::new(0),
        is_load_relaxed: false,
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_reader_without_order_is_detected() {
    read_while_written(|| UnorderedWord {
        word: AtomicU64::new(0),
        is_load_relaxed: true,
    });
}
