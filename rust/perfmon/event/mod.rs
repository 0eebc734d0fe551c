// SPDX-License-Identifier: GPL-2.0-only
//! The event interface: descriptors that count a CPU, a cgroup, or a task. The tasks that the
//! counted task creates can be included.
//!
//! An [`Event`](event::Event) has one sum. The event counts through slots ([`slot`]). There is one
//! slot in the context ([`context`]) of each counted task, or of the event's CPU, or of the event's
//! cgroup on each CPU. The context switch ([`switch`]) closes the windows of one task and opens the
//! windows of the next task; [`task_lifecycle`] follows tasks that begin and end. A counter runs
//! all the time, so a switch between tasks with the same events writes no register.
//!
//! # Locks
//!
//! No program can block the events of another program, whatever it calls and however rarely it gets to run. The kernel's
//! sleeping locks can't promise that: a mutex may be handed to a waiter of `SCHED_IDLE`, which then holds it for as long
//! as other tasks are busy, and an `rt_mutex` passes on the priority of real-time tasks only. So unrelated programs
//! never share a sleeping lock:
//!
//! - Reading takes no lock. It calls the CPU that runs the task, or, for an inherited event, each CPU that has a
//!   context loaded ([`attach::refresh_everywhere`]).
//! - A context has one holder at a time ([`context`]), for moments, with interrupts off.
//! - A group has a lock ([`group`]), which only callers with descriptors of the group take. The memory of an event,
//!   which programs map ([`memory`]), has a lock of its own, too.
//! - Two callers that open events of one task at once may choose the same counter: then the second caller chooses
//!   again ([`open`]).
//! - The tracepoints are registered by kernel threads ([`hooks`]).
//! - RCU readers disable preemption instead of calling `rcu_read_lock()`. A reader that is
//!   preempted would delay the end of the grace period, and so the unmapping of a ring and the
//!   kernel's hotplug, which wait for this end.
//!
//! In this folder a [`ThisCpu`](crate::cpu::ThisCpu) is passed on only while interrupts are off. So
//! a function with a `ThisCpu` may use the contexts that are loaded on its CPU
//! ([`context::HeldContext`]).
//!
//! Locks are taken in this order: the lock of a group; [`OWNERSHIP`](crate::ownership::OWNERSHIP), a spinlock; the lock of
//! the events that can move to other counters ([`reassign`]); and the lock of the table of contexts ([`table`]). The
//! context switch and the other tracepoints take the lock of the table at most.

mod attach;
mod cgroup;
mod context;
mod counted_cgroup;
mod descriptor;
mod end_counts;
mod entry;
#[allow(clippy::module_inception, reason = "what the folder is about")]
mod event;
mod group;
mod hooks;
mod mapping_records;
mod members;
mod memory;
mod mmap;
mod new_cgroups;
mod open;
mod output;
mod rcu;
mod reassign;
mod record;
mod resources;
mod slot;
mod slow_switch_users;
mod switch;
mod table;
mod target;
mod task_lifecycle;

pub(crate) use self::{
    open::open,
    switch::{load_contexts, set_up_tampered, take_turns, unload_contexts},
};

use self::context::Context;
use crate::{
    cpu, percpu,
    sys::{error::to_result, ffi},
};
use kernel::prelude::*;

/// The resources of all events, for as long as the module is loaded.
///
/// # Invariants
///
/// While a value of this type exists, a proc file system is mounted for the module.
pub(crate) struct EventResources(());

impl EventResources {
    /// Prepares the kernel resources that events need.
    ///
    /// # Errors
    ///
    /// ENOMEM if there is no memory, ENODEV if the kernel has no proc.
    ///
    /// # Safety
    ///
    /// To be called once in the module's life, before there can be events. The result must outlive all events, and be
    /// dropped before the per-CPU memory.
    pub(crate) unsafe fn new() -> Result<Self> {
        // SAFETY: `hooks::init` requires that it is called once, before there can be events: the caller promises that
        // for `new`.
        unsafe { hooks::init() };
        // SAFETY: `reassign::init` requires that it is called once, before there can be events: the caller promises that
        // for `new`.
        unsafe { reassign::init() };
        // SAFETY: `perfmon_rdpmc_init()` initializes the works on CPUs, so it must be called once, before one is queued:
        // the caller promises that for `new`.
        unsafe { ffi::perfmon_rdpmc_init() };
        // SAFETY: The function requires one `perfmon_proc_unmount()` after it has succeeded: the `drop` of the result
        // calls that.
        to_result(unsafe { ffi::perfmon_proc_mount() })?;
        // INVARIANT: The proc file system has just been mounted.
        Ok(Self(()))
    }
}

impl Drop for EventResources {
    fn drop(&mut self) {
        // No event exists any more, since each event keeps the module loaded.
        hooks::finish();
        // Waits until the functions that were registered have returned, and until RCU has freed all events and
        // contexts.
        // SAFETY: `perfmon_tracepoints_sync()` requires a caller that may sleep: the module's exit runs in a task without
        // locks.
        unsafe { ffi::perfmon_tracepoints_sync() };
        cgroup::flush();
        for cpu in cpu::possible_cpus() {
            let percpu = percpu::of_cpu(cpu);
            // SAFETY: `from_address` requires a context that is alive, or 0: `cpu_context` is 0 or the address of a CPU's
            // context, which only the code below frees, once.
            if let Some(context) = unsafe { Context::from_address(percpu.cpu_context.get()) } {
                percpu.cpu_context.set(0);
                // SAFETY: `from_raw` requires a context from a `KBox` that nothing else uses: `insert_cpu_context` has
                // leaked its `KBox`. No CPU is used for counting any more, and `cpu_context`, the only place of the
                // address, has just been cleared.
                drop(unsafe { KBox::from_raw(core::ptr::from_ref(context).cast_mut()) });
            }
        }
        // SAFETY: `perfmon_rdpmc_exit()` requires `perfmon_rdpmc_init()` before, which `new` has called, and no
        // mapping that gives the right to use RDPMC: each mapping keeps the module loaded.
        unsafe { ffi::perfmon_rdpmc_exit() };
        // SAFETY: The function requires a file system that `perfmon_proc_mount()` has mounted, once: `new` has called
        // that, and a value is dropped once.
        unsafe { ffi::perfmon_proc_unmount() };
    }
}
