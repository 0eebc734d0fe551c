// SPDX-License-Identifier: GPL-2.0-only
//! The tables that find the context of a task ([`TASKS`]) and the contexts of a cgroup ([`CGROUPS`]).
//!
//! A table is a hash table of lists. Readers hold RCU or can't be preempted; writers hold the lock of all tables
//! ([`lock`]). An entry is in its table from its first event until its last.
//!
//! With many entries a table gets more lists ([`Table::grow`]), so that a context switch looks at one or two entries. An
//! entry has two links: readers of the former lists follow one link, while readers of the new lists follow the other.

use super::{context::Context, counted_cgroup::CountedCgroup, entry::Entry, rcu};
use crate::{cpu::pin, sys::ffi};
use core::{
    marker::PhantomData,
    ptr::{self, NonNull},
    sync::atomic::{
        AtomicPtr, AtomicUsize,
        Ordering::{Acquire, Relaxed, Release},
    },
};
use kernel::{
    prelude::*,
    sync::{global_lock, GlobalGuard},
};

/// The number of lists in a new table, few enough to stay in the cache.
const INITIAL_LISTS: usize = 1 << 10;
/// The largest number of lists: two for each task that the default `kernel.pid_max` allows. The
/// lists take 512 KiB.
const MAX_LISTS: usize = 1 << 16;
/// The factor by which a table grows.
const GROWTH_FACTOR: usize = 4;

/// A list of entries, or the rest of a list: a pointer to the first entry; null if there is none.
///
/// ATOMICS: stored with release order when an entry is added, and loaded with acquire order, so that readers see the
/// entry's fields.
/// Removal changes only the pointer to the entry; RCU keeps the entry for readers that have found it.
type List<T> = AtomicPtr<T>;

/// The header in front of the lists in memory.
#[repr(C)]
struct Header {
    /// The number of lists minus one. The number of lists is a power of two.
    mask: usize,
    /// The index of the links that these lists use ([`Links`](super::entry::Links)).
    link: usize,
}

/// The lists that a table begins with, in static memory.
#[repr(C)]
struct InitialLists<T> {
    header: Header,
    lists: [List<T>; INITIAL_LISTS],
}

impl<T> InitialLists<T> {
    const fn new() -> Self {
        Self {
            header: Header {
                mask: INITIAL_LISTS - 1,
                link: 0,
            },
            lists: [const { AtomicPtr::new(ptr::null_mut()) }; INITIAL_LISTS],
        }
    }
}

/// A table of entries, each of which is found by its key.
pub(super) struct Table<T: Entry> {
    /// The lists in use: `initial`, or lists from [`Lists::new`].
    ///
    /// ATOMICS: stored with release order after all entries are in the lists, and loaded with acquire order by readers.
    /// Changed under the lock.
    current: AtomicPtr<Header>,
    initial: &'static InitialLists<T>,
    /// The number of entries.
    ///
    /// ATOMICS: relaxed. Changed under the lock; read without the lock to decide whether the table has to grow.
    count: AtomicUsize,
}

static INITIAL_TASKS: InitialLists<Context> = InitialLists::new();
static INITIAL_CGROUPS: InitialLists<CountedCgroup> = InitialLists::new();

/// The contexts of tasks.
pub(super) static TASKS: Table<Context> = Table::new(&INITIAL_TASKS);
/// The cgroups with events, of both hierarchies.
pub(super) static CGROUPS: Table<CountedCgroup> = Table::new(&INITIAL_CGROUPS);

global_lock! {
    /// The lock under which [`Table::current`] is replaced.
    // SAFETY: The lock must be initialized before its first use: `init` does so, before there can be entries, and only
    // code that has an entry, and the module's exit, lock it.
    unsafe(uninit) static RESIZE: Mutex<()> = ();
}

/// The guard of [`RESIZE`].
type ResizeGuard = GlobalGuard<RESIZE>;

/// A pointer to a header and the lists after it.
///
/// # Invariants
///
/// The pointer is to a table's [`Table::initial`], or to memory of [`Lists::new`] that has not been freed: a header,
/// and after it the number of lists that the header gives.
struct Lists<T>(NonNull<Header>, PhantomData<List<T>>);

impl<T> Clone for Lists<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Lists<T> {}

/// Returns a hash of an address. Its low bits, too, depend on all bits of the address.
#[inline(always)]
fn hash<T>(address: *const T) -> usize {
    /// 2^64 divided by the golden ratio, as in the kernel's hash_64().
    const GOLDEN: u64 = 0x61C8_8646_80B5_83EB;

    // The upper half of the product depends on all bits of the address.
    ((address.addr() as u64).wrapping_mul(GOLDEN) >> 32) as usize
}

