// SPDX-License-Identifier: GPL-2.0-only
//! Accounting of the memory that programs pin, by the rules of Linux perf's buffers.

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
/// The charge was made by [`ffi::perfmon_charge`], and was not ended yet.
pub(crate) struct Charge(ffi::perfmon_charge);

// SAFETY: `Send` requires that any task may use and drop the value: the charge has counted references to the user and
// the address space, whose counters are atomic, so any task may end the charge.
unsafe impl Send for Charge {}
// SAFETY: `Sync` requires that several tasks may use the value at once: no method takes a shared reference.
unsafe impl Sync for Charge {}

impl Charge {
    /// Charges the current task for `pages` pages: first its user, up to `perf_event_mlock_kb`, then its address
    /// space, up to RLIMIT_MEMLOCK.
    ///
    /// # Errors
    ///
    /// EPERM if the pages exceed both limits, and the task lacks `CAP_IPC_LOCK`.
    pub(crate) fn new(pages: u32) -> Result<Self> {
        let user_kb = compat::parameter(&module_parameters::perf_event_mlock_kb);
        let mut charge = MaybeUninit::uninit();
        // SAFETY: The function requires room for a charge, which `charge` is, and a task with an address space: only
        // programs call the device.
        to_result(unsafe { ffi::perfmon_charge(charge.as_mut_ptr(), pages, user_kb) })?;
        // INVARIANT: `perfmon_charge()` has succeeded, so the charge was made.
        // SAFETY: `assume_init` requires an initialized value: `perfmon_charge()` has succeeded, so it has filled in the
        // charge.
        Ok(Self(unsafe { charge.assume_init() }))
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        // SAFETY: The function requires a charge that was made and not ended yet, which is the invariant of `Charge`.
        unsafe { ffi::perfmon_uncharge(&self.0) };
    }
}
