// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory of a ring: the control page of an event, and the pages of records after it.

use std::mem::offset_of;
use std::num::NonZeroUsize;
use std::os::fd::BorrowedFd;
use std::slice;
use std::sync::atomic::AtomicU64;

use nix::errno::Errno;
use nix::libc;
use nix::sys::mman::ProtFlags;
use perfmon_core::logic::user_page::RingControl;

use super::Area;

const PAGE_SIZE: usize = 4096;

/// `data_head` and `data_tail` of the control page.
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
    assert!(RingControl::OFFSET + size_of::<Positions>() <= PAGE_SIZE);
};

/// The ring of an event, mapped for reading its records and for freeing their space.
///
/// The kernel writes to the ring at any time, and every program with the descriptor may write
/// there, so all words are atomics.
///
/// # Invariants
/// The area has `1 + pages` pages. It can be written if `writable` is set.
#[derive(Debug)]
pub(crate) struct RingMapping {
    area: Area,
    /// Number of pages of records.
    pages: usize,
    writable: bool,
}

impl RingMapping {
    /// Maps the control page and `pages` pages of records. Unless the mapping is `writable`, the kernel overwrites
    /// unread records.
    ///
    /// # Errors
    /// The errors of mmap(2); EINVAL also if `pages` is not a [valid size](Self::is_valid_size).
    pub(crate) fn new(event: BorrowedFd<'_>, pages: usize, writable: bool) -> Result<Self, Errno> {
        let length = Self::length(pages).ok_or(Errno::EINVAL)?;
        let mut protection = ProtFlags::PROT_READ;
        protection.set(ProtFlags::PROT_WRITE, writable);
        // INVARIANT: The area has this length and this protection.
        Ok(Self {
            area: Area::new(event, length, protection)?,
            pages,
            writable,
        })
    }

    /// Returns whether `pages` is a power of 2, and the length of the mapping does not overflow.
    pub(crate) fn is_valid_size(pages: usize) -> bool {
        Self::length(pages).is_some()
    }

    /// Returns the length of the mapping in bytes; `None` if `pages` is not a power of 2, or the length overflows.
    fn length(pages: usize) -> Option<NonZeroUsize> {
        if !pages.is_power_of_two() {
            return None;
        }
        let pages = pages.checked_add(1)?;
        NonZeroUsize::new(pages.checked_mul(PAGE_SIZE)?)
    }

    /// Returns the kernel's position (`data_head`).
    pub(crate) fn head(&self) -> &AtomicU64 {
        &self.positions().head
    }

    /// Returns the reader's position (`data_tail`); `None` if the mapping is read-only, and the kernel ignores it.
    pub(crate) fn tail(&self) -> Option<&AtomicU64> {
        self.writable.then(|| &self.positions().tail)
    }

    /// Returns the positions, which the caller must not store to unless the mapping is writable.
    fn positions(&self) -> &Positions {
        // SAFETY: `byte_add` requires an offset within the mapping, and `as_ref` a pointer to aligned and valid
        // `Positions`. By the type invariant the first page is mapped as long as `self` lives, and a mapping begins at
        // a page. `RingControl::OFFSET` is a multiple of the alignment of `Positions` and leaves room for them in the
        // page, which is asserted at compile time. `Positions` consists of atomic integers, for which every bit pattern
        // that the kernel or a program writes is a valid value.
        unsafe {
            self.area
                .start()
                .byte_add(RingControl::OFFSET)
                .cast::<Positions>()
                .as_ref()
        }
    }

    /// Returns the words of the ring; their number is a power of 2.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: `byte_add` requires an offset within the mapping, and `from_raw_parts` requires that many aligned and
        // valid words. By the type invariant `pages` pages follow the first one as long as `self` lives, and the
        // beginning of a page is aligned for words. Every bit pattern that the kernel or a program writes is a valid
        // `AtomicU64`.
        unsafe {
            let first = self.area.start().byte_add(PAGE_SIZE).cast::<AtomicU64>();
            slice::from_raw_parts(
                first.as_ptr(),
                self.pages * PAGE_SIZE / size_of::<AtomicU64>(),
            )
        }
    }
}

/// Waits until every CPU has left the kernel code that it executes now, including interrupt handlers.
pub(crate) fn wait_for_kernel() {
    /// The command of membarrier(2) that waits for an RCU grace period.
    const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
    // SAFETY: `syscall` requires the arguments of the system call. membarrier(2) takes three numbers, and accesses no memory
    // of the program.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
    if result == -1 {
        // The call fails on a kernel with isolated CPUs (nohz_full). There a sleep of 1 ms is long
        // enough, because a handler takes only some microseconds.
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
