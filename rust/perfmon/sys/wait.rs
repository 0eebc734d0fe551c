// SPDX-License-Identifier: GPL-2.0-only
//! Waiting for a descriptor by poll(2) or SIGIO, and waking from any context. `kernel::sync::poll` has no SIGIO, and its
//! wait queues can't be woken in an NMI.

use super::{
    descriptor::{FasyncChange, Poll},
    error::to_result,
    ffi,
};
use core::ptr::NonNull;
use kernel::{bindings, prelude::*};

/// The queues at which programs wait for a descriptor.
///
/// # Invariants
///
/// The pointer is from `perfmon_wait_new()`.
pub(crate) struct Wait(NonNull<ffi::perfmon_wait>);

// SAFETY: The C functions that take the pointer may be called in any task: they take the locks of its queues.
unsafe impl Send for Wait {}
// SAFETY: The C functions that take the pointer may run at the same time: they take the locks of its queues.
unsafe impl Sync for Wait {}

impl Wait {
    /// Makes a wait. `ended` is called in an interrupt after the last overflow; `None` if there are no overflows.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub(crate) fn new(ended: Option<unsafe extern "C" fn()>) -> Result<Self> {
        // SAFETY: The function lives as long as the module.
        let wait = unsafe { ffi::perfmon_wait_new(ended) };
        // INVARIANT: The C function has just made what the pointer points to.
        NonNull::new(wait).map(Self).ok_or(ENOMEM)
    }

    /// Queues an interrupt on this CPU that sends SIGIO, from any context. After the last overflow, it calls `ended`
    /// first. Does nothing if [`Self::new`] got no `ended`.
    pub(crate) fn signal_overflow(&self, is_last: bool) {
        let band = if is_last {
            bindings::POLL_HUP
        } else {
            bindings::POLL_IN
        };
        // SAFETY: By the type invariant the pointer is from `perfmon_wait_new()`, and only `drop` frees it.
        unsafe { ffi::perfmon_wait_overflow(self.0.as_ptr(), band as c_int) };
    }

    /// Waits for the interrupts of the last [`Self::signal_overflow`]. For tasks that may sleep.
    pub(crate) fn wait_for_overflows(&self) {
        // SAFETY: By the type invariant the pointer is from `perfmon_wait_new()`, and only `drop` frees it.
        unsafe { ffi::perfmon_wait_sync(self.0.as_ptr()) };
    }

    /// Adds a poll(2) to the pollers, which are woken later.
    ///
    /// # Safety
    ///
    /// The wait must exist for as long as the descriptor that is polled.
    pub(crate) unsafe fn poll(&self, poll: &Poll) {
        // SAFETY: The file and the table are valid while the call lasts. The poller stays in the queue until its descriptor is
        // closed, and the caller says that the wait exists until then.
        unsafe { ffi::perfmon_wait_poll(self.0.as_ptr(), poll.file, poll.table) };
    }

    /// Adds a file to those whose owners get SIGIO, or removes it.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub(crate) fn fasync(&self, change: &FasyncChange) -> Result {
        let FasyncChange { fd, file, on } = *change;
        // SAFETY: The file is valid while the call lasts; when it is closed, the kernel calls this to remove it.
        to_result(unsafe { ffi::perfmon_wait_signal(self.0.as_ptr(), fd, file, on) })
    }

    /// Wakes all pollers with EPOLLHUP, and sends SIGIO: nothing will come any more.
    pub(crate) fn hang_up(&self) {
        // SAFETY: By the type invariant the pointer is from `perfmon_wait_new()`, and only `drop` frees it.
        unsafe {
            ffi::perfmon_wait_wake(
                self.0.as_ptr(),
                bindings::POLLHUP,
                bindings::POLL_HUP as c_int,
            );
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the pointer is from `perfmon_wait_new()`. The descriptor has been closed, so no
        // program waits, and has called `wait_for_overflows` before.
        unsafe { ffi::perfmon_wait_free(self.0.as_ptr()) };
    }
}

/// Wakes pollers, from any context.
///
/// # Invariants
///
/// The pointer is from `perfmon_waker_new()`.
pub(crate) struct Waker(NonNull<ffi::perfmon_waker>);

// SAFETY: The C functions that take the pointer may be called in any task: they take its lock.
unsafe impl Send for Waker {}
// SAFETY: The C functions that take the pointer may run at the same time: they take its lock.
unsafe impl Sync for Waker {}

impl Waker {
    /// Makes a waker without pollers.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: The function has no preconditions.
        let waker = unsafe { ffi::perfmon_waker_new() };
        // INVARIANT: The C function has just made what the pointer points to.
        NonNull::new(waker).map(Self).ok_or(ENOMEM)
    }

    /// Wakes the pollers of `wait`, too, from now on.
    ///
    /// # Safety
    ///
    /// [`Self::remove_wait`] must be called before `wait` is freed, and `wait` has no other waker until then.
    pub(crate) unsafe fn add_wait(&self, wait: &Wait) {
        // SAFETY: By the type invariants the pointers are from `perfmon_waker_new()` and `perfmon_wait_new()`, and the
        // caller calls `remove_wait` before `wait` is freed.
        unsafe { ffi::perfmon_waker_add(self.0.as_ptr(), wait.0.as_ptr()) };
    }

    /// Undoes [`Self::add_wait`].
    pub(crate) fn remove_wait(&self, wait: &Wait) {
        // SAFETY: By the type invariants the pointers are from `perfmon_waker_new()` and `perfmon_wait_new()`, whose
        // memory exists as long as the two borrows.
        unsafe { ffi::perfmon_waker_remove(self.0.as_ptr(), wait.0.as_ptr()) };
    }

    /// Queues an interrupt that wakes the pollers of all waits, with EPOLLIN.
    pub(crate) fn wake(&self) {
        // SAFETY: By the type invariant the pointer is from `perfmon_waker_new()`, and only `drop` frees it.
        unsafe { ffi::perfmon_waker_wake(self.0.as_ptr()) };
    }

    /// Returns whether the waker has woken pollers since the last call.
    pub(crate) fn take_woken(&self) -> bool {
        // SAFETY: By the type invariant the pointer is from `perfmon_waker_new()`, and only `drop` frees it.
        unsafe { ffi::perfmon_waker_take_woken(self.0.as_ptr()) }
    }
}

impl Drop for Waker {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the pointer is from `perfmon_waker_new()`, and nothing else uses the waker any
        // more.
        unsafe { ffi::perfmon_waker_free(self.0.as_ptr()) };
    }
}

/// Returns the cycles of the time-stamp counter that waking and signalling took on this CPU, in interrupts, since the
/// last call.
pub(crate) fn wake_cycles() -> u64 {
    // SAFETY: The function needs preemption off: its callers are interrupts, which are not preempted.
    unsafe { ffi::perfmon_wake_cycles() }
}
