// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's own `perf_event_open(2)`, for events that the driver does not count.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use perfmon_core::logic::event_attr::{
    PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING, PerfEventAttr,
};
use zerocopy::IntoBytes;

/// Opens an event of a task on a CPU. -1 means all tasks, or all CPUs. `attr` is a `struct perf_event_attr` whose member
/// `size` is set; if the kernel does not know so large a structure, it sets `size` to the size that it knows.
///
/// # Errors
/// The errors of `perf_event_open(2)`; EINVAL also if `size` is 0 or larger than `attr`.
pub(crate) fn open(attr: &mut [u8], task: i32, cpu: i32) -> Result<OwnedFd, Errno> {
    const NO_GROUP: libc::c_int = -1;
    /// `PERF_FLAG_FD_CLOEXEC`
    const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;
    // The member `size`, behind `type`.
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
            CLOSE_ON_EXEC,
        )
    })?;
    let fd = libc::c_int::try_from(fd).map_err(|_| Errno::EBADF)?;
    // SAFETY: `from_raw_fd` requires an open descriptor without another owner. The successful call above has just
    // created it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// An open event that the kernel counts.
#[derive(Debug)]
pub(crate) struct CountingEvent(File);

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
        open(bytes, task, cpu).map(|fd| Self(File::from(fd)))
    }

    /// Starts the event.
    pub(crate) fn enable(&self) -> nix::Result<()> {
        // SAFETY: PERF_EVENT_IOC_ENABLE takes an open descriptor, which `self` owns, and an integer. It accesses no memory.
        unsafe { ioctl::enable(self.0.as_raw_fd(), 0) }.map(drop)
    }

    /// Stops the event.
    pub(crate) fn disable(&self) -> nix::Result<()> {
        // SAFETY: PERF_EVENT_IOC_DISABLE takes an open descriptor, which `self` owns, and an integer. It accesses no memory.
        unsafe { ioctl::disable(self.0.as_raw_fd(), 0) }.map(drop)
    }

    /// Reads the count; `None` if the event is pinned and the kernel had no counter for it.
    pub(crate) fn read(&self) -> io::Result<Option<CountAndTimes>> {
        let mut bytes = [0; 24];
        match (&self.0).read(&mut bytes)? {
            24 => {}
            0 => return Ok(None),
            _ => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        let word = |index: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[index * 8..][..8]);
            u64::from_ne_bytes(word)
        };
        Ok(Some(CountAndTimes {
            count: word(0),
            enabled: word(1),
            running: word(2),
        }))
    }
}

/// The ioctls that start and stop an event, with their letter and numbers in `<linux/perf_event.h>`.
mod ioctl {
    use nix::{ioctl_write_int_bad, request_code_none};

    ioctl_write_int_bad!(enable, request_code_none!(b'$', 0));
    ioctl_write_int_bad!(disable, request_code_none!(b'$', 1));
}
