// SPDX-License-Identifier: GPL-2.0-only
//! Linux perf's dirty counters. perf zeroes a counter some time after its event has given the
//! counter up, even if the counter has another owner by then. `sys/dirty.c` explains why, and makes
//! perf zero them before the module programs them.

use crate::{
    cpu::ThisCpu,
    sys::{error::to_result, ffi},
};
use kernel::prelude::*;

/// The mm that CPUs switch to, so that perf zeroes its dirty counters.
///
/// # Invariants
///
/// While a value of this type exists, the C side holds a reference to the mm.
pub(crate) struct DirtyCounterCleaner(());

impl DirtyCounterCleaner {
    /// Takes a reference to the mm of the program that loads the module.
    ///
    /// # Safety
    ///
    /// To be called once in the module's life, by the program that loads it. The result must outlive every use of
    /// [`clean_dirty_counters`] and [`clean_dirty_counters_here`].
    pub(crate) unsafe fn new() -> Self {
        // SAFETY: The function requires that it is called once, by a task with an mm: the caller calls `new` once, in
        // the program that loads the module.
        unsafe { ffi::perfmon_dirty_init() };
        // INVARIANT: `perfmon_dirty_init()` has just taken the reference.
        Self(())
    }
}

impl Drop for DirtyCounterCleaner {
    fn drop(&mut self) {
        // SAFETY: The function requires the reference of `perfmon_dirty_init()`, and that nothing uses the mm any more:
        // `new` has taken the reference, and its caller promises that the result outlives every use.
        unsafe { ffi::perfmon_dirty_exit() };
    }
}

/// Makes perf zero its dirty counters on all CPUs that are online. The caller must have reserved the counters, so that
/// perf makes no counter dirty again. A CPU that comes online meanwhile cleans its own counters
/// ([`clean_dirty_counters_here`]).
///
/// Sleeps, for some seconds if a real-time program keeps a CPU busy. The caller must hold no lock.
///
/// # Errors
///
/// EBUSY if a real-time program never leaves a CPU: the log then names the CPU. ENOMEM if there is no memory.
pub(super) fn clean_dirty_counters() -> Result {
    let mut busy_cpu = 0;
    // SAFETY: The function requires the mm, to which a `DirtyCounterCleaner` holds a reference as long as this may be
    // called, and a pointer to a number: `busy_cpu` lives as long as the call.
    let result = to_result(unsafe { ffi::perfmon_clean_dirty_counters(&mut busy_cpu) });
    if result == Err(EBUSY) {
        pr_notice!(
            "the counters can't be used yet: Linux perf has not zeroed those that it has used on CPU {busy_cpu}, since \
             a real-time program never leaves that CPU. Stop that program, and try again\n"
        );
    }
    result
}

/// Makes perf zero its dirty counters on the current CPU. To be called by the CPU's hotplug thread.
pub(crate) fn clean_dirty_counters_here(_here: ThisCpu<'_>) {
    // SAFETY: The function requires the mm, to which a `DirtyCounterCleaner` holds a reference as long as this may be
    // called, and a kernel thread that is bound to its CPU, as a hotplug thread is.
    unsafe { ffi::perfmon_clean_dirty_counters_here() };
}
