// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's own `perf_event_open(2)`, for events that the driver does not count.

use std::os::fd::{FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;

/// Opens an event of a task on a CPU. -1 means all tasks, or all CPUs. `attr` is a `struct perf_event_attr` whose member
/// `size` is set.
///
/// # Errors
/// The errors of `perf_event_open(2)`.
pub(crate) fn open(attr: &[u8], task: i32, cpu: i32) -> Result<OwnedFd, Errno> {
    const NO_GROUP: libc::c_int = -1;
    /// `PERF_FLAG_FD_CLOEXEC`
    const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;
    // The member `size`, behind `type`.
    let size = attr.get(4..8).and_then(|size| size.try_into().ok());
    let size = size.map_or(u32::MAX, u32::from_ne_bytes);
    if usize::try_from(size).map_or(true, |size| size > attr.len()) {
        return Err(Errno::EINVAL);
    }
    // SAFETY: The kernel reads as many bytes from the pointer as the member `size` says. These are at most the bytes of
    // `attr`, which was checked above, and `attr` is borrowed during the call; the kernel keeps no pointer to it.
    let fd = Errno::result(unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attr.as_ptr(),
            task,
            cpu,
            NO_GROUP,
            CLOSE_ON_EXEC,
        )
    })?;
    let fd = libc::c_int::try_from(fd).map_err(|_| Errno::EBADF)?;
    // SAFETY: The descriptor is open and has no other owner, since the successful call above has just created it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The ioctls that start and stop an event (`<linux/perf_event.h>`).
pub(crate) mod ioctl {
    use nix::{ioctl_write_int_bad, request_code_none};

    ioctl_write_int_bad!(enable, request_code_none!(b'$', 0));
    ioctl_write_int_bad!(disable, request_code_none!(b'$', 1));
}
