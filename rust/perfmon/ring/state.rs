// SPDX-License-Identifier: GPL-2.0-only
//! The state of an event: enabled, disabled or closed. Calls of the descriptor change it, and so does the overflow
//! handler, which disables the event after the last sample that was allowed.

use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

/// The event is enabled. It counts if its group's leader is enabled, too.
const ENABLED: u64 = 1;
/// The lowest bit of the number of changes, which is in the bits above [`ENABLED`].
const ONE_CHANGE: u64 = 2;
/// The state of a closed event.
const CLOSED: u64 = u64::MAX - 1;

/// The state of an event, enabled or disabled, and the number of its changes.
///
/// ATOMICS: loaded relaxed, since the call that changes the state makes the CPUs load it again. A change has release
/// order and pairs with the acquire in [`Self::changes`]: a CPU that sees a change also sees what was written before
/// it, for example that more samples were allowed.
pub(crate) struct EventState(AtomicU64);

impl EventState {
    /// Returns the state of a new event: disabled.
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Returns whether the event is enabled for a task: for all tasks, or by an exec of this task. `enabled_at` is the
    /// value of [`Self::changes`] at the exec. The exec's effect ends with the next change.
    #[inline(always)]
    pub(crate) fn is_enabled(&self, enabled_at: u64) -> bool {
        let state = self.0.load(Relaxed);
        state & ENABLED != 0 || state / ONE_CHANGE == enabled_at
    }

    /// Returns the number of changes of the state so far.
    pub(crate) fn changes(&self) -> u64 {
        self.0.load(Acquire) / ONE_CHANGE
    }

    /// Enables or disables the event for all tasks.
    #[inline]
    pub(crate) fn set_enabled(&self, enabled: bool) {
        while !self.change(self.0.load(Relaxed), enabled) {}
    }

    /// Disables the event, unless its state was changed since [`Self::changes`] returned `changes`. Returns whether
    /// it was not changed.
    pub(super) fn disable_unless_changed(&self, changes: u64) -> bool {
        let state = self.0.load(Relaxed);
        state / ONE_CHANGE == changes && self.change(state, false)
    }

    /// Changes the state, if it still is `state`, and returns whether it was. The state of a closed event is kept.
    #[inline]
    fn change(&self, state: u64, enabled: bool) -> bool {
        if state == CLOSED {
            return true;
        }
        // The number of changes does not overflow: 2^63 changes take centuries.
        let next = (state & !ENABLED).wrapping_add(ONE_CHANGE);
        let enabled = if enabled { ENABLED } else { 0 };
        (self.0)
            .compare_exchange(state, next | enabled, Release, Relaxed)
            .is_ok()
    }

    /// Closes the event: it is disabled for all tasks, and stays so.
    pub(crate) fn close(&self) {
        self.0.store(CLOSED, SeqCst);
    }

    /// Returns whether the event is closed, so that no task inherits it any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.load(SeqCst) == CLOSED
    }
}
