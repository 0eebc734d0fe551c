// SPDX-License-Identifier: GPL-2.0-only
//! Rings: records that programs read while they are written.
//!
//! A [`Ring`] is the memory; a [`Sampler`] is an event that writes there. [`crate::event`] makes both.

mod alarm;
mod precise;
mod records;
mod registers;
mod sample;
mod sampler;
mod stack;
mod state;

pub(crate) use self::{
    precise::PreciseSamples,
    records::TaskChange,
    sample::{Interrupt, PmuReadings, CHAIN_WORDS},
    sampler::Sampler,
    state::EventState,
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

/// A word that is written on one CPU at a time, and by NMIs that come between.
///
/// ATOMICS: relaxed. A ring has one writer at a time: a task's own hooks and NMIs wherever it runs, or those of one CPU.
/// An NMI leaves [`Ring::open_records`] as it found it.
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

/// The memory that records are written to, and how far.
///
/// # Invariants
///
/// `data` is `shape.size` bytes, a multiple of 8; `page` a page. Both live as long as the ring. Programs may change both
/// at any time.
pub(crate) struct Ring {
    data: NonNull<u64>,
    page: NonNull<UserPage>,
    shape: RingShape,
    /// The reader is woken after so many samples; 0 for never.
    wake_samples: u64,
    /// The reader is woken after so many bytes.
    wake_bytes: u64,
    /// The position behind the last record that was begun.
    head: RingWord,
    /// The records that are being written: more than one if an NMI came between.
    open_records: RingWord,
    /// The records that found no room, since the last LOST record.
    lost: RingWord,
    /// The head when the reader was woken the last time.
    woken_head: RingWord,
    /// The samples since the reader was woken the last time.
    samples_since_wake: RingWord,
    /// [`PAUSED`] or [`ENDED`], or both, if nothing is to be written.
    ///
    /// ATOMICS: relaxed, as by perf: records may still come for a moment.
    paused: AtomicU64,
    waker: Waker,
}

// SAFETY: The memory is shared with programs anyhow; the words name their writers.
unsafe impl Send for Ring {}
// SAFETY: The memory is shared with programs anyhow; the words name their writers.
unsafe impl Sync for Ring {}

/// [`Ring::paused`]: by the program.
const PAUSED: u64 = 1;
/// [`Ring::paused`]: the last mapping has gone, and the page may have another ring.
const ENDED: u64 = 2;

impl Ring {
    /// Returns an empty ring.
    ///
    /// # Errors
    ///
    /// ENOMEM.
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
        // INVARIANT: The caller says so of `data`, `page` and `shape.size`.
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
            lost: RingWord::new(),
            woken_head: RingWord::new(),
            samples_since_wake: RingWord::new(),
            paused: AtomicU64::new(0),
            waker: Waker::new()?,
        })
    }

    /// Writes into the page where the data is. Nothing writes records yet.
    pub(crate) fn publish_data(&self) {
        self.set_control(kernel::page::PAGE_SIZE as u64, self.shape.size);
    }

    /// Writes into the page that there is no data. Nothing writes records any more.
    pub(crate) fn withdraw_data(&self) {
        self.set_control(0, 0);
    }

    /// Sets the positions to 0, and says where the data is.
    fn set_control(&self, offset: u64, size: u64) {
        let control = self.control();
        // SAFETY: `page` is a page, which lives as long as the ring.
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
        // SAFETY: `page` is a whole page, which is larger than the offset with a `RingControl` behind it.
        unsafe { self.page.as_ptr().byte_add(RingControl::OFFSET) }.cast()
    }

    /// Returns how far the reader has read: whatever it has written.
    #[inline(always)]
    fn tail(&self) -> u64 {
        // SAFETY: `page` lives as long as the ring; the word is 8 bytes at a multiple of 8.
        let tail = unsafe { AtomicU64::from_ptr(&raw mut (*self.control()).data_tail) };
        // ATOMICS: pairs with the store of the program, which has read the records before it.
        tail.load(Acquire)
    }

    /// Stops writing, or goes on.
    pub(crate) fn pause(&self, paused: bool) {
        if paused {
            self.paused.fetch_or(PAUSED, Relaxed);
        } else {
            self.paused.fetch_and(!PAUSED, Relaxed);
        }
    }

    /// Stops writing for ever: the last mapping has gone.
    pub(crate) fn end_writing(&self) {
        self.paused.fetch_or(ENDED, Relaxed);
    }

    /// Returns whether the last mapping has gone.
    pub(crate) fn has_ended(&self) -> bool {
        self.paused.load(Relaxed) & ENDED != 0
    }

    /// Returns whether the reader was woken since the last call.
    pub(crate) fn take_woken(&self) -> bool {
        self.waker.take()
    }

    /// Wakes the pollers of `wait`, too.
    ///
    /// # Safety
    ///
    /// As [`Waker::add`].
    pub(crate) unsafe fn add_reader(&self, wait: &Wait) {
        // SAFETY: The caller removes the reader before the end of `wait`, and adds it to no other ring.
        unsafe { self.waker.add(wait) };
    }

    /// Ends [`Self::add_reader`].
    pub(crate) fn remove_reader(&self, wait: &Wait) {
        self.waker.remove(wait);
    }

    /// Notes that records were lost.
    #[cold]
    fn lose(&self, records: u64) {
        self.lost.0.fetch_add(records, Relaxed);
    }

    /// Begins a record of so many words. `None` if there is no room, or the ring is paused: the caller says whether one
    /// is lost.
    #[inline(always)]
    fn begin(&self, words: usize) -> Option<Record<'_>> {
        self.begin_many(words, 1).map(|(record, _)| record)
    }

    /// Begins as many records of so many words as there is room for, up to `most`, as if they were one. Returns their
    /// number, too.
    #[inline(always)]
    fn begin_many(&self, words: usize, most: u64) -> Option<(Record<'_>, u64)> {
        // Before anything that `end` publishes: the page may have another ring.
        if self.paused.load(Relaxed) != 0 {
            return None;
        }
        self.open_records
            .set(self.open_records.get().wrapping_add(1));
        compiler_fence(SeqCst);
        let bytes = words.wrapping_mul(size_of::<u64>()) as u64;
        let tail = self.tail();
        let (place, count) = loop {
            let head = self.head.get();
            let count = if most == 1 {
                1
            } else {
                self.shape.fitting(head, tail, bytes).min(most)
            };
            let place = self.shape.place(head, tail, bytes.wrapping_mul(count));
            let Some(place) = place.filter(|_| count != 0) else {
                self.end();
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
            at: place.start,
        };
        Some((record, count))
    }

    /// Ends a record: the outermost publishes all.
    #[inline(always)]
    fn end(&self) {
        compiler_fence(SeqCst);
        let open_records = self.open_records.get();
        if open_records > 1 {
            self.open_records.set(open_records.wrapping_sub(1));
            return;
        }
        loop {
            let head = self.head.get();
            // SAFETY: `page` lives as long as the ring; the word is 8 bytes at a multiple of 8.
            let word = unsafe { AtomicU64::from_ptr(&raw mut (*self.control()).data_head) };
            publish(word, head);
            self.open_records.set(0);
            compiler_fence(SeqCst);
            // An NMI that came before that has left its records to this one.
            if self.head.get() == head {
                break;
            }
            self.open_records.set(1);
            compiler_fence(SeqCst);
        }
    }

    /// Wakes the reader if it is time, after a record has ended.
    #[inline(always)]
    fn wake_if_due(&self, is_sample: bool) {
        if is_sample && self.wake_samples != 0 {
            self.count_sample();
        }
        let head = self.head.get();
        if self.shape.written(self.woken_head.get(), head) > self.wake_bytes {
            self.woken_head.set(head);
            self.wake();
        }
    }

    /// Wakes the reader if there are as many samples as it wants.
    #[cold]
    #[inline(never)]
    fn count_sample(&self) {
        let samples = self.samples_since_wake.get().wrapping_add(1);
        if samples < self.wake_samples {
            self.samples_since_wake.set(samples);
        } else {
            self.samples_since_wake.set(0);
            self.wake();
        }
    }

    /// Wakes the reader when there is no room, once for each head: with records of this size, the ring may never have as
    /// many bytes as the reader waits for.
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

/// A record that is being written.
struct Record<'a> {
    ring: &'a Ring,
    /// [`Ring::data`]
    data: NonNull<u64>,
    /// Offsets in the data.
    mask: u64,
    at: u64,
}

