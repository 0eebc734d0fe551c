// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors: the attempt, the cause, and advice.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::process;

use nix::errno::Errno;

use crate::event::{Cgroup, EventLabel, OwnerKind, Owners, Target};
use crate::spec::SpecError;
use crate::sys::RingMapping;
use crate::trace::{Alloc, EventId};
use crate::{CounterId, EventSelect, cpu_list};

/// The attempt that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Attempt {
    /// Opening the device node.
    Open(PathBuf),
    /// Reading the number and the width of the counters.
    Properties,
    /// Reading the time-stamp counter.
    Timestamp,
    /// Setting a counter up to count an event.
    Setup(CounterId, EventSelect),
    /// Starting a counter.
    Start(CounterId),
    /// Stopping a counter.
    Stop(CounterId),
    /// Reading a counter.
    Read(CounterId),
    /// Reading a counter on some CPUs.
    ReadOn(CounterId, Range<u32>),
    /// Zeroing a counter.
    Reset(CounterId),
    /// Reading a counter's event select.
    Configuration(CounterId),
    /// Reading the number of CPUs and the driver's optional features.
    Info,
    /// Assigning an event select to a model-specific event ID.
    DefineEvent(EventId, EventSelect),
    /// Allocating the buffers of a trace.
    Allocate(Alloc),
    /// Reading the number and the size of the allocated buffers.
    Allocation,
    /// Setting the configuration of a trace.
    Stage,
    /// Reading a trace's configuration.
    Staged,
    /// Getting the descriptor of the buffer of this CPU.
    BufferHandle(u32),
    /// Mapping the buffer of this CPU.
    Map(u32),
    /// Reading the buffer of this CPU.
    ReadBuffer(u32),
    /// Starting a trace.
    StartTrace,
    /// Stopping a trace.
    StopTrace,
    /// Freeing the buffers of a trace.
    Free,
    /// Finding the event of this name.
    FindEvent(String),
    /// Finding out where cgroups are mounted.
    FindCgroups,
    /// Opening the directory of a cgroup.
    OpenCgroup(PathBuf),
    /// Opening an event for this target.
    OpenEvent(EventLabel, Box<Target>),
    /// Enabling, disabling or zeroing an event.
    ControlEvent(EventLabel),
    /// Reading an event.
    ReadEvent(EventLabel),
    /// Mapping the page of an event.
    MapEvent(EventLabel),
    /// Mapping the ring of an event, with this number of pages of records.
    MapRing(EventLabel, usize),
    /// Letting an event write to the ring of another event.
    ShareRing(EventLabel),
    /// Reading the ring of an event.
    ReadRing(EventLabel),
    /// Reading the owner of a counter.
    Owner(CounterId),
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(path) => write!(f, "can't open {}", path.display()),
            Self::Properties => f.write_str("can't read what counters the CPUs have"),
            Self::Timestamp => f.write_str("can't read the time-stamp counter"),
            Self::Setup(id, select) => {
                write!(
                    f,
                    "can't set {id} up with event select {:#x}",
                    select.bits()
                )
            }
            Self::Start(id) => write!(f, "can't start {id}"),
            Self::Stop(id) => write!(f, "can't stop {id}"),
            Self::Read(id) => write!(f, "can't read {id}"),
            Self::ReadOn(id, cpus) if cpus.len() == 1 => {
                write!(f, "can't read {id} on CPU {}", cpus.start)
            }
            Self::ReadOn(id, cpus) => {
                write!(
                    f,
                    "can't read {id} on CPUs {} to {}",
                    cpus.start,
                    cpus.end - 1
                )
            }
            Self::Reset(id) => write!(f, "can't zero {id}"),
            Self::Configuration(id) => write!(f, "can't read what {id} counts"),
            Self::Info => f.write_str("can't read the number of CPUs"),
            Self::DefineEvent(id, select) => {
                write!(f, "can't define {id} as event select {:#x}", select.bits())
            }
            Self::Allocate(alloc) => write!(
                f,
                "can't allocate {} buffers of {} pages",
                alloc.buffers, alloc.pages
            ),
            Self::Allocation => f.write_str("can't read what was allocated for the trace"),
            Self::Stage => f.write_str("can't set up what the trace records"),
            Self::Staged => f.write_str("can't read what the trace records"),
            Self::BufferHandle(cpu) => write!(f, "can't get the buffer of CPU {cpu}"),
            Self::Map(cpu) => write!(f, "can't map the buffer of CPU {cpu}"),
            Self::ReadBuffer(cpu) => write!(f, "can't read the buffer of CPU {cpu}"),
            Self::StartTrace => f.write_str("can't start the trace"),
            Self::StopTrace => f.write_str("can't stop the trace"),
            Self::Free => f.write_str("can't free the trace"),
            Self::FindEvent(name) => write!(f, "can't count `{name}`"),
            Self::FindCgroups => f.write_str("can't find cgroups"),
            Self::OpenCgroup(path) => write!(f, "can't open cgroup {}", path.display()),
            Self::OpenEvent(event, target) => write!(f, "can't count {event} of {target}"),
            Self::ControlEvent(event) => write!(f, "can't enable, disable or zero {event}"),
            Self::ReadEvent(event) => write!(f, "can't read {event}"),
            Self::MapEvent(event) => write!(f, "can't map the page of {event}"),
            Self::MapRing(event, pages) => {
                write!(f, "can't map {pages} pages for samples of {event}")
            }
            Self::ShareRing(event) => write!(
                f,
                "can't write samples of {event} to the ring of another event"
            ),
            Self::ReadRing(event) => write!(f, "can't read samples of {event}"),
            Self::Owner(id) => write!(f, "can't read the owner of {id}"),
        }
    }
}

