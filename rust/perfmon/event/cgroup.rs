// SPDX-License-Identifier: GPL-2.0-only
//! The contexts of cgroups: a cgroup with events has one context on each CPU.
//!
//! On each CPU the contexts of the running task's cgroup, and of that cgroup's ancestors, are loaded. A switch within
//! one cgroup changes nothing. A switch between two cgroups exchanges the contexts of the cgroups that only one of the
//! tasks is in. Each counter is read once, and no register is written.
//!
//! A task has a cgroup in each of two hierarchies: the hierarchy of version 2, and the hierarchy of
//! version 1 with perf's controller, if one is mounted. Each hierarchy has its own list of loaded
//! contexts, and costs nothing while none of its cgroups has events.
//!
//! The cgroups with events are in a table ([`CGROUPS`]), whose readers can't be preempted; writers hold its lock.

use super::{
    context::HeldContext,
    counted_cgroup::{CgroupContext, CountedCgroup},
    rcu,
    slot::{refresh, Readings, Slots},
    slow_switch_users::SLOW_SWITCH_USERS,
    table::{self, CGROUPS},
};
use crate::{
    cpu::{on_each_online, pin, timestamp, ThisCpu},
    logic::hierarchy::{Hierarchy, Levels, PerHierarchy, MAX_LEVEL},
    percpu::LoadedCgroups,
    sys::{
        cgroup::{Cgroup, TaskCgroups},
        ffi,
    },
};
use core::{
    ptr::{self, NonNull},
    sync::atomic::{
        AtomicU32, AtomicU64,
        Ordering::{Relaxed, SeqCst},
    },
};
use kernel::{
    bindings,
    cpu::CpuId,
    ffi::{c_char, c_void},
    prelude::*,
    sync::Arc,
    task::Task,
};

/// The cgroups with events of one hierarchy, by their levels.
struct CountedLevels {
    /// The levels with a cgroup that has events, as a mask. A switch looks at no other level, so that a user who nests
    /// cgroups does not slow down the switches of others.
    ///
    /// ATOMICS: relaxed. After a bit was set, all CPUs are called, and see the bit.
    mask: AtomicU64,
    /// The number of cgroups with events at each level. A removed cgroup counts until all CPUs have unloaded its
    /// contexts.
    ///
    /// ATOMICS: relaxed. Used under the table's lock.
    cgroup_counts: [AtomicU32; MAX_LEVEL as usize + 1],
}

impl CountedLevels {
    /// Returns the levels of a hierarchy in which no cgroup has events.
    const fn none() -> Self {
        Self {
            mask: AtomicU64::new(0),
            cgroup_counts: [const { AtomicU32::new(0) }; MAX_LEVEL as usize + 1],
        }
    }

    /// Returns the levels with a cgroup that has events, as a mask.
    #[inline(always)]
    fn mask(&self) -> u64 {
        self.mask.load(Relaxed)
    }

    /// Returns whether a cgroup of the hierarchy has events.
    fn has_events(&self) -> bool {
        self.mask() != 0
    }

    /// Counts a cgroup that gets its first event.
    fn add(&self, _lock: &mut table::Lock, level: u64) {
        self.cgroup_counts[level as usize].fetch_add(1, Relaxed);
        self.mask.fetch_or(1 << level, Relaxed);
    }

    /// Undoes [`Self::add`].
    fn remove(&self, _lock: &mut table::Lock, level: u64) {
        if self.cgroup_counts[level as usize].fetch_sub(1, Relaxed) == 1 {
            self.mask.fetch_and(!(1 << level), Relaxed);
        }
    }
}

/// The levels of the cgroups with events, for each hierarchy.
static LEVELS: PerHierarchy<CountedLevels> = PerHierarchy {
    version_2: CountedLevels::none(),
    version_1: CountedLevels::none(),
};