impl<T: Entry> Lists<T> {
    /// Allocates `count` empty lists, which use the links of index `link`. `count` is a power of two.
    ///
    /// # Errors
    ///
    /// ENOMEM if there is no memory.
    fn new(count: usize, link: usize) -> Result<Self> {
        let size = size_of::<Header>() + count * size_of::<List<T>>();
        let size = size.next_multiple_of(kernel::page::PAGE_SIZE);
        // SAFETY: `perfmon_buffer_alloc()` takes any size, and requires a caller that may sleep: the only caller, `grow`, is
        // called by a kernel thread that may.
        let memory = unsafe { ffi::perfmon_buffer_alloc(size) };
        let memory: NonNull<Header> = NonNull::new(memory.cast()).ok_or(ENOMEM)?;
        let header = Header {
            mask: count - 1,
            link,
        };
        // SAFETY: `write` requires aligned memory that may be written: the memory has whole pages, which are larger than
        // a `Header`, and nothing else uses it yet.
        unsafe { memory.as_ptr().write(header) };
        // INVARIANT: The memory has room for `count` lists after the header, which are empty, since it is all zero.
        Ok(Self(memory, PhantomData))
    }

    /// Frees lists that come from [`new`](Self::new), or empties the initial lists.
    ///
    /// # Safety
    ///
    /// `initial` must be the initial lists of the table, and no reader may use these lists or a copy of `self` any
    /// more.
    unsafe fn free(self, initial: &InitialLists<T>) {
        if ptr::eq(self.0.as_ptr(), &initial.header) {
            for list in &initial.lists {
                list.store(ptr::null_mut(), Relaxed);
            }
            return;
        }
        // SAFETY: The function requires memory of `perfmon_buffer_alloc()` that nothing uses: by the invariant the lists
        // are from there, since they are not the initial ones, and the caller promises that no reader uses them.
        unsafe { ffi::perfmon_buffer_free(self.0.as_ptr().cast()) };
    }

    /// Returns the header.
    #[inline(always)]
    fn header(&self) -> &Header {
        // SAFETY: `as_ref` requires a header that is alive and not changed: by the invariant of
        // `Lists` the header has not been freed, and headers are not changed once their lists are
        // in use.
        unsafe { self.0.as_ref() }
    }

    /// Returns the number of lists.
    fn count(&self) -> usize {
        self.header().mask + 1
    }

    /// Returns the list at `index` modulo the number of lists.
    #[inline(always)]
    fn at(&self, index: usize) -> &List<T> {
        // SAFETY: `add` and the reference require a list within the memory: by the invariant of `Lists` there are
        // `mask + 1` lists after the header, and `index & mask` is at most `mask`.
        unsafe {
            let lists: *const List<T> = self.0.as_ptr().add(1).cast();
            &*lists.add(index & self.header().mask)
        }
    }

    /// Returns the list that the entry with this key belongs to.
    #[inline(always)]
    fn list_of(&self, key: *const T::Key) -> &List<T> {
        self.at(hash(key))
    }

    /// Returns the link from an entry to the next one in these lists.
    #[inline(always)]
    fn link_of<'a>(&self, entry: &'a T) -> &'a List<T> {
        entry.links().at(self.header().link)
    }

    /// Puts an entry into the list of its key.
    fn add(&self, entry: &T) {
        let list = self.list_of(entry.key());
        self.link_of(entry).store(list.load(Relaxed), Relaxed);
        list.store(ptr::from_ref(entry).cast_mut(), Release);
    }
}

/// Prepares the tables.
///
/// # Safety
///
/// To be called once in the module's life, before there can be entries.
pub(super) unsafe fn init() {
    // SAFETY: A lock must be initialized once, before its first use: the caller calls this once, before there can be
    // entries, and only code that has an entry, and the module's exit, lock `RESIZE`.
    unsafe { RESIZE.init() };
}

/// The guard of the lock of all tables, with the interrupt flags to restore. Interrupts are off until it is dropped.
pub(super) struct Lock(usize);

/// Locks the tables, for changes.
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

impl<T: Entry> Table<T> {
    /// Returns an empty table.
    const fn new(initial: &'static InitialLists<T>) -> Self {
        let header: *const InitialLists<T> = initial;
        Self {
            current: AtomicPtr::new(header.cast::<Header>().cast_mut()),
            initial,
            count: AtomicUsize::new(0),
        }
    }

