// SPDX-License-Identifier: GPL-2.0-only
//! Tracepoints that are found by name: `kernel::tracepoint` is for tracepoints that Rust code declares.

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
/// `tracepoint` is one of the kernel's own, which exist for ever, and `function` has the type that the tracepoint calls.
pub(crate) struct Probe {
    tracepoint: NonNull<bindings::tracepoint>,
    function: *mut c_void,
}

// SAFETY: `Send` requires that any task may use and drop the value: the tracepoint exists for ever, `function` is only
// passed to the kernel, and dropping the two pointers does nothing.
unsafe impl Send for Probe {}
// SAFETY: `Sync` requires that several tasks may use the value at once: its fields never change, and the kernel's
// functions that get them take the lock of tracepoints.
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
    /// `function` must have the type that the tracepoint `name` calls: a C function whose
    /// parameters are a pointer and then the tracepoint's arguments.
    pub(crate) unsafe fn new(name: &'static CStr, function: *mut c_void) -> Result<Self> {
        /// A name, and the tracepoint that was found for this name.
        struct Search {
            name: &'static CStr,
            tracepoint: *mut bindings::tracepoint,
        }

        /// Stores the tracepoint in the `Search` at `search` if it has the name.
        ///
        /// # Safety
        ///
        /// `tracepoint` must be one of the kernel's, and `search` must point to a `Search` that nothing else uses.
        unsafe extern "C" fn find_by_name(
            tracepoint: *mut bindings::tracepoint,
            search: *mut c_void,
        ) {
            // SAFETY: A `&mut` requires a valid `Search` that nothing else uses: the caller passes a pointer to one.
            let search = unsafe { &mut *search.cast::<Search>() };
            // SAFETY: The dereference requires a valid tracepoint, and `from_char_ptr` a string that ends with 0 and
            // lives as long as the result: the caller passes one of the kernel's tracepoints, which exists for ever, as
            // does its name.
            let name = unsafe { CStr::from_char_ptr((*tracepoint).name.cast::<c_char>()) };
            if name == search.name {
                search.tracepoint = tracepoint;
            }
        }

        let mut search = Search {
            name,
            tracepoint: ptr::null_mut(),
        };
        // SAFETY: `find_by_name` requires one of the kernel's tracepoints, and a `Search` that nothing else uses: the
        // function passes each tracepoint with the pointer to `search`, which is not used otherwise during the call.
        unsafe {
            bindings::for_each_kernel_tracepoint(
                Some(find_by_name),
                ptr::from_mut(&mut search).cast(),
            );
        }
        // INVARIANT: `find_by_name` has stored one of the kernel's own tracepoints. The caller promises that the
        // function has the type that the tracepoint calls.
        Ok(Self {
            tracepoint: NonNull::new(search.tracepoint).ok_or(ENOENT)?,
            function,
        })
    }

    /// Makes the tracepoint call the function, on all CPUs from now on. Sleeps, and takes the kernel's
    /// `cpu_hotplug_lock`.
    ///
    /// # Errors
    ///
    /// ENOMEM if there is no memory.
    pub(crate) fn register(&self) -> Result {
        // SAFETY: The function requires a tracepoint that exists, and a function of the type that it calls: both hold by
        // the type invariant.
        to_result(unsafe {
            bindings::tracepoint_probe_register(
                self.tracepoint.as_ptr(),
                self.function,
                ptr::null_mut(),
            )
        })
    }

    /// Ends the calls of the function by the tracepoint. Calls that have begun may still be under way.
    pub(crate) fn unregister(&self) {
        // SAFETY: The function requires a tracepoint that exists, which holds by the type invariant. It returns an error
        // if the function is not registered there, and changes nothing.
        unsafe {
            bindings::tracepoint_probe_unregister(
                self.tracepoint.as_ptr(),
                self.function,
                ptr::null_mut(),
            );
        }
    }
}
