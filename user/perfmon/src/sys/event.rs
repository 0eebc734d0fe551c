// SPDX-License-Identifier: MIT OR Apache-2.0
//! System calls that open, control and read events.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::unistd::read;
use perfmon_core::abi;
use zerocopy::IntoBytes;

/// The arguments of `perf_event_open(2)`, for [`Driver::open_event`](super::Driver::open_event).
#[derive(Debug)]
pub struct EventOpen<'a> {
    /// A `struct perf_event_attr` with as many bytes as its member `size` says. If bytes beyond the size that the driver
    /// knows are not 0, opening fails with E2BIG, and the driver sets `size` to the size that it knows.
    pub attr: &'a mut [u8],
    /// The task: 0 is the calling thread, -1 all tasks on `cpu`, any other number the thread with this ID. With
    /// `PERF_FLAG_PID_CGROUP` it is a descriptor of a cgroup's directory.
    pub pid: i32,
    /// The CPU to count on; -1 is any CPU.
    pub cpu: i32,
    /// The leader of the group; `None` opens an event that leads its own group.
    pub group: Option<BorrowedFd<'a>>,
    /// The flags: `PERF_FLAG_*` and `PERFMON_EVENT_ROTATE`.
    pub flags: u32,
}

/// `PERF_ATTR_SIZE_VER0`, which a `size` of 0 means.
const ATTR_SIZE_VER0: usize = 64;

impl EventOpen<'_> {
    /// Returns the size of the attributes by their member `size`; `None` if `attr` has fewer bytes.
    fn size(&self) -> Option<usize> {
        let size = u32::from_ne_bytes(*self.attr.get(4..)?.first_chunk()?);
        let size = if size == 0 {
            ATTR_SIZE_VER0
        } else {
            usize::try_from(size).ok()?
        };
        (size <= self.attr.len()).then_some(size)
    }

    /// Opens the event on the device.
    pub(super) fn open(&mut self, device: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
        if self.size().is_none() {
            return Err(Errno::EINVAL);
        }
        let raw = abi::perfmon_event_open {
            attr: self.attr.as_mut_ptr() as u64,
            pid: self.pid,
            cpu: self.cpu,
            group_fd: self.group.map_or(-1, |leader| leader.as_raw_fd()),
            flags: self.flags,
            reserved: [0; 2],
        };
        // SAFETY: `event_open` requires an open descriptor, a pointer to the ioctl's structure, and memory that the
        // kernel may access through it. The number and the structure come from the header, and `raw` outlives the call.
        // The kernel reads as many bytes of `attr` as its member `size` says, or 64 if that is 0, and writes to the
        // member `size`. `attr` has at least that many bytes, as checked above, and is borrowed for writing, so nothing
        // else changes `size` meanwhile.
        let fd = unsafe { ioctl::event_open(device.as_raw_fd(), &raw const raw) }?;
        // SAFETY: `from_raw_fd` requires an open descriptor that nothing else owns: the driver has just created it for
        // this call.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// An ioctl of an event, as `perf_event_open(2)` describes it.
///
/// With `group` the call applies to all events of the group that the event leads.
#[derive(Debug)]
#[non_exhaustive]
pub enum EventCall<'a> {
    /// `PERF_EVENT_IOC_ENABLE`.
    #[expect(missing_docs, reason = "documented with the enum")]
    Enable { group: bool },
    /// `PERF_EVENT_IOC_DISABLE`.
    #[expect(missing_docs, reason = "documented with the enum")]
    Disable { group: bool },
    /// `PERF_EVENT_IOC_RESET`.
    #[expect(missing_docs, reason = "documented with the enum")]
    Reset { group: bool },
    /// `PERF_EVENT_IOC_ID`.
    Id(&'a mut u64),
    /// `PERF_EVENT_IOC_PAUSE_OUTPUT`: stops writing to the event's ring if `true`, and resumes it if `false`.
    Pause(bool),
    /// `PERF_EVENT_IOC_SET_OUTPUT`: redirects the event's records to the ring of this event.
    SetOutput(BorrowedFd<'a>),
}

impl EventCall<'_> {
    /// Executes the ioctl.
    pub(super) fn call(self, event: BorrowedFd<'_>) -> Result<(), Errno> {
        let fd = event.as_raw_fd();
        // SAFETY: The ioctls require an open descriptor and the argument of their number. The descriptor is open as
        // long as it is borrowed. All calls but ID take a number instead of a pointer. ID writes 64 bits through a
        // pointer, which comes from a reference to a `u64` that is valid for the call. A file that is not an event
        // rejects these ioctls, because their letter belongs to perf.
        let result = unsafe {
            match self {
                Self::Enable { group } => ioctl::enable(fd, group_flag(group)),
                Self::Disable { group } => ioctl::disable(fd, group_flag(group)),
                Self::Reset { group } => ioctl::reset(fd, group_flag(group)),
                Self::Id(id) => ioctl::id(fd, id),
                Self::Pause(paused) => ioctl::pause_output(fd, i32::from(paused)),
                Self::SetOutput(other) => ioctl::set_output(fd, other.as_raw_fd()),
            }
        };
        result.map(drop)
    }
}

/// Returns `PERF_IOC_FLAG_GROUP` (1) for a group, else 0.
const fn group_flag(group: bool) -> libc::c_int {
    group as libc::c_int
}

/// Reads an event by read(2), and returns the number of words that were read.
pub(super) fn read_event(event: BorrowedFd<'_>, words: &mut [u64]) -> Result<usize, Errno> {
    Ok(read(event.as_fd(), words.as_mut_bytes())? / size_of::<u64>())
}

/// Reads the number of tasks that an event has stopped counting, from the descriptor's fdinfo in /proc.
pub(super) fn tasks_not_followed(event: BorrowedFd<'_>) -> Result<u64, Errno> {
    let path = format!("/proc/thread-self/fdinfo/{}", event.as_raw_fd());
    let text = fs::read_to_string(path);
    let text = text.map_err(|error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw))?;
    Ok(parse_tasks_not_followed(&text))
}

