// SPDX-License-Identifier: GPL-2.0-only
//! Linux's own policy for performance counters, asked at each call.

use crate::ffi;
use kernel::{bindings, error::to_result, prelude::*};

/// Whether the caller may count what runs on a CPU.
///
/// # Errors
///
/// EPERM if the kernel is locked down, EACCES without `CAP_PERFMON` where
/// `kernel.perf_event_paranoid` asks for it, or what a security module answers.
#[inline]
pub(crate) fn allow_counting() -> Result {
    // SAFETY: Always callable.
    to_result(unsafe { bindings::security_locked_down(bindings::lockdown_reason_LOCKDOWN_PERF) })?;
    // SAFETY: Always callable.
    to_result(unsafe { ffi::perfmon_allow_cpu() })
}

/// Whether the caller may count what the kernel does.
///
/// # Errors
///
/// EACCES without `CAP_PERFMON` where `kernel.perf_event_paranoid` asks for it, or what a security
/// module answers.
pub(crate) fn allow_kernel() -> Result {
    // SAFETY: Always callable.
    to_result(unsafe { ffi::perfmon_allow_kernel() })
}
