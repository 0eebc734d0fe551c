// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct perf_event_attr`: what an event of perf is; for files, and for `perf_event_open(2)`.

use perfmon::Modes;

use super::bytes::{Put, Reader};

/// The size of the structure with all members up to `sample_max_stack`: `PERF_ATTR_SIZE_VER5`.
pub(super) const SIZE: usize = 112;

/// Fields of a sample: bits of `sample_type`.
const SAMPLE_IP: u64 = 1 << 0;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_CPU: u64 = 1 << 7;
const SAMPLE_PERIOD: u64 = 1 << 8;
const SAMPLE_BRANCH_STACK: u64 = 1 << 11;
const SAMPLE_IDENTIFIER: u64 = 1 << 16;

/// Fields at the end of every record that is no sample.
const SAMPLE_ID: u64 = SAMPLE_TID | SAMPLE_TIME | SAMPLE_CPU | SAMPLE_IDENTIFIER;

/// Returns the fields of all samples of a recording, with or without branches.
pub(super) const fn sample_fields(branches: bool) -> u64 {
    let stack = if branches { SAMPLE_BRANCH_STACK } else { 0 };
    SAMPLE_ID | SAMPLE_IP | SAMPLE_PERIOD | stack
}

/// Flags: bits of the word behind `read_format`.
const EXCLUDE_USER: u64 = 1 << 4;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const USE_CLOCKID: u64 = 1 << 25;
/// Executable mappings, in the long and the short form; names of tasks, also by exec; their beginning and end; the
/// switches between them; code that the kernel makes at run time.
const SIDEBAND: u64 = 1 << 8 | 1 << 23 | 1 << 9 | 1 << 24 | 1 << 13 | 1 << 26 | 1 << 29;

/// `branch_sample_type`: branches in programs, in the kernel, of every kind.
const BRANCH_USER: u64 = 1 << 0;
const BRANCH_KERNEL: u64 = 1 << 1;
const BRANCH_ANY: u64 = 1 << 3;

/// Number of an event, by where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// perf's own numbers of common events.
    Hardware(u64),
    /// An event select.
    Raw(u64),
    /// An event that never happens: for what else comes with it.
    Dummy,
    /// Something else, in a file that is not pmctl's.
    Other(u32, u64),
}

/// `PERF_TYPE_*` of the first two, and of the third together with `PERF_COUNT_SW_DUMMY`.
const TYPE_HARDWARE: u32 = 0;
const TYPE_SOFTWARE: u32 = 1;
const TYPE_RAW: u32 = 4;
const SOFTWARE_DUMMY: u64 = 9;

/// An event of perf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attr {
    pub(crate) kind: Kind,
    /// Period; 0 if it differs from sample to sample.
    pub(crate) period: u64,
    /// Fields of its samples.
    pub(crate) fields: u64,
    flags: u64,
    branches: u64,
    /// The clock of the times, if it is not perf's own.
    clock: i32,
}

impl Attr {
    /// Describes an event that was sampled in these modes.
    pub(crate) fn sampled(kind: Kind, period: u64, modes: Modes, branches: bool) -> Self {
        let (excluded, privilege) = match modes {
            Modes::User => (EXCLUDE_KERNEL, BRANCH_USER),
            Modes::Kernel => (EXCLUDE_USER, BRANCH_KERNEL),
            Modes::Both => (0, BRANCH_USER | BRANCH_KERNEL),
        };
        Self {
            kind,
            period,
            fields: sample_fields(branches),
            flags: SAMPLE_ID_ALL | excluded,
            branches: if branches { BRANCH_ANY | privilege } else { 0 },
            clock: 0,
        }
    }

    /// Describes the records of tasks and their memory, without an event; by this clock, or by perf's own.
    pub(crate) fn sideband(clock: Option<i32>) -> Self {
        Self {
            kind: Kind::Dummy,
            period: 0,
            fields: SAMPLE_ID,
            flags: SAMPLE_ID_ALL | SIDEBAND | clock.map_or(0, |_| USE_CLOCKID),
            branches: 0,
            clock: clock.unwrap_or(0),
        }
    }

    /// Returns whether its samples have branches.
    pub(crate) const fn has_branches(&self) -> bool {
        self.fields & SAMPLE_BRANCH_STACK != 0
    }

    /// Encodes the structure.
    pub(crate) fn encode(&self) -> [u8; SIZE] {
        let (kind, config) = match self.kind {
            Kind::Hardware(config) => (TYPE_HARDWARE, config),
            Kind::Raw(select) => (TYPE_RAW, select),
            Kind::Dummy => (TYPE_SOFTWARE, SOFTWARE_DUMMY),
            Kind::Other(kind, config) => (kind, config),
        };
        let mut bytes = Vec::with_capacity(SIZE);
        bytes.u32(kind);
        bytes.u32(112);
        bytes.u64(config);
        bytes.u64(self.period);
        bytes.u64(self.fields);
        bytes.u64(0); // read_format
        bytes.u64(self.flags);
        bytes.u64(0); // wakeup_events, bp_type
        bytes.u64(0); // config1
        bytes.u64(0); // config2
        bytes.u64(self.branches);
        bytes.u64(0); // sample_regs_user
        bytes.u32(0); // sample_stack_user
        bytes.extend(self.clock.to_le_bytes());
        let mut whole = [0; SIZE];
        whole[..bytes.len()].copy_from_slice(&bytes);
        whole
    }

    /// Decodes the structure, as far as pmctl uses it.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let (kind, _size) = (reader.u32()?, reader.u32()?);
        let config = reader.u64()?;
        let (period, fields) = (reader.u64()?, reader.u64()?);
        let (_read_format, flags) = (reader.u64()?, reader.u64()?);
        reader.take(24)?;
        let branches = reader.u64()?;
        reader.take(12)?;
        let clock = i32::from_le_bytes(reader.take(4)?.try_into().ok()?);
        let kind = match (kind, config) {
            (TYPE_HARDWARE, _) => Kind::Hardware(config),
            (TYPE_RAW, _) => Kind::Raw(config),
            (TYPE_SOFTWARE, SOFTWARE_DUMMY) => Kind::Dummy,
            _ => Kind::Other(kind, config),
        };
        Some(Self {
            kind,
            period,
            fields,
            flags,
            branches,
            clock,
        })
    }
}
