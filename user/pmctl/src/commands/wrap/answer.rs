// SPDX-License-Identifier: MIT OR Apache-2.0
//! The answer to a call of `perf_event_open(2)`: a descriptor of the driver, an error, or the
//! kernel's own answer.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::LazyLock;

use nix::errno::Errno;
use perfmon::sys::{Driver, EventOpen};
use perfmon::{Encoding, Pmu};
use perfmon_core::abi::PERFMON_EVENT_ROTATE;
use perfmon_core::logic::cache_events::cache_event;
use perfmon_core::logic::event_attr::{
    PERF_COUNT_SW_DUMMY, PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING,
    PERF_TYPE_HARDWARE, PERF_TYPE_HW_CACHE, PERF_TYPE_RAW, PERF_TYPE_SOFTWARE, PerfEventAttr,
};
use perfmon_core::logic::evtsel::EventSelect;
use perfmon_core::logic::hardware_events::hardware_event;
use perfmon_core::logic::perf_event::{
    PERF_FLAG_FD_CLOEXEC, PERF_FLAG_FD_NO_GROUP, PERF_FLAG_PID_CGROUP,
};
use zerocopy::IntoBytes;

use super::early_dummy::DummyCall;
use super::listener::{Listener, Request};
use super::target::{Tid, is_kernel_event};
use crate::events::software;
use crate::system::core_kinds;
use crate::system::machine::Machine;

/// The answer to a call of `perf_event_open(2)`.
#[derive(Debug)]
pub(super) enum CallAnswer {
    /// An event of the driver.
    Event {
        event: OwnedFd,
        close_on_exec: bool,
        /// The event is sampled, and asks for records of mappings.
        wants_maps: bool,
    },
    /// A dummy event of the kernel, which may have to be replaced by a dummy event of the driver.
    EarlyDummy { event: OwnedFd, call: DummyCall },
    /// The kernel's perf handles the call, for this reason.
    Kernel(&'static str),
    /// The call fails with `errno`: this PMU takes the event, and does not count it. Its count would stay 0, which the
    /// program would take for a result.
    NotCounted { errno: Errno },
    /// The call fails with `errno`. `cause` is the driver's error, which may differ from `errno`.
    Error { errno: Errno, cause: Errno },
    /// The caller has died.
    CallerDied,
}

/// Types of events that the driver has.
const DRIVER_TYPES: [u32; 3] = [PERF_TYPE_HARDWARE, PERF_TYPE_HW_CACHE, PERF_TYPE_RAW];

/// Types of the raw events of a hybrid processor's small cores: the types of perf's PMUs for these cores.
static SMALL_CORE_TYPES: LazyLock<Vec<u32>> =
    LazyLock::new(|| core_kinds::small_core_types(&Machine::here()));

/// Returns whether the driver has events of this type.
fn is_driver_type(type_: u32) -> bool {
    DRIVER_TYPES.contains(&type_) || SMALL_CORE_TYPES.contains(&type_)
}

/// Flags of the call, as values of a 64-bit register.
const FD_NO_GROUP: u64 = PERF_FLAG_FD_NO_GROUP as u64;
const PID_CGROUP: u64 = PERF_FLAG_PID_CGROUP as u64;
const FD_CLOEXEC: u64 = PERF_FLAG_FD_CLOEXEC as u64;

/// The sizes of `struct perf_event_attr` in bytes that the kernel accepts: from `PERF_ATTR_SIZE_VER0` to a page.
const ATTR_SIZES: std::ops::RangeInclusive<usize> = 64..=4096;

/// The `struct perf_event_attr` of a call.
struct Attributes {
    /// The bytes of the program's structure.
    bytes: Vec<u8>,
    /// The members that pmctl knows. Members that the program's structure does not have are 0.
    attr: PerfEventAttr,
}

/// The context in which a program's calls are answered.
#[derive(Clone, Copy)]
pub(super) struct AnswerContext<'a> {
    pub(super) driver: &'a dyn Driver,
    pub(super) pmu: &'a Pmu,
    /// The program's events may take turns on the counters.
    pub(super) allows_turns: bool,
}

