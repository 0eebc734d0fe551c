// SPDX-License-Identifier: GPL-2.0-only
//! Tasks that begin, execute a program, and end.
//!
//! The tracepoints are called by the task itself: its context is loaded on its CPU, as long as it stays there.

use super::{
    context::Context,
    event::Event,
    page,
    slot::{self, Slots},
    table,
};
use crate::{
    cpu::{irqs_off, timestamp, ThisCpu},
    pmu,
    sys::ffi,
};
use kernel::{
    alloc::flags::{GFP_ATOMIC, __GFP_NOWARN},
    bindings,
    ffi::c_void,
    prelude::*,
    sync::rcu,
};

/// `CLONE_THREAD`: the new task is a thread of the same process.
const CLONE_THREAD: u64 = bindings::CLONE_THREAD as u64;

/// The tracepoint `task_newtask`: the current task has made `task`, which does not run yet.
///
/// # Safety
///
/// To be called by the tracepoint.
pub(super) unsafe extern "C" fn on_new_task(
    _data: *mut c_void,
    task: *mut bindings::task_struct,
    clone_flags: u64,
) {
    page::forget(task);
    let _rcu = rcu::read_lock();
    let irqs_off = irqs_off();
    let Some(context) = Context::loaded(irqs_off.here().percpu()) else {
        return;
    };
    // SAFETY: The context is loaded on this CPU, and interrupts are off.
    let slots = unsafe { context.slots() };
    let is_thread = clone_flags & CLONE_THREAD != 0;
    let inherits = |event: &Event| {
        event.config.inherit && (is_thread || !event.config.inherit_thread) && !event.is_closed()
    };
    if !slots.iter().any(|slot| inherits(slot.event())) {
        return;
    }
    if give(slots, inherits, task).is_err() {
        // What the new task does is counted nowhere.
        for slot in slots.iter().filter(|slot| inherits(slot.event())) {
            slot.event().mark_broken();
        }
    }
}

/// Makes a context for `task` with the slots that it inherits.
///
/// # Errors
///
/// ENOMEM. EBUSY if somebody who has found the task already has given it events.
fn give(
    slots: &Slots,
    inherits: impl Fn(&Event) -> bool,
    task: *const bindings::task_struct,
) -> Result {
    let flags = GFP_ATOMIC | __GFP_NOWARN;
    let capacity = pmu::common().capabilities.counters().count_ones() as usize;
    let context = Context::new(task, Slots::with_capacity(0, flags)?, flags)?;
    // SAFETY: Nothing else uses the context yet.
    let new = unsafe { context.slots() };
    *new = slot::inherit(slots, inherits, capacity, flags)?;
    let mut table = table::lock();
    // SAFETY: The table is locked.
    if unsafe { table::find(task) }.is_some() {
        slot::remove_all(new);
        return Err(EBUSY);
    }
    // An event that was closed meanwhile: who closes it looks for its slots after this, or has done so already.
    while let Some(closed) = new
        .iter()
        .map(slot::Slot::event)
        .find(|event| event.is_closed())
    {
        slot::remove(new, closed);
    }
    if !new.is_empty() {
        table.add(task, context);
    }
    Ok(())
}

/// The tracepoint `sched_process_exec`: the current task has begun to execute a program.
///
/// # Safety
///
/// To be called by the tracepoint.
pub(super) unsafe extern "C" fn on_exec(
    _data: *mut c_void,
    task: *mut bindings::task_struct,
    _old_pid: bindings::pid_t,
    binprm: *mut bindings::linux_binprm,
) {
    // SAFETY: The tracepoint gives the program that is executed.
    let private = unsafe { ffi::perfmon_exec_is_private(binprm) };
    let _rcu = rcu::read_lock();
    let irqs_off = irqs_off();
    let here = irqs_off.here();
    let Some(context) = Context::loaded(here.percpu()) else {
        return;
    };
    if private {
        // SAFETY: The context is that of the current task, `task`, and loaded.
        unsafe { end(here, context, task) };
        return;
    }
    // SAFETY: The context is loaded on this CPU, and interrupts are off.
    let slots = unsafe { context.slots() };
    slots.iter_mut().for_each(slot::Slot::enable_on_exec);
    slot::refresh(here, slots, timestamp());
}

/// The tracepoint `sched_process_exit`: the current task executes no program any more.
///
/// # Safety
///
/// To be called by the tracepoint.
pub(super) unsafe extern "C" fn on_exit(
    _data: *mut c_void,
    task: *mut bindings::task_struct,
    _group_dead: bool,
) {
    let _rcu = rcu::read_lock();
    let irqs_off = irqs_off();
    let here = irqs_off.here();
    if let Some(context) = Context::loaded(here.percpu()) {
        // SAFETY: The context is that of the current task, `task`, and loaded.
        unsafe { end(here, context, task) };
    }
}

/// Ends the context of the current task, `task`: brings the sums up to date, and removes all slots.
///
/// # Safety
///
/// The context must be that of `task` and loaded here. Interrupts are off, and the caller holds RCU.
unsafe fn end(here: ThisCpu<'_>, context: &Context, task: *const bindings::task_struct) {
    // SAFETY: The context is loaded on this CPU, and interrupts are off.
    let slots = unsafe { context.slots() };
    slot::Readings::new(timestamp()).close(here, slots);
    slot::remove_all(slots);
    here.percpu().task_context.set(0);
    // SAFETY: The slots are not used any more.
    unsafe { context.end() };
    table::lock().remove(task, context);
}
