// SPDX-License-Identifier: GPL-2.0-only
//! Tasks that begin, execute a program, and end.
//!
//! The tracepoints are called by the task itself: no other CPU has its context loaded.

use super::{
    context::Context,
    event::Event,
    exit::ExitCounts,
    record,
    slot::{self, Slots},
    switch::miss_current,
    table,
};
use crate::{
    cpu::{irqs_off, pin, timestamp, ThisCpu},
    ring::TaskChange,
    sys::ffi,
};
use core::{
    cell::Cell,
    sync::atomic::{fence, Ordering::SeqCst},
};
use kernel::{
    alloc::flags::{GFP_ATOMIC, GFP_KERNEL, __GFP_NOWARN},
    bindings,
    ffi::{c_char, c_void},
    prelude::*,
    task::Task,
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
    // Mappings are not copied. Also if no program may use RDPMC any more: there may have been one when the address space
    // was copied.
    // SAFETY: The task has just been made by the current one, so it does not run yet, and is alive during the tracepoint.
    unsafe { ffi::perfmon_rdpmc_forget(task) };
    record::write_current(&TaskChange::Begin(task));
    let is_thread = clone_flags & CLONE_THREAD != 0;
    let inherits = |event: &Event| {
        event.config.inherit
            && (is_thread || !event.config.inherit_thread)
            && !event.state().is_closed()
    };
    with_current_task_slots(|_, slots| {
        if !slots.iter().any(|slot| inherits(slot.event())) {
            return;
        }
        if give_inherited(slots, inherits, task).is_err() {
            // What the new task does is counted nowhere.
            for slot in slots.iter().filter(|slot| inherits(slot.event())) {
                slot.event().mark_broken();
            }
        }
    });
    table::grow_if_crowded();
}

/// Calls `f` with the slots of the current task, if it has events. It gets the CPU if the context is loaded there: it is
/// not where the CPU is not counted on, and for moments when the first event is given to the task.
fn with_current_task_slots(f: impl Fn(Option<ThisCpu<'_>>, &mut Slots)) {
    let _pinned = pin();
    let task = Task::current_raw();
    // SAFETY: Preemption is off.
    let Some(context) = (unsafe { table::find(task) }) else {
        return;
    };
    let result = context.with_current_slots(irqs_off().here(), f);
    if let Some(((), true)) = result {
        table::lock().remove(task, context);
    }
}

/// Makes a context for `task` with the slots that it inherits.
///
/// # Errors
///
/// ENOMEM. EBUSY if another task has opened an event on this one meanwhile, so that it has a context already.
fn give_inherited(
    slots: &Slots,
    inherits: impl Fn(&Event) -> bool,
    task: *const bindings::task_struct,
) -> Result {
    // The control group of the current task pays, as where an event is attached.
    let account = GFP_KERNEL_ACCOUNT & !GFP_KERNEL;
    let flags = GFP_ATOMIC | __GFP_NOWARN | account;
    let count = slots.iter().filter(|slot| inherits(slot.event())).count();
    let mut context = Context::new(task, Slots::new(count, flags)?, flags)?;
    let new = context.slots_mut();
    if let Err(error) = slot::inherit(new, slots, inherits, flags) {
        slot::remove_all(new);
        return Err(error);
    }
    let mut table = table::lock();
    // SAFETY: The table is locked.
    if unsafe { table::find(task) }.is_some() {
        slot::remove_all(new);
        return Err(EBUSY);
    }
    // An event that was closed meanwhile: its close looks for its slots after this, or has done so already.
    slot::remove_where(new, |event| event.state().is_closed());
    if !new.is_empty() {
        table.add(context);
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
    _task: *mut bindings::task_struct,
    _old_pid: bindings::pid_t,
    binprm: *mut bindings::linux_binprm,
) {
    // ATOMICS: pairs with `attach`: either the context is found here, or the caller that opens the event may not look at the
    // task any more.
    fence(SeqCst);
    // SAFETY: The tracepoint gives the program that is executed.
    if unsafe { exec_is_private(binprm) } {
        with_current_task_slots(|_, slots| slots.iter().for_each(|slot| slot.event().leave_task()));
        end_current_task();
    } else {
        with_current_task_slots(|_, slots| slots.may_record_new_program = false);
    }
}

/// Returns whether events have to leave the current task, which begins to execute this program.
///
/// # Safety
///
/// The credentials of the program are the task's by now.
pub(super) unsafe fn exec_is_private(binprm: *mut bindings::linux_binprm) -> bool {
    // SAFETY: The caller has the program that is executed.
    unsafe { ffi::perfmon_exec_is_private(binprm) }
}

/// Handles an exec of the current task, before anything of the program is mapped: enables the events with
/// `enable_on_exec`, and removes those with `remove_on_exec`.
fn handle_exec() {
    with_current_task_slots(|here, slots| {
        if let Some(here) = here {
            // Brings the sums up to date.
            slot::Readings::new(timestamp()).close_windows(here, slots);
        }
        slot::remove_where(slots, |event| event.config.remove_on_exec);
        slots.iter_mut().for_each(slot::Slot::enable_on_exec);
        slot::discard_calls(here, slots);
        if let Some(here) = here {
            slot::refresh(here, slots, timestamp());
        }
    });
    miss_current(irqs_off().here());
}

/// The tracepoint `sched_process_exit`: the current task executes no program any more.
///
/// # Safety
///
/// To be called by the tracepoint.
pub(super) unsafe extern "C" fn on_exit(
    _data: *mut c_void,
    _task: *mut bindings::task_struct,
    _group_dead: bool,
) {
    // `attach` looks under the lock whether the task exits: it has added its context by now, or sees that.
    drop(table::lock());
    record::write_current(&TaskChange::End);
    end_current_task();
}

/// The tracepoint `task_rename`: a task gets a name.
///
/// # Safety
///
/// To be called by the tracepoint.
pub(super) unsafe extern "C" fn on_rename(
    _data: *mut c_void,
    task: *mut bindings::task_struct,
    name: *const c_char,
) {
    // Another task may write the name: then this one runs elsewhere, if at all.
    if task != Task::current_raw() {
        return;
    }
    // SAFETY: The task is the current one, so it is alive.
    let by_exec = unsafe { ffi::perfmon_task_executes(task) };
    if by_exec {
        // At the same place as perf, and before the name: readers find that in front of what the program maps.
        handle_exec();
    }
    let mut copy = [0; 2];
    // SAFETY: The tracepoint gives a name that ends with 0; there is room for 16 bytes.
    unsafe { ffi::perfmon_copy_name(name, copy.as_mut_ptr().cast()) };
    record::write_current(&TaskChange::Name(copy, by_exec));
}

/// Takes all events from the current task, and records what it has counted. The context is gone then.
fn end_current_task() {
    let _pinned = pin();
    let counts = Cell::new(ExitCounts::default());
    with_current_task_slots(|here, slots| {
        if let Some(here) = here {
            // Brings the sums up to date.
            slot::Readings::new(timestamp()).close_windows(here, slots);
        }
        let mut noted = counts.take();
        // SAFETY: Preemption is off, and with it RCU held, until this function returns.
        unsafe { noted.note(slots) };
        counts.set(noted);
        slot::remove_all(slots);
    });
    counts.take().write();
}
