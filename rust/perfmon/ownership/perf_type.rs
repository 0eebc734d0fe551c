// SPDX-License-Identifier: GPL-2.0-only
//! The type numbers of Linux perf's PMUs. An event names a kind of core by the number of its PMU.

use crate::sys::ffi;
use kernel::cpu::CpuId;

/// Returns the type of the PMU that Linux perf has for a CPU, or `None` if it has none or the CPU is offline. Sleeps.
/// The caller must hold no lock of the module, since perf takes mutexes.
pub(crate) fn perf_type(cpu: CpuId) -> Option<u32> {
    // SAFETY: The function requires a caller that may sleep: the callers are tasks without spinlocks. If the CPU is
    // offline, the function fails.
    let result = unsafe { ffi::perfmon_perf_type(cpu.as_u32()) };
    u32::try_from(result).ok()
}
