// SPDX-License-Identifier: GPL-2.0-only
//! Linux's own policy for performance counters. It holds at each call.

use crate::sys::{compat, error::to_result, ffi, time::jiffies};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use kernel::{bindings, cred::Credential, ffi::c_int, fs::File, prelude::*, sync::aref::ARef};

/// Allows the caller to count what runs on a CPU.
///
/// # Errors
///
/// EPERM if the kernel is locked down, EACCES without `CAP_PERFMON` where `kernel.perf_event_paranoid` asks for it,
/// or the error of a security module.
pub(crate) fn allow_counting() -> Result {
    allow_perf()?;
    to_result(compat::allow_cpu())
}

/// Allows the caller to count in kernel mode.
///
/// # Errors
///
/// EACCES without `CAP_PERFMON` where `kernel.perf_event_paranoid` asks for it, or the error of a security module.
pub(crate) fn allow_kernel() -> Result {
    // SAFETY: The function has no preconditions but task context, which each call of the device has.
    to_result(unsafe { ffi::perfmon_allow_kernel() })
}

/// Returns whether the caller has `CAP_PERFMON`, or `CAP_SYS_ADMIN`.
pub(crate) fn is_capable() -> bool {
    // SAFETY: The function has no preconditions but task context, which each call of the device has.
    let capable = |capability: u32| unsafe { bindings::capable(capability as c_int) };
    capable(bindings::CAP_PERFMON) || capable(bindings::CAP_SYS_ADMIN)
}

/// Allows the use of counters, unless the kernel is locked down.
///
/// # Errors
///
/// EPERM.
#[inline]
pub(crate) fn allow_perf() -> Result {
    // SAFETY: The function has no preconditions but task context, which each call of the device has.
    to_result(unsafe { bindings::security_locked_down(bindings::lockdown_reason_LOCKDOWN_PERF) })
}

/// The opener of a descriptor. Caches the permission check for the opener's credentials, for one jiffy.
///
/// Only openers with `CAP_PERFMON` or `CAP_SYS_ADMIN` are cached, which every `kernel.perf_event_paranoid` allows. A
/// task that loses the capability gets other credentials, since credentials never change. Security modules may
/// change their answer for the same credentials, so they are asked again in the next tick.
pub(crate) struct Opener {
    credentials: ARef<Credential>,
    /// The tick in which [`allow_counting`] last allowed these credentials; 0, which is long past, if it never
    /// did.
    ///
    /// ATOMICS: relaxed. A call that sees an old tick asks again.
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

    /// As [`allow_counting`], for any caller, and quicker for the opener.
    #[inline(always)]
    pub(crate) fn allow_counting(&self) -> Result {
        allow_perf()?;
        // SAFETY: The function has no preconditions but task context, which each call of the device has.
        let current = unsafe { ffi::perfmon_current_cred() };
        if current == self.credentials.as_ptr() && self.allowed_jiffy.load(Relaxed) == jiffies() {
            return Ok(());
        }
        self.check_and_cache(current)
    }

    #[cold]
    fn check_and_cache(&self, current: *const bindings::cred) -> Result {
        let now = jiffies();
        to_result(compat::allow_cpu())?;
        // SAFETY: The credentials are the current task's, which alone could replace them and runs this code.
        let capable = unsafe { ffi::perfmon_is_capable(current) };
        if capable && current == self.credentials.as_ptr() {
            self.allowed_jiffy.store(now, Relaxed);
        }
        Ok(())
    }
}