/// A failure: the attempt, and the cause of its failure.
///
/// ```
/// use perfmon::{Cause, Device};
///
/// let error = Device::open_path("/nonexistent").unwrap_err();
/// assert_eq!(error.cause, Cause::Absent);
/// assert_eq!(error.to_string(), "can't open /nonexistent: there is no such device");
/// assert!(error.cause.help().is_some_and(|help| help.contains("modprobe perfmon")));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{attempt}: {cause}")]
#[non_exhaustive]
pub struct Error {
    /// The attempt.
    pub attempt: Attempt,
    /// The cause.
    pub cause: Cause,
}

/// Cause of a failure. [`help`](Self::help) gives advice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// The device node does not exist (ENOENT), or no driver serves the node (ENODEV, ENXIO).
    #[error("there is no such device")]
    Absent,
    /// The mode of the device node forbids opening the node (EACCES or EPERM at open).
    #[error("the mode of the device node does not let this user open it")]
    NodeForbidden,
    /// Another program has the device open for counting (EBUSY at open).
    #[error("another program is counting or sampling the whole machine")]
    AnotherWriter,
    /// The driver has another version of the interface than this library.
    #[error("the driver has version {0} of the interface, which this library does not know")]
    Version(u16),
    /// The device doesn't know the command (ENOTTY).
    #[error("the device doesn't know this command")]
    UnknownCommand,
    /// The frequency of the time-stamp counter isn't known (ENOTTY).
    #[error("the kernel doesn't know the frequency of the counter")]
    NoFrequency,
    /// The kernel is locked down (EPERM).
    #[error("the kernel is locked down")]
    LockedDown,
    /// Linux's policy for performance events forbids the attempt (EACCES).
    #[error("the kernel's policy for performance events does not permit this process to do so")]
    Forbidden,
    /// The hardware counters are in use (EBUSY).
    #[error("the hardware counters are in use already")]
    HardwareBusy,
    /// The counter was not set up (EBUSY).
    #[error("the counter was not set up")]
    NotSetUp,
    /// This session uses the counter already.
    #[error("this session uses the counter already")]
    InUse,
    /// The CPUs have no such counter, or the event select has a bit that isn't allowed (EINVAL).
    #[error("the CPUs have no such counter, or the event select is not allowed for it")]
    Invalid,
    /// The counters can't count the event (EOPNOTSUPP): it needs two counters (AMD's events 003H and FFFH), or its
    /// select means a different event on each kind of core of a hybrid processor.
    #[error("the event needs two counters, or is not the same on all kinds of cores")]
    NotForCounters,
    /// The CPUs have no such counter, or there are no such CPUs (EINVAL).
    #[error("the CPUs have no such counter, or there is no such CPU")]
    NoSuchCpu,
    /// The driver does not count on one of the CPUs in the range (EOPNOTSUPP).
    #[error(
        "a CPU in this range is not used for counting: it has fewer counters than the others of its kind"
    )]
    NotCounted,
    /// A counter register does not hold what the driver wrote, so the count can't be trusted (EIO).
    #[error("something else changed the counter, so its value can't be trusted")]
    Untrusted,
    /// The session's trace is not in the state that the call needs (EBADFD).
    #[error("the session's trace is in a state that does not allow this call")]
    WrongState,
    /// The buffers are too many, too few or too large (EINVAL).
    #[error(
        "the number of buffers differs from that of the CPUs, or a buffer has too many pages or none"
    )]
    InvalidAlloc,
    /// The CPUs can't record an event of the configuration as the configuration asks (EINVAL).
    #[error(
        "the CPUs lack one of the events, have too few counters, or do not support a rate or a flag"
    )]
    InvalidConfig,
    /// The event ID is not model-specific, or the event select is not allowed (EINVAL).
    #[error("the ID is not a model-specific one, or the event select is not allowed")]
    InvalidEvent,
    /// The trace has no such buffer (EINVAL).
    #[error("the trace has no such buffer")]
    NoSuchBuffer,
    /// The mapping exceeds the memory that the user and the process may pin (EPERM).
    #[error("this user may not lock so much memory")]
    MemoryLimit,
    /// The kernel could not allocate memory (ENOMEM).
    #[error("the kernel does not have enough memory")]
    NoMemory,
    /// The process (EMFILE) or the whole system (ENFILE) has no free file descriptor.
    #[error("no file descriptor is free")]
    NoDescriptor,
    /// The buffer has this version of its format, which the library does not know.
    #[error("the buffer has version {0} of the format, which this library does not know")]
    BufferVersion(u16),
    /// The buffer's header contradicts itself or the allocation.
    #[error("the buffer's header is invalid; was the trace started again since the last reading?")]
    BadHeader,
    /// All counters that could count the event are in use (EBUSY).
    #[error("no counter is free for this event: {0}")]
    NoFreeCounter(Owners),
    /// The CPUs do not have the event, or a group can't be counted together (ENOENT, EINVAL).
    #[error("the CPUs do not have such an event, or can't count it together with its group")]
    NoSuchEvent,
    /// The frequency of samples is above the driver's limit, the module's parameter `perf_event_max_sample_rate`
    /// (EINVAL).
    #[error("{0} samples a second are above the driver's limit")]
    FrequencyTooHigh(u64),
    /// The text is not an event, or the CPUs do not have the event.
    #[error("{}", .0.message())]
    Spec(Box<SpecError>),
    /// The text names several events.
    #[error("the text names more than one event")]
    SeveralEvents,
    /// The text asks for a counter by number, which events don't support.
    #[error("the counter of an event ({0}) can't be chosen")]
    ChosenCounter(CounterId),
    /// Linux's perf supports the event, and this driver does not (EOPNOTSUPP).
    #[error("the driver does not support such an event")]
    NotSupported,
    /// The task does not exist (ESRCH).
    #[error("there is no such task")]
    NoSuchTask,
    /// The cgroup does not exist, or has been removed (ENOENT, ENODEV).
    #[error("there is no such cgroup")]
    NoSuchCgroup,
    /// The cgroup is deeper in the hierarchy than the driver counts (EOPNOTSUPP).
    #[error("the cgroup is more than {} levels below the root", Cgroup::MAX_LEVELS)]
    CgroupTooDeep,
    /// The path is not the directory of a cgroup (ENOTDIR, EBADF, or the file system's type).
    #[error("the path is not the directory of a cgroup")]
    NotACgroup,
    /// The cgroup is of version 1 and not in perf's hierarchy (EBADF), or only such cgroups are mounted.
    #[error("cgroups of version 1 can be counted only in perf's hierarchy")]
    CgroupVersion1,
    /// No cgroups are mounted where this process sees them.
    #[error("no cgroups are mounted")]
    NoCgroupMount,
    /// Events were missed, so the count would be too low (EIO).
    #[error("events were missed, so the count would be too low")]
    Missed,
    /// The event had no counter for some time: the thread ran on a core of a hybrid processor that lacks the event.
    #[error("the thread ran on a core that lacks the event, so the count would be too low")]
    OtherCore,
    /// The event does not count the calling thread on all CPUs.
    #[error(
        "only the thread that is counted, and that opened the event for all CPUs, can read its page"
    )]
    OtherThread,
    /// The ring's number of pages is not a power of 2, or too large (EINVAL).
    #[error("the number of pages is not a power of 2, or too large")]
    RingSize,
    /// The event can't have a ring: it counts on all CPUs at once, and is inherited or counts a
    /// cgroup (EINVAL).
    #[error("an event on all CPUs at once has no ring if it is inherited or counts a cgroup")]
    InheritedRing,
    /// The two events that would share a ring are of different tasks or CPUs (EINVAL).
    #[error("the two events count different tasks or CPUs")]
    RingMismatch,
    /// The ring holds bytes that are not a record: another program has written there.
    #[error("the ring holds bytes that are not a record: another program wrote to it")]
    BadRing,
    /// An error that the interface does not specify for this call.
    #[error("{}", .0.desc())]
    Unexpected(Errno),
}

