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

// SAFETY: `Send` requires that any task may use and drop the value: the C functions that take the pointer may be called
// in any task, and take the locks of its queues.
unsafe impl Send for Wait {}
// SAFETY: `Sync` requires that several tasks may use the value at once: the C functions that take the pointer may run
// at the same time, since they take the locks of its queues.
unsafe impl Sync for Wait {}

impl Wait {
    /// Makes a wait. An interrupt calls `on_last_overflow` after the last overflow.
    /// `on_last_overflow` is `None` for a descriptor without overflows.
    ///
    /// # Errors
    ///
    /// ENOMEM if there is no memory.
    pub(crate) fn new(on_last_overflow: Option<unsafe extern "C" fn()>) -> Result<Self> {
        // SAFETY: The function requires a callback that interrupts can call as long as the wait exists: it is one of
        // the module's functions, and the module is not unloaded before its waits are freed.
        let wait = unsafe { ffi::perfmon_wait_new(on_last_overflow) };
        // INVARIANT: The C function has just made what the pointer points to.
        NonNull::new(wait).map(Self).ok_or(ENOMEM)
    }

    /// Queues an interrupt on this CPU that sends SIGIO. After the last overflow, the interrupt first calls
    /// `on_last_overflow`. Does nothing if [`Self::new`] got no `on_last_overflow`. May be called in any context.
    pub(crate) fn signal_overflow(&self, is_last: bool) {
        let band = if is_last {
            bindings::POLL_HUP
        } else {
            bindings::POLL_IN
        };
        // SAFETY: The function requires a wait that exists: by the type invariant the pointer is from
        // `perfmon_wait_new()`, and only `drop` frees the wait.
        unsafe { ffi::perfmon_wait_overflow(self.0.as_ptr(), band as c_int) };
    }

    /// Waits for the interrupts of the last [`Self::signal_overflow`]. For tasks that may sleep.
    pub(crate) fn wait_for_overflows(&self) {
        // SAFETY: The function requires a wait that exists: by the type invariant the pointer is from
        // `perfmon_wait_new()`, and only `drop` frees the wait.
        unsafe { ffi::perfmon_wait_sync(self.0.as_ptr()) };
    }

    /// Adds a poll(2) to the pollers that the waker and [`Self::hang_up`] wake.
    ///
    /// # Safety
    ///
    /// The wait must exist for as long as the descriptor that is polled.
    pub(crate) unsafe fn poll(&self, poll: &Poll) {
        // SAFETY: The function requires a file and a table that are valid, as the file and the
        // table in `poll` are during the call of poll(2), and a wait that exists until the file is
        // closed, which the caller promises.
        unsafe { ffi::perfmon_wait_poll(self.0.as_ptr(), poll.file, poll.table) };
    }

    /// Adds a file to the files whose owners get SIGIO, or removes the file from them.
    ///
    /// # Errors
    ///
    /// ENOMEM if there is no memory.
    pub(crate) fn fasync(&self, change: &FasyncChange) -> Result {
        let FasyncChange { fd, file, on } = *change;
        // SAFETY: The function requires a valid wait and file: by the type invariant only `drop` frees the wait, and
        // the file of `change` is valid during the call of fcntl(2). When the file is closed, the kernel calls `fasync`
        // to remove it.
        to_result(unsafe { ffi::perfmon_wait_signal(self.0.as_ptr(), fd, file, on) })
    }

    /// Wakes all pollers with EPOLLHUP, and sends SIGIO: no more overflows will follow.
    pub(crate) fn hang_up(&self) {
        // SAFETY: The function requires a wait that exists: by the type invariant the pointer is from
        // `perfmon_wait_new()`, and only `drop` frees the wait.
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
        // SAFETY: The function requires a wait of `perfmon_wait_new()`, which the pointer is by the type invariant, no
        // poller, no waker, and an earlier `perfmon_wait_sync()`. The descriptor that owns the wait was closed, which
        // ended the pollers, removed the waker, and called `wait_for_overflows`, which calls `perfmon_wait_sync()`.
        unsafe { ffi::perfmon_wait_free(self.0.as_ptr()) };
    }
}

