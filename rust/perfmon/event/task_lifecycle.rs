// SPDX-License-Identifier: GPL-2.0-only
//! Handlers of the tracepoints for tasks that begin, execute a program, are renamed, or exit.
//!
//! The task itself calls each handler, so no other CPU has the task's context loaded.

use super::{
    context::Context,
    end_counts::EndCounts,
    event::Event,
    record,
    slot::{self, show_program, ExecStage, Slot, Slots},
    switch::mark_current_broken_if_refused,
    table::{self, TASKS},
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

/// `CLONE_THREAD` as in `clone_flags`: the new task is a thread of the same process.
const CLONE_THREAD: u64 = bindings::CLONE_THREAD as u64;

/// Handles the tracepoint `task_newtask`: the current task has created `task`, which does not run yet.
///
/// # Safety
///
/// To be called by the tracepoint only, with its arguments.
pub(super) unsafe extern "C" fn on_new_task(
    _data: *mut c_void,
    task: *mut bindings::task_struct,
    clone_flags: u64,
) {
    // fork(2) copies the right to use RDPMC, but not the mappings that give it. The new task loses the right even if no
    // program has it now, since the parent may have had it when its address space was copied.
    // SAFETY: The function requires a task that does not run yet: the current task has just created `task`, and
    // starts it after the tracepoint.
    unsafe { ffi::perfmon_rdpmc_clear(task) };
    record::write_task_change(&TaskChange::Fork(task));
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
        if insert_inherited_context(slots, inherits, task).is_err() {
            // From now on the events' sums lack what the new task does.
            for slot in slots.iter().filter(|slot| inherits(slot.event())) {
                slot.event().mark_broken();
            }
        }
    });
    TASKS.grow_if_crowded();
}

