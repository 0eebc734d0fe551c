// SPDX-License-Identifier: MIT OR Apache-2.0
//! The descriptor from which filtered system calls are received, `seccomp_unotify(2)`.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;

use super::filter::FilteredCall;

/// A system call that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// The kernel's number of the notification.
    id: u64,
    pub(super) call: FilteredCall,
    /// The TID of the caller in pmctl's PID namespace; 0 if the caller is not visible there.
    pub(super) thread: i32,
    pub(super) arguments: [u64; 6],
}

/// The listener of a filter.
#[derive(Debug)]
pub(super) struct Listener(OwnedFd);

impl Listener {
    /// Creates a listener from the descriptor that [`install`](super::filter::install) returned.
    ///
    /// # Errors
    /// ENOTSUP if the kernel's structures are larger than those that this program was built with.
    pub(super) fn new(descriptor: OwnedFd) -> Result<Self, Errno> {
        let mut sizes = libc::seccomp_notif_sizes {
            seccomp_notif: 0,
            seccomp_notif_resp: 0,
            seccomp_data: 0,
        };
        // SAFETY: SECCOMP_GET_NOTIF_SIZES writes a `struct seccomp_notif_sizes`, which `sizes` is, to a valid pointer.
        let result = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_GET_NOTIF_SIZES,
                0,
                &raw mut sizes,
            )
        };
        Errno::result(result)?;
        let fits = usize::from(sizes.seccomp_notif) <= size_of::<libc::seccomp_notif>()
            && usize::from(sizes.seccomp_notif_resp) <= size_of::<libc::seccomp_notif_resp>();
        if fits {
            Ok(Self(descriptor))
        } else {
            Err(Errno::ENOTSUP)
        }
    }

    /// Waits for the next call, and returns it; `None` if a signal has ended the caller or its wait meanwhile.
    pub(super) fn receive(&self) -> Result<Option<Request>, Errno> {
        let mut raw = libc::seccomp_notif {
            id: 0,
            pid: 0,
            flags: 0,
            data: libc::seccomp_data {
                nr: 0,
                arch: 0,
                instruction_pointer: 0,
                args: [0; 6],
            },
        };
        // SAFETY: SECCOMP_IOCTL_NOTIF_RECV needs zeroed memory, which `raw` is, and writes no more bytes to it than it
        // has: `new` has compared the kernel's size with that of the type.
        match unsafe { ioctl::receive(self.0.as_raw_fd(), &raw mut raw) } {
            Ok(_) => Ok(Some(Request {
                id: raw.id,
                call: FilteredCall::from_data(&raw.data).ok_or(Errno::ENOSYS)?,
                thread: raw.pid.try_into().unwrap_or(0),
                arguments: raw.data.args,
            })),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Returns whether the caller still waits. If so, the data that were read by the caller's TID
    /// are the caller's, and not those of a later thread with the same TID.
    pub(super) fn is_waiting(&self, request: &Request) -> bool {
        // SAFETY: SECCOMP_IOCTL_NOTIF_ID_VALID reads a `u64` from its argument, which points to `request.id`.
        unsafe { ioctl::id_valid(self.0.as_raw_fd(), &raw const request.id) }.is_ok()
    }

    /// Lets the kernel carry the call out as if there were no filter.
    pub(super) fn leave_to_kernel(&self, request: &Request) -> Result<(), Errno> {
        self.send(request, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE)
    }

    /// Fails the call.
    pub(super) fn fail(&self, request: &Request, errno: Errno) -> Result<(), Errno> {
        self.send(request, errno as i32, 0)
    }

    fn send(&self, request: &Request, errno: i32, flags: libc::c_ulong) -> Result<(), Errno> {
        let mut raw = libc::seccomp_notif_resp {
            id: request.id,
            val: 0,
            error: -errno,
            flags: u32::try_from(flags).or(Err(Errno::EINVAL))?,
        };
        // SAFETY: SECCOMP_IOCTL_NOTIF_SEND reads no more bytes from `raw` than it has: `new` has compared the kernel's
        // size with that of the type.
        let result = unsafe { ioctl::send(self.0.as_raw_fd(), &raw mut raw) };
        ignore_dead_caller(result.map(drop))
    }

    /// Adds a copy of a descriptor to the caller's, and lets the call return the copy's number. Returns this number; `None`
    /// if the caller has died, or can't have another descriptor.
    pub(super) fn send_descriptor(
        &self,
        request: &Request,
        descriptor: BorrowedFd<'_>,
        close_on_exec: bool,
    ) -> Result<Option<i32>, Errno> {
        let result = self.add_descriptor(
            request,
            (descriptor, libc::SECCOMP_ADDFD_FLAG_SEND, 0),
            close_on_exec,
        );
        match result {
            Ok(number) => Ok(Some(number)),
            // The caller can't have another descriptor, so its call has no answer yet.
            Err(errno @ (Errno::EMFILE | Errno::ENOMEM)) => {
                self.fail(request, errno).map(|()| None)
            }
            Err(errno) => ignore_dead_caller(Err(errno)).map(|()| None),
        }
    }

    /// Closes the caller's descriptor `number`, and puts a copy of another one in its place. The call still needs an answer.
    pub(super) fn replace_descriptor(
        &self,
        request: &Request,
        (descriptor, number): (BorrowedFd<'_>, i32),
        close_on_exec: bool,
    ) -> Result<(), Errno> {
        let target = (descriptor, libc::SECCOMP_ADDFD_FLAG_SETFD, number);
        let result = self.add_descriptor(request, target, close_on_exec);
        ignore_dead_caller(result.map(drop))
    }

    /// Adds a copy of a descriptor to the caller's, and returns its number. `flags` are `SECCOMP_ADDFD_FLAG_*`.
    fn add_descriptor(
        &self,
        request: &Request,
        (descriptor, flags, number): (BorrowedFd<'_>, libc::c_ulong, i32),
        close_on_exec: bool,
    ) -> Result<i32, Errno> {
        let invalid = |_| Errno::EINVAL;
        let raw = libc::seccomp_notif_addfd {
            id: request.id,
            flags: u32::try_from(flags).map_err(invalid)?,
            srcfd: u32::try_from(descriptor.as_raw_fd()).map_err(invalid)?,
            newfd: u32::try_from(number).map_err(invalid)?,
            newfd_flags: if close_on_exec {
                libc::O_CLOEXEC.unsigned_abs()
            } else {
                0
            },
        };
        // SAFETY: SECCOMP_IOCTL_NOTIF_ADDFD reads as many bytes as the ioctl's number says, the size of `raw`'s type.
        unsafe { ioctl::add_fd(self.0.as_raw_fd(), &raw const raw) }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Returns success instead of the errors of an answer to a caller that has died.
fn ignore_dead_caller(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::ENOENT | Errno::EINPROGRESS) => Ok(()),
        result => result,
    }
}

mod ioctl {
    use nix::libc::{
        SECCOMP_IOCTL_NOTIF_ADDFD, SECCOMP_IOCTL_NOTIF_ID_VALID, SECCOMP_IOCTL_NOTIF_RECV,
        SECCOMP_IOCTL_NOTIF_SEND, seccomp_notif, seccomp_notif_addfd, seccomp_notif_resp,
    };
    use nix::{ioctl_readwrite_bad, ioctl_write_ptr_bad};

    ioctl_readwrite_bad!(receive, SECCOMP_IOCTL_NOTIF_RECV, seccomp_notif);
    ioctl_readwrite_bad!(send, SECCOMP_IOCTL_NOTIF_SEND, seccomp_notif_resp);
    ioctl_write_ptr_bad!(id_valid, SECCOMP_IOCTL_NOTIF_ID_VALID, u64);
    ioctl_write_ptr_bad!(add_fd, SECCOMP_IOCTL_NOTIF_ADDFD, seccomp_notif_addfd);
}
