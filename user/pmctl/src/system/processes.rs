// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds processes that have a file open, and opens pidfds.

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

/// Returns a descriptor that becomes readable when a process or a thread ends; `None` if it has ended already.
///
/// # Errors
/// There is no descriptor left.
pub(crate) fn open_pidfd(number: u32) -> nix::Result<Option<OwnedFd>> {
    /// `PIDFD_THREAD` of `<linux/pidfd.h>`.
    const PIDFD_THREAD: libc::c_int = libc::O_EXCL;
    // SAFETY: pidfd_open(2) takes two integers and accesses no memory of this process.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_open, number, PIDFD_THREAD) };
    let descriptor = match Errno::result(result) {
        Err(Errno::ESRCH) => return Ok(None),
        result => i32::try_from(result?).map_err(|_| Errno::EOVERFLOW)?,
    };
    // SAFETY: `from_raw_fd` requires an open descriptor without another owner. The successful call above has just
    // created it.
    Ok(Some(unsafe { OwnedFd::from_raw_fd(descriptor) }))
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
        let own = open_pidfd(std::process::id()).expect("there are descriptors");
        assert!(own.is_some());
        // Numbers of processes are below 2^22.
        let none = open_pidfd(1 << 22).expect("there is no such process");
        assert!(none.is_none());
    }
}
