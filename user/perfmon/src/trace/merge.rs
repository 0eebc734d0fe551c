// SPDX-License-Identifier: MIT OR Apache-2.0
//! One stream of all CPUs' records.

use super::{Chunk, DecodeError, Records, Timed};

/// The records of many chunks by time: an iterator, made by [`merge`].
#[derive(Clone, Debug)]
pub struct Merge<'a> {
    sources: Vec<Records<'a>>,
}

/// Merges the records of many CPUs by time.
///
/// Records of the same time are in the order of their CPUs' numbers, those of one chunk always in the order in
/// which they were written; so the records of a set stay together. An error ends the chunk it is in, not the
/// others. Memory and time: one entry for each chunk, and for each record the logarithm of their number.
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
    Merge {
        sources: chunks.into_iter().map(Chunk::records).collect(),
    }
}

impl<'a> Iterator for Merge<'a> {
    type Item = Result<Timed<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let _ = &mut self.sources;
        todo!()
    }
}
