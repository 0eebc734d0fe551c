// SPDX-License-Identifier: GPL-2.0-only
//! Opening an event: `PERFMON_EVENT_OPEN`.

use super::{
    attach::{attach, AttachError},
    descriptor,
    event::Event,
    group::GroupJoin,
    hooks, output, reassign, record,
    resources::{max_sample_rate, release_resources, take_counters},
    switch::on_last_sample,
    target::Target,
};
use crate::{
    abi::{self, PERFMON_EVENT_ROTATE},
    cpu,
    logic::{
        event_attr::{InvalidAttr, PerfEventAttr},
        event_config::EventConfig,
        perf_event::{
            PERF_FLAG_FD_CLOEXEC, PERF_FLAG_FD_NO_GROUP, PERF_FLAG_FD_OUTPUT, PERF_FLAG_PID_CGROUP,
        },
    },
    ownership::{
        policy::{check_lockdown, check_may_count_kernel},
        Client,
    },
    pmu::{self, pebs::may_run_guests},
    sys::{
        cgroup,
        descriptor::{Descriptor, OpenDescriptor, ReservedDescriptor},
        error::errno,
        ffi, uaccess,
    },
};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use kernel::{error::to_result, prelude::*};

/// The ID of the last event that was opened.
///
/// ATOMICS: relaxed. The number orders no other access.
static LAST_ID: AtomicU64 = AtomicU64::new(0);

/// All flags that the call accepts: flags of perf_event_open(2), and `PERFMON_EVENT_ROTATE`. perf
/// needs no such flag, since its events always take turns.
const ALL_FLAGS: u32 = PERF_FLAG_FD_NO_GROUP
    | PERF_FLAG_FD_OUTPUT
    | PERF_FLAG_PID_CGROUP
    | PERF_FLAG_FD_CLOEXEC
    | PERFMON_EVENT_ROTATE;

/// Serves `PERFMON_EVENT_OPEN`. Returns the new descriptor.
pub(crate) fn open(_client: &Client, request: abi::perfmon_event_open) -> Result<c_int> {
    if request.flags & !ALL_FLAGS != 0 || request.reserved.iter().any(|&word| word != 0) {
        return Err(EINVAL);
    }
    let attr = copy_attr(request.attr as usize)?;
    check_lockdown()?;
    let pmu = pmu::common();
    let mut config = EventConfig::new(&attr, &pmu.capabilities, &pmu.kinds)?;
    // A pinned event never gives its counter up.
    config.takes_turns = request.flags & PERFMON_EVENT_ROTATE != 0 && !config.pinned;
    config.sampling.trigger.check(max_sample_rate())?;
    if !cgroup::EXIST && config.sampling.has_cgroups() {
        return Err(EINVAL);
    }
    if config.select.is_kernel() || config.sampling.has_kernel_branches() {
        check_may_count_kernel()?;
    }
    let descriptor = ReservedDescriptor::new(request.flags & PERF_FLAG_FD_CLOEXEC != 0)?;
    let group = match request.group_fd {
        -1 => None,
        fd => Some(OpenDescriptor::<Event>::get(fd)?),
    };
    let leader = match &group {
        Some(group) if request.flags & PERF_FLAG_FD_NO_GROUP == 0 => Some(group.data()),
        _ => None,
    };
    let target = if request.flags & PERF_FLAG_PID_CGROUP != 0 {
        Target::find_cgroup(request.pid, request.cpu)?
    } else {
        Target::find(request.pid, request.cpu)?
    };
    check_target(&config, &target)?;
    if config.takes_turns && leader.is_none() && !config.sampling.read.has_both_times() {
        // Without both times a reader can't see that an event counted for a part of the time only.
        return Err(EINVAL);
    }
    if config.sampling.is_precise {
        prepare_precise()?;
    }
    let output = match &group {
        Some(group) if request.flags & PERF_FLAG_FD_OUTPUT != 0 => Some(group.data()),
        _ => None,
    };
    descriptor.install(create_event(config, target, leader, output)?)
}

/// Prepares the module for an event with precise samples, which the processor writes (PEBS).
///
/// # Errors
///
/// EOPNOTSUPP while KVM is in use. ENOMEM if there is no memory.
fn prepare_precise() -> Result {
    if may_run_guests(cpu::pin().here()) {
        return Err(InvalidAttr::Unsupported.into());
    }
    // SAFETY: `perfmon_pebs_alloc()` requires a caller that may sleep: a task in ioctl(2), without spinlocks, may.
    to_result(unsafe { ffi::perfmon_pebs_alloc() })
}

/// Checks that an event with `config` may have this target.
///
/// # Errors
///
/// [`InvalidAttr::Unsupported`] if the event may not have the target.
fn check_target(config: &EventConfig, target: &Target) -> Result<(), InvalidAttr> {
    let sampling = &config.sampling;
    // Call stacks in branch records are kept for each task.
    let needs_one_task = sampling.has_call_stack();
    // The events of a cgroup and of its ancestors count at the same time, so they can't take turns independently.
    let needs_own_counter = config.exclusive || sampling.trigger.is_sampled();
    let is_of_cgroup = matches!(target, Target::Cgroup(..));
    if config.takes_turns && (needs_own_counter || is_of_cgroup) {
        return Err(InvalidAttr::Unsupported);
    }
    let is_supported = match target {
        Target::Task(..) => true,
        Target::Cpu(_) => !needs_one_task,
        // A ring has one writer at a time, so recording a cgroup needs a CPU.
        Target::Cgroup(_, cpu) => {
            let is_recorded = sampling.trigger.is_sampled() || sampling.follows_tasks();
            !config.exclusive && !needs_one_task && (cpu.is_some() || !is_recorded)
        }
    };
    if is_supported {
        Ok(())
    } else {
        Err(InvalidAttr::Unsupported)
    }
}