/// Counts one more event of a cgroup, until [`remove_event`]. For the first event, creates the cgroup's contexts, and loads
/// them on the CPUs that run its tasks.
///
/// # Errors
///
/// ENOMEM if there is no memory.
pub(super) fn add_event(cgroup: &Arc<Cgroup>) -> Result {
    // Counts the event in the cgroup's entry. Returns `None` if the cgroup has no entry.
    let count_event_in_entry = |_lock: &mut table::Lock| {
        // SAFETY: `CGROUPS.find` requires the table's lock: `_lock` is its guard, and outlives the result.
        let found = unsafe { CGROUPS.find(cgroup.as_ptr()) };
        found.map(|counted| counted.event_count.fetch_add(1, Relaxed))
    };
    let entry = count_event_in_entry(&mut table::lock());
    if entry.is_none() {
        let new = CountedCgroup::new(cgroup)?;
        {
            let mut lock = table::lock();
            // Another caller may have added the cgroup meanwhile. Then `new`, which has no slots, is freed.
            if count_event_in_entry(&mut lock).is_none() {
                CGROUPS.add(&mut lock, new);
                LEVELS
                    .get(cgroup.hierarchy())
                    .add(&mut lock, cgroup.level());
            }
        }
        CGROUPS.grow_if_crowded();
    }
    SLOW_SWITCH_USERS.fetch_add(1, SeqCst);
    on_each_online(|_| true, reload);
    Ok(())
}

/// Undoes [`add_event`] for an event that has no slot any more. With the last event of a cgroup, removes the contexts
/// of the cgroup.
pub(super) fn remove_event(cgroup: &Arc<Cgroup>) {
    let removed = {
        let mut lock = table::lock();
        // SAFETY: `CGROUPS.find` requires the table's lock: `lock` is its guard, and is held until the result was last
        // used.
        let counted = unsafe { CGROUPS.find(cgroup.as_ptr()) };
        let unused = counted.filter(|counted| counted.event_count.fetch_sub(1, Relaxed) == 1);
        let unlinked = unused.filter(|unused| CGROUPS.unlink(&mut lock, unused));
        unlinked.map(|unlinked| {
            unlinked.set_removed();
            ptr::from_ref(unlinked)
        })
    };
    if let Some(removed) = removed {
        on_each_online(|_| true, reload);
        LEVELS
            .get(cgroup.hierarchy())
            .remove(&mut table::lock(), cgroup.level());
        // SAFETY: `rcu::free` requires a value from a `KBox` that can't be found any more, once: the table has leaked the
        // entry's `KBox`, the entry has just been taken out, and all CPUs have unloaded its contexts.
        unsafe { rcu::free(removed) };
    }
    SLOW_SWITCH_USERS.fetch_sub(1, SeqCst);
}

/// Calls `f` with the context of a cgroup on one CPU, by [`Context::with_slots`]. Returns `None` if the cgroup has no
/// events.
pub(super) fn with_context<R: Send>(
    cgroup: &Cgroup,
    cpu: CpuId,
    f: impl FnMut(Option<ThisCpu<'_>>, &mut Slots) -> R + Send,
) -> Option<R> {
    let _pinned = pin();
    // SAFETY: `CGROUPS.find` requires preemption to be off: `_pinned` keeps it off until it is dropped, after the last
    // use of the result.
    let counted = unsafe { CGROUPS.find(cgroup.as_ptr()) }?;
    let (result, _) = counted.context_on(cpu)?.context.with_slots(f)?;
    Some(result)
}

/// Returns the context that has this address and is loaded on this CPU; `None` for the address 0.
fn context_at(_here: ThisCpu<'_>, address: u64) -> Option<&CgroupContext> {
    let address = ptr::with_exposed_provenance::<CgroupContext>(address as usize);
    // SAFETY: `as_ref` requires a pointer that is null or valid as long as the result is used: the
    // address is 0, or the address of a context that is loaded here. In this folder a `ThisCpu` is
    // passed on only while interrupts are off, so this CPU answers no call that unloads the
    // context, and RCU frees no context that is unloaded, while `_here` lives.
    unsafe { address.as_ref() }
}

/// Returns the cgroups of `task`, which runs here or is about to run here. Returns `None` if there
/// is no such hierarchy: for example, remount(2) has taken perf's controller from the hierarchy
/// while its root cgroup had events. Must be called with interrupts off.
#[inline(always)]
fn cgroups_of<'a>(
    _here: ThisCpu<'a>,
    task: *mut bindings::task_struct,
    hierarchy: Hierarchy,
) -> Option<TaskCgroups<'a>> {
    // SAFETY: `TaskCgroups::of_task` requires a task that is alive, and interrupts off as long as the result is used: the
    // task is running here or is being switched to, and in this folder a `ThisCpu` is passed on only while interrupts are
    // off.
    unsafe { TaskCgroups::of_task(task, hierarchy) }
}

