// SPDX-License-Identifier: GPL-2.0-only
//! The tracepoints that follow tasks. The module's functions are registered only while events need
//! the functions: without such events, tasks lose no time.
//!
//! Kernel threads register and unregister the functions. The registration takes long, since the
//! kernel waits for all CPUs. If a program of low priority did this work, it would take even
//! longer, and would delay the first events of all other programs.

use super::{
    cgroup, mapping_records, new_cgroups, slow_switch_users::SLOW_SWITCH_USERS, switch, table,
    task_lifecycle,
};
use crate::{
    cpu::on_each_online,
    pmu,
    sys::{ffi, kernel_thread, tracepoint::Probe},
};
use core::sync::atomic::{
    AtomicU32,
    Ordering::{AcqRel, Acquire, SeqCst},
};
use kernel::{
    ffi::c_void,
    prelude::*,
    sync::global_lock,
    time::{delay::fsleep, Delta},
};

/// The number of events that need the tracepoints, plus 1 while the functions are registered; 0 while they are not.
///
/// ATOMICS: a caller that raises the number, with acquire order, sees what [`register`] has done before it stored 1.
static USERS: AtomicU32 = AtomicU32::new(0);

global_lock! {
    // SAFETY: The lock must be initialized before its first use: `init` does so, before there can be events, and only
    // events and the module's exit lock it.
    unsafe(uninit) static HOOKS: Mutex<Option<Hooks>> = None;
}

/// The functions that are registered with tracepoints. Used by kernel threads, and at the module's exit.
struct Hooks {
    /// The functions in the order in which they are registered: the function for new tasks comes
    /// before the function for switches, so that no child of a counted task is missed.
    probes: [Probe; 5],
    /// The functions for tasks that move to other cgroups, and for new cgroups; `None` on a kernel without cgroups.
    cgroup_probes: [Option<Probe>; 3],
    /// Programs may still have the right to use RDPMC from perf, so [`SLOW_SWITCH_USERS`] is one
    /// higher while the functions are registered. If the module uses place-holders, the function
    /// for switches looks for such programs instead.
    rdpmc_left_by_perf: bool,
}

impl Hooks {
    /// Finds the tracepoints, and registers the functions.
    ///
    /// # Errors
    ///
    /// ENOENT if the kernel lacks a tracepoint. ENOMEM if there is no memory.
    fn register() -> Result<Self> {
        let has_place_holders = pmu::common().place_holder.is_some();
        let on_switch: *mut c_void = if has_place_holders {
            switch::on_switch_beside_perf as *mut _
        } else {
            switch::on_switch as *mut _
        };
        // SAFETY: `Probe::new` requires a function with the parameters that the tracepoint passes:
        // each function has the parameters in the kernel's include/trace/events.
        let probes = unsafe {
            [
                Probe::new(c"sched_process_exit", task_lifecycle::on_exit as *mut _)?,
                Probe::new(c"task_rename", task_lifecycle::on_rename as *mut _)?,
                Probe::new(c"sched_process_exec", task_lifecycle::on_exec as *mut _)?,
                Probe::new(c"task_newtask", task_lifecycle::on_new_task as *mut _)?,
                Probe::new(c"sched_switch", on_switch)?,
            ]
        };
        // SAFETY: `Probe::new` requires a function with the parameters that the tracepoint passes:
        // each function has the parameters in include/trace/events/cgroup.h.
        let cgroup_probes = unsafe {
            [
                Probe::new(c"cgroup_attach_task", cgroup::on_move as *mut _).ok(),
                Probe::new(c"cgroup_transfer_tasks", cgroup::on_move as *mut _).ok(),
                Probe::new(c"cgroup_mkdir", new_cgroups::on_new_cgroup as *mut _).ok(),
            ]
        };
        let all_probes = || Iterator::chain(probes.iter(), cgroup_probes.iter().flatten());
        for (n, probe) in all_probes().enumerate() {
            if let Err(error) = probe.register() {
                all_probes().take(n).for_each(Probe::unregister);
                return Err(error);
            }
        }
        // The tasks are checked after the registration of `task_lifecycle::on_new_task`, which takes the right from new
        // tasks.
        // SAFETY: The function has no preconditions: it looks at tasks under RCU, which it takes itself.
        let rdpmc_left_by_perf = !has_place_holders && unsafe { ffi::perfmon_rdpmc_left_by_perf() };
        if rdpmc_left_by_perf {
            SLOW_SWITCH_USERS.fetch_add(1, SeqCst);
        }
        Ok(Self {
            probes,
            cgroup_probes,
            rdpmc_left_by_perf,
        })
    }

    /// Unregisters the functions.
    fn unregister(self) {
        self.probes.iter().for_each(Probe::unregister);
        let cgroup_probes = self.cgroup_probes.iter().flatten();
        cgroup_probes.for_each(Probe::unregister);
        if self.rdpmc_left_by_perf {
            SLOW_SWITCH_USERS.fetch_sub(1, SeqCst);
        }
    }
}

