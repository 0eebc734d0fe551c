// SPDX-License-Identifier: GPL-2.0-only
//! The memory for the records of one CPU, which programs map.
//!
//! [`crate::percpu::buffer`] writes the buffer, which programs can only read. The buffer lives as long as the trace, a
//! descriptor or a mapping holds a reference.

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
/// `start` points to `size` bytes, a whole number of pages, from `perfmon_buffer_alloc()`, which gets them from
/// `__vmalloc()`.
pub(crate) struct Buffer {
    start: NonNull<u8>,
    size: usize,
    /// The size in bytes of the longest allowed mapping. Access beyond `size` raises SIGBUS.
    max_mapping_size: usize,
    /// The CPU is traced, so the buffer has memory for records after its header.
    is_traced: bool,
    /// The charge for the memory. The charge ends after the memory has been freed, since fields are
    /// dropped after `drop`.
    _charge: Charge,
}

// SAFETY: `Send` requires that another task may use and drop the buffer: its memory is from `__vmalloc()`, which any
// task may free, and its charge holds references to the user and the address space that are charged, so any task may
// end the charge.
unsafe impl Send for Buffer {}
// SAFETY: `Sync` requires that tasks may share references: the fields do not change, and the memory is written only by
// the unsafe functions of `BufferPtr`, which require that there is no other writer.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Allocates a buffer of `pages` pages without records. If the CPU is not traced (`is_traced` is false), allocates
    /// only one page, for the header, but allows mappings of `pages` pages.
    ///
    /// # Errors
    ///
    /// EPERM if the caller may not pin that much memory ([`Charge::new`]). ENOMEM if there is no memory, or the
    /// caller's cgroup has reached its limit; the kernel kills no process to make room.
    pub(crate) fn new(pages: u32, is_traced: bool) -> Result<Self> {
        let (allocated_pages, flags) = if is_traced {
            (pages, 0)
        } else {
            (1, abi::PERFMON_BUFFER_FLAG_NOT_TRACED)
        };
        let charge = Charge::new(allocated_pages)?;
        let size = allocated_pages as usize * PAGE_SIZE;
        // SAFETY: `perfmon_buffer_alloc()` takes any size, and requires a caller that may sleep: buffers are allocated in an
        // ioctl, with mutexes held at most.
        let start = unsafe { ffi::perfmon_buffer_alloc(size) };
        // INVARIANT: `perfmon_buffer_alloc()` has just allocated `size` bytes, whole pages.
        let this = Self {
            start: NonNull::new(start.cast()).ok_or(ENOMEM)?,
            size,
            max_mapping_size: pages as usize * PAGE_SIZE,
            is_traced,
            _charge: charge,
        };
        // SAFETY: `clear` requires that the buffer is alive and has no other writer: it has just been allocated, and
        // nothing else has its address yet.
        unsafe { this.as_ptr().clear(flags) };
        Ok(this)
    }

    /// Returns whether the CPU is traced, so that the buffer has memory for records after its header.
    pub(crate) fn is_traced(&self) -> bool {
        self.is_traced
    }

    /// Returns the size of the memory in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Returns the pointer that the writer uses.
    pub(crate) fn as_ptr(&self) -> BufferPtr {
        BufferPtr::new(self.start)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: `perfmon_buffer_free()` requires memory from `perfmon_buffer_alloc()`, which the type invariant
        // gives, and that nothing uses it: the trace, descriptors and mappings hold references, and the last reference
        // is being dropped.
        unsafe { ffi::perfmon_buffer_free(self.start.as_ptr().cast()) };
    }
}

impl Mappable for Buffer {
    /// Maps the buffer or a part of it, for reading only.
    fn map(&self, area: &VmaNew) -> Result {
        // The kernel refuses shared writable mappings, since the descriptor is not open for writing. A private
        // mapping is refused here, since it would not show later records. The bit's number is used, since VM_MAYSHARE
        // is another flag in the Rust bindings of Linux 7.2.
        if area.flags() & (1 << bindings::VMA_MAYSHARE_BIT) == 0 {
            return Err(EINVAL);
        }
        area.try_clear_maywrite()?;
        area.set_dontexpand();
        area.set_dontdump();

        // SAFETY: Reading the field requires an area that is alive and that no other code writes: a `VmaNew` is an area
        // that is being set up, which only its owner accesses.
        let first_offset = unsafe { (*area.as_ptr()).vm_pgoff }.saturating_mul(PAGE_SIZE);
        let length = area.end() - area.start();
        if first_offset.saturating_add(length) > self.max_mapping_size {
            return Err(EINVAL);
        }
        let end_offset = self.size.min(first_offset + length);
        for (offset, address) in (first_offset..end_offset)
            .step_by(PAGE_SIZE)
            .zip((area.start()..).step_by(PAGE_SIZE))
        {
            // SAFETY: `add` requires a result within the same allocation: `offset` is less than `end_offset`, which is
            // at most `size`, the size of the memory.
            let start = unsafe { self.start.add(offset) };
            // SAFETY: `vmalloc_to_page()` requires an address of `__vmalloc()`: `start` is in the memory of the buffer,
            // which the type invariant says is from there. `vm_insert_page()` requires such a page, an area that is
            // being set up, as each `VmaNew` is, and an address in that area: `address` is less than `area.end()`,
            // since `offset` is less than `end_offset`.
            to_result(unsafe {
                let page = bindings::vmalloc_to_page(start.as_ptr().cast());
                bindings::vm_insert_page(area.as_ptr(), address, page)
            })?;
        }
        Ok(())
    }
}
