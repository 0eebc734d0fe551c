// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of one CPU with their times.

use std::iter::FusedIterator;

use super::{DecodeError, Decoder, Problem, Record};

/// Whole sets of records of one CPU, copied from its buffer.
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
    /// Creates a chunk from recorded bytes. The bytes should be whole sets of records of `cpu`.
    #[must_use]
    pub const fn new(cpu: u32, bytes: Vec<u8>) -> Self {
        Self { cpu, bytes }
    }

    /// Returns the CPU's number.
    #[must_use]
    pub const fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Returns the bytes of the records.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the records, each with its time.
    #[must_use]
    pub fn records(&self) -> Records<'_> {
        Records {
            cpu: self.cpu,
            time: None,
            decoder: Decoder::new(&self.bytes),
        }
    }
}

/// A record with its time and its CPU.
///
/// ```
/// use perfmon::trace::Timed;
///
/// /// Returns the time in seconds after `start`.
/// fn seconds(timed: &Timed<'_>, start: i64, ticks_per_second: u64) -> f64 {
///     (timed.time - start) as f64 / ticks_per_second as f64
/// }
/// # let record = perfmon::trace::Record::Time { time: 0 };
/// # assert_eq!(seconds(&Timed { time: 30, cpu: 0, record }, 10, 10), 2.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed<'a> {
    /// The time as a value of the time-stamp counter, whose frequency is
    /// [`Header::ticks_per_second`](super::Header::ticks_per_second).
    pub time: i64,
    /// The CPU's number.
    pub cpu: u32,
    /// The record, never a [`Record::Time`].
    pub record: Record<'a>,
}

/// Iterator over the records of a [`Chunk`] with their times. It ends after the first error.
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
                Err(error) => return Some(Err(error.with_cpu(self.cpu))),
                Ok(Record::Time { time }) => self.time = Some(time),
                Ok(record) => {
                    let Some(time) = self.time else {
                        self.decoder = Decoder::new(&[]);
                        let error = DecodeError::new(offset, Problem::Untimed);
                        return Some(Err(error.with_cpu(self.cpu)));
                    };
                    let cpu = self.cpu;
                    return Some(Ok(Timed { time, cpu, record }));
                }
            }
        }
    }
}

impl FusedIterator for Records<'_> {}
