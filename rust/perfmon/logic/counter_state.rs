// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The states of a counter of the counting interface.
//!
//! ```text
//!              SETUP                  START
//!   (none) ----------> Stopped ------------------> Running
//!      ^               |  ^  ^ SETUP    SETUP, STOP  |  | START, RESET
//!      |    close      |  |__| START*,               |  |____
//!      |_______________|      STOP, RESET            |      |
//!      |                  ^__________________________|  ____|
//!      |_____________________________________________________ close
//! ```
//! *START of a stopped counter continues from its value. READ and GET change nothing, in any state.

/// The state of a counter that was set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterState {
    /// The counter holds its value.
    Stopped,
    /// The counter counts.
    Running,
}

/// A call that changes a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterCall {
    /// `PMIOSETUP`
    Setup,
    /// `PMIOSTART`
    Start,
    /// `PMIOSTOP`
    Stop,
    /// `PMIORESET`
    Reset,
}

/// The work that a call does on every CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing: the counter is already in the state that the call sets.
    Nothing,
    /// Stop the counter if it runs, write its configuration, set its value to 0.
    Program,
    /// Start the counter.
    Enable,
    /// Stop the counter and update its value.
    Disable,
    /// Set the value to 0; the hardware counter continues.
    Zero,
}

/// The counter was never set up: `EBUSY`, as in FreeBSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotSetUp;

impl CounterState {
    /// Returns the state after `call`, and the work on every CPU. The state `None` means that the
    /// counter was never set up.
    ///
    /// # Errors
    ///
    /// [`NotSetUp`] for every call but [`CounterCall::Setup`] on a counter that was never set up.
    pub const fn after(state: Option<Self>, call: CounterCall) -> Result<(Self, Action), NotSetUp> {
        use {Action as A, CounterState::Running, CounterState::Stopped};
        Ok(match (call, state) {
            (CounterCall::Setup, _) => (Stopped, A::Program),
            (_, None) => return Err(NotSetUp),
            (CounterCall::Start, Some(Stopped)) => (Running, A::Enable),
            (CounterCall::Start, Some(Running)) => (Running, A::Nothing),
            (CounterCall::Stop, Some(Running)) => (Stopped, A::Disable),
            (CounterCall::Stop, Some(Stopped)) => (Stopped, A::Nothing),
            (CounterCall::Reset, Some(same)) => (same, A::Zero),
        })
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_counter_state))]
mod tests {
    use super::CounterState::{Running, Stopped};
    use super::*;

    #[test]
    fn transitions_follow_the_diagram() {
        let rows = [
            (None, CounterCall::Setup, Ok((Stopped, Action::Program))),
            (None, CounterCall::Start, Err(NotSetUp)),
            (None, CounterCall::Stop, Err(NotSetUp)),
            (None, CounterCall::Reset, Err(NotSetUp)),
            (
                Some(Stopped),
                CounterCall::Setup,
                Ok((Stopped, Action::Program)),
            ),
            (
                Some(Stopped),
                CounterCall::Start,
                Ok((Running, Action::Enable)),
            ),
            (
                Some(Stopped),
                CounterCall::Stop,
                Ok((Stopped, Action::Nothing)),
            ),
            (
                Some(Stopped),
                CounterCall::Reset,
                Ok((Stopped, Action::Zero)),
            ),
            (
                Some(Running),
                CounterCall::Setup,
                Ok((Stopped, Action::Program)),
            ),
            (
                Some(Running),
                CounterCall::Start,
                Ok((Running, Action::Nothing)),
            ),
            (
                Some(Running),
                CounterCall::Stop,
                Ok((Stopped, Action::Disable)),
            ),
            (
                Some(Running),
                CounterCall::Reset,
                Ok((Running, Action::Zero)),
            ),
        ];
        for (state, call, expected) in rows {
            assert_eq!(CounterState::after(state, call), expected);
        }
    }
}
