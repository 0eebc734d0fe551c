// SPDX-License-Identifier: GPL-2.0-only
//! The memory that one CPU's records go to, which programs map.
//!
//! It is written by the overflow handler of that CPU, or, when that does not, by the arbiter's holder
//! ([`crate::recorder`]); programs can only read it, whatever they do. It lives as long as anybody has it:
//! the trace, a descriptor, or a mapping.

use crate::{abi, ffi, file::Mappable, logic::publish::publish, memory::Charge};
use core::{
    mem::offset_of,
    ptr::{self, NonNull},
    sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
};
use kernel::{bindings, error::to_result, mm::virt::VmaNew, page::PAGE_SIZE, prelude::*};
use zerocopy::{Immutable, IntoBytes};

/// Frequency of the time-stamp counter in Hz; 0 if it is not known.
fn ticks_per_second() -> i64 {
    // SAFETY: Written at boot only.
    i64::from(unsafe { bindings::tsc_khz }) * 1000
}

/// The memory of one buffer.
///
/// # Invariants
///
/// `start` points to `size` bytes, a whole number of pages, from `__vmalloc()`.
pub(crate) struct Buffer {
    start: NonNull<u8>,
    size: usize,
    /// How long a mapping may be. There is nothing in it beyond `size`: access is SIGBUS.
    mappable: usize,
    /// It has room for records.
    traced: bool,
    /// Ends after the memory has been freed: fields are dropped after the buffer itself.
    _charge: Charge,
}

// SAFETY: It owns the memory. What is written to that while it is shared is written through
// `BufferPtr`, whose users see to it that there is one writer at a time.
unsafe impl Send for Buffer {}
// SAFETY: As above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Allocates a buffer of `pages` with an empty header. For a CPU that is not `traced` it has one page for
    /// the header, and is mapped as if it had as many as the others.
    ///
    /// # Errors
    ///
    /// EPERM if it is more than the caller may have ([`Charge::new`]). ENOMEM if there is no memory, or none
    /// left of the caller's cgroup's; the kernel kills no process for it.
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
        // INVARIANT: Just allocated, as many bytes.
        let this = Self {
            start: NonNull::new(start.cast()).ok_or(ENOMEM)?,
            size,
            mappable: pages as usize * PAGE_SIZE,
            traced,
            _charge: charge,
        };
        // SAFETY: Nobody else has it yet.
        unsafe { this.as_ptr().begin(flags) };
        Ok(this)
    }

    /// Returns whether it has room for records.
    pub(crate) fn is_traced(&self) -> bool {
        self.traced
    }

    /// How many bytes it has.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Where it is, for its writer.
    pub(crate) fn as_ptr(&self) -> BufferPtr {
        BufferPtr(self.start)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; whoever has mapped it holds a reference.
        unsafe { ffi::perfmon_buffer_free(self.start.as_ptr().cast()) };
    }
}

impl Mappable for Buffer {
    /// Maps the buffer or a part of it, read-only for ever.
    fn map(&self, area: &VmaNew) -> Result {
        // The descriptor is not open for writing, so that the kernel has refused shared writable mappings.
        // A private one would be a copy of what is still being written.
        // (Not by VM_MAYSHARE: what Linux 7.2 has under this name in Rust is another flag.)
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
            // SAFETY: It is a page of `__vmalloc()`'s, which may be inserted anywhere; the area is being
            // set up, and `address` is in it.
            to_result(unsafe {
                let page = bindings::vmalloc_to_page(start.as_ptr().cast());
                bindings::vm_insert_page(area.as_ptr(), address, page)
            })?;
        }
        Ok(())
    }
}

/// Where a buffer is, for the one who writes it.
///
/// ATOMICS: `capture_end` is stored by [`publish`] and loaded by programs as [`logic::publish`](crate::logic::publish)
/// says: they see all of what lies before it. `flags` are changed one by one, with no order: they say nothing
/// of the records that have been published.
#[derive(Clone, Copy)]
pub(crate) struct BufferPtr(NonNull<u8>);

