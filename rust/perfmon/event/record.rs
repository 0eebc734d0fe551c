// SPDX-License-Identifier: GPL-2.0-only
//! Records of changes of tasks, in the rings of the events that want such records.

use super::{
    cgroup,
    context::{Context, HeldContext},
    event::Event,
    slot::{Slot, Slots},
    slow_switch_users::SLOW_SWITCH_USERS,
    table::TASKS,
};
use crate::{
    cpu::{irqs_off, ThisCpu},
    ring::TaskChange,
};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use kernel::{bindings, task::Task};

/// The number of events that record context switches.
///
/// ATOMICS: relaxed. The number is raised together with [`SLOW_SWITCH_USERS`], before the event is
/// attached.
static SWITCH_RECORDERS: AtomicU32 = AtomicU32::new(0);

/// Makes switches take the slow path, if the event writes records or samples at each switch. Must
/// be called before the event is attached.
pub(super) fn begin_slow_switches(event: &Event) {
    if event.sampler.sampling.records_switches {
        SWITCH_RECORDERS.fetch_add(1, Relaxed);
    }
    if writes_at_switch(event) {
        SLOW_SWITCH_USERS.fetch_add(1, Relaxed);
    }
}

/// Undoes [`begin_slow_switches`], when no context has the event any more.
pub(super) fn end_slow_switches(event: &Event) {
    if writes_at_switch(event) {
        SLOW_SWITCH_USERS.fetch_sub(1, Relaxed);
    }
    if event.sampler.sampling.records_switches {
        SWITCH_RECORDERS.fetch_sub(1, Relaxed);
    }
}

/// Returns whether the event writes records or samples at each switch.
fn writes_at_switch(event: &Event) -> bool {
    event.sampler.sampling.records_switches || event.target.needs_records_at_switch(&event.config)
}

/// Records a change of the current task in the rings of its own events, and of the events of its CPU and its cgroups.
/// Samples that were taken before the change are written first. Must be called with interrupts on.
pub(super) fn write_task_change(change: &TaskChange<'_>) {
    write_task_change_here(irqs_off().here(), change);
}

/// Does what [`write_task_change`] does. Must be called with interrupts off.
pub(super) fn write_task_change_here(here: ThisCpu<'_>, change: &TaskChange<'_>) {
    here.pmu().convert_records_so_far(here);
    let task = Task::current_raw();
    with_slots_of_task(here, |slots| {
        write_to_slots(here, slots, change, task, None);
    });
    with_slots_of_cpu_and_cgroups(here, |slots| {
        write_to_slots(here, slots, change, task, None);
    });
}

/// Calls `f` with the slots of the current task, if the task has events. This includes a CPU that
/// is not used for counting, where no context is loaded. Must be called with interrupts off.
pub(super) fn with_slots_of_task(here: ThisCpu<'_>, mut f: impl FnMut(&mut Slots)) {
    if let Some(mut slots) = HeldContext::of_task(here) {
        f(&mut slots);
    } else if here.percpu().brought_up.get() == 0 {
        // SAFETY: `TASKS.find` requires preemption to be off: interrupts are off, as the caller promises, until the
        // context was last used.
        if let Some(context) = unsafe { TASKS.find(Task::current_raw()) } {
            context.with_current_slots(here, |_, slots| f(slots));
        }
    }
}

/// Calls `f` with the slots of this CPU's events, even while the CPU is not used for counting, and
/// with the slots of the cgroups that are loaded here. Must be called with interrupts off.
pub(super) fn with_slots_of_cpu_and_cgroups(here: ThisCpu<'_>, mut f: impl FnMut(&mut Slots)) {
    if here.percpu().brought_up.get() == 0 {
        // SAFETY: `from_address` requires a context that is alive, or 0: `cpu_context` is 0 or the address of a CPU's
        // context, which is not freed before the module's exit.
        let context = unsafe { Context::from_address(here.percpu().cpu_context.acquire()) };
        if let Some(context) = context {
            context.with_current_slots(here, |_, slots| f(slots));
        }
    }
    for mut slots in contexts_of_cpu_and_cgroups(here) {
        f(&mut slots);
    }
}

/// Returns the contexts of this CPU and of the cgroups that are loaded here. Must be called with interrupts off.
fn contexts_of_cpu_and_cgroups(here: ThisCpu<'_>) -> impl Iterator<Item = HeldContext<'_>> {
    Iterator::chain(
        HeldContext::of_cpu(here).into_iter(),
        cgroup::loaded_contexts(here),
    )
}

/// Records one side of a context switch between `task` and `other`, if an event records switches. Only records of
/// events of CPUs and cgroups name `other`. Must be called with interrupts off.
pub(super) fn write_switch(
    here: ThisCpu<'_>,
    change: &TaskChange<'_>,
    task: *mut bindings::task_struct,
    other: *mut bindings::task_struct,
) {
    if SWITCH_RECORDERS.load(Relaxed) != 0 {
        write_switch_to_all(here, change, task, other);
    }
}

/// Does the rest of [`write_switch`]. Not inlined: keeps switches that are not recorded short.
#[cold]
#[inline(never)]
fn write_switch_to_all(
    here: ThisCpu<'_>,
    change: &TaskChange<'_>,
    task: *mut bindings::task_struct,
    other: *mut bindings::task_struct,
) {
    if let Some(slots) = HeldContext::of_task(here) {
        write_to_slots(here, &slots, change, task, None);
    }
    for slots in contexts_of_cpu_and_cgroups(here) {
        write_to_slots(here, &slots, change, task, Some(other));
    }
}

/// Records a change of `task` for each of the slots that are enabled here and whose event wants such records. `other` is
/// the other task of a context switch, if the record names it.
pub(super) fn write_to_slots(
    here: ThisCpu<'_>,
    slots: &Slots,
    change: &TaskChange<'_>,
    task: *mut bindings::task_struct,
    other: Option<*mut bindings::task_struct>,
) {
    let wants_record = |slot: &&Slot| {
        slots.is_enabled_here(here, slot) && slot.event().sampler.records_change(change)
    };
    for slot in slots.iter().filter(wants_record) {
        let cpu = here.id().as_u32();
        slot.event().sampler.record_change(change, task, other, cpu);
    }
}
