// SPDX-License-Identifier: GPL-2.0-only
//! The table that finds the context of a task.
//!
//! A hash table of lists. Readers hold RCU or can't be preempted; writers hold the lock ([`lock`]). A context is in
//! the table from its first event until it is gone.
//!
//! With many contexts the table gets more lists ([`grow`]), so that a context switch looks at one or two contexts. A
//! context has two links: readers of the former lists follow one link, while readers of the new lists follow the
//! other.

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

/// The number of lists in a new table, few enough to stay in the cache.
const INITIAL_LISTS: usize = 1 << 10;
/// The largest number of lists: two for each task that the default `kernel.pid_max` allows. They take 512 KiB.
const MAX_LISTS: usize = 1 << 16;
/// The factor by which a table grows.
const GROWTH_FACTOR: usize = 4;

/// A list of contexts, or the rest of one: a pointer to the first context.
///
/// ATOMICS: a context is put in with release order, and found with acquire order, so that readers see its fields.
/// Removal changes only the pointer to the context; RCU keeps the context for readers that have found it.
type List = AtomicPtr<Context>;

/// The header in front of the lists in memory.
#[repr(C)]
struct Header {
    /// The number of lists, which is a power of two, less one.
    mask: usize,
    /// The index in [`Context::next`] of the links that these lists use.
    link: usize,
}

/// The lists that the table begins with, in static memory.
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

/// The lists in use: [`INITIAL_TABLE`], or lists from [`Lists::new`].
///
/// ATOMICS: stored with release order after all contexts are in the lists, and loaded with acquire order by readers.
/// Changed under the lock.
static CURRENT_TABLE: AtomicPtr<Header> =
    AtomicPtr::new(ptr::from_ref(&INITIAL_TABLE).cast::<Header>().cast_mut());

/// The number of contexts in the table.
///
/// ATOMICS: relaxed. Changed under the lock; read without the lock to decide whether the table has to grow.
static CONTEXT_COUNT: AtomicUsize = AtomicUsize::new(0);

global_lock! {
    /// The lock under which [`CURRENT_TABLE`] is replaced.
    // SAFETY: The lock must be initialized before its first use: `init` does so, before there can be contexts, and
    // only code that has a context locks it.
    unsafe(uninit) static RESIZE: Mutex<()> = ();
}

/// A pointer to a header and the lists behind it.
///
/// # Invariants
///
/// The pointer is to [`INITIAL_TABLE`], or to memory of [`Lists::new`] that has not been freed: a header, and behind
/// it the number of lists that the header gives.
#[derive(Clone, Copy)]
struct Lists(NonNull<Header>);

/// Returns a hash of an address. Its low bits, too, depend on all bits of the address.
#[inline(always)]
pub(super) fn hash<T>(address: *const T) -> usize {
    /// 2^64 divided by the golden ratio, as in the kernel's hash_64().
    const GOLDEN: u64 = 0x61C8_8646_80B5_83EB;

    // The upper half of the product depends on all bits of the address.
    ((address.addr() as u64).wrapping_mul(GOLDEN) >> 32) as usize
}

impl Lists {
    /// Returns the lists in use.
    ///
    /// # Safety
    ///
    /// The caller must hold RCU, the table's lock or [`RESIZE`], or run without preemption, as long as it uses the
    /// result.
    #[inline(always)]
    unsafe fn current() -> Self {
        // INVARIANT: Lists are freed under `RESIZE`, after they were replaced under the table's lock and a grace period
        // has passed, so they are alive for the caller.
        // SAFETY: `new_unchecked` requires a pointer that is not null: `CURRENT_TABLE` begins with the address of a
        // static, and is set to the pointers of `Lists` only.
        Self(unsafe { NonNull::new_unchecked(CURRENT_TABLE.load(Acquire)) })
    }

