// SPDX-License-Identifier: GPL-2.0-only
//! The memory of a ring.

use super::page::Page;
use crate::{
    logic::{ring::RingShape, sampling::Sampling},
    ownership::Charge,
    ring::Ring,
    sys::{descriptor::Area, ffi},
};
use core::ptr::NonNull;
use kernel::{page::PAGE_SIZE, prelude::*, sync::Arc};

/// Memory for records.
///
/// # Invariants
///
/// The pointer is from `perfmon_buffer_alloc()`.
struct Data(NonNull<u64>);

// SAFETY: The memory may be used and freed by any task.
unsafe impl Send for Data {}
// SAFETY: A shared reference gives the pointer only. The memory behind it is written by the ring's writer and mapped by
// programs, with atomic accesses ([`crate::ring`]).
unsafe impl Sync for Data {}

impl Data {
    fn new(size: usize) -> Result<Self> {
        // SAFETY: The function has no requirements.
        let data = unsafe { ffi::perfmon_buffer_alloc(size) };
        // INVARIANT: Just allocated.
        NonNull::new(data.cast()).map(Self).ok_or(ENOMEM)
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        // SAFETY: The pointer is from `perfmon_buffer_alloc()`. No event writes to the ring any more,
        // and there is no mapping.
        unsafe { ffi::perfmon_buffer_free(self.0.as_ptr().cast()) };
    }
}

/// A ring with its memory.
pub(in crate::event) struct RingMemory {
    ring: Ring,
    data: Data,
    size: usize,
    /// The page with the positions of reader and writer.
    _page: Arc<Page>,
    _charge: Charge,
}

impl RingMemory {
    /// Allocates a ring with data of so many bytes.
    ///
    /// # Errors
    ///
    /// ENOMEM. EPERM if the caller may not pin more memory.
    pub(in crate::event) fn new(
        page: &Arc<Page>,
        sampling: &Sampling,
        size: usize,
        overwrite: bool,
    ) -> Result<Arc<Self>> {
        let pages = u32::try_from(size / PAGE_SIZE).map_err(|_| ENOMEM)?;
        let charge = Charge::new(pages)?;
        let data = Data::new(size)?;
        let shape = RingShape {
            size: size as u64,
            overwrite,
            backward: sampling.backward,
        };
        // SAFETY: Both are alive as long as the result.
        let ring = unsafe { Ring::new(data.0, page.start(), shape, sampling.wakeup) }?;
        let memory = Self {
            ring,
            data,
            size,
            _page: page.clone(),
            _charge: charge,
        };
        Ok(Arc::new(memory, GFP_KERNEL)?)
    }

    /// Returns the bytes of the data.
    pub(in crate::event) fn size(&self) -> usize {
        self.size
    }

    /// Returns the ring.
    pub(in crate::event) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Maps the data behind the page.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub(in crate::event) fn map(&self, area: &Area<'_>) -> Result {
        // SAFETY: The memory is freed after the last mapping has gone.
        unsafe { area.insert(PAGE_SIZE, self.data.0.cast(), self.size) }
    }
}
