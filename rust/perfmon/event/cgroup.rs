// SPDX-License-Identifier: GPL-2.0-only
//! The contexts of cgroups: for each cgroup with events one on each CPU.
//!
//! On a CPU those contexts are loaded that belong to the cgroup of the task that runs there, or to one that this is in. A
//! switch within one cgroup changes none of them, and one between two cgroups those that only one of the tasks is in; each
//! counter is read once, and no register is written.
//!
//! The cgroups are in lists: readers can't be preempted; writers hold the lock of the table of contexts ([`table::lock`]).

use super::{
    context::{Context, Held},
    rcu,
    slot::{refresh, Readings, Slots},
    slow_switch_users::SLOW_SWITCH_USERS,
    table,
};
use crate::{
    cpu::{ids, on_each_online, pin, timestamp, ThisCpu},
    percpu::{PerCpu, Word},
    sys::{
        cgroup::{of_task, Cgroup},
        ffi,
    },
};
use core::{
    ptr::{self, NonNull},
    sync::atomic::{
        AtomicI32, AtomicPtr, AtomicU32,
        Ordering::{Acquire, Relaxed, Release, SeqCst},
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

/// A cgroup with events.
///
/// # Invariants
///
/// It is in the lists, and freed by RCU after it has been removed and no CPU has a context of it loaded.
struct CountedCgroup {
    cgroup: Arc<Cgroup>,
    /// The events. Used under the lock.
    users: AtomicU32,
    /// The contexts, by the number of the CPU.
    contexts: KVec<CgroupContext>,
    /// The next one in the list.
    next: List,
    rcu: rcu::Head,
}

/// The context of a cgroup on one CPU.
struct CgroupContext {
    context: KBox<Context>,
    cgroup: NonNull<ffi::cgroup>,
    /// The address of the next one that is loaded on this CPU, while this is loaded.
    next: Word,
}

/// A list of cgroups.
///
/// ATOMICS: a cgroup is put in with release order, and found with acquire order: its fields are seen. Removal changes the
/// pointer before it only; RCU keeps the cgroup for its readers.
type List = AtomicPtr<CountedCgroup>;

/// The number of lists: few events are of more cgroups.
const LISTS: usize = 1 << 9;

static CGROUPS: [List; LISTS] = [const { AtomicPtr::new(ptr::null_mut()) }; LISTS];

/// The events of cgroups.
///
/// ATOMICS: relaxed. After the first one each CPU is called.
static EVENT_COUNT: AtomicU32 = AtomicU32::new(0);

/// The deepest level of a cgroup that has had events. A switch looks at no cgroup below: a user who nests cgroups does not
/// make the switches of others long.
///
/// ATOMICS: relaxed, as of [`EVENT_COUNT`].
static DEEPEST_LEVEL: AtomicI32 = AtomicI32::new(0);

/// Returns the list of a cgroup.
fn list_of(cgroup: *const ffi::cgroup) -> &'static List {
    &CGROUPS[table::hash(cgroup) % LISTS]
}

/// Returns what there is of a cgroup.
///
/// # Safety
///
/// The caller must hold the lock, or can't be preempted; and does not use the result longer.
unsafe fn find<'a>(cgroup: *const ffi::cgroup) -> Option<&'a CountedCgroup> {
    let mut next = list_of(cgroup).load(Acquire);
    // SAFETY: A cgroup in a list is alive, and one that was removed stays alive for the caller, by RCU.
    while let Some(observed) = unsafe { next.as_ref() } {
        if ptr::eq(observed.cgroup.as_ptr(), cgroup) {
            return Some(observed);
        }
        next = observed.next.load(Acquire);
    }
    None
}

impl CountedCgroup {
    /// Returns a cgroup with one event.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    fn new(cgroup: &Arc<Cgroup>) -> Result<KBox<Self>> {
        let address = NonNull::new(cgroup.as_ptr()).ok_or(EINVAL)?;
        let mut contexts = KVec::new();
        for cpu in ids() {
            // The numbers of possible CPUs may have gaps.
            while contexts.len() <= cpu.as_u32() as usize {
                // There is room for slots when an event is given to it.
                let slots = Slots::new(0, GFP_KERNEL_ACCOUNT)?;
                let on_cpu = CgroupContext {
                    context: Context::new(ptr::null(), slots, GFP_KERNEL_ACCOUNT)?,
                    cgroup: address,
                    next: Word::zero(),
                };
                contexts.push(on_cpu, GFP_KERNEL_ACCOUNT)?;
            }
        }
        let new = Self {
            cgroup: cgroup.clone(),
            users: AtomicU32::new(1),
            contexts,
            next: AtomicPtr::new(ptr::null_mut()),
            rcu: rcu::Head::new(),
        };
        Ok(KBox::new(new, GFP_KERNEL_ACCOUNT)?)
    }

    /// Returns its context on a CPU.
    fn context_on(&self, cpu: CpuId) -> Option<&CgroupContext> {
        self.contexts.get(cpu.as_u32() as usize)
    }
}

// SAFETY: The head is used by `rcu::free` only.
unsafe impl rcu::HasHead for CountedCgroup {
    const OFFSET: usize = core::mem::offset_of!(Self, rcu);
}

