// SPDX-License-Identifier: GPL-2.0-only
//! Linux's own policy for performance counters. It holds at each call.

use crate::{cpu::jiffies, ffi};
use kernel::{
    bindings, cred::Credential, error::to_result, ffi::c_void, prelude::*, sync::aref::ARef,
};

/// Whether the caller may count what runs on a CPU.
///
/// # Errors
///
/// EPERM if the kernel is locked down, EACCES without `CAP_PERFMON` where
/// `kernel.perf_event_paranoid` asks for it, or what a security module answers.
pub(crate) fn allow_counting() -> Result {
    allow_perf()?;
    // SAFETY: Always callable.
    to_result(unsafe { ffi::perfmon_allow_cpu() })
}

/// Whether the kernel is not locked down.
#[inline]
fn allow_perf() -> Result {
    // SAFETY: Always callable.
    to_result(unsafe { bindings::security_locked_down(bindings::lockdown_reason_LOCKDOWN_PERF) })
}

/// Who was last allowed to count, so that somebody who reads again and again is not looked at each
/// time.
///
/// Only callers with `CAP_PERFMON` or `CAP_SYS_ADMIN` are remembered: for them
/// `kernel.perf_event_paranoid` says yes whatever it is. They lose the capability with their
/// credentials, which never change but are replaced. What other security modules say may change under
/// the same credentials: it is asked again in the next tick.
pub(crate) struct Allowed {
    /// Held, so that no others get the same address.
    credentials: Option<ARef<Credential>>,
    /// The time of the answer.
    tick: u64,
}

impl Allowed {
    pub(crate) const fn nobody() -> Self {
        Self {
            credentials: None,
            tick: 0,
        }
    }

    /// As [`allow_counting`].
    #[inline]
    pub(crate) fn counting(&mut self) -> Result {
        allow_perf()?;
        // SAFETY: Always callable.
        let current = unsafe { ffi::perfmon_current_cred() };
        match &self.credentials {
            Some(known) if known.as_ptr().cast() == current && self.tick == jiffies() => Ok(()),
            _ => self.ask(current),
        }
    }

    #[cold]
    fn ask(&mut self, current: *const c_void) -> Result {
        let tick = jiffies();
        // SAFETY: Always callable.
        to_result(unsafe { ffi::perfmon_allow_cpu() })?;
        // SAFETY: They are the current task's, which alone could replace them, and does not meanwhile.
        let capable = unsafe { ffi::perfmon_is_capable(current) };
        // SAFETY: As above.
        let current = unsafe { Credential::from_ptr(current.cast()) };
        *self = Self {
            credentials: capable.then(|| ARef::from(current)),
            tick,
        };
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
