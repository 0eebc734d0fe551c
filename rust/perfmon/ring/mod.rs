// SPDX-License-Identifier: GPL-2.0-only
//! Ring buffers of records, which programs read while the kernel writes them.
//!
//! A [`Ring`] is the memory; a [`Sampler`] writes an event's records to a ring. [`crate::event`] creates both.

mod columns;
mod notifier;
mod precise;
mod program;
mod records;
mod registers;
mod sample;
mod sampler;
mod single;
mod stack;

pub(crate) use self::{
    precise::PreciseSamples,
    records::TaskChange,
    sample::{Interrupt, PmuReadings, SampleBranches, CHAIN_WORDS},
    sampler::Sampler,
    single::RecordedPlace,
};

use crate::{
    logic::{
        publish::publish,
        ring::RingShape,
        sampling::Wakeup,
        user_page::{RingControl, UserPage},
    },
    sys::wait::{Wait, Waker},
};
use core::{
    ptr::NonNull,
    sync::atomic::{
        compiler_fence, AtomicU64,
        Ordering::{Acquire, Relaxed, SeqCst},
    },
};
use kernel::prelude::*;

/// A word that only the ring's writer uses.
///
/// ATOMICS: relaxed. A ring has one writer at a time: the hooks and NMIs of one task, on the CPU that it runs on, or
/// the hooks and NMIs of one CPU. An NMI may interrupt a hook, but restores [`Ring::open_records`] before it returns.
struct RingWord(AtomicU64);

impl RingWord {
    fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    #[inline(always)]
    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    #[inline(always)]
    fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }
}

/// The memory of a ring buffer, and the positions of its writer.
///
/// # Invariants
///
/// `data` points to `shape.size` bytes, a multiple of 8, and `page` to a page. Both live as long as the ring.
/// Programs may write to both at any time.
pub(crate) struct Ring {
    /// The memory of the records.
    data: NonNull<u64>,
    /// The page with the positions of reader and writer.
    page: NonNull<UserPage>,
    shape: RingShape,
    /// The number of samples after which the reader is woken; 0 for never.
    wake_samples: u64,
    /// The number of written bytes after which the reader is woken.
    wake_bytes: u64,
    /// The position after the last record that was begun, in bytes since the ring's beginning.
    head: RingWord,
    /// The number of records that are being written: 2 or more while an NMI writes and has interrupted a writer.
    open_records: RingWord,
    /// The number of records that found no room since the last LOST record.
    lost_records: RingWord,
    /// The value of `head` when the reader was woken the last time.
    woken_head: RingWord,
    /// The number of samples since the reader was woken the last time.
    samples_since_wake: RingWord,
    /// The bits [`PAUSED`] and [`ENDED`]. Records are written only while no bit is set.
    ///
    /// ATOMICS: relaxed, as in perf: for a moment after a change, records may still be written.
    stop_flags: AtomicU64,
    waker: Waker,
}

// SAFETY: `Send` requires that any task may use and drop the value: its memory is the kernel's and belongs to no task.
// Its other fields are constant or atomic, or a `Waker`, which is `Send`.
unsafe impl Send for Ring {}
// SAFETY: `Sync` requires that several tasks may use the value at once: its memory, which programs
// share, is accessed by atomic or volatile operations. Its other fields are constant or atomic, or
// a `Waker`, which is `Sync`.
unsafe impl Sync for Ring {}

/// Bit of [`Ring::stop_flags`]: a program has paused the ring.
const PAUSED: u64 = 1;
/// Bit of [`Ring::stop_flags`]: the last mapping was removed, and the page may belong to another
/// ring.
const ENDED: u64 = 2;

impl Ring {
    /// Returns an empty ring.
    ///
    /// # Errors
    ///
    /// ENOMEM if there is no memory.
    ///
    /// # Safety
    ///
    /// The type invariants must hold for `data`, `page` and `shape.size`.
    pub(crate) unsafe fn new(
        data: NonNull<u64>,
        page: NonNull<UserPage>,
        shape: RingShape,
        wakeup: Wakeup,
    ) -> Result<Self> {
        // INVARIANT: The caller promises the invariants for `data`, `page` and `shape.size`.
        Ok(Self {
            data,
            page,
            shape,
            wake_samples: match wakeup {
                Wakeup::Samples(samples) => samples.into(),
                Wakeup::Bytes(_) => 0,
            },
            wake_bytes: match wakeup {
                Wakeup::Samples(_) | Wakeup::Bytes(0) => shape.size / 2,
                Wakeup::Bytes(bytes) => shape.size.min(bytes.into()),
            },
            head: RingWord::new(),
            open_records: RingWord::new(),
            lost_records: RingWord::new(),
            woken_head: RingWord::new(),
            samples_since_wake: RingWord::new(),
            stop_flags: AtomicU64::new(0),
            waker: Waker::new()?,
        })
    }

