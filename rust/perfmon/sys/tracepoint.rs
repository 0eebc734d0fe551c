// SPDX-License-Identifier: GPL-2.0-only
//! Tracepoints, by name: `kernel::tracepoint` is for those that Rust code declares.

use core::ptr::{self, NonNull};
use kernel::{
    bindings,
    error::to_result,
    ffi::{c_char, c_void},
    prelude::*,
    str::CStr,
};

/// A function that a tracepoint calls.
///
/// # Invariants
///
/// `tracepoint` is one of the kernel's own, which exist for ever, and `function` has the type that it asks for.
pub(crate) struct Probe {
    tracepoint: NonNull<bindings::tracepoint>,
    function: *mut c_void,
}

// SAFETY: The tracepoint exists for ever, and the kernel's functions that use it have their own lock.
unsafe impl Send for Probe {}
// SAFETY: The tracepoint exists for ever, and the kernel's functions that use it have their own lock.
unsafe impl Sync for Probe {}

impl Probe {
    /// Finds the tracepoint `name`, and prepares to have it call `function`.
    ///
    /// # Errors
    ///
    /// ENOENT if this kernel has no such tracepoint.
    ///
    /// # Safety
    ///
    /// `function` must be what the tracepoint `name` asks for: a C function of a pointer, and of the tracepoint's
    /// arguments.
    pub(crate) unsafe fn new(name: &'static CStr, function: *mut c_void) -> Result<Self> {
        /// A name, and the tracepoint that was found for it.
        struct Search {
            name: &'static CStr,
            found: *mut bindings::tracepoint,
        }

        /// # Safety
        ///
        /// `tracepoint` is one of the kernel's, and `search` points to a `Search`.
        unsafe extern "C" fn visit(tracepoint: *mut bindings::tracepoint, search: *mut c_void) {
            // SAFETY: `for_each_kernel_tracepoint` passes the pointer to `search` that `new` gives it.
            let search = unsafe { &mut *search.cast::<Search>() };
            // SAFETY: The name of a tracepoint is a string that exists as long as it does.
            let name = unsafe { CStr::from_char_ptr((*tracepoint).name.cast::<c_char>()) };
            if name == search.name {
                search.found = tracepoint;
            }
        }

        let mut search = Search {
            name,
            found: ptr::null_mut(),
        };
        // SAFETY: `visit` gets the kernel's tracepoints and a pointer to `search`, which lives as long as the call.
        unsafe {
            bindings::for_each_kernel_tracepoint(Some(visit), ptr::from_mut(&mut search).cast());
        }
        // INVARIANT: The kernel's own tracepoints exist for ever. The caller says that the function has the type that
        // the tracepoint asks for.
        Ok(Self {
            tracepoint: NonNull::new(search.found).ok_or(ENOENT)?,
            function,
        })
    }

    /// Makes the tracepoint call the function, on all CPUs from now on. Sleeps, and takes the kernel's
    /// `cpu_hotplug_lock`.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub(crate) fn register(&self) -> Result {
        // SAFETY: The tracepoint exists for ever, and `function` has its type.
        to_result(unsafe {
            bindings::tracepoint_probe_register(
                self.tracepoint.as_ptr(),
                self.function,
                ptr::null_mut(),
            )
        })
    }

    /// Makes the tracepoint call the function no more. Some calls may still be under way.
    pub(crate) fn unregister(&self) {
        // SAFETY: The tracepoint exists for ever, and `function` has its type. An error would say that it was not
        // registered.
        unsafe {
            bindings::tracepoint_probe_unregister(
                self.tracepoint.as_ptr(),
                self.function,
                ptr::null_mut(),
            );
        }
    }
}
