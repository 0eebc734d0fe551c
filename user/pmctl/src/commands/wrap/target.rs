// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread whose call is answered: its memory, its descriptors, its rights.
//!
//! All of it is by the thread's number. Ask [`Listener::is_waiting`](super::listener::Listener::is_waiting)
//! afterwards: if the thread still waits, the number was its own all the time.

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

/// A thread by its number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tid(pub(super) i32);

/// A thread, whatever has its number later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ThreadId {
    number: i32,
    /// When it began, in ticks of the kernel's clock.
    start: u64,
}

impl ThreadId {
    /// Returns the thread that has the number now.
    pub(super) fn target(self) -> Tid {
        Tid(self.number)
    }
}

impl Tid {
    /// Returns which thread has the number now; `None` if none has.
    pub(super) fn id(self) -> Option<ThreadId> {
        let stat = read_lossy(self.folder().join("stat")).ok()?;
        Some(ThreadId {
            number: self.0,
            start: field_of_stat(&stat, START_FIELD)?,
        })
    }

    /// Returns the CPU that it has run on last.
    pub(super) fn cpu(self) -> Option<usize> {
        let stat = read_lossy(self.folder().join("stat")).ok()?;
        field_of_stat(&stat, CPU)
    }

    /// Returns copies of its descriptors of events of the driver's; without those that can't be looked at.
    pub(super) fn events(self) -> Vec<OwnedFd> {
        let Ok(folder) = fs::read_dir(self.folder().join("fd")) else {
            return Vec::new();
        };
        let numbers = folder.flatten().filter_map(|entry| {
            let file = fs::read_link(entry.path()).ok()?;
            let number = entry.file_name().to_str()?.parse().ok()?;
            (file.as_os_str() == DRIVER_EVENT_LINK).then_some(number)
        });
        let copies = numbers.map(|number| self.descriptor(number));
        // Another thread may have closed it meanwhile, and opened something else.
        copies.flatten().filter(is_event).collect()
    }

    /// Returns whether one of its descriptors is an event of the driver's.
    pub(super) fn has_event(self, number: i32) -> bool {
        self.descriptor(number).is_ok_and(|copy| is_event(&copy))
    }

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
        const PIDFD_THREAD: i32 = libc::O_EXCL;
        // SAFETY: The call takes two numbers and no memory.
        let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, self.0, PIDFD_THREAD) };
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

    /// Returns whether the kernel would let it have events of task `other`, as far as /proc tells; it has this process's
    /// rights.
    ///
    /// A task may have taken rights from itself that /proc does not show, by Landlock. Then the kernel gives it events
    /// of its own process, and of children that it has confined with it. With `CAP_PERFMON` it has those of all.
    pub(super) fn may_count(self, other: i32) -> bool {
        self.is_ancestor_of(other) || self.may_count_all()
    }

    /// Returns whether a task is one of its process, or one of a descendant.
    fn is_ancestor_of(self, other: i32) -> bool {
        /// No process tree is this deep. A process ID that is reused meanwhile can make a cycle.
        const MAX_DEPTH: usize = 1000;
        let number = |task: Self, name| field(&task.status()?, name)?.parse::<i32>().ok();
        let Some(own) = number(self, "Tgid:") else {
            return false;
        };
        let process = number(Self(other), "Tgid:");
        let parent = |process: &i32| number(Self(*process), "PPid:").filter(|parent| *parent > 0);
        let mut processes = iter::successors(process, parent).take(MAX_DEPTH);
        processes.any(|process| process == own)
    }

    fn may_count_all(self) -> bool {
        /// The number of the initial user namespace, `PROC_USER_INIT_INO`: the kernel asks for capabilities in it.
        const INITIAL_USER_NAMESPACE: &str = "user:[4026531837]";
        let namespace = fs::read_link(self.folder().join("ns/user"));
        namespace.is_ok_and(|name| name.as_os_str() == INITIAL_USER_NAMESPACE)
            && self.status().is_some_and(|status| can_see_all(&status))
    }

    fn status(self) -> Option<String> {
        read_lossy(self.folder().join("status")).ok()
    }

    /// Returns its name.
    pub(super) fn name(self) -> String {
        let name = read_lossy(self.folder().join("comm"));
        name.map_or_else(|_| "?".to_owned(), |name| name.trim_end().to_owned())
    }

    fn folder(self) -> PathBuf {
        PathBuf::from(format!("/proc/{}", self.0))
    }
}

/// What a descriptor of the driver's events, and one of the kernel's, is called.
const DRIVER_EVENT_LINK: &str = "anon_inode:[perfmon_event]";
const KERNEL_EVENT_LINK: &str = "anon_inode:[perf_event]";

/// Returns whether a descriptor is an event of the driver's.
fn is_event(descriptor: &OwnedFd) -> bool {
    is_file(descriptor, DRIVER_EVENT_LINK)
}