    /// Writes the offset and the size of the data into the page. To be called before the ring has a writer.
    pub(crate) fn publish_data_area(&self) {
        self.reset_data_area(kernel::page::PAGE_SIZE as u64, self.shape.size);
    }

    /// Writes 0 for the offset and the size of the data into the page. To be called when the ring has no writer any more.
    pub(crate) fn clear_data_area(&self) {
        self.reset_data_area(0, 0);
    }

    /// Writes the offset and the size of the data, in bytes, into the page, and sets the positions of reader and writer
    /// to 0.
    fn reset_data_area(&self, offset: u64, size: u64) {
        let control = self.control();
        // SAFETY: The writes require valid memory: by the invariant `page` lives as long as the ring, and `control`
        // returns a pointer within it. They are volatile, since programs may access the page at the same time.
        unsafe {
            (&raw mut (*control).data_head).write_volatile(0);
            (&raw mut (*control).data_tail).write_volatile(0);
            (&raw mut (*control).data_offset).write_volatile(offset);
            (&raw mut (*control).data_size).write_volatile(size);
        }
    }

    /// Returns the part of the page that the reader and the writer share.
    #[inline(always)]
    fn control(&self) -> *mut RingControl {
        // SAFETY: `byte_add` requires an offset within the page: by the invariant `page` points to a whole page, which
        // is larger than the offset and a `RingControl` together.
        unsafe { self.page.as_ptr().byte_add(RingControl::OFFSET) }.cast()
    }

    /// Returns the position up to which the reader has read. Programs write the position, so it may be any number.
    #[inline(always)]
    fn tail(&self) -> u64 {
        // SAFETY: `from_ptr` requires an aligned word that lives as long as the result and is accessed atomically:
        // `page` lives as long as the ring, the offset is a multiple of 8, and programs write the word with one
        // 8-byte store.
        let tail = unsafe { AtomicU64::from_ptr(&raw mut (*self.control()).data_tail) };
        // ATOMICS: pairs with the store of the program, which reads the records before it stores the tail.
        tail.load(Acquire)
    }

    /// Pauses or resumes the writing of records.
    pub(crate) fn set_paused(&self, paused: bool) {
        if paused {
            self.stop_flags.fetch_or(PAUSED, Relaxed);
        } else {
            self.stop_flags.fetch_and(!PAUSED, Relaxed);
        }
    }

    /// Stops the writing of records for ever, since the last mapping was removed.
    pub(crate) fn end_writing(&self) {
        self.stop_flags.fetch_or(ENDED, Relaxed);
    }

    /// Returns whether the last mapping was removed.
    pub(crate) fn has_ended(&self) -> bool {
        self.stop_flags.load(Relaxed) & ENDED != 0
    }

    /// Returns whether the reader was woken since the last call of this function, and consumes the wakeup.
    pub(crate) fn consume_wakeup(&self) -> bool {
        self.waker.consume_wakeup()
    }

    /// Makes the ring wake the pollers of `wait`, too, until [`Self::remove_reader`] is called.
    ///
    /// # Safety
    ///
    /// The caller must remove `wait` by [`Self::remove_reader`] before `wait` is dropped, and must add it to no other ring
    /// meanwhile.
    pub(crate) unsafe fn add_reader(&self, wait: &Wait) {
        // SAFETY: `Waker::add_wait` requires that `wait` is removed before it is dropped, and is in one waker at a time: the
        // caller promises both.
        unsafe { self.waker.add_wait(wait) };
    }

    /// Undoes [`Self::add_reader`]: the ring no longer wakes the pollers of `wait`.
    pub(crate) fn remove_reader(&self, wait: &Wait) {
        self.waker.remove_wait(wait);
    }

    /// Counts records that were lost, for the next LOST record.
    #[cold]
    fn lose_records(&self, records: u64) {
        self.lost_records.0.fetch_add(records, Relaxed);
    }

