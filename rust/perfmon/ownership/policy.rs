// SPDX-License-Identifier: GPL-2.0-only
//! Linux's policy for performance counters (`kernel.perf_event_paranoid`, capabilities, lockdown, security modules),
//! which is checked at each call.

use crate::sys::{compat, error::to_result, ffi, time::jiffies};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use kernel::{bindings, cred::Credential, ffi::c_int, fs::File, prelude::*, sync::aref::ARef};

/// Checks that the caller may count all that runs on a CPU.
///
/// # Errors
///
/// EPERM if the kernel is locked down, EACCES without `CAP_PERFMON` where `kernel.perf_event_paranoid` requires it,
/// or the error of a security module.
pub(crate) fn check_may_count_cpu() -> Result {
    check_lockdown()?;
    to_result(compat::allow_cpu())
}

/// Checks that the caller may count in kernel mode.
///
/// # Errors
///
/// EACCES without `CAP_PERFMON` where `kernel.perf_event_paranoid` requires it, or the error of a security module.
pub(crate) fn check_may_count_kernel() -> Result {
    // SAFETY: The function looks at the current task, so it must be called in task context: all callers are system
    // calls on the device.
    to_result(unsafe { ffi::perfmon_allow_kernel() })
}

/// Returns whether the caller has `CAP_PERFMON` or `CAP_SYS_ADMIN`.
pub(crate) fn is_capable() -> bool {
    // SAFETY: The function looks at the current task, so it must be called in task context: all callers are system
    // calls on the device.
    let has_capability = |capability: u32| unsafe { bindings::capable(capability as c_int) };
    has_capability(bindings::CAP_PERFMON) || has_capability(bindings::CAP_SYS_ADMIN)
}

/// Checks that the kernel is not locked down against performance counters.
///
/// # Errors
///
/// EPERM if the kernel is locked down.
#[inline]
pub(crate) fn check_lockdown() -> Result {
    // SAFETY: The function looks at the current task, so it must be called in task context: all callers are system
    // calls on the device.
    to_result(unsafe { bindings::security_locked_down(bindings::lockdown_reason_LOCKDOWN_PERF) })
}

/// The opener of a descriptor. Caches the permission check for the opener's credentials, for one jiffy.
///
/// Only the check of openers with `CAP_PERFMON` or `CAP_SYS_ADMIN` is cached: every `kernel.perf_event_paranoid`
/// allows them to count. A task that loses the capability gets new credentials, since credentials never change.
/// Security modules may change their answer for the same credentials, so they are asked again in the next jiffy.
pub(crate) struct Opener {
    credentials: ARef<Credential>,
    /// The last jiffy in which [`check_may_count_cpu`] allowed these credentials; 0, which stands
    /// for a jiffy long past, if it has never allowed them.
    ///
    /// ATOMICS: relaxed. A call that sees an old number makes the check again.
    allowed_jiffy: AtomicU64,
}

impl Opener {
    /// Returns the opener of `file`.
    pub(crate) fn new(file: &File) -> Self {
        Self {
            credentials: file.cred().into(),
            allowed_jiffy: AtomicU64::new(0),
        }
    }

    /// Checks that the caller may count all that runs on a CPU, as [`check_may_count_cpu`] does. Uses the cached result
    /// if the caller has the opener's credentials.
    #[inline(always)]
    pub(crate) fn check_may_count_cpu(&self) -> Result {
        check_lockdown()?;
        // SAFETY: The function looks at the current task, so it must be called in task context: all callers are
        // system calls on the device.
        let current = unsafe { ffi::perfmon_current_cred() };
        if current == self.credentials.as_ptr() && self.allowed_jiffy.load(Relaxed) == jiffies() {
            return Ok(());
        }
        self.check_and_cache(current)
    }

    /// Checks whether the caller, whose credentials are `current`, may count all that runs on a CPU, and caches the
    /// result for the opener.
    #[cold]
    fn check_and_cache(&self, current: *const bindings::cred) -> Result {
        let now = jiffies();
        to_result(compat::allow_cpu())?;
        // SAFETY: The function requires credentials that are alive: `current` are the credentials
        // of the current task, which only the task itself could replace, and it runs this code.
        let has_capability = unsafe { ffi::perfmon_is_capable(current) };
        if has_capability && current == self.credentials.as_ptr() {
            self.allowed_jiffy.store(now, Relaxed);
        }
        Ok(())
    }
}
