// SPDX-License-Identifier: GPL-2.0-only
//! Attaching an event to its target - a task, a CPU or a cgroup - and detaching it.

use super::{
    cgroup,
    context::{Context, HeldContext},
    event::Event,
    slot::{
        self, refresh, with_windows_closed, Readings, RegisterConflicts, Slot, SlotMemory, Slots,
        INITIAL_SLOTS, MAX_SLOTS,
    },
    switch::{load_current, mark_current_broken_if_refused},
    table::{self, TASKS},
    target::Target,
};
use crate::{
    cpu::{on_cpu, on_each_online, pin, possible_cpus, timestamp, ThisCpu},
    logic::{admission::OwnCounters, event_config::EventConfig, extra_registers::ExtraValue},
    ownership::{has_incapable_cpu, OWNERSHIP},
    percpu,
    sys::{cgroup::Cgroup, ffi},
};
use core::{
    ptr,
    sync::atomic::{fence, Ordering::SeqCst},
};
use kernel::{bindings, cpu::CpuId, prelude::*, sync::Arc, task::Task};

/// Calls `f` with the context of the event's target, by [`Context::with_slots`]. Returns `None` if there is no
/// context: the task has no events yet, or has exited, or the target is a cgroup on all CPUs.
///
/// Disables preemption instead of calling `rcu_read_lock()`: an RCU reader that is preempted, and
/// does not get to run again, would delay the end of the grace period for all callers that wait for
/// it.
pub(super) fn with_context<R: Send>(
    target: &Target,
    f: impl FnMut(Option<ThisCpu<'_>>, &mut Slots) -> R + Send,
) -> Option<R> {
    let _pinned = pin();
    match target {
        Target::Task(task, _) => {
            // SAFETY: `TASKS.find` requires that the caller runs without preemption as long as it uses the context:
            // `_pinned` keeps preemption off until it is dropped, after the last use.
            let context = unsafe { TASKS.find(task.as_ptr()) }?;
            let (result, is_emptied) = context.with_slots(f)?;
            if is_emptied {
                TASKS.remove(&mut table::lock(), context);
            }
            Some(result)
        }
        Target::Cpu(cpu) => {
            let (result, _) = cpu_context(*cpu)?.with_slots(f)?;
            Some(result)
        }
        Target::Cgroup(cgroup, Some(cpu)) => cgroup::with_context(cgroup, *cpu, f),
        // The cgroup has a context on each CPU: see `with_each_context`.
        Target::Cgroup(_, None) => None,
    }
}

/// Calls `f` with each context of the target, but not with the contexts of tasks that have inherited its events.
pub(super) fn with_each_context(
    target: &Target,
    mut f: impl FnMut(Option<ThisCpu<'_>>, &mut Slots) + Send,
) {
    match target {
        Target::Cgroup(cgroup, None) => {
            for cpu in possible_cpus() {
                cgroup::with_context(cgroup, cpu, &mut f);
            }
        }
        Target::Task(..) | Target::Cpu(_) | Target::Cgroup(_, Some(_)) => {
            with_context(target, f);
        }
    }
}

/// Calls `f` with the contexts of all tasks, as long as `should_continue` returns true.
pub(super) fn with_task_contexts(
    should_continue: impl Fn() -> bool,
    mut f: impl FnMut(Option<ThisCpu<'_>>, &mut Slots) + Send,
) {
    TASKS.for_each(|context| {
        if !should_continue() {
            return false;
        }
        if let Some(((), true)) = context.with_slots(&mut f) {
            TASKS.remove(&mut table::lock(), context);
        }
        true
    });
}

/// Returns the context of a CPU's events; `None` if no event of the CPU was ever opened.
fn cpu_context<'a>(cpu: CpuId) -> Option<&'a Context> {
    let percpu = percpu::of_cpu(cpu);
    // SAFETY: `from_address` requires a context that is alive, or 0: the address is 0 or the
    // address of a CPU's context, which is not freed before the module's exit.
    unsafe { Context::from_address(percpu.cpu_context.acquire()) }
}

/// Returns the counters that the target's events have, and which of them a new event with `config` could share.
pub(super) fn own_counters(target: &Target, config: &EventConfig) -> OwnCounters {
    let cpu = target.cpu();
    with_context(target, |_, slots| slot::own_counters(slots, config, cpu)).unwrap_or_default()
}

/// Returns the conflicts between the target's events and a new event that needs the value `extra`
/// in an extra register.
pub(super) fn register_conflicts(target: &Target, extra: ExtraValue) -> RegisterConflicts {
    let cpu = target.cpu();
    let conflicts = with_context(target, |_, slots| {
        slot::register_conflicts(slots, extra, cpu)
    });
    conflicts.unwrap_or_default()
}

/// Returns whether the slots have an exclusive group other than the group of `leader`.
fn has_other_exclusive_group(slots: &Slots, leader: Option<&Event>) -> bool {
    slots.iter().any(|slot| {
        slot.event().config.exclusive && !leader.is_some_and(|leader| slot.is_of_event(leader))
    })
}

/// The reason why an event could not be attached to its target.
pub(super) enum AttachError {
    /// Another event of the target has got the counter or the extra register since it was chosen: the caller chooses
    /// again.
    CounterTaken,
    /// The context has this number of slots, and no memory for one more.
    Full(usize),
    /// The error to return to the program.
    Error(Error),
}

impl<E: Into<Error>> From<E> for AttachError {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

/// Attaches the event to its target. `leader` is the leader of its group, if the event is not its own leader.
///
/// # Errors
///
/// ESRCH if the task exits. EBUSY if an exclusive group excludes the event, or there are too many
/// events. ENOMEM if there is no memory. [`AttachError::CounterTaken`] if another event has taken
/// the counter or the extra register since it was chosen.
pub(super) fn attach(event: &Event, leader: Option<&Event>) -> Result<(), AttachError> {
    match &event.target {
        Target::Task(task, cpu) => attach_to_task(event, task, *cpu, leader),
        Target::Cpu(cpu) => attach_to_cpu(event, *cpu, leader),
        Target::Cgroup(cgroup, cpu) => attach_to_cgroup(event, cgroup, *cpu, leader),
    }
}

/// Adds a slot of the event, and opens its window if the context is loaded. Takes memory from `room` and allocates
/// nothing, since CPUs that wait for the context hold locks of the scheduler.
///
/// # Errors
///
/// EBUSY if the events of the context exclude this event, the context has [`MAX_SLOTS`] slots, or
/// the group could never have all its counters at once. [`AttachError::Full`] if `room` does not
/// suffice. Errors of [`check_compatible`].
fn add_slot(
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
    let has_counters = match leader.filter(|_| event.config.takes_turns) {
        Some(leader) => {
            if let Some(here) = here {
                // `can_schedule_group` tries other counters for the slots, so all windows must be closed.
                Readings::new(timestamp()).close_windows(here, slots);
            }
            slots.can_schedule_group(leader)
        }
        None => true,
    };
    if !has_counters {
        slot::remove(slots, event);
    }
    if let Some(here) = here {
        refresh(here, slots, timestamp());
    }
    if has_counters {
        Ok(())
    } else {
        Err(EBUSY.into())
    }
}

/// Checks whether an event can be counted together with the events of the context.
///
/// # Errors
///
/// EBUSY if the context has [`MAX_SLOTS`] slots. EBUSY for an event with a counter if the context
/// has an exclusive group other than the event's, or if the event is exclusive and another slot has
/// a counter. [`AttachError::CounterTaken`] if an event of the context has got the new event's
/// counter or extra register since it was chosen.
fn check_compatible(
    slots: &mut Slots,
    event: &Event,
    cpu: Option<CpuId>,
    leader: Option<&Event>,
) -> Result<(), AttachError> {
    if slots.len() == MAX_SLOTS {
        return Err(EBUSY.into());
    }
    if event.counter().is_none() {
        return Ok(());
    }
    let has_counters = slots.iter().any(|slot| !slot.counter().is_none());
    if has_other_exclusive_group(slots, leader) || event.config.exclusive && has_counters {
        return Err(EBUSY.into());
    }
    // Since the counter was chosen, another event may have been opened for the target, or the task may have inherited
    // one when it was created.
    let own_counters = slot::own_counters(slots, &event.config, cpu);
    let taken_counters = if event.config.takes_turns {
        own_counters.busy
    } else {
        own_counters.unavailable()
    };
    let is_excluded =
        |extra| slot::register_conflicts(slots, extra, cpu).exclude(event.config.takes_turns);
    if taken_counters & event.counters() != 0 || event.config.extra.is_some_and(is_excluded) {
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
        check_not_exiting(task)?;
        if let Some(result) = add_to_context(event, &event.target, &mut room, cpu, leader) {
            let is_loaded = result?;
            if !is_loaded {
                // The task may be running nevertheless: the program that has just added the context
                // has not loaded it yet, and may not get to run for a long time.
                load_where_running(task);
            }
            return Ok(());
        }
        // The task has no context. The caller holds no RCU here, since the allocation of a context may sleep.
        let slots = Slots::new(INITIAL_SLOTS, GFP_KERNEL_ACCOUNT)?;
        let new = Context::new(task_ptr, slots, GFP_KERNEL_ACCOUNT)?;
        let add_first_slot =
            |slots: &mut Slots| add_slot(None, slots, event, &mut room, cpu, leader);
        if insert_task_context(task, new, add_first_slot)? {
            TASKS.grow_if_crowded();
            load_where_running(task);
            return Ok(());
        }
    }
}

/// Adds the new context of a task to the table, unless the task has one. Calls `add_first_slot` under the table's lock.
/// Returns whether the context was added.
///
/// # Errors
///
/// ESRCH if the task is exiting, and the errors of `add_first_slot`.
fn insert_task_context(
    task: &Task,
    mut new: KBox<Context>,
    add_first_slot: impl FnOnce(&mut Slots) -> Result<(), AttachError>,
) -> Result<bool, AttachError> {
    let task_ptr: *const bindings::task_struct = task.as_ptr();
    let mut lock = table::lock();
    // An exiting task sets its flag first, then takes the lock once, and then removes its context: so a context that
    // is added while the flag is clear is removed.
    check_not_exiting(task)?;
    // If another task removed the last event from the context, the context is gone. The other task may not have removed
    // the context from the table yet.
    // SAFETY: `TASKS.find` requires the table's lock: `lock` is its guard, and is held until the context was last
    // used.
    let gone_context = unsafe { TASKS.find(task_ptr) }.filter(|context| context.is_gone());
    if let Some(context) = gone_context {
        TASKS.remove(&mut lock, context);
    }
    // SAFETY: `TASKS.find` requires the table's lock: `lock` is its guard, and is held until the context was last
    // used.
    let is_new = unsafe { TASKS.find(task_ptr) }.is_none();
    if is_new {
        add_first_slot(new.slots_mut())?;
        TASKS.add(&mut lock, new);
    }
    Ok(is_new)
}

/// Checks that a task is not exiting.
///
/// # Errors
///
/// ESRCH if the task is exiting.
fn check_not_exiting(task: &Task) -> Result {
    // SAFETY: The function requires a task that is alive: `task` borrows a counted reference.
    if unsafe { ffi::perfmon_task_is_exiting(task.as_ptr()) } {
        return Err(ESRCH);
    }
    Ok(())
}

/// Loads the context of a task, which is in the table, on the CPU that runs the task, unless it is loaded.
fn load_where_running(task: &Task) {
    // If the task was running when the context was added, and still runs on that CPU, the call below finds it there. If
    // the task is switched in later, the switch finds the context in the table and loads it.
    // ATOMICS: pairs with the switch, which writes the CPU number of the task before it looks for the context; and
    // with an exec, which writes the task's new credentials before it looks for the context. The caller checks the
    // credentials after this function.
    fence(SeqCst);
    // SAFETY: The function requires a task that is alive: `task` borrows a counted reference.
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
        let slots = Slots::new(INITIAL_SLOTS, GFP_KERNEL_ACCOUNT)?;
        insert_cpu_context(cpu, Context::new(ptr::null(), slots, GFP_KERNEL_ACCOUNT)?);
    }
    add_on_cpu(event, &event.target, leader)
}

/// Adds a slot of the event to the context of `target` by [`add_slot`], and grows `room` as needed. Returns whether the
/// context is loaded, or `None` if `target` has no context.
fn add_to_context(
    event: &Event,
    target: &Target,
    room: &mut SlotMemory,
    cpu: Option<CpuId>,
    leader: Option<&Event>,
) -> Option<Result<bool, AttachError>> {
    loop {
        let result = with_context(target, |here, slots| {
            let is_loaded = here.is_some();
            add_slot(here, slots, event, room, cpu, leader)?;
            Ok(is_loaded)
        });
        let Some(Err(AttachError::Full(slot_count))) = result else {
            return result;
        };
        if let Err(error) = room.grow(slot_count) {
            return Some(Err(error.into()));
        }
    }
}

/// Adds a slot of the event to a context of `target`, a CPU or a cgroup on one CPU. Such a context exists already.
fn add_on_cpu(event: &Event, target: &Target, leader: Option<&Event>) -> Result<(), AttachError> {
    let mut room = SlotMemory::for_event(event)?;
    let result = add_to_context(event, target, &mut room, None, leader);
    result.unwrap_or(Err(ENODEV.into())).map(|_is_loaded| ())
}

fn attach_to_cgroup(
    event: &Event,
    cgroup: &Arc<Cgroup>,
    cpu: Option<CpuId>,
    leader: Option<&Event>,
) -> Result<(), AttachError> {
    cgroup::add_event(cgroup)?;
    let attach_on = |cpu| add_on_cpu(event, &Target::Cgroup(cgroup.clone(), Some(cpu)), leader);
    let result = match cpu {
        Some(cpu) => attach_on(cpu),
        None => possible_cpus().try_for_each(attach_on),
    };
    if result.is_err() {
        // Removes the slots that were added before the error.
        detach(event);
    }
    result
}

/// Makes `new` the context of a CPU, unless the CPU has one.
fn insert_cpu_context(cpu: CpuId, new: KBox<Context>) {
    // The variable is declared before the guard, so that an unused context is freed after the lock is released.
    let _unused;
    // The lock keeps the CPU from going online or offline.
    let ownership = OWNERSHIP.lock();
    if cpu_context(cpu).is_some() {
        _unused = new;
        return;
    }
    let new: &Context = KBox::leak(new);
    if ownership.cpus().in_use().contains(cpu) {
        // The context is published after it is loaded. A caller that found a context that is not loaded would lock it,
        // and the CPU would not open the windows of the slots that the caller adds.
        on_cpu(cpu.as_u32(), |here| {
            // There are no slots yet, so no window has to be opened.
            let _ = new.load(here);
            here.percpu().cpu_context.publish(new.address());
        });
    } else {
        percpu::of_cpu(cpu).cpu_context.publish(new.address());
    }
}

/// Closes the event's windows on all CPUs, so that its sum is up to date, and opens the windows that should be open
/// now.
pub(super) fn refresh_everywhere(event: &Event) {
    let refresh_here = |here: Option<ThisCpu<'_>>, slots: &mut Slots| {
        if let Some(here) = here {
            refresh(here, slots, timestamp());
        }
    };
    if event.config.inherit {
        on_each_loaded_context(|here, slots| refresh_here(Some(here), slots));
    } else {
        with_each_context(&event.target, refresh_here);
    }
}

/// Marks enabled events as broken if their tasks run on CPUs whose counters can't be used, since
/// the events do not count what the tasks do there. To be called after an event has been enabled.
pub(super) fn mark_broken_on_refused_cpus() {
    // ATOMICS: pairs with a CPU that is refused, which sets `is_refused` before it runs a program: either the switch to
    // the program finds the event enabled, or this function finds the CPU refused.
    fence(SeqCst);
    if !has_incapable_cpu() {
        return;
    }
    for cpu in possible_cpus().filter(|&cpu| percpu::of_cpu(cpu).is_refused.get() != 0) {
        on_cpu(cpu.as_u32(), mark_current_broken_if_refused);
    }
}

/// Calls `f` on each CPU that has the context of a task loaded.
///
/// Takes no lock, so a program that reads often, at whatever priority, delays no other program. When this returns,
/// each window that was open before the call has been closed, or `f` was called with its slot:
///
/// - A CPU that has a context is called. If the task is switched out before the call arrives, the
///   switch has closed the task's windows.
/// - A CPU without a context is not called. If such a CPU had a context before, it closed the
///   windows before it published 0. If such a CPU loads a context afterwards, it sees all that the
///   caller has changed before the call. If the caller has observed something that the task did in
///   a window, this function also finds the window's context.
/// - A CPU that goes offline or to sleep closes its windows first (`unload_contexts`).
fn on_each_loaded_context(f: impl Fn(ThisCpu<'_>, &mut Slots) + Sync) {
    // ATOMICS: pairs with the switch, which publishes a context before it loads the states of the events.
    fence(SeqCst);
    let is_loaded = |cpu| {
        let cpu = CpuId::from_u32(cpu);
        // ATOMICS: pairs with the switch ([`percpu::PerCpu::task_context`]).
        cpu.is_some_and(|cpu| percpu::of_cpu(cpu).task_context.acquire() != 0)
    };
    on_each_online(is_loaded, |here| {
        if let Some(mut slots) = HeldContext::of_task(here) {
            f(here, &mut slots);
        }
    });
}

/// Removes all slots of a closed event from their contexts.
pub(super) fn detach(event: &Event) {
    let remove = |here: Option<ThisCpu<'_>>, slots: &mut Slots| {
        if slots.iter().any(|slot| slot.is_of_event(event)) {
            // If the event led a group, its siblings count without a leader from now on.
            with_windows_closed(here, slots, |slots| slot::remove(slots, event));
        }
    };
    with_each_context(&event.target, remove);
    if let Target::Cgroup(cgroup, _) = &event.target {
        cgroup::remove_event(cgroup);
    }
    if !event.config.inherit {
        return;
    }
    // Waits for forks that saw the event before it was closed, so that their children's contexts are in the table.
    // Forks that begin after the close don't let children inherit the event
    // (`task_lifecycle::insert_inherited_context`).
    drop(table::lock());
    // Usually no task has inherited the event.
    with_task_contexts(|| !event.has_ended(), remove);
}