/// Opens the event of `request` with the driver, unless the kernel has to handle the call.
pub(super) fn answer_open_call(
    context: AnswerContext<'_>,
    listener: &Listener,
    request: &Request,
) -> CallAnswer {
    let mut call = match OpenCall::read(request) {
        Ok(call) => call,
        Err(reason) => return CallAnswer::Kernel(reason),
    };
    let foreign_reason = call.foreign_reason();
    // A caller that still waits has had its TID all the time, so all facts that were looked up by
    // the TID are the caller's.
    if !listener.is_waiting(request) {
        return CallAnswer::CallerDied;
    }
    if foreign_reason.is_none() && call.is_early_dummy() {
        return call.open_early_dummy();
    }
    call.answer_without_driver(foreign_reason)
        .unwrap_or_else(|| call.open_event(context))
}

/// A call of `perf_event_open(2)`, with its arguments looked up.
struct OpenCall {
    attributes: Attributes,
    caller: Tid,
    /// The TID, or the descriptor of the cgroup.
    pid: i32,
    cpu: i32,
    group: Option<Result<OwnedFd, Errno>>,
    cgroup: Option<OwnedFd>,
    flags: u64,
    /// The driver has to open this dummy event: the caller has an event of the driver, and a dummy of the kernel can't write
    /// to that event's ring.
    is_late_dummy: bool,
}

