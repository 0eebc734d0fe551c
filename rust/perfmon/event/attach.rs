// SPDX-License-Identifier: GPL-2.0-only
//! Giving an event to a task or a CPU, and taking it away.

use super::{
    cgroup,
    context::{Context, Held},
    event::Event,
    slot::{self, refresh, Readings, Slot, SlotMemory, Slots, FEW_SLOTS, MAX_SLOTS},
    switch::{load_current, miss_current},
    table,
    target::Target,
};
use crate::{
    cpu::{ids, on_cpu, on_each_online, pin, timestamp, ThisCpu},
    logic::{admission::OwnCounters, event_config::EventConfig},
    ownership::{has_incapable_cpu, OWNERSHIP},
    percpu,
    sys::{cgroup::Cgroup, ffi},
};
use core::{
    ptr,
    sync::atomic::{fence, Ordering::SeqCst},
};
use kernel::{bindings, cpu::CpuId, prelude::*, sync::Arc, task::Task};

/// Calls `f` with the context of what the event was opened for, as [`Context::with_slots`]. `None` if there is none: the
/// task has no events yet, or has exited.
///
/// RCU is held by staying on the CPU: a caller that is preempted meanwhile, and does not get to run, would keep all from
/// the end of the grace period.
pub(super) fn with_context<R: Send>(
    target: &Target,
    f: impl FnMut(Option<ThisCpu<'_>>, &mut Slots) -> R + Send,
) -> Option<R> {
    let _pinned = pin();
    match target {
        Target::Task(task, _) => {
            // SAFETY: Contexts are freed by RCU, whose grace period waits for this CPU: it has preemption off until
            // `_pinned` is dropped, after the last use of the context.
            let context = unsafe { table::find(task.as_ptr()) }?;
            let (result, ends) = context.with_slots(f)?;
            if ends {
                table::lock().remove(task.as_ptr(), context);
            }
            Some(result)
        }
        Target::Cpu(cpu) => {
            let (result, _) = cpu_context(*cpu)?.with_slots(f)?;
            Some(result)
        }
        Target::Cgroup(cgroup, Some(cpu)) => cgroup::with_context(cgroup, *cpu, f),
        // It has one on each CPU: `with_each_context`.
        Target::Cgroup(_, None) => None,
    }
}

/// Calls `f` with each context of what the event was opened for. Tasks that have inherited it have others.
fn with_each_context(target: &Target, mut f: impl FnMut(Option<ThisCpu<'_>>, &mut Slots) + Send) {
    match target {
        Target::Cgroup(cgroup, None) => {
            for cpu in ids() {
                cgroup::with_context(cgroup, cpu, &mut f);
            }
        }
        Target::Task(..) | Target::Cpu(_) | Target::Cgroup(_, Some(_)) => {
            with_context(target, f);
        }
    }
}

/// Returns the context of a CPU's events.
fn cpu_context<'a>(cpu: CpuId) -> Option<&'a Context> {
    let percpu = percpu::of_cpu(cpu);
    // SAFETY: The context of a CPU is never freed while the module is loaded.
    unsafe { Context::from_address(percpu.cpu_context.acquire()) }
}

/// Returns the counters that the events of the target have, when one more is to be opened.
pub(super) fn own_counters(target: &Target, config: &EventConfig) -> OwnCounters {
    let cpu = target.cpu();
    with_context(target, |_, slots| slot::own_counters(slots, config, cpu)).unwrap_or_default()
}

/// Returns whether there is an exclusive group, which `leader` does not lead.
fn has_other_exclusive_group(slots: &Slots, leader: Option<&Event>) -> bool {
    slots.iter().any(|slot| {
        slot.event().config.exclusive && !leader.is_some_and(|leader| slot.is_of_event(leader))
    })
}

/// Why an event was not given to its target.
pub(super) enum AttachError {
    /// Another event has the counter there: the target has got it since the counter was chosen.
    CounterTaken,
    /// There is no room for one slot more than these.
    Full(usize),
    /// The error of the call.
    Error(Error),
}

impl<E: Into<Error>> From<E> for AttachError {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

/// Gives the event to its target. `leader` leads its group.
///
/// # Errors
///
/// ESRCH if the task exits. EBUSY if an exclusive group leaves no room for this one. ENOMEM.
pub(super) fn attach(event: &Event, leader: Option<&Event>) -> Result<(), AttachError> {
    match &event.target {
        Target::Task(task, cpu) => attach_to_task(event, task, *cpu, leader),
        Target::Cpu(cpu) => attach_to_cpu(event, *cpu, leader),
        Target::Cgroup(cgroup, cpu) => attach_to_cgroup(event, cgroup, *cpu, leader),
    }
}

/// Adds a slot of the event, and opens its window if the context is loaded. Memory comes from `room`: nothing is
/// allocated here, since the CPUs that wait for the context hold locks of the scheduler.
///
/// # Errors
///
/// EBUSY if the events of the context exclude this one, the context has as many as there may be, or the group would
/// never have all its counters at once.
fn add(
    here: Option<ThisCpu<'_>>,
    slots: &mut Slots,
    event: &Event,
    room: &mut SlotMemory,
    cpu: Option<CpuId>,
    leader: Option<&Event>,
) -> Result<(), AttachError> {
    check_compatible(slots, event, cpu, leader)?;
    slots.take_room(room);
    if slots.is_full() {
        return Err(AttachError::Full(slots.len()));
    }
    let leader = leader.and_then(|leader| slots.iter().position(|slot| slot.is_of_event(leader)));
    slots.add(Slot::new(event, cpu, leader))?;
    let fits = match leader.filter(|_| event.config.takes_turns) {
        Some(leader) => {
            if let Some(here) = here {
                // To try it gives others counters that they may not have now.
                Readings::new(timestamp()).close_windows(here, slots);
            }
            slots.fits(leader)
        }
        None => true,
    };
    if !fits {
        slot::remove(slots, event);
    }
    if let Some(here) = here {
        refresh(here, slots, timestamp());
    }
    if fits {
        Ok(())
    } else {
        Err(EBUSY.into())
    }
}

/// Checks whether an event can be counted beside those of the context.
///
/// # Errors
///
/// EBUSY if they exclude each other, or there are as many as there may be. [`AttachError::CounterTaken`] if one of
/// them has got the counter since it was chosen.
fn check_compatible(
    slots: &mut Slots,
    event: &Event,
    cpu: Option<CpuId>,
    leader: Option<&Event>,
) -> Result<(), AttachError> {
    if slots.len() == MAX_SLOTS {
        return Err(EBUSY.into());
    }
    if event.counter.is_none() {
        return Ok(());
    }
    let has_counters = slots.iter().any(|slot| !slot.counter().is_none());
    if has_other_exclusive_group(slots, leader) || event.config.exclusive && has_counters {
        return Err(EBUSY.into());
    }
    // Since the counter was chosen, another event may have been opened, or the task made, with the events that it
    // inherits.
    let own = slot::own_counters(slots, &event.config, cpu);
    let taken = if event.config.takes_turns {
        own.busy
    } else {
        own.taken()
    };
    if taken & event.counters != 0 {
        return Err(AttachError::CounterTaken);
    }
    Ok(())
}

fn attach_to_task(
    event: &Event,
    task: &Task,
    cpu: Option<CpuId>,
    leader: Option<&Event>,
) -> Result<(), AttachError> {
    let task_ptr: *const bindings::task_struct = task.as_ptr();
    let mut room = SlotMemory::for_event(event)?;
    loop {
        if let Some(result) = add_to_context(event, &event.target, &mut room, cpu, leader) {
            return result;
        }
        // The task has none. Memory is allocated without RCU.
        let slots = Slots::new(FEW_SLOTS, GFP_KERNEL_ACCOUNT)?;
        let new = Context::new(task_ptr, slots, GFP_KERNEL_ACCOUNT)?;
        let fill = |slots: &mut Slots| add(None, slots, event, &mut room, cpu, leader);
        if insert(task, new, fill)? {
            table::grow_if_crowded();
            load_where_running(task);
            return Ok(());
        }
    }
}

/// Adds a context to the table, unless the task has one. `fill` adds the first slot, under the table's lock. Returns
/// whether the context was added.
///
/// # Errors
///
/// ESRCH if the task is exiting, and those of `fill`.
fn insert(
    task: &Task,
    mut new: KBox<Context>,
    fill: impl FnOnce(&mut Slots) -> Result<(), AttachError>,
) -> Result<bool, AttachError> {
    let task_ptr: *const bindings::task_struct = task.as_ptr();
    let mut table = table::lock();
    // The task itself removes its context after it has set that flag, and then has taken the lock.
    // SAFETY: The caller's reference keeps the task alive.
    if unsafe { ffi::perfmon_task_is_exiting(task.as_ptr()) } {
        return Err(ESRCH.into());
    }
    // The task that took the last event from a context that is gone has yet to remove it, and may not get to run.
    // SAFETY: `table` is the guard of the table's lock.
    let gone = unsafe { table::find(task_ptr) }.filter(|context| context.is_gone());
    if let Some(gone) = gone {
        table.remove(task_ptr, gone);
    }
    // SAFETY: `table` is the guard of the table's lock.
    let is_new = unsafe { table::find(task_ptr) }.is_none();
    if is_new {
        fill(new.slots_mut())?;
        table.add(new);
    }
    Ok(is_new)
}

/// Loads the context of a task, which has just been added to the table, on the CPU where the task runs.
fn load_where_running(task: &Task) {
    // If the task is running, it was so on this CPU when the number was read: otherwise it is switched in after the
    // context has been added. It still runs there, or has been switched out.
    // ATOMICS: pairs with the switch, which finds the context after the number was written; and with an exec, which looks
    // for the context after the task's new rights were written, as the caller looks at them after this.
    fence(SeqCst);
    // SAFETY: The caller's reference keeps the task alive.
    let cpu = unsafe { ffi::perfmon_task_cpu(task.as_ptr()) };
    let address = task.as_ptr().addr();
    on_cpu(cpu, |here| {
        if Task::current_raw().addr() == address {
            load_current(here);
        }
    });
}

fn attach_to_cpu(event: &Event, cpu: CpuId, leader: Option<&Event>) -> Result<(), AttachError> {
    if cpu_context(cpu).is_none() {
        let slots = Slots::new(FEW_SLOTS, GFP_KERNEL_ACCOUNT)?;
        insert_cpu_context(cpu, Context::new(ptr::null(), slots, GFP_KERNEL_ACCOUNT)?);
    }
    add_on_cpu(event, &event.target, leader)
}

/// Adds a slot of the event to the context of `target`, if there is one: [`add`].
fn add_to_context(
    event: &Event,
    target: &Target,
    room: &mut SlotMemory,
    cpu: Option<CpuId>,
    leader: Option<&Event>,
) -> Option<Result<(), AttachError>> {
    loop {
        let added = with_context(target, |here, slots| {
            add(here, slots, event, room, cpu, leader)
        });
        let Some(Err(AttachError::Full(slots))) = added else {
            return added;
        };
        if let Err(error) = room.grow(slots) {
            return Some(Err(error.into()));
        }
    }
}

/// Adds a slot of the event to a context of a CPU, its own or a cgroup's: in these, any task is counted.
fn add_on_cpu(event: &Event, target: &Target, leader: Option<&Event>) -> Result<(), AttachError> {
    let mut room = SlotMemory::for_event(event)?;
    add_to_context(event, target, &mut room, None, leader).unwrap_or(Err(ENODEV.into()))
}

fn attach_to_cgroup(
    event: &Event,
    cgroup: &Arc<Cgroup>,
    cpu: Option<CpuId>,
    leader: Option<&Event>,
) -> Result<(), AttachError> {
    cgroup::begin(cgroup)?;
    let on = |cpu| add_on_cpu(event, &Target::Cgroup(cgroup.clone(), Some(cpu)), leader);
    let attached = match cpu {
        Some(cpu) => on(cpu),
        None => ids().try_for_each(on),
    };
    if attached.is_err() {
        // What was added before the error.
        detach(event);
    }
    attached
}

/// Makes this the context of a CPU, unless it has one.
fn insert_cpu_context(cpu: CpuId, new: KBox<Context>) {
    // Declared before the guard, and so freed after the lock is released.
    let _unused;
    // The lock keeps the CPU from coming and going.
    let ownership = OWNERSHIP.lock();
    if cpu_context(cpu).is_some() {
        _unused = new;
        return;
    }
    let new: &Context = KBox::leak(new);
    if ownership.cpus().online().contains(cpu) {
        // It can't be found before it is loaded: a caller that did so would lock it, and the CPU would not look at what was
        // added.
        on_cpu(cpu.as_u32(), |here| {
            // No window is to be opened yet.
            let _ = new.load(here);
            here.percpu().cpu_context.publish(new.address());
        });
    } else {
        percpu::of_cpu(cpu).cpu_context.publish(new.address());
    }
}

/// Closes the event's windows on all CPUs and opens those that should be open now, so that its sum is up to date.
pub(super) fn refresh_everywhere(event: &Event) {
    let refresh_here = |here: Option<ThisCpu<'_>>, slots: &mut Slots| {
        if let Some(here) = here {
            refresh(here, slots, timestamp());
        }
    };
    if event.config.inherit {
        for_each_loaded(|here, slots| refresh_here(Some(here), slots));
    } else {
        with_each_context(&event.target, refresh_here);
    }
}

/// Marks the events of tasks that run on CPUs that were refused. To be called when an event has been enabled.
pub(super) fn mark_missed_on_refused_cpus() {
    // ATOMICS: pairs with a CPU that is refused, which says so before it runs a program: either the switch to the program
    // finds the event enabled, or the CPU is found here.
    fence(SeqCst);
    if !has_incapable_cpu() {
        return;
    }
    for cpu in ids().filter(|&cpu| percpu::of_cpu(cpu).refused.get() != 0) {
        on_cpu(cpu.as_u32(), miss_current);
    }
}

/// Calls `f` on each CPU on which a context of a task is loaded.
///
/// Takes no lock: a program that reads often, at whatever priority, delays no other. Every window is closed when this
/// returns that was opened before, or is one that `f` has seen:
///
/// - A CPU that has a context is called. If the task leaves it before, its windows have been closed by then.
/// - A CPU that has none is left out. If it had one before, the windows were closed before it published that it has none.
///   If it has one now, its windows were opened since: a caller that knows of something that the task has done there knows
///   of the context as well.
/// - A CPU that goes offline, or with the system to sleep, has closed its windows first (`leave_cpu`).
fn for_each_loaded(f: impl Fn(ThisCpu<'_>, &mut Slots) + Sync) {
    let is_loaded = |cpu| {
        let cpu = CpuId::from_u32(cpu);
        // ATOMICS: pairs with the switch ([`percpu::PerCpu::task_context`]).
        cpu.is_some_and(|cpu| percpu::of_cpu(cpu).task_context.acquire() != 0)
    };
    on_each_online(is_loaded, |here| {
        if let Some(mut slots) = Held::of_task(here) {
            f(here, &mut slots);
        }
    });
}

/// Removes the slots of the event, which is closed, from all contexts.
pub(super) fn detach(event: &Event) {
    let remove = |here: Option<ThisCpu<'_>>, slots: &mut Slots| {
        if !slots.iter().any(|slot| slot.is_of_event(event)) {
            return;
        }
        if let Some(here) = here {
            // Closes its windows.
            refresh(here, slots, timestamp());
        }
        slot::remove(slots, event);
        if let Some(here) = here {
            // Those that it led count alone.
            refresh(here, slots, timestamp());
        }
    };
    with_each_context(&event.target, remove);
    if let Target::Cgroup(cgroup, _) = &event.target {
        cgroup::end(cgroup);
    }
    if !event.config.inherit {
        return;
    }
    // A task that is being made has been given its slots by now, or gets none of this event (`life::give_inherited`).
    drop(table::lock());
    table::for_each_context(|context| {
        // Most have no heirs.
        if event.has_ended() {
            return false;
        }
        if let Some(((), true)) = context.with_slots(remove) {
            table::lock().remove(context.task(), context);
        }
        true
    });
}
