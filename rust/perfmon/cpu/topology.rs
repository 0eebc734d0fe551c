// SPDX-License-Identifier: GPL-2.0-only
//! The CPUs that share the registers of a core or a package.

use super::ThisCpu;
use crate::{logic::values::Scope, sys::ffi};
use kernel::cpu::CpuId;

/// Returns whether no CPU of `cpus` with a lower number is in the same `scope` (core or package) as this CPU. `cpus`
/// must be in ascending order, and all online; the caller must hold a lock that
/// [`HotplugCallbacks::offline`](super::HotplugCallbacks::offline) takes.
pub(crate) fn is_first(here: ThisCpu<'_>, cpus: impl Iterator<Item = CpuId>, scope: Scope) -> bool {
    let this_cpu = here.id().as_u32();
    let mut lower_cpus = cpus
        .map(|cpu| cpu.as_u32())
        .take_while(|&cpu| cpu < this_cpu);
    !lower_cpus.any(|cpu| match scope {
        // SAFETY: The function requires two CPUs that are online: the only caller, a trace that starts, passes the CPUs
        // that record it, and holds `OWNERSHIP`, without which none can go offline. This code runs on `this_cpu`.
        Scope::Package => unsafe { ffi::perfmon_same_package(cpu, this_cpu) },
        // SAFETY: The function requires two CPUs that are online: the only caller, a trace that starts, passes the CPUs
        // that record it, and holds `OWNERSHIP`, without which none can go offline. This code runs on `this_cpu`.
        Scope::Core => unsafe { ffi::perfmon_same_core(cpu, this_cpu) },
        Scope::Cpu => false,
    })
}

/// Returns whether another CPU that is online, or may come online, is a thread of the same core.
pub(crate) fn may_have_sibling(here: ThisCpu<'_>) -> bool {
    // SAFETY: perfmon_may_have_sibling() requires a CPU that is online: the caller runs on this CPU.
    unsafe { ffi::perfmon_may_have_sibling(here.id().as_u32()) }
}
