// SPDX-License-Identifier: GPL-2.0-only
//! The state of an event: enabled, disabled or closed. The overflow handler, too, disables it: after the last sample
//! that was allowed.

use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

/// The event counts where it is not disabled by its group.
const ENABLED: u64 = 1;
/// The lowest bit of the number of changes.
const ONE_CHANGE: u64 = 2;
/// The event is closed.
const CLOSED: u64 = u64::MAX - 1;

/// The state of an event, enabled or disabled, and the number of its changes.
///
/// ATOMICS: relaxed, as the call that changes it makes the CPUs look at it again. Changes are releases, and
/// [`Self::changes`] is their acquire: a reader of one sees what was done before it, as that more samples were allowed.
pub(crate) struct EventState(AtomicU64);

impl EventState {
    /// Returns the state of a new event: disabled.
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Returns whether a task may be counted: the event is enabled; or an exec has enabled it for this task after
    /// `enabled_at` changes of the state, and the state was not changed since.
    #[inline(always)]
    pub(crate) fn is_enabled(&self, enabled_at: u64) -> bool {
        let state = self.0.load(Relaxed);
        state & ENABLED != 0 || state / ONE_CHANGE == enabled_at
    }

    /// Returns how often the state was changed.
    pub(crate) fn changes(&self) -> u64 {
        self.0.load(Acquire) / ONE_CHANGE
    }

    /// Enables or disables the event for all tasks.
    #[inline]
    pub(crate) fn set_enabled(&self, enabled: bool) {
        while !self.change(self.0.load(Relaxed), enabled) {}
    }

    /// Disables the event, unless its state was changed after the first `changes` changes. Returns whether the state
    /// had not been changed.
    pub(super) fn disable_unless_changed(&self, changes: u64) -> bool {
        let state = self.0.load(Relaxed);
        state / ONE_CHANGE == changes && self.change(state, false)
    }

    /// Changes the state from this one. Returns whether it still was this one; that of a closed event stays.
    #[inline]
    fn change(&self, state: u64, enabled: bool) -> bool {
        if state == CLOSED {
            return true;
        }
        // 2^63 changes are never made.
        let next = (state & !ENABLED).wrapping_add(ONE_CHANGE);
        let enabled = if enabled { ENABLED } else { 0 };
        (self.0)
            .compare_exchange(state, next | enabled, Release, Relaxed)
            .is_ok()
    }

    /// Closes the event for all tasks.
    pub(crate) fn close(&self) {
        self.0.store(CLOSED, SeqCst);
    }

    /// Returns whether the event is closed: no task inherits it any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.load(SeqCst) == CLOSED
    }
}
