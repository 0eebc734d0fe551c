// SPDX-License-Identifier: GPL-2.0-only
//! The memory that the records of one CPU go to, which programs map.
//!
//! [`crate::percpu::buffer`] writes it. Programs can only read it. It lives as long as the trace, a descriptor or a
//! mapping refers to it.

use crate::{
    abi,
    ownership::Charge,
    percpu::buffer::BufferPtr,
    sys::{ffi, file::Mappable},
};
use core::ptr::NonNull;
use kernel::{bindings, error::to_result, mm::virt::VmaNew, page::PAGE_SIZE, prelude::*};

/// The memory of one buffer.
///
/// # Invariants
///
/// `start` points to `size` bytes, a whole number of pages, from `__vmalloc()`.
pub(crate) struct Buffer {
    start: NonNull<u8>,
    size: usize,
    /// The longest mapping. Access beyond `size` is SIGBUS.
    mappable: usize,
    /// The buffer has room for records.
    traced: bool,
    /// Ended after the memory has been freed, since fields are dropped last.
    _charge: Charge,
}

// SAFETY: The buffer owns its memory. While it is shared, the memory is written through `BufferPtr`, whose users
// make sure that there is one writer at a time.
unsafe impl Send for Buffer {}
// SAFETY: While the buffer is shared, its memory is written through `BufferPtr`, whose users make sure that there is
// one writer at a time.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Allocates a buffer of `pages` with an empty header. For a CPU that is not `traced` it has one page for the
    /// header, and can be mapped as if it had `pages`.
    ///
    /// # Errors
    ///
    /// EPERM if the caller may not pin so much memory ([`Charge::new`]). ENOMEM if there is no memory, or the
    /// caller's cgroup has none left; no process is killed.
    pub(crate) fn new(pages: u32, traced: bool) -> Result<Self> {
        let (allocated, flags) = if traced {
            (pages, 0)
        } else {
            (1, abi::PERFMON_BUFFER_FLAG_NOT_TRACED)
        };
        let charge = Charge::new(allocated)?;
        let size = allocated as usize * PAGE_SIZE;
        // SAFETY: The function has no requirements.
        let start = unsafe { ffi::perfmon_buffer_alloc(size) };
        // INVARIANT: The function has just allocated so many bytes.
        let this = Self {
            start: NonNull::new(start.cast()).ok_or(ENOMEM)?,
            size,
            mappable: pages as usize * PAGE_SIZE,
            traced,
            _charge: charge,
        };
        // SAFETY: The buffer has just been allocated, and has no other user yet.
        unsafe { this.as_ptr().clear(flags) };
        Ok(this)
    }

    /// Returns whether the buffer has room for records.
    pub(crate) fn is_traced(&self) -> bool {
        self.traced
    }

    /// Returns the size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Returns the address, for the writer.
    pub(crate) fn as_ptr(&self) -> BufferPtr {
        BufferPtr::new(self.start)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the memory is from `__vmalloc()`. Mappings hold references, so there is none.
        unsafe { ffi::perfmon_buffer_free(self.start.as_ptr().cast()) };
    }
}

impl Mappable for Buffer {
    /// Maps the buffer or a part of it, for reading only.
    fn map(&self, area: &VmaNew) -> Result {
        // The kernel refuses shared writable mappings, since the descriptor is not open for writing. A private
        // mapping would be a copy of what is still being written.
        // (The constant VM_MAYSHARE is another flag in Linux 7.2's Rust bindings.)
        if area.flags() & (1 << bindings::VMA_MAYSHARE_BIT) == 0 {
            return Err(EINVAL);
        }
        area.try_clear_maywrite()?;
        area.set_dontexpand();
        area.set_dontdump();

        // SAFETY: The area is being set up.
        let first = unsafe { (*area.as_ptr()).vm_pgoff }.saturating_mul(PAGE_SIZE);
        let wanted = area.end() - area.start();
        if first.saturating_add(wanted) > self.mappable {
            return Err(EINVAL);
        }
        let last = self.size.min(first + wanted);
        for (offset, address) in (first..last)
            .step_by(PAGE_SIZE)
            .zip((area.start()..).step_by(PAGE_SIZE))
        {
            // SAFETY: `offset` is below `size`.
            let start = unsafe { self.start.add(offset) };
            // SAFETY: The page is from `__vmalloc()`, and may be inserted anywhere. The area is being set up, and
            // `address` is in it.
            to_result(unsafe {
                let page = bindings::vmalloc_to_page(start.as_ptr().cast());
                bindings::vm_insert_page(area.as_ptr(), address, page)
            })?;
        }
        Ok(())
    }
}
