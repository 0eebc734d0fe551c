// SPDX-License-Identifier: GPL-2.0-only
//! Writing to the pages of events that programs map. [`crate::event`] allocates them.
//!
//! While an event's window is open, the CPU of the window writes its page, with interrupts off or in an NMI.
//! Otherwise the holder of its context writes it. A program may write to the page, too, which harms only its own
//! reads.

use super::{
    entries::{EntryBitmap, MAX_ENTRIES},
    word::{CounterCell, Word},
};
use crate::logic::{read_format::EventTimes, user_page::UserPage};
use core::{
    ptr::NonNull,
    sync::atomic::{compiler_fence, Ordering::SeqCst},
};

/// A pointer to a page, for its writer.
#[derive(Clone, Copy)]
pub(crate) struct UserPagePtr(pub(super) NonNull<UserPage>);

// SAFETY: `Send` requires that any task may use and drop the value: it is only an address. Access to the page needs
// `unsafe` functions, whose callers promise one writer at a time.
unsafe impl Send for UserPagePtr {}
// SAFETY: `Sync` requires that several tasks may use the value at once: it is only an address. Access to the page needs
// `unsafe` functions, whose callers promise one writer at a time.
unsafe impl Sync for UserPagePtr {}

/// The fields of a page that are written as a whole.
pub(crate) struct UserPageState {
    /// The value of [`UserPage::capabilities`].
    pub(crate) capabilities: u64,
    /// The value of [`UserPage::index`].
    pub(crate) index: u32,
    /// The value of [`UserPage::offset`].
    pub(crate) offset: i64,
    /// [`UserPage::time_enabled`] and [`UserPage::time_running`]
    pub(crate) times: EventTimes,
}

impl UserPagePtr {
    /// Returns the page at `start`.
    pub(crate) fn new(start: NonNull<UserPage>) -> Self {
        Self(start)
    }

    /// Calls `f` to change several fields, so that programs see all changes or none.
    ///
    /// # Safety
    ///
    /// The page must be alive, and have no other writer but an NMI that interrupts the caller.
    pub(super) unsafe fn change(self, f: impl FnOnce(*mut UserPage)) {
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
                (&raw mut (*page).time_enabled).write_volatile(state.times.enabled);
                (&raw mut (*page).time_running).write_volatile(state.times.running);
            });
        }
    }
}

/// The pages of events whose windows are open on a CPU. All bits zero: no page.
///
/// ATOMICS: relaxed. Tasks and context switches write the entries on their CPU, with interrupts off. The overflow
/// handler of that CPU reads them after it has loaded a counter.
pub(crate) struct ActivePages {
    /// The entries of `pages` that are in use.
    pub(crate) in_use: EntryBitmap,
    pub(super) pages: [ActivePage; MAX_ENTRIES],
}

/// An entry of the table of pages.
pub(super) struct ActivePage {
    /// The address of the page.
    pub(super) page: Word,
    /// The difference of the event's count and the counter's total, while the event's window is
    /// open.
    pub(super) count_offset: Word,
    pub(super) counter: CounterCell,
}
