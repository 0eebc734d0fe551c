// SPDX-License-Identifier: GPL-2.0-only
//! The event interface: descriptors that count a task, what it creates, or a CPU.
//!
//! An [`Event`](event::Event) has one sum. It counts through slots ([`slot`]): one in the context of each task that it
//! counts ([`context`]), or in that of its CPU. The context switch ([`switch`]) closes the windows of one task and
//! opens those of the next; [`life`] follows tasks that begin and end. A counter runs all the time, so at a switch
//! between tasks that count the same no register is written.
//!
//! # Locks
//!
//! No program keeps others from their events by what it does, or by not getting to run. The kernel's sleeping locks do not
//! give that: a mutex is handed to a waiter of `SCHED_IDLE`, which then holds it for as long as others are busy, and an
//! `rt_mutex` passes on the priority of real-time tasks only. So there is no sleeping lock that two programs need which have
//! nothing to do with each other:
//!
//! - Reading takes none. The CPU of a task is asked, or, of an inherited event, each CPU that has a context loaded
//!   ([`attach::refresh_everywhere`]).
//! - A context has its holder ([`context`]), for moments with interrupts off.
//! - A group has a lock ([`group`]), for those who have descriptors of it; so has what an event maps ([`page`]).
//! - Two who open events of one task at once may choose the same counter: the second one chooses again ([`admit`]).
//! - The tracepoints are registered by kernel threads ([`hooks`]).
//! - RCU is held by staying on the CPU, and not by `rcu_read_lock()`, under which a task can be preempted: the end of a grace
//!   period is what unmapping a ring waits for, and the kernel's hotplug.
//!
//! Order: the lock of a group, then [`OWNERSHIP`], a spinlock; and the lock of the table of contexts ([`table`]), which is
//! the innermost. The context switch and the other tracepoints take the last one only.

mod attach;
mod calls;
mod context;
mod descriptor;
#[allow(clippy::module_inception, reason = "what the folder is about")]
mod event;
mod exit;
mod group;
mod hooks;
mod life;
mod page;
mod record;
mod ring;
mod sampling;
mod slot;
mod switch;
mod table;
mod target;

pub(crate) use self::switch::{enter_cpu, leave_cpu};

use self::{
    attach::{attach, counters_of, Refusal},
    context::Context,
    event::{Event, Target},
    group::Joining,
};
use crate::{
    abi, cpu,
    logic::{
        admission::choose,
        counter::CounterId,
        event_attr::{InvalidAttr, PerfEventAttr},
        event_config::EventConfig,
    },
    module_parameters,
    ownership::{
        policy::{allow_kernel, allow_perf},
        with_reserved, Client, Ownership, Sharing, OWNERSHIP,
    },
    percpu, pmu,
    sys::{
        compat::parameter,
        descriptor::{Descriptor, Open, Reserved},
        error::{errno, to_result},
        ffi, uaccess,
    },
};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use kernel::prelude::*;

/// The id of the last event that was opened.
///
/// ATOMICS: relaxed. The number orders no other access.
static LAST_ID: AtomicU64 = AtomicU64::new(0);

/// What events need for as long as the module is loaded.
///
/// # Invariants
///
/// While a value of this type exists, proc is mounted.
pub(crate) struct Memory(());

impl Memory {
    /// Prepares for events.
    ///
    /// # Errors
    ///
    /// ENOMEM, or ENODEV if the kernel has no proc.
    ///
    /// # Safety
    ///
    /// To be called once in the module's life, before there can be events. The result outlives them, and is dropped
    /// before the memory of the CPUs.
    pub(crate) unsafe fn new() -> Result<Self> {
        // SAFETY: This is the only initialization, and there is no event before.
        unsafe { hooks::init() };
        // SAFETY: The function has no preconditions.
        unsafe { ffi::perfmon_rdpmc_init() };
        // SAFETY: `drop` unmounts it.
        to_result(unsafe { ffi::perfmon_proc_mount() })?;
        // INVARIANT: Just mounted.
        Ok(Self(()))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // No event is left, since each keeps the module.
        hooks::finish();
        // For the functions that were registered, and for events and contexts that RCU has yet to free.
        // SAFETY: The function has no preconditions but a task that may sleep.
        unsafe { ffi::perfmon_tracepoints_sync() };
        for cpu in cpu::ids() {
            let percpu = percpu::of(cpu);
            // SAFETY: The address is that of a context from `KBox::into_raw`, which nothing uses any more: CPUs are not
            // counted on at the module's end.
            if let Some(context) = unsafe { Context::from_address(percpu.cpu_context.get()) } {
                percpu.cpu_context.set(0);
                // SAFETY: As above.
                drop(unsafe { KBox::from_raw(core::ptr::from_ref(context).cast_mut()) });
            }
        }
        // SAFETY: `new` has begun it, and there is no mapping.
        unsafe { ffi::perfmon_rdpmc_exit() };
        // SAFETY: By the type invariant it is mounted.
        unsafe { ffi::perfmon_proc_unmount() };
    }
}

