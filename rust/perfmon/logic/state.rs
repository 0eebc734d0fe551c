// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The life of a counter.
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
//! *START of a stopped counter goes on from its value. READ and GET change nothing, in any state.

/// The state of a counter that was set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It holds its value.
    Stopped,
    /// It counts.
    Running,
}

/// A call that changes a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `PMIOSETUP`
    Setup,
    /// `PMIOSTART`
    Start,
    /// `PMIOSTOP`
    Stop,
    /// `PMIORESET`
    Reset,
}

/// What has to be done on every CPU for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing: it is as the call wants it.
    Nothing,
    /// Stop the counter if it runs, write its configuration, make its value zero.
    Program,
    /// Let it count.
    Enable,
    /// Stop it, and take its value.
    Disable,
    /// Make its value zero; the hardware goes on.
    Zero,
}

/// The counter was never set up: `EBUSY`, in FreeBSD's sense of the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotSetUp;

impl State {
    /// What `call` does to a counter that is in `state`; `None` is one that was never set up.
    ///
    /// # Errors
    ///
    /// [`NotSetUp`] for every call but [`Call::Setup`] on such a one.
    pub const fn after(state: Option<Self>, call: Call) -> Result<(Self, Action), NotSetUp> {
        use {Action as A, State::Running, State::Stopped};
        Ok(match (call, state) {
            (Call::Setup, _) => (Stopped, A::Program),
            (_, None) => return Err(NotSetUp),
            (Call::Start, Some(Stopped)) => (Running, A::Enable),
            (Call::Start, Some(Running)) => (Running, A::Nothing),
            (Call::Stop, Some(Running)) => (Stopped, A::Disable),
            (Call::Stop, Some(Stopped)) => (Stopped, A::Nothing),
            (Call::Reset, Some(same)) => (same, A::Zero),
        })
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_state))]
mod tests {
    use super::State::{Running, Stopped};
    use super::*;

    #[test]
    fn every_row_of_the_specification() {
        let rows = [
            (None, Call::Setup, Ok((Stopped, Action::Program))),
            (None, Call::Start, Err(NotSetUp)),
            (None, Call::Stop, Err(NotSetUp)),
            (None, Call::Reset, Err(NotSetUp)),
            (Some(Stopped), Call::Setup, Ok((Stopped, Action::Program))),
            (Some(Stopped), Call::Start, Ok((Running, Action::Enable))),
            (Some(Stopped), Call::Stop, Ok((Stopped, Action::Nothing))),
            (Some(Stopped), Call::Reset, Ok((Stopped, Action::Zero))),
            (Some(Running), Call::Setup, Ok((Stopped, Action::Program))),
            (Some(Running), Call::Start, Ok((Running, Action::Nothing))),
            (Some(Running), Call::Stop, Ok((Stopped, Action::Disable))),
            (Some(Running), Call::Reset, Ok((Running, Action::Zero))),
        ];
        for (state, call, expected) in rows {
            assert_eq!(State::after(state, call), expected);
        }
    }
}
