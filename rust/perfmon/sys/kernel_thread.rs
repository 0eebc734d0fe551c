// SPDX-License-Identifier: GPL-2.0-only
//! Work for a kernel thread, which gets to run whatever the priority of the caller is.

use super::ffi;
use core::ptr;
use kernel::ffi::c_void;

/// Has a kernel thread call `f`, and returns when it has. Sleeps.
pub(crate) fn call<F: FnMut() + Send>(mut f: F) {
    /// # Safety
    ///
    /// `f` points to an `F` that nothing else uses.
    unsafe extern "C" fn run<F: FnMut()>(f: *mut c_void) {
        // SAFETY: The caller passes a pointer to an `F` that nothing else uses.
        let f = unsafe { &mut *f.cast::<F>() };
        f();
    }

    // SAFETY: `run` gets a pointer to an `F`, which is `Send`. `run` has returned when
    // `perfmon_call()` returns, so `f` lives long enough.
    unsafe { ffi::perfmon_call(Some(run::<F>), ptr::from_mut(&mut f).cast()) };
}
