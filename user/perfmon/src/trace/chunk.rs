// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of one CPU, and their times.

use std::iter::FusedIterator;

use super::{DecodeError, Decoder, Problem, Record};

/// Some whole sets of records of one CPU, copied out of its buffer.
///
/// ```
/// use perfmon::trace::{Chunk, EventId, Record};
///
/// let mut bytes = Vec::new();
/// Record::Time { time: 17 }.encode(&mut bytes);
/// Record::Tick { event: EventId::model(1) }.encode(&mut bytes);
/// let chunk = Chunk::new(3, bytes);
/// let tick = chunk.records().next().unwrap()?;
/// assert_eq!((tick.time, tick.cpu), (17, 3));
/// assert_eq!(tick.record, Record::Tick { event: EventId::model(1) });
/// # Ok::<(), perfmon::trace::DecodeError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    cpu: u32,
    bytes: Vec<u8>,
}

impl Chunk {
    /// Recorded bytes, whole sets of records of `cpu`.
    #[must_use]
    pub const fn new(cpu: u32, bytes: Vec<u8>) -> Self {
        Self { cpu, bytes }
    }

    /// The CPU's number.
    #[must_use]
    pub const fn cpu(&self) -> u32 {
        self.cpu
    }

    /// The bytes, without the buffer's header.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The records, each with its time.
    #[must_use]
    pub fn records(&self) -> Records<'_> {
        Records {
            cpu: self.cpu,
            time: None,
            decoder: Decoder::new(&self.bytes),
        }
    }
}

/// A record, when and where it was made.
///
/// ```
/// use perfmon::trace::Timed;
///
/// /// When it was, in seconds after `start`.
/// fn seconds(timed: &Timed<'_>, start: i64, ticks_per_second: u64) -> f64 {
///     (timed.time - start) as f64 / ticks_per_second as f64
/// }
/// # let record = perfmon::trace::Record::Time { time: 0 };
/// # assert_eq!(seconds(&Timed { time: 30, cpu: 0, record }, 10, 10), 2.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed<'a> {
    /// The time-stamp counter; [`Header::ticks_per_second`](super::Header::ticks_per_second) is its frequency.
    pub time: i64,
    /// The CPU's number.
    pub cpu: u32,
    /// The record, never a [`Record::Time`].
    pub record: Record<'a>,
}

/// The records of a [`Chunk`] with their times: an iterator. After the first error it ends.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    cpu: u32,
    time: Option<i64>,
    decoder: Decoder<'a>,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Timed<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let offset = self.decoder.offset();
            match self.decoder.next()? {
                Err(error) => return Some(Err(error.on(self.cpu))),
                Ok(Record::Time { time }) => self.time = Some(time),
                Ok(record) => {
                    let Some(time) = self.time else {
                        self.decoder = Decoder::new(&[]);
                        let error = DecodeError::new(offset, Problem::Untimed);
                        return Some(Err(error.on(self.cpu)));
                    };
                    let cpu = self.cpu;
                    return Some(Ok(Timed { time, cpu, record }));
                }
            }
        }
    }
}

impl FusedIterator for Records<'_> {}
