// SPDX-License-Identifier: GPL-2.0-only
//! Function calls on other CPUs.

use super::{irqs_off, CpuSet, ThisCpu};
use crate::sys::compat;
use core::ptr;
use kernel::{
    bindings,
    ffi::{c_int, c_void},
};

/// Runs `f` on every CPU of the set at once, and returns when all have finished.
///
/// `f` runs with interrupts off, so the CPU's timer ([`super::timer`]) never ticks while it runs. If the set is the
/// current CPU alone, no other CPU is interrupted. The CPUs must stay online until this returns, so the caller must
/// hold a lock that [`HotplugCallbacks::offline`](super::HotplugCallbacks::offline) takes.
#[inline(always)]
pub(crate) fn on_each<F: Fn(ThisCpu<'_>) + Sync>(cpus: &CpuSet, f: F) {
    if !run_if_only_here(cpus, &f) {
        call_each(cpus.as_raw(), None::<&fn(u32) -> bool>, &f);
    }
}

/// Runs `f` on every online CPU for whose number `cpu_filter` is true, and returns when all have finished; interrupts
/// no other CPU. Takes no lock, unlike [`on_each`]: the kernel calls no CPU that is offline, and no CPU goes offline
/// before `f` has returned, since preemption is off until then.
///
/// Must be called with interrupts on.
pub(crate) fn on_each_online<F, P>(cpu_filter: P, f: F)
where
    F: Fn(ThisCpu<'_>) + Sync,
    P: Fn(u32) -> bool + Sync,
{
    call_each(
        ptr::addr_of!(bindings::__cpu_online_mask),
        Some(&cpu_filter),
        &f,
    );
}

/// Runs `f` as [`on_each`] does, but only on the CPUs of the set for whose number `cpu_filter` is true. Interrupts no
/// other CPU.
pub(crate) fn on_each_of<F, P>(cpus: &CpuSet, cpu_filter: P, f: F)
where
    F: Fn(ThisCpu<'_>) + Sync,
    P: Fn(u32) -> bool + Sync,
{
    let ran_here = run_if_only_here(cpus, |here| {
        if cpu_filter(here.id().as_u32()) {
            f(here);
        }
    });
    if !ran_here {
        call_each(cpus.as_raw(), Some(&cpu_filter), &f);
    }
}

/// Runs `f` if the set is the current CPU alone. Returns whether `f` was run.
#[inline(always)]
fn run_if_only_here(cpus: &CpuSet, f: impl FnOnce(ThisCpu<'_>)) -> bool {
    let Some(only_cpu) = cpus.only_cpu() else {
        return false;
    };
    let irqs_off = irqs_off();
    let here = irqs_off.here();
    let is_here = here.id().as_u32() == only_cpu.as_u32();
    if is_here {
        f(here);
    }
    is_here
}

/// Runs `f` on a CPU with interrupts off, and waits for it. Returns `false`, and runs nothing, if the CPU is offline.
///
/// Must be called with interrupts on.
pub(crate) fn on_cpu<F: FnMut(ThisCpu<'_>) + Send>(cpu: u32, mut f: F) -> bool {
    /// # Safety
    ///
    /// `f` must point to an `F` that nothing else uses, and interrupts must be off.
    unsafe extern "C" fn call<F: FnMut(ThisCpu<'_>)>(f: *mut c_void) {
        // SAFETY: A mutable reference needs a pointer to an `F` that is alive and that nothing else uses: the kernel
        // passes the pointer that `on_cpu` gave it, and `on_cpu` waits for this call.
        let f = unsafe { &mut *f.cast::<F>() };
        // SAFETY: `assume` requires that the caller does not leave the CPU while the token lives: the kernel calls this
        // function with interrupts off, as `# Safety` demands, until it has returned.
        f(unsafe { ThisCpu::assume() });
    }

    // SAFETY: smp_call_function_single() requires a function that may run on the CPU, with an argument that lives until
    // it has run. `call` gets a pointer to an `F`, which is `Send`, and the kernel runs it with interrupts off, as it
    // requires. `WAIT_FOR_CALL` is set, so the pointer is not used after this has returned.
    let error = unsafe {
        bindings::smp_call_function_single(
            cpu as c_int,
            Some(call::<F>),
            ptr::from_mut(&mut f).cast(),
            compat::WAIT_FOR_CALL,
        )
    };
    error == 0
}

/// The argument of the functions that [`call_each`] gives to the kernel.
struct CrossCall<'a, F, P> {
    f: &'a F,
    /// The filter by CPU number; `None` runs on all CPUs of the set.
    cpu_filter: Option<&'a P>,
}

/// Runs `f` on the CPUs of a set that pass the filter, and returns when all have finished. Not inlined: keeps its frame
/// off the stack of calls that run on one CPU.
#[inline(never)]
fn call_each<F, P>(cpus: *const bindings::cpumask, cpu_filter: Option<&P>, f: &F)
where
    F: Fn(ThisCpu<'_>) + Sync,
    P: Fn(u32) -> bool + Sync,
{
    /// # Safety
    ///
    /// `work` must point to a `CrossCall<F, P>`, and interrupts must be off.
    unsafe extern "C" fn call<F: Fn(ThisCpu<'_>), P>(work: *mut c_void) {
        // SAFETY: A shared reference needs a pointer to a `CrossCall<F, P>` that is alive and that nothing changes: the
        // kernel passes the pointer that `call_each` gave it, and `call_each` keeps the value until all CPUs have run
        // `call`.
        let work = unsafe { &*work.cast::<CrossCall<'_, F, P>>() };
        // SAFETY: `assume` requires that the caller does not leave the CPU while the token lives: the kernel calls this
        // function with interrupts off, as `# Safety` demands, until it has returned.
        (work.f)(unsafe { ThisCpu::assume() });
    }

    /// # Safety
    ///
    /// `work` must point to a `CrossCall<F, P>`.
    unsafe extern "C" fn passes_filter<F, P: Fn(u32) -> bool>(
        cpu: c_int,
        work: *mut c_void,
    ) -> bool {
        // SAFETY: A shared reference needs a pointer to a `CrossCall<F, P>` that is alive and that nothing changes: the
        // kernel passes the pointer that `call_each` gave it, and `call_each` keeps the value until all CPUs have run
        // `call`, which is after the kernel has tested all CPUs by this function.
        let work = unsafe { &*work.cast::<CrossCall<'_, F, P>>() };
        work.cpu_filter
            .is_none_or(|cpu_filter| cpu_filter(cpu.unsigned_abs()))
    }

    let condition: unsafe extern "C" fn(c_int, *mut c_void) -> bool = passes_filter::<F, P>;
    let condition = cpu_filter.map(|_| condition);
    let work = CrossCall { f, cpu_filter };
    // SAFETY: on_each_cpu_cond_mask() requires functions that may run on several CPUs at once, an argument that lives
    // until they have run, and a valid mask. `call` and `condition` get a pointer to a `CrossCall<F, P>`, and `F` and
    // `P` are `Sync`; the kernel runs `call` with interrupts off. `wait` is set, so no CPU uses the pointer after this
    // has returned. The mask belongs to a `CpuSet` that the caller borrows for the call, or to the kernel.
    unsafe {
        bindings::on_each_cpu_cond_mask(
            condition,
            Some(call::<F, P>),
            ptr::from_ref(&work).cast_mut().cast(),
            true,
            cpus,
        );
    }
}
