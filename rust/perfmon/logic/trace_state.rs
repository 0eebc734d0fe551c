// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The states of a trace.
//!
//! ```text
//!          ALLOC_TRACE             STAGE_CONFIG            START
//!   Idle --------------> Allocated --------------> Staged --------> Running
//!    ^    FREE_TRACE      |                        |   ^     STOP     |
//!    |____________________|________________________|   |______________|
//! ```
//! STAGE_CONFIG in Staged replaces the config. STOP in Allocated and in Staged changes nothing. A
//! call that only returns something changes nothing in any state. close(2) stops the trace and
//! frees its buffers, in any state.

use {TraceState::Allocated, TraceState::Idle, TraceState::Running, TraceState::Staged};

/// The state of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceState {
    /// The trace has no buffers.
    Idle,
    /// The trace has buffers.
    Allocated,
    /// The trace has buffers and a config.
    Staged,
    /// The trace is being recorded.
    Running,
}

/// A call that is allowed in some states only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceCall {
    /// `IOCTL_PERFMON_ALLOC_TRACE`
    Alloc,
    /// `IOCTL_PERFMON_FREE_TRACE`
    Free,
    /// `IOCTL_PERFMON_GET_ALLOC`
    GetAlloc,
    /// `IOCTL_PERFMON_STAGE_CONFIG`
    Stage,
    /// `IOCTL_PERFMON_GET_CONFIG`
    GetConfig,
    /// `IOCTL_PERFMON_GET_BUFFER_HANDLE`
    GetBufferHandle,
    /// `IOCTL_PERFMON_START`
    Start,
    /// `IOCTL_PERFMON_STOP`
    Stop,
    /// `PERFMON_DEFINE_EVENT`
    Define,
}

/// The call is not allowed in this state: `EBADFD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongState;

impl TraceState {
    /// Returns the state after `call` has succeeded.
    ///
    /// # Errors
    ///
    /// [`WrongState`] if the call is not allowed in this state.
    pub const fn after(self, call: TraceCall) -> Result<Self, WrongState> {
        Ok(match (call, self) {
            (TraceCall::Alloc, Idle) => Allocated,
            (TraceCall::Stage, Allocated | Staged) | (TraceCall::Stop, Running) => Staged,
            (TraceCall::Free, Allocated | Staged) => Idle,
            (TraceCall::Start, Staged) => Running,
            (TraceCall::Stop | TraceCall::GetBufferHandle, Allocated | Staged)
            | (TraceCall::GetAlloc, Allocated | Staged | Running)
            | (TraceCall::GetConfig, Staged)
            | (TraceCall::Define, Idle | Allocated) => self,
            _ => return Err(WrongState),
        })
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_trace_state))]
mod tests {
    use super::*;

    const STATES: [TraceState; 4] = [Idle, Allocated, Staged, Running];

    #[test]
    fn transitions_follow_the_diagram() {
        let not_allowed = None;
        let rows = [
            (
                TraceCall::Alloc,
                [Some(Allocated), not_allowed, not_allowed, not_allowed],
            ),
            (
                TraceCall::Free,
                [not_allowed, Some(Idle), Some(Idle), not_allowed],
            ),
            (
                TraceCall::GetAlloc,
                [not_allowed, Some(Allocated), Some(Staged), Some(Running)],
            ),
            (
                TraceCall::Stage,
                [not_allowed, Some(Staged), Some(Staged), not_allowed],
            ),
            (
                TraceCall::GetConfig,
                [not_allowed, not_allowed, Some(Staged), not_allowed],
            ),
            (
                TraceCall::GetBufferHandle,
                [not_allowed, Some(Allocated), Some(Staged), not_allowed],
            ),
            (
                TraceCall::Start,
                [not_allowed, not_allowed, Some(Running), not_allowed],
            ),
            (
                TraceCall::Stop,
                [not_allowed, Some(Allocated), Some(Staged), Some(Staged)],
            ),
            (
                TraceCall::Define,
                [Some(Idle), Some(Allocated), not_allowed, not_allowed],
            ),
        ];
        for (call, after) in rows {
            for (state, expected) in STATES.into_iter().zip(after) {
                assert_eq!(state.after(call).ok(), expected);
            }
        }
    }
}