/// Returns whether a descriptor is an event of the kernel's perf.
pub(super) fn is_kernels(descriptor: &OwnedFd) -> bool {
    is_file(descriptor, KERNEL_EVENT_LINK)
}

fn is_file(descriptor: &OwnedFd, name: &str) -> bool {
    let link = format!("/proc/thread-self/fd/{}", descriptor.as_raw_fd());
    fs::read_link(link).is_ok_and(|target| target.as_os_str() == name)
}

/// Fields of /proc/PID/stat, numbered as in `proc_pid_stat(5)`: when the task began, and its last CPU.
const START_FIELD: usize = 22;
const CPU: usize = 39;

/// Returns a field of a task's line in /proc/PID/stat.
fn field_of_stat<T: FromStr>(stat: &str, field: usize) -> Option<T> {
    /// The first one behind the name, which stands in parentheses and may have some itself.
    const FIRST_FIELD: usize = 3;
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    fields.nth(field - FIRST_FIELD)?.parse().ok()
}

/// Returns what the kernel and its security modules judge a task by; `None` if it is not shown.
fn rights(folder: &Path) -> Option<(Vec<String>, Option<String>)> {
    const RIGHTS_LINES: [&str; 5] = ["Uid:", "Gid:", "Groups:", "CapPrm:", "CapEff:"];
    let status = read_lossy(folder.join("status")).ok()?;
    let lines = status
        .lines()
        .filter(|line| RIGHTS_LINES.iter().any(|name| line.starts_with(name)));
    let lines: Vec<String> = lines.map(str::to_owned).collect();
    let label = read_lossy(folder.join("attr/current")).ok();
    (lines.len() == RIGHTS_LINES.len()).then_some((lines, label))
}

/// Returns what a line of /proc/PID/status says.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = status.lines();
    lines
        .find_map(|line| line.strip_prefix(name))
        .map(str::trim)
}

/// Returns whether a task has `CAP_PERFMON` or `CAP_SYS_ADMIN`, by its status.
fn can_see_all(status: &str) -> bool {
    const PERFMON: u64 = 1 << 38;
    const SYS_ADMIN: u64 = 1 << 21;
    let capabilities = field(status, "CapEff:").and_then(|mask| u64::from_str_radix(mask, 16).ok());
    capabilities.is_some_and(|mask| mask & (PERFMON | SYS_ADMIN) != 0)
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
    use std::io::{BufRead, BufReader, Read, Write};
    use std::os::unix::net::UnixStream;

    fn this() -> Tid {
        Tid(nix::unistd::gettid().as_raw())
    }

    #[test]
    fn memory_is_read_or_the_address_is_wrong() {
        let bytes = *b"some bytes";
        let address = bytes.as_ptr() as u64;
        assert_eq!(this().read(address, bytes.len()), Ok(bytes.to_vec()));
        assert_eq!(this().read(8, 8), Err(Errno::EFAULT));
    }

    #[test]
    fn a_thread_is_known_by_its_start() {
        let fields: Vec<String> = (3..=52).map(|field: u32| field.to_string()).collect();
        let stat = format!("7 (a) name) {}\n", fields.join(" "));
        assert_eq!(field_of_stat(&stat, START_FIELD), Some(22));
        assert_eq!(field_of_stat(&stat, CPU), Some(39));
        assert_eq!(field_of_stat::<u64>("", START_FIELD), None);
        assert_eq!(this().id(), this().id());
        assert!(this().id().is_some());
        assert_eq!(Tid(0).id(), None);
    }

    #[test]
    fn a_socket_is_no_event() {
        let (read, _write) = UnixStream::pair().expect("a pair can be made");
        assert!(!this().has_event(read.as_raw_fd()));
        assert!(!this().has_event(-1));
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
        assert!(!Tid(0).has_our_rights(), "no task has this number");
    }

    #[test]
    fn another_group_is_another_right() {
        let of = |groups: &str| {
            let folder = tempfile::tempdir().expect("a folder can be made");
            let status = format!(
                "Uid:\t1 1 1 1\nGid:\t1 1 1 1\nGroups:\t{groups}\nCapPrm:\t0\nCapEff:\t0\n"
            );
            fs::write(folder.path().join("status"), status).expect("it can be written");
            rights(folder.path()).expect("all lines are there")
        };
        assert_eq!(of("1 27"), of("1 27"));
        assert_ne!(of("1 27"), of("1"));
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
        assert!(this().is_ancestor_of(process.0), "it is a thread of it");
        for task in [shell, sleep, other] {
            assert!(this().is_ancestor_of(task), "{task}");
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
            assert_eq!(can_see_all(&format!("Name:\tx\nCapEff:\t{mask}\n")), all);
        }
    }
}
