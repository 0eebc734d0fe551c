// SPDX-License-Identifier: GPL-2.0-only
//! Recording what happens to tasks, in the rings of the events that want it.

use super::{
    context::Held,
    event::Event,
    slot::{Slot, Slots},
    slow_switch_users::SLOW_SWITCH_USERS,
};
use crate::{
    cpu::{irqs_off, ThisCpu},
    ring::TaskChange,
};
use core::sync::atomic::Ordering::Relaxed;
use kernel::{bindings, task::Task};

/// Begins to record switches for the event, if it wants that.
pub(super) fn begin(event: &Event) {
    if event.sampler.sampling.switch {
        SLOW_SWITCH_USERS.fetch_add(1, Relaxed);
    }
}

/// Ends [`begin`].
pub(super) fn end(event: &Event) {
    if event.sampler.sampling.switch {
        SLOW_SWITCH_USERS.fetch_sub(1, Relaxed);
    }
}

/// Records a change of the current task, for its own events and those of its CPU.
pub(super) fn write_current(change: &TaskChange<'_>) {
    let irqs_off = irqs_off();
    let here = irqs_off.here();
    let task = Task::current_raw();
    if let Some(slots) = Held::of_task(here) {
        write_to(here, &slots, change, task, None);
    }
    if let Some(slots) = Held::of_cpu(here) {
        write_to(here, &slots, change, task, None);
    }
}

/// Records a switch: a change of `task`, which changes places with `other`. Interrupts are off.
#[cold]
#[inline(never)]
pub(super) fn write_switch(
    here: ThisCpu<'_>,
    change: &TaskChange<'_>,
    task: *mut bindings::task_struct,
    other: *mut bindings::task_struct,
) {
    if let Some(slots) = Held::of_task(here) {
        write_to(here, &slots, change, task, None);
    }
    if let Some(slots) = Held::of_cpu(here) {
        write_to(here, &slots, change, task, Some(other));
    }
}

/// Records a change of `task` for those of the slots whose windows are open. `other` is the task that it changes places
/// with, if that is to be told.
pub(super) fn write_to(
    here: ThisCpu<'_>,
    slots: &Slots,
    change: &TaskChange<'_>,
    task: *mut bindings::task_struct,
    other: Option<*mut bindings::task_struct>,
) {
    let records = |slot: &&Slot| slot.is_open() && slot.event().sampler.records_change(change);
    for slot in slots.iter().filter(records) {
        let cpu = here.id().as_u32();
        slot.event().sampler.record_change(change, task, other, cpu);
    }
}
