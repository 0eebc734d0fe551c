// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's own `perf_event_open(2)`, for events that the driver does not count.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use perfmon_core::logic::event_attr::{
    PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING, PerfEventAttr,
};
use perfmon_core::logic::perf_event::PERF_FLAG_FD_CLOEXEC;
use zerocopy::IntoBytes;

/// Opens an event of a task on a CPU. -1 means all tasks, or all CPUs. `attr` is a `struct perf_event_attr` whose member
/// `size` is set; if the kernel does not know so large a structure, it sets `size` to the size that it knows.
///
/// # Errors
/// The errors of `perf_event_open(2)`; EINVAL also if `size` is 0 or larger than `attr`.
pub(crate) fn open(attr: &mut [u8], task: i32, cpu: i32) -> Result<OwnedFd, Errno> {
    const NO_GROUP: libc::c_int = -1;
    // The member `size`, after `type`.
    let size = attr.get(4..8).and_then(|size| size.try_into().ok());
    let size = size.map_or(0, u32::from_ne_bytes);
    // The kernel takes a size of 0 for 64 bytes.
    if size == 0 || usize::try_from(size).map_or(true, |size| size > attr.len()) {
        return Err(Errno::EINVAL);
    }
    // SAFETY: The kernel reads `size` bytes of `attr`, and with E2BIG it writes the member `size`. `attr` has `size` bytes,
    // as checked above, and is borrowed for writing during the call. The kernel keeps no pointer to it.
    let fd = Errno::result(unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attr.as_mut_ptr(),
            task,
            cpu,
            NO_GROUP,
            libc::c_ulong::from(PERF_FLAG_FD_CLOEXEC),
        )
    })?;
    let fd = libc::c_int::try_from(fd).map_err(|_| Errno::EBADF)?;
    // SAFETY: `from_raw_fd` requires an open descriptor without another owner. The successful call above has just
    // created it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// An open event that the kernel counts.
#[derive(Debug)]
pub(crate) struct CountingEvent(OwnedFd);

/// A count, and the times for which the event was enabled and counted (`running`), in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CountAndTimes {
    pub(crate) count: u64,
    pub(crate) enabled: u64,
    pub(crate) running: u64,
}

impl CountingEvent {
    /// The `read_format` of each event: count and times.
    const READ_FORMAT: u64 = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;

    /// Opens an event, which is stopped until [`enable`](Self::enable), or until an exec if `attr` says so. Sets the members
    /// `size` and `read_format` of `attr`.
    ///
    /// # Errors
    /// The errors of `perf_event_open(2)`.
    pub(crate) fn open(attr: PerfEventAttr, task: i32, cpu: i32) -> Result<Self, Errno> {
        let size = if attr.config2 == 0 && attr.config3 == 0 && attr.config4 == 0 {
            PerfEventAttr::SIZE_VER0
        } else {
            PerfEventAttr::SIZE
        };
        let mut attr = PerfEventAttr {
            size,
            read_format: Self::READ_FORMAT,
            flags: attr.flags | PerfEventAttr::DISABLED,
            ..attr
        };
        let bytes = &mut attr.as_mut_bytes()[..size as usize];
        open(bytes, task, cpu).map(Self)
    }

    /// Starts the event.
    pub(crate) fn enable(&self) -> nix::Result<()> {
        enable(self.0.as_fd())
    }

    /// Stops the event.
    pub(crate) fn disable(&self) -> nix::Result<()> {
        disable(self.0.as_fd())
    }

    /// Reads the count; `None` if the event is pinned and the kernel had no counter for it.
    pub(crate) fn read(&self) -> io::Result<Option<CountAndTimes>> {
        let words = read_words(self.0.as_fd())?;
        Ok(words.map(|[count, enabled, running]| CountAndTimes {
            count,
            enabled,
            running,
        }))
    }
}

/// Starts an event.
pub(crate) fn enable(event: BorrowedFd<'_>) -> nix::Result<()> {
    // SAFETY: The ioctl takes a descriptor, which is open, and no memory.
    unsafe { ioctl::enable(event.as_raw_fd(), 0) }.map(drop)
}

/// Stops an event.
pub(crate) fn disable(event: BorrowedFd<'_>) -> nix::Result<()> {
    // SAFETY: The ioctl takes a descriptor, which is open, and no memory.
    unsafe { ioctl::disable(event.as_raw_fd(), 0) }.map(drop)
}

/// Returns the ID that records of an event have.
pub(crate) fn id(event: BorrowedFd<'_>) -> nix::Result<u64> {
    let mut id = 0;
    // SAFETY: The ioctl writes a `u64` to the pointer, which is valid for the duration of the call.
    unsafe { ioctl::id(event.as_raw_fd(), &raw mut id) }?;
    Ok(id)
}

/// Returns whether an event has been enabled for some time, by the enabled time in its page, which is mapped for this.
///
/// Returns true also for an event that was enabled and disabled again. Returns false:
///
/// - for an inherited event on all CPUs, which has no page;
/// - if the event's task has not run since the event was enabled.
pub(crate) fn has_been_enabled(event: BorrowedFd<'_>) -> bool {
    /// Length of the mapping in bytes; the kernel rounds it up to a page.
    const LENGTH: NonZeroUsize = NonZeroUsize::MIN;
    /// The place of `time_enabled` among the 64-bit words of `struct perf_event_mmap_page`.
    const TIME_ENABLED: usize = 3;
    // SAFETY: `mmap` requires that it replaces no mapping in use. Without an address and MAP_FIXED, the kernel chooses an
    // unused range.
    let mapped = unsafe {
        mmap(
            None,
            LENGTH,
            ProtFlags::PROT_READ,
            MapFlags::MAP_SHARED,
            event,
            0,
        )
    };
    let Ok(page) = mapped else {
        return false;
    };
    // SAFETY: `add` and `read_volatile` require an aligned pointer into memory that can be read: the mapping is a page,
    // which has more than `TIME_ENABLED` words, and is readable until the munmap below.
    let time_enabled = unsafe { page.cast::<u64>().add(TIME_ENABLED).read_volatile() };
    // SAFETY: `munmap` requires that nothing uses the memory afterwards. `page` is from the mmap above with this length, and
    // no reference to the memory exists.
    let result = unsafe { munmap(page, LENGTH.get()) };
    debug_assert!(result.is_ok(), "munmap of a mapping fails");
    time_enabled != 0
}

/// Reads an event whose `read_format` has `N` words; `None` if it is pinned and the kernel had no counter for it.
pub(crate) fn read_words<const N: usize>(event: BorrowedFd<'_>) -> io::Result<Option<[u64; N]>> {
    let mut words = [0; N];
    let size = size_of_val(&words);
    match nix::unistd::read(event, words.as_mut_bytes())? {
        0 => Ok(None),
        read if read == size => Ok(Some(words)),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// The ioctls of an event, with their letter and numbers in `<linux/perf_event.h>`.
mod ioctl {
    use nix::{ioctl_read, ioctl_write_int_bad, request_code_none};

    ioctl_write_int_bad!(enable, request_code_none!(b'$', 0));
    ioctl_write_int_bad!(disable, request_code_none!(b'$', 1));
    ioctl_read!(id, b'$', 7, u64);
}
