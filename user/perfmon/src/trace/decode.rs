// SPDX-License-Identifier: MIT OR Apache-2.0
//! From bytes to records.

use super::{EventId, Record};

/// The records in some bytes, as an iterator that allocates nothing.
///
/// The bytes may be anything: after the first error it ends.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> Decoder<'a> {
    /// The records that begin with the first byte.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            offset: 0,
        }
    }

    /// Where the next record begins: how many bytes were decoded.
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
        todo!()
    }
}

/// Bytes that are no records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}the record at offset {offset} {problem}", .cpu.map(|cpu| format!("CPU {cpu}: ")).unwrap_or_default())]
pub struct DecodeError {
    /// Of which CPU they are, if that is known.
    pub cpu: Option<u32>,
    /// Where the record begins that could not be decoded, from the beginning of the bytes.
    pub offset: usize,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The type is none of `PERFMON_RECORD_*`.
    #[error("has the unknown type {0}")]
    UnknownType(u8),
    /// Flags are set that are reserved.
    #[error("has the unknown flags {0:#04x}")]
    UnknownFlags(u8),
    /// A TIME record names an event.
    #[error("is a time with an event, {0}")]
    TimeOfEvent(EventId),
    /// The bytes end before the record does.
    #[error("has {needed} bytes, and {left} are left")]
    Truncated {
        /// How many bytes it has.
        needed: usize,
        /// How many there are.
        left: usize,
    },
    /// More than `PERFMON_MAX_NUM_LAST_BRANCH` branches.
    #[error("has {0} branches, more than a record can have")]
    TooManyBranches(u32),
    /// There was no TIME record before it.
    #[error("has no time: a time has to come first")]
    Untimed,
}