/// Initializes the locks of this file, of the tables, and of the records of mappings.
///
/// # Safety
///
/// To be called once in the module's life, before there can be events.
pub(super) unsafe fn init() {
    // SAFETY: A lock must be initialized once, before its first use: the caller calls this once, before there can be
    // events, and only events and the module's exit lock `HOOKS`.
    unsafe { HOOKS.init() };
    // SAFETY: `table::init` requires that it is called once, before there can be contexts: the
    // caller calls this once, before there can be events, and contexts are made only for events.
    unsafe { table::init() };
    // SAFETY: `mapping_records::init` requires that it is called once, before there can be events:
    // the caller calls this once, before there can be events.
    unsafe { mapping_records::init() };
}

/// Registers the tracepoints for one more event, until [`remove_user`]. Also registers the probes for mappings if
/// `wants_mappings`. Sleeps.
///
/// # Errors
///
/// ENOMEM if there is no memory. ENOENT if the kernel lacks a tracepoint.
pub(super) fn add_user(wants_mappings: bool) -> Result {
    if let Err(error) = mapping_records::add_user(wants_mappings) {
        remove_mapping_user(wants_mappings);
        return Err(error);
    }
    // Tries again if the tracepoints were unregistered before the event could be added to `USERS`.
    while !add_user_if_registered() {
        let mut result = Ok(());
        kernel_thread::call(|| result = register());
        if result.is_err() {
            remove_mapping_user(wants_mappings);
            return result;
        }
    }
    Ok(())
}

/// Undoes what [`add_user`] has done for mappings.
fn remove_mapping_user(wants_mappings: bool) {
    if mapping_records::remove_user(wants_mappings) {
        unregister_later();
    }
}

/// Has a kernel thread call [`unregister_if_unused`] in a second, or earlier if such a call is pending already.
fn unregister_later() {
    // SAFETY: The function requires a callback that stays until it has been called or cancelled: `finish` cancels the
    // call before the module is unloaded. The callback requires a task that may sleep, as a kernel thread may.
    unsafe { ffi::perfmon_call_later(Some(unregister_if_unused)) };
}

/// Counts an event, if the functions are registered. Returns whether they are registered.
fn add_user_if_registered() -> bool {
    let add = |users| (users != 0).then_some(users + 1);
    USERS.fetch_update(Acquire, Acquire, add).is_ok()
}

/// Undoes [`add_user`] for an event that has no slots any more.
///
/// After the last event the functions stay registered for up to a second, so that the next event need not register them
/// again, which takes long: the kernel waits for all CPUs.
pub(super) fn remove_user(wants_mappings: bool) {
    remove_mapping_user(wants_mappings);
    if USERS.fetch_sub(1, AcqRel) == 2 {
        unregister_later();
    }
}

/// Registers the functions, unless they are registered. Sleeps.
///
/// # Errors
///
/// ENOENT or ENOMEM, from [`Hooks::register`].
fn register() -> Result {
    let mut hooks = HOOKS.lock();
    if hooks.is_none() {
        *hooks = Some(Hooks::register()?);
        USERS.store(1, SeqCst);
    }
    Ok(())
}

/// Unregisters the functions, unless an event uses them. Tries again in a second if a fork may still copy the right to
/// use RDPMC.
///
/// # Safety
///
/// To be called by a task that may sleep.
unsafe extern "C" fn unregister_if_unused() {
    mapping_records::unregister_if_unused();
    if !try_unregister() {
        unregister_later();
    }
}

/// Unregisters the functions, if no event uses them. Returns false if the caller has to try again:
/// a fork may be under way, and [`task_lifecycle::on_new_task`] has to take the right to use RDPMC
/// from its child.
fn try_unregister() -> bool {
    // The lock is taken before `USERS` becomes 0, so that a caller that registers the functions again waits until they
    // were unregistered.
    let mut hooks = HOOKS.lock();
    if USERS.load(Acquire) != 1 {
        return true;
    }
    // SAFETY: The function has no preconditions: it looks at tasks under RCU, which it takes itself.
    if unsafe { ffi::perfmon_rdpmc_may_be_copied() } {
        // A program that has run without an interrupt since its fork still seems to be in the fork. This call interrupts
        // it: on a CPU of `nohz_full` there may be no other interrupt.
        on_each_online(|_| true, |_| ());
        return false;
    }
    if USERS.compare_exchange(1, 0, SeqCst, SeqCst).is_ok() {
        if let Some(hooks) = hooks.take() {
            hooks.unregister();
        }
        table::shrink();
    }
    true
}

/// Unregisters the functions at the module's exit, when no event is left.
pub(super) fn finish() {
    // SAFETY: `perfmon_call_later_cancel()` requires a caller that may sleep: the module's exit runs in a task without
    // locks.
    unsafe { ffi::perfmon_call_later_cancel() };
    mapping_records::unregister_if_unused();
    let mut pause_ms = 10;
    while !try_unregister() {
        fsleep(Delta::from_millis(pause_ms));
        pause_ms = i64::min(2 * pause_ms, 1000);
    }
    // SAFETY: `perfmon_call_soon_cancel()` requires a caller that may sleep: the module's exit runs in a task without
    // locks. No event is left that could queue `table::grow_crowded` again.
    unsafe { ffi::perfmon_call_soon_cancel() };
    table::shrink();
}