impl OpenCall {
    /// Reads the arguments. The error is the reason to leave the call to the kernel, which then reports what is wrong.
    fn read(request: &Request) -> Result<Self, &'static str> {
        let caller = Tid(request.thread);
        if caller.0 == 0 {
            return Err("the caller is in another PID namespace");
        }
        let [attributes, pid, cpu, group, flags, _] = request.arguments;
        let attributes =
            Attributes::read(caller, attributes).or(Err("the attributes can't be read"))?;
        let group = match int_argument(group) {
            -1 => None,
            leader => Some(caller.copy_descriptor(leader)),
        };
        let cgroup = (flags & PID_CGROUP != 0).then(|| caller.copy_descriptor(int_argument(pid)));
        let cgroup = cgroup.transpose().or(Err("the cgroup can't be read"))?;
        let pid = match (&cgroup, int_argument(pid)) {
            (Some(cgroup), _) => cgroup.as_raw_fd(),
            // 0 means the calling thread, and pmctl's own call comes from a thread of pmctl.
            (None, 0) => caller.0,
            (None, pid) => pid,
        };
        let is_single_dummy = attributes.is_sideband_dummy() && group.is_none();
        let is_late_dummy = is_single_dummy && caller.has_driver_events();
        Ok(Self {
            attributes,
            caller,
            pid,
            cpu: int_argument(cpu),
            group,
            cgroup,
            flags,
            is_late_dummy,
        })
    }

    /// Returns the reason why pmctl must not open the event for the caller, whose rights may be smaller than pmctl's.
    fn foreign_reason(&self) -> Option<&'static str> {
        if !self.caller.has_our_rights() {
            Some("the caller has other rights than pmctl")
        } else if self.cgroup.is_none() && self.pid > 0 && !self.caller.may_count(self.pid) {
            Some("the event is of another program's task, and the caller has no CAP_PERFMON")
        } else {
            None
        }
    }

    /// Returns whether this is a dummy event that the caller opens before its first event of the
    /// driver.
    fn is_early_dummy(&self) -> bool {
        self.attributes.is_sideband_dummy()
            && self.group.is_none()
            && !self.is_late_dummy
            && self.flags & !FD_CLOEXEC == 0
    }

    /// Opens a dummy event of the kernel for the caller.
    fn open_early_dummy(self) -> CallAnswer {
        let call = DummyCall {
            attributes: self.attributes.bytes,
            pid: self.pid,
            cpu: self.cpu,
            close_on_exec: self.flags & FD_CLOEXEC != 0,
        };
        match call.open_in_kernel() {
            Ok(event) => CallAnswer::EarlyDummy { event, call },
            Err(_) => CallAnswer::Kernel("the kernel refuses this dummy event, and says why"),
        }
    }

    /// Returns the answer of a call that is not passed to the driver; `None` for other calls.
    fn answer_without_driver(&self, foreign_reason: Option<&'static str>) -> Option<CallAnswer> {
        let kernel = |reason| Some(CallAnswer::Kernel(reason));
        match &self.group {
            Some(Err(_)) => return kernel("the group's leader can't be read"),
            Some(Ok(leader)) if is_kernel_event(leader) => {
                return kernel("the group's leader is an event of the kernel's");
            }
            _ => (),
        }
        let is_dummy = self.is_late_dummy && foreign_reason.is_none();
        if !is_driver_type(self.attributes.attr.type_) && !is_dummy {
            return match self.group {
                None => kernel("the type of the event is the kernel's"),
                // The kernel does not know the driver's leader. perf treats this error like an event that can't be counted.
                Some(_) => Some(CallAnswer::Error {
                    errno: Errno::EINVAL,
                    cause: Errno::EOPNOTSUPP,
                }),
            };
        }
        foreign_reason.and_then(kernel)
    }

    /// Returns the flags for the driver; `None` if some are unknown.
    fn driver_flags(&self, context: AnswerContext<'_>) -> Option<u32> {
        // A program can't use the driver's own flag.
        let known_flags = u32::try_from(self.flags | FD_CLOEXEC)
            .ok()
            .filter(|known_flags| known_flags & PERFMON_EVENT_ROTATE == 0)?;
        let in_group = self.group.is_some() && self.flags & FD_NO_GROUP == 0;
        let takes_turns = context.allows_turns
            && self.cgroup.is_none()
            && self.attributes.may_take_turns(in_group);
        Some(if takes_turns {
            known_flags | PERFMON_EVENT_ROTATE
        } else {
            known_flags
        })
    }

    /// Opens the event with the driver.
    fn open_event(&mut self, context: AnswerContext<'_>) -> CallAnswer {
        let Some(flags) = self.driver_flags(context) else {
            return CallAnswer::Kernel("the flags are unknown");
        };
        let is_dummy = self.is_late_dummy;
        let group = self.group.as_ref().and_then(|leader| leader.as_ref().ok());
        let result = context.driver.open_event(&mut EventOpen {
            attr: &mut self.attributes.bytes,
            pid: self.pid,
            cpu: self.cpu,
            group: group.map(AsFd::as_fd),
            flags,
        });
        match result {
            // The driver is asked first, so that other mistakes in the call get the driver's error.
            Ok(_) | Err(Errno::EBUSY) if !self.attributes.is_counted_by(context.pmu) => {
                CallAnswer::NotCounted {
                    errno: errno_for_uncounted(group.is_some()),
                }
            }
            Ok(event) => CallAnswer::Event {
                event,
                close_on_exec: self.flags & FD_CLOEXEC != 0,
                wants_maps: !is_dummy && self.attributes.wants_maps(),
            },
            Err(_) if is_dummy => {
                CallAnswer::Kernel("the driver does not open this dummy event of records")
            }
            // At this error perf tries again with a lower precision, if the event has `:P`.
            Err(Errno::EOPNOTSUPP) if self.attributes.is_precise() => CallAnswer::Error {
                errno: Errno::EOPNOTSUPP,
                cause: Errno::EOPNOTSUPP,
            },
            Err(Errno::EOPNOTSUPP | Errno::E2BIG) if group.is_none() => {
                CallAnswer::Kernel("the driver does not support such an event")
            }
            Err(cause) => CallAnswer::Error {
                errno: errno_for_caller(cause, group.is_some(), || self.caller.has_driver_events()),
                cause,
            },
        }
    }
}

/// Translates an error of the driver for the caller: programs are written for the kernel's perf, where events share
/// counters in time, and handle the translated errors best.
fn errno_for_caller(cause: Errno, in_group: bool, has_events: impl Fn() -> bool) -> Errno {
    match cause {
        // The kernel returns EINVAL for a group that does not fit, and `perf stat` then counts its events one by one.
        Errno::EBUSY | Errno::EOPNOTSUPP | Errno::E2BIG if in_group => Errno::EINVAL,
        // At EBUSY, which means to perf that there are no counters at all, perf ends with a message. At ENOENT it
        // writes <not supported> and counts the other events that the caller has.
        Errno::EBUSY if has_events() => Errno::ENOENT,
        cause => cause,
    }
}

