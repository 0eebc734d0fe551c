// SPDX-License-Identifier: GPL-2.0-only
//! Context switches that have more to do than to close and open windows.

use crate::{cpu::ThisCpu, sys::ffi};
use core::sync::atomic::AtomicU32;
use kernel::bindings;

/// The users of the slow context switch, which has more to do than to close and open windows: mappings through which
/// programs may use RDPMC, programs that perf has left it to, and events that record switches.
///
/// ATOMICS: relaxed. Before a program may use RDPMC, each CPU is called (sys/rdpmc.c): its switches afterwards see the
/// number, and if it runs the program then, it switches to it once more. Perf's are counted before the first event of a
/// task counts.
pub(super) static SLOW_SWITCH_USERS: AtomicU32 = AtomicU32::new(0);

/// Hides what counters have counted from a task that begins to run here, if its program may use RDPMC. No window of
/// a task is open.
#[cold]
#[inline(never)]
pub(super) fn hide_counters_from(here: ThisCpu<'_>, task: *const bindings::task_struct) {
    // SAFETY: The task is the one that is switched to.
    if unsafe { ffi::perfmon_rdpmc_has(task) } {
        here.pmu().hide_counters(here);
    }
}