    /// Begins a record of `words` words. Returns `None` if there is no room, or if the ring is paused or has ended: the
    /// caller decides whether it counts the record as lost.
    #[inline(always)]
    fn begin_record(&self, words: usize) -> Option<Record<'_>> {
        self.begin_records(words, 1).map(|(record, _)| record)
    }

    /// Begins several records of `words` words each: as many as there is room for, at most `max_count`. Returns one
    /// [`Record`] to write all of them, and their number.
    #[inline(always)]
    fn begin_records(&self, words: usize, max_count: u64) -> Option<(Record<'_>, u64)> {
        // The flags are checked before the page is written, which may belong to another ring once
        // this ring has ended.
        if self.stop_flags.load(Relaxed) != 0 {
            return None;
        }
        self.open_records
            .set(self.open_records.get().wrapping_add(1));
        compiler_fence(SeqCst);
        let bytes = words.wrapping_mul(size_of::<u64>()) as u64;
        let tail = self.tail();
        let (place, count) = loop {
            let head = self.head.get();
            let count = if max_count == 1 {
                1
            } else {
                self.shape.fitting_records(head, tail, bytes).min(max_count)
            };
            let place = self.shape.place(head, tail, bytes.wrapping_mul(count));
            let Some(place) = place.filter(|_| count != 0) else {
                self.end_record();
                self.wake_if_full();
                return None;
            };
            let head = self
                .head
                .0
                .compare_exchange(head, place.head, Relaxed, Relaxed);
            if head.is_ok() {
                break (place, count);
            }
        };
        let record = Record {
            ring: self,
            data: self.data,
            mask: self.shape.size.wrapping_sub(1),
            position: place.start,
        };
        Some((record, count))
    }

    /// Ends a record. If records are nested, the end of the outermost record publishes all of them.
    #[inline(always)]
    fn end_record(&self) {
        compiler_fence(SeqCst);
        let open_records = self.open_records.get();
        if open_records > 1 {
            self.open_records.set(open_records.wrapping_sub(1));
            return;
        }
        loop {
            let head = self.head.get();
            // SAFETY: `from_ptr` requires an aligned word that lives as long as the result and is accessed
            // atomically: `page` lives as long as the ring, the offset is a multiple of 8, and programs write the
            // word with one 8-byte store.
            let word = unsafe { AtomicU64::from_ptr(&raw mut (*self.control()).data_head) };
            publish(word, head);
            self.open_records.set(0);
            compiler_fence(SeqCst);
            // An NMI that came before `open_records` was 0 has not published its records: publish them, too.
            if self.head.get() == head {
                break;
            }
            self.open_records.set(1);
            compiler_fence(SeqCst);
        }
    }

    /// Wakes the reader after records were written, if the limit of samples or of bytes is reached. `samples` is the number
    /// of samples among the records.
    #[inline(always)]
    fn wake_if_due(&self, samples: u64) {
        if samples != 0 && self.wake_samples != 0 {
            self.count_samples(samples);
        }
        let head = self.head.get();
        if self.shape.bytes_between(self.woken_head.get(), head) > self.wake_bytes {
            self.woken_head.set(head);
            self.wake();
        }
    }

    /// Returns whether the reader is woken after a number of samples.
    pub(crate) fn wakes_after_samples(&self) -> bool {
        self.wake_samples != 0
    }

    /// Counts samples, and wakes the reader after every [`Self::wake_samples`] samples.
    #[cold]
    #[inline(never)]
    fn count_samples(&self, samples: u64) {
        let samples_since_wake = self.samples_since_wake.get().wrapping_add(samples);
        if samples_since_wake < self.wake_samples {
            self.samples_since_wake.set(samples_since_wake);
        } else {
            self.samples_since_wake.set(0);
            self.wake();
        }
    }

    /// Wakes the reader when there is no room for a record, unless the reader was woken at this position of the head. With
    /// large records the ring may otherwise never hold the number of bytes that the reader waits for.
    #[cold]
    #[inline(never)]
    fn wake_if_full(&self) {
        let head = self.head.get();
        if self.woken_head.get() != head {
            self.woken_head.set(head);
            self.wake();
        }
    }

    /// Wakes the reader.
    #[cold]
    #[inline(never)]
    fn wake(&self) {
        self.waker.wake();
    }
}

/// A record that is being written. The writer calls [`Self::finish`] at its end.
struct Record<'a> {
    ring: &'a Ring,
    /// The memory of the records, as [`Ring::data`].
    data: NonNull<u64>,
    /// The mask that makes a position an offset in the data: the size of the data minus one.
    mask: u64,
    /// The position of the next word, in bytes.
    position: u64,
}

