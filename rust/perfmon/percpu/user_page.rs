// SPDX-License-Identifier: GPL-2.0-only
//! Writing the pages of events that programs map. [`crate::event`] allocates them.
//!
//! A page is written on the CPU that the event counts on, with interrupts off or in an NMI; when it counts nowhere, by
//! the holder of its context. A program may write it, too, to its own harm only.

use super::{
    CounterCell, CounterValue, EntryBitmap, EntryIndex, PerCpu, Word, MAX_ENTRIES, SLOW_PAGES,
};
use crate::logic::{
    counter::CounterId,
    user_page::{page_offset, UserPage},
};
use core::{
    ptr::{self, NonNull},
    sync::atomic::{compiler_fence, Ordering::SeqCst},
};

/// The address of a page, for its writer.
#[derive(Clone, Copy)]
pub(crate) struct UserPagePtr(NonNull<UserPage>);

// SAFETY: It is only an address, whose users make sure that there is one writer at a time.
unsafe impl Send for UserPagePtr {}
// SAFETY: It is only an address, whose users make sure that there is one writer at a time.
unsafe impl Sync for UserPagePtr {}

/// The contents of a page.
pub(crate) struct UserPageState {
    pub(crate) capabilities: u64,
    pub(crate) index: u32,
    pub(crate) offset: i64,
    /// The time in nanoseconds in which the event was enabled.
    pub(crate) enabled: u64,
    /// The time in nanoseconds in which it was counted.
    pub(crate) running: u64,
}

impl UserPagePtr {
    /// Returns the page at `start`.
    pub(crate) fn new(start: NonNull<UserPage>) -> Self {
        Self(start)
    }

    /// Makes a change that programs see as a whole.
    ///
    /// # Safety
    ///
    /// The page must be alive, and have no other writer but an NMI that comes between.
    unsafe fn change(self, f: impl FnOnce(*mut UserPage)) {
        let page = self.0.as_ptr();
        // SAFETY: The caller guarantees that the page is alive, and that only an NMI may write it meanwhile. Only raw
        // pointers are used, since programs have it mapped.
        unsafe {
            let lock = &raw mut (*page).lock;
            lock.write_volatile(lock.read_volatile().wrapping_add(1));
            // Readers are on this CPU: only the compiler's order matters.
            compiler_fence(SeqCst);
            f(page);
            compiler_fence(SeqCst);
            lock.write_volatile(lock.read_volatile().wrapping_add(1));
        }
    }

    /// Writes what the page says.
    ///
    /// # Safety
    ///
    /// The page must be alive, and have no other writer but an NMI that comes between.
    pub(crate) unsafe fn write(self, state: &UserPageState) {
        // SAFETY: The caller says that the page is alive and has no other writer.
        unsafe {
            self.change(|page| {
                (&raw mut (*page).capabilities).write_volatile(state.capabilities);
                (&raw mut (*page).index).write_volatile(state.index);
                (&raw mut (*page).offset).write_volatile(state.offset);
                (&raw mut (*page).time_enabled).write_volatile(state.enabled);
                (&raw mut (*page).time_running).write_volatile(state.running);
            });
        }
    }
}

/// The pages of events that count on a CPU now. All bits zero: none.
///
/// ATOMICS: tasks and switches with interrupts off write them, on the CPU; the overflow handler reads them when it has
/// loaded a counter.
pub(crate) struct ActivePages {
    pub(crate) in_use: EntryBitmap,
    pages: [ActivePage; MAX_ENTRIES],
}

struct ActivePage {
    /// The address of the page.
    page: Word,
    /// The event's count less the counter's total, while it counts.
    base: Word,
    counter: CounterCell,
}

impl PerCpu {
    /// Shows in an event's page that it counts with a counter. The count is `base` plus the counter's total; `state` has
    /// the rest. `None` if more pages are shown than there is room for: then nothing has been written.
    ///
    /// # Safety
    ///
    /// The page must be alive until [`Self::hide_page`].
    pub(crate) unsafe fn show_page(
        &self,
        counter: CounterId,
        page: UserPagePtr,
        base: u64,
        mut state: UserPageState,
    ) -> Option<EntryIndex> {
        let entry = self.pages.in_use.take(|entry| {
            if let Some(active) = self.pages.pages.get(entry.index()) {
                active.page.set(page.0.as_ptr().expose_provenance() as u64);
                active.base.set(base);
                active.counter.set(Some(counter));
            }
        })?;
        self.slow_path.insert(SLOW_PAGES);
        let value = self.value(counter);
        loop {
            let loaded = value.load_id();
            state.offset = value.page_offset(base);
            // SAFETY: The caller keeps the page alive until it is hidden. Interrupts are off, so only an NMI comes between.
            unsafe { page.write(&state) };
            // Otherwise an NMI has loaded the counter between, and what it wrote may have been overwritten.
            if value.load_id() == loaded {
                return Some(entry);
            }
        }
    }

    /// Ends [`Self::show_page`].
    pub(crate) fn hide_page(&self, entry: EntryIndex) {
        self.pages.in_use.give_back(entry);
        if self.pages.in_use.is_empty() {
            self.slow_path.remove(SLOW_PAGES);
        }
    }

    /// Corrects the pages that are shown, if there are any, after counters have been loaded.
    #[inline(always)]
    pub(crate) fn correct_pages(&self) {
        if !self.pages.in_use.is_empty() {
            self.correct_shown_pages();
        }
    }

    #[cold]
    #[inline(never)]
    fn correct_shown_pages(&self) {
        let pages = &self.pages;
        let active = |entry: EntryIndex| pages.pages.get(entry.index());
        for active in pages.in_use.all().filter_map(active) {
            let Some(counter) = active.counter.get() else {
                continue;
            };
            let page = ptr::with_exposed_provenance_mut(active.page.get() as usize);
            let offset = self.value(counter).page_offset(active.base.get());
            // SAFETY: The page of an event that counts is alive. This runs on the CPU that it counts on: in an NMI, or
            // with interrupts off.
            unsafe {
                UserPagePtr(NonNull::new_unchecked(page)).change(|page| {
                    (&raw mut (*page).offset).write_volatile(offset);
                });
            }
        }
    }
}

impl CounterValue {
    /// Returns what a page says of a count that is `base` plus this counter's total.
    fn page_offset(&self, base: u64) -> i64 {
        page_offset(base, self.load_id(), self.width().mask)
    }
}
