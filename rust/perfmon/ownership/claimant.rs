// SPDX-License-Identifier: GPL-2.0-only
//! The programs that asked for the counters in use. `PERFMON_GET_OWNER` reports them to a program whose counter was
//! refused.

use crate::sys::ffi;

/// A program that has asked for a counter.
///
/// # Invariants
///
/// `process` is a counted reference.
pub(crate) struct Claimant {
    /// The process of the program. The process is not stored as a PID, which the kernel may give to
    /// another process.
    process: *mut ffi::pid,
    /// The name of the thread that asked (comm).
    pub(super) name: [u8; 16],
}

// SAFETY: `Send` requires that any task may use and drop the value: `process` is a reference that belongs to no
// task, and the kernel counts references atomically.
unsafe impl Send for Claimant {}
// SAFETY: `Sync` requires that several tasks may use the value at once: a shared reference only allows reading the name
// and looking up the PID, which changes nothing.
unsafe impl Sync for Claimant {}

impl Claimant {
    /// Returns the current task's process and name.
    pub(super) fn current() -> Self {
        let mut name = [0; 16];
        // SAFETY: The function requires room for the 16 bytes that it writes: `name` has them.
        unsafe { ffi::perfmon_own_name(name.as_mut_ptr().cast()) };
        // INVARIANT: The function returns a counted reference.
        // SAFETY: `perfmon_own_process()` looks at the current task only: it has no preconditions.
        let process = unsafe { ffi::perfmon_own_process() };
        Self { process, name }
    }

    /// Returns another reference to the program.
    pub(super) fn another(&self) -> Self {
        // SAFETY: The function requires a process that is not freed: by the type invariant `process` is a counted
        // reference.
        let process = unsafe { ffi::perfmon_process_get(self.process) };
        // INVARIANT: The function returns a counted reference.
        Self {
            process,
            name: self.name,
        }
    }

    /// Returns the PID of the process in the caller's PID namespace; 0 if it has no PID there, or has exited.
    pub(super) fn process_number(&self) -> i32 {
        // SAFETY: The function requires a process that is not freed: `process` is a counted reference.
        unsafe { ffi::perfmon_process_number(self.process) }
    }
}

impl Drop for Claimant {
    fn drop(&mut self) {
        // SAFETY: The function requires a counted reference, which it takes over: by the type invariant `process` is
        // one, and only `drop` puts it.
        unsafe { ffi::perfmon_process_put(self.process) };
    }
}
