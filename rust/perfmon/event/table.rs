// SPDX-License-Identifier: GPL-2.0-only
//! The contexts of tasks, by task.
//!
//! A table of lists: readers hold RCU or can't be preempted; writers hold the lock ([`lock`]). A context is in the
//! table from its first event to its end.

use super::context::Context;
use crate::{cpu::pin, sys::ffi};
use core::{
    ptr,
    sync::atomic::{
        AtomicPtr,
        Ordering::{Acquire, Relaxed, Release},
    },
};
use kernel::{bindings, prelude::*};

/// The lists: enough for a thousand tasks with events before two share one often.
const BITS: u32 = 10;

/// ATOMICS: a context is put in with release order, and found with acquire order: its fields are seen. Removal changes
/// the pointer before it only; RCU keeps the context for who is reading it.
static LISTS: [AtomicPtr<Context>; 1 << BITS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; 1 << BITS];

/// Returns the list of a task.
#[inline(always)]
fn list(task: *const bindings::task_struct) -> &'static AtomicPtr<Context> {
    /// 2^64 divided by the golden ratio, as in the kernel's hash_64().
    const GOLDEN: u64 = 0x61C8_8646_80B5_83EB;

    let hash = (task.addr() as u64).wrapping_mul(GOLDEN) >> (u64::BITS - BITS);
    // The shift leaves as many bits as there are lists.
    &LISTS[hash as usize % LISTS.len()]
}

/// Returns the context of a task.
///
/// # Safety
///
/// The caller must hold RCU or the lock, or can't be preempted; and does not use the result longer.
#[inline(always)]
pub(super) unsafe fn find<'a>(task: *const bindings::task_struct) -> Option<&'a Context> {
    let mut next = list(task).load(Acquire);
    // SAFETY: A context in the table is alive, and one that was removed stays alive for the caller, by RCU.
    while let Some(context) = unsafe { next.as_ref() } {
        if context.is_of(task) {
            return Some(context);
        }
        next = context.next.load(Acquire);
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
    /// Adds the context of a task that has none.
    pub(super) fn add(&mut self, task: *const bindings::task_struct, context: KBox<Context>) {
        let list = list(task);
        context.next.store(list.load(Relaxed), Relaxed);
        list.store(KBox::into_raw(context), Release);
    }

    /// Removes a context that is gone, and frees it by RCU. Nothing if it was removed before.
    pub(super) fn remove(&mut self, task: *const bindings::task_struct, context: *const Context) {
        let mut link = list(task);
        loop {
            let next = link.load(Relaxed);
            // SAFETY: A context in the table is alive while the lock is held.
            let Some(found) = (unsafe { next.as_ref() }) else {
                return;
            };
            if ptr::eq(found, context) {
                link.store(found.next.load(Relaxed), Release);
                // SAFETY: The context was in the table, so it comes from `KBox::into_raw`; it is gone, and has just been
                // removed.
                unsafe { Context::free_by_rcu(found) };
                return;
            }
            link = &found.next;
        }
    }
}

/// Calls `f` with each context that is in the table all the while, without preemption.
pub(super) fn each(mut f: impl FnMut(&Context)) {
    // Most are empty.
    for list in LISTS.iter().filter(|list| !list.load(Relaxed).is_null()) {
        // As long as one list takes, and no longer: others may have to run, and wait for a grace period.
        let _pinned = pin();
        let mut next = list.load(Acquire);
        // SAFETY: A context in the table is alive, and one that was removed stays alive for the caller, by RCU, since
        // preemption is off.
        while let Some(context) = unsafe { next.as_ref() } {
            next = context.next.load(Acquire);
            f(context);
        }
    }
}
