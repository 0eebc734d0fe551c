// SPDX-License-Identifier: MIT OR Apache-2.0
//! The configuration of an event before it is opened: which event, which tasks, and when it counts.
//! `sampler/builder.rs` adds the options of sampling to [`Builder`].

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use nix::errno::Errno;
use nix::unistd::gettid;
use perfmon_core::abi::PERFMON_EVENT_ROTATE;
use perfmon_core::logic::event_attr::{self as attr, PerfEventAttr};
use perfmon_core::logic::perf_event::{PERF_FLAG_FD_CLOEXEC, PERF_FLAG_PID_CGROUP};
use zerocopy::IntoBytes;

use super::target::Tasks;
use super::{Cgroup, Encoding, Event, EventLabel, Target, shared};
use crate::sys::{Driver, EventOpen};
use crate::{Attempt, Cause, Device, Error, Modes};

/// The configuration of an [`Event`]: the event, the counted tasks, and the times at which it
/// counts. [`open`](Self::open) opens it.
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
    /// The event takes turns with other events on a counter if no counter is free.
    pub(super) takes_turns: bool,
}

/// Default size of a ring, in pages.
const DEFAULT_RING_PAGES: usize = 64;

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
                config1: encoding.register_value(),
                size: PerfEventAttr::SIZE,
                read_format: attr::PERF_FORMAT_TOTAL_TIME_ENABLED
                    | attr::PERF_FORMAT_TOTAL_TIME_RUNNING,
                ..PerfEventAttr::ZERO
            },
            pages: DEFAULT_RING_PAGES,
            takes_turns: false,
        }
    }

    /// Returns the encoding.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.label.encoding()
    }

    /// Counts on one kind of core of a hybrid processor only. `core_type` is the `type` of Linux's
    /// PMU for this kind. While a task runs on another kind, [`running`](super::Reading::running)
    /// stands still.
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

    /// Counts the thread with this ID. The ID of a process means its first thread. With
    /// [`inherit`](Self::inherit), the event also counts the threads that this thread creates
    /// later.
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

    /// Counts all tasks. Requires one [CPU](Self::cpu).
    pub fn all_tasks(mut self) -> Self {
        self.target.tasks = Tasks::Pid(-1);
        self
    }

    /// Counts the tasks of a cgroup and of its descendants while they belong to it: on all CPUs, as
    /// one sum, or on one [CPU](Self::cpu). Events with the same encoding share one counter,
    /// however many cgroups they count.
    pub fn cgroup(mut self, cgroup: &Cgroup) -> Self {
        self.target.tasks = Tasks::Cgroup(cgroup.clone());
        self
    }

    /// Counts also the descendants of the task: all threads and processes that it creates, directly
    /// or indirectly. The count of the event is the sum over all of these tasks.
    pub fn inherit(self) -> Self {
        self.flag(PerfEventAttr::INHERIT, true)
    }

    /// Opens the event disabled: it counts only from [`Event::enable`] on.
    pub fn disabled(self) -> Self {
        self.flag(PerfEventAttr::DISABLED, true)
    }

    /// Lets a [disabled](Self::disabled) event count from the task's next exec on.
    pub fn enable_on_exec(self) -> Self {
        self.flag(PerfEventAttr::ENABLE_ON_EXEC, true)
    }

    /// Lets the event share a counter in turns with other such events of the same task or CPU if no
    /// counter is free. The event then counts only for the time
    /// [`running`](super::Reading::running), which is a part of the time
    /// [`enabled`](super::Reading::enabled). Such an event can be neither sampled nor
    /// [exclusive](Self::exclusive). Members of a group take turns if their leader does.
    pub fn rotate(mut self) -> Self {
        self.takes_turns = true;
        self
    }

    /// Sets `pinned` of `perf_event_attr`: the event has a counter all the time. Events of this
    /// driver always have a counter, unless they take [turns](Self::rotate).
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
            // Clears `precise_ip` for an event without samples: the driver, like the kernel,
            // refuses it there, and a count is exact anyway.
            attr.flags &= !PerfEventAttr::PRECISE_IP;
        }
        match self.open_with(&driver, attr, leader) {
            Ok(descriptor) => Ok(Event {
                driver,
                descriptor,
                label: self.label.clone(),
                reads_lost: attr.read_format & attr::PERF_FORMAT_LOST != 0,
                thread: (self.target == Target::THIS_THREAD).then(gettid),
                place: None,
            }),
            Err(errno) => {
                let attempt = Attempt::OpenEvent(self.label.clone(), Box::new(self.target.clone()));
                let cause = match errno {
                    Errno::EBUSY => Some(Cause::NoFreeCounter(device.owners())),
                    Errno::EINVAL if self.has_too_high_frequency(&driver, attr, leader) => {
                        Some(Cause::FrequencyTooHigh(attr.sample_period))
                    }
                    _ => None,
                };
                Err(match cause {
                    Some(cause) => Error { attempt, cause },
                    None => Error::new(attempt, errno),
                })
            }
        }
    }

    /// Opens an event of these attributes for the target.
    fn open_with(
        &self,
        driver: &Arc<dyn Driver>,
        mut attr: PerfEventAttr,
        leader: Option<BorrowedFd<'_>>,
    ) -> Result<OwnedFd, Errno> {
        let (pid, flags) = match &self.target.tasks {
            Tasks::Pid(pid) => (*pid, PERF_FLAG_FD_CLOEXEC),
            Tasks::Cgroup(cgroup) => (
                cgroup.as_fd().as_raw_fd(),
                PERF_FLAG_PID_CGROUP | PERF_FLAG_FD_CLOEXEC,
            ),
        };
        driver.open_event(&mut EventOpen {
            attr: attr.as_mut_bytes(),
            pid,
            cpu: self.target.cpu,
            group: leader,
            flags: if self.takes_turns {
                flags | PERFMON_EVENT_ROTATE
            } else {
                flags
            },
        })
    }

    /// Returns whether the driver has refused these attributes (EINVAL) because of the frequency.
    /// To find out, opens a disabled event with the same attributes and a frequency of 1 Hz, and
    /// closes it at once.
    fn has_too_high_frequency(
        &self,
        driver: &Arc<dyn Driver>,
        attr: PerfEventAttr,
        leader: Option<BorrowedFd<'_>>,
    ) -> bool {
        let lowest = PerfEventAttr {
            sample_period: 1,
            flags: (attr.flags | PerfEventAttr::DISABLED) & !PerfEventAttr::ENABLE_ON_EXEC,
            ..attr
        };
        attr.flags & PerfEventAttr::FREQ != 0
            && !matches!(self.open_with(driver, lowest, leader), Err(Errno::EINVAL))
    }
}
