// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records that a ring holds at a moment.

use std::iter::FusedIterator;
use std::sync::atomic::{AtomicU64, Ordering};

use super::raw::WORD;
use super::{RawRecord, Record};
use crate::sys::RingMapping;
use crate::{Attempt, Cause, Error, Event};

/// The records that a ring held at the moment of [`Sampler::records`](super::Sampler::records). They stay in the ring
/// until this is dropped: then all their room is given back, also that of records that were not looked at.
#[derive(Debug)]
pub struct Records<'a> {
    ring: &'a RingMapping,
    /// Where the reader is: bytes since the ring was empty.
    tail: &'a mut u64,
    head: u64,
    event: &'a Event,
    has_chain: bool,
}

impl<'a> Records<'a> {
    pub(super) fn new(
        ring: &'a RingMapping,
        tail: &'a mut u64,
        event: &'a Event,
        has_chain: bool,
    ) -> Self {
        // ATOMICS: Pairs with the kernel's store, after which it writes no more to what is before the head.
        let head = ring.head().load(Ordering::Acquire);
        Self {
            ring,
            tail,
            head,
            event,
            has_chain,
        }
    }

    /// Returns the number of bytes of all records.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        if self.is_backward() {
            let size = size_of_val(self.ring.words()) as u64;
            return self.written_backward().min(size);
        }
        self.head.wrapping_sub(*self.tail)
    }

    /// The kernel writes from the end to the front, and does not wait for the reader.
    fn is_backward(&self) -> bool {
        self.ring.tail().is_none()
    }

    /// Returns the number of bytes since the last time, with those that were overwritten.
    fn written_backward(&self) -> u64 {
        self.tail.wrapping_sub(self.head)
    }

    /// Returns the records in their order; of a ring that is overwritten the newest first.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter {
            raw: self.raw(),
            has_chain: self.has_chain,
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
        // Programs may write to the head, too. The kernel never is a whole ring ahead.
        let known = usize::try_from(bytes)
            .ok()
            .filter(|bytes| bytes % WORD == 0);
        let left = known.map(|bytes| bytes / WORD).filter(|n| *n <= ring.len());
        #[expect(
            clippy::cast_possible_truncation,
            reason = "it counts modulo the length of the ring, a power of 2"
        )]
        let next = (start / WORD as u64) as usize;
        RawRecords {
            ring,
            next,
            left: left.unwrap_or(0),
            failed: left.is_none(),
            overwritten: self.is_backward() && self.written_backward() > bytes,
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
        // ATOMICS: All loads of records come before; the kernel loads the tail before it writes there again.
        if let Some(tail) = self.ring.tail() {
            tail.store(self.head, Ordering::Release);
        }
    }
}

/// The records of a ring.
///
/// It ends after an error, which only a program that writes to the ring can cause: [`Cause::BadRing`].
#[derive(Debug)]
pub struct Iter<'a> {
    raw: RawRecords<'a>,
    has_chain: bool,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Result<Record<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let raw = match self.raw.next()? {
            Ok(raw) => raw,
            Err(error) => return Some(Err(error)),
        };
        let record = Record::new(raw, self.has_chain);
        if record.is_none() {
            self.raw.left = 0;
        }
        Some(record.ok_or_else(|| bad_ring(self.raw.event)))
    }
}

impl FusedIterator for Iter<'_> {}

/// The records of a ring as they stand there. It ends after an error, as [`Iter`] does.
#[derive(Debug)]
pub struct RawRecords<'a> {
    ring: &'a [AtomicU64],
    next: usize,
    /// Words that are left.
    left: usize,
    failed: bool,
    /// The last record is overwritten behind its header.
    overwritten: bool,
    event: &'a Event,
}

impl<'a> Iterator for RawRecords<'a> {
    type Item = Result<RawRecord<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            self.failed = false;
            self.left = 0;
            return Some(Err(bad_ring(self.event)));
        }
        if self.left == 0 {
            return None;
        }
        let Some(record) = RawRecord::new(self.ring, self.next, self.left) else {
            self.left = 0;
            return (!self.overwritten).then(|| Err(bad_ring(self.event)));
        };
        self.next = self.next.wrapping_add(record.size());
        self.left -= record.size();
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
