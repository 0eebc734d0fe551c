// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory of a ring: the control page of an event, and the records behind it.

use std::mem::offset_of;
use std::num::NonZeroUsize;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::AtomicU64;

use nix::errno::Errno;
use nix::libc;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use perfmon_core::logic::user_page::RingControl;

const PAGE: usize = 4096;

/// The positions of a ring, for a reader.
#[repr(C)]
#[derive(Debug)]
struct Positions {
    head: AtomicU64,
    tail: AtomicU64,
}

const _: () = {
    assert!(offset_of!(RingControl, data_head) == 0);
    assert!(offset_of!(RingControl, data_tail) == size_of::<u64>());
    assert!(RingControl::OFFSET % align_of::<Positions>() == 0);
    assert!(RingControl::OFFSET + size_of::<Positions>() <= PAGE);
};

/// The ring of an event, mapped for reading and for giving records back.
///
/// The kernel writes there at any time, and so may every program that has the descriptor: all words are atomics.
///
/// # Invariants
/// `start` is the beginning of a mapping of `1 + pages` pages, until the drop; one for writing if `writable`.
#[derive(Debug)]
pub(crate) struct RingMapping {
    start: NonNull<u8>,
    pages: usize,
    writable: bool,
}

// SAFETY: The mapping belongs to no thread, and it is reached through atomics only.
unsafe impl Send for RingMapping {}
// SAFETY: The mapping belongs to no thread, and it is reached through atomics only.
unsafe impl Sync for RingMapping {}

impl RingMapping {
    /// Maps the control page and `pages` pages of records; without `writable` the kernel overwrites records that were
    /// not read.
    ///
    /// # Errors
    /// Those of mmap(2); EINVAL also if `pages` is no power of 2.
    pub(crate) fn new(event: BorrowedFd<'_>, pages: usize, writable: bool) -> Result<Self, Errno> {
        if !pages.is_power_of_two() {
            return Err(Errno::EINVAL);
        }
        let length = Self::length(pages).ok_or(Errno::EINVAL)?;
        let mut protection = ProtFlags::PROT_READ;
        protection.set(ProtFlags::PROT_WRITE, writable);
        // SAFETY: The kernel chooses an address where nothing is, so that no memory of Rust's changes.
        let start = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, event, 0) }?;
        // INVARIANT: Just mapped, and only the drop unmaps it.
        Ok(Self {
            start: start.cast(),
            pages,
            writable,
        })
    }

    fn length(pages: usize) -> Option<NonZeroUsize> {
        let pages = pages.checked_add(1)?;
        NonZeroUsize::new(pages.checked_mul(PAGE)?)
    }

    /// Returns the position of the kernel.
    pub(crate) fn head(&self) -> &AtomicU64 {
        &self.positions().head
    }

    /// Returns the position of the reader; `None` if the kernel does not look at it.
    pub(crate) fn tail(&self) -> Option<&AtomicU64> {
        self.writable.then(|| &self.positions().tail)
    }

    /// Returns the positions; what is not writable is to be loaded only.
    fn positions(&self) -> &Positions {
        // SAFETY: By the invariant the first page can be read as long as `self` lives; the positions are within it and
        // aligned, as asserted above. Whatever others write is a value of the atomics.
        unsafe {
            self.start
                .byte_add(RingControl::OFFSET)
                .cast::<Positions>()
                .as_ref()
        }
    }

    /// Returns the words of the ring; their number is a power of 2.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: By the invariant `pages` pages follow the first one, as long as `self` lives. Whatever others write
        // is a value of the atomics.
        unsafe {
            let first = self.start.byte_add(PAGE).cast::<AtomicU64>();
            slice::from_raw_parts(first.as_ptr(), self.pages * PAGE / size_of::<AtomicU64>())
        }
    }
}

impl Drop for RingMapping {
    fn drop(&mut self) {
        if let Some(length) = Self::length(self.pages) {
            // SAFETY: By the invariant it is a mapping of this length, and the references that `positions` and `words`
            // gave have ended with the borrow of `self`.
            let result = unsafe { munmap(self.start.cast(), length.get()) };
            debug_assert!(result.is_ok(), "munmap of what mmap gave");
        }
    }
}

/// Waits until every CPU has left what it was doing in the kernel: interrupt handlers too.
pub(crate) fn wait_for_kernel() {
    /// `MEMBARRIER_CMD_GLOBAL`: an RCU grace period.
    const GLOBAL: libc::c_int = 1;
    // SAFETY: The call takes numbers and no memory.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, GLOBAL, 0, 0) };
    if result == -1 {
        // The kernel has isolated CPUs. A handler takes some microseconds.
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
