// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decoder of records.

use std::iter::FusedIterator;

use perfmon_core::abi;
use perfmon_core::logic::lbr;
use zerocopy::FromBytes;

use super::{Branches, EventId, Record};

/// Iterator over the records in some bytes, which allocates nothing.
///
/// The bytes may be anything, at any alignment. The iterator ends after the first error, because the position of the
/// next record depends on the size of the record with the error.
///
/// ```
/// use perfmon::trace::{Decoder, EventId, Problem, Record};
///
/// // A TICK of model-specific event 2, and half a COUNT.
/// let bytes = [2, 0, 0x02, 0x0c, 3, 0, 0x02, 0x0c, 9, 0];
/// let mut records = Decoder::new(&bytes);
/// assert_eq!(records.next(), Some(Ok(Record::Tick { event: EventId::model(2) })));
/// let error = records.next().unwrap().unwrap_err();
/// assert_eq!((error.offset, error.problem), (4, Problem::Truncated { needed: 12, left: 6 }));
/// assert_eq!(error.to_string(), "the record at offset 4 is cut off: it needs 12 bytes, and only 6 are left");
/// assert_eq!(records.next(), None);
/// ```
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> Decoder<'a> {
    /// Creates a decoder of records that begin with the first byte.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            offset: 0,
        }
    }

    /// Returns the number of bytes that were decoded, which is the offset of the next record.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.offset
    }
}

impl<'a> Iterator for Decoder<'a> {
    type Item = Result<Record<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        match decode(self.rest) {
            Ok((record, rest)) => {
                self.offset += self.rest.len() - rest.len();
                self.rest = rest;
                Some(Ok(record))
            }
            Err(problem) => {
                // Stops, because the position of the next record depends on the size of this
                // record.
                self.rest = &[];
                Some(Err(DecodeError::new(self.offset, problem)))
            }
        }
    }
}

impl FusedIterator for Decoder<'_> {}

/// Decodes the first record, and returns it with the bytes after it.
fn decode(bytes: &[u8]) -> Result<(Record<'_>, &[u8]), Problem> {
    let (header, _) = read_struct::<abi::perfmon_record_header>(bytes)?;
    let event = EventId::from_bits(header.event);
    let (record, rest) = match u32::from(header.type_) {
        abi::PERFMON_RECORD_TIME => {
            let (raw, rest) = read_struct::<abi::perfmon_time_record>(bytes)?;
            if event != EventId::NONE {
                return Err(Problem::TimeOfEvent(event));
            }
            (Record::Time { time: raw.time }, rest)
        }
        abi::PERFMON_RECORD_TICK => {
            let (_, rest) = read_struct::<abi::perfmon_tick_record>(bytes)?;
            (Record::Tick { event }, rest)
        }
        abi::PERFMON_RECORD_COUNT => {
            let (raw, rest) = read_struct::<abi::perfmon_count_record>(bytes)?;
            let count = raw.count;
            (Record::Count { event, count }, rest)
        }
        abi::PERFMON_RECORD_VALUE => {
            let (raw, rest) = read_struct::<abi::perfmon_value_record>(bytes)?;
            let value = raw.value;
            (Record::Value { event, value }, rest)
        }
        abi::PERFMON_RECORD_PC => {
            let (raw, rest) = read_struct::<abi::perfmon_pc_record>(bytes)?;
            let (aspace, pc) = (raw.aspace, raw.pc);
            (Record::Pc { event, aspace, pc }, rest)
        }
        abi::PERFMON_RECORD_LAST_BRANCH => decode_last_branch(event, bytes)?,
        _ => return Err(Problem::UnknownType(header.type_)),
    };
    if header.reserved_flags != 0 {
        return Err(Problem::UnknownFlags(header.reserved_flags));
    }
    Ok((record, rest))
}

/// Decodes a record of last branches, the only kind of record whose size varies.
fn decode_last_branch(event: EventId, bytes: &[u8]) -> Result<(Record<'_>, &[u8]), Problem> {
    let (head, rest) = read_struct::<lbr::LastBranchHead>(bytes)?;
    let (number, aspace) = (head.num_branches, head.aspace);
    if number > abi::PERFMON_MAX_NUM_LAST_BRANCH {
        return Err(Problem::TooManyBranches(number));
    }
    let (branches, rest) =
        <[_]>::ref_from_prefix_with_elems(rest, number as usize).map_err(|_| {
            Problem::Truncated {
                needed: size_of::<lbr::LastBranchHead>()
                    + number as usize * size_of::<abi::perfmon_last_branch>(),
                left: bytes.len(),
            }
        })?;
    let record = Record::LastBranch {
        event,
        aspace,
        branches: Branches(branches),
    };
    Ok((record, rest))
}

/// Reads a structure, and returns it with the bytes after it.
fn read_struct<T: FromBytes>(bytes: &[u8]) -> Result<(T, &[u8]), Problem> {
    T::read_from_prefix(bytes).map_err(|_| Problem::Truncated {
        needed: size_of::<T>(),
        left: bytes.len(),
    })
}

/// The reason why bytes can't be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}the record at offset {offset} {problem}", .cpu.map(|cpu| format!("CPU {cpu}: ")).unwrap_or_default())]
pub struct DecodeError {
    /// The CPU of the bytes, if it is known.
    pub cpu: Option<u32>,
    /// Offset in bytes of the record that could not be decoded.
    pub offset: usize,
    /// The mistake in the record.
    pub problem: Problem,
}

impl DecodeError {
    pub(super) const fn new(offset: usize, problem: Problem) -> Self {
        Self {
            cpu: None,
            offset,
            problem,
        }
    }

    /// Adds the CPU that the bytes are from.
    pub(super) const fn with_cpu(self, cpu: u32) -> Self {
        Self {
            cpu: Some(cpu),
            ..self
        }
    }
}

/// Mistake in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The type is none of `PERFMON_RECORD_*`.
    #[error("has the unknown type {0}")]
    UnknownType(u8),
    /// Reserved flags are set.
    #[error("has the unknown flags {0:#04x}")]
    UnknownFlags(u8),
    /// A TIME record names an event.
    #[error("is a time record, but names the event {0}")]
    TimeOfEvent(EventId),
    /// The bytes end before the record does.
    #[error("is cut off: it needs {needed} bytes, and only {left} are left")]
    Truncated {
        /// Size of the record in bytes. If the bytes end before the record tells its size, the size of its fixed part.
        needed: usize,
        /// Number of bytes that are left.
        left: usize,
    },
    /// More than `PERFMON_MAX_NUM_LAST_BRANCH` branches.
    #[error("has {0} branches, more than a record can have")]
    TooManyBranches(u32),
    /// No TIME record comes before the record.
    #[error("has no time: no time record comes before it")]
    Untimed,
}
