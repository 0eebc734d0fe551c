// SPDX-License-Identifier: GPL-2.0-only
//! The context switch, and the loading and unloading of all contexts of a CPU.

use super::{
    cgroup,
    context::{Context, HeldContext},
    record,
    slot::{refresh, Readings},
    slow_switch_users::SLOW_SWITCH_USERS,
    table::TASKS,
};
use crate::{
    cpu::{timestamp, ThisCpu},
    logic::counter::each_counter,
    ring::TaskChange,
    sys::ffi,
};
use core::sync::atomic::{
    compiler_fence,
    Ordering::{Relaxed, SeqCst},
};
use kernel::{
    bindings,
    ffi::{c_uint, c_void},
    task::Task,
};

/// Handles the tracepoint `sched_switch`: `next` will run. Interrupts are off and the run queue is locked, so this
/// must not wake tasks, print or allocate.
///
/// # Safety
///
/// To be called for the tracepoint `sched_switch` only, with its arguments.
pub(super) unsafe extern "C" fn on_switch(
    _data: *mut c_void,
    preempt: bool,
    prev: *mut bindings::task_struct,
    next: *mut bindings::task_struct,
    prev_state: c_uint,
) {
    if SLOW_SWITCH_USERS.load(Relaxed) != 0 {
        // SAFETY: `on_slow_switch` requires the tracepoint `sched_switch`, and its arguments: the caller promises that this
        // is called for that tracepoint, and has passed the arguments.
        return unsafe { on_slow_switch(preempt, prev, next, prev_state) };
    }
    // SAFETY: `assume` requires that the caller can't leave the CPU: the scheduler calls the tracepoint `sched_switch`
    // with interrupts off, which they are until this function has returned.
    let here = unsafe { ThisCpu::assume() };
    // SAFETY: `TASKS.find` requires preemption to be off: the scheduler calls the tracepoint with interrupts off,
    // which they are until this function returns, after the last use of the context.
    let incoming = unsafe { TASKS.find(next) };
    let outgoing = Context::loaded_task_context(here.percpu());
    if outgoing.is_some() || incoming.is_some() {
        exchange_contexts(here, outgoing, incoming, |_| ());
    }
}

/// Does what [`on_switch`] does, while there are place-holders. Events of perf can be opened then,
/// so perf may have given a program the right to use RDPMC since the program ran last.
///
/// # Safety
///
/// To be called for the tracepoint `sched_switch` only, with its arguments.
pub(super) unsafe extern "C" fn on_switch_beside_perf(
    data: *mut c_void,
    preempt: bool,
    prev: *mut bindings::task_struct,
    next: *mut bindings::task_struct,
    prev_state: c_uint,
) {
    // SAFETY: The first function requires a task that is alive: `next` is being switched to. The other two require the
    // tracepoint `sched_switch`, and its arguments: the caller promises that this is called for that tracepoint, and has
    // passed the arguments.
    unsafe {
        if ffi::perfmon_rdpmc_may_have(next) {
            on_slow_switch(preempt, prev, next, prev_state);
        } else {
            on_switch(data, preempt, prev, next, prev_state);
        }
    }
}

/// Does what [`on_switch`] does, and the additional work for [`SLOW_SWITCH_USERS`].
///
/// # Safety
///
/// To be called for the tracepoint `sched_switch` only, with its arguments.
#[cold]
#[inline(never)]
unsafe fn on_slow_switch(
    preempt: bool,
    prev: *mut bindings::task_struct,
    next: *mut bindings::task_struct,
    prev_state: c_uint,
) {
    // True if `prev` does not go to sleep, so that it could continue to run. `preempt` is true only if the task was
    // preempted in the kernel. The state is 0 (`TASK_RUNNING`) if the task was preempted in its program.
    let is_runnable = preempt || prev_state == 0;
    // SAFETY: `assume` requires that the caller can't leave the CPU: the scheduler calls the tracepoint `sched_switch`
    // with interrupts off, which they are until this function has returned.
    let here = unsafe { ThisCpu::assume() };
    // SAFETY: `TASKS.find` requires preemption to be off: the scheduler calls the tracepoint with interrupts off,
    // which they are until this function returns, after the last use of the context.
    let incoming = unsafe { TASKS.find(next) };
    // The processor's records do not name their task. The current task is still `prev`.
    here.pmu().convert_records_at_switch(here);
    record::write_switch(here, &TaskChange::SwitchOut(is_runnable), prev, next);
    let outgoing = Context::loaded_task_context(here.percpu());
    if outgoing.is_none() && incoming.is_none() {
        cgroup::switch_to(here, next);
        hide_counters_from(here, next);
    } else {
        exchange_contexts_slowly(here, outgoing, incoming, next);
    }
    record::write_switch(here, &TaskChange::SwitchIn, next, prev);
}

