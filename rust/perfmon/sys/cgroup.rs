// SPDX-License-Identifier: GPL-2.0-only
//! Cgroups of version 2.

use super::ffi;
use core::ptr::NonNull;
use kernel::{bindings, error::from_err_ptr, prelude::*};

/// A cgroup.
///
/// # Invariants
///
/// The pointer is a reference.
pub(crate) struct Cgroup(NonNull<ffi::cgroup>);

// SAFETY: A reference may be used and given back by any task.
unsafe impl Send for Cgroup {}
// SAFETY: Several tasks may look at a cgroup at once.
unsafe impl Sync for Cgroup {}

impl Cgroup {
    /// Returns the cgroup whose directory the caller has open.
    ///
    /// # Errors
    ///
    /// EBADF if that is no directory of a cgroup of version 2, ENOENT if it has been removed, EOPNOTSUPP if the kernel has
    /// no cgroups.
    pub(crate) fn get(fd: i32) -> Result<Self> {
        // SAFETY: The function has no preconditions.
        let cgroup = from_err_ptr(unsafe { ffi::perfmon_cgroup_get(fd) })?;
        // INVARIANT: The function returns a reference.
        NonNull::new(cgroup).map(Self).ok_or(EBADF)
    }

    /// Returns the address of the kernel's `struct cgroup`.
    pub(crate) fn as_ptr(&self) -> *mut ffi::cgroup {
        self.0.as_ptr()
    }

    /// Returns the number of cgroups that it is in.
    pub(crate) fn level(&self) -> i32 {
        // SAFETY: The cgroup is alive, since `self` has a reference.
        unsafe { ffi::perfmon_cgroup_level(self.as_ptr()) }
    }

    /// Returns the number that the kernel gives it, which its directory has as its inode.
    pub(crate) fn id(&self) -> u64 {
        // SAFETY: The cgroup is alive, since `self` has a reference.
        unsafe { ffi::perfmon_cgroup_id(self.as_ptr()) }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // SAFETY: By the type invariant it is a reference, which is given back once.
        unsafe { ffi::perfmon_cgroup_put(self.as_ptr()) };
    }
}

/// Returns the cgroup of a task, or that at `level` which it is in, and those that this is in, from the inside.
///
/// # Safety
///
/// The task is alive, and the caller has preemption off as long as it uses them.
pub(crate) unsafe fn of_task(
    task: *mut bindings::task_struct,
    level: i32,
) -> impl Iterator<Item = NonNull<ffi::cgroup>> {
    // SAFETY: The task is alive, and the caller has preemption off.
    let first = NonNull::new(unsafe { ffi::perfmon_cgroup_of(task, level) });
    core::iter::successors(first, |cgroup| {
        // SAFETY: A cgroup keeps those that it is in, and the caller has preemption off, so the task's is not freed.
        NonNull::new(unsafe { ffi::perfmon_cgroup_parent(cgroup.as_ptr()) })
    })
}
