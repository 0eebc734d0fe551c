// SPDX-License-Identifier: GPL-2.0-only
//! The records of new cgroups.

use super::record;
use crate::{
    cpu::ThisCpu,
    ring::TaskChange,
    sys::{cgroup, ffi},
};
use kernel::ffi::{c_char, c_void};

/// Handles the tracepoint `cgroup_mkdir`: the current task has made a cgroup. The kernel calls the tracepoint with
/// interrupts off.
///
/// # Safety
///
/// To be called by the tracepoint only, with its arguments.
pub(super) unsafe extern "C" fn on_new_cgroup(
    _data: *mut c_void,
    cgroup: *mut ffi::cgroup,
    // The handler looks up the path itself, since the tracepoint truncates the path to 1023 bytes.
    _path: *const c_char,
) {
    // SAFETY: `assume` requires that the caller can't leave the CPU: the kernel calls the tracepoint `cgroup_mkdir`
    // with interrupts off, which they are until this function has returned.
    let here = unsafe { ThisCpu::assume() };
    // SAFETY: `words` requires that the words have one user at a time: only this handler and the
    // handler of mappings use the words of this CPU, interrupts are off, and neither handler causes
    // the other.
    let path = unsafe { here.percpu().path.words() };
    // SAFETY: The function requires a cgroup that is alive, and interrupts off: the tracepoint passes one during the
    // call, with interrupts off.
    if let Some((id, path)) = unsafe { cgroup::describe(cgroup, path) } {
        record::write_task_change_here(here, &TaskChange::MakeCgroup(id, path));
    }
}
