// SPDX-License-Identifier: GPL-2.0-only
//! The context switch, and where a CPU begins and ends to be counted on.

use super::{
    cgroup,
    context::{Context, Held},
    record,
    slot::{refresh, Readings},
    slow_switch_users::SLOW_SWITCH_USERS,
    table,
};
use crate::{
    cpu::{timestamp, ThisCpu},
    ring::TaskChange,
    sys::ffi,
};
use core::sync::atomic::Ordering::Relaxed;
use kernel::{
    bindings,
    ffi::{c_uint, c_void},
    task::Task,
};

/// The tracepoint `sched_switch`: `next` will run. Interrupts are off, and the run queue is locked: nothing is woken,
/// printed or allocated.
///
/// # Safety
///
/// To be called by the tracepoint.
pub(super) unsafe extern "C" fn on_switch(
    _data: *mut c_void,
    preempt: bool,
    prev: *mut bindings::task_struct,
    next: *mut bindings::task_struct,
    _prev_state: c_uint,
) {
    if SLOW_SWITCH_USERS.load(Relaxed) != 0 {
        // SAFETY: The tracepoint calls this function, with these arguments.
        return unsafe { on_slow_switch(preempt, prev, next) };
    }
    // SAFETY: Interrupts are off, so the caller stays on the CPU until this function returns.
    let here = unsafe { ThisCpu::assume() };
    // SAFETY: Without preemption, RCU keeps the context until this function returns.
    let into = unsafe { table::find(next) };
    let out = Context::loaded(here.percpu());
    if out.is_some() || into.is_some() {
        exchange_contexts(here, out, into, |_| ());
    }
}

/// As [`on_switch`], for [`SLOW_SWITCH_USERS`].
///
/// # Safety
///
/// To be called by the tracepoint.
#[cold]
#[inline(never)]
unsafe fn on_slow_switch(
    preempt: bool,
    prev: *mut bindings::task_struct,
    next: *mut bindings::task_struct,
) {
    // SAFETY: Interrupts are off, so the caller stays on the CPU until this function returns.
    let here = unsafe { ThisCpu::assume() };
    // SAFETY: Without preemption, RCU keeps the context until this function returns.
    let into = unsafe { table::find(next) };
    record::write_switch(here, &TaskChange::SwitchOut(preempt), prev, next);
    exchange_contexts_slowly(here, Context::loaded(here.percpu()), into, next);
    record::write_switch(here, &TaskChange::SwitchIn, next, prev);
}

/// As [`exchange_contexts`]. `next` runs here from now on: its cgroups are counted, and it does not see what others
/// have counted.
#[cold]
#[inline(never)]
fn exchange_contexts_slowly(
    here: ThisCpu<'_>,
    out: Option<&Context>,
    into: Option<&Context>,
    next: *mut bindings::task_struct,
) {
    exchange_contexts(here, out, into, |readings| {
        cgroup::load_contexts_of(here, readings, next);
        hide_counters_from(here, next);
    });
}

/// Hides the values of the counters from a task that starts to run here, if its program may use RDPMC. No window of a
/// task is open.
#[cold]
#[inline(never)]
fn hide_counters_from(here: ThisCpu<'_>, task: *const bindings::task_struct) {
    // SAFETY: The task is the one that is switched to.
    if unsafe { ffi::perfmon_rdpmc_has(task) } {
        here.pmu().hide_counters(here);
    }
}

/// Unloads one context and loads another, on this CPU. Calls `between` when no window of a task is open.
#[inline(always)]
fn exchange_contexts(
    here: ThisCpu<'_>,
    out: Option<&Context>,
    into: Option<&Context>,
    between: impl FnOnce(&mut Readings),
) {
    let mut readings = Readings::new(timestamp());
    if let Some(context) = out {
        // SAFETY: The context is loaded on this CPU, and interrupts are off.
        let mut slots = unsafe { Held::assume(context) };
        readings.close_windows(here, &mut slots);
        slots.unload();
    }
    between(&mut readings);
    let percpu = here.percpu();
    let loaded = match into {
        Some(context) if percpu.brought_up.get() != 0 && context.try_load(here) => {
            // SAFETY: `try_load` has just loaded the context on this CPU, which it does only while nothing else holds
            // it. Interrupts are off, as `here` says.
            let mut slots = unsafe { Held::assume(context) };
            readings.open_windows(here, &mut slots);
            context.address()
        }
        Some(context) => {
            mark_missed(here, context);
            0
        }
        None => 0,
    };
    percpu.task_context.publish(loaded);
}

