// SPDX-License-Identifier: GPL-2.0-only
//! Accounting of the memory that programs pin, as Linux perf accounts its buffers.

use crate::{
    module_parameters,
    sys::{compat, error::to_result, ffi},
};
use core::mem::MaybeUninit;
use kernel::prelude::*;

/// Pages that are charged to a user and an address space, until the value is dropped.
///
/// # Invariants
///
/// The value was filled in by [`ffi::perfmon_charge`].
pub(crate) struct Charge(ffi::perfmon_charge);

// SAFETY: The user and the address space are counted references with atomic counters, so that any task may end the
// charge.
unsafe impl Send for Charge {}
// SAFETY: There is no method that takes a shared reference.
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
        // SAFETY: The pointer is to memory for a charge. Calls of the device are made by tasks of programs, which
        // have an address space.
        to_result(unsafe { ffi::perfmon_charge(charge.as_mut_ptr(), pages, user_kb) })?;
        // INVARIANT: The function has succeeded.
        // SAFETY: The function has succeeded, and so has filled it in.
        Ok(Self(unsafe { charge.assume_init() }))
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the charge was made; it is ended only here.
        unsafe { ffi::perfmon_uncharge(&self.0) };
    }
}