/// Copies a `struct perf_event_attr` from a program.
///
/// # Errors
///
/// EFAULT if the address is bad. E2BIG if `size` is invalid, or if bytes after the fields that the module knows are not 0.
/// In both cases the module's own size is written to the program's `size`.
fn copy_attr(from: usize) -> Result<PerfEventAttr> {
    let size_address = from.wrapping_add(core::mem::offset_of!(PerfEventAttr, size));
    let size = uaccess::get_u32(size_address)?;
    let mut attr = PerfEventAttr::ZERO;
    let result = match PerfEventAttr::copy_size(size) {
        Some(size) => uaccess::copy_struct_from_user(&mut attr, from, size.copied + size.tail),
        None => Err(E2BIG),
    };
    if result == Err(E2BIG) {
        // As in perf, the error stays E2BIG if the size can't be written, since the program's structure is read-only.
        let _ = uaccess::put_u32(size_address, PerfEventAttr::SIZE);
    }
    result.map(|()| attr)
}

/// Creates an event, attaches it to its target, and enables it unless it is opened as disabled. The event writes its
/// records to the ring of the event `output`, if there is one.
///
/// The task may execute a setuid program at any time, which the caller may not count. So the caller's permission is
/// checked again after the event was attached, and before the event counts. After an exec of such a program, the check
/// fails. If the exec comes after the check, it finds the event and removes it ([`task_lifecycle::on_exec`]).
fn create_event(
    mut config: EventConfig,
    target: Target,
    leader: Option<&Event>,
    output: Option<&Event>,
) -> Result<Pin<KBox<Event>>> {
    // Only events of tasks can be inherited.
    config.inherit &= matches!(target, Target::Task(..));
    if let Some(leader) = leader {
        if leader.has_ended() {
            return Err(ENODEV);
        }
        // A group takes turns as a whole, or not at all.
        config.takes_turns &= leader.config.takes_turns;
        check_group(&config, &target, leader)?;
    }
    // Checked before a counter is taken, since that may move other events.
    if let Some(output) = output {
        output::check_output(&config, &target, output)?;
    }
    let group_join = leader.map(GroupJoin::begin).transpose()?;
    let follows_tasks = target.follows_tasks(&config);
    let wants_mappings = config.sampling.mappings.are_wanted();
    if follows_tasks {
        hooks::add_user(wants_mappings)?;
    }
    let id = LAST_ID.fetch_add(1, Relaxed) + 1;
    let event = match new_attached_event(config, target, leader, id) {
        Ok(event) => event,
        Err(error) => {
            if follows_tasks {
                hooks::remove_user(wants_mappings);
            }
            return Err(error);
        }
    };
    let set_output = || match output {
        Some(_) => output::set_output(&event, output),
        None => Ok(()),
    };
    // Done before the event is enabled, since otherwise the event's first records would go to no ring.
    if let Err(error) = event.target.recheck_access().and_then(|()| set_output()) {
        // `close` takes the lock of the group, which `group_join` holds.
        drop(group_join);
        <Event as Descriptor>::close(event);
        return Err(error);
    }
    descriptor::enable_unless_disabled(&event);
    if let Some(group_join) = group_join {
        group_join.add(&event);
    }
    Ok(event)
}

/// Checks that an event may join the group of `leader`.
///
/// # Errors
///
/// EINVAL if the event may not join the group.
fn check_group(config: &EventConfig, target: &Target, leader: &Event) -> Result {
    // Only a leader can be pinned or exclusive.
    if leader.target.is_same_target(target)
        && leader.config.inherit == config.inherit
        && leader.config.inherit_thread == config.inherit_thread
        && leader.config.takes_turns == config.takes_turns
        && config.can_share_group_with(&leader.config)
        && config.sampling.clock == leader.config.sampling.clock
        && !config.exclusive
        && !config.pinned
    {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

/// Creates an event with a counter, and attaches it to its target. The event is disabled, unless an exec has enabled it
/// meanwhile.
///
/// # Errors
///
/// EBUSY if all counters or extra registers that can count the event are in use, or if its group
/// needs more counters at once than there are. EOPNOTSUPP if the CPUs lack the extra register,
/// EINVAL if it refuses the value. EIO if the counter does not hold the value that is written to
/// it. ESRCH if the task exits. ENOMEM if there is no memory.
fn new_attached_event(
    mut config: EventConfig,
    mut target: Target,
    leader: Option<&Event>,
    id: u64,
) -> Result<Pin<KBox<Event>>> {
    let place = target.place();
    loop {
        let counters = take_counters(&mut config, &target)?;
        let joined_group = leader.map(|leader| leader.own_group.clone());
        let event = Event::new(config, counters, target, joined_group, id, on_last_sample);
        let event = KBox::pin_init(event, GFP_KERNEL_ACCOUNT);
        let result = event.map(|event| {
            // Done before the event is attached, since an exec of the task may enable an attached event.
            record::begin_slow_switches(&event);
            let result = attach(&event, leader);
            if result.is_err() {
                record::end_slow_switches(&event);
            }
            (result, event)
        });
        match result {
            Ok((Ok(()), event)) => {
                reassign::add(&event);
                return Ok(event);
            }
            Ok((Err(error), event)) => {
                release_resources(|| event.counters(), &config, place);
                match error {
                    // Another event of the target has got the counter since it was chosen: choose again.
                    AttachError::CounterTaken | AttachError::Full(_) => {
                        target = event.target.clone()
                    }
                    AttachError::Error(error) => return Err(error),
                }
            }
            Err(error) => {
                release_resources(|| counters.all, &config, place);
                return Err(error);
            }
        }
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