/// Returns the error for an event that the PMU does not count. For either error, `perf stat` writes
/// `<not supported>`. At EINVAL it also dissolves a weak group (`:W`), so that the other members
/// are counted.
const fn errno_for_uncounted(in_group: bool) -> Errno {
    if in_group {
        Errno::EINVAL
    } else {
        Errno::ENOENT
    }
}

/// Returns the name of the event that the attributes at `address` describe, for messages.
pub(super) fn event_in_words(target: Tid, address: u64) -> String {
    let Ok(attributes) = Attributes::read(target, address) else {
        return "attributes that can't be read".to_owned();
    };
    let name = event_name(attributes.attr.type_, attributes.attr.config);
    let excludes = |mode| attributes.attr.flags & mode != 0;
    match (
        excludes(PerfEventAttr::EXCLUDE_USER),
        excludes(PerfEventAttr::EXCLUDE_KERNEL),
    ) {
        (false, false) => name,
        (false, true) => name + ":u",
        (true, _) => name + ":k",
    }
}

/// Returns the name of an event of `PERF_TYPE_*`.
fn event_name(kind: u32, config: u64) -> String {
    match (kind, u32::try_from(config)) {
        (PERF_TYPE_HARDWARE, Ok(number)) => Encoding::Hardware(number).to_string(),
        (PERF_TYPE_HW_CACHE, Ok(number)) => Encoding::Cache(number).to_string(),
        (PERF_TYPE_RAW, _) => format!("r{config:x}"),
        (PERF_TYPE_SOFTWARE, _) if config == PERF_COUNT_SW_DUMMY => "dummy".to_owned(),
        (PERF_TYPE_SOFTWARE, _) => match software::name_of_number(config) {
            Some(name) => name.to_owned(),
            None => unnamed_event(kind, config),
        },
        _ => unnamed_event(kind, config),
    }
}

/// Returns the description of an event without a name.
fn unnamed_event(kind: u32, config: u64) -> String {
    format!("type {kind}, config {config:#x}")
}

/// Returns the name of the event that the attributes at `address` describe, if it is sampled; `None` for a dummy event, which
/// has no samples.
pub(super) fn sampled_event_name(target: Tid, address: u64) -> Option<String> {
    let attr = Attributes::read(target, address).ok()?.attr;
    let is_dummy = attr.type_ == PERF_TYPE_SOFTWARE && attr.config == PERF_COUNT_SW_DUMMY;
    (attr.sample_period != 0 && !is_dummy).then(|| event_name(attr.type_, attr.config))
}

impl Attributes {
    /// Decodes the bytes of a structure, which are at least 8.
    fn new(bytes: Vec<u8>) -> Self {
        let mut attr = PerfEventAttr::ZERO;
        let known_size = bytes.len().min(size_of::<PerfEventAttr>());
        attr.as_mut_bytes()[..known_size].copy_from_slice(&bytes[..known_size]);
        Self { bytes, attr }
    }

    /// Returns whether the event asks for precise samples, which the processor takes itself.
    fn is_precise(&self) -> bool {
        self.attr.flags & PerfEventAttr::PRECISE_IP != 0
    }

    /// Returns whether this is a dummy event that asks for records of tasks or mappings.
    fn is_sideband_dummy(&self) -> bool {
        const RECORD_FLAGS: u64 = PerfEventAttr::TASK
            | PerfEventAttr::MMAP
            | PerfEventAttr::MMAP2
            | PerfEventAttr::MMAP_DATA;
        let attr = &self.attr;
        attr.type_ == PERF_TYPE_SOFTWARE
            && attr.config == PERF_COUNT_SW_DUMMY
            && attr.flags & RECORD_FLAGS != 0
    }

    /// Returns whether the driver may let the event take turns. The program must read the times of the event, or of its
    /// group's leader, so that it can scale the count.
    fn may_take_turns(&self, in_group: bool) -> bool {
        const TIME_FORMATS: u64 = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
        let is_dummy = self.attr.type_ == PERF_TYPE_SOFTWARE;
        let is_exclusive = self.attr.flags & PerfEventAttr::EXCLUSIVE != 0;
        let may_wait = is_dummy || self.attr.sample_period == 0 && !is_exclusive;
        may_wait && (in_group || self.attr.read_format & TIME_FORMATS == TIME_FORMATS)
    }