impl Error {
    /// Converts the `errno` of this attempt to a cause, by the table in `include/uapi/linux/perfmon.h` and open(2).
    pub(crate) fn new(attempt: Attempt, errno: Errno) -> Self {
        use Attempt as A;
        let cause = match (&attempt, errno) {
            (A::Open(_), Errno::ENOENT | Errno::ENODEV | Errno::ENXIO) => Cause::Absent,
            (A::Open(_), Errno::EACCES | Errno::EPERM) => Cause::NodeForbidden,
            (A::Open(_), Errno::EBUSY) => Cause::AnotherWriter,
            (A::Open(_), errno) => Cause::Unexpected(errno),
            (A::Timestamp, Errno::ENOTTY) => Cause::NoFrequency,
            (A::Setup(..) | A::StartTrace, Errno::EBUSY) => Cause::HardwareBusy,
            (A::OpenEvent(..), Errno::EBUSY) => Cause::NoFreeCounter(Owners::default()),
            (A::OpenEvent(_, target), Errno::ENOENT)
                if target.cgroup().is_some_and(Cgroup::is_removed) =>
            {
                Cause::NoSuchCgroup
            }
            (A::OpenEvent(_, target), Errno::EBADF)
                if target.cgroup().is_some_and(Cgroup::is_of_version_1) =>
            {
                Cause::CgroupVersion1
            }
            (A::OpenEvent(_, target), Errno::EBADF) if target.cgroup().is_some() => {
                Cause::NotACgroup
            }
            (A::OpenEvent(_, target), Errno::EOPNOTSUPP)
                if target.cgroup().is_some_and(Cgroup::is_too_deep) =>
            {
                Cause::CgroupTooDeep
            }
            (A::OpenEvent(_, target), Errno::EINVAL)
                if target.cpu().is_some_and(cpu_list::is_impossible) =>
            {
                Cause::NoSuchCpu
            }
            (A::OpenEvent(..), Errno::ENOENT | Errno::EINVAL) => Cause::NoSuchEvent,
            (A::OpenEvent(..), Errno::EOPNOTSUPP) => Cause::NotSupported,
            (A::OpenEvent(..), Errno::ESRCH) => Cause::NoSuchTask,
            // The task of the group's leader has ended.
            (A::OpenEvent(_, target), Errno::ENODEV) if target.is_on_all_cpus() => {
                Cause::NoSuchTask
            }
            (A::ReadEvent(_), Errno::EIO) => Cause::Missed,
            (A::MapRing(..) | A::MapEvent(_), Errno::EPERM) => Cause::MemoryLimit,
            (A::MapRing(_, pages), Errno::EINVAL) if !RingMapping::is_valid_size(*pages) => {
                Cause::RingSize
            }
            (A::MapRing(..), Errno::EINVAL) => Cause::InheritedRing,
            (A::ShareRing(_), Errno::EINVAL) => Cause::RingMismatch,
            (_, Errno::EBUSY) => Cause::NotSetUp,
            (_, Errno::ENOTTY) => Cause::UnknownCommand,
            // EPERM has two other meanings, which can't occur here: the types exclude a descriptor that is not open for
            // writing, and `Trace::allocate` recognizes the limit of locked memory itself.
            (_, Errno::EPERM) => Cause::LockedDown,
            (_, Errno::EACCES) => Cause::Forbidden,
            (_, Errno::EBADFD) => Cause::WrongState,
            (_, Errno::ENOMEM) => Cause::NoMemory,
            (_, Errno::EMFILE | Errno::ENFILE) => Cause::NoDescriptor,
            (A::ReadOn(..), Errno::EINVAL) | (A::OpenEvent(..), Errno::ENODEV) => Cause::NoSuchCpu,
            (A::Allocate(_), Errno::EINVAL) => Cause::InvalidAlloc,
            (A::Stage, Errno::EINVAL) => Cause::InvalidConfig,
            (A::DefineEvent(..), Errno::EINVAL) => Cause::InvalidEvent,
            (A::BufferHandle(_), Errno::EINVAL) => Cause::NoSuchBuffer,
            (_, Errno::EINVAL) => Cause::Invalid,
            (_, Errno::EIO) => Cause::Untrusted,
            (A::ReadOn(..), Errno::EOPNOTSUPP) => Cause::NotCounted,
            (A::Setup(..) | A::DefineEvent(..), Errno::EOPNOTSUPP) => Cause::NotForCounters,
            (_, errno) => Cause::Unexpected(errno),
        };
        Self { attempt, cause }
    }
}