impl BufferPtr {
    /// The buffer at an address that [`Self::address`] gave.
    ///
    /// # Safety
    ///
    /// It must be alive.
    #[inline(always)]
    pub(crate) unsafe fn from_address(address: u64) -> Self {
        // SAFETY: By the requirement it is the address of something.
        Self(unsafe { NonNull::new_unchecked(ptr::with_exposed_provenance_mut(address as usize)) })
    }

    /// As a number.
    pub(crate) fn address(self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }

    fn header(self) -> *mut abi::perfmon_buffer_header {
        self.0.as_ptr().cast()
    }

    /// Makes the buffer an empty one.
    ///
    /// # Safety
    ///
    /// The buffer must be alive, and nobody else write it.
    pub(crate) unsafe fn begin(self, flags: u32) {
        // What a program has mapped may be in use: its end comes first.
        // SAFETY: By the requirement, which is passed on.
        unsafe { self.publish(size_of::<abi::perfmon_buffer_header>()) };
        let header = self.header();
        // SAFETY: There is a header in every buffer; programs don't make references to it in this address
        // space.
        unsafe {
            (*header).version = abi::PERFMON_BUFFER_VERSION as u16;
            (*header).arch = abi::PERFMON_BUFFER_ARCH_X86_64 as u16;
            (*header).ticks_per_second = ticks_per_second();
            self.flags().store(flags, Relaxed);
        }
    }

    /// # Safety
    ///
    /// The buffer must be alive for as long as the result.
    unsafe fn flags<'a>(self) -> &'a AtomicU32 {
        // SAFETY: By the requirement; it is 4 bytes at a multiple of 4.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.header()).flags) }
    }

    /// Sets some of `PERFMON_BUFFER_FLAG_*`.
    ///
    /// # Safety
    ///
    /// The buffer must be alive.
    pub(crate) unsafe fn mark(self, flags: u32) {
        // SAFETY: By the requirement.
        unsafe { self.flags() }.fetch_or(flags, Relaxed);
    }

    /// Lets programs see what lies before `end`.
    ///
    /// # Safety
    ///
    /// The buffer must be alive, and nobody else write it.
    #[inline(always)]
    pub(crate) unsafe fn publish(self, end: usize) {
        const OFFSET: usize = offset_of!(abi::perfmon_buffer_header, capture_end);
        // SAFETY: By the requirement; it is 8 bytes at a multiple of 8.
        let word = unsafe { AtomicU64::from_ptr(self.0.add(OFFSET).cast().as_ptr()) };
        publish(word, end as u64);
    }
}

/// Writes records into a buffer, one after the other. Nobody sees them before they are published.
pub(crate) struct Writer {
    buffer: BufferPtr,
    end: usize,
}

impl Writer {
    /// A writer that begins at the offset `end`.
    ///
    /// # Safety
    ///
    /// The buffer must be alive, have room for all that is [`put`](Self::put), and nobody else may
    /// write it, as long as the writer is used.
    #[inline(always)]
    pub(crate) unsafe fn new(buffer: BufferPtr, end: usize) -> Self {
        Self { buffer, end }
    }

    /// Writes a record.
    #[inline(always)]
    pub(crate) fn put<T: IntoBytes + Immutable>(&mut self, record: T) {
        // SAFETY: By the requirement of `new` there is room. A record's alignment is 4, or less.
        unsafe {
            self.buffer
                .0
                .add(self.end)
                .cast::<T>()
                .write_unaligned(record);
        }
        self.end = self.end.wrapping_add(size_of::<T>());
    }

    /// Leaves room for something of `size` bytes, and tells its offset.
    pub(crate) fn skip(&mut self, size: usize) -> usize {
        let at = self.end;
        self.end = self.end.wrapping_add(size);
        at
    }

    /// Writes what [`Self::skip`] has left room for.
    pub(crate) fn put_at<T: IntoBytes + Immutable>(&mut self, at: usize, part: T) {
        let mut other = Writer {
            buffer: self.buffer,
            end: at,
        };
        other.put(part);
    }

    /// The offset where the next record goes.
    #[inline(always)]
    pub(crate) fn end(&self) -> usize {
        self.end
    }
}
