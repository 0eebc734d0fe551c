// SPDX-License-Identifier: GPL-2.0-only
//! Linux perf's dirty counters, which it zeroes at some later time, whoever has them by then: `dirty.c`
//! tells why and makes perf do so before the counters are programmed.

use crate::{
    cpu::{CpuSet, ThisCpu},
    ffi,
};

/// What it takes to clean counters.
///
/// # Invariants
///
/// While a value of this type exists, the C side has its mm.
pub(crate) struct Cleaner(());

impl Cleaner {
    /// Makes the rest of this file usable.
    ///
    /// # Safety
    ///
    /// To be called once in the module's life, by the program that loads it. The result outlives every use
    /// of the rest of this file.
    pub(crate) unsafe fn new() -> Self {
        // SAFETY: It is the first call, by the requirement.
        unsafe { ffi::perfmon_dirty_init() };
        // INVARIANT: Just taken.
        Self(())
    }
}

impl Drop for Cleaner {
    fn drop(&mut self) {
        // SAFETY: The mm is there by the type invariant, and used by nothing any more by the requirement of
        // `new`.
        unsafe { ffi::perfmon_dirty_exit() };
    }
}

/// Makes perf zero its dirty counters on `cpus`. The counters are reserved for the caller, so that perf does
/// not make them dirty again. Sleeps.
///
/// The caller holds the arbiter's lock, which keeps the CPUs online, and calls one at a time.
pub(crate) fn clean(cpus: &CpuSet) {
    // SAFETY: The mm is there (see `Cleaner::new`), the mask lives as long as the call, and the CPUs stay
    // online under the arbiter's lock.
    unsafe { ffi::perfmon_dirty_clean(cpus.as_ptr()) };
}

/// The same on the current CPU alone, for its hotplug thread.
pub(crate) fn clean_here(_here: &ThisCpu) {
    // SAFETY: As in `clean`; a hotplug thread is a kernel thread that is bound to its CPU.
    unsafe { ffi::perfmon_dirty_clean_here() };
}
