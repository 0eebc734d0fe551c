// SPDX-License-Identifier: GPL-2.0-only
//! The page and the ring of one event, and their mappings.
//!
//! All mappings show the same page, so the page allows RDPMC only if all mappings belong to the program that is
//! counted ([`Mappings`]).

use super::{page::EventPage, ring::RingMemory};
use crate::event::target::Target;
use core::{
    ptr,
    sync::atomic::{AtomicPtr, AtomicU32, Ordering::SeqCst},
};
use kernel::{
    bindings, new_mutex,
    prelude::*,
    sync::{Arc, Mutex, MutexGuard},
};

/// The page of an event and its ring, which exist from the first mmap(2) on, and their mappings.
#[pin_data]
pub(in crate::event) struct MappedMemory {
    #[pin]
    memory: Mutex<PageAndRing>,
    pub(in crate::event) mappings: Mappings,
}

impl MappedMemory {
    /// Returns memory without page and ring.
    pub(in crate::event) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            memory <- new_mutex!(PageAndRing {
                page: None,
                ring: None,
                has_own_ring: false,
            }),
            mappings: Mappings::new(),
        })
    }

    /// Locks the page, the ring, and changes of [`Self::mappings`].
    pub(in crate::event) fn lock(&self) -> MutexGuard<'_, PageAndRing> {
        self.memory.lock()
    }
}

/// The numbers of mappings of an event's page.
///
/// ATOMICS: sequentially consistent. Changed under the lock of [`MappedMemory::memory`]; the caller that changes them
/// then makes the CPU write the page anew.
pub(in crate::event) struct Mappings {
    /// The number of all mappings.
    pub(in crate::event) total_count: AtomicU32,
    /// The number of mappings in `mm`. Their areas are marked
    /// ([`Area::set_rdpmc_mark`](crate::sys::descriptor::Area::set_rdpmc_mark)).
    pub(in crate::event) count_in_mm: AtomicU32,
    /// The address space of the counted program when the first mapping of `count_in_mm` was made. A
    /// task that executes another program gets another address space, which does not have these
    /// mappings.
    mm: AtomicPtr<bindings::mm_struct>,
}

impl Mappings {
    fn new() -> Self {
        Self {
            total_count: AtomicU32::new(0),
            count_in_mm: AtomicU32::new(0),
            mm: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Returns whether there are no mappings.
    pub(in crate::event) fn is_empty(&self) -> bool {
        self.total_count.load(SeqCst) == 0
    }

    /// Returns whether there are mappings, and all belong to the program that `target` counts.
    pub(in crate::event) fn are_all_own(&self, target: &Target) -> bool {
        let count_in_mm = self.count_in_mm.load(SeqCst);
        count_in_mm != 0
            && count_in_mm == self.total_count.load(SeqCst)
            && target.is_task_with_mm(self.mm.load(SeqCst))
    }

    /// Counts a mapping in `count_in_mm`, if `mm` is the address space of the program that `target` counts, and no other
    /// address space has mappings in `count_in_mm`. Returns whether the mapping was counted. Must be called with the lock
    /// of [`MappedMemory::memory`] held.
    pub(in crate::event) fn count_own(
        &self,
        target: &Target,
        mm: *mut bindings::mm_struct,
    ) -> bool {
        let is_first = self.count_in_mm.load(SeqCst) == 0;
        // The program that the task executed before may still have mappings.
        if !target.is_task_with_mm(mm) || !is_first && self.mm.load(SeqCst) != mm {
            return false;
        }
        self.mm.store(mm, SeqCst);
        self.count_in_mm.fetch_add(1, SeqCst);
        true
    }
}

/// The memory of an event that programs map.
pub(in crate::event) struct PageAndRing {
    pub(in crate::event) page: Option<Arc<EventPage>>,
    /// The ring that the event writes to.
    pub(in crate::event) ring: Option<Arc<RingMemory>>,
    /// The ring is the event's own, mapped with the page, and not the ring of another event.
    pub(in crate::event) has_own_ring: bool,
}

impl PageAndRing {
    /// Returns the size of the ring's data in bytes; 0 without a ring.
    pub(in crate::event) fn ring_size(&self) -> usize {
        self.ring.as_ref().map_or(0, |ring| ring.size())
    }

    /// Returns the ring that the event writes to, unless it is the ring of another event and has ended.
    pub(in crate::event) fn live_ring(&self) -> Option<&Arc<RingMemory>> {
        self.ring.as_ref().filter(|ring| !ring.ring().has_ended())
    }
}