/// Does what [`exchange_contexts`] does. Also loads the contexts of the cgroups of `next`, which is
/// about to run here, and hides from `next` what the counters have counted for other tasks.
#[cold]
#[inline(never)]
fn exchange_contexts_slowly(
    here: ThisCpu<'_>,
    outgoing: Option<&Context>,
    incoming: Option<&Context>,
    next: *mut bindings::task_struct,
) {
    exchange_contexts(here, outgoing, incoming, |readings| {
        cgroup::load_contexts_of(here, readings, next);
        hide_counters_from(here, next);
    });
}

/// Hides the values of the counters from a task that is about to run here, if its program may use RDPMC. Must be called
/// while no window of a task is open.
#[inline(always)]
fn hide_counters_from(here: ThisCpu<'_>, task: *const bindings::task_struct) {
    // SAFETY: The function requires a task that is alive: `task` is current or is being switched to.
    if here.percpu().task_counters.get() != 0 && unsafe { ffi::perfmon_rdpmc_may_have(task) } {
        here.pmu().hide_counters(here);
    }
}

/// Unloads the context `outgoing` from this CPU, and loads `incoming`. Calls `while_unloaded` in between, while no window
/// of a task is open.
#[inline(always)]
fn exchange_contexts(
    here: ThisCpu<'_>,
    outgoing: Option<&Context>,
    incoming: Option<&Context>,
    while_unloaded: impl FnOnce(&mut Readings),
) {
    let mut readings = Readings::new(timestamp());
    if let Some(context) = outgoing {
        // SAFETY: `assume` requires a context that is loaded here, interrupts off, and no other user: callers pass the
        // context that is loaded here, and in this folder a `ThisCpu` is passed on only while interrupts are off, until
        // `slots` is unloaded.
        let mut slots = unsafe { HeldContext::assume(context) };
        readings.close_windows(here, &mut slots);
        slots.unload();
    }
    while_unloaded(&mut readings);
    let percpu = here.percpu();
    // ATOMICS: pairs with the fence in `attach::on_each_loaded_context`. The address is published
    // before the states of the events are loaded: `try_load` exchanges a value, which is a full
    // barrier on x86. So either a task that changes a state finds the address, and calls this CPU,
    // or this CPU opens the windows by the new state. Nothing on this CPU uses the address before
    // the context is loaded: interrupts are off, and NMIs use no contexts.
    percpu
        .task_context
        .publish(incoming.map_or(0, Context::address));
    compiler_fence(SeqCst);
    match incoming {
        Some(context) if percpu.brought_up.get() != 0 && context.try_load(here) => {
            // SAFETY: `assume` requires a context that is loaded here, interrupts off, and no other
            // user: `try_load` has just loaded the context, which had no holder before, and in this
            // folder a `ThisCpu` is passed on only while interrupts are off, until `slots` is
            // dropped.
            let mut slots = unsafe { HeldContext::assume(context) };
            readings.open_windows(here, &mut slots);
        }
        Some(context) => {
            percpu.task_context.publish(0);
            mark_broken_if_refused(here, context);
        }
        None => {}
    }
}

/// Marks a task's events as broken, if this CPU's counters can't be used. Marks nothing on a CPU that is down for the
/// system's sleep: the times of the events stop then, too.
#[cold]
#[inline(never)]
fn mark_broken_if_refused(here: ThisCpu<'_>, context: &Context) {
    if here.percpu().is_refused.get() != 0 {
        context.with_current_slots(here, |_, slots| slots.mark_broken_on(here.id()));
    }
}

/// Marks the events of the running task as broken, if this CPU's counters can't be used. The
/// context switch marks events that are enabled already. This function marks events that are
/// enabled while the task runs. Must be called with interrupts off.
pub(super) fn mark_current_broken_if_refused(here: ThisCpu<'_>) {
    // SAFETY: `TASKS.find` requires preemption to be off: a `ThisCpu` is passed on in this folder only while
    // interrupts are off, so they are off until this function returns, after the last use of the context.
    if let Some(context) = unsafe { TASKS.find(Task::current_raw()) } {
        mark_broken_if_refused(here, context);
    }
    if here.percpu().is_refused.get() != 0 {
        cgroup::load_contexts_of(here, &mut Readings::new(timestamp()), Task::current_raw());
    }
}

