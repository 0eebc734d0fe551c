// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that the kernel writes while it is read.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicI64, AtomicU16, AtomicU32, AtomicU64};

use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use perfmon_core::abi;
use perfmon_core::logic::publish::published;

/// `struct perfmon_buffer_header`, for a reader: the kernel writes it.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) version: AtomicU16,
    pub(crate) arch: AtomicU16,
    pub(crate) flags: AtomicU32,
    pub(crate) ticks_per_second: AtomicI64,
    pub(crate) capture_end: AtomicU64,
}

const _: () = {
    use abi::perfmon_buffer_header as Abi;
    use std::mem::offset_of;
    assert!(size_of::<Header>() == size_of::<Abi>());
    assert!(offset_of!(Header, version) == offset_of!(Abi, version));
    assert!(offset_of!(Header, arch) == offset_of!(Abi, arch));
    assert!(offset_of!(Header, flags) == offset_of!(Abi, flags));
    assert!(offset_of!(Header, ticks_per_second) == offset_of!(Abi, ticks_per_second));
    assert!(offset_of!(Header, capture_end) == offset_of!(Abi, capture_end));
};

/// A buffer of a trace, mapped for reading; it stays when the trace is freed and the device closed.
///
/// The kernel's interrupt handler writes to it at any time. So it is never a slice of bytes, but of atomic
/// words, and only as far as the kernel says that there are records: of a CPU that is not traced there is
/// nothing but the header's page.
///
/// # Invariants
/// `start` is the beginning of a mapping of `length` bytes of a buffer, until the drop. There is room for
/// the header, and what is before its `capture_end` can be read.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    length: NonZeroUsize,
}

// SAFETY: The mapping belongs to no thread, and it is reached through atomics only.
unsafe impl Send for Mapping {}
// SAFETY: The mapping is reached through atomics only, which threads may use at once.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `length` bytes of the buffer that `handle` stands for.
    ///
    /// # Errors
    /// Those of mmap(2); EINVAL also if not even the header fits.
    pub fn new(handle: BorrowedFd<'_>, length: NonZeroUsize) -> Result<Self, Errno> {
        if length.get() < size_of::<Header>() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: The kernel chooses an address where nothing is, so that no memory of Rust's changes.
        let start = unsafe {
            mmap(
                None,
                length,
                ProtFlags::PROT_READ,
                MapFlags::MAP_SHARED,
                handle,
                0,
            )
        }?;
        // INVARIANT: Just mapped and compared, and only the drop unmaps it. The kernel publishes only
        // what is there.
        Ok(Self {
            start: start.cast(),
            length,
        })
    }

    /// The header.
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: By the invariant it can be read as long as `self` lives; the beginning of a page is aligned
        // for everything. Whatever the kernel writes meanwhile is a value of the atomics.
        unsafe { self.start.cast().as_ref() }
    }

    /// The words of all records that there are now; they don't change any more. `None` if the header says
    /// what can't be.
    pub(crate) fn records(&self) -> Option<&[AtomicU32]> {
        // ATOMICS: Pairs with the kernel's `publish`: all loads of records come after this one.
        let Range { start, end } = published(&self.header().capture_end, self.length.get())?;
        // SAFETY: It is in the mapping and before `capture_end`, so that it can be read, by the invariant. It
        // begins at a multiple of 4, for the header is as long.
        Some(unsafe {
            let first = self.start.add(start).cast::<AtomicU32>();
            slice::from_raw_parts(first.as_ptr(), (end - start) / size_of::<AtomicU32>())
        })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: By the invariant it is a mapping of this length, and the references to it that `header` and
        // `records` gave have ended with the borrow of `self`.
        let result = unsafe { munmap(self.start.cast(), self.length.get()) };
        debug_assert!(result.is_ok(), "munmap of what mmap gave");
    }
}
