// SPDX-License-Identifier: GPL-2.0-only
//! Work for a kernel thread, which gets to run whatever the priority of the caller is.

use super::ffi;
use core::ptr;
use kernel::ffi::c_void;

/// Makes a kernel thread call `f`, and waits until `f` has returned. Sleeps.
pub(crate) fn call<F: FnMut() + Send>(mut f: F) {
    /// Calls the `F` at `f`.
    ///
    /// # Safety
    ///
    /// `f` must point to an `F` that nothing else uses.
    unsafe extern "C" fn run<F: FnMut()>(f: *mut c_void) {
        // SAFETY: A `&mut` requires a valid `F` that nothing else uses: the caller passes a pointer to one.
        let f = unsafe { &mut *f.cast::<F>() };
        f();
    }

    // SAFETY: `run` requires a pointer to an `F` that nothing else uses, and another thread may use an `F`, since it is
    // `Send`. `f` lives long enough, since `perfmon_call()` waits until `run` has returned.
    unsafe { ffi::perfmon_call(Some(run::<F>), ptr::from_mut(&mut f).cast()) };
}
