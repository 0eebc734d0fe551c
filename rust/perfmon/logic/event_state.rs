// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The state of an event: enabled, disabled or closed. Calls of the descriptor change it, and so does the overflow
//! handler, which disables the event after the last sample that was allowed.

use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

/// The event is enabled. The event counts if the leader of its group is enabled, too.
const ENABLED: u64 = 1;
/// The lowest bit of the number of changes, which is in the bits between [`ENABLED`] and [`CLOSED`].
const ONE_CHANGE: u64 = 2;
/// The event is closed. All other bits are 0.
const CLOSED: u64 = 1 << 63;

/// The state of an event, enabled or disabled, and the number of its changes.
///
/// ATOMICS: loaded relaxed, since the call that changes the state makes the CPUs load it again. A change has release
/// order and pairs with the acquire in [`Self::changes`]: a CPU that sees a change also sees what was written before
/// it, for example that more samples were allowed.
pub struct EventState(AtomicU64);

/// The number of changes of an event's state up to a moment.
///
/// # Invariants
///
/// The value is [`Self::NEVER`], or has the bits [`ENABLED`] and [`CLOSED`] clear. So it never equals the state of a
/// closed event, which has the bit [`ENABLED`] clear and the bit [`CLOSED`] set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changes(u64);

impl Changes {
    /// A number of changes that no state has.
    pub const NEVER: Self = Self(u64::MAX);

    /// Returns the number of changes in a state.
    #[inline(always)]
    const fn of(state: u64) -> Self {
        // INVARIANT: The two bits are cleared.
        Self(state & !(ENABLED | CLOSED))
    }
}

impl EventState {
    /// Returns the state of a new event: disabled.
    #[must_use]
    pub const fn disabled() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Returns whether the event is enabled for a task: for all tasks, or by an exec of this task. `enabled_at` is the
    /// value of [`Self::changes`] at the exec. The exec's effect ends with the next change. A closed event is not
    /// enabled, whatever `enabled_at` is.
    #[inline(always)]
    pub fn is_enabled(&self, enabled_at: Changes) -> bool {
        let state = self.0.load(Relaxed);
        state & ENABLED != 0 || state == enabled_at.0
    }

    /// Returns whether the siblings in the group that the event leads may count: the event is
    /// [enabled for the task](Self::is_enabled), or is closed, so that its siblings count alone.
    #[inline(always)]
    pub fn lets_siblings_count(&self, enabled_at: Changes) -> bool {
        let state = self.0.load(Relaxed);
        state & (ENABLED | CLOSED) != 0 || state == enabled_at.0
    }

    /// Returns the number of changes of the state so far.
    pub fn changes(&self) -> Changes {
        Changes::of(self.0.load(Acquire))
    }

    /// Enables or disables the event for all tasks.
    #[inline]
    pub fn set_enabled(&self, enabled: bool) {
        while !self.change(self.0.load(Relaxed), enabled) {}
    }

    /// Disables the event, unless its state was changed since [`Self::changes`] returned `changes`. Returns whether
    /// the state was unchanged.
    pub fn disable_unless_changed(&self, changes: Changes) -> bool {
        let state = self.0.load(Relaxed);
        Changes::of(state) == changes && self.change(state, false)
    }

    /// Changes the state, if it still is `state`, and returns whether it was. Returns true without
    /// a change if `state` is the state of a closed event.
    #[inline]
    fn change(&self, state: u64, enabled: bool) -> bool {
        if state == CLOSED {
            return true;
        }
        // The number of changes does not overflow: 2^62 changes take centuries.
        let next = (state & !ENABLED).wrapping_add(ONE_CHANGE);
        let enabled = if enabled { ENABLED } else { 0 };
        (self.0)
            .compare_exchange(state, next | enabled, Release, Relaxed)
            .is_ok()
    }

    /// Closes the event: it is disabled for all tasks, and stays so.
    pub fn close(&self) {
        self.0.store(CLOSED, SeqCst);
    }

    /// Returns whether the event is closed, so that no task inherits it any more.
    pub fn is_closed(&self) -> bool {
        self.0.load(SeqCst) == CLOSED
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_event_state))]
mod tests {
    use super::*;

    #[test]
    fn exec_enables_a_disabled_event_until_its_next_change() {
        let state = EventState::disabled();
        assert!(!state.is_enabled(Changes::NEVER));
        assert!(!state.lets_siblings_count(Changes::NEVER));
        let at_exec = state.changes();
        assert!(state.is_enabled(at_exec));
        state.set_enabled(true);
        assert!(state.is_enabled(at_exec));
        assert!(state.is_enabled(Changes::NEVER));
        state.set_enabled(false);
        assert!(!state.is_enabled(at_exec));
        assert!(!state.is_enabled(Changes::NEVER));
    }

    #[test]
    fn exec_long_ago_does_not_enable_an_event() {
        let at_exec = EventState::disabled().changes();
        for bit in [29, 30, 31, 32, 40, 61] {
            let state = EventState(AtomicU64::new(((1 << bit) - 1) * ONE_CHANGE));
            state.set_enabled(false);
            assert!(state.changes() != at_exec);
            assert!(!state.is_enabled(at_exec));
            assert!(!state.disable_unless_changed(at_exec));
        }
    }

    #[test]
    fn closed_event_is_never_enabled() {
        let state = EventState::disabled();
        let before_close = state.changes();
        state.close();
        assert!(state.is_closed());
        // An exec between the close and the removal of the slots.
        let after_close = state.changes();
        for enabled_at in [before_close, after_close, Changes::NEVER] {
            assert!(!state.is_enabled(enabled_at));
            assert!(state.lets_siblings_count(enabled_at));
        }
        state.set_enabled(true);
        assert!(state.is_closed());
        assert!(!state.is_enabled(Changes::NEVER));
    }

    #[test]
    fn last_sample_disables_an_event_that_has_not_changed() {
        let state = EventState::disabled();
        state.set_enabled(true);
        let changes = state.changes();
        state.set_enabled(true);
        assert!(!state.disable_unless_changed(changes));
        assert!(state.is_enabled(Changes::NEVER));
        assert!(state.disable_unless_changed(state.changes()));
        assert!(!state.is_enabled(Changes::NEVER));
        // The overflow handler tries until this is true.
        state.close();
        assert!(state.disable_unless_changed(state.changes()));
    }
}
