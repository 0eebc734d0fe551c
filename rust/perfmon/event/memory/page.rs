// SPDX-License-Identifier: GPL-2.0-only
//! The memory of an event's page.

use crate::{logic::user_page::UserPage, ownership::Charge, sys::ffi};
use core::ptr::NonNull;
use kernel::{page::PAGE_SIZE, prelude::*};

/// The memory of a page.
///
/// # Invariants
///
/// `start` points to a page from `perfmon_buffer_alloc()`.
pub(in crate::event) struct Page {
    start: NonNull<UserPage>,
    _charge: Charge,
}

// SAFETY: The page may be used and freed by any task.
unsafe impl Send for Page {}
// SAFETY: Its fields do not change.
unsafe impl Sync for Page {}

impl Page {
    /// Allocates a page, which says that the event, whose counter has so many bits, counts nowhere.
    ///
    /// # Errors
    ///
    /// ENOMEM. EPERM if the caller may not pin more memory.
    pub(in crate::event) fn new(width: u8) -> Result<Self> {
        let charge = Charge::new(1)?;
        // SAFETY: The function has no requirements.
        let start = unsafe { ffi::perfmon_buffer_alloc(PAGE_SIZE) };
        let start: NonNull<UserPage> = NonNull::new(start.cast()).ok_or(ENOMEM)?;
        // SAFETY: The page has just been allocated, all zero, and has no other user.
        unsafe {
            (*start.as_ptr()).capabilities = UserPage::CAP_BIT0_IS_DEPRECATED;
            (*start.as_ptr()).pmc_width = width.into();
            (*start.as_ptr()).size = UserPage::SIZE;
        }
        // INVARIANT: The page has just been allocated.
        Ok(Self {
            start,
            _charge: charge,
        })
    }

    /// Returns the page.
    pub(in crate::event) fn start(&self) -> NonNull<UserPage> {
        self.start
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: `start` is from `perfmon_buffer_alloc()`. Mappings keep the event, so there is none.
        unsafe { ffi::perfmon_buffer_free(self.start.as_ptr().cast()) };
    }
}
