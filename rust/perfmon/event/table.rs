// SPDX-License-Identifier: GPL-2.0-only
//! The contexts of tasks, by task.
//!
//! A table of lists: readers hold RCU or can't be preempted; writers hold the lock ([`lock`]). A context is in the
//! table from its first event to its end.
//!
//! With many contexts the table gets more lists ([`grow`]), so that a switch of any task looks at one context or two. A
//! context has two links: while readers of the former lists follow one, those of the new lists follow the other.

use super::{context::Context, rcu};
use crate::{cpu::pin, sys::ffi};
use core::{
    ptr::{self, NonNull},
    sync::atomic::{
        AtomicPtr, AtomicUsize,
        Ordering::{Acquire, Relaxed, Release},
    },
};
use kernel::{bindings, prelude::*, sync::global_lock};

/// The lists of a new table: small enough to stay in the cache.
const INITIAL_LISTS: usize = 1 << 10;
/// The most lists, which take 512 KiB: two for each task that a kernel runs with its default `kernel.pid_max`.
const MAX_LISTS: usize = 1 << 16;
/// The factor by which a table grows.
const GROWTH_FACTOR: usize = 4;

/// A list: its first context.
///
/// ATOMICS: a context is put in with release order, and found with acquire order: its fields are seen. Removal changes
/// the pointer before it only; RCU keeps the context for its readers.
type List = AtomicPtr<Context>;

/// The header in front of the lists in memory.
#[repr(C)]
struct Header {
    /// The number of lists, which is a power of two, less one.
    mask: usize,
    /// The index of [`Context::next`] that they use.
    link: usize,
}

/// The first lists.
#[repr(C)]
struct InitialTable {
    header: Header,
    lists: [List; INITIAL_LISTS],
}

static INITIAL_TABLE: InitialTable = InitialTable {
    header: Header {
        mask: INITIAL_LISTS - 1,
        link: 0,
    },
    lists: [const { AtomicPtr::new(ptr::null_mut()) }; INITIAL_LISTS],
};

/// The lists that are used now: [`INITIAL_TABLE`], or from [`Lists::new`].
///
/// ATOMICS: released with all contexts in them, and acquired by readers. The lock is held for changes.
static CURRENT_TABLE: AtomicPtr<Header> =
    AtomicPtr::new(ptr::from_ref(&INITIAL_TABLE).cast::<Header>().cast_mut());

/// The contexts in the table.
///
/// ATOMICS: relaxed. It is changed under the lock; others look whether there are too many.
static CONTEXTS: AtomicUsize = AtomicUsize::new(0);

global_lock! {
    /// Held to make other lists the current ones.
    // SAFETY: `init` initializes it, before there can be contexts.
    unsafe(uninit) static RESIZE: Mutex<()> = ();
}

/// Lists.
///
/// # Invariants
///
/// The pointer is to [`INITIAL_TABLE`], or to memory of [`Lists::new`] that has not been freed: a header, and behind
/// it as many lists as it says.
#[derive(Clone, Copy)]
struct Lists(NonNull<Header>);

/// Returns a number for an address, whose low bits are mixed well.
#[inline(always)]
pub(super) fn hash<T>(address: *const T) -> usize {
    /// 2^64 divided by the golden ratio, as in the kernel's hash_64().
    const GOLDEN: u64 = 0x61C8_8646_80B5_83EB;

    // The upper half is mixed best.
    ((address.addr() as u64).wrapping_mul(GOLDEN) >> 32) as usize
}

impl Lists {
    /// Returns the lists that are used now.
    ///
    /// # Safety
    ///
    /// The caller must hold RCU or the lock, or can't be preempted; and does not use the result longer.
    #[inline(always)]
    unsafe fn current() -> Self {
        // INVARIANT: They are freed by RCU, after others took their place.
        // SAFETY: `CURRENT_TABLE` is never null.
        Self(unsafe { NonNull::new_unchecked(CURRENT_TABLE.load(Acquire)) })
    }