/// Makes contexts for one more event of a cgroup, until [`end`]. The tasks that run now have theirs loaded.
///
/// # Errors
///
/// ENOMEM.
pub(super) fn begin(cgroup: &Arc<Cgroup>) -> Result {
    let add_user = || {
        // SAFETY: Both callers below hold the table's lock.
        let found = unsafe { find(cgroup.as_ptr()) };
        found.map(|observed| observed.users.fetch_add(1, Relaxed))
    };
    let is_known = {
        let _lock = table::lock();
        add_user().is_some()
    };
    if !is_known {
        let new = CountedCgroup::new(cgroup)?;
        let _lock = table::lock();
        // Another caller may have come between. Then `new` is freed, which has no slots.
        if add_user().is_none() {
            let list = list_of(cgroup.as_ptr());
            new.next.store(list.load(Relaxed), Relaxed);
            list.store(KBox::into_raw(new), Release);
        }
    }
    DEEPEST_LEVEL.fetch_max(cgroup.level(), Relaxed);
    EVENT_COUNT.fetch_add(1, SeqCst);
    SLOW_SWITCH_USERS.fetch_add(1, SeqCst);
    on_each_online(|_| true, reload);
    Ok(())
}

/// Ends [`begin`] for an event that has no slot any more.
pub(super) fn end(cgroup: &Arc<Cgroup>) {
    let gone = {
        let _lock = table::lock();
        // SAFETY: `_lock` is the guard of the table's lock.
        let observed = unsafe { find(cgroup.as_ptr()) };
        observed
            .filter(|observed| observed.users.fetch_sub(1, Relaxed) == 1)
            .map(remove)
    };
    if let Some(gone) = gone {
        on_each_online(|_| true, reload);
        // SAFETY: It comes from `KBox::into_raw`, has just been removed, and all CPUs have unloaded its contexts: they don't
        // find it any more.
        unsafe { rcu::free(gone) };
    }
    SLOW_SWITCH_USERS.fetch_sub(1, SeqCst);
    EVENT_COUNT.fetch_sub(1, SeqCst);
}

/// Removes a cgroup from its list. The lock is held.
fn remove(observed: &CountedCgroup) -> *const CountedCgroup {
    let mut link = list_of(observed.cgroup.as_ptr());
    loop {
        let next = link.load(Relaxed);
        if ptr::eq(next, observed) {
            link.store(observed.next.load(Relaxed), Release);
            return observed;
        }
        // SAFETY: A cgroup in a list is alive while the lock is held.
        match unsafe { next.as_ref() } {
            Some(next) => link = &next.next,
            None => return observed,
        }
    }
}

