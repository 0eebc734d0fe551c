// SPDX-License-Identifier: MIT OR Apache-2.0
//! The answer to a call of `perf_event_open(2)`: a descriptor of ours, an error, or the kernel's own.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;
use perfmon::Encoding;
use perfmon::sys::{Driver, EventOpen};

use super::listener::{Listener, Request};
use super::target::Target;

/// An answer.
#[derive(Debug)]
pub(super) enum Answer {
    /// An event of the driver's.
    Event { event: OwnedFd, close_on_exec: bool },
    /// The kernel's perf does it, for this reason.
    Kernel(&'static str),
    /// The call fails: what the driver said, and what the caller is told.
    Error { told: Errno, cause: Errno },
    /// The caller has died.
    Gone,
}

/// `PERF_TYPE_*` that the driver has: hardware events, caches, raw encodings.
const TYPES: [u32; 3] = [0, 3, 4];

/// `PERF_FLAG_*`.
const PID_CGROUP: u64 = 1 << 2;
const FD_CLOEXEC: u64 = 1 << 3;

/// `PERF_ATTR_SIZE_VER0`, and a page, which is the most that the kernel takes.
const SIZES: std::ops::RangeInclusive<usize> = 64..=4096;

/// The attributes, as far as they matter here.
struct Attributes {
    bytes: Vec<u8>,
    kind: u32,
}

/// Asks `driver` for what `request` asks the kernel for. `others`: the program has got events of the driver's.
pub(super) fn answer(
    (driver, others): (&dyn Driver, bool),
    listener: &Listener,
    request: &Request,
) -> Answer {
    let target = Target(request.thread);
    if target.0 == 0 {
        return Answer::Kernel("the caller is in another PID namespace");
    }
    let [attributes, pid, cpu, group, flags, _] = request.arguments;
    // The kernel finds out itself what is wrong with them.
    let Ok(mut attributes) = Attributes::read(target, attributes) else {
        return Answer::Kernel("the attributes can't be read");
    };
    let group = match number(group) {
        -1 => None,
        leader => Some(target.descriptor(leader)),
    };
    let equal = target.has_our_rights();
    if !listener.is_waiting(request) {
        return Answer::Gone;
    }

    let Ok(group) = group.transpose() else {
        return Answer::Kernel("the group's leader can't be looked at");
    };
    if group.as_ref().is_some_and(is_kernels) {
        return Answer::Kernel("the group's leader is an event of the kernel's");
    }
    if !TYPES.contains(&attributes.kind) {
        return match group {
            None => Answer::Kernel("the type of the event is the kernel's"),
            // The kernel does not know the leader. perf takes this for an event that can't be counted so.
            Some(_) => Answer::Error {
                told: Errno::EINVAL,
                cause: Errno::EOPNOTSUPP,
            },
        };
    }
    if flags & PID_CGROUP != 0 {
        return Answer::Kernel("the event is one of a control group");
    }
    if !equal {
        return Answer::Kernel("the caller has other rights than pmctl");
    }
    let Ok(driver_flags) = u32::try_from(flags | FD_CLOEXEC) else {
        return Answer::Kernel("the flags are unknown");
    };
    let opened = driver.open_event(&mut EventOpen {
        attr: &mut attributes.bytes,
        pid: match number(pid) {
            // "The calling thread" would be pmctl.
            0 => target.0,
            pid => pid,
        },
        cpu: number(cpu),
        group: group.as_ref().map(AsFd::as_fd),
        flags: driver_flags,
    });
    match opened {
        Ok(event) => Answer::Event {
            event,
            close_on_exec: flags & FD_CLOEXEC != 0,
        },
        Err(Errno::EOPNOTSUPP | Errno::E2BIG) if group.is_none() => {
            Answer::Kernel("the driver does not count so")
        }
        Err(cause) => Answer::Error {
            told: told(cause, group.is_some(), others),
            cause,
        },
    }
}

/// Returns what the caller is told of the driver's error: what serves a program best that was written for the
/// kernel's perf, which shares the counters in time.
fn told(cause: Errno, in_group: bool, others: bool) -> Errno {
    match cause {
        // The kernel says so of a group that does not fit, and `perf stat` then counts its events one by one.
        Errno::EBUSY | Errno::EOPNOTSUPP | Errno::E2BIG if in_group => Errno::EINVAL,
        // The kernel says EBUSY if it has no counters at all, and perf ends with a message. At ENOENT it writes
        // <not supported> and counts the other events.
        Errno::EBUSY if others => Errno::ENOENT,
        cause => cause,
    }
}

/// Returns the event that the attributes at `address` ask for, for people.
pub(super) fn event_in_words(target: Target, address: u64) -> String {
    let Ok(attributes) = Attributes::read(target, address) else {
        return "attributes that can't be read".to_owned();
    };
    let config = attributes.bytes.get(8..16).map(<[u8; 8]>::try_from);
    let Some(Ok(config)) = config else {
        return "attributes without an event".to_owned();
    };
    event_name(attributes.kind, u64::from_ne_bytes(config))
}

/// Returns the name of an event of `PERF_TYPE_*`.
fn event_name(kind: u32, config: u64) -> String {
    match (kind, u32::try_from(config)) {
        (0, Ok(number)) => Encoding::Hardware(number).to_string(),
        (3, Ok(number)) => Encoding::Cache(number).to_string(),
        (4, _) => format!("r{config:x}"),
        _ => format!("type {kind}, config {config:#x}"),
    }
}

impl Attributes {
    /// Reads `struct perf_event_attr` of its own size.
    fn read(target: Target, address: u64) -> Result<Self, Errno> {
        let head = target.read(address, 8)?;
        let word = |bytes: &[u8]| bytes.try_into().map(u32::from_ne_bytes);
        let (Ok(kind), Ok(size)) = (word(&head[..4]), word(&head[4..])) else {
            return Err(Errno::EINVAL);
        };
        let size = match size {
            0 => *SIZES.start(),
            size => usize::try_from(size).or(Err(Errno::E2BIG))?,
        };
        if !SIZES.contains(&size) {
            return Err(Errno::E2BIG);
        }
        let mut bytes = target.read(address, size)?;
        // Between the two readings another thread may have changed it: the first counts.
        bytes[..8].copy_from_slice(&head);
        Ok(Self { bytes, kind })
    }
}

/// Returns whether a descriptor is an event of the kernel's perf.
fn is_kernels(descriptor: &OwnedFd) -> bool {
    let name = format!("/proc/thread-self/fd/{}", descriptor.as_raw_fd());
    fs::read_link(name).is_ok_and(|target| target.as_os_str() == "anon_inode:[perf_event]")
}

/// Returns an argument that is an `int`: its upper half says nothing.
#[expect(clippy::cast_possible_truncation, reason = "the kernel does the same")]
pub(super) const fn number(argument: u64) -> i32 {
    argument as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_names() {
        assert_eq!(event_name(0, 1), "instructions");
        assert_eq!(event_name(3, 0x1_0000), "L1-dcache-load-misses");
        assert_eq!(event_name(4, 0x1c0), "r1c0");
        assert_eq!(event_name(1, 2), "type 1, config 0x2");
        assert_eq!(event_name(0, 1 << 32), "type 0, config 0x100000000");
    }

    #[test]
    fn a_program_is_told_what_it_knows_from_the_kernel() {
        use Errno as E;
        assert_eq!(told(E::EBUSY, false, false), E::EBUSY);
        assert_eq!(told(E::EBUSY, false, true), E::ENOENT);
        assert_eq!(told(E::EBUSY, true, true), E::EINVAL);
        assert_eq!(told(E::EOPNOTSUPP, true, true), E::EINVAL);
        for errno in [E::EACCES, E::EPERM, E::EINVAL, E::ESRCH, E::EMFILE] {
            assert_eq!(told(errno, true, true), errno);
            assert_eq!(told(errno, false, true), errno);
        }
    }
}
