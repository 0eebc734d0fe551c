// SPDX-License-Identifier: GPL-2.0-only
//! Writing the memory that a CPU's records go to. [`crate::trace::buffer`] allocates it and lets programs map it.

use crate::{abi, cpu::tsc_khz, logic::publish::publish};
use core::{
    mem::offset_of,
    ptr::{self, NonNull},
    sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
};
use zerocopy::{Immutable, IntoBytes};

/// The address of a buffer, for its writer.
///
/// ATOMICS: `capture_end` is stored by [`publish`], which pairs with the load in programs
/// ([`logic::publish`](crate::logic::publish)): they see everything before it. `flags` are relaxed, since they say
/// nothing about the records that have been published.
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
        // SAFETY: The address of a buffer that is alive is not null.
        Self(unsafe { NonNull::new_unchecked(ptr::with_exposed_provenance_mut(address as usize)) })
    }

    /// Returns the address as a number.
    pub(crate) fn address(self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }

    fn header(self) -> *mut abi::perfmon_buffer_header {
        self.0.as_ptr().cast()
    }

    /// Empties the buffer.
    ///
    /// # Safety
    ///
    /// The buffer must be alive and have no other writer.
    pub(crate) unsafe fn clear(self, flags: u32) {
        // First: programs may be reading what they have mapped.
        // SAFETY: The caller says that the buffer is alive and has no other writer.
        unsafe { self.publish(size_of::<abi::perfmon_buffer_header>()) };
        let header = self.header();
        // SAFETY: Every buffer begins with a header, to which no references are made: programs read their own
        // mapping.
        unsafe {
            (*header).version = abi::PERFMON_BUFFER_VERSION as u16;
            (*header).arch = abi::PERFMON_BUFFER_ARCH_X86_64 as u16;
            (*header).ticks_per_second = i64::from(tsc_khz()) * 1000;
            self.flags().store(flags, Relaxed);
        }
    }

    /// # Safety
    ///
    /// The buffer must be alive for as long as the result.
    unsafe fn flags<'a>(self) -> &'a AtomicU32 {
        // SAFETY: The caller keeps the buffer alive; the flags are 4 bytes at a multiple of 4.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.header()).flags) }
    }

    /// Sets some of `PERFMON_BUFFER_FLAG_*`.
    ///
    /// # Safety
    ///
    /// The buffer must be alive.
    pub(crate) unsafe fn mark(self, flags: u32) {
        // SAFETY: The caller says that the buffer is alive.
        unsafe { self.flags() }.fetch_or(flags, Relaxed);
    }

    /// Lets programs see the records before `end`.
    ///
    /// # Safety
    ///
    /// The buffer must be alive and have no other writer.
    #[inline(always)]
    pub(crate) unsafe fn publish(self, end: usize) {
        const OFFSET: usize = offset_of!(abi::perfmon_buffer_header, capture_end);
        // SAFETY: The caller keeps the buffer alive; the word is 8 bytes at a multiple of 8.
        let word = unsafe { AtomicU64::from_ptr(self.0.add(OFFSET).cast().as_ptr()) };
        publish(word, end as u64);
    }
}

/// Writes records into a buffer, one after the other. Programs don't see them before they are published.
pub(crate) struct Writer {
    buffer: BufferPtr,
    end: usize,
}

impl Writer {
    /// Returns a writer that begins at the offset `end`.
    ///
    /// # Safety
    ///
    /// While the writer is used, the buffer must be alive and have no other writer. It must have room for all
    /// that is [`put`](Self::put).
    #[inline(always)]
    pub(crate) unsafe fn new(buffer: BufferPtr, end: usize) -> Self {
        Self { buffer, end }
    }

    /// Writes a record.
    #[inline(always)]
    pub(crate) fn put<T: IntoBytes + Immutable>(&mut self, record: T) {
        // SAFETY: The caller of `new` says that there is room for what is written.
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
        let at = self.end;
        self.end = self.end.wrapping_add(size);
        at
    }

    /// Writes the bytes that [`Self::skip`] skipped.
    pub(crate) fn put_at<T: IntoBytes + Immutable>(&mut self, at: usize, part: T) {
        let mut other = Writer {
            buffer: self.buffer,
            end: at,
        };
        other.put(part);
    }

    /// Returns the offset of the next record.
    #[inline(always)]
    pub(crate) fn end(&self) -> usize {
        self.end
    }
}
