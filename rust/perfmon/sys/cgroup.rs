// SPDX-License-Identifier: GPL-2.0-only
//! Cgroups: the counted ones, of two hierarchies, and those in samples and records.

use super::ffi;
use crate::logic::{hierarchy::Hierarchy, mapping::NAME_WORDS};
use core::ptr::NonNull;
use kernel::{bindings, error::from_err_ptr, prelude::*};

/// The kernel has cgroups.
pub(crate) const EXIST: bool = cfg!(CONFIG_CGROUPS);

/// A cgroup.
///
/// # Invariants
///
/// The pointer is a counted reference, which the value owns.
pub(crate) struct Cgroup(NonNull<ffi::cgroup>);

// SAFETY: `Send` requires that any task may use and drop the value: a reference to a cgroup belongs to no task,
// and the kernel counts references atomically.
unsafe impl Send for Cgroup {}
// SAFETY: `Sync` requires that several tasks may use the value at once: the functions of `&Cgroup` read numbers of the
// cgroup that never change.
unsafe impl Sync for Cgroup {}

impl Cgroup {
    /// Returns the cgroup whose directory the caller has open.
    ///
    /// # Errors
    ///
    /// EBADF if that is no directory of a cgroup in a [`Hierarchy`], ENOENT if it has been removed, EOPNOTSUPP if the
    /// kernel has no cgroups.
    pub(crate) fn get(fd: i32) -> Result<Self> {
        // SAFETY: `perfmon_cgroup_get()` requires task context, since it looks `fd` up among the files of the current task:
        // the only caller serves perfmon's OPEN call.
        let cgroup = from_err_ptr(unsafe { ffi::perfmon_cgroup_get(fd) })?;
        // INVARIANT: The function returns a reference.
        NonNull::new(cgroup).map(Self).ok_or(EBADF)
    }

    /// Returns the address of the kernel's `struct cgroup`.
    pub(crate) fn as_ptr(&self) -> *mut ffi::cgroup {
        self.0.as_ptr()
    }

    /// Returns the hierarchy that the cgroup is in.
    pub(crate) fn hierarchy(&self) -> Hierarchy {
        // SAFETY: The function requires a cgroup that is alive: `self` has a reference to it.
        if unsafe { ffi::perfmon_cgroup_is_of_version_1(self.as_ptr()) } {
            Hierarchy::Version1
        } else {
            Hierarchy::Version2
        }
    }

    /// Returns the number of cgroups that this one is in; 0 for the root.
    pub(crate) fn level(&self) -> i32 {
        // SAFETY: The function requires a cgroup that is alive: `self` has a reference to it.
        unsafe { ffi::perfmon_cgroup_level(self.as_ptr()) }
    }

    /// Returns the number of the cgroup, which is the inode number of its directory.
    pub(crate) fn id(&self) -> u64 {
        // SAFETY: The function requires a cgroup that is alive: `self` has a reference to it.
        unsafe { ffi::perfmon_cgroup_id(self.as_ptr()) }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // SAFETY: The function requires a reference that it may drop: by the type invariant the value owns one, which
        // is dropped only here.
        unsafe { ffi::perfmon_cgroup_put(self.as_ptr()) };
    }
}

/// Returns the cgroup of a task in a hierarchy, or that cgroup's ancestor at `level` if the cgroup is deeper. `None` if
/// there is no such hierarchy.
///
/// # Safety
///
/// The task must be alive, and the caller must have interrupts off as long as it uses the result.
#[inline(always)]
pub(crate) unsafe fn innermost_of_task(
    task: *mut bindings::task_struct,
    hierarchy: Hierarchy,
    level: i32,
) -> Option<NonNull<ffi::cgroup>> {
    let find = match hierarchy {
        Hierarchy::Version2 => ffi::perfmon_cgroup_of,
        Hierarchy::Version1 => ffi::perfmon_cgroup_of_version_1,
    };
    // SAFETY: Both functions require a task that is alive, and interrupts off: the caller promises both.
    NonNull::new(unsafe { find(task, level) })
}

/// Returns the cgroup of [`innermost_of_task`], and then its ancestors up to the root.
///
/// # Safety
///
/// The task must be alive, and the caller must have interrupts off as long as it uses the result.
pub(crate) unsafe fn of_task(
    task: *mut bindings::task_struct,
    hierarchy: Hierarchy,
    level: i32,
) -> impl Iterator<Item = NonNull<ffi::cgroup>> {
    // SAFETY: `innermost_of_task` requires a task that is alive, and interrupts off as long as the result is used: the
    // caller promises both.
    let first = unsafe { innermost_of_task(task, hierarchy, level) };
    core::iter::successors(first, |cgroup| {
        // SAFETY: The function requires a cgroup that is not freed: with interrupts off, as the caller promises, the
        // task's cgroup stays, and a cgroup has references to its ancestors.
        NonNull::new(unsafe { ffi::perfmon_cgroup_parent(cgroup.as_ptr()) })
    })
}

/// Returns the ID of a cgroup and the words of its path, which are padded with zeros. `None` if the cgroup is not in the
/// hierarchy of perf's controller.
///
/// # Safety
///
/// The cgroup must be alive, and the caller must have interrupts off.
pub(crate) unsafe fn describe(
    cgroup: *mut ffi::cgroup,
    path: &mut [u64; NAME_WORDS],
) -> Option<(u64, &[u64])> {
    // SAFETY: The function requires a cgroup that is alive, and interrupts off: the caller promises both.
    if !unsafe { ffi::perfmon_cgroup_is_of_perf(cgroup) } {
        return None;
    }
    // SAFETY: The function requires a cgroup that is alive, which the caller promises, and room for 4096 bytes:
    // `path` has `NAME_WORDS` words, 4096 bytes.
    let size = unsafe { ffi::perfmon_cgroup_path(cgroup, path.as_mut_ptr().cast()) };
    // SAFETY: The function requires a cgroup that is alive, which the caller promises.
    let id = unsafe { ffi::perfmon_cgroup_id(cgroup) };
    Some((id, path.get(..size / size_of::<u64>())?))
}