impl Record<'_> {
    /// Writes the next word.
    #[inline(always)]
    fn write_word(&mut self, word: u64) {
        let offset = self.position & self.mask;
        // SAFETY: `byte_add` requires an offset within the data, and the write a valid, aligned word. `data` and `mask`
        // are those of `ring`, whose data has `mask + 1` bytes by its invariant, and `offset` is at most `mask`; all
        // records have whole words, so the offset is a multiple of 8. The write is volatile, since programs may access
        // the data.
        unsafe {
            let to = self.data.byte_add(offset as usize);
            to.as_ptr().write_volatile(word);
        }
        self.position = self.position.wrapping_add(size_of::<u64>() as u64);
    }

    /// Writes the next words.
    #[inline(always)]
    fn write_words(&mut self, words: &[u64]) {
        let mut remaining = words;
        // The words may continue at the beginning of the data.
        while !remaining.is_empty() {
            let offset = self.position & self.mask;
            let room = (self.mask.wrapping_add(1).wrapping_sub(offset) as usize) / size_of::<u64>();
            let (piece, rest) = remaining.split_at_checked(room).unwrap_or((remaining, &[]));
            // SAFETY: `byte_add` requires an offset within the data. `data` and `mask` are those of `ring`, whose data
            // has `mask + 1` bytes by its invariant, and `offset` is at most `mask`.
            let to = unsafe { self.data.byte_add(offset as usize) };
            for (index, &word) in piece.iter().enumerate() {
                // SAFETY: The write requires a valid, aligned word: `piece` has at most `room` words, which is the
                // number from `to` to the end of the data, and all records have whole words, so `to` is aligned. The
                // write is volatile, since programs may access the data.
                unsafe { to.add(index).as_ptr().write_volatile(word) };
            }
            self.position = self.position.wrapping_add(size_of_val(piece) as u64);
            remaining = rest;
        }
    }

    /// Calls `copy` to write the next `bytes` bytes, a multiple of 8. Returns the number of bytes that were written.
    ///
    /// `copy` gets an address and a size in bytes, and returns the number of bytes that it has written. If the bytes
    /// continue at the beginning of the data, and `copy` has written all bytes before that, it is called a second time.
    /// Bytes that `copy` does not write keep their old contents.
    fn write_with(&mut self, bytes: u64, mut copy: impl FnMut(*mut u64, u64) -> u64) -> u64 {
        let mut written_bytes: u64 = 0;
        while written_bytes < bytes {
            let offset = self.position.wrapping_add(written_bytes) & self.mask;
            let piece = bytes
                .wrapping_sub(written_bytes)
                .min(self.mask.wrapping_add(1).wrapping_sub(offset));
            // SAFETY: `byte_add` requires an offset within the data. `data` and `mask` are those of `ring`, whose data
            // has `mask + 1` bytes by its invariant, and `offset` is at most `mask`.
            let to = unsafe { self.data.byte_add(offset as usize) };
            let copied_bytes = copy(to.as_ptr(), piece);
            written_bytes = written_bytes.wrapping_add(copied_bytes);
            if copied_bytes != piece {
                break;
            }
        }
        self.position = self.position.wrapping_add(bytes);
        written_bytes
    }

    /// Returns the number of words from here to the end of the ring's memory.
    #[inline(always)]
    fn words_to_wrap(&self) -> usize {
        let offset = self.position & self.mask;
        self.mask.wrapping_add(1).wrapping_sub(offset) as usize / size_of::<u64>()
    }

    /// Calls `copy` with the address at which it writes the next `words` words, at most [`Self::words_to_wrap`].
    #[inline(always)]
    fn write_words_with(&mut self, words: usize, copy: impl FnOnce(*mut u64)) {
        let offset = self.position & self.mask;
        // SAFETY: `byte_add` requires an offset within the data. `data` and `mask` are those of `ring`, whose data has
        // `mask + 1` bytes by its invariant, and `offset` is at most `mask`.
        copy(unsafe { self.data.byte_add(offset as usize) }.as_ptr());
        self.position = self
            .position
            .wrapping_add(words.wrapping_mul(size_of::<u64>()) as u64);
    }

    /// Ends and publishes the record, or the records, and wakes the reader if due. `samples` is the number of samples among
    /// them; only these count for [`Wakeup::Samples`].
    #[inline(always)]
    fn finish(self, samples: u64) {
        self.ring.end_record();
        self.ring.wake_if_due(samples);
    }
}