/// Does what [`load_contexts_of`] does, in a switch between tasks without contexts. Most such switches stay within one
/// cgroup. Must be called with interrupts off.
#[inline(always)]
pub(super) fn switch_to(here: ThisCpu<'_>, task: *mut bindings::task_struct) {
    if LEVELS.version_1.has_events() {
        return switch_to_beside_version_1(here, task);
    }
    if !LEVELS.version_2.has_events() {
        return;
    }
    let loaded = &here.percpu().cgroups.version_2;
    match cgroups_of(here, task, Hierarchy::Version2) {
        Some(cgroups) if is_same_cgroup(loaded, &cgroups) => set_counted_task(loaded, task),
        cgroups => switch_to_cgroups(here, task, cgroups),
    }
}

/// Does the part of [`switch_to`] for a switch between two cgroups. Not inlined: keeps the switches within a cgroup
/// short.
#[inline(never)]
fn switch_to_cgroups(
    here: ThisCpu<'_>,
    task: *mut bindings::task_struct,
    cgroups: Option<TaskCgroups<'_>>,
) {
    let mut readings = Readings::new(timestamp());
    exchange_contexts(here, &mut readings, task, cgroups, Hierarchy::Version2);
}

/// Does what [`switch_to`] does, if cgroups of version 1 have events.
#[cold]
#[inline(never)]
fn switch_to_beside_version_1(here: ThisCpu<'_>, task: *mut bindings::task_struct) {
    let hierarchies = [Hierarchy::Version2, Hierarchy::Version1];
    let are_loaded = hierarchies.into_iter().all(|hierarchy| {
        let loaded = here.percpu().cgroups.get(hierarchy);
        let is_loaded = |cgroups: TaskCgroups<'_>| is_same_cgroup(loaded, &cgroups);
        !LEVELS.get(hierarchy).has_events()
            || cgroups_of(here, task, hierarchy).is_some_and(is_loaded)
    });
    if !are_loaded {
        return load_contexts_of(here, &mut Readings::new(timestamp()), task);
    }
    for loaded in here.percpu().cgroups.all() {
        set_counted_task(loaded, task);
    }
}

/// Returns whether the loaded contexts were loaded for a task in the same cgroup, so that no
/// context has to be loaded or unloaded.
#[inline(always)]
fn is_same_cgroup(loaded: &LoadedCgroups, cgroups: &TaskCgroups<'_>) -> bool {
    loaded.cgroup.get() == address_of(cgroups.own_cgroup())
}

/// Returns the address of a cgroup as a number; 0 for `None`.
#[inline(always)]
fn address_of(cgroup: Option<NonNull<ffi::cgroup>>) -> u64 {
    cgroup.map_or(0, |cgroup| cgroup.addr().get() as u64)
}

/// Sets the task that the open windows of the loaded contexts count from now on.
#[inline(always)]
fn set_counted_task(loaded: &LoadedCgroups, task: *mut bindings::task_struct) {
    loaded.task.set(task.expose_provenance() as u64);
}

/// Loads the contexts of the cgroups of `task`, which is about to run here, and unloads the contexts of all other
/// cgroups. Must be called with interrupts off.
pub(super) fn load_contexts_of(
    here: ThisCpu<'_>,
    readings: &mut Readings,
    task: *mut bindings::task_struct,
) {
    load_from_hierarchy(here, readings, task, Hierarchy::Version2);
    if LEVELS.version_1.has_events() {
        load_from_version_1(here, readings, task);
    }
}

/// Does the part of [`load_contexts_of`] for version 1. Not inlined: keeps the switches of version 2 short.
#[cold]
#[inline(never)]
fn load_from_version_1(
    here: ThisCpu<'_>,
    readings: &mut Readings,
    task: *mut bindings::task_struct,
) {
    load_from_hierarchy(here, readings, task, Hierarchy::Version1);
}

/// Does the part of [`load_contexts_of`] for one hierarchy.
#[inline(always)]
fn load_from_hierarchy(
    here: ThisCpu<'_>,
    readings: &mut Readings,
    task: *mut bindings::task_struct,
    hierarchy: Hierarchy,
) {
    if !LEVELS.get(hierarchy).has_events() {
        return;
    }
    let loaded = here.percpu().cgroups.get(hierarchy);
    match cgroups_of(here, task, hierarchy) {
        Some(cgroups) if is_same_cgroup(loaded, &cgroups) => set_counted_task(loaded, task),
        cgroups => exchange_contexts(here, readings, task, cgroups, hierarchy),
    }
}

