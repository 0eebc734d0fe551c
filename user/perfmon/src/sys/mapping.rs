// SPDX-License-Identifier: MIT OR Apache-2.0
//! The mapping of a trace's buffer, which the kernel writes while it is read.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::slice;
use std::sync::atomic::{AtomicI64, AtomicU16, AtomicU32, AtomicU64};

use nix::errno::Errno;
use nix::sys::mman::ProtFlags;
use perfmon_core::abi;
use perfmon_core::logic::publish::published_range;

use super::Area;

/// `struct perfmon_buffer_header` with atomic members, because the kernel writes it while it is read.
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

/// A buffer of a trace, mapped for reading. It stays valid when the trace is freed and the device closed.
///
/// The kernel's interrupt handler writes to it at any time, so its content is accessed as atomic words and never as
/// bytes. Only the words before the header's `capture_end` may be read: the buffer of a CPU that is not traced consists
/// only of the header's page.
///
/// # Invariants
/// The area holds the header, and the bytes before its `capture_end` can be read.
#[derive(Debug)]
pub struct Mapping {
    area: Area,
}

impl Mapping {
    /// Maps the first `length` bytes of the buffer of this handle.
    ///
    /// # Errors
    /// The errors of mmap(2); EINVAL also if `length` is less than the header's size.
    pub fn new(handle: BorrowedFd<'_>, length: NonZeroUsize) -> Result<Self, Errno> {
        if length.get() < size_of::<Header>() {
            return Err(Errno::EINVAL);
        }
        // INVARIANT: `length` was compared with the header's size, and the kernel sets `capture_end` only to the end of
        // existing records. In a child of fork(2) it is 0.
        Ok(Self {
            area: Area::new(handle, length, ProtFlags::PROT_READ)?,
        })
    }

    /// Returns the header.
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: `as_ref` requires a pointer to an aligned and valid `Header`. By the type invariant the area holds
        // the header as long as `self` lives, and it begins with a page, so the header is aligned. `Header` consists of
        // atomic integers, for which every bit pattern that the kernel writes meanwhile is a valid value.
        unsafe { self.area.start().cast().as_ref() }
    }

    /// Returns the words of all records that are published now, which no longer change; `None` if the header's
    /// `capture_end` is impossible.
    pub(crate) fn records(&self) -> Option<&[AtomicU32]> {
        // ATOMICS: Pairs with the kernel's `publish`: all loads of records happen after this load of `capture_end`.
        let Range { start, end } = published_range(&self.header().capture_end, self.area.length())?;
        // SAFETY: `add` requires an offset within the mapping, and `from_raw_parts` requires aligned words that can be
        // read, and that do not change except through atomics. `published_range` returns a range within `length` that ends at
        // `capture_end`, so by the type invariant it can be read as long as `self` lives. It begins after the header,
        // whose size is a multiple of 4, so the words are aligned; the kernel does not write published words again.
        Some(unsafe {
            let first = self.area.start().add(start).cast::<AtomicU32>();
            slice::from_raw_parts(first.as_ptr(), (end - start) / size_of::<AtomicU32>())
        })
    }
}