    /// Returns whether `pmu` counts the event: an emulated PMU takes every event, and counts only
    /// some. Returns true if this can't be checked: on a hybrid processor, whose kinds of cores
    /// count different events, and for an event whose event select is not known.
    fn is_counted_by(&self, pmu: &Pmu) -> bool {
        if pmu.processor().is_hybrid() {
            return true;
        }
        let attr = &self.attr;
        let Ok(capabilities) = pmu.capabilities() else {
            return true;
        };
        let cores = pmu.microarchitecture();
        // Bits 63:32 of generic events and cache events are the type of one kind of core.
        let number = u32::try_from(attr.config & u64::from(u32::MAX)).unwrap_or_default();
        let select = match attr.type_ {
            PERF_TYPE_SOFTWARE => None,
            PERF_TYPE_HARDWARE => hardware_event(number, &capabilities, cores).ok(),
            PERF_TYPE_HW_CACHE => cache_event(number, cores).ok(),
            // An event with an extra register is not checked: the register's value determines its
            // count.
            _ => (attr.config1 == 0).then(|| EventSelect::from_bits(attr.config)),
        };
        select.is_none_or(|select| pmu.counts(select.stopped()))
    }

    /// Returns whether the event asks for samples, and for records of mappings with them.
    fn wants_maps(&self) -> bool {
        const MAP_FLAGS: u64 = PerfEventAttr::MMAP | PerfEventAttr::MMAP2;
        self.attr.sample_period != 0 && self.attr.flags & MAP_FLAGS != 0
    }

    /// Reads a `struct perf_event_attr`, which contains its own size.
    fn read(target: Tid, address: u64) -> Result<Self, Errno> {
        let head = target.read_memory(address, 8)?;
        let word = |bytes: &[u8]| bytes.try_into().map(u32::from_ne_bytes);
        let size = word(&head[4..]).or(Err(Errno::EINVAL))?;
        let size = match size {
            0 => *ATTR_SIZES.start(),
            size => usize::try_from(size).or(Err(Errno::E2BIG))?,
        };
        if !ATTR_SIZES.contains(&size) {
            return Err(Errno::E2BIG);
        }
        let mut bytes = target.read_memory(address, size)?;
        // Another thread may have changed the structure between the two reads: the first read counts.
        bytes[..8].copy_from_slice(&head);
        Ok(Self::new(bytes))
    }
}