impl Record<'_> {
    /// Writes the next word.
    #[inline(always)]
    fn put(&mut self, word: u64) {
        let offset = self.at & self.mask;
        // SAFETY: By the ring's invariant the offset is within its data, and a multiple of 8, as all records are.
        unsafe {
            let to = self.data.byte_add(offset as usize);
            to.as_ptr().write_volatile(word);
        }
        self.at = self.at.wrapping_add(size_of::<u64>() as u64);
    }

    /// Writes the next words.
    #[inline(always)]
    fn put_all(&mut self, words: &[u64]) {
        let mut left = words;
        // The ring may end in between.
        while !left.is_empty() {
            let offset = self.at & self.mask;
            let room = (self.mask.wrapping_add(1).wrapping_sub(offset) as usize) / size_of::<u64>();
            let (piece, rest) = left.split_at_checked(room).unwrap_or((left, &[]));
            // SAFETY: By the ring's invariant the offset is within its data, and a multiple of 8, as all records are.
            let to = unsafe { self.data.byte_add(offset as usize) };
            for (index, &word) in piece.iter().enumerate() {
                // SAFETY: There is room for so many words up to the end of the data.
                unsafe { to.add(index).as_ptr().write_volatile(word) };
            }
            self.at = self.at.wrapping_add(size_of_val(piece) as u64);
            left = rest;
        }
    }

    /// Lets `copy` write the next `bytes` bytes, a multiple of 8. `copy` gets an address and a size, twice if the
    /// ring ends in between, and returns the bytes that it has written; after fewer than the size it is not called
    /// again. Returns the sum. Bytes that were not written keep their old contents.
    fn fill(&mut self, bytes: u64, mut copy: impl FnMut(*mut u64, u64) -> u64) -> u64 {
        let mut written: u64 = 0;
        // The ring may end in between.
        while written < bytes {
            let offset = self.at.wrapping_add(written) & self.mask;
            let piece = bytes
                .wrapping_sub(written)
                .min(self.mask.wrapping_add(1).wrapping_sub(offset));
            // SAFETY: By the ring's invariant the offset is within its data.
            let to = unsafe { self.data.byte_add(offset as usize) };
            let copied = copy(to.as_ptr(), piece);
            written = written.wrapping_add(copied);
            if copied != piece {
                break;
            }
        }
        self.at = self.at.wrapping_add(bytes);
        written
    }

    /// Returns how many words there are up to the end of the ring.
    #[inline(always)]
    fn room(&self) -> usize {
        let offset = self.at & self.mask;
        self.mask.wrapping_add(1).wrapping_sub(offset) as usize / size_of::<u64>()
    }

    /// Leaves the next words, which are not more than [`Self::room`], to `copy`: it gets their address.
    #[inline(always)]
    fn fill_words(&mut self, words: usize, copy: impl FnOnce(*mut u64)) {
        let offset = self.at & self.mask;
        // SAFETY: By the ring's invariant the offset is within its data.
        copy(unsafe { self.data.byte_add(offset as usize) }.as_ptr());
        self.at = self
            .at
            .wrapping_add(words.wrapping_mul(size_of::<u64>()) as u64);
    }

    /// Ends the record. `is_sample` counts for [`Wakeup::Samples`].
    #[inline(always)]
    fn finish(self, is_sample: bool) {
        self.ring.end();
        self.ring.wake_if_due(is_sample);
    }
}