/// Wakes pollers, from any context.
///
/// # Invariants
///
/// The pointer is from `perfmon_waker_new()`.
pub(crate) struct Waker(NonNull<ffi::perfmon_waker>);

// SAFETY: `Send` requires that any task may use and drop the value: the C functions that take the pointer may be called
// in any task, and take its lock.
unsafe impl Send for Waker {}
// SAFETY: `Sync` requires that several tasks may use the value at once: the C functions that take the pointer may run
// at the same time, since they take its lock.
unsafe impl Sync for Waker {}

impl Waker {
    /// Makes a waker without pollers.
    ///
    /// # Errors
    ///
    /// ENOMEM if there is no memory.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: `perfmon_waker_new()` requires a caller that may sleep, since it allocates memory: wakers are made for new
        // events and sessions, in system calls.
        let waker = unsafe { ffi::perfmon_waker_new() };
        // INVARIANT: The C function has just made what the pointer points to.
        NonNull::new(waker).map(Self).ok_or(ENOMEM)
    }

    /// Adds `wait` to the waits whose pollers [`Self::wake`] wakes.
    ///
    /// # Safety
    ///
    /// [`Self::remove_wait`] must be called before `wait` or `self` is freed, and `wait` must have no other waker until
    /// then.
    pub(crate) unsafe fn add_wait(&self, wait: &Wait) {
        // SAFETY: The function requires a waker and a wait that exist, and a wait that has no other waker and is
        // removed before either is freed. By the type invariants the pointers are from `perfmon_waker_new()` and
        // `perfmon_wait_new()`, and only `drop` frees what they point to; the caller promises the rest.
        unsafe { ffi::perfmon_waker_add(self.0.as_ptr(), wait.0.as_ptr()) };
    }

    /// Undoes [`Self::add_wait`].
    pub(crate) fn remove_wait(&self, wait: &Wait) {
        // SAFETY: The function requires a waker and a wait that exist: by the type invariants the pointers are from
        // `perfmon_waker_new()` and `perfmon_wait_new()`, and only `drop` frees them, which the two borrows exclude.
        unsafe { ffi::perfmon_waker_remove(self.0.as_ptr(), wait.0.as_ptr()) };
    }

    /// Queues an interrupt that wakes the pollers of all waits, with EPOLLIN.
    pub(crate) fn wake(&self) {
        // SAFETY: The function requires a waker that exists: by the type invariant the pointer is from
        // `perfmon_waker_new()`, and only `drop` frees the waker.
        unsafe { ffi::perfmon_waker_wake(self.0.as_ptr()) };
    }

    /// Returns whether the waker has woken pollers since the last call, and consumes the wakeup.
    pub(crate) fn consume_wakeup(&self) -> bool {
        // SAFETY: The function requires a waker that exists: by the type invariant the pointer is from
        // `perfmon_waker_new()`, and only `drop` frees the waker.
        unsafe { ffi::perfmon_waker_consume_wakeup(self.0.as_ptr()) }
    }
}

impl Drop for Waker {
    fn drop(&mut self) {
        // SAFETY: The function requires a waker of `perfmon_waker_new()`, as the type invariant says, without waits and
        // without other users: `add_wait` requires that its waits are removed before, and `drop` has the only reference.
        unsafe { ffi::perfmon_waker_free(self.0.as_ptr()) };
    }
}

/// Returns the cycles of the time-stamp counter that waking and signalling took on this CPU, in interrupts, since the
/// last call.
pub(crate) fn wake_cycles() -> u64 {
    // SAFETY: The function requires that preemption is off: its callers are interrupts, which are not preempted.
    unsafe { ffi::perfmon_wake_cycles() }
}
