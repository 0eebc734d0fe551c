// SPDX-License-Identifier: GPL-2.0-only
//! The owners of counters and of the branch records: sessions, the trace, and events.

use crate::logic::{
    branches::Branches, counter_state::CounterState, evtsel::EventSelect, sharing::CounterUsers,
};

/// The ID of a session, which lasts from one open(2) of the device to the last close(2) of its descriptor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionId(pub(super) u64);

/// The owner of a counter within the module.
#[derive(Clone, Copy)]
#[allow(
    clippy::large_enum_variant,
    reason = "the owners of all counters are in one static array"
)]
pub(super) enum Owner {
    /// A session that has set the counter up to count.
    Session(CountingSetup),
    /// The trace that is running.
    Trace,
    /// Events, which share the counter.
    Events(CounterUsers),
}

/// A counter that a session has set up to count.
#[derive(Clone, Copy)]
pub(crate) struct CountingSetup {
    pub(crate) session: SessionId,
    pub(crate) select: EventSelect,
    pub(crate) state: CounterState,
}

/// The user of the branch records.
#[derive(Clone, Copy)]
pub(super) enum BranchUser {
    /// A trace.
    Trace,
    /// Events with this filter, and their number.
    Events(Branches, u32),
}