/// Loads the context of the task that is running here, if the task has one that is not loaded. Must be called with
/// interrupts off.
pub(super) fn load_current(here: ThisCpu<'_>) {
    if here.percpu().task_context.get() == 0 {
        // SAFETY: `TASKS.find` requires preemption to be off: a `ThisCpu` is passed on in this folder only while
        // interrupts are off, so they are off until this function returns, after the last use of the context.
        let incoming = unsafe { TASKS.find(Task::current_raw()) };
        exchange_contexts_slowly(here, None, incoming, Task::current_raw());
    }
}

/// Loads the contexts of this CPU, of its running task, and of the task's cgroups, so that their events count. The
/// module must have claimed the CPU's counters. Must be called with interrupts off.
pub(crate) fn load_contexts(here: ThisCpu<'_>) {
    load_current(here);
    // SAFETY: `from_address` requires a context that is alive, or 0: the address is 0 or the
    // address of a CPU's context, which is not freed before the module's exit.
    if let Some(context) = unsafe { Context::from_address(here.percpu().cpu_context.get()) } {
        if let Some(mut slots) = context.load(here) {
            refresh(here, &mut slots, timestamp());
        }
    }
}

/// Closes, on this CPU, the windows of events that were disabled after their last allowed sample.
///
/// # Safety
///
/// To be called with interrupts off.
pub(super) unsafe extern "C" fn on_last_sample() {
    // SAFETY: `assume` requires that the caller can't leave the CPU: the caller has interrupts off, as `# Safety`
    // demands, until this function has returned.
    let here = unsafe { ThisCpu::assume() };
    let percpu = here.percpu();
    // SAFETY: `from_address` requires a context that is alive, or 0: the address is 0 or the
    // address of a CPU's context, which is not freed before the module's exit.
    let cpu_context = unsafe { Context::from_address(percpu.cpu_context.acquire()) };
    let contexts = [Context::loaded_task_context(percpu), cpu_context];
    for context in contexts.into_iter().flatten() {
        context.with_current_slots(here, |loaded_here, slots| {
            if let Some(here) = loaded_here {
                refresh(here, slots, timestamp());
            }
        });
    }
    cgroup::refresh_loaded(here);
}

/// Gives turns to the next events of this CPU, and of the task that runs here. To be called by the timer, with interrupts
/// off.
pub(crate) fn take_turns(here: ThisCpu<'_>) {
    let contexts = [HeldContext::of_task(here), HeldContext::of_cpu(here)];
    for mut slots in contexts.into_iter().flatten() {
        if slots.has_waiting_groups() {
            slots.advance_turn();
            refresh(here, &mut slots, timestamp());
        }
    }
}

/// Sets up anew the counters of this CPU that were tampered with and that may count for several contexts at once
/// ([`PerCpu::overlapping_counters`]). Other counters are set up when the next window on them opens. All windows
/// close for that moment, which marks the events that missed counts. To be called by the timer, with interrupts off.
///
/// [`PerCpu::overlapping_counters`]: crate::percpu::PerCpu::overlapping_counters
pub(crate) fn set_up_tampered(here: ThisCpu<'_>) {
    let (percpu, pmu) = (here.percpu(), here.pmu());
    let tampered_counters = percpu.tampered.get() & percpu.overlapping_counters.get();
    if tampered_counters == 0 || !pmu.has_kept_perf_off(here) {
        return;
    }
    unload_contexts(here);
    for counter in each_counter(tampered_counters) {
        pmu.set_up_tampered(here, counter, percpu.value(counter).select());
    }
    load_contexts(here);
}

/// Unloads all contexts from this CPU, so that no event counts here. The events keep their sums. Must be called with
/// interrupts off.
pub(crate) fn unload_contexts(here: ThisCpu<'_>) {
    exchange_contexts_slowly(
        here,
        Context::loaded_task_context(here.percpu()),
        None,
        Task::current_raw(),
    );
    let mut readings = Readings::new(timestamp());
    cgroup::unload_all(here, &mut readings);
    if let Some(mut slots) = HeldContext::of_cpu(here) {
        readings.close_windows(here, &mut slots);
        slots.unload();
    }
}
