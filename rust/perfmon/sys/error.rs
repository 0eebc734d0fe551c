// SPDX-License-Identifier: GPL-2.0-only
//! Converts errors of the logic to errnos. The table in linux/perfmon.h says what each errno means.

use crate::logic::{
    counter::InvalidCounter, counter_state::NotSetUp, event_attr::InvalidAttr,
    trace_config::InvalidConfig, trace_state::WrongState,
};
use kernel::{bindings, ffi::c_int, prelude::*};

/// Converts the result of a C function that returns 0 or a negative errno. Inlined, unlike
/// `kernel::error::to_result`.
#[inline(always)]
pub(crate) fn to_result(code: c_int) -> Result {
    if code == 0 {
        Ok(())
    } else {
        Err(Error::from_errno(code))
    }
}

/// Returns the error with this number, for errnos without a constant in Linux 7.2.
pub(crate) fn errno(number: u32) -> Error {
    Error::from_errno(-(number as c_int))
}

/// Returns the error of PMIO and traces for an event that these CPUs can't count. Only events have ENOENT.
pub(crate) fn of_uncounted(error: InvalidAttr) -> Error {
    match error {
        InvalidAttr::NoEvent => EINVAL,
        other => other.into(),
    }
}

impl From<InvalidCounter> for Error {
    fn from(_: InvalidCounter) -> Self {
        EINVAL
    }
}

impl From<InvalidConfig> for Error {
    fn from(_: InvalidConfig) -> Self {
        EINVAL
    }
}

impl From<WrongState> for Error {
    fn from(_: WrongState) -> Self {
        errno(bindings::EBADFD)
    }
}

impl From<NotSetUp> for Error {
    fn from(_: NotSetUp) -> Self {
        EBUSY
    }
}
