// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds processes that have a file open, and watches processes and threads by pidfds.

use std::fmt;
use std::fs;
use std::os::fd::{FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;

use crate::system::machine::Machine;
use crate::system::text::printable;

/// A process.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    name: String,
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", printable(&self.name), self.pid)
    }
}

/// Returns the processes with a descriptor whose target in /proc/PID/fd makes `is_wanted` true. Only root sees descriptors of
/// other users' processes.
pub(crate) fn find_holders(machine: &Machine, is_wanted: impl Fn(&str) -> bool) -> Vec<Process> {
    let Ok(processes) = fs::read_dir(machine.path("/proc")) else {
        return Vec::new();
    };
    let pids = processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut pids: Vec<u32> = pids.collect();
    pids.sort_unstable();
    let holds_wanted_file = |pid: &u32| {
        let descriptors = fs::read_dir(machine.path(&format!("/proc/{pid}/fd")));
        descriptors.into_iter().flatten().flatten().any(|entry| {
            fs::read_link(entry.path()).is_ok_and(|target| target.to_str().is_some_and(&is_wanted))
        })
    };
    let with_name = |pid: u32| {
        let name = machine.text(&format!("/proc/{pid}/comm")).ok().flatten();
        Process {
            pid,
            name: name.unwrap_or_else(|| "process".to_owned()),
        }
    };
    pids.into_iter()
        .filter(holds_wanted_file)
        .map(with_name)
        .collect()
}

/// `PIDFD_THREAD` of `<linux/pidfd.h>`.
pub(crate) const PIDFD_THREAD: libc::c_int = libc::O_EXCL;

/// Returns a descriptor that becomes readable at the end of a process or thread; `None` if it has ended already.
///
/// - If `pid` is the number of a process, the descriptor waits for the end of all its threads.
/// - If `pid` is the number of a thread other than the first, the descriptor waits for the end of
///   this thread.
///
/// # Errors
/// There is no descriptor left.
pub(crate) fn watch_process(pid: u32) -> nix::Result<Option<OwnedFd>> {
    unless_ended(match open_pidfd(pid, 0) {
        Err(Errno::EINVAL | Errno::ENOENT) => open_pidfd(pid, PIDFD_THREAD),
        result => result,
    })
}

/// The way in which the end of a thread can be watched.
#[derive(Debug)]
pub(crate) enum ThreadEnd {
    /// The thread has ended already.
    Over,
    /// The descriptor becomes readable when the thread ends.
    Descriptor(OwnedFd),
    /// The thread is the first of its process. From Linux 6.15 on, the descriptor of such a thread is readable only when all
    /// threads of the process have ended.
    First,
}

/// Returns how the end of a thread can be watched.
///
/// # Errors
/// There is no descriptor left.
pub(crate) fn watch_thread(tid: u32) -> nix::Result<ThreadEnd> {
    Ok(match open_pidfd(tid, 0) {
        Ok(_) => ThreadEnd::First,
        Err(Errno::ESRCH) => ThreadEnd::Over,
        Err(Errno::EINVAL | Errno::ENOENT) => {
            let descriptor = unless_ended(open_pidfd(tid, PIDFD_THREAD))?;
            descriptor.map_or(ThreadEnd::Over, ThreadEnd::Descriptor)
        }
        Err(errno) => return Err(errno),
    })
}

/// Converts the error for a process or thread that has ended to `None`.
fn unless_ended(descriptor: nix::Result<OwnedFd>) -> nix::Result<Option<OwnedFd>> {
    match descriptor {
        Err(Errno::ESRCH) => Ok(None),
        descriptor => descriptor.map(Some),
    }
}

/// Opens a process or, with [`PIDFD_THREAD`], a thread.
///
/// # Errors
/// `ESRCH` if no process or thread has this number; other errors if there is no descriptor left.
pub(crate) fn open_pidfd(number: u32, flags: libc::c_int) -> nix::Result<OwnedFd> {
    // SAFETY: pidfd_open(2) takes two integers and accesses no memory of this process.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_open, number, flags) };
    let descriptor = i32::try_from(Errno::result(result)?).map_err(|_| Errno::EOVERFLOW)?;
    // SAFETY: `from_raw_fd` requires an open descriptor without another owner. The successful call above has just
    // created it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_name_is_printable() {
        let process = Process {
            pid: 7,
            name: "\x1b[31mX".to_owned(),
        };
        assert_eq!(process.to_string(), "?[31mX (7)");
    }

    #[test]
    fn a_process_is_found_by_its_open_file() {
        let file = tempfile::NamedTempFile::new().expect("a file can be made");
        let path = file.path().to_str().expect("it is text").to_owned();
        let machine = Machine::here();
        let is_own = |process: &Process| process.pid == std::process::id();

        let _open = File::open(&path).expect("it is there");
        assert!(
            find_holders(&machine, |target| target == path)
                .iter()
                .any(is_own)
        );
        assert!(
            !find_holders(&machine, |target| target == "/nonexistent")
                .iter()
                .any(is_own)
        );
    }

    #[test]
    fn a_process_is_watched_until_it_has_ended() {
        let own = watch_process(std::process::id()).expect("there are descriptors");
        assert!(own.is_some());
        // Numbers of processes are below 2^22.
        let none = watch_process(1 << 22).expect("there is no such process");
        assert!(none.is_none());
    }

    #[test]
    fn a_thread_is_watched_by_its_own_descriptor_unless_it_is_the_first() {
        let first = watch_thread(std::process::id()).expect("there are descriptors");
        assert!(matches!(first, ThreadEnd::First), "{first:?}");
        let ended = watch_thread(1 << 22).expect("there is no such thread");
        assert!(matches!(ended, ThreadEnd::Over), "{ended:?}");
        // Tests run in other threads than the first.
        let tid = nix::unistd::gettid().as_raw().unsigned_abs();
        let other = watch_thread(tid).expect("there are descriptors");
        assert!(matches!(other, ThreadEnd::Descriptor(_)), "{other:?}");
        assert!(watch_process(tid).expect("it runs").is_some());
    }
}
