// SPDX-License-Identifier: MIT OR Apache-2.0
//! The answer to a call of `perf_event_open(2)`: a descriptor of ours, an error, or the kernel's own.

use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use perfmon::sys::{Driver, EventOpen};
use perfmon::{Encoding, Pmu};

use super::listener::{Listener, Request};
use super::target::{Target, is_kernels};

/// An answer.
#[derive(Debug)]
pub(super) enum Answer {
    /// An event of the driver's.
    Event {
        event: OwnedFd,
        close_on_exec: bool,
        /// It is sampled, and was to tell what programs map.
        lacks_maps: bool,
        /// No counter of this PMU counts it: it stays at 0.
        is_idle: bool,
    },
    /// The kernel's perf does it, for this reason.
    Kernel(&'static str),
    /// The call fails: what the driver said, and what the caller is told.
    Error { told: Errno, cause: Errno },
    /// The caller has died.
    Gone,
}

/// `PERF_TYPE_*` that the driver has: hardware events, caches, raw encodings.
const TYPES: [u32; 3] = [0, 3, RAW];
const RAW: u32 = 4;

/// Offsets in `struct perf_event_attr`.
const CONFIG: usize = 8;
const PERIOD: usize = 16;
const FLAGS: usize = 40;

/// Its flags: modes; mappings, also in the long form; tasks; a frequency instead of a period.
const EXCLUDE_USER: u64 = 1 << 4;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const MMAP: u64 = 1 << 8;
const MMAP2: u64 = 1 << 23;
const TASK: u64 = 1 << 13;
const FREQUENCY: u64 = 1 << 10;

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
    (driver, pmu, others): (&dyn Driver, &Pmu, bool),
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
    let pid = match number(pid) {
        // "The calling thread" would be pmctl.
        0 => target.0,
        pid => pid,
    };
    let foreign = if !target.has_our_rights() {
        Some("the caller has other rights than pmctl")
    } else if pid > 0 && !target.may_count(pid) {
        Some("the event is of a task that is not the caller's, which has no CAP_PERFMON")
    } else {
        None
    };
    if !listener.is_waiting(request) {
        return Answer::Gone;
    }

    let Ok(group) = group.transpose() else {
        return Answer::Kernel("the group's leader can't be looked at");
    };
    if group.as_ref().is_some_and(is_kernels) {
        return Answer::Kernel("the group's leader is an event of the kernel's");
    }
    let stands_in = attributes.is_of_tasks() && others && group.is_none() && foreign.is_none();
    if stands_in {
        attributes.become_ours();
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
    if let Some(reason) = foreign {
        return Answer::Kernel(reason);
    }
    let Ok(driver_flags) = u32::try_from(flags | FD_CLOEXEC) else {
        return Answer::Kernel("the flags are unknown");
    };
    let opened = driver.open_event(&mut EventOpen {
        attr: &mut attributes.bytes,
        pid,
        cpu: number(cpu),
        group: group.as_ref().map(AsFd::as_fd),
        flags: driver_flags,
    });
    match opened {
        Ok(event) => Answer::Event {
            event,
            close_on_exec: flags & FD_CLOEXEC != 0,
            lacks_maps: !stands_in && attributes.wants_maps(),
            is_idle: attributes.is_idle_on(pmu),
        },
        Err(_) if stands_in => Answer::Kernel("the driver has no counter for it"),
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
    let name = event_name(attributes.kind, attributes.word(CONFIG));
    let flags = attributes.word(FLAGS);
    match (flags & EXCLUDE_USER, flags & EXCLUDE_KERNEL) {
        (0, 0) => name,
        (0, _) => name + ":u",
        _ => name + ":k",
    }
}

/// Returns the name of an event of `PERF_TYPE_*`.
fn event_name(kind: u32, config: u64) -> String {
    match (kind, u32::try_from(config)) {
        (0, Ok(number)) => Encoding::Hardware(number).to_string(),
        (3, Ok(number)) => Encoding::Cache(number).to_string(),
        (RAW, _) => format!("r{config:x}"),
        (1, Ok(9)) => "dummy".to_owned(),
        _ => format!("type {kind}, config {config:#x}"),
    }
}

impl Attributes {
    /// Returns the word of 8 bytes at an offset; 0 behind the end.
    fn word(&self, at: usize) -> u64 {
        let bytes = self.bytes.get(at..at + 8);
        bytes.map_or(0, |bytes| bytes.try_into().map_or(0, u64::from_ne_bytes))
    }

    fn set_word(&mut self, at: usize, word: u64) {
        if let Some(bytes) = self.bytes.get_mut(at..at + 8) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
    }

    /// Returns whether it is the event of the kernel's that never happens, of which a program wants the records of tasks.
    fn is_of_tasks(&self) -> bool {
        const SOFTWARE: u32 = 1;
        const DUMMY: u64 = 9;
        self.kind == SOFTWARE && self.word(CONFIG) == DUMMY && self.word(FLAGS) & TASK != 0
    }

    /// Returns whether it is a raw event that an emulated PMU has no counts of.
    fn is_idle_on(&self, pmu: &Pmu) -> bool {
        self.kind == RAW && !pmu.counts(self.word(CONFIG))
    }

    /// Makes it an event of the driver's that has the same records of tasks, and no samples. The kernel's can't write to
    /// the ring of the driver's.
    fn become_ours(&mut self) {
        const HARDWARE: u32 = 0;
        const INSTRUCTIONS: u64 = 1;
        self.kind = HARDWARE;
        if let Some(bytes) = self.bytes.get_mut(..4) {
            bytes.copy_from_slice(&HARDWARE.to_ne_bytes());
        }
        self.set_word(CONFIG, INSTRUCTIONS);
        self.set_word(PERIOD, 0);
        self.set_word(FLAGS, self.word(FLAGS) & !FREQUENCY);
    }

    /// Returns whether its samples were to come with records of what programs map.
    fn wants_maps(&self) -> bool {
        self.word(PERIOD) != 0 && self.word(FLAGS) & (MMAP | MMAP2) != 0
    }

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
    fn an_event_for_tasks_becomes_one_of_ours() {
        let mut bytes = vec![0; 112];
        bytes[0] = 1;
        bytes[4] = 112;
        let mut dummy = Attributes { bytes, kind: 1 };
        dummy.set_word(CONFIG, 9);
        dummy.set_word(PERIOD, 1);
        assert!(!dummy.is_of_tasks(), "it wants no records of tasks");
        dummy.set_word(FLAGS, TASK | MMAP | FREQUENCY);
        assert!(dummy.is_of_tasks() && dummy.wants_maps());
        dummy.become_ours();
        assert_eq!(dummy.bytes[..8], [0, 0, 0, 0, 112, 0, 0, 0]);
        assert_eq!(
            (dummy.kind, dummy.word(CONFIG), dummy.word(PERIOD)),
            (0, 1, 0)
        );
        assert_eq!(dummy.word(FLAGS), TASK | MMAP);
        assert!(!dummy.is_of_tasks() && !dummy.wants_maps());
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