    /// Returns the number of entries.
    pub(super) fn entry_count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Returns the lists in use.
    ///
    /// # Safety
    ///
    /// The caller must hold RCU, the lock or [`RESIZE`], or run without preemption, as long as it uses the result.
    #[inline(always)]
    unsafe fn lists(&self) -> Lists<T> {
        // INVARIANT: Lists are freed under `RESIZE`, after they were replaced under the lock and a grace period has
        // passed, so they are alive for the caller.
        // SAFETY: `new_unchecked` requires a pointer that is not null: `current` begins with the address of a static,
        // and is set to the pointers of `Lists` only.
        let header = unsafe { NonNull::new_unchecked(self.current.load(Acquire)) };
        Lists(header, PhantomData)
    }

    /// Returns the entry with a key.
    ///
    /// # Safety
    ///
    /// The caller must hold RCU or the lock, or run without preemption, as long as it uses the result.
    #[inline(always)]
    pub(super) unsafe fn find(&self, key: *const T::Key) -> Option<&T> {
        // SAFETY: `lists` requires RCU, the lock, or no preemption as long as the result is used: the caller promises
        // one of them.
        let lists = unsafe { self.lists() };
        let mut next = lists.list_of(key).load(Acquire);
        // SAFETY: `as_ref` requires a pointer that is null or valid: an entry in the table is alive, and one that is
        // removed meanwhile stays alive for the caller, which holds RCU or the lock, or can't be preempted.
        while let Some(entry) = unsafe { next.as_ref() } {
            if ptr::eq(entry.key(), key) {
                return Some(entry);
            }
            next = lists.link_of(entry).load(Acquire);
        }
        None
    }

    /// Adds an entry for a key that has no entry yet. The caller releases the lock afterwards, and
    /// then calls [`Self::grow_if_crowded`].
    pub(super) fn add(&self, _lock: &mut Lock, entry: KBox<T>) {
        // SAFETY: `lists` requires the lock: `_lock` is its guard, and outlives the result.
        let lists = unsafe { self.lists() };
        // The caller of `unlink` frees the entry.
        lists.add(KBox::leak(entry));
        self.count.fetch_add(1, Relaxed);
    }

    /// Takes an entry out of the table. Returns false if it was taken out before. The caller gives the entry to
    /// [`rcu::free`].
    pub(super) fn unlink(&self, _lock: &mut Lock, entry: &T) -> bool {
        // SAFETY: `lists` requires the lock: `_lock` is its guard, and outlives the result.
        let lists = unsafe { self.lists() };
        let mut link = lists.list_of(entry.key());
        loop {
            let next = link.load(Relaxed);
            // SAFETY: `as_ref` requires a pointer that is null or valid: `next` is the end of the list or an entry of
            // the table, and `_lock` is the guard of the lock under which an entry is taken out before it is freed.
            let Some(next_entry) = (unsafe { next.as_ref() }) else {
                return false;
            };
            if ptr::eq(next_entry, entry) {
                link.store(lists.link_of(next_entry).load(Relaxed), Release);
                self.count.fetch_sub(1, Relaxed);
                return true;
            }
            link = lists.link_of(next_entry);
        }
    }

    /// Takes an unused entry out of the table, and frees it by RCU. Does nothing if the entry was taken out before.
    pub(super) fn remove(&self, lock: &mut Lock, entry: &T) {
        if self.unlink(lock, entry) {
            // SAFETY: `rcu::free` requires a value from a `KBox` that can't be found any more, once: `add` has leaked
            // the entry's `KBox`, and the entry has just been taken out, which can't be done twice.
            unsafe { rcu::free(entry) };
        }
    }

    /// Puts all entries into `new_lists`, which are empty and use the other link, and makes them the current lists.
    /// Returns the former lists, which readers may still use.
    fn move_to(&self, _lock: &mut Lock, new_lists: Lists<T>) -> Lists<T> {
        // SAFETY: `lists` requires the lock: `_lock` is its guard, and outlives the result.
        let old_lists = unsafe { self.lists() };
        for index in 0..old_lists.count() {
            let mut next = old_lists.at(index).load(Relaxed);
            // SAFETY: `as_ref` requires a pointer that is null or valid: the entry is in the table, and `_lock` is the
            // guard of the lock under which an entry is taken out before it is freed.
            while let Some(entry) = unsafe { next.as_ref() } {
                new_lists.add(entry);
                next = old_lists.link_of(entry).load(Relaxed);
            }
        }
        self.current.store(new_lists.0.as_ptr(), Release);
        old_lists
    }

    /// Replaces the current lists by `new_lists`, waits for a grace period, and frees the former
    /// lists. Each entry then has one link that no reader uses: the link of the former lists. To be
    /// called by tasks that may sleep.
    fn replace_lists(&self, _resize: &mut ResizeGuard, new_lists: Lists<T>) {
        let old_lists = self.move_to(&mut lock(), new_lists);
        // SAFETY: `perfmon_rcu_wait()` requires a caller that may sleep: kernel threads and the module's exit call
        // this, and hold only the mutex `RESIZE`.
        unsafe { ffi::perfmon_rcu_wait() };
        // SAFETY: `free` requires the table's initial lists, and that no reader uses `old_lists` any more:
        // `self.initial` are the initial lists; `move_to` has replaced `old_lists`, and the grace period has ended for
        // all readers that found them before.
        unsafe { old_lists.free(self.initial) };
    }