/// Flags of perf_event_open(2).
mod flag {
    pub(super) const NO_GROUP: u32 = 1 << 0;
    pub(super) const OUTPUT: u32 = 1 << 1;
    pub(super) const CLOEXEC: u32 = 1 << 3;
    pub(super) const ALL: u32 = NO_GROUP | OUTPUT | CLOEXEC;
}

/// `PERFMON_EVENT_OPEN`
pub(crate) fn open(_client: &Client, request: abi::perfmon_event_open) -> Result<c_int> {
    if request.flags & !flag::ALL != 0 || request.reserved.iter().any(|&word| word != 0) {
        return Err(EINVAL);
    }
    let attr = copy_attr(request.attr as usize)?;
    allow_perf()?;
    let pmu = pmu::common();
    let cpus = pmu::processor(cpu::pin().here()).microarchitecture();
    let config = EventConfig::new(&attr, &pmu.capabilities, cpus)?;
    config.sampling.rate.check(max_sample_rate())?;
    if config.select.is_kernel() || config.sampling.has_kernel_branches() {
        allow_kernel()?;
    }
    let descriptor = Reserved::new(request.flags & flag::CLOEXEC != 0)?;
    let group = match request.group_fd {
        -1 => None,
        fd => Some(Open::<Event>::get(fd)?),
    };
    let leader = match &group {
        Some(group) if request.flags & flag::NO_GROUP == 0 => Some(group.data()),
        _ => None,
    };
    let target = Target::find(request.pid, request.cpu)?;
    // Of the tasks that come and go on a CPU each has its own calls.
    if config.sampling.has_recorded_calls() && matches!(target, Target::Cpu(_)) {
        return Err(InvalidAttr::Unsupported.into());
    }
    let event = create(config, target, leader)?;
    if request.flags & flag::OUTPUT != 0 {
        if let Some(other) = &group {
            if let Err(error) = page::set_output(&event, Some(other.data())) {
                <Event as Descriptor>::close(event);
                return Err(error);
            }
        }
    }
    descriptor.install(event)
}

/// Returns the most samples in a second that an event may ask for; 0 for no limit.
fn max_sample_rate() -> u32 {
    parameter(&module_parameters::perf_event_max_sample_rate)
}

/// Copies a `struct perf_event_attr` from a program.
///
/// # Errors
///
/// EFAULT. E2BIG if its size is wrong, or what is behind the structure that the module knows is not 0: the program then
/// finds the size that the module knows.
fn copy_attr(from: usize) -> Result<PerfEventAttr> {
    let at_size = from.wrapping_add(core::mem::offset_of!(PerfEventAttr, size));
    let size = uaccess::get_u32(at_size)?;
    let mut attr = PerfEventAttr::ZERO;
    let copied = match PerfEventAttr::copy_size(size) {
        Some(size) => uaccess::fill_from(&mut attr, from, size.copied + size.tail),
        None => Err(E2BIG),
    };
    if copied == Err(E2BIG) {
        uaccess::put_u32(at_size, PerfEventAttr::SIZE)?;
    }
    copied.map(|()| attr)
}

/// Makes an event that counts.
///
/// The task may execute a setuid program at any time, and is not the caller's from then on. The event counts nothing
/// until the caller has been allowed to look at the task once more, when it has its slot: a program that the task has
/// begun to execute before that is asked for here, and one that it begins to execute later takes the event away
/// ([`life::on_exec`]).
fn create(
    mut config: EventConfig,
    target: Target,
    leader: Option<&Event>,
) -> Result<Pin<KBox<Event>>> {
    // On a CPU there is nothing to inherit.
    config.inherit &= matches!(target, Target::Task(..));
    let mut joining = None;
    if let Some(leader) = leader {
        if leader.is_over() {
            return Err(ENODEV);
        }
        check_group(&config, &target, leader)?;
        joining = Some(Joining::begin(leader)?);
    }
    let follows = follows_tasks(&config, &target);
    if follows {
        hooks::begin()?;
    }
    let id = LAST_ID.fetch_add(1, Relaxed) + 1;
    let event = match admit(config, target, leader, id) {
        Ok(event) => event,
        Err(error) => {
            if follows {
                hooks::end();
            }
            return Err(error);
        }
    };
    record::begin(&event);
    if let Err(error) = event.target.allow_again() {
        // Closing it takes the lock of the group.
        drop(joining);
        <Event as Descriptor>::close(event);
        return Err(error);
    }
    descriptor::start(&event);
    if let Some(joining) = joining {
        joining.add(&event);
    }
    Ok(event)
}

