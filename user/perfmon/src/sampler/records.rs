// SPDX-License-Identifier: MIT OR Apache-2.0
//! Iterators over the records of a ring.

use std::iter::FusedIterator;
use std::sync::atomic::{AtomicU64, Ordering};

use super::raw::WORD;
use super::record::SampleShape;
use super::{RawRecord, Record};
use crate::sys::RingMapping;
use crate::{Attempt, Cause, Error, Event};

/// The records that a ring held at the moment of [`Sampler::records`](super::Sampler::records).
/// They stay in the ring until this value is dropped, which frees the space of all records,
/// including unread records.
#[derive(Debug)]
pub struct Records<'a> {
    ring: &'a RingMapping,
    /// The reader's position: bytes read since the ring was mapped.
    tail: &'a mut u64,
    /// The kernel's position at the moment of creation.
    head: u64,
    event: &'a Event,
    shape: SampleShape,
}

impl<'a> Records<'a> {
    pub(super) fn new(
        ring: &'a RingMapping,
        tail: &'a mut u64,
        event: &'a Event,
        shape: SampleShape,
    ) -> Self {
        // ATOMICS: Pairs with the kernel's store of the head: all records before the loaded head
        // are complete.
        let head = ring.head().load(Ordering::Acquire);
        // In a child of fork(2) the ring reads as zeros. A head of 0 therefore means no records.
        let head = if head == 0 { *tail } else { head };
        Self {
            ring,
            tail,
            head,
            event,
            shape,
        }
    }

    /// Returns the number of bytes of all records.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        if self.is_backward() {
            let size = size_of_val(self.ring.words()) as u64;
            return self.bytes_written_backward().min(size);
        }
        self.head.wrapping_sub(*self.tail)
    }

    /// Returns whether the kernel writes from the end of the ring to the front, without waiting for the reader.
    fn is_backward(&self) -> bool {
        self.ring.tail().is_none()
    }

    /// Returns the number of bytes written since the last reading, including bytes that are
    /// overwritten by now.
    fn bytes_written_backward(&self) -> u64 {
        self.tail.wrapping_sub(self.head)
    }

    /// Returns the records, the oldest first; the newest first if the ring is overwritten.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter {
            raw: self.raw(),
            shape: self.shape,
        }
    }

    /// Returns the records as they stand in the ring, for programs that pass them on.
    #[must_use]
    pub fn raw(&self) -> RawRecords<'_> {
        let ring = self.ring.words();
        let bytes = self.bytes();
        let start = if self.is_backward() {
            self.head
        } else {
            *self.tail
        };
        // The kernel is never ahead of the reader by more than the ring's length. A greater
        // distance means that another program has written a wrong head.
        let aligned_bytes = usize::try_from(bytes)
            .ok()
            .filter(|bytes| bytes % WORD == 0);
        let words = aligned_bytes
            .map(|bytes| bytes / WORD)
            .filter(|words| *words <= ring.len());
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the index is used modulo the length of the ring, a power of 2"
        )]
        let next = (start / WORD as u64) as usize;
        RawRecords {
            ring,
            next,
            words_left: words.unwrap_or(0),
            has_bad_head: words.is_none(),
            may_end_overwritten: self.is_backward() && self.bytes_written_backward() > bytes,
            event: self.event,
        }
    }
}

impl<'b> IntoIterator for &'b Records<'_> {
    type Item = Result<Record<'b>, Error>;
    type IntoIter = Iter<'b>;

    fn into_iter(self) -> Iter<'b> {
        self.iter()
    }
}

impl Drop for Records<'_> {
    fn drop(&mut self) {
        *self.tail = self.head;
        // ATOMICS: All loads of records happen before this store. The kernel loads the tail before it writes to the freed
        // space.
        if let Some(tail) = self.ring.tail() {
            tail.store(self.head, Ordering::Release);
        }
    }
}

/// Iterator over the records of a ring.
///
/// It ends after the error [`Cause::BadRing`], which only a program that writes to the ring can cause.
#[derive(Debug)]
pub struct Iter<'a> {
    raw: RawRecords<'a>,
    shape: SampleShape,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Result<Record<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let raw = match self.raw.next()? {
            Ok(raw) => raw,
            Err(error) => return Some(Err(error)),
        };
        let record = Record::new(raw, self.shape);
        if record.is_none() {
            self.raw.words_left = 0;
        }
        Some(record.ok_or_else(|| bad_ring(self.raw.event)))
    }
}

impl FusedIterator for Iter<'_> {}

/// Iterator over the undecoded records of a ring. It ends after an error, like [`Iter`].
#[derive(Debug)]
pub struct RawRecords<'a> {
    ring: &'a [AtomicU64],
    /// Index of the next record's first word, not yet reduced modulo the ring's length.
    next: usize,
    /// Words of the records that are not returned yet.
    words_left: usize,
    /// The head contradicts the ring's size: the next item is an error.
    has_bad_head: bool,
    /// The kernel has written more than a whole ring, so the last record may be partly overwritten.
    may_end_overwritten: bool,
    event: &'a Event,
}

impl<'a> Iterator for RawRecords<'a> {
    type Item = Result<RawRecord<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_bad_head {
            self.has_bad_head = false;
            self.words_left = 0;
            return Some(Err(bad_ring(self.event)));
        }
        if self.words_left == 0 {
            return None;
        }
        let Some(record) = RawRecord::new(self.ring, self.next, self.words_left) else {
            self.words_left = 0;
            return (!self.may_end_overwritten).then(|| Err(bad_ring(self.event)));
        };
        self.next = self.next.wrapping_add(record.size());
        self.words_left -= record.size();
        Some(Ok(record))
    }
}

impl FusedIterator for RawRecords<'_> {}

fn bad_ring(event: &Event) -> Error {
    Error {
        attempt: Attempt::ReadRing(event.label().clone()),
        cause: Cause::BadRing,
    }
}
