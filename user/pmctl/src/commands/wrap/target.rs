// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread whose call is answered: its memory, its descriptors, its rights.
//!
//! These facts are looked up by TID. Call
//! [`Listener::is_waiting`](super::listener::Listener::is_waiting) afterwards: if the thread still
//! waits, the TID was that of the thread all the time.

use std::fs;
use std::io::IoSliceMut;
use std::iter;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use nix::errno::Errno;
use nix::libc;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

use crate::system::files::read_lossy;
use crate::system::processes::{PIDFD_THREAD, open_pidfd};

/// The TID of a thread, in pmctl's PID namespace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tid(pub(super) i32);

/// The identity of a thread, also after its TID is reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ThreadId {
    tid: i32,
    /// Start time of the thread in clock ticks since boot.
    start: u64,
}

impl ThreadId {
    /// Returns the thread's TID.
    pub(super) fn tid(self) -> Tid {
        Tid(self.tid)
    }

    /// Returns whether the thread has not ended.
    pub(super) fn is_alive(self) -> bool {
        self.tid().identity() == Some(self)
    }
}

impl Tid {
    /// Returns the identity of the thread that has this TID now; `None` if no thread has it.
    pub(super) fn identity(self) -> Option<ThreadId> {
        let stat = read_lossy(self.folder().join("stat")).ok()?;
        Some(ThreadId {
            tid: self.0,
            start: field_of_stat(&stat, START_FIELD)?,
        })
    }

    /// Returns the first thread of the thread's process; `None` if no thread has this TID now.
    pub(super) fn process(self) -> Option<ThreadId> {
        let status = self.status()?;
        let first_thread = status_field(&status, "Tgid:")?.parse().ok()?;
        Self(first_thread).identity()
    }

    /// Returns the CPU that the thread has run on last.
    pub(super) fn cpu(self) -> Option<usize> {
        let stat = read_lossy(self.folder().join("stat")).ok()?;
        field_of_stat(&stat, CPU_FIELD)
    }

    /// Returns copies of the thread's descriptors of driver events. Leaves out descriptors that can't be copied.
    pub(super) fn driver_events(self) -> impl Iterator<Item = OwnedFd> {
        let folder = fs::read_dir(self.folder().join("fd")).into_iter();
        let numbers = folder.flatten().flatten().filter_map(|entry| {
            let file = fs::read_link(entry.path()).ok()?;
            let number = entry.file_name().to_str()?.parse().ok()?;
            (file.as_os_str() == DRIVER_EVENT_LINK).then_some(number)
        });
        let copies = numbers.map(move |number| self.copy_descriptor(number));
        // Another thread may have closed a descriptor meanwhile, and opened another file with its number.
        copies.flatten().filter(is_driver_event)
    }

    /// Returns whether the thread has an event of the driver now.
    pub(super) fn has_driver_events(self) -> bool {
        self.driver_events().next().is_some()
    }

    /// Returns whether the thread has mapped the ring or the page of an event of the kernel's perf.
    pub(super) fn maps_kernel_event(self) -> bool {
        let maps = read_lossy(self.folder().join("maps"));
        maps.is_ok_and(|maps| maps.lines().any(|line| line.ends_with(KERNEL_EVENT_LINK)))
    }

    /// Returns whether the thread's descriptor `number` is an event of the driver.
    pub(super) fn has_driver_event(self, number: i32) -> bool {
        self.copy_descriptor(number)
            .is_ok_and(|copy| is_driver_event(&copy))
    }