/// Returns whether such an event has to know what happens to tasks.
fn follows_tasks(config: &EventConfig, target: &Target) -> bool {
    matches!(target, Target::Task(..)) || config.sampling.follows_tasks()
}

/// Checks whether an event may be in the group of `leader`.
///
/// # Errors
///
/// EINVAL.
fn check_group(config: &EventConfig, target: &Target, leader: &Event) -> Result {
    // Only a leader can be pinned or exclusive.
    if leader.target.is_same(target)
        && leader.config.inherit == config.inherit
        && leader.config.inherit_thread == config.inherit_thread
        && !config.exclusive
        && !config.pinned
    {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

/// Makes an event with a counter, and gives it to its target. It counts nothing yet.
///
/// # Errors
///
/// EBUSY if no counter is left that can count it. EIO if the counter does not hold what is written. ESRCH, ENOMEM.
fn admit(
    config: EventConfig,
    mut target: Target,
    leader: Option<&Event>,
    id: u64,
) -> Result<Pin<KBox<Event>>> {
    let sharing = target.sharing();
    loop {
        let counter = own_counter(&config, &target)?;
        let joined = leader.map(|leader| leader.led.clone());
        let event = Event::new(config, counter, target, joined, id);
        let event = KBox::pin_init(event, GFP_KERNEL_ACCOUNT);
        let attached = event.map(|event| (attach(&event, leader), event));
        match attached {
            Ok((Ok(()), event)) => return Ok(event),
            Ok((Err(Refusal::Taken), event)) => target = event.target.clone(),
            Ok((Err(Refusal::Error(error)), _)) | Err(error) => {
                release(counter, &config, sharing);
                return Err(error);
            }
        }
        // Another event of the target has got the counter since it was chosen: once more, with another one.
        release(counter, &config, sharing);
    }
}

/// Gives an event a counter that can count it, beside the events that its target has now.
///
/// # Errors
///
/// As [`admit`].
fn own_counter(config: &EventConfig, target: &Target) -> Result<CounterId> {
    let sharing = target.sharing();
    let busy = counters_of(target);
    let check = |ownership: &Ownership| {
        if let Target::Cpu(cpu) = target {
            ownership.check_cpu(*cpu)?;
        }
        ownership.check_exclusive(Some(sharing))
    };
    with_reserved(check, |ownership| {
        if config.exclusive {
            ownership.begin_exclusive(sharing)?;
        }
        let chosen = choose(
            config,
            ownership.free_counters(),
            ownership.pool(sharing),
            busy,
        );
        let joined = chosen.ok_or(EBUSY).and_then(|counter| {
            let branches = config.sampling.branches.map(|stack| stack.branches);
            if let Some(branches) = branches {
                ownership.begin_branches(branches)?;
            }
            let joined = ownership.join(sharing, counter, config.select_on(counter));
            if joined.is_err() && branches.is_some() {
                ownership.end_branches();
            }
            joined.map(|()| counter)
        });
        if joined.is_err() && config.exclusive {
            ownership.end_exclusive(sharing);
        }
        joined
    })
}

/// Gives back what an event has of the machine.
fn release(counter: CounterId, config: &EventConfig, sharing: Sharing) {
    let mut ownership = OWNERSHIP.lock();
    ownership.part(counter);
    if config.sampling.branches.is_some() {
        ownership.end_branches();
    }
    if config.exclusive {
        ownership.end_exclusive(sharing);
    }
}

impl From<InvalidAttr> for Error {
    fn from(error: InvalidAttr) -> Self {
        match error {
            InvalidAttr::Invalid => EINVAL,
            InvalidAttr::Unsupported => errno(kernel::bindings::EOPNOTSUPP),
            InvalidAttr::NoEvent => ENOENT,
            InvalidAttr::TooDeep => errno(kernel::bindings::EOVERFLOW),
        }
    }
}
