// SPDX-License-Identifier: GPL-2.0-only
//! The memory of a ring buffer of records.

use super::page::EventPage;
use crate::{
    logic::{ring::RingShape, sampling::Sampling},
    ownership::Charge,
    ring::Ring,
    sys::{descriptor::Area, ffi},
};
use core::ptr::NonNull;
use kernel::{page::PAGE_SIZE, prelude::*, sync::Arc};

/// The memory for the records of a ring.
///
/// # Invariants
///
/// The pointer is from `perfmon_buffer_alloc()`.
struct RingData(NonNull<u64>);

// SAFETY: `Send` requires that any task may use and drop the value: the memory is the kernel's and belongs to no task.
unsafe impl Send for RingData {}
// SAFETY: `Sync` requires that several tasks may use the value at once: `&RingData` gives only the
// pointer. The ring's writer accesses the memory behind the pointer with volatile writes
// ([`crate::ring`]), since programs that map the memory may access it at the same time.
unsafe impl Sync for RingData {}

impl RingData {
    /// Allocates memory of `size` bytes, all zero.
    fn new(size: usize) -> Result<Self> {
        // SAFETY: `perfmon_buffer_alloc()` takes any size, and requires a caller that may sleep: a ring is made in mmap(2),
        // with mutexes held at most.
        let data = unsafe { ffi::perfmon_buffer_alloc(size) };
        // INVARIANT: The pointer has just come from `perfmon_buffer_alloc()`.
        NonNull::new(data.cast()).map(Self).ok_or(ENOMEM)
    }
}

impl Drop for RingData {
    fn drop(&mut self) {
        // SAFETY: The function requires memory of `perfmon_buffer_alloc()` that nothing uses: by the type invariant the
        // pointer is from there. Events that write to the ring, and mappings, keep the `RingMemory`, which is being
        // dropped.
        unsafe { ffi::perfmon_buffer_free(self.0.as_ptr().cast()) };
    }
}

/// A ring buffer with its memory.
pub(in crate::event) struct RingMemory {
    ring: Ring,
    data: RingData,
    size: usize,
    /// The page with the positions of reader and writer.
    _page: Arc<EventPage>,
    _charge: Charge,
}

impl RingMemory {
    /// Allocates a ring with data of `size` bytes, which is a multiple of the page size.
    ///
    /// # Errors
    ///
    /// ENOMEM if there is no memory. EPERM if the caller may not pin more memory.
    pub(in crate::event) fn new(
        page: &Arc<EventPage>,
        sampling: &Sampling,
        size: usize,
        overwrite: bool,
    ) -> Result<Arc<Self>> {
        let pages = u32::try_from(size / PAGE_SIZE).map_err(|_| ENOMEM)?;
        let charge = Charge::new(pages)?;
        let data = RingData::new(size)?;
        let shape = RingShape {
            size: size as u64,
            overwrite,
            backward: sampling.writes_backward,
        };
        // SAFETY: `Ring::new` requires `size` bytes of data, a multiple of 8, and a page, which outlive the ring: `data`
        // has whole pages, and the result keeps `data` and `page`, next to the ring.
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

    /// Returns the size of the data in bytes.
    pub(in crate::event) fn size(&self) -> usize {
        self.size
    }

    /// Returns the ring.
    pub(in crate::event) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Maps the data into a program's area, after the page.
    ///
    /// # Errors
    ///
    /// ENOMEM if there is no memory for page tables.
    pub(in crate::event) fn map(&self, area: &Area<'_>) -> Result {
        // SAFETY: `insert_pages` requires `size` bytes of `__vmalloc()` that outlive the mapping, and an area that is
        // being mapped, as `area` is: `data` has `size` bytes from `perfmon_buffer_alloc()`, which calls `__vmalloc()`,
        // and mappings keep the event, which keeps the ring.
        unsafe { area.insert_pages(PAGE_SIZE, self.data.0.cast(), self.size) }
    }
}
