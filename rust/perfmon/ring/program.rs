// SPDX-License-Identifier: GPL-2.0-only
//! The hiding of a program from samples while an exec replaces the program.

use crate::sys::ffi;
use kernel::bindings;

/// Returns whether samples of `task` must not show addresses of its program. This is true while an
/// exec replaces the program, since it is not known yet which users may look at the new program.
pub(super) fn hides_program(task: *mut bindings::task_struct) -> bool {
    // SAFETY: The function requires a caller that can't leave the CPU: samples are written in NMIs, or with interrupts off.
    !task.is_null() && unsafe { ffi::perfmon_program_is_hidden() }
}
