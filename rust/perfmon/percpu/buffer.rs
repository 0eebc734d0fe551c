// SPDX-License-Identifier: GPL-2.0-only
//! Writing to the buffer of a CPU's trace records. [`crate::trace::buffer`] allocates the buffer and lets programs
//! map it.

use crate::{abi, cpu::tsc_khz, logic::publish::publish};
use core::{
    mem::offset_of,
    ptr::{self, NonNull},
    sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
};
use zerocopy::{Immutable, IntoBytes};

/// A pointer to a buffer, for its writer.
///
/// ATOMICS: [`publish`] stores `capture_end`, which pairs with the load in programs, so that programs see all records
/// before `capture_end` ([`logic::publish`](crate::logic::publish)). `flags` are relaxed, since no record depends on
/// them.
#[derive(Clone, Copy)]
pub(crate) struct BufferPtr(NonNull<u8>);

impl BufferPtr {
    /// Returns the buffer that begins at `start`.
    pub(crate) fn new(start: NonNull<u8>) -> Self {
        Self(start)
    }

    /// Returns the buffer at an address that [`Self::address`] returned.
    ///
    /// # Safety
    ///
    /// The buffer must be alive.
    #[inline(always)]
    pub(crate) unsafe fn from_address(address: u64) -> Self {
        // SAFETY: `new_unchecked` requires a pointer that is not null: the caller promises the address of a buffer that is
        // alive.
        Self(unsafe { NonNull::new_unchecked(ptr::with_exposed_provenance_mut(address as usize)) })
    }

    /// Returns the address as a number.
    pub(crate) fn address(self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }

    fn header(self) -> *mut abi::perfmon_buffer_header {
        self.0.as_ptr().cast()
    }

    /// Empties the buffer, and sets its flags to `flags` (`PERFMON_BUFFER_FLAG_*`).
    ///
    /// # Safety
    ///
    /// The buffer must be alive and have no other writer.
    pub(crate) unsafe fn clear(self, flags: u32) {
        // Hides the old records before the header changes, since programs may be reading the buffer.
        // SAFETY: `publish` requires a buffer that is alive and has no other writer, which the caller promises.
        unsafe { self.publish(size_of::<abi::perfmon_buffer_header>()) };
        let header = self.header();
        // SAFETY: The writes, and `flags`, require a buffer that is alive and has no other writer: the caller promises
        // both. A buffer begins with a header, which is written by raw pointers, since programs may be reading it.
        unsafe {
            (*header).version = abi::PERFMON_BUFFER_VERSION as u16;
            (*header).arch = abi::PERFMON_BUFFER_ARCH_X86_64 as u16;
            (*header).ticks_per_second = i64::from(tsc_khz()) * 1000;
            self.flags().store(flags, Relaxed);
        }
    }

    /// Returns the flags in the header.
    ///
    /// # Safety
    ///
    /// The buffer must be alive for as long as the result.
    unsafe fn flags<'a>(self) -> &'a AtomicU32 {
        // SAFETY: The field requires a pointer to a header, with which the buffer begins. `from_ptr` requires an
        // aligned word that is alive, and accessed atomically, as long as the result is used: the caller keeps the
        // buffer alive, which is page-aligned; the module accesses the word by this function only, and programs only
        // read it.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.header()).flags) }
    }

    /// Sets the bits `flags` (`PERFMON_BUFFER_FLAG_*`), and leaves the other bits as they are.
    ///
    /// # Safety
    ///
    /// The buffer must be alive.
    pub(crate) unsafe fn set_flags(self, flags: u32) {
        // SAFETY: `flags` requires a buffer that is alive as long as the result is used, which the caller promises.
        unsafe { self.flags() }.fetch_or(flags, Relaxed);
    }

    /// Lets programs see the records before the offset `end`, in bytes.
    ///
    /// # Safety
    ///
    /// The buffer must be alive and have no other writer.
    #[inline(always)]
    pub(crate) unsafe fn publish(self, end: usize) {
        const OFFSET: usize = offset_of!(abi::perfmon_buffer_header, capture_end);
        // SAFETY: `add` requires an offset within the buffer, which the offset of a header's field
        // is. `from_ptr` requires an aligned word that is alive, and accessed atomically, as long
        // as the result is used: the caller keeps the page-aligned buffer alive; the module
        // accesses the word by this function only, and programs only read it.
        let word = unsafe { AtomicU64::from_ptr(self.0.add(OFFSET).cast().as_ptr()) };
        publish(word, end as u64);
    }
}

/// Writes records into a buffer, one after the other. Programs don't see a record before [`BufferPtr::publish`].
pub(crate) struct Writer {
    buffer: BufferPtr,
    /// The offset of the next record, in bytes.
    end: usize,
}

impl Writer {
    /// Returns a writer that begins at the offset `end`, in bytes.
    ///
    /// # Safety
    ///
    /// While the writer is used, the buffer must be alive, have no other writer, and have room for all records that
    /// are [`put`](Self::put).
    #[inline(always)]
    pub(crate) unsafe fn new(buffer: BufferPtr, end: usize) -> Self {
        Self { buffer, end }
    }

    /// Writes a record.
    #[inline(always)]
    pub(crate) fn put<T: IntoBytes + Immutable>(&mut self, record: T) {
        // SAFETY: `write_unaligned` requires memory that may be written: the caller of `new` has promised that the
        // buffer is alive, has no other writer, and has room for the record.
        unsafe {
            self.buffer
                .0
                .add(self.end)
                .cast::<T>()
                .write_unaligned(record);
        }
        self.end = self.end.wrapping_add(size_of::<T>());
    }

    /// Skips `size` bytes, and returns their offset.
    pub(crate) fn skip(&mut self, size: usize) -> usize {
        let skipped = self.end;
        self.end = self.end.wrapping_add(size);
        skipped
    }

    /// Writes to the offset `at`, which [`Self::skip`] has returned.
    pub(crate) fn put_at<T: IntoBytes + Immutable>(&mut self, at: usize, part: T) {
        let mut part_writer = Writer {
            buffer: self.buffer,
            end: at,
        };
        part_writer.put(part);
    }

    /// Returns the offset of the next record, in bytes.
    #[inline(always)]
    pub(crate) fn next_offset(&self) -> usize {
        self.end
    }
}