/// Loads the contexts of `cgroups`, and unloads all others. From now on the contexts count `task`.
///
/// Does little if the previous and the new cgroup differ only at levels at which no cgroup has events.
#[inline(always)]
fn exchange_contexts(
    here: ThisCpu<'_>,
    readings: &mut Readings,
    task: *mut bindings::task_struct,
    cgroups: Option<TaskCgroups<'_>>,
    hierarchy: Hierarchy,
) {
    let loaded = here.percpu().cgroups.get(hierarchy);
    let Some(cgroups) = cgroups else {
        loaded.invalidate();
        return unload(here, readings, loaded, |_| false);
    };
    let levels = Levels::up_to(cgroups.level(), LEVELS.get(hierarchy).mask());
    if here.percpu().brought_up.get() == 0 {
        return mark_broken_if_refused(here, cgroups, levels);
    }
    loaded.cgroup.set(address_of(cgroups.own_cgroup()));
    let innermost_cgroup = address_of(cgroups.at_level(levels.deepest()));
    if loaded.innermost_cgroup.get() == innermost_cgroup {
        return set_counted_task(loaded, task);
    }
    loaded.innermost_cgroup.set(innermost_cgroup);
    unload(here, readings, loaded, |cgroup_context| {
        cgroup_context.counts(&cgroups)
    });
    // The windows that were just closed have counted the previous task. The windows that stay open
    // count `task` from now on.
    set_counted_task(loaded, task);
    for level in levels {
        load(here, readings, loaded, cgroups.at_level(level));
    }
}

/// Returns the context of a cgroup on this CPU, if the cgroup has events. Must be called with interrupts off.
#[inline(always)]
fn find_here(here: ThisCpu<'_>, cgroup: Option<NonNull<ffi::cgroup>>) -> Option<&CgroupContext> {
    // SAFETY: `CGROUPS.find` requires preemption to be off as long as the result is used: the result borrows `here`, and
    // in this folder a `ThisCpu` is passed on only while interrupts are off.
    let counted = unsafe { CGROUPS.find(cgroup?.as_ptr()) }?;
    counted.context_here(here)
}

/// Loads the context of a cgroup, if the cgroup has events and its context is not loaded yet.
#[inline(always)]
fn load(
    here: ThisCpu<'_>,
    readings: &mut Readings,
    loaded: &LoadedCgroups,
    cgroup: Option<NonNull<ffi::cgroup>>,
) {
    let cgroup_context = find_here(here, cgroup);
    let Some((cgroup_context, mut slots)) =
        cgroup_context.and_then(|found| Some((found, found.context.load(here)?)))
    else {
        return;
    };
    readings.open_windows(here, &mut slots);
    cgroup_context.next.set(loaded.first_context.get());
    let address = ptr::from_ref(cgroup_context).expose_provenance() as u64;
    loaded.first_context.set(address);
}

/// Closes the windows of the contexts for which `is_kept` is false, and unloads them.
#[inline(always)]
fn unload(
    here: ThisCpu<'_>,
    readings: &mut Readings,
    loaded: &LoadedCgroups,
    is_kept: impl Fn(&CgroupContext) -> bool,
) {
    let mut link = &loaded.first_context;
    while let Some(cgroup_context) = context_at(here, link.get()) {
        if is_kept(cgroup_context) {
            link = &cgroup_context.next;
            continue;
        }
        // SAFETY: `assume` requires a context that is loaded here, interrupts off, and no other user: the context is in
        // this CPU's list, and in this folder a `ThisCpu` is passed on only while interrupts are off, until `slots` is
        // dropped.
        let mut slots = unsafe { HeldContext::assume(&cgroup_context.context) };
        readings.close_windows(here, &mut slots);
        slots.unload();
        link.set(cgroup_context.next.get());
    }
}