    /// Returns `length` bytes of the thread's memory.
    pub(super) fn read_memory(self, address: u64, length: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; length];
        let remote_range = RemoteIoVec {
            base: usize::try_from(address).or(Err(Errno::EFAULT))?,
            len: length,
        };
        let read_length = process_vm_readv(
            Pid::from_raw(self.0),
            &mut [IoSliceMut::new(&mut bytes)],
            &[remote_range],
        )?;
        if read_length < length {
            return Err(Errno::EFAULT);
        }
        Ok(bytes)
    }

    /// Returns a copy of the thread's descriptor `number`.
    pub(super) fn copy_descriptor(self, number: i32) -> Result<OwnedFd, Errno> {
        let tid = u32::try_from(self.0).or(Err(Errno::ESRCH))?;
        let pidfd = open_pidfd(tid, PIDFD_THREAD)?;
        // SAFETY: pidfd_getfd(2) takes three numbers, and accesses no memory of the caller.
        owned_descriptor(unsafe {
            libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), number, 0)
        })
    }

    /// Returns whether the thread has exactly the rights of this process, in the same user and PID namespaces.
    pub(super) fn has_our_rights(self) -> bool {
        let target_folder = self.folder();
        let own_folder = Path::new("/proc/thread-self");
        let links = ["ns/user", "ns/pid"];
        read_rights(&target_folder).is_some_and(|rights| Some(rights) == read_rights(own_folder))
            && links.iter().all(|name| {
                let link = |folder: &Path| fs::read_link(folder.join(name)).ok();
                link(&target_folder)
                    .is_some_and(|target_link| Some(target_link) == link(own_folder))
            })
    }

    /// Returns whether the kernel would let the thread count `task`, by the facts that /proc shows.
    /// The thread must have this process's rights.
    ///
    /// A thread may be in a Landlock domain, which /proc does not show. The kernel allows such a thread events of its
    /// own process and of children in the domain, and with `CAP_PERFMON` events of all tasks.
    pub(super) fn may_count(self, task: i32) -> bool {
        self.is_ancestor_of(task) || self.may_count_all()
    }

    /// Returns whether `task` belongs to the thread's process, or to a descendant.
    fn is_ancestor_of(self, task: i32) -> bool {
        /// No process tree is this deep. A process ID that is reused meanwhile can make a cycle.
        const MAX_DEPTH: usize = 1000;
        let number = |task: Self, name| status_field(&task.status()?, name)?.parse::<i32>().ok();
        let Some(own) = number(self, "Tgid:") else {
            return false;
        };
        let process = number(Self(task), "Tgid:");
        let parent = |process: &i32| number(Self(*process), "PPid:").filter(|parent| *parent > 0);
        let mut processes = iter::successors(process, parent).take(MAX_DEPTH);
        processes.any(|process| process == own)
    }

    /// Returns whether the thread has `CAP_PERFMON` or `CAP_SYS_ADMIN` in the initial user namespace.
    fn may_count_all(self) -> bool {
        /// The number of the initial user namespace, `PROC_USER_INIT_INO`: the kernel asks for capabilities in it.
        const INITIAL_USER_NAMESPACE: &str = "user:[4026531837]";
        let namespace = fs::read_link(self.folder().join("ns/user"));
        namespace.is_ok_and(|name| name.as_os_str() == INITIAL_USER_NAMESPACE)
            && self
                .status()
                .is_some_and(|status| has_perfmon_capability(&status))
    }

    /// Returns the content of /proc/PID/status.
    fn status(self) -> Option<String> {
        read_lossy(self.folder().join("status")).ok()
    }

    /// Returns the thread's name; `?` if it can't be read.
    pub(super) fn name(self) -> String {
        let name = read_lossy(self.folder().join("comm"));
        name.map_or_else(|_| "?".to_owned(), |name| name.trim_end().to_owned())
    }

    fn folder(self) -> PathBuf {
        PathBuf::from(format!("/proc/{}", self.0))
    }
}

/// The link in /proc/PID/fd for an event of the driver.
const DRIVER_EVENT_LINK: &str = "anon_inode:[perfmon_event]";
/// The link in /proc/PID/fd for an event of the kernel's perf.
const KERNEL_EVENT_LINK: &str = "anon_inode:[perf_event]";

/// Returns whether a descriptor is an event of the driver.
fn is_driver_event(descriptor: &OwnedFd) -> bool {
    has_link(descriptor, DRIVER_EVENT_LINK)
}