/// Calls `f` with the slots of the current task, if it has events. `f` gets the `ThisCpu` if the context is loaded. A
/// context is not loaded on a CPU that is not used for counting, nor while the first event of the task is being opened.
fn with_current_task_slots(f: impl Fn(Option<ThisCpu<'_>>, &mut Slots)) {
    let _pinned = pin();
    let task = Task::current_raw();
    // SAFETY: `TASKS.find` requires preemption to be off: `_pinned` keeps it off until the context was last used.
    let Some(context) = (unsafe { TASKS.find(task) }) else {
        return;
    };
    let result = context.with_current_slots(irqs_off().here(), f);
    if let Some(((), true)) = result {
        TASKS.remove(&mut table::lock(), context);
    }
}

/// Makes a context with the slots that `task` inherits, and adds the context to the table.
///
/// # Errors
///
/// ENOMEM if there is no memory. EBUSY if `task` has a context already, since another task has
/// opened an event for `task` meanwhile.
fn insert_inherited_context(
    slots: &Slots,
    inherits: impl Fn(&Event) -> bool,
    task: *const bindings::task_struct,
) -> Result {
    // The memory is charged to the memory cgroup of the current task, like the memory of an event that is attached.
    let account_flags = GFP_KERNEL_ACCOUNT & !GFP_KERNEL;
    let flags = GFP_ATOMIC | __GFP_NOWARN | account_flags;
    let count = slots.iter().filter(|slot| inherits(slot.event())).count();
    let mut context = Context::new(task, Slots::new(count, flags)?, flags)?;
    let new_slots = context.slots_mut();
    if let Err(error) = slot::inherit(new_slots, slots, inherits, flags) {
        slot::remove_all(new_slots);
        return Err(error);
    }
    let mut lock = table::lock();
    // SAFETY: `TASKS.find` requires the table's lock: `lock` is its guard, and is held until the last use.
    if unsafe { TASKS.find(task) }.is_some() {
        slot::remove_all(new_slots);
        return Err(EBUSY);
    }
    // Removes the slots of events that were closed meanwhile: their `detach` may have searched the table before this
    // context is added to it.
    slot::remove_where(new_slots, |event| event.state().is_closed());
    // Events may also have moved to other counters meanwhile.
    new_slots.iter_mut().for_each(Slot::update_counter);
    if !new_slots.is_empty() {
        TASKS.add(&mut lock, context);
    }
    Ok(())
}

/// Handles the tracepoint `sched_process_exec`: the current task has begun to execute a program.
///
/// # Safety
///
/// To be called by the tracepoint only, with its arguments.
pub(super) unsafe extern "C" fn on_exec(
    _data: *mut c_void,
    _task: *mut bindings::task_struct,
    _old_pid: bindings::pid_t,
    binprm: *mut bindings::linux_binprm,
) {
    // ATOMICS: pairs with the fence in `attach`: either this function finds the context, or the caller that opens the
    // event sees the task's new credentials, and may not trace the task any more.
    fence(SeqCst);
    // SAFETY: The function requires the program of the exec with its new credentials: the tracepoint passes it.
    if unsafe { must_not_count_exec(binprm) } {
        with_current_task_slots(|_, slots| {
            slots
                .iter()
                .for_each(|slot| slot.event().count_dropped_task())
        });
        remove_events_of_current_task();
    } else {
        with_current_task_slots(|here, slots| {
            slots.exec = ExecStage::Done;
            if let Some(here) = here {
                show_program(here);
            }
        });
    }
}

/// Returns whether events must not count the program that the current task begins to execute, for example a setuid
/// program. The task's events are removed then.
///
/// # Safety
///
/// `binprm` must be the program that the current task executes, and the task must have the new credentials already.
pub(super) unsafe fn must_not_count_exec(binprm: *mut bindings::linux_binprm) -> bool {
    // SAFETY: The function requires the program that the current task executes, with its new credentials: the caller
    // promises that `binprm` is that program.
    unsafe { ffi::perfmon_must_not_count_exec(binprm) }
}

/// Handles an exec of the current task, before anything of the program is mapped: enables the events with
/// `enable_on_exec`, and removes the events with `remove_on_exec`. Samples show nothing of the program until
/// [`on_exec`] is called.
fn begin_exec() {
    let is_removed = |event: &Event| event.config.remove_on_exec;
    let _pinned = pin();
    let counts = Cell::new(EndCounts::default());
    with_current_task_slots(|here, slots| {
        slot::with_windows_closed(here, slots, |slots| {
            slots.exec = ExecStage::Begun;
            let mut end_counts = counts.take();
            // SAFETY: `collect` requires that RCU is held until `end_counts`, which moves to `counts`, is dropped:
            // preemption is off until `_pinned` is dropped, which is declared before `counts` and so dropped after it.
            unsafe { end_counts.collect(slots, is_removed) };
            counts.set(end_counts);
            slot::remove_where(slots, is_removed);
            slots.iter_mut().for_each(Slot::enable_on_exec);
            slot::discard_calls(here, slots);
        });
    });
    counts.take().write();
    mark_current_broken_if_refused(irqs_off().here());
}

/// Handles the tracepoint `sched_process_exit`: the current task exits, and will execute nothing more of its program.
///
/// # Safety
///
/// To be called by the tracepoint only, with its arguments.
pub(super) unsafe extern "C" fn on_exit(
    _data: *mut c_void,
    _task: *mut bindings::task_struct,
    _group_dead: bool,
) {
    // `attach` checks under the lock whether the task is exiting: either it has added the task's context by now, or it
    // sees the flag.
    drop(table::lock());
    record::write_task_change(&TaskChange::Exit);
    remove_events_of_current_task();
}

/// Handles the tracepoint `task_rename`: the current task gives `task` a name. `task` is another thread of the same
/// process if the name was written to that thread's file in proc. Then the thread's events record nothing, as in perf.
///
/// # Safety
///
/// To be called by the tracepoint only, with its arguments.
pub(super) unsafe extern "C" fn on_rename(
    _data: *mut c_void,
    task: *mut bindings::task_struct,
    name: *const c_char,
) {
    // SAFETY: The function requires a task that is alive: the tracepoint passes one.
    let by_exec = task == Task::current_raw() && unsafe { ffi::perfmon_task_executes(task) };
    if by_exec {
        // perf handles an exec at this place, too. The record of the name is written below, before the records of the
        // program's mappings.
        begin_exec();
    }
    let mut name_words = [0; 2];
    // SAFETY: The function requires a string that ends with 0, which the tracepoint passes, and room for 16 bytes,
    // which `name_words` has.
    unsafe { ffi::perfmon_copy_name(name, name_words.as_mut_ptr().cast()) };
    record::write_task_change(&TaskChange::Name(task, name_words, by_exec));
}

/// Removes all events from the current task, so that its context is gone, and records the task's counts.
fn remove_events_of_current_task() {
    let _pinned = pin();
    let counts = Cell::new(EndCounts::default());
    with_current_task_slots(|here, slots| {
        if let Some(here) = here {
            // Closes the windows, so that the sums are up to date.
            slot::Readings::new(timestamp()).close_windows(here, slots);
        }
        let mut end_counts = counts.take();
        // SAFETY: `collect` requires that RCU is held until `end_counts`, which moves to `counts`, is dropped: preemption
        // is off until `_pinned` is dropped, which is declared before `counts` and so dropped after it.
        unsafe { end_counts.collect(slots, |_| true) };
        counts.set(end_counts);
        slot::remove_all(slots);
    });
    counts.take().write();
}