/// Returns the number of tasks that an event has stopped counting, which is in the line `left:` of its descriptor's fdinfo;
/// 0 without this line.
#[must_use]
pub fn parse_tasks_not_followed(text: &str) -> u64 {
    let mut lines = text.lines();
    let number = lines.find_map(|line| line.strip_prefix("left:"));
    number.map_or(0, |number| number.trim().parse().unwrap_or(0))
}

/// The ioctls. The letter and the numbers of perf's ioctls are those of `<linux/perf_event.h>`.
mod ioctl {
    use nix::{
        ioctl_read, ioctl_write_int_bad, ioctl_write_ptr_bad, request_code_none, request_code_write,
    };
    use perfmon_core::abi;

    ioctl_write_ptr_bad!(event_open, abi::PERFMON_EVENT_OPEN, abi::perfmon_event_open);
    ioctl_write_int_bad!(enable, request_code_none!(b'$', 0));
    ioctl_write_int_bad!(disable, request_code_none!(b'$', 1));
    ioctl_write_int_bad!(reset, request_code_none!(b'$', 3));
    ioctl_write_int_bad!(set_output, request_code_none!(b'$', 5));
    ioctl_read!(id, b'$', 7, u64);
    // Encoded as a call that takes a pointer, but its argument is the number itself.
    ioctl_write_int_bad!(pause_output, request_code_write!(b'$', 9, size_of::<u32>()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_tasks_not_followed_is_in_fdinfo() {
        assert_eq!(
            parse_tasks_not_followed("pos:\t0\nenabled:\t1\nleft:\t7\n"),
            7
        );
        assert_eq!(parse_tasks_not_followed("pos:\t0\nflags:\t02\n"), 0);
    }

    #[test]
    fn a_size_beyond_the_bytes_is_refused() {
        let size = |size: u32, bytes: usize| {
            let mut attr = vec![0; bytes];
            if bytes >= 8 {
                attr[4..8].copy_from_slice(&size.to_ne_bytes());
            }
            let (pid, cpu, group, flags) = (0, -1, None, 0);
            let arguments = EventOpen {
                attr: &mut attr,
                pid,
                cpu,
                group,
                flags,
            };
            arguments.size()
        };
        assert_eq!(size(0, 64), Some(64));
        assert_eq!(size(0, 63), None);
        assert_eq!(size(72, 72), Some(72));
        assert_eq!(size(72, 71), None);
        assert_eq!(size(u32::MAX, 64), None);
        assert_eq!(size(0, 7), None);
    }
}