    /// Returns empty lists, as many as `count`, a power of two, which use this link.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    fn new(count: usize, link: usize) -> Result<Self> {
        let size = size_of::<Header>() + count * size_of::<List>();
        let size = size.next_multiple_of(kernel::page::PAGE_SIZE);
        // SAFETY: The function has no requirements.
        let memory = unsafe { ffi::perfmon_buffer_alloc(size) };
        let memory: NonNull<Header> = NonNull::new(memory.cast()).ok_or(ENOMEM)?;
        let header = Header {
            mask: count - 1,
            link,
        };
        // SAFETY: The memory is whole pages, and has no other user.
        unsafe { memory.as_ptr().write(header) };
        // INVARIANT: The memory is all zero: the lists behind the header are empty.
        Ok(Self(memory))
    }

    /// Frees lists that are from [`new`](Self::new); makes [`INITIAL_TABLE`] empty.
    ///
    /// # Safety
    ///
    /// They are not used any more, and no reader has them.
    unsafe fn free(self) {
        if ptr::eq(self.0.as_ptr(), &INITIAL_TABLE.header) {
            for list in &INITIAL_TABLE.lists {
                list.store(ptr::null_mut(), Relaxed);
            }
            return;
        }
        // SAFETY: The lists are not `INITIAL_TABLE`, so they come from `perfmon_buffer_alloc()`; the caller says that
        // nothing uses them.
        unsafe { ffi::perfmon_buffer_free(self.0.as_ptr().cast()) };
    }

    /// Returns the header.
    #[inline(always)]
    fn header(&self) -> &Header {
        // SAFETY: The pointer is to a header that has not been freed, by the type invariant.
        unsafe { self.0.as_ref() }
    }

    /// Returns the number of lists.
    fn count(self) -> usize {
        self.header().mask + 1
    }

    /// Returns a list.
    #[inline(always)]
    fn at(&self, index: usize) -> &List {
        // SAFETY: By the type invariant there are `mask + 1` lists behind the header, and the mask leaves a smaller number.
        unsafe {
            let lists: *const List = self.0.as_ptr().add(1).cast();
            &*lists.add(index & self.header().mask)
        }
    }

    /// Returns the list of a task.
    #[inline(always)]
    fn list_of(&self, task: *const bindings::task_struct) -> &List {
        self.at(hash(task))
    }

    /// Returns the link to the next context.
    #[inline(always)]
    fn next<'a>(&self, context: &'a Context) -> &'a List {
        &context.next[self.header().link & 1]
    }

    /// Puts a context into the list of its task.
    fn add(self, context: &Context) {
        let list = self.list_of(context.task());
        self.next(context).store(list.load(Relaxed), Relaxed);
        list.store(ptr::from_ref(context).cast_mut(), Release);
    }
}

/// Prepares the table.
///
/// # Safety
///
/// To be called once in the module's life, before there can be contexts.
pub(super) unsafe fn init() {
    // SAFETY: The caller calls this once, before there can be contexts.
    unsafe { RESIZE.init() };
}

/// Returns the context of a task.
///
/// # Safety
///
/// The caller must hold RCU or the lock, or can't be preempted; and does not use the result longer.
#[inline(always)]
pub(super) unsafe fn find<'a>(task: *const bindings::task_struct) -> Option<&'a Context> {
    // SAFETY: The caller holds RCU or the lock, or can't be preempted, as long as it uses the result.
    let lists = unsafe { Lists::current() };
    let mut next = lists.list_of(task).load(Acquire);
    // SAFETY: A context in the table is alive, and one that was removed stays alive for the caller, by RCU.
    while let Some(context) = unsafe { next.as_ref() } {
        if context.is_of_task(task) {
            return Some(context);
        }
        next = lists.next(context).load(Acquire);
    }
    None
}

/// The lock of the table. Interrupts are off until it is dropped.
pub(super) struct Lock(usize);

/// Locks the table, for changes.
pub(super) fn lock() -> Lock {
    // SAFETY: The function has no preconditions; `drop` ends it.
    Lock(unsafe { ffi::perfmon_tasks_lock() })
}

impl Drop for Lock {
    fn drop(&mut self) {
        // SAFETY: `lock` has taken the lock.
        unsafe { ffi::perfmon_tasks_unlock(self.0) };
    }
}

impl Lock {
    /// Adds the context of a task that has none. The caller calls [`grow_if_crowded`] when it has released the lock.
    pub(super) fn add(&mut self, context: KBox<Context>) {
        // SAFETY: `self` is the guard of the table's lock.
        let lists = unsafe { Lists::current() };
        // Nothing frees it until `remove`.
        lists.add(KBox::leak(context));
        CONTEXTS.fetch_add(1, Relaxed);
    }