    /// Allocates `count` empty lists, which use the links of index `link`. `count` is a power of two.
    ///
    /// # Errors
    ///
    /// ENOMEM if there is no memory.
    fn new(count: usize, link: usize) -> Result<Self> {
        let size = size_of::<Header>() + count * size_of::<List>();
        let size = size.next_multiple_of(kernel::page::PAGE_SIZE);
        // SAFETY: `perfmon_buffer_alloc()` takes any size: it has no preconditions.
        let memory = unsafe { ffi::perfmon_buffer_alloc(size) };
        let memory: NonNull<Header> = NonNull::new(memory.cast()).ok_or(ENOMEM)?;
        let header = Header {
            mask: count - 1,
            link,
        };
        // SAFETY: `write` requires aligned memory that may be written: the memory has whole pages, which are larger than
        // a `Header`, and nothing else uses it yet.
        unsafe { memory.as_ptr().write(header) };
        // INVARIANT: The memory has room for `count` lists behind the header, which are empty, since it is all zero.
        Ok(Self(memory))
    }

    /// Frees lists of [`new`](Self::new), or empties [`INITIAL_TABLE`].
    ///
    /// # Safety
    ///
    /// No reader may use these lists or a copy of `self` any more.
    unsafe fn free(self) {
        if ptr::eq(self.0.as_ptr(), &INITIAL_TABLE.header) {
            for list in &INITIAL_TABLE.lists {
                list.store(ptr::null_mut(), Relaxed);
            }
            return;
        }
        // SAFETY: The function requires memory of `perfmon_buffer_alloc()` that nothing uses: by the invariant the lists
        // are from there, since they are not `INITIAL_TABLE`, and the caller promises that no reader uses them.
        unsafe { ffi::perfmon_buffer_free(self.0.as_ptr().cast()) };
    }

    /// Returns the header.
    #[inline(always)]
    fn header(&self) -> &Header {
        // SAFETY: `as_ref` requires a header that is alive and not changed: by the invariant of `Lists` it has not been
        // freed, and headers are not changed once their lists are in use.
        unsafe { self.0.as_ref() }
    }

    /// Returns the number of lists.
    fn list_count(self) -> usize {
        self.header().mask + 1
    }

    /// Returns the list at `index` modulo the number of lists.
    #[inline(always)]
    fn at(&self, index: usize) -> &List {
        // SAFETY: `add` and the reference require a list within the memory: by the invariant of `Lists` there are
        // `mask + 1` lists behind the header, and `index & mask` is at most `mask`.
        unsafe {
            let lists: *const List = self.0.as_ptr().add(1).cast();
            &*lists.add(index & self.header().mask)
        }
    }

    /// Returns the list that a task's context belongs to.
    #[inline(always)]
    fn list_of(&self, task: *const bindings::task_struct) -> &List {
        self.at(hash(task))
    }

    /// Returns the link from a context to the next one in these lists.
    #[inline(always)]
    fn link_of<'a>(&self, context: &'a Context) -> &'a List {
        &context.next[self.header().link & 1]
    }

    /// Puts a context into the list of its task.
    fn add(self, context: &Context) {
        let list = self.list_of(context.task());
        self.link_of(context).store(list.load(Relaxed), Relaxed);
        list.store(ptr::from_ref(context).cast_mut(), Release);
    }
}

/// Prepares the table.
///
/// # Safety
///
/// To be called once in the module's life, before there can be contexts.
pub(super) unsafe fn init() {
    // SAFETY: A lock must be initialized once, before it is used: the caller calls this once, before there can be
    // contexts.
    unsafe { RESIZE.init() };
}

/// Returns the context of a task.
///
/// # Safety
///
/// The caller must hold RCU or the table's lock, or run without preemption, as long as it uses the result.
#[inline(always)]
pub(super) unsafe fn find<'a>(task: *const bindings::task_struct) -> Option<&'a Context> {
    // SAFETY: `Lists::current` requires RCU, the lock, or no preemption as long as the result is used: the caller
    // promises one of them.
    let lists = unsafe { Lists::current() };
    let mut next = lists.list_of(task).load(Acquire);
    // SAFETY: `as_ref` requires a pointer that is null or valid: a context in the table is alive, and one that is
    // removed meanwhile stays alive for the caller, which holds RCU or the lock, or can't be preempted.
    while let Some(context) = unsafe { next.as_ref() } {
        if context.is_of_task(task) {
            return Some(context);
        }
        next = lists.link_of(context).load(Acquire);
    }
    None
}

