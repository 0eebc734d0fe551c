// SPDX-License-Identifier: GPL-2.0-only
//! Cgroups: the counted cgroups of two hierarchies, and the cgroups in samples and records.

use super::ffi;
use crate::logic::{hierarchy::Hierarchy, mapping::NAME_WORDS};
use core::{marker::PhantomData, ptr::NonNull};
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
    /// Returns the cgroup whose directory the caller has open as `fd`.
    ///
    /// # Errors
    ///
    /// EBADF if `fd` is not open for the directory of a cgroup in a [`Hierarchy`], ENOENT if the cgroup has been
    /// removed, EOPNOTSUPP if the kernel has no cgroups.
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

    /// Returns the number of cgroups that this cgroup is in; 0 for the root.
    pub(crate) fn level(&self) -> u64 {
        // CAST: A level is not negative.
        // SAFETY: The function requires a cgroup that is alive: `self` has a reference to it.
        (unsafe { ffi::perfmon_cgroup_level(self.as_ptr()) }) as u64
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

/// The cgroup of a task in one hierarchy, and its ancestors.
///
/// # Invariants
///
/// `by_level` points to `level + 1` addresses of cgroups. These cgroups and their addresses stay for `'a`.
#[derive(Clone, Copy)]
pub(crate) struct TaskCgroups<'a> {
    by_level: NonNull<*mut ffi::cgroup>,
    level: u64,
    _alive: PhantomData<&'a ffi::cgroup>,
}

impl TaskCgroups<'_> {
    /// Returns the cgroups of a task in a hierarchy. `None` if there is no such hierarchy.
    ///
    /// # Safety
    ///
    /// The task must be alive, and the caller must have interrupts off as long as it uses the result.
    #[inline(always)]
    pub(crate) unsafe fn of_task(
        task: *mut bindings::task_struct,
        hierarchy: Hierarchy,
    ) -> Option<Self> {
        let find = match hierarchy {
            Hierarchy::Version2 => ffi::perfmon_cgroups_of,
            Hierarchy::Version1 => ffi::perfmon_cgroups_of_version_1,
        };
        // SAFETY: Both functions require a task that is alive, and interrupts off: the caller promises both.
        let cgroups = unsafe { find(task) };
        // INVARIANT: The functions return an array with an address for each level up to `level`. The task's cgroup stays
        // as long as interrupts are off, and it has references to its ancestors, whose addresses it never changes.
        Some(Self {
            by_level: NonNull::new(cgroups.by_level.cast_mut())?,
            level: cgroups.level,
            _alive: PhantomData,
        })
    }

    /// Returns the level of the task's cgroup.
    #[inline(always)]
    pub(crate) fn level(&self) -> u64 {
        self.level
    }

    /// Returns the task's cgroup.
    #[inline(always)]
    pub(crate) fn own_cgroup(&self) -> Option<NonNull<ffi::cgroup>> {
        // SAFETY: `add` and `read` require an address in the array: by the invariant of `TaskCgroups` it has one for
        // `self.level`.
        NonNull::new(unsafe { self.by_level.add(self.level as usize).read() })
    }

    /// Returns the cgroup at a level: the task's own, or an ancestor. `None` if the task's cgroup is less deep.
    #[inline(always)]
    pub(crate) fn at_level(&self, level: u64) -> Option<NonNull<ffi::cgroup>> {
        if level > self.level {
            return None;
        }
        // SAFETY: `add` and `read` require an address in the array: by the invariant of `TaskCgroups` it has one for
        // each level up to `self.level`.
        NonNull::new(unsafe { self.by_level.add(level as usize).read() })
    }
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
