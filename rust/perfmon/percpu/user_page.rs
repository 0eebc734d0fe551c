// SPDX-License-Identifier: GPL-2.0-only
//! Writing to the pages of events that programs map. [`crate::event`] allocates them.
//!
//! While an event's window is open, the CPU of the window writes its page, with interrupts off or in an NMI.
//! Otherwise the holder of its context writes it. A program may write to the page, too, which harms only its own
//! reads.

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

/// A pointer to a page, for its writer.
#[derive(Clone, Copy)]
pub(crate) struct UserPagePtr(NonNull<UserPage>);

// SAFETY: `Send` requires that any task may use and drop the value: it is only an address. Access to the page needs
// `unsafe` functions, whose callers promise one writer at a time.
unsafe impl Send for UserPagePtr {}
// SAFETY: `Sync` requires that several tasks may use the value at once: it is only an address. Access to the page needs
// `unsafe` functions, whose callers promise one writer at a time.
unsafe impl Sync for UserPagePtr {}

/// The fields of a page that are written as a whole.
pub(crate) struct UserPageState {
    /// [`UserPage::capabilities`]
    pub(crate) capabilities: u64,
    /// [`UserPage::index`]
    pub(crate) index: u32,
    /// [`UserPage::offset`]
    pub(crate) offset: i64,
    /// The time in nanoseconds in which the event was enabled.
    pub(crate) enabled: u64,
    /// The time in nanoseconds in which the event was counted.
    pub(crate) running: u64,
}

impl UserPagePtr {
    /// Returns the page at `start`.
    pub(crate) fn new(start: NonNull<UserPage>) -> Self {
        Self(start)
    }

    /// Changes several fields by `f`, so that programs see all changes or none.
    ///
    /// # Safety
    ///
    /// The page must be alive, and have no other writer but an NMI that interrupts the caller.
    unsafe fn change(self, f: impl FnOnce(*mut UserPage)) {
        let page = self.0.as_ptr();
        // SAFETY: The accesses require a page that is alive and has no other writer, except for an NMI, which finishes
        // its change: the caller promises both. They are volatile, by raw pointers, since programs have the page mapped.
        unsafe {
            let lock = &raw mut (*page).lock;
            lock.write_volatile(lock.read_volatile().wrapping_add(1));
            // Readers run on this CPU, so only the compiler's order matters.
            compiler_fence(SeqCst);
            f(page);
            compiler_fence(SeqCst);
            lock.write_volatile(lock.read_volatile().wrapping_add(1));
        }
    }

    /// Writes the fields of the page, so that programs see all of them change at once.
    ///
    /// # Safety
    ///
    /// The page must be alive, and have no other writer but an NMI that interrupts the caller.
    pub(crate) unsafe fn write(self, state: &UserPageState) {
        // SAFETY: `change` requires a page that is alive and has no other writer but an NMI: the caller promises both.
        // The writes require a valid page: `change` passes a pointer to this one.
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

/// The pages of events whose windows are open on a CPU. All bits zero: no page.
///
/// ATOMICS: relaxed. Tasks and context switches write the entries on their CPU, with interrupts off. The overflow
/// handler of that CPU reads them after it has loaded a counter.
pub(crate) struct ActivePages {
    pub(crate) in_use: EntryBitmap,
    pages: [ActivePage; MAX_ENTRIES],
}

/// An entry of the table of pages.
struct ActivePage {
    /// The address of the page.
    page: Word,
    /// The event's count less the counter's total, while its window is open.
    count_offset: Word,
    counter: CounterCell,
}

impl PerCpu {
    /// Writes into an event's page how to compute its count with RDPMC: `count_offset` plus the counter's total.
    /// `state` has the other fields. Returns `None`, and writes nothing, if the CPU's table of pages is full.
    ///
    /// # Safety
    ///
    /// The page must be alive until [`Self::hide_page`].
    pub(crate) unsafe fn show_page(
        &self,
        counter: CounterId,
        page: UserPagePtr,
        count_offset: u64,
        mut state: UserPageState,
    ) -> Option<EntryIndex> {
        let entry = self.pages.in_use.allocate(|entry| {
            if let Some(active) = self.pages.pages.get(entry.index()) {
                active.page.set(page.0.as_ptr().expose_provenance() as u64);
                active.count_offset.set(count_offset);
                active.counter.set(Some(counter));
            }
        })?;
        self.slow_path.insert(SLOW_PAGES);
        let value = self.value(counter);
        loop {
            let load_id_before = value.load_id();
            state.offset = value.page_offset(count_offset);
            // SAFETY: `write` requires a page that is alive and has no other writer but an NMI: the caller keeps the page
            // until `hide_page`, and this CPU, whose interrupts are off, is its only writer.
            unsafe { page.write(&state) };
            // If the IDs differ, an NMI has loaded the counter meanwhile, and its correction of the page may have
            // been overwritten.
            if value.load_id() == load_id_before {
                return Some(entry);
            }
        }
    }

    /// Removes a page from the CPU's table: undoes [`Self::show_page`].
    pub(crate) fn hide_page(&self, entry: EntryIndex) {
        self.pages.in_use.free(entry);
        if self.pages.in_use.is_empty() {
            self.slow_path.remove(SLOW_PAGES);
        }
    }

    /// Corrects the offsets in the pages of this CPU's table, after counters have been loaded.
    #[inline(always)]
    pub(crate) fn correct_pages(&self) {
        if !self.pages.in_use.is_empty() {
            self.correct_page_offsets_slowly();
        }
    }

    /// Does the work of [`Self::correct_pages`] if there are pages.
    #[cold]
    #[inline(never)]
    fn correct_page_offsets_slowly(&self) {
        let pages = &self.pages;
        let active = |entry: EntryIndex| pages.pages.get(entry.index());
        for active in pages.in_use.iter().filter_map(active) {
            let Some(counter) = active.counter.get() else {
                continue;
            };
            let page = ptr::with_exposed_provenance_mut(active.page.get() as usize);
            let offset = self.value(counter).page_offset(active.count_offset.get());
            // SAFETY: `change` requires a page that is alive and has no other writer but an NMI, and `new_unchecked` an
            // address that is not null: the caller of `show_page` keeps a page alive while it is in the table, and this
            // CPU, with interrupts off or in an NMI, is its only writer. The write is to the page that `change` passes.
            unsafe {
                UserPagePtr(NonNull::new_unchecked(page)).change(|page| {
                    (&raw mut (*page).offset).write_volatile(offset);
                });
            }
        }
    }
}

impl CounterValue {
    /// Returns the field `offset` of a page, for a count that is `count_offset` plus this counter's total.
    fn page_offset(&self, count_offset: u64) -> i64 {
        page_offset(count_offset, self.load_id(), self.width().mask)
    }
}
