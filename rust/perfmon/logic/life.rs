// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The life of a trace.
//!
//! ```text
//!          ALLOC_TRACE             STAGE_CONFIG            START
//!   Idle --------------> Allocated --------------> Staged --------> Running
//!    ^    FREE_TRACE      |                        |   ^     STOP     |
//!    |____________________|________________________|   |______________|
//! ```
//! STAGE_CONFIG in Staged replaces the config. STOP in Allocated and in Staged, and the queries, change
//! nothing. close(2) stops and frees, in any state.

use {Life::Allocated, Life::Idle, Life::Running, Life::Staged};

/// The state of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// There is none.
    Idle,
    /// It has buffers.
    Allocated,
    /// It knows what to record, too.
    Staged,
    /// It records.
    Running,
}

/// A call that wants a trace in certain states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
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

/// The call is for another state: `EBADFD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongState;

impl Life {
    /// The state after a `call` that succeeds.
    ///
    /// # Errors
    ///
    /// [`WrongState`] if the call can't be made in this one.
    pub const fn after(self, call: Call) -> Result<Self, WrongState> {
        Ok(match (call, self) {
            (Call::Alloc, Idle) => Allocated,
            (Call::Stage, Allocated | Staged) | (Call::Stop, Running) => Staged,
            (Call::Free, Allocated | Staged) => Idle,
            (Call::Start, Staged) => Running,
            (Call::Stop | Call::GetBufferHandle, Allocated | Staged)
            | (Call::GetAlloc, Allocated | Staged | Running)
            | (Call::GetConfig, Staged)
            | (Call::Define, Idle | Allocated) => self,
            _ => return Err(WrongState),
        })
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_life))]
mod tests {
    use super::*;

    const STATES: [Life; 4] = [Idle, Allocated, Staged, Running];

    #[test]
    fn every_row_of_the_specification() {
        let no = None;
        let rows = [
            (Call::Alloc, [Some(Allocated), no, no, no]),
            (Call::Free, [no, Some(Idle), Some(Idle), no]),
            (
                Call::GetAlloc,
                [no, Some(Allocated), Some(Staged), Some(Running)],
            ),
            (Call::Stage, [no, Some(Staged), Some(Staged), no]),
            (Call::GetConfig, [no, no, Some(Staged), no]),
            (
                Call::GetBufferHandle,
                [no, Some(Allocated), Some(Staged), no],
            ),
            (Call::Start, [no, no, Some(Running), no]),
            (
                Call::Stop,
                [no, Some(Allocated), Some(Staged), Some(Staged)],
            ),
            (Call::Define, [Some(Idle), Some(Allocated), no, no]),
        ];
        for (call, after) in rows {
            for (state, expected) in STATES.into_iter().zip(after) {
                assert_eq!(state.after(call).ok(), expected);
            }
        }
    }
}