/// The advice if the process itself has all counters.
const OWN_COUNTERS_HELP: &str = "Count fewer events at once: this process's events use the counters, and each event has a \
                                 counter of its own all the time.";

impl Cause {
    /// Returns advice in sentences; `None` if there is none.
    #[must_use]
    pub fn help(&self) -> Option<&str> {
        match self {
            Self::NoFreeCounter(owners) if owners.contains_kind(OwnerKind::Perf) => {
                Self::HardwareBusy.help()
            }
            Self::NoFreeCounter(owners) if owners.are_all_owned_by(process::id()) => {
                Some(OWN_COUNTERS_HELP)
            }
            Self::Spec(error) => error.help(),
            _ => self.own_help(),
        }
    }

    /// Returns the advice that depends on the kind of cause alone, and not on the owners or the
    /// text in the cause.
    fn own_help(&self) -> Option<&'static str> {
        match self {
            Self::Absent => Some(
                "Load the module: `modprobe perfmon`, or `insmod perfmon.ko` where it was built. On a machine that \
                 has no PMU for it, `pmctl vm` counts in a virtual one.",
            ),
            Self::NodeForbidden => Some(
                "Run it as root, or be a member of the group that has the device: `usermod -aG perfmon USER` \
                      after `make install`, then log in again.",
            ),
            Self::AnotherWriter => Some(
                "Only one program at a time can count or sample the whole machine: wait for it, or find it with \
                 `fuser -v /dev/perfmon`. Events of a program or a thread need not wait while counters are free.",
            ),
            Self::Version(_) | Self::BufferVersion(_) | Self::UnknownCommand => {
                Some("Use the module and the programs of the same release.")
            }
            Self::LockedDown => Some(
                "/sys/kernel/security/lockdown shows the mode; `confidentiality` forbids counting.",
            ),
            Self::Forbidden => Some(
                "Run it as root or with CAP_PERFMON, or, from Linux 7.3 on, allow it to all users with \
                 `sysctl kernel.perf_event_paranoid=0`.",
            ),
            Self::HardwareBusy => Some(
                "End what uses them: a running `perf`, or the NMI watchdog \
                 (`sysctl kernel.nmi_watchdog=0`). `pmctl doctor` looks for it.",
            ),
            Self::NotSetUp => Some("Set the counter up first: `Session::counter`."),
            Self::InUse => Some("Drop the other `Counter` first, or take another number."),
            Self::Invalid => {
                Some("`pmctl info` shows the counters. A fixed counter takes modes, but no event.")
            }
            Self::Untrusted => Some(
                "A virtual machine with a mediated PMU ran, or a tool that writes the registers \
                 itself. The kernel log names the first such register.",
            ),
            Self::NoSuchCpu => {
                Some("`pmctl info` shows the counters, /sys/devices/system/cpu/possible the CPUs.")
            }
            Self::NotForCounters => Some(
                "Choose another event. On a hybrid processor, count it as an `Event` on the CPUs of one kind.",
            ),
            Self::NotCounted => {
                Some("Read the other CPUs: the kernel log (`dmesg`) says which CPU it is, and why.")
            }
            Self::MemoryLimit => Some(
                "Ask for fewer pages (pmctl: `-m`), raise the limit (`ulimit -l`, in KiB), or give the \
                 program CAP_IPC_LOCK. Each online CPU adds 516 KiB to what a user may have; perf's buffers \
                 count, too.",
            ),
            Self::NoMemory => Some("Ask for fewer pages: each online CPU gets as many."),
            Self::NoDescriptor => Some(
                "Raise the limit with `ulimit -n`: each event takes one, and each buffer until it is mapped.",
            ),
            Self::NoFreeCounter(_) => Some(
                "Count fewer events at once, or end what has the other counters: each event has a counter of its own \
                 all the time.",
            ),
            Self::NoSuchEvent => Some("`pmctl info` lists the events that the CPUs have."),
            Self::SeveralEvents => Some(
                "`spec::parse` takes a list of events, `Group::of` several that count together.",
            ),
            Self::ChosenCounter(_) => Some(
                "The driver chooses the counters of events. A `Session` has counters by number.",
            ),
            Self::NotSupported => Some(
                "Count it with Linux's perf: `pmctl wrap -- perf stat` leaves such events to it.",
            ),
            Self::FrequencyTooHigh(_) => Some(
                "Ask for fewer, or load the module with a higher limit: perf_event_max_sample_rate=NUMBER.",
            ),
            Self::NoSuchTask => Some("Give the ID of a process or a thread that still runs."),
            Self::Missed => Some(
                "There was no memory to count a new task, or something else changed the registers (the kernel log names \
                 the first such change). Count again.",
            ),
            Self::WrongState
            | Self::InvalidAlloc
            | Self::InvalidConfig
            | Self::InvalidEvent
            | Self::NoSuchBuffer
            | Self::BadHeader => self.trace_help(),
            Self::OtherCore
            | Self::OtherThread
            | Self::RingSize
            | Self::InheritedRing
            | Self::RingMismatch
            | Self::BadRing => self.page_help(),
            Self::NoSuchCgroup
            | Self::CgroupTooDeep
            | Self::NotACgroup
            | Self::CgroupVersion1
            | Self::NoCgroupMount => self.cgroup_help(),
            Self::Spec(_) | Self::NoFrequency | Self::Unexpected(_) => None,
        }
    }

    /// Returns the advice of a cause that is about a trace.
    const fn trace_help(&self) -> Option<&'static str> {
        match self {
            Self::WrongState => Some(
                "A session has one trace at a time: drop or free the other first. Events are defined before a config.",
            ),
            Self::InvalidAlloc => {
                Some("One buffer for each CPU number, as `Alloc::new` has it, of 1 to 65536 pages.")
            }
            Self::InvalidConfig => Some(
                "`pmctl info` shows the counters and whether branches can be recorded; the kernel \
                 log says if it is one CPU that lacks an event.",
            ),
            Self::InvalidEvent => {
                Some("Define IDs of `EventId::model`, with an event select that all CPUs have.")
            }
            Self::NoSuchBuffer => {
                Some("CPU numbers begin at 0 and are less than `Alloc::buffers`.")
            }
            Self::BadHeader => {
                Some("Read a buffer to its end before the trace starts again, then rewind it.")
            }
            _ => None,
        }
    }

    /// Returns the advice of a cause that is about an event's page or ring.
    const fn page_help(&self) -> Option<&'static str> {
        match self {
            Self::OtherCore => Some(
                "Run the program on one kind of core: `taskset -c $(cat /sys/devices/cpu_core/cpus) PROGRAM`.",
            ),
            Self::OtherThread => Some("Use `Event::read`, or an event without `pid` and `cpu`."),
            Self::RingSize => Some("Take 1, 2, 4, 8, ... pages."),
            Self::InheritedRing => Some("Open a sampler on each CPU: `Builder::cpu`."),
            Self::RingMismatch => Some("Open a sampler of its own for the second event."),
            Self::BadRing => Some("Find the program that maps the ring for writing."),
            _ => None,
        }
    }

    /// Returns the advice of a cause that is about cgroups.
    const fn cgroup_help(&self) -> Option<&'static str> {
        match self {
            Self::NoSuchCgroup => {
                Some("`cat /proc/PID/cgroup` shows the cgroup of a process, after `0::`.")
            }
            Self::CgroupTooDeep => {
                Some("Count a cgroup above it: the counts of a cgroup include those below.")
            }
            Self::NotACgroup => {
                Some("`findmnt -t cgroup2,cgroup` shows where cgroups are mounted.")
            }
            Self::CgroupVersion1 => Some(
                "Mount cgroups of version 2: `mount -t cgroup2 none PATH`; or those of perf, where \
                 /proc/cgroups has perf_event: `mount -t cgroup -o perf_event none PATH`.",
            ),
            Self::NoCgroupMount => Some("Mount cgroups: `mount -t cgroup2 none /sys/fs/cgroup`."),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Encoding;

    #[test]
    fn too_much_mapped_memory_is_no_lockdown() {
        let label = EventLabel::new(Encoding::Hardware(0));
        for attempt in [
            Attempt::MapEvent(label.clone()),
            Attempt::MapRing(label, 64),
        ] {
            let error = Error::new(attempt, Errno::EPERM);
            assert_eq!(error.cause, Cause::MemoryLimit);
        }
    }
}
