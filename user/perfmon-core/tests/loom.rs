// SPDX-License-Identifier: MIT OR Apache-2.0
//! A buffer that is read while it is written: loom tries every order in which a CPU and a reader may do their
//! steps, and every value that a load may have, as far as the language's memory model allows.

use std::ops::Range;
use std::sync::atomic::Ordering;

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU64;
use loom::sync::Arc;
use loom::thread;
use perfmon_core::logic::publish::{publish, published, AtomicWord};
use perfmon_core::logic::trace_record::HEADER;

/// The sets of records that are written, as words, one set after the other.
const SETS: [Range<usize>; 3] = [0..2, 2..3, 3..5];
const WORDS: usize = 5;

/// A buffer: the word in its header, and the words of records.
struct Buffer<W> {
    end: W,
    words: [UnsafeCell<usize>; WORDS],
}

// SAFETY: loom looks after the accesses to the words, and panics if two of them are at the same time.
unsafe impl<W: Sync> Sync for Buffer<W> {}

/// The offset of a word.
fn offset(word: usize) -> usize {
    HEADER as usize + 4 * word
}

impl<W: AtomicWord> Buffer<W> {
    fn new(end: W) -> Self {
        publish(&end, HEADER);
        Self {
            end,
            words: [(); WORDS].map(|()| UnsafeCell::new(0)),
        }
    }

    /// Acts as the overflow handler, set by set.
    fn write(&self) {
        for set in SETS {
            let end = set.end;
            for word in set {
                // SAFETY: Only this thread writes; loom detects a read at the same time.
                self.words[word].with_mut(|to| unsafe { *to = word + 1 });
            }
            publish(&self.end, offset(end) as u64);
        }
    }

    /// Acts as a reader: takes the new words, of which it has had `had`.
    fn read(&self, had: usize) -> usize {
        let records = published(&self.end, offset(WORDS)).expect("it is never wrong");
        let now = (records.end - records.start) / 4;
        assert!(now >= had, "what was published stays so");
        assert!(
            now == 0 || SETS.iter().any(|set| set.end == now),
            "sets are whole"
        );
        for word in had..now {
            // SAFETY: Published words are not written again; loom detects a write.
            let found = self.words[word].with(|from| unsafe { *from });
            assert_eq!(found, word + 1);
        }
        now
    }
}

/// A CPU writes, and a program reads now and then, and once more at the end.
fn read_while_written<W: AtomicWord + Send + Sync + 'static>(
    word: impl Fn() -> W + Send + Sync + 'static,
) {
    loom::model(move || {
        let buffer = Arc::new(Buffer::new(word()));
        let writer = {
            let buffer = buffer.clone();
            thread::spawn(move || buffer.write())
        };
        let had = buffer.read(buffer.read(0));
        writer.join().expect("it does not panic");
        assert_eq!(buffer.read(had), WORDS);
    });
}

/// loom's word.
struct Checked(AtomicU64);

impl AtomicWord for Checked {
    fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }

    fn store(&self, value: u64, order: Ordering) {
        self.0.store(value, order);
    }
}

#[test]
fn what_is_published_is_whole() {
    read_while_written(|| Checked(AtomicU64::new(0)));
}

/// The same without order on one side, which loom has to find.
struct Unordered {
    word: AtomicU64,
    load: bool,
}

impl AtomicWord for Unordered {
    fn load(&self, order: Ordering) -> u64 {
        let order = if self.load { Ordering::Relaxed } else { order };
        self.word.load(order)
    }

    fn store(&self, value: u64, order: Ordering) {
        let order = if self.load { order } else { Ordering::Relaxed };
        self.word.store(value, order);
    }
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_writer_without_order_is_found_out() {
    read_while_written(|| Unordered {
        word: AtomicU64::new(0),
        load: false,
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_reader_without_order_is_found_out() {
    read_while_written(|| Unordered {
        word: AtomicU64::new(0),
        load: true,
    });
}