/// Calls `f` with the context of a cgroup that has events, on one CPU, as [`Context::with_slots`]. `None` if it has none.
pub(super) fn with_context<R: Send>(
    cgroup: &Cgroup,
    cpu: CpuId,
    f: impl FnMut(Option<ThisCpu<'_>>, &mut Slots) -> R + Send,
) -> Option<R> {
    let _pinned = pin();
    // SAFETY: Preemption is off until `_pinned` is dropped, after the last use of the result.
    let observed = unsafe { find(cgroup.as_ptr()) }?;
    let (result, _) = observed.context_on(cpu)?.context.with_slots(f)?;
    Some(result)
}

/// Returns the first context of cgroups that is loaded on a CPU, and the others by [`CgroupContext::next`].
fn first_loaded<'a>(percpu: &PerCpu) -> Option<&'a CgroupContext> {
    context_at(percpu.cgroup_contexts.get())
}

/// Returns the context at an address; `None` for 0.
fn context_at<'a>(address: u64) -> Option<&'a CgroupContext> {
    let address = ptr::with_exposed_provenance::<CgroupContext>(address as usize);
    // SAFETY: It is loaded on this CPU. A cgroup is freed after all CPUs have unloaded its contexts.
    unsafe { address.as_ref() }
}

/// Loads the contexts of the cgroups of `task`, which runs here from now on, and unloads all others. Interrupts are
/// off.
pub(super) fn load_contexts_of(
    here: ThisCpu<'_>,
    readings: &mut Readings,
    task: *mut bindings::task_struct,
) {
    if EVENT_COUNT.load(Relaxed) == 0 {
        return;
    }
    let percpu = here.percpu();
    // SAFETY: The task runs here, and interrupts are off.
    let mut cgroups = unsafe { of_task(task, DEEPEST_LEVEL.load(Relaxed)) };
    let Some(inmost) = cgroups.next() else {
        return;
    };
    if percpu.brought_up.get() == 0 {
        return mark_missed(here, inmost, cgroups);
    }
    let address = inmost.as_ptr().addr() as u64;
    if percpu.cgroup.get() == address {
        return;
    }
    percpu.cgroup.set(address);
    unload(here, readings, |on_cpu| {
        // SAFETY: `inmost` is the task's, and interrupts are off: it is not freed, nor is that of a context.
        let is_within =
            unsafe { ffi::perfmon_cgroup_is_within(inmost.as_ptr(), on_cpu.cgroup.as_ptr()) };
        // Another one may have been made for the same cgroup since.
        let is_current = || find_here(here, on_cpu.cgroup).is_some_and(|it| ptr::eq(it, on_cpu));
        is_within && is_current()
    });
    load(here, readings, inmost);
    for cgroup in cgroups {
        load(here, readings, cgroup);
    }
}

/// Returns the context of a cgroup on this CPU, if it has events. Interrupts are off.
fn find_here(here: ThisCpu<'_>, cgroup: NonNull<ffi::cgroup>) -> Option<&CgroupContext> {
    // SAFETY: Interrupts are off, as a `ThisCpu` says in this folder.
    let observed = unsafe { find(cgroup.as_ptr()) }?;
    observed.context_on(here.id())
}

/// Loads the context of a cgroup, if it has events and that is not done.
fn load(here: ThisCpu<'_>, readings: &mut Readings, cgroup: NonNull<ffi::cgroup>) {
    let percpu = here.percpu();
    let on_cpu = find_here(here, cgroup);
    let Some((on_cpu, mut slots)) = on_cpu.and_then(|it| Some((it, it.context.load(here)?))) else {
        return;
    };
    readings.open_windows(here, &mut slots);
    on_cpu.next.set(percpu.cgroup_contexts.get());
    let address = ptr::from_ref(on_cpu).expose_provenance() as u64;
    percpu.cgroup_contexts.set(address);
}

/// Unloads the contexts for which `stays` is false.
fn unload(here: ThisCpu<'_>, readings: &mut Readings, stays: impl Fn(&CgroupContext) -> bool) {
    let mut link = &here.percpu().cgroup_contexts;
    while let Some(on_cpu) = context_at(link.get()) {
        if stays(on_cpu) {
            link = &on_cpu.next;
            continue;
        }
        // SAFETY: The context is loaded on this CPU, and interrupts are off.
        let mut slots = unsafe { Held::assume(&on_cpu.context) };
        readings.close_windows(here, &mut slots);
        slots.unload();
        link.set(on_cpu.next.get());
    }
}

/// Marks the events of the cgroups of a task that runs on a CPU that was refused.
#[cold]
fn mark_missed(
    here: ThisCpu<'_>,
    inmost: NonNull<ffi::cgroup>,
    cgroups: impl Iterator<Item = NonNull<ffi::cgroup>>,
) {
    if here.percpu().refused.get() == 0 {
        return;
    }
    // Not as a method: the trait `Init` has one of this name.
    for cgroup in Iterator::chain(core::iter::once(inmost), cgroups) {
        if let Some(on_cpu) = find_here(here, cgroup) {
            on_cpu
                .context
                .with_current_slots(here, |_, slots| slots.mark_missed(here.id()));
        }
    }
}

/// Loads the contexts of the task that runs here, whatever is loaded now. Interrupts are off.
pub(super) fn reload(here: ThisCpu<'_>) {
    here.percpu().cgroup.set(0);
    load_contexts_of(here, &mut Readings::new(timestamp()), Task::current_raw());
}

/// Unloads all contexts: the CPU is counted on no more. Interrupts are off.
pub(super) fn unload_all(here: ThisCpu<'_>, readings: &mut Readings) {
    here.percpu().cgroup.set(0);
    unload(here, readings, |_| false);
}

/// Brings the sums of all events up to date whose contexts are loaded here, and opens the windows that should be open now.
/// Interrupts are off.
pub(super) fn refresh_loaded(here: ThisCpu<'_>) {
    let mut next = first_loaded(here.percpu());
    while let Some(on_cpu) = next {
        next = context_at(on_cpu.next.get());
        // SAFETY: The context is loaded on this CPU, and interrupts are off.
        let mut slots = unsafe { Held::assume(&on_cpu.context) };
        refresh(here, &mut slots, timestamp());
    }
}

/// The tracepoint `cgroup_attach_task`: a task has moved to another cgroup, or all threads of its process have. Interrupts
/// are off.
///
/// # Safety
///
/// To be called by the tracepoint.
pub(super) unsafe extern "C" fn on_move(
    _data: *mut c_void,
    _cgroup: *mut ffi::cgroup,
    _path: *const c_char,
    task: *mut bindings::task_struct,
    all_threads: bool,
) {
    if EVENT_COUNT.load(Relaxed) == 0 {
        return;
    }
    // SAFETY: The tracepoint passes a task that is alive during the call, with interrupts off. [`flush`] waits for
    // pending calls of `reload_here` before the module ends.
    unsafe { ffi::perfmon_cgroup_moved(task, all_threads, Some(reload_here)) };
}

/// Calls [`reload`].
///
/// # Safety
///
/// To be called with interrupts off.
unsafe extern "C" fn reload_here() {
    // SAFETY: Interrupts are off, so the caller stays on the CPU until this function returns.
    reload(unsafe { ThisCpu::assume() });
}

/// Waits for the calls of [`on_move`], which comes no more.
pub(super) fn flush() {
    // A CPU answers calls that a caller waits for before others that came earlier, but only those it has found together.
    for _ in 0..2 {
        on_each_online(|_| true, |_| ());
    }
}