/// Marks the events of a task's cgroups as broken, if this CPU's counters can't be used.
#[cold]
#[inline(never)]
fn mark_broken_if_refused(here: ThisCpu<'_>, cgroups: TaskCgroups<'_>, levels: Levels) {
    if here.percpu().is_refused.get() == 0 {
        return;
    }
    for level in levels {
        if let Some(cgroup_context) = find_here(here, cgroups.at_level(level)) {
            cgroup_context
                .context
                .with_current_slots(here, |_, slots| slots.mark_broken_on(here.id()));
        }
    }
}

/// Forgets the cgroups of the task that runs here, so that its contexts are loaded anew. Must be called with interrupts
/// off.
fn forget_cgroups(here: ThisCpu<'_>) {
    for loaded in here.percpu().cgroups.all() {
        loaded.invalidate();
    }
}

/// Loads the cgroup contexts of the task that runs here, even if its cgroup seems unchanged. Must be called with
/// interrupts off.
pub(super) fn reload(here: ThisCpu<'_>) {
    forget_cgroups(here);
    load_contexts_of(here, &mut Readings::new(timestamp()), Task::current_raw());
}

/// Unloads all cgroup contexts, for a CPU that stops counting. Must be called with interrupts off.
pub(super) fn unload_all(here: ThisCpu<'_>, readings: &mut Readings) {
    forget_cgroups(here);
    for loaded in here.percpu().cgroups.all() {
        unload(here, readings, loaded, |_| false);
    }
}

/// Returns the contexts of cgroups that are loaded here. Must be called with interrupts off.
pub(super) fn loaded_contexts(here: ThisCpu<'_>) -> impl Iterator<Item = HeldContext<'_>> {
    let hierarchies = here.percpu().cgroups.all().into_iter();
    let contexts = hierarchies.flat_map(move |loaded| {
        let first = context_at(here, loaded.first_context.get());
        core::iter::successors(first, move |cgroup_context| {
            context_at(here, cgroup_context.next.get())
        })
    });
    // SAFETY: `assume` requires a context that is loaded here, interrupts off, and no other user: the context is in a
    // list of this CPU, in this folder a `ThisCpu` is passed on only while interrupts are off, and callers use one result
    // at a time.
    contexts.map(|cgroup_context| unsafe { HeldContext::assume(&cgroup_context.context) })
}

/// Brings the sums of the cgroup events that count here up to date, and opens the windows that should be open now. Must
/// be called with interrupts off.
pub(super) fn refresh_loaded(here: ThisCpu<'_>) {
    for mut slots in loaded_contexts(here) {
        refresh(here, &mut slots, timestamp());
    }
}

/// Handles the tracepoints `cgroup_attach_task` and `cgroup_transfer_tasks`: `task` has moved to another cgroup, with
/// all threads of its process if `all_threads`. The second tracepoint reports tasks whose cpuset of version 1 has lost
/// its last CPU. The kernel calls both tracepoints with interrupts off.
///
/// # Safety
///
/// To be called by these tracepoints only, with their arguments.
pub(super) unsafe extern "C" fn on_move(
    _data: *mut c_void,
    _cgroup: *mut ffi::cgroup,
    _path: *const c_char,
    task: *mut bindings::task_struct,
    all_threads: bool,
) {
    if !LEVELS.all().into_iter().any(CountedLevels::has_events) {
        return;
    }
    // SAFETY: The function requires a task that is alive, interrupts off, and a callback that stays: the tracepoints
    // pass such a task with interrupts off, and `flush` waits for pending calls of `reload_here` before the module is
    // unloaded.
    unsafe { ffi::perfmon_cgroup_call_cpus(task, all_threads, Some(reload_here)) };
}

/// Calls [`reload`] on this CPU.
///
/// # Safety
///
/// To be called with interrupts off.
unsafe extern "C" fn reload_here() {
    // SAFETY: `assume` requires that the caller can't leave the CPU: the caller has interrupts off, as `# Safety`
    // demands, until this function has returned.
    reload(unsafe { ThisCpu::assume() });
}

/// Waits for pending calls of `reload_here`. To be called after [`on_move`] was unregistered.
pub(super) fn flush() {
    // A CPU handles calls in batches. In each batch the CPU first handles the calls that a caller
    // waits for, such as the calls below, and then the calls that no caller waits for, such as
    // `reload_here`. So a pending `reload_here` may be behind the first call in its batch, but has
    // returned before the second call, which is in a later batch.
    for _ in 0..2 {
        on_each_online(|_| true, |_| ());
    }
}