    /// Removes a context that is gone, and frees it by RCU. Nothing if it was removed before.
    pub(super) fn remove(&mut self, task: *const bindings::task_struct, context: *const Context) {
        // SAFETY: `self` is the guard of the table's lock.
        let lists = unsafe { Lists::current() };
        let mut link = lists.list_of(task);
        loop {
            let next = link.load(Relaxed);
            // SAFETY: A context in the table is alive while the lock is held.
            let Some(found) = (unsafe { next.as_ref() }) else {
                return;
            };
            if ptr::eq(found, context) {
                link.store(lists.next(found).load(Relaxed), Release);
                CONTEXTS.fetch_sub(1, Relaxed);
                // SAFETY: The context was in the table, so it comes from `KBox::into_raw`; it is gone, and has just been
                // removed.
                unsafe { rcu::free(ptr::from_ref(found)) };
                return;
            }
            link = lists.next(found);
        }
    }

    /// Uses `new` from now on, which are empty, and whose link is the other one. Returns the lists that were used before:
    /// readers may still have them.
    fn replace(&mut self, new: Lists) -> Lists {
        // SAFETY: `self` is the guard of the table's lock.
        let old = unsafe { Lists::current() };
        for index in 0..old.count() {
            let mut next = old.at(index).load(Relaxed);
            // SAFETY: A context in the table is alive while the lock is held.
            while let Some(context) = unsafe { next.as_ref() } {
                new.add(context);
                next = old.next(context).load(Relaxed);
            }
        }
        CURRENT_TABLE.store(new.0.as_ptr(), Release);
        old
    }
}

/// Returns how many lists there should be, if these are too few.
fn wanted_lists() -> Option<usize> {
    let _pinned = pin();
    // SAFETY: Preemption is off.
    let count = unsafe { Lists::current() }.count();
    (CONTEXTS.load(Relaxed) > count && count < MAX_LISTS).then_some(count * GROWTH_FACTOR)
}

/// Has the table grow soon, if there are more contexts than lists.
pub(super) fn grow_if_crowded() {
    if wanted_lists().is_some() {
        // SAFETY: `hooks::finish` comes before the function goes.
        unsafe { ffi::perfmon_call_soon(Some(grow)) };
    }
}

/// Makes the table grow, if there are more contexts than lists. If there is no memory, the lists stay as they are, until
/// the next context is added.
///
/// Interrupts are off while the contexts get other lists: for a quarter of a millisecond, when there are 16384.
///
/// # Safety
///
/// To be called by a kernel thread, which may sleep.
unsafe extern "C" fn grow() {
    let _resize = RESIZE.lock();
    let Some(count) = wanted_lists() else {
        return;
    };
    // Nothing else changes the lists, so the link stays.
    // SAFETY: They are freed under `RESIZE` only.
    let link = unsafe { Lists::current() }.header().link ^ 1;
    if let Ok(new) = Lists::new(count, link) {
        replace(new);
    }
}

/// Gives the memory back that the table has got, if there is no context. For kernel threads, which may sleep.
pub(super) fn shrink() {
    let _resize = RESIZE.lock();
    let first = Lists(NonNull::from(&INITIAL_TABLE).cast());
    // SAFETY: They are freed under `RESIZE` only.
    let current = unsafe { Lists::current() };
    if current.0 != first.0 && CONTEXTS.load(Relaxed) == 0 {
        replace(first);
    }
}

/// Uses `new`, and frees the lists before when no reader has them any more. Then the contexts' other link is free as
/// well.
fn replace(new: Lists) {
    let old = lock().replace(new);
    // SAFETY: Kernel threads may sleep.
    unsafe { ffi::perfmon_rcu_wait() };
    // SAFETY: All readers have gone that may have found them.
    unsafe { old.free() };
}

/// Calls `f` with each context that is in the table all the while, without preemption, until it returns false.
///
/// If the table grows meanwhile, the contexts of a list go to lists of the same number and above: none is missed.
pub(super) fn for_each_context(mut f: impl FnMut(&Context) -> bool) {
    let mut index = 0;
    loop {
        // As long as one list with contexts takes, and no longer: others may have to run, and wait for a grace period.
        let _pinned = pin();
        // SAFETY: Preemption is off.
        let lists = unsafe { Lists::current() };
        // Most are empty.
        let is_empty = |index: &usize| lists.at(*index).load(Relaxed).is_null();
        let end = lists.count().min(index + INITIAL_LISTS);
        index = (index..end).find(|index| !is_empty(index)).unwrap_or(end);
        if index == lists.count() {
            return;
        }
        let mut next = lists.at(index).load(Acquire);
        // SAFETY: A context in the table is alive, and one that was removed stays alive for the caller, by RCU, since
        // preemption is off.
        while let Some(context) = unsafe { next.as_ref() } {
            next = lists.next(context).load(Acquire);
            if !f(context) {
                return;
            }
        }
        index += 1;
    }
}
