// SPDX-License-Identifier: GPL-2.0-only
//! The limits of what samples show of a program.

use crate::sys::ffi;
use kernel::bindings;

/// Returns whether the samples of `task` may show no address of its program, while an exec replaces the program: it is not
/// known yet which users may look at the new one.
pub(super) fn hides_program(task: *mut bindings::task_struct) -> bool {
    // SAFETY: The function requires a caller that can't leave the CPU: samples are written in NMIs, or with interrupts off.
    !task.is_null() && unsafe { ffi::perfmon_program_is_hidden() }
}
