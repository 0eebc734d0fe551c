// SPDX-License-Identifier: GPL-2.0-only
//! The event interface: descriptors that count a task, what it creates, a CPU, or a cgroup.
//!
//! An [`Event`](event::Event) has one sum. It counts through slots ([`slot`]): one in the context of each task that it
//! counts ([`context`]), or in that of its CPU. The context switch ([`switch`]) closes the windows of one task and
//! opens those of the next; [`life`] follows tasks that begin and end. A counter runs all the time, so at a switch
//! between tasks that count the same no register is written.
//!
//! # Locks
//!
//! No program keeps others from their events by what it does, or by not getting to run. The kernel's sleeping locks do not
//! give that: a mutex is handed to a waiter of `SCHED_IDLE`, which then holds it for as long as others are busy, and an
//! `rt_mutex` passes on the priority of real-time tasks only. So there is no sleeping lock that two programs need which have
//! nothing to do with each other:
//!
//! - Reading takes none. The CPU of a task is asked, or, of an inherited event, each CPU that has a context loaded
//!   ([`attach::refresh_everywhere`]).
//! - A context has its holder ([`context`]), for moments with interrupts off.
//! - A group has a lock ([`group`]), for the callers that have descriptors of it; so has what an event maps ([`memory`]).
//! - Two callers that open events of one task at once may choose the same counter: the second one chooses again ([`open`]).
//! - The tracepoints are registered by kernel threads ([`hooks`]).
//! - RCU is held by staying on the CPU, and not by `rcu_read_lock()`, under which a task can be preempted: the end of a
//!   grace period is what unmapping a ring waits for, and the kernel's hotplug.
//!
//! In this folder a [`ThisCpu`](crate::cpu::ThisCpu) is passed on only while interrupts are off. So a function that has one
//! may use what is loaded on its CPU ([`context::Held`]).
//!
//! Order: the lock of a group, then [`OWNERSHIP`](crate::ownership::OWNERSHIP), a spinlock; and the lock of the table
//! of contexts ([`table`]), which is the innermost. The context switch and the other tracepoints take the last one
//! only.

mod attach;
mod cgroup;
mod context;
mod descriptor;
#[allow(clippy::module_inception, reason = "what the folder is about")]
mod event;
mod exit;
mod group;
mod hooks;
mod life;
mod mappings;
mod members;
mod memory;
mod mmap;
mod open;
mod output;
mod rcu;
mod record;
mod resources;
mod slot;
mod slow_switch_users;
mod switch;
mod table;
mod target;

pub(crate) use self::{
    open::open,
    switch::{enter_cpu, leave_cpu, take_turns},
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
/// While a value of this type exists, proc is mounted.
pub(crate) struct EventResources(());

impl EventResources {
    /// Prepares for events.
    ///
    /// # Errors
    ///
    /// ENOMEM, or ENODEV if the kernel has no proc.
    ///
    /// # Safety
    ///
    /// To be called once in the module's life, before there can be events. The result outlives them, and is dropped
    /// before the memory of the CPUs.
    pub(crate) unsafe fn new() -> Result<Self> {
        // SAFETY: This is the only initialization, and there is no event before.
        unsafe { hooks::init() };
        // SAFETY: The function has no preconditions.
        unsafe { ffi::perfmon_rdpmc_init() };
        // SAFETY: `drop` unmounts it.
        to_result(unsafe { ffi::perfmon_proc_mount() })?;
        // INVARIANT: Just mounted.
        Ok(Self(()))
    }
}

impl Drop for EventResources {
    fn drop(&mut self) {
        // No event is left, since each keeps the module.
        hooks::finish();
        // For the functions that were registered, and for events and contexts that RCU has yet to free.
        // SAFETY: The module's end is a task without locks, so it may sleep.
        unsafe { ffi::perfmon_tracepoints_sync() };
        cgroup::flush();
        for cpu in cpu::ids() {
            let percpu = percpu::of_cpu(cpu);
            // SAFETY: The address is that of a context from `KBox::into_raw`, which nothing uses any more: CPUs are not
            // counted on at the module's end.
            if let Some(context) = unsafe { Context::from_address(percpu.cpu_context.get()) } {
                percpu.cpu_context.set(0);
                // SAFETY: The context comes from `KBox::into_raw`, and its address has just been removed.
                drop(unsafe { KBox::from_raw(core::ptr::from_ref(context).cast_mut()) });
            }
        }
        // SAFETY: `new` has begun it, and there is no mapping.
        unsafe { ffi::perfmon_rdpmc_exit() };
        // SAFETY: `new` has mounted it, and nothing else unmounts it.
        unsafe { ffi::perfmon_proc_unmount() };
    }
}
