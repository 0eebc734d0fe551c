// SPDX-License-Identifier: MIT OR Apache-2.0
//! The configuration of an event before it is opened: which event, which tasks, and when it counts.

use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use nix::errno::Errno;
use nix::unistd::gettid;
use perfmon_core::abi::PERFMON_EVENT_ROTATE;
use perfmon_core::logic::event_attr::{self as attr, PerfEventAttr};
use zerocopy::IntoBytes;

use super::{Cgroup, Encoding, Event, EventLabel, Owners, shared};
use crate::sampler::DEFAULT_PAGES;
use crate::spec::{self, EventSpec};
use crate::sys::{Driver, EventOpen};
use crate::{Attempt, Cause, Device, Error, EventSelect, Modes, Pmu};

/// The tasks that an event counts, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub(super) tasks: Tasks,
    pub(super) cpu: i32,
}

/// The tasks that an event counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tasks {
    /// The argument `pid` of `perf_event_open(2)`: 0 is the calling thread, -1 all tasks, any other a thread's ID.
    Pid(i32),
    /// Tasks of a cgroup and of its descendants.
    Cgroup(Cgroup),
}

impl Target {
    /// The calling thread, on any CPU.
    const THIS_THREAD: Self = Self {
        tasks: Tasks::Pid(0),
        cpu: -1,
    };

    /// Returns whether the target is not restricted to one CPU.
    pub(crate) fn is_on_all_cpus(&self) -> bool {
        self.cpu == -1
    }

    /// Returns the cgroup, if the target is one.
    pub(crate) fn cgroup(&self) -> Option<&Cgroup> {
        match &self.tasks {
            Tasks::Pid(_) => None,
            Tasks::Cgroup(cgroup) => Some(cgroup),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tasks {
            Tasks::Pid(-1) => f.write_str("all tasks")?,
            Tasks::Pid(0) => f.write_str("this thread")?,
            Tasks::Pid(pid) => write!(f, "task {pid}")?,
            Tasks::Cgroup(cgroup) => write!(f, "cgroup {}", cgroup.path().display())?,
        }
        match self.cpu {
            -1 => Ok(()),
            cpu => write!(f, " on CPU {cpu}"),
        }
    }
}

/// The configuration of an [`Event`]: what it counts, of which tasks, and when. [`open`](Self::open) opens it.
///
/// By default it counts the calling thread, on all CPUs, in user mode and in the kernel, as soon as it is opened.
#[derive(Clone, Debug)]
#[must_use = "it counts once it is opened"]
pub struct Builder {
    pub(super) label: EventLabel,
    pub(super) target: Target,
    pub(crate) attr: PerfEventAttr,
    /// Number of 4 KiB pages of the ring, if the event is sampled.
    pub(crate) pages: usize,
    /// The event shares a counter in turns with others if no counter is free.
    pub(super) takes_turns: bool,
}

/// `PERF_FLAG_PID_CGROUP`.
const PID_IS_CGROUP: u32 = 1 << 2;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: u32 = 1 << 3;

impl Builder {
    /// Creates the configuration of the event with this encoding.
    pub fn new(encoding: Encoding) -> Self {
        let (type_, config) = encoding.numbers();
        Self {
            label: EventLabel::new(encoding),
            target: Target::THIS_THREAD,
            attr: PerfEventAttr {
                type_,
                config,
                size: PerfEventAttr::SIZE,
                read_format: attr::PERF_FORMAT_TOTAL_TIME_ENABLED
                    | attr::PERF_FORMAT_TOTAL_TIME_RUNNING,
                ..PerfEventAttr::ZERO
            },
            pages: DEFAULT_PAGES,
            takes_turns: false,
        }
    }

    /// Returns the encoding.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.label.encoding()
    }

    /// Counts on one kind of core of a hybrid processor only: that of Linux's PMU with this `type`. While a task runs on
    /// another one, [`running`](super::Reading::running) stands still.
    pub fn core_type(mut self, core_type: u32) -> Self {
        match self.attr.type_ {
            attr::PERF_TYPE_HARDWARE | attr::PERF_TYPE_HW_CACHE => {
                self.attr.config |= u64::from(core_type) << attr::PERF_PMU_TYPE_SHIFT;
            }
            attr::PERF_TYPE_RAW => self.attr.type_ = core_type,
            _ => {}
        }
        self
    }

    /// Names the event `name` in errors and in [`Counts::get`](super::Counts::get).
    pub fn label(mut self, name: &str) -> Self {
        self.label = self.label.with_name(name);
        self
    }

    /// Counts in user mode only.
    pub fn user(self) -> Self {
        self.modes(Modes::User)
    }

    /// Counts in the kernel only.
    pub fn kernel(self) -> Self {
        self.modes(Modes::Kernel)
    }