/// Marks the events of a task that runs on a CPU that was refused. On others, nothing is marked while the system sleeps:
/// the time of the event stands still then, too.
#[cold]
#[inline(never)]
fn mark_missed(here: ThisCpu<'_>, context: &Context) {
    if here.percpu().refused.get() != 0 {
        context.with_current_slots(here, |_, slots| slots.mark_missed(here.id()));
    }
}

/// Marks the events of the task that is running here, if this CPU was refused. A switch does that for events that are
/// enabled by then; this is for those that are enabled while the task runs. Interrupts are off.
pub(super) fn miss_current(here: ThisCpu<'_>) {
    // SAFETY: Interrupts are off, so RCU keeps the context.
    if let Some(context) = unsafe { table::find(Task::current_raw()) } {
        mark_missed(here, context);
    }
    if here.percpu().refused.get() != 0 {
        cgroup::load_contexts_of(here, &mut Readings::new(timestamp()), Task::current_raw());
    }
}

/// Loads the context of the task that is running here, if it has one and that is not done. Interrupts are off.
pub(super) fn load_current(here: ThisCpu<'_>) {
    if here.percpu().task_context.get() == 0 {
        // SAFETY: Interrupts are off, so RCU keeps the context.
        let into = unsafe { table::find(Task::current_raw()) };
        exchange_contexts_slowly(here, None, into, Task::current_raw());
    }
}

/// Begins to count events on a CPU whose counters are ours. Interrupts are off.
pub(crate) fn enter_cpu(here: ThisCpu<'_>) {
    load_current(here);
    // SAFETY: The context of a CPU is never freed while the module is loaded.
    if let Some(context) = unsafe { Context::from_address(here.percpu().cpu_context.get()) } {
        if let Some(mut slots) = context.load(here) {
            refresh(here, &mut slots, timestamp());
        }
    }
}

/// Closes the windows of an event on this CPU that its last sample has disabled.
///
/// # Safety
///
/// To be called with interrupts off.
pub(super) unsafe extern "C" fn on_last_sample() {
    // SAFETY: Interrupts are off, so the caller stays on the CPU until this function returns.
    let here = unsafe { ThisCpu::assume() };
    let percpu = here.percpu();
    // SAFETY: The context of a CPU is never freed while the module is loaded.
    let of_cpu = unsafe { Context::from_address(percpu.cpu_context.acquire()) };
    let contexts = [Context::loaded(percpu), of_cpu];
    for context in contexts.into_iter().flatten() {
        context.with_current_slots(here, |at, slots| {
            if let Some(here) = at {
                refresh(here, slots, timestamp());
            }
        });
    }
    cgroup::refresh_loaded(here);
}

/// Gives the next events of the CPU, and of the task that runs here, their turns. Called at each tick, with interrupts
/// off.
pub(crate) fn take_turns(here: ThisCpu<'_>) {
    let contexts = [Held::of_task(here), Held::of_cpu(here)];
    for mut slots in contexts.into_iter().flatten() {
        if slots.has_waiting() {
            slots.next_turn();
            refresh(here, &mut slots, timestamp());
        }
    }
}

/// Ceases to count events on a CPU; the sums stay. Interrupts are off.
pub(crate) fn leave_cpu(here: ThisCpu<'_>) {
    exchange_contexts_slowly(
        here,
        Context::loaded(here.percpu()),
        None,
        Task::current_raw(),
    );
    let mut readings = Readings::new(timestamp());
    cgroup::unload_all(here, &mut readings);
    if let Some(mut slots) = Held::of_cpu(here) {
        readings.close_windows(here, &mut slots);
        slots.unload();
    }
}
