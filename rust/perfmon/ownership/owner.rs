// SPDX-License-Identifier: GPL-2.0-only
//! The owners of counters and of the branch records: sessions, the trace, and events.

use crate::{
    logic::{
        branches::Branches, core_kinds::CoreKind, counter_state::CounterState, evtsel::EventSelect,
        sharing::CounterUsers,
    },
    percpu::PerCpu,
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
    /// The kind of core on whose CPUs the counter counts; `None` for all CPUs.
    pub(crate) kind: Option<CoreKind>,
    pub(crate) state: CounterState,
}

impl CountingSetup {
    /// Returns whether the counter counts on a CPU.
    #[inline]
    pub(crate) fn counts_on(&self, percpu: &PerCpu) -> bool {
        self.kind.is_none_or(|kind| kind == percpu.core_kind())
    }
}

/// The user of the branch records.
#[derive(Clone, Copy)]
pub(super) enum BranchUser {
    /// A trace.
    Trace,
    /// Events with this filter, and their number.
    Events(Branches, u32),
}