    /// Counts in these modes.
    pub fn modes(self, modes: Modes) -> Self {
        self.flag(PerfEventAttr::EXCLUDE_USER, modes == Modes::Kernel)
            .flag(PerfEventAttr::EXCLUDE_KERNEL, modes == Modes::User)
    }

    /// Counts the calling thread.
    pub fn this_thread(mut self) -> Self {
        self.target.tasks = Tasks::Pid(0);
        self
    }

    /// Counts the thread with this ID; a process's ID is that of its first thread. With
    /// [`inherit`](Self::inherit) it counts also the threads that this one creates from then on.
    pub fn pid(mut self, pid: u32) -> Self {
        // No thread has an ID above `i32::MAX`, so the kernel answers with ESRCH.
        self.target.tasks = Tasks::Pid(i32::try_from(pid).unwrap_or(i32::MAX));
        self
    }

    /// Counts only on this CPU.
    pub fn cpu(mut self, cpu: u32) -> Self {
        self.target.cpu = i32::try_from(cpu).unwrap_or(i32::MAX);
        self
    }

    /// Counts all tasks, which needs one [CPU](Self::cpu).
    pub fn all_tasks(mut self) -> Self {
        self.target.tasks = Tasks::Pid(-1);
        self
    }

    /// Counts the tasks of a cgroup and of its descendants while they belong to it: on all CPUs, as one sum, or on one
    /// [CPU](Self::cpu). An event takes one counter for any number of cgroups.
    pub fn cgroup(mut self, cgroup: &Cgroup) -> Self {
        self.target.tasks = Tasks::Cgroup(cgroup.clone());
        self
    }

    /// Counts also the threads and processes that the task creates, and those that they create. The sum is in this
    /// event.
    pub fn inherit(self) -> Self {
        self.flag(PerfEventAttr::INHERIT, true)
    }

    /// Counts from [`Event::enable`] on.
    pub fn disabled(self) -> Self {
        self.flag(PerfEventAttr::DISABLED, true)
    }

    /// Counts from the task's next exec on, if it is [disabled](Self::disabled).
    pub fn enable_on_exec(self) -> Self {
        self.flag(PerfEventAttr::ENABLE_ON_EXEC, true)
    }

    /// Lets the event share a counter in turns with other such events of the same task or CPU if no counter is free.
    /// The event was then counted only for [`running`](super::Reading::running) of the time
    /// [`enabled`](super::Reading::enabled). Such an event can be neither sampled nor [exclusive](Self::exclusive).
    /// Members of a group take turns if their leader does.
    pub fn rotate(mut self) -> Self {
        self.takes_turns = true;
        self
    }

    /// Sets `pinned` of `perf_event_attr`: the event has a counter all the time. Events of this driver have one anyway,
    /// unless they take [turns](Self::rotate).
    pub fn pinned(self) -> Self {
        self.flag(PerfEventAttr::PINNED, true)
    }

    /// Shares the counters with no other event.
    pub fn exclusive(self) -> Self {
        self.flag(PerfEventAttr::EXCLUSIVE, true)
    }

    pub(crate) fn flag(mut self, flag: u64, set: bool) -> Self {
        self.attr.flags = self.attr.flags & !flag | if set { flag } else { 0 };
        self
    }

    /// Opens the event; its descriptor is closed on exec.
    ///
    /// # Errors
    /// [`Cause::NoFreeCounter`] if no counter is left beside the events that are open; [`Cause::NoSuchEvent`] if the CPUs
    /// lack it; [`Cause::NoSuchTask`]; [`Cause::NoSuchCpu`]; [`Cause::NoSuchCgroup`] if the cgroup was removed;
    /// [`Cause::CgroupTooDeep`]; [`Cause::Forbidden`] if the caller may not count this task, kernel mode or, for a CPU or a
    /// cgroup, all tasks; and the errors of [`Device::open`].
    pub fn open(&self) -> Result<Event, Error> {
        self.open_on(&shared::device()?)
    }

    /// Opens the event on a device that is open already.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(&self, device: &Device) -> Result<Event, Error> {
        self.open_in(device, None)
    }

    /// Opens the event as a member of `leader`'s group.
    pub(super) fn open_in(
        &self,
        device: &Device,
        leader: Option<BorrowedFd<'_>>,
    ) -> Result<Event, Error> {
        let driver: Arc<dyn Driver> = device.shared_driver();
        let mut attr = self.attr;
        if attr.sample_period == 0 {
            // The driver refuses `precise_ip` without samples, as the kernel does, and a count is exact without it.
            attr.flags &= !PerfEventAttr::PRECISE_IP;
        }
        let (pid, flags) = match &self.target.tasks {
            Tasks::Pid(pid) => (*pid, CLOSE_ON_EXEC),
            Tasks::Cgroup(cgroup) => (cgroup.as_fd().as_raw_fd(), PID_IS_CGROUP | CLOSE_ON_EXEC),
        };
        let result = driver.open_event(&mut EventOpen {
            attr: attr.as_mut_bytes(),
            pid,
            cpu: self.target.cpu,
            group: leader,
            flags: if self.takes_turns {
                flags | PERFMON_EVENT_ROTATE
            } else {
                flags
            },
        });
        match result {
            Ok(descriptor) => Ok(Event {
                driver,
                descriptor,
                label: self.label.clone(),
                reads_lost: attr.read_format & attr::PERF_FORMAT_LOST != 0,
                thread: (self.target == Target::THIS_THREAD).then(gettid),
            }),
            Err(errno) => {
                let attempt = Attempt::OpenEvent(self.label.clone(), Box::new(self.target.clone()));
                let cause = match errno {
                    Errno::EBUSY => Cause::NoFreeCounter(Owners::of(device)),
                    errno => return Err(Error::new(attempt, errno)),
                };
                Err(Error { attempt, cause })
            }
        }
    }
}