/// The guard of the table's lock. Interrupts are off until it is dropped.
pub(super) struct Lock(usize);

/// Locks the table, for changes.
pub(super) fn lock() -> Lock {
    // SAFETY: `perfmon_tasks_lock()` requires one `perfmon_tasks_unlock()` with its result: `drop` calls that.
    Lock(unsafe { ffi::perfmon_tasks_lock() })
}

impl Drop for Lock {
    fn drop(&mut self) {
        // SAFETY: The function requires the result of `perfmon_tasks_lock()`, once: `lock` has stored it in `self.0`, and
        // `self` is dropped once.
        unsafe { ffi::perfmon_tasks_unlock(self.0) };
    }
}

impl Lock {
    /// Adds the context of a task that has none. After the caller has released the lock, it calls
    /// [`grow_if_crowded`].
    pub(super) fn add(&mut self, context: KBox<Context>) {
        // SAFETY: `Lists::current` requires the table's lock: `self` is its guard, and outlives the result.
        let lists = unsafe { Lists::current() };
        // `remove` gives the context to RCU, which frees it.
        lists.add(KBox::leak(context));
        CONTEXT_COUNT.fetch_add(1, Relaxed);
    }

    /// Removes a context that is gone, and frees it by RCU. Does nothing if it was removed before.
    pub(super) fn remove(&mut self, task: *const bindings::task_struct, context: *const Context) {
        // SAFETY: `Lists::current` requires the table's lock: `self` is its guard, and outlives the result.
        let lists = unsafe { Lists::current() };
        let mut link = lists.list_of(task);
        loop {
            let next = link.load(Relaxed);
            // SAFETY: `as_ref` requires a pointer that is null or valid: the context is in the table, and `self` holds
            // the lock, under which a context is removed before it is freed.
            let Some(next_context) = (unsafe { next.as_ref() }) else {
                return;
            };
            if ptr::eq(next_context, context) {
                link.store(lists.link_of(next_context).load(Relaxed), Release);
                CONTEXT_COUNT.fetch_sub(1, Relaxed);
                // SAFETY: `rcu::free` requires a value from a `KBox` that can't be found any more, once: `add` has leaked
                // the context's `KBox`, and the context has just been removed, which can't be done twice.
                unsafe { rcu::free(ptr::from_ref(next_context)) };
                return;
            }
            link = lists.link_of(next_context);
        }
    }

    /// Puts all contexts into `new_lists`, which are empty and use the other link, and makes them the current lists.
    /// Returns the former lists, which readers may still use.
    fn replace_lists(&mut self, new_lists: Lists) -> Lists {
        // SAFETY: `Lists::current` requires the table's lock: `self` is its guard, and outlives the result.
        let old_lists = unsafe { Lists::current() };
        for index in 0..old_lists.list_count() {
            let mut next = old_lists.at(index).load(Relaxed);
            // SAFETY: `as_ref` requires a pointer that is null or valid: the context is in the table, and `self` holds
            // the lock, under which a context is removed before it is freed.
            while let Some(context) = unsafe { next.as_ref() } {
                new_lists.add(context);
                next = old_lists.link_of(context).load(Relaxed);
            }
        }
        CURRENT_TABLE.store(new_lists.0.as_ptr(), Release);
        old_lists
    }
}

/// Returns the number of lists that the table should grow to, if there are more contexts than lists.
fn next_list_count() -> Option<usize> {
    let _pinned = pin();
    // SAFETY: `Lists::current` requires preemption to be off: `_pinned` keeps it off as long as the lists are used.
    let count = unsafe { Lists::current() }.list_count();
    (CONTEXT_COUNT.load(Relaxed) > count && count < MAX_LISTS).then_some(count * GROWTH_FACTOR)
}

