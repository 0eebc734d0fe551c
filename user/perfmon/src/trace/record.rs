// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records, decoded.

use perfmon_core::abi;
use zerocopy::{FromBytes, IntoBytes};

use super::EventId;

/// A record of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// The time of the records up to the next one of this kind.
    Time {
        /// The time-stamp counter of the CPU.
        time: i64,
    },
    /// An event was counted as often as its rate says.
    Tick {
        /// Which event.
        event: EventId,
    },
    /// What was counted since the event's last record.
    Count {
        /// Which event.
        event: EventId,
        /// How often it happened.
        count: u64,
    },
    /// The value of something that is no counter.
    Value {
        /// Which event.
        event: EventId,
        /// The value.
        value: u64,
    },
    /// As a tick, and where the CPU was.
    Pc {
        /// Which event.
        event: EventId,
        /// The address space: the address bits of CR3; 0 if the recording process may not see the kernel.
        aspace: u64,
        /// The address of the instruction that the interrupt came before.
        pc: u64,
    },
    /// The branches before a tick.
    LastBranch {
        /// Which event ticked.
        event: EventId,
        /// As in [`Pc`](Self::Pc).
        aspace: u64,
        /// The branches, newest first.
        branches: Branches<'a>,
    },
}

impl Record<'_> {
    /// Which event the record is for; [`EventId::NONE`] for a [`Time`](Self::Time).
    #[must_use]
    pub const fn event(&self) -> EventId {
        match *self {
            Self::Time { .. } => EventId::NONE,
            Self::Tick { event }
            | Self::Count { event, .. }
            | Self::Value { event, .. }
            | Self::Pc { event, .. }
            | Self::LastBranch { event, .. } => event,
        }
    }

    /// Appends the bytes that the driver would write: for tests, and for tools that make recordings.
    ///
    /// ```
    /// use perfmon::trace::{ArchEvent, Decoder, EventId, Record};
    ///
    /// let record = Record::Count { event: EventId::arch(ArchEvent::LlcMisses), count: 1000 };
    /// let mut bytes = Vec::new();
    /// record.encode(&mut bytes);
    /// assert_eq!(bytes, [3, 0, 0x04, 0x04, 0xe8, 0x03, 0, 0, 0, 0, 0, 0]);
    /// assert_eq!(Decoder::new(&bytes).next(), Some(Ok(record)));
    /// ```
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        todo!("{bytes:?}")
    }
}

/// A branch that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The address of the branch.
    pub from: u64,
    /// That of its target.
    pub to: u64,
    /// Core cycles since the branch before; 0 if that isn't known.
    pub cycles: u16,
    /// Whether it was mispredicted.
    pub mispredicted: bool,
}

/// The branches of a record, newest first: an iterator that reads them from its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branches<'a>(pub(super) &'a [u8]);

impl<'a> Branches<'a> {
    /// Those of a record to be [encoded](Record::encode).
    ///
    /// `None` if there are more than `PERFMON_MAX_NUM_LAST_BRANCH`.
    #[must_use]
    pub fn new(branches: &'a [abi::perfmon_last_branch]) -> Option<Self> {
        (branches.len() <= abi::PERFMON_MAX_NUM_LAST_BRANCH as usize)
            .then(|| Self(branches.as_bytes()))
    }
}

impl Iterator for Branches<'_> {
    type Item = Branch;

    fn next(&mut self) -> Option<Branch> {
        let (branch, rest) = abi::perfmon_last_branch::read_from_prefix(self.0).ok()?;
        self.0 = rest;
        let _ = branch;
        todo!()
    }
}