/// Events that have a name; [`Builder::open`] opens them.
impl Event {
    /// Instructions that retired.
    pub fn instructions() -> Builder {
        Builder::new(Encoding::Hardware(attr::PERF_COUNT_HW_INSTRUCTIONS))
    }

    /// Cycles in which the CPU was not halted.
    pub fn cycles() -> Builder {
        Builder::new(Encoding::Hardware(attr::PERF_COUNT_HW_CPU_CYCLES))
    }

    /// Cycles of the CPU at the rate of the time-stamp counter.
    pub fn reference_cycles() -> Builder {
        Builder::new(Encoding::Hardware(attr::PERF_COUNT_HW_REF_CPU_CYCLES))
    }

    /// Branches that retired.
    pub fn branches() -> Builder {
        Builder::new(Encoding::Hardware(attr::PERF_COUNT_HW_BRANCH_INSTRUCTIONS))
    }

    /// Branches that retired and were mispredicted.
    pub fn branch_misses() -> Builder {
        Builder::new(Encoding::Hardware(attr::PERF_COUNT_HW_BRANCH_MISSES))
    }

    /// Accesses to the last level of the cache.
    pub fn cache_references() -> Builder {
        Builder::new(Encoding::Hardware(attr::PERF_COUNT_HW_CACHE_REFERENCES))
    }

    /// Accesses to the last level of the cache that missed it.
    pub fn cache_misses() -> Builder {
        Builder::new(Encoding::Hardware(attr::PERF_COUNT_HW_CACHE_MISSES))
    }

    /// An event that never happens and takes no counter. It serves to get records without samples: see
    /// [`tasks`](Builder::tasks) and [`mappings`](Builder::mappings).
    pub fn dummy() -> Builder {
        Builder::new(Encoding::Dummy)
    }

    /// The event that the CPU's manual lists under these numbers. The modes of the select are ignored.
    pub fn raw(select: EventSelect) -> Builder {
        Builder::new(Encoding::Raw(select))
    }

    /// Finds an event by its name, with modes, on the current CPU: `branch-misses`, `instructions:u`,
    /// `L1-dcache-load-misses`, `INST_RETIRED.ANY`, `r01c2`, `cpu/event=0xc0,cmask=1/k`. [`spec`] describes the names.
    ///
    /// ```no_run
    /// use perfmon::Event;
    ///
    /// let event = Event::named("instructions:u")?.this_thread().open()?;
    /// # Ok::<(), perfmon::Error>(())
    /// ```
    ///
    /// ```
    /// # use perfmon::Event;
    /// let error = Event::named("instrucions:u").unwrap_err();
    /// assert_eq!(error.to_string(), "can't count `instrucions:u`: no event is called `instrucions`");
    /// assert_eq!(error.cause.help(), Some("Did you mean `instructions`?"));
    /// ```
    ///
    /// # Errors
    /// [`Cause::Spec`] if no event has the name, or the CPU lacks the event; [`Cause::SeveralEvents`] if the text names
    /// several; [`Cause::ChosenCounter`] if the text asks for a counter, which the driver chooses.
    pub fn named(name: &str) -> Result<Builder, Error> {
        Self::named_on(name, &Pmu::of_this_cpu())
    }

    /// Finds an event by its name on another PMU.
    ///
    /// # Errors
    /// As [`named`](Self::named).
    pub fn named_on(name: &str, pmu: &Pmu) -> Result<Builder, Error> {
        let find_error = |cause| Error {
            attempt: Attempt::FindEvent(name.to_owned()),
            cause,
        };
        let events = spec::parse_without_groups(name, pmu);
        let events = events.map_err(|error| find_error(Cause::Spec(Box::new(error))))?;
        match &events[..] {
            [
                EventSpec {
                    pinned: Some(counter),
                    ..
                },
            ] => Err(find_error(Cause::ChosenCounter(*counter))),
            [event] => event
                .builder()
                .ok_or_else(|| find_error(Cause::NoSuchEvent)),
            _ => Err(find_error(Cause::SeveralEvents)),
        }
    }
}
