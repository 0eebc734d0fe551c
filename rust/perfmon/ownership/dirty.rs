// SPDX-License-Identifier: GPL-2.0-only
//! Linux perf's dirty counters, which it zeroes some time after an event gave them up, also if they have another owner
//! by then.
//! `sys/dirty.c` explains it, and makes perf zero them before they are programmed.

use crate::{
    cpu::ThisCpu,
    sys::{error::to_result, ffi},
};
use kernel::prelude::*;

/// The mm that cleaning switches to.
///
/// # Invariants
///
/// While a value of this type exists, the C side holds a reference to the mm.
pub(crate) struct DirtyCounterCleaner(());

impl DirtyCounterCleaner {
    /// Takes the mm of the program that loads the module.
    ///
    /// # Safety
    ///
    /// To be called once in the module's life, by the program that loads it. The result outlives every use of
    /// [`clean`] and [`clean_here`].
    pub(crate) unsafe fn new() -> Self {
        // SAFETY: The caller calls `new` once, so this is the only call.
        unsafe { ffi::perfmon_dirty_init() };
        // INVARIANT: The reference has just been taken.
        Self(())
    }
}

impl Drop for DirtyCounterCleaner {
    fn drop(&mut self) {
        // SAFETY: `new` has taken the reference, and its caller drops the result only when nothing uses it any more.
        unsafe { ffi::perfmon_dirty_exit() };
    }
}

/// Makes perf zero its dirty counters on all CPUs that are online. The counters are reserved, so perf makes none dirty
/// again. A CPU that comes online meanwhile does so itself ([`clean_here`]).
///
/// Sleeps, for some seconds if a CPU has something more urgent to do; the caller holds no lock.
///
/// # Errors
///
/// EBUSY if a real-time program keeps a CPU from everything else: the log says which. ENOMEM.
pub(super) fn clean() -> Result {
    let mut busy = 0;
    // SAFETY: `DirtyCounterCleaner` holds the mm. The pointer is to a number that lives as long as the call.
    let result = to_result(unsafe { ffi::perfmon_dirty_clean(&mut busy) });
    if result == Err(EBUSY) {
        pr_notice!(
            "the counters can't be used yet: Linux perf may have left its own in CPU {busy}, and a real-time \
             program keeps that CPU from zeroing them\n"
        );
    }
    result
}

/// As [`clean`], on the current CPU alone, for its hotplug thread.
pub(crate) fn clean_here(_here: ThisCpu<'_>) {
    // SAFETY: `DirtyCounterCleaner` holds the mm. A hotplug thread is a kernel thread that is bound to its CPU.
    unsafe { ffi::perfmon_dirty_clean_here() };
}