/// Queues [`grow`] for a kernel thread, if there are more contexts than lists.
pub(super) fn grow_if_crowded() {
    if next_list_count().is_some() {
        // SAFETY: The function requires a callback that stays until it has been called: `hooks::finish` waits for that
        // before the module is unloaded. `grow` requires a kernel thread that may sleep, as the caller of it is.
        unsafe { ffi::perfmon_call_soon(Some(grow)) };
    }
}

/// Gives the table more lists, if there are more contexts than lists. If there is no memory, the lists stay as they are,
/// until the next context is added.
///
/// Interrupts are off while the contexts move to the new lists: for a quarter of a millisecond with 16384 contexts.
///
/// # Safety
///
/// To be called by a kernel thread, which may sleep.
unsafe extern "C" fn grow() {
    let _resize = RESIZE.lock();
    let Some(count) = next_list_count() else {
        return;
    };
    // `RESIZE` is held, so the lists and their link don't change.
    // SAFETY: `Lists::current` requires `RESIZE`: `_resize` is its guard, and outlives the result.
    let link = unsafe { Lists::current() }.header().link ^ 1;
    if let Ok(new_lists) = Lists::new(count, link) {
        replace_lists(new_lists);
    }
}

/// Frees the lists that the table has grown to, if there is no context. To be called by kernel threads, which may
/// sleep.
pub(super) fn shrink() {
    let _resize = RESIZE.lock();
    let initial_lists = Lists(NonNull::from(&INITIAL_TABLE).cast());
    // SAFETY: `Lists::current` requires `RESIZE`: `_resize` is its guard, and outlives the result.
    let current_lists = unsafe { Lists::current() };
    if current_lists.0 != initial_lists.0 && CONTEXT_COUNT.load(Relaxed) == 0 {
        replace_lists(initial_lists);
    }
}

/// Replaces the current lists by `new_lists`, waits for a grace period, and frees the former lists. After that no
/// reader uses the contexts' other link, either. To be called by kernel threads, which may sleep.
fn replace_lists(new_lists: Lists) {
    let old_lists = lock().replace_lists(new_lists);
    // SAFETY: `perfmon_rcu_wait()` requires a caller that may sleep: the kernel threads that call this may.
    unsafe { ffi::perfmon_rcu_wait() };
    // SAFETY: `free` requires that no reader uses the lists any more: they are no longer current, and the grace period
    // has ended for all readers that found them before.
    unsafe { old_lists.free() };
}

/// Calls `f` with each context that stays in the table during the call, until `f` returns false. Preemption is off
/// during `f`.
///
/// If the table grows meanwhile, the contexts of a list move to lists of the same index or above: so no context is
/// missed.
pub(super) fn for_each_context(mut f: impl FnMut(&Context) -> bool) {
    let mut index = 0;
    loop {
        // Preemption is off for one list with contexts at a time, so that other tasks can run and grace periods can
        // end.
        let _pinned = pin();
        // SAFETY: `Lists::current` requires preemption to be off: `_pinned` keeps it off as long as the lists are
        // used.
        let lists = unsafe { Lists::current() };
        // Most lists are empty: up to `INITIAL_LISTS` of them are skipped at a time.
        let is_empty = |index: &usize| lists.at(*index).load(Relaxed).is_null();
        let end = lists.list_count().min(index + INITIAL_LISTS);
        index = (index..end).find(|index| !is_empty(index)).unwrap_or(end);
        if index == lists.list_count() {
            return;
        }
        let mut next = lists.at(index).load(Acquire);
        // SAFETY: `as_ref` requires a pointer that is null or valid: a context in the table is alive, and if it is
        // removed meanwhile, RCU frees it only after `_pinned`, which keeps preemption off, is dropped.
        while let Some(context) = unsafe { next.as_ref() } {
            next = lists.link_of(context).load(Acquire);
            if !f(context) {
                return;
            }
        }
        index += 1;
    }
}
