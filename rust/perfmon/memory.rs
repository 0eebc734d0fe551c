// SPDX-License-Identifier: GPL-2.0-only
//! Accounting of the memory that programs pin: as for the buffers of Linux perf.

use crate::{compat, error::to_result, ffi, module_parameters};
use core::mem::MaybeUninit;
use kernel::prelude::*;

/// Pages that are charged to a user and an address space until the value is dropped.
///
/// # Invariants
///
/// [`ffi::perfmon_charge`] has filled it in.
pub(crate) struct Charge(ffi::Charge);

// SAFETY: The user and the address space are counted references, and their counters are atomic: a charge
// may end in any task.
unsafe impl Send for Charge {}
// SAFETY: No method takes a shared reference.
unsafe impl Sync for Charge {}

impl Charge {
    /// Charges the current task for `pages`: its user as far as `perf_event_mlock_kb` allows, then its
    /// address space as far as RLIMIT_MEMLOCK does.
    ///
    /// # Errors
    ///
    /// EPERM if it is more than both allow, and the task lacks `CAP_IPC_LOCK`.
    pub(crate) fn new(pages: u32) -> Result<Self> {
        let user_kb = compat::parameter(&module_parameters::perf_event_mlock_kb);
        let mut charge = MaybeUninit::uninit();
        // SAFETY: The pointer is to room for a charge. Calls of the device are made by tasks of programs, which
        // have an address space.
        to_result(unsafe { ffi::perfmon_charge(charge.as_mut_ptr(), pages, user_kb) })?;
        // INVARIANT: The function has succeeded.
        // SAFETY: The function fills it in when it succeeds.
        Ok(Self(unsafe { charge.assume_init() }))
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        // SAFETY: By the type invariant there is something to end, and this is the only time.
        unsafe { ffi::perfmon_uncharge(&self.0) };
    }
}
