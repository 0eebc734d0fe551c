// SPDX-License-Identifier: GPL-2.0-only
//! Writing into the page of an event, while its window is open, how a program computes the event's count with RDPMC.

use super::{
    entries::EntryIndex,
    percpu::{PerCpu, SLOW_PAGES},
    user_page::{UserPagePtr, UserPageState},
    value::CounterValue,
};
use crate::logic::{counter::CounterId, user_page::page_offset};
use core::ptr::{self, NonNull};

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
