// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread whose call is answered: its memory, its descriptors, its rights.
//!
//! All of it is by the thread's number. Ask [`Listener::is_waiting`](super::listener::Listener::is_waiting)
//! afterwards: if the thread still waits, the number was its own all the time.

use std::fs;
use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::libc;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

/// A thread by its number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target(pub(super) i32);

impl Target {
    /// Returns `length` bytes of its memory.
    pub(super) fn read(self, address: u64, length: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; length];
        let remote = RemoteIoVec {
            base: usize::try_from(address).or(Err(Errno::EFAULT))?,
            len: length,
        };
        let read = process_vm_readv(
            Pid::from_raw(self.0),
            &mut [IoSliceMut::new(&mut bytes)],
            &[remote],
        )?;
        if read < length {
            return Err(Errno::EFAULT);
        }
        Ok(bytes)
    }

    /// Returns a copy of one of its descriptors.
    pub(super) fn descriptor(self, number: i32) -> Result<OwnedFd, Errno> {
        /// `PIDFD_THREAD` of `<linux/pidfd.h>`: the thread need not be the first one of its process, and may have
        /// descriptors of its own.
        const THREAD: i32 = libc::O_EXCL;
        // SAFETY: The call takes two numbers and no memory.
        let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, self.0, THREAD) };
        let pidfd = owned(pidfd)?;
        // SAFETY: The call takes three numbers and no memory.
        owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), number, 0) })
    }

    /// Returns whether it may do what this process may, no more and no less, and calls tasks by the same numbers.
    pub(super) fn has_our_rights(self) -> bool {
        let theirs = self.folder();
        let ours = Path::new("/proc/thread-self");
        let links = ["ns/user", "ns/pid"];
        rights(&theirs).is_some_and(|rights| Some(rights) == self::rights(ours))
            && links.iter().all(|name| {
                let link = |folder: &Path| fs::read_link(folder.join(name)).ok();
                link(&theirs).is_some_and(|theirs| Some(theirs) == link(ours))
            })
    }

    /// Returns its name.
    pub(super) fn name(self) -> String {
        let name = fs::read_to_string(self.folder().join("comm"));
        name.map_or_else(|_| "?".to_owned(), |name| name.trim_end().to_owned())
    }

    fn folder(self) -> PathBuf {
        PathBuf::from(format!("/proc/{}", self.0))
    }
}

/// Returns what the kernel and its security modules judge a task by; `None` if it is not shown.
fn rights(folder: &Path) -> Option<(Vec<String>, Option<String>)> {
    const LINES: [&str; 4] = ["Uid:", "Gid:", "CapPrm:", "CapEff:"];
    let status = fs::read_to_string(folder.join("status")).ok()?;
    let lines = status
        .lines()
        .filter(|line| LINES.iter().any(|name| line.starts_with(name)));
    let lines: Vec<String> = lines.map(str::to_owned).collect();
    let label = fs::read_to_string(folder.join("attr/current")).ok();
    (lines.len() == LINES.len()).then_some((lines, label))
}

/// Returns what a system call made.
fn owned(result: libc::c_long) -> Result<OwnedFd, Errno> {
    let number = i32::try_from(Errno::result(result)?).or(Err(Errno::EBADF))?;
    // SAFETY: The kernel has just made the descriptor for the caller of this function: nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    fn this() -> Target {
        Target(nix::unistd::gettid().as_raw())
    }

    #[test]
    fn memory_is_read_or_the_address_is_wrong() {
        let bytes = *b"some bytes";
        let address = bytes.as_ptr() as u64;
        assert_eq!(this().read(address, bytes.len()), Ok(bytes.to_vec()));
        assert_eq!(this().read(8, 8), Err(Errno::EFAULT));
    }

    #[test]
    fn a_descriptor_is_copied() {
        let (mut read, mut write) = UnixStream::pair().expect("a pair can be made");
        let copy = this().descriptor(read.as_raw_fd()).expect("it is open");
        assert_ne!(copy.as_raw_fd(), read.as_raw_fd());
        write.write_all(b"x").expect("it is open");
        let mut byte = [0];
        let mut copy = UnixStream::from(copy);
        copy.read_exact(&mut byte).expect("it is the same socket");
        drop(write);
        let left = read.read(&mut byte).expect("it is open");
        assert_eq!(left, 0, "the byte was there once");
        assert_eq!(this().descriptor(-1).err(), Some(Errno::EBADF));
    }

    #[test]
    fn a_task_has_its_own_rights_and_init_has_others() {
        assert!(this().has_our_rights());
        assert!(!Target(0).has_our_rights(), "no task has this number");
    }
}