/// Returns whether a descriptor is an event of the kernel's perf.
pub(super) fn is_kernel_event(descriptor: &OwnedFd) -> bool {
    has_link(descriptor, KERNEL_EVENT_LINK)
}

fn has_link(descriptor: &OwnedFd, name: &str) -> bool {
    let link = format!("/proc/thread-self/fd/{}", descriptor.as_raw_fd());
    fs::read_link(link).is_ok_and(|target| target.as_os_str() == name)
}

/// The start time in /proc/PID/stat, as a field number of `proc_pid_stat(5)`.
const START_FIELD: usize = 22;
/// The last CPU in /proc/PID/stat, as a field number of `proc_pid_stat(5)`.
const CPU_FIELD: usize = 39;

/// Returns a field of a task's line in /proc/PID/stat.
fn field_of_stat<T: FromStr>(stat: &str, field: usize) -> Option<T> {
    /// The number of the first field after the name, which is in parentheses and may contain parentheses itself.
    const FIRST_FIELD: usize = 3;
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    fields.nth(field - FIRST_FIELD)?.parse().ok()
}

/// Returns the IDs, capabilities and security label that a task's rights depend on; `None` if /proc does not show them.
fn read_rights(folder: &Path) -> Option<(Vec<String>, Option<String>)> {
    const RIGHTS_LINES: [&str; 5] = ["Uid:", "Gid:", "Groups:", "CapPrm:", "CapEff:"];
    let status = read_lossy(folder.join("status")).ok()?;
    let lines = status
        .lines()
        .filter(|line| RIGHTS_LINES.iter().any(|name| line.starts_with(name)));
    let lines: Vec<String> = lines.map(str::to_owned).collect();
    let label = read_lossy(folder.join("attr/current")).ok();
    (lines.len() == RIGHTS_LINES.len()).then_some((lines, label))
}

/// Returns the value of a line of /proc/PID/status.
fn status_field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = status.lines();
    lines
        .find_map(|line| line.strip_prefix(name))
        .map(str::trim)
}

/// Returns whether a task has `CAP_PERFMON` or `CAP_SYS_ADMIN`, by its status.
fn has_perfmon_capability(status: &str) -> bool {
    const PERFMON: u64 = 1 << 38;
    const SYS_ADMIN: u64 = 1 << 21;
    let capabilities =
        status_field(status, "CapEff:").and_then(|mask| u64::from_str_radix(mask, 16).ok());
    capabilities.is_some_and(|mask| mask & (PERFMON | SYS_ADMIN) != 0)
}