    /// Returns the number of lists that the table should grow to, if there are more entries than lists.
    fn next_list_count(&self) -> Option<usize> {
        let _pinned = pin();
        // SAFETY: `lists` requires preemption to be off: `_pinned` keeps it off as long as the lists are used.
        let count = unsafe { self.lists() }.count();
        (self.count.load(Relaxed) > count && count < MAX_LISTS).then_some(count * GROWTH_FACTOR)
    }

    /// Queues [`grow_crowded`] for a kernel thread, if there are more entries than lists.
    pub(super) fn grow_if_crowded(&self) {
        if self.next_list_count().is_some() {
            // SAFETY: The function requires a callback that stays until it has been called:
            // `hooks::finish` waits for that before the module is unloaded. `grow_crowded` requires
            // a kernel thread that may sleep, and `perfmon_call_soon()` has such a thread call it.
            unsafe { ffi::perfmon_call_soon(Some(grow_crowded)) };
        }
    }

    /// Gives the table more lists, if there are more entries than lists. If there is no memory, the lists stay as they
    /// are, until the next entry is added. To be called by kernel threads, which may sleep.
    fn grow(&self, resize: &mut ResizeGuard) {
        let Some(count) = self.next_list_count() else {
            return;
        };
        // `RESIZE` is held, so the lists and their link don't change.
        // SAFETY: `lists` requires `RESIZE` as long as the result is used: `resize` is its guard, and outlives the result.
        let link = unsafe { self.lists() }.header().link ^ 1;
        if let Ok(new_lists) = Lists::new(count, link) {
            self.replace_lists(resize, new_lists);
        }
    }

    /// Frees the lists that the table has grown to, if it is empty. To be called by tasks that may sleep.
    fn shrink(&self, resize: &mut ResizeGuard) {
        let initial_lists = Lists(NonNull::from(self.initial).cast(), PhantomData);
        // SAFETY: `lists` requires `RESIZE` as long as the result is used: `resize` is its guard, and outlives the result.
        let current_lists = unsafe { self.lists() };
        if current_lists.0 != initial_lists.0 && self.count.load(Relaxed) == 0 {
            self.replace_lists(resize, initial_lists);
        }
    }

    /// Calls `f` with each entry that stays in the table during the call, until `f` returns false. Preemption is off
    /// during `f`.
    ///
    /// If the table grows meanwhile, the entries of a list move to lists with the same or a higher index, so no entry is
    /// missed.
    pub(super) fn for_each(&self, mut f: impl FnMut(&T) -> bool) {
        let mut index = 0;
        loop {
            // Preemption is off for one list with entries at a time, so that other tasks can run and grace periods can
            // end.
            let _pinned = pin();
            // SAFETY: `lists` requires preemption to be off: `_pinned` keeps it off as long as the lists are used.
            let lists = unsafe { self.lists() };
            // Most lists are empty: up to `INITIAL_LISTS` of them are skipped at a time.
            let is_empty = |index: &usize| lists.at(*index).load(Relaxed).is_null();
            let end = lists.count().min(index + INITIAL_LISTS);
            index = (index..end).find(|index| !is_empty(index)).unwrap_or(end);
            if index == lists.count() {
                return;
            }
            let mut next = lists.at(index).load(Acquire);
            // SAFETY: `as_ref` requires a pointer that is null or valid: an entry in the table is alive, and if it is
            // removed meanwhile, RCU frees it only after `_pinned`, which keeps preemption off, is dropped.
            while let Some(entry) = unsafe { next.as_ref() } {
                next = lists.link_of(entry).load(Acquire);
                if !f(entry) {
                    return;
                }
            }
            index += 1;
        }
    }
}

/// Gives more lists to each table that has more entries than lists.
///
/// Interrupts are off while the entries of a table move to the new lists: for a quarter of a millisecond with 16384
/// entries.
///
/// # Safety
///
/// To be called by a kernel thread, which may sleep.
unsafe extern "C" fn grow_crowded() {
    let mut resize = RESIZE.lock();
    TASKS.grow(&mut resize);
    CGROUPS.grow(&mut resize);
}

/// Frees the lists that empty tables have grown to. To be called by tasks that may sleep.
pub(super) fn shrink() {
    let mut resize = RESIZE.lock();
    TASKS.shrink(&mut resize);
    CGROUPS.shrink(&mut resize);
}