/// Returns an argument of the type `int`, whose upper half is ignored.
#[expect(clippy::cast_possible_truncation, reason = "the kernel does the same")]
pub(super) const fn int_argument(argument: u64) -> i32 {
    argument as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::machine::Leaves;
    use perfmon_core::logic::event_attr::PERF_COUNT_HW_BRANCH_MISSES;

    #[test]
    fn events_have_names() {
        assert_eq!(event_name(0, 1), "instructions");
        assert_eq!(event_name(3, 0x1_0000), "L1-dcache-load-misses");
        assert_eq!(event_name(4, 0x1c0), "r1c0");
        assert_eq!(event_name(1, 2), "page-faults");
        assert_eq!(event_name(1, 99), "type 1, config 0x63");
        assert_eq!(event_name(2, 7), "type 2, config 0x7");
        assert_eq!(event_name(0, 1 << 32), "type 0, config 0x100000000");
    }

    #[test]
    fn a_dummy_of_records_is_known_by_its_flags() {
        let attributes = |flags| {
            let attr = PerfEventAttr {
                type_: PERF_TYPE_SOFTWARE,
                size: 112,
                config: PERF_COUNT_SW_DUMMY,
                sample_period: 1,
                flags,
                ..PerfEventAttr::ZERO
            };
            Attributes::new(attr.as_bytes()[..112].to_vec())
        };
        assert!(!attributes(PerfEventAttr::COMM).is_sideband_dummy());
        assert!(attributes(PerfEventAttr::TASK).is_sideband_dummy());
        let maps = attributes(PerfEventAttr::MMAP2);
        assert!(maps.is_sideband_dummy() && maps.wants_maps());
    }

    #[test]
    fn events_that_an_emulated_pmu_does_not_count_are_known() {
        let skylake = |hypervisor| {
            Pmu::from_cpuid(&Leaves::recorded(&[
                (0, [0x16, 0x756e_6547, 0x6c65_746e, 0x4965_6e69]),
                (1, [0x0005_06e3, 0, 1 << 31, 0]),
                (0xa, [0x0730_0804, 0, 0, 0x603]),
                (0x4000_0000, hypervisor),
            ]))
        };
        // The signatures of the hypervisors are "TCGTCGTCGTCG" and "KVMKVMKVM".
        let emulated = skylake([0x4000_0001, 0x5447_4354, 0x4354_4743, 0x4743_5447]);
        let real = skylake([0x4000_0001, 0x4b4d_564b, 0x564b_4d56, 0x4d]);
        let is_counted = |pmu, type_, config, config1| {
            let attr = PerfEventAttr {
                type_,
                config,
                config1,
                ..PerfEventAttr::ZERO
            };
            Attributes::new(attr.as_bytes().to_vec()).is_counted_by(pmu)
        };
        let branch_misses = u64::from(PERF_COUNT_HW_BRANCH_MISSES);
        let counted = [
            (PERF_TYPE_RAW, 0xc4, 0),
            (PERF_TYPE_RAW, 0x100_00c4, 0),
            (PERF_TYPE_RAW, 0x1b7, 1),
            (PERF_TYPE_HARDWARE, 1, 0),
            (PERF_TYPE_HARDWARE, 5 << 32 | 1, 0),
            (PERF_TYPE_HW_CACHE, 0, 0),
            (PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY, 0),
        ];
        for (type_, config, config1) in counted {
            assert!(is_counted(&emulated, type_, config, config1), "{config:#x}");
        }
        let uncounted = [
            (PERF_TYPE_RAW, 0x1ff),
            // 12 is the type of raw events on another kind of core.
            (12, 0x1ff),
            (PERF_TYPE_HARDWARE, branch_misses),
            // This is the number of misses of L1-dcache-loads.
            (PERF_TYPE_HW_CACHE, 1 << 16),
        ];
        for (type_, config) in uncounted {
            assert!(!is_counted(&emulated, type_, config, 0), "{config:#x}");
            assert!(is_counted(&real, type_, config, 0), "{config:#x}");
        }
    }

    #[test]
    fn counted_events_may_take_turns() {
        let may = |type_, sample_period, flags, read_format, in_group| {
            let attr = PerfEventAttr {
                type_,
                size: 112,
                sample_period,
                read_format,
                flags,
                ..PerfEventAttr::ZERO
            };
            Attributes::new(attr.as_bytes()[..112].to_vec()).may_take_turns(in_group)
        };
        assert!(may(PERF_TYPE_RAW, 0, PerfEventAttr::PINNED, 3, false));
        assert!(may(PERF_TYPE_SOFTWARE, 1, 0, 3, false));
        assert!(!may(PERF_TYPE_HARDWARE, 1000, 0, 3, false));
        assert!(!may(
            PERF_TYPE_HARDWARE,
            0,
            PerfEventAttr::EXCLUSIVE,
            3,
            false
        ));
        // Without both times the program would take a part of a count for the whole.
        assert!(!may(PERF_TYPE_HARDWARE, 0, 0, 1, false));
        assert!(may(PERF_TYPE_HARDWARE, 0, 0, 0, true));
    }

    #[test]
    fn errors_are_translated_to_those_of_the_kernel() {
        use Errno as E;
        assert_eq!(errno_for_caller(E::EBUSY, false, || false), E::EBUSY);
        assert_eq!(errno_for_caller(E::EBUSY, false, || true), E::ENOENT);
        assert_eq!(errno_for_caller(E::EBUSY, true, || true), E::EINVAL);
        assert_eq!(errno_for_caller(E::EOPNOTSUPP, true, || true), E::EINVAL);
        for errno in [E::EACCES, E::EPERM, E::EINVAL, E::ESRCH, E::EMFILE] {
            assert_eq!(errno_for_caller(errno, true, || true), errno);
            assert_eq!(errno_for_caller(errno, false, || true), errno);
        }
    }
}