/// Returns the descriptor that a system call has created.
fn owned_descriptor(result: libc::c_long) -> Result<OwnedFd, Errno> {
    let number = i32::try_from(Errno::result(result)?).or(Err(Errno::EBADF))?;
    // SAFETY: `from_raw_fd` requires an open descriptor without another owner. The system call has just created
    // `number`.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::os::unix::net::UnixStream;

    fn current_thread() -> Tid {
        Tid(nix::unistd::gettid().as_raw())
    }

    #[test]
    fn memory_is_read_or_the_address_is_wrong() {
        let bytes = *b"some bytes";
        let address = bytes.as_ptr() as u64;
        assert_eq!(
            current_thread().read_memory(address, bytes.len()),
            Ok(bytes.to_vec())
        );
        assert_eq!(current_thread().read_memory(8, 8), Err(Errno::EFAULT));
    }

    #[test]
    fn a_thread_is_known_by_its_start() {
        let fields: Vec<String> = (3..=52).map(|field: u32| field.to_string()).collect();
        let stat = format!("7 (a) name) {}\n", fields.join(" "));
        assert_eq!(field_of_stat(&stat, START_FIELD), Some(22));
        assert_eq!(field_of_stat(&stat, CPU_FIELD), Some(39));
        assert_eq!(field_of_stat::<u64>("", START_FIELD), None);
        assert_eq!(current_thread().identity(), current_thread().identity());
        assert!(current_thread().identity().is_some());
        assert_eq!(Tid(0).identity(), None);
    }

    #[test]
    fn a_socket_is_no_event() {
        let (read, _write) = UnixStream::pair().expect("a pair can be made");
        assert!(!current_thread().has_driver_event(read.as_raw_fd()));
        assert!(!current_thread().has_driver_event(-1));
    }

    #[test]
    fn a_descriptor_is_copied() {
        let (mut read, mut write) = UnixStream::pair().expect("a pair can be made");
        let copy = current_thread()
            .copy_descriptor(read.as_raw_fd())
            .expect("it is open");
        assert_ne!(copy.as_raw_fd(), read.as_raw_fd());
        write.write_all(b"x").expect("it is open");
        let mut byte = [0];
        let mut copy = UnixStream::from(copy);
        copy.read_exact(&mut byte).expect("it is the same socket");
        drop(write);
        let byte_count = read.read(&mut byte).expect("it is open");
        assert_eq!(byte_count, 0, "the byte was there once");
        assert_eq!(
            current_thread().copy_descriptor(-1).err(),
            Some(Errno::EBADF)
        );
    }

    #[test]
    fn a_task_has_its_own_rights_and_a_missing_task_has_none() {
        assert!(current_thread().has_our_rights());
        assert!(!Tid(0).has_our_rights(), "no task has this number");
    }

    #[test]
    fn rights_differ_if_the_groups_differ() {
        let rights_with = |groups: &str| {
            let folder = tempfile::tempdir().expect("a folder can be made");
            let status = format!(
                "Uid:\t1 1 1 1\nGid:\t1 1 1 1\nGroups:\t{groups}\nCapPrm:\t0\nCapEff:\t0\n"
            );
            fs::write(folder.path().join("status"), status).expect("it can be written");
            read_rights(folder.path()).expect("all lines are there")
        };
        assert_eq!(rights_with("1 27"), rights_with("1 27"));
        assert_ne!(rights_with("1 27"), rights_with("1"));
    }

    #[test]
    fn a_task_may_count_its_process_and_descendants() {
        let start = || {
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", "sleep 60 & echo $!; wait"]);
            let mut shell = shell.stdout(std::process::Stdio::piped()).spawn();
            let shell = shell.as_mut().expect("there is one");
            let mut line = String::new();
            let output = shell.stdout.take().expect("it is a pipe");
            BufReader::new(output)
                .read_line(&mut line)
                .expect("it is text");
            let pid = |number: &str| number.trim().parse::<i32>().expect("it is a number");
            (pid(&shell.id().to_string()), pid(&line))
        };
        let ((shell, sleep), (other, other_sleep)) = (start(), start());
        let process = Tid(nix::unistd::getpid().as_raw());
        assert!(
            current_thread().is_ancestor_of(process.0),
            "it is a thread of it"
        );
        for task in [shell, sleep, other] {
            assert!(current_thread().is_ancestor_of(task), "{task}");
        }
        assert!(Tid(shell).is_ancestor_of(sleep));
        for task in [other, other_sleep, process.0, 1, 0] {
            assert!(!Tid(shell).is_ancestor_of(task), "{task}");
        }
        for task in [sleep, shell, other_sleep, other] {
            nix::sys::signal::kill(Pid::from_raw(task), nix::sys::signal::SIGKILL)
                .expect("it is ours");
        }
    }

    #[test]
    fn with_a_capability_all_can_be_counted() {
        for (mask, all) in [
            ("0000000000000000", false),
            ("000001ffffffffff", true),
            ("0000004000000000", true),
            ("0000000000200000", true),
            ("000001bfffdfffff", false),
        ] {
            assert_eq!(
                has_perfmon_capability(&format!("Name:\tx\nCapEff:\t{mask}\n")),
                all
            );
        }
    }
}
