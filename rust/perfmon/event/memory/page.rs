// SPDX-License-Identifier: GPL-2.0-only
//! The memory of an event's page.

use crate::{logic::user_page::UserPage, ownership::Charge, sys::ffi};
use core::ptr::NonNull;
use kernel::{page::PAGE_SIZE, prelude::*};

/// The memory of the page of one event.
///
/// # Invariants
///
/// `start` points to a page from `perfmon_buffer_alloc()`.
pub(in crate::event) struct EventPage {
    start: NonNull<UserPage>,
    _charge: Charge,
}

// SAFETY: `Send` requires that any task may use and drop the value: the memory is the kernel's and belongs to no task.
unsafe impl Send for EventPage {}
// SAFETY: `Sync` requires that several tasks may use the value at once: its fields do not change, and `&EventPage`
// gives only the pointer.
unsafe impl Sync for EventPage {}

impl EventPage {
    /// Allocates a page with the contents for an event without an open window. `width` is the width
    /// of the event's counter in bits.
    ///
    /// # Errors
    ///
    /// ENOMEM if there is no memory. EPERM if the caller may not pin more memory.
    pub(in crate::event) fn new(width: u8) -> Result<Self> {
        let charge = Charge::new(1)?;
        // SAFETY: `perfmon_buffer_alloc()` takes any size, and requires a caller that may sleep: a page is made in mmap(2),
        // with mutexes held at most.
        let start = unsafe { ffi::perfmon_buffer_alloc(PAGE_SIZE) };
        let start: NonNull<UserPage> = NonNull::new(start.cast()).ok_or(ENOMEM)?;
        // SAFETY: The writes require a valid `UserPage` that nothing else uses: the page has just been allocated, all
        // zero, which is a valid `UserPage`.
        unsafe {
            (*start.as_ptr()).capabilities = UserPage::CAP_BIT0_IS_DEPRECATED;
            (*start.as_ptr()).pmc_width = width.into();
            (*start.as_ptr()).size = UserPage::SIZE;
        }
        // INVARIANT: `start` has just come from `perfmon_buffer_alloc()`.
        Ok(Self {
            start,
            _charge: charge,
        })
    }

    /// Returns the address of the page.
    pub(in crate::event) fn start(&self) -> NonNull<UserPage> {
        self.start
    }
}

impl Drop for EventPage {
    fn drop(&mut self) {
        // SAFETY: The function requires memory of `perfmon_buffer_alloc()` that nothing uses: by the type invariant
        // `start` is from there, and there is no mapping, since a mapping keeps the event, which keeps the page.
        unsafe { ffi::perfmon_buffer_free(self.start.as_ptr().cast()) };
    }
}
