// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records, decoded.

use std::fmt;

use perfmon_core::abi;
use perfmon_core::logic::lbr;
use zerocopy::{FromBytes, IntoBytes, Unalign};

use super::EventId;

/// A record of a buffer. Documentation/trace-format.rst describes the bytes of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// The time of the following records, up to the next `Time`.
    Time {
        /// The time-stamp counter of the CPU.
        time: i64,
    },
    /// A tick: the event has happened as often as its rate.
    Tick {
        /// The event.
        event: EventId,
    },
    /// The count since the event's last record.
    Count {
        /// The event.
        event: EventId,
        /// Number of times that the event happened.
        count: u64,
    },
    /// The value of a register that is not a counter.
    Value {
        /// The event.
        event: EventId,
        /// The value.
        value: u64,
    },
    /// A tick, with the program counter.
    Pc {
        /// The event.
        event: EventId,
        /// The address space, as the address bits of CR3; 0 if the recording process may not see the kernel.
        aspace: u64,
        /// The address of the next instruction at the interrupt.
        pc: u64,
    },
    /// The branches before a tick.
    LastBranch {
        /// The event that ticked.
        event: EventId,
        /// The address space, as in [`Pc`](Self::Pc).
        aspace: u64,
        /// The branches, newest first.
        branches: Branches<'a>,
    },
}

impl Record<'_> {
    /// Returns the event of the record; [`EventId::NONE`] for a [`Time`](Self::Time).
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

    /// Appends the bytes that the driver would write, for tests and for tools that create recordings.
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
    #[expect(
        clippy::cast_possible_truncation,
        reason = "there are 6 types and at most 32 branches"
    )]
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        let header = |kind| abi::perfmon_record_header {
            type_: kind as u8,
            reserved_flags: 0,
            event: self.event().bits(),
        };
        match *self {
            Self::Time { time } => {
                let header = header(abi::PERFMON_RECORD_TIME);
                bytes.extend_from_slice(abi::perfmon_time_record { header, time }.as_bytes());
            }
            Self::Tick { .. } => {
                let header = header(abi::PERFMON_RECORD_TICK);
                bytes.extend_from_slice(abi::perfmon_tick_record { header }.as_bytes());
            }
            Self::Count { count, .. } => {
                let header = header(abi::PERFMON_RECORD_COUNT);
                bytes.extend_from_slice(abi::perfmon_count_record { header, count }.as_bytes());
            }
            Self::Value { value, .. } => {
                let header = header(abi::PERFMON_RECORD_VALUE);
                bytes.extend_from_slice(abi::perfmon_value_record { header, value }.as_bytes());
            }
            Self::Pc { aspace, pc, .. } => {
                let header = header(abi::PERFMON_RECORD_PC);
                let record = abi::perfmon_pc_record { header, aspace, pc };
                bytes.extend_from_slice(record.as_bytes());
            }
            Self::LastBranch {
                aspace, branches, ..
            } => {
                let head = lbr::LastBranchHead {
                    header: header(abi::PERFMON_RECORD_LAST_BRANCH),
                    num_branches: branches.0.len() as u32,
                    aspace,
                };
                bytes.extend_from_slice(head.as_bytes());
                bytes.extend_from_slice(branches.0.as_bytes());
            }
        }
    }
}

/// A branch that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The address of the branch.
    pub from: u64,
    /// Address of the branch's target.
    pub to: u64,
    /// Core cycles since the previous branch; 0 if unknown.
    pub cycles: u16,
    /// The branch was mispredicted.
    pub mispredicted: bool,
}

impl From<abi::perfmon_last_branch> for Branch {
    #[expect(clippy::cast_possible_truncation, reason = "the mask has 16 bits")]
    fn from(raw: abi::perfmon_last_branch) -> Self {
        Self {
            from: raw.from,
            to: raw.to,
            cycles: (raw.info & u64::from(abi::PERFMON_LAST_BRANCH_INFO_CYCLES_MASK)) as u16,
            mispredicted: raw.info & u64::from(abi::PERFMON_LAST_BRANCH_INFO_MISPRED_MASK) != 0,
        }
    }
}

/// The branches of a record, newest first; at most 32.
///
/// ```
/// use perfmon::abi::perfmon_last_branch;
/// use perfmon::trace::Branches;
///
/// let raw = [perfmon_last_branch { from: 0x1000, to: 0x2000, info: 1 << 16 | 25 }];
/// let branches = Branches::new(&raw).unwrap();
/// let newest = branches.iter().next().unwrap();
/// assert_eq!((newest.from, newest.to), (0x1000, 0x2000));
/// assert_eq!((newest.cycles, newest.mispredicted), (25, true));
/// ```
#[derive(Clone, Copy)]
pub struct Branches<'a>(pub(super) &'a [Unalign<abi::perfmon_last_branch>]);

impl<'a> Branches<'a> {
    /// Wraps branches for [`Record::encode`]; returns `None` if there are more than a record can hold.
    #[must_use]
    pub fn new(branches: &'a [abi::perfmon_last_branch]) -> Option<Self> {
        if branches.len() > abi::PERFMON_MAX_NUM_LAST_BRANCH as usize {
            return None;
        }
        <[Unalign<_>]>::ref_from_bytes(branches.as_bytes())
            .ok()
            .map(Self)
    }

    /// Returns an iterator over the branches.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Branch> + use<'a> {
        self.0.iter().map(|branch| branch.get().into())
    }
}
impl PartialEq for Branches<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes() == other.0.as_bytes()
    }
}

impl Eq for Branches<'_> {}

impl fmt::Debug for Branches<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
