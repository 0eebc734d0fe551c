// SPDX-License-Identifier: GPL-2.0-only
//! The page and the ring of one event, and the mappings of them.
//!
//! All mappings show the same page, so it tells of RDPMC only if all are those of the program that is counted
//! ([`Mappings`]).

use super::{page::Page, ring::RingMemory};
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

/// The page of an event, from the first mmap(2) on, and its ring.
#[pin_data]
pub(in crate::event) struct MappedMemory {
    #[pin]
    memory: Mutex<PageAndRing>,
    pub(in crate::event) mappings: Mappings,
}

impl MappedMemory {
    /// Returns no page yet.
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

    /// Locks the memory, and the number of the mappings.
    pub(in crate::event) fn lock(&self) -> MutexGuard<'_, PageAndRing> {
        self.memory.lock()
    }
}

/// The mappings of a page.
///
/// ATOMICS: sequentially consistent. They are changed under the lock of [`MappedMemory::memory`]; a caller that
/// changes them makes the CPU write the page anew.
pub(in crate::event) struct Mappings {
    pub(in crate::event) all: AtomicU32,
    /// The mappings in `mm`. Their areas are marked ([`Area::mark`](crate::sys::descriptor::Area::mark)).
    pub(in crate::event) own: AtomicU32,
    /// The address space of the program that was counted when the first of `own` began. A task that has executed another
    /// program has another one: then the page is not its program's.
    mm: AtomicPtr<bindings::mm_struct>,
}

impl Mappings {
    fn new() -> Self {
        Self {
            all: AtomicU32::new(0),
            own: AtomicU32::new(0),
            mm: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Returns whether there is none.
    pub(in crate::event) fn is_empty(&self) -> bool {
        self.all.load(SeqCst) == 0
    }

    /// Returns whether all are of the program that is counted, for an event with this target.
    pub(in crate::event) fn are_own(&self, target: &Target) -> bool {
        let own = self.own.load(SeqCst);
        own != 0 && own == self.all.load(SeqCst) && target.is_in(self.mm.load(SeqCst))
    }

    /// Adds one of those that are counted to `own`, if it is in the address space of the program that the event with this
    /// target counts: returns whether that is so. The lock is held.
    pub(in crate::event) fn begin_own(
        &self,
        target: &Target,
        mm: *mut bindings::mm_struct,
    ) -> bool {
        let is_first = self.own.load(SeqCst) == 0;
        // Mappings of the program before this one may still be there.
        if !target.is_in(mm) || !is_first && self.mm.load(SeqCst) != mm {
            return false;
        }
        self.mm.store(mm, SeqCst);
        self.own.fetch_add(1, SeqCst);
        true
    }
}

/// The memory that programs map.
pub(in crate::event) struct PageAndRing {
    pub(in crate::event) page: Option<Arc<Page>>,
    /// The ring that the event writes to.
    pub(in crate::event) ring: Option<Arc<RingMemory>>,
    /// The ring is mapped with the page, and not that of another event.
    pub(in crate::event) has_own_ring: bool,
}

impl PageAndRing {
    /// Returns the bytes of the ring's data; 0 without one.
    pub(in crate::event) fn ring_size(&self) -> usize {
        self.ring.as_ref().map_or(0, |ring| ring.size())
    }

    /// Returns the ring, unless that of another event has ended: then it is as if there were none.
    pub(in crate::event) fn live_ring(&self) -> Option<&Arc<RingMemory>> {
        self.ring.as_ref().filter(|ring| !ring.ring().has_ended())
    }
}
