// SPDX-License-Identifier: GPL-2.0-only
//! The tracepoints that follow tasks, registered while there are events of tasks: otherwise they cost nothing.
//!
//! They are registered and unregistered by kernel threads. That takes long, since the kernel waits for all CPUs; a program
//! would do it at its own priority, and keep all others from their first event that long.

use super::{cgroup, life, mappings, slow_switch_users::SLOW_SWITCH_USERS, switch, table};
use crate::sys::{ffi, kernel_thread, tracepoint::Probe};
use core::sync::atomic::{
    AtomicU32,
    Ordering::{AcqRel, Acquire, SeqCst},
};
use kernel::{
    prelude::*,
    sync::global_lock,
    time::{delay::fsleep, Delta},
};

/// The events of tasks, and 1 for the functions being registered; 0 if they are not.
///
/// ATOMICS: a caller that adds to it acquires what [`register`] has released.
static USERS: AtomicU32 = AtomicU32::new(0);

global_lock! {
    // SAFETY: `init` initializes it, before there can be events.
    unsafe(uninit) static HOOKS: Mutex<Option<Hooks>> = None;
}

/// The functions that the kernel calls. Used by kernel threads, and at the module's end.
struct Hooks {
    /// The functions in the order in which they are registered: a task can't begin unseen when its parent is counted.
    probes: [Probe; 5],
    /// Tasks that move to other cgroups; nothing on a kernel without cgroups.
    cgroup_moves: Option<Probe>,
    /// A program may use RDPMC without a page of ours, and is among [`SLOW_SWITCH_USERS`] while the functions are called.
    rdpmc_left_by_perf: bool,
}

impl Hooks {
    /// Finds the tracepoints, and registers the functions.
    ///
    /// # Errors
    ///
    /// ENOENT if this kernel lacks one. ENOMEM.
    fn register() -> Result<Self> {
        // SAFETY: Each function has the arguments that its tracepoint passes (include/trace/events of the kernel).
        let probes = unsafe {
            [
                Probe::new(c"sched_process_exit", life::on_exit as *mut _)?,
                Probe::new(c"task_rename", life::on_rename as *mut _)?,
                Probe::new(c"sched_process_exec", life::on_exec as *mut _)?,
                Probe::new(c"task_newtask", life::on_new_task as *mut _)?,
                Probe::new(c"sched_switch", switch::on_switch as *mut _)?,
            ]
        };
        for (n, probe) in probes.iter().enumerate() {
            if let Err(error) = probe.register() {
                probes.iter().take(n).for_each(Probe::unregister);
                return Err(error);
            }
        }
        let cgroup_moves =
            // SAFETY: The function has the arguments that the tracepoint passes (include/trace/events/cgroup.h).
            unsafe { Probe::new(c"cgroup_attach_task", cgroup::on_move as *mut _) }.ok();
        if let Some(Err(error)) = cgroup_moves.as_ref().map(Probe::register) {
            probes.iter().for_each(Probe::unregister);
            return Err(error);
        }
        // After `life::on_new_task` has been registered, which takes the right from new tasks.
        // SAFETY: The function has no preconditions.
        let rdpmc_left_by_perf = unsafe { ffi::perfmon_rdpmc_left_by_perf() };
        if rdpmc_left_by_perf {
            SLOW_SWITCH_USERS.fetch_add(1, SeqCst);
        }
        Ok(Self {
            probes,
            cgroup_moves,
            rdpmc_left_by_perf,
        })
    }

    /// Unregisters the functions.
    fn unregister(self) {
        self.probes.iter().for_each(Probe::unregister);
        if let Some(cgroup_moves) = self.cgroup_moves {
            cgroup_moves.unregister();
        }
        if self.rdpmc_left_by_perf {
            SLOW_SWITCH_USERS.fetch_sub(1, SeqCst);
        }
    }
}

/// Prepares for events of tasks.
///
/// # Safety
///
/// To be called once in the module's life, before there can be events.
pub(super) unsafe fn init() {
    // SAFETY: The caller calls this once, before there can be events.
    unsafe { HOOKS.init() };
    // SAFETY: The caller calls this once, before there can be events.
    unsafe { table::init() };
    // SAFETY: The caller calls this once, before there can be events.
    unsafe { mappings::init() };
}

/// Follows tasks, for one more event, until [`end`], and learns what programs map if `with_mappings`. Sleeps.
///
/// # Errors
///
/// ENOMEM. ENOENT if this kernel lacks a tracepoint.
pub(super) fn begin(with_mappings: bool) -> Result {
    if let Err(error) = mappings::begin(with_mappings) {
        end_mappings(with_mappings);
        return Err(error);
    }
    // If they are unregistered between the two, once more.
    while !begin_if_registered() {
        let mut registered = Ok(());
        kernel_thread::call(|| registered = register());
        if registered.is_err() {
            end_mappings(with_mappings);
            return registered;
        }
    }
    Ok(())
}

/// Ends what [`begin`] has begun for mappings.
fn end_mappings(with_mappings: bool) {
    if mappings::end(with_mappings) {
        unregister_later();
    }
}

/// Unregisters in a second what is not used then.
fn unregister_later() {
    // SAFETY: `finish` comes before the function goes.
    unsafe { ffi::perfmon_call_later(Some(unregister_if_unused)) };
}

/// Adds an event, if the functions are registered.
fn begin_if_registered() -> bool {
    let add = |users| (users != 0).then_some(users + 1);
    USERS.fetch_update(Acquire, Acquire, add).is_ok()
}

/// Removes an event, which no context has any more.
///
/// After the last one the functions stay registered for a second: to register them again soon would take long,
/// since the kernel waits for all CPUs.
pub(super) fn end(with_mappings: bool) {
    end_mappings(with_mappings);
    if USERS.fetch_sub(1, AcqRel) == 2 {
        unregister_later();
    }
}

/// Registers the functions, unless that has been done. Sleeps.
///
/// # Errors
///
/// As [`Hooks::register`].
fn register() -> Result {
    let mut hooks = HOOKS.lock();
    if hooks.is_none() {
        *hooks = Some(Hooks::register()?);
        USERS.store(1, SeqCst);
    }
    Ok(())
}

/// Unregisters the functions, unless there is an event. If they are still needed, that is done later.
///
/// # Safety
///
/// To be called by a task that may sleep.
unsafe extern "C" fn unregister_if_unused() {
    mappings::unregister_if_unused();
    if !try_unregister() {
        unregister_later();
    }
}

/// Unregisters the functions, if there is no event. Returns whether nothing is left to be done: not if a child may be in
/// the making from which [`life::on_new_task`] has to take the right to use RDPMC.
fn try_unregister() -> bool {
    // Before the number becomes 0, so that a caller that registers them again waits for the end of this.
    let mut hooks = HOOKS.lock();
    if USERS.load(Acquire) != 1 {
        return true;
    }
    // SAFETY: The function has no preconditions.
    if unsafe { ffi::perfmon_rdpmc_may_be_copied() } {
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

/// Unregisters the functions at the module's end, when there is no event.
pub(super) fn finish() {
    // SAFETY: The module's end is a task without locks, so it may sleep.
    unsafe { ffi::perfmon_call_later_cancel() };
    mappings::unregister_if_unused();
    while !try_unregister() {
        fsleep(Delta::from_millis(10));
    }
    // SAFETY: The module's end is a task that may sleep, and no context is added any more.
    unsafe { ffi::perfmon_call_soon_cancel() };
    table::shrink();
}
