// SPDX-License-Identifier: GPL-2.0-only
//! Linux's own policy for performance counters. It holds at each call.

use crate::{
    compat,
    cpu::{jiffies, Word},
    error::to_result,
    ffi,
};
use kernel::{bindings, cred::Credential, ffi::c_void, fs::File, prelude::*, sync::aref::ARef};

/// Whether the caller may count what runs on a CPU.
///
/// # Errors
///
/// EPERM if the kernel is locked down, EACCES without `CAP_PERFMON` where
/// `kernel.perf_event_paranoid` asks for it, or what a security module answers.
pub(crate) fn allow_counting() -> Result {
    allow_perf()?;
    to_result(compat::allow_cpu())
}

/// Whether the kernel is not locked down.
#[inline]
fn allow_perf() -> Result {
    // SAFETY: Always callable.
    to_result(unsafe { bindings::security_locked_down(bindings::lockdown_reason_LOCKDOWN_PERF) })
}

/// Who opened a descriptor, and when she was last allowed to count: so that somebody who reads again
/// and again is not looked at each time.
///
/// Only an opener with `CAP_PERFMON` or `CAP_SYS_ADMIN` is remembered: for her
/// `kernel.perf_event_paranoid` says yes whatever it is. She loses the capability with her credentials,
/// which never change but are replaced. What other security modules say may change under the same
/// credentials: it is asked again in the next tick.
pub(crate) struct Opener {
    credentials: ARef<Credential>,
    /// When [`allow_counting`] last said yes to these credentials, in ticks; 0, which has long passed
    /// when the system is up, if it was never asked.
    allowed: Word,
}

impl Opener {
    /// The one who opened `file`.
    pub(crate) fn new(file: &File) -> Self {
        Self {
            credentials: file.cred().into(),
            allowed: Word::new(0),
        }
    }

    /// As [`allow_counting`], for any caller.
    #[inline(always)]
    pub(crate) fn allow_counting(&self) -> Result {
        allow_perf()?;
        // SAFETY: Always callable.
        let current = unsafe { ffi::perfmon_current_cred() };
        if current == self.credentials.as_ptr().cast() && self.allowed.get() == jiffies() {
            return Ok(());
        }
        self.ask(current)
    }

    #[cold]
    fn ask(&self, current: *const c_void) -> Result {
        let now = jiffies();
        to_result(compat::allow_cpu())?;
        // SAFETY: They are the current task's, which alone could replace them, and does not meanwhile.
        let capable = unsafe { ffi::perfmon_is_capable(current) };
        if capable && current == self.credentials.as_ptr().cast() {
            self.allowed.set(now);
        }
        Ok(())
    }
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
