// SPDX-License-Identifier: MIT OR Apache-2.0
//! Merging of the records of all CPUs into one stream.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::iter::{FusedIterator, Peekable};

use super::{Chunk, DecodeError, Records, Timed};

/// Iterator over the records of many chunks by time; [`merge`] creates it.
#[derive(Clone, Debug)]
pub struct Merge<'a> {
    chunks: Vec<Peekable<Records<'a>>>,
    /// One key for each chunk that is not at its end.
    order: BinaryHeap<Reverse<MergeKey>>,
}

/// Sort key of the next record of a chunk: the smallest comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MergeKey {
    time: i64,
    cpu: u32,
    /// The chunk's index.
    chunk: usize,
}

/// Merges the records of many CPUs by time.
///
/// Records of the same time are in the order of their CPUs' numbers. Records of one chunk stay in the order in which they
/// were written, so the records of a set stay together. An error ends only its own chunk. The memory is proportional to
/// the number of chunks, and the time per record to the logarithm of this number.
///
/// ```
/// use perfmon::trace::{Chunk, EventId, Record, merge};
///
/// let chunk = |cpu, times: &[i64]| {
///     let mut bytes = Vec::new();
///     for &time in times {
///         Record::Time { time }.encode(&mut bytes);
///         Record::Tick { event: EventId::model(1) }.encode(&mut bytes);
///     }
///     Chunk::new(cpu, bytes)
/// };
/// let chunks = [chunk(1, &[10, 20]), chunk(0, &[20, 30])];
/// let order: Vec<(i64, u32)> = merge(&chunks)
///     .map(|timed| timed.map(|t| (t.time, t.cpu)))
///     .collect::<Result<_, _>>()?;
/// assert_eq!(order, [(10, 1), (20, 0), (20, 1), (30, 0)]);
/// # Ok::<(), perfmon::trace::DecodeError>(())
/// ```
#[must_use]
pub fn merge<'a>(chunks: impl IntoIterator<Item = &'a Chunk>) -> Merge<'a> {
    let mut merge = Merge {
        chunks: Vec::new(),
        order: BinaryHeap::new(),
    };
    for chunk in chunks {
        let key = MergeKey {
            time: i64::MIN,
            cpu: chunk.cpu(),
            chunk: merge.chunks.len(),
        };
        let mut records = chunk.records().peekable();
        if let Some(next) = records.peek() {
            merge.order.push(Reverse(key.advance(next)));
        }
        merge.chunks.push(records);
    }
    merge
}

impl MergeKey {
    /// Returns the key of the chunk's next record `next`; `self` is the key of the record before it. An error keeps the
    /// time of that record.
    fn advance(self, next: &Result<Timed<'_>, DecodeError>) -> Self {
        let time = next.as_ref().map_or(self.time, |record| record.time);
        Self { time, ..self }
    }
}

impl<'a> Iterator for Merge<'a> {
    type Item = Result<Timed<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut first = self.order.peek_mut()?;
        let records = &mut self.chunks[first.0.chunk];
        let record = records.next();
        match records.peek() {
            Some(next) => first.0 = first.0.advance(next),
            None => drop(PeekMut::pop(first)),
        }
        record
    }
}

impl FusedIterator for Merge<'_> {}
