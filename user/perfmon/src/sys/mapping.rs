// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that the kernel writes while it is read.

use std::num::NonZeroUsize;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI64, AtomicU16, AtomicU32, AtomicU64};

use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use perfmon_core::abi;

/// `struct perfmon_buffer_header`, as who does not write it sees it.
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
/// words, and what is loaded from the header with acquire order says how many of them are there.
///
/// # Invariants
/// `start` is the beginning of a mapping of `length` bytes, which is readable until the drop and not shorter
/// than a [`Header`].
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    length: NonZeroUsize,
}

// SAFETY: The mapping belongs to no thread, and it is reached through atomics only.
unsafe impl Send for Mapping {}
// SAFETY: As above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `length` bytes of what `handle` stands for.
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
        // INVARIANT: Just mapped and compared, and nobody but the drop unmaps it.
        Ok(Self {
            start: start.cast(),
            length,
        })
    }

    /// The header.
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: By the invariant the memory is readable as long as `self` lives, and long enough; a page's
        // beginning is aligned for everything. Whatever the kernel writes meanwhile is a value of the atomics.
        unsafe { self.start.cast().as_ref() }
    }

    /// What follows the header, in words: records are multiples of 4 bytes.
    pub(crate) fn records(&self) -> &[AtomicU32] {
        let bytes = self.length.get() - size_of::<Header>();
        // SAFETY: As in `header`; the length is that of the rest of the mapping, and the header's size is a
        // multiple of 4.
        unsafe {
            let first = self.start.add(size_of::<Header>()).cast::<AtomicU32>();
            std::slice::from_raw_parts(first.as_ptr(), bytes / size_of::<AtomicU32>())
        }
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
