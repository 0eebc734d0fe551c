// SPDX-License-Identifier: GPL-2.0-only
//! The rings that events write to.

use super::{event::Event, memory::RingMemory, target::Target};
use crate::{
    logic::{event_config::EventConfig, precise, sampling::Trigger},
    pmu,
    ring::Ring,
    sys::{error::errno, ffi},
};
use kernel::{bindings, prelude::*, sync::Arc};

/// Drops an event's references to its page and its ring. The event must be closed and have no slot any more. The
/// closing task calls this, and not RCU, since the charge for memory has to end in a task.
pub(super) fn release_memory(event: &Event) {
    let (_page, ring) = {
        let mut memory = event.mapped_memory.lock();
        let ring = replace_ring(event, &mut memory.ring, None);
        (memory.page.take(), ring)
    };
    drop_unused(ring);
}

/// Checks that a new event could write to the ring of `other`.
///
/// # Errors
///
/// EINVAL if `other` has no ring, or the two may not share a ring. EOPNOTSUPP if the ring wakes its
/// reader after a number of samples, and the virtual PMU would merge samples of the new event.
pub(super) fn check_output(config: &EventConfig, target: &Target, other: &Event) -> Result {
    shared_ring(config, config.sampling.trigger, target, other).map(|_| ())
}

/// Makes the event write to the ring of `other`, or to no ring if `other` is `None`.
///
/// # Errors
///
/// EINVAL if the event is mapped, `other` has no ring, or the two may not share a ring. EOPNOTSUPP
/// if the ring wakes its reader after a number of samples, and the virtual PMU merges samples of
/// the event.
pub(super) fn set_output(event: &Event, other: Option<&Event>) -> Result {
    let new_ring = match other {
        None => None,
        Some(other) => {
            if core::ptr::eq(event, other) {
                return Err(EINVAL);
            }
            let trigger = event.sampler.trigger();
            Some(shared_ring(&event.config, trigger, &event.target, other)?)
        }
    };
    let old_ring = {
        let mut memory = event.mapped_memory.lock();
        if !event.mapped_memory.mappings.is_empty() {
            return Err(EINVAL);
        }
        replace_ring(event, &mut memory.ring, new_ring)
    };
    drop_unused(old_ring);
    Ok(())
}

/// Calls `f` with the ring that the event writes to, if there is one.
pub(super) fn with_ring<R>(event: &Event, f: impl FnOnce(&Ring) -> R) -> Option<R> {
    let memory = event.mapped_memory.lock();
    memory.live_ring().map(|ring| f(ring.ring()))
}

/// Makes the event write to `new_ring`, or to no ring. Returns the ring that the event wrote to before, which the
/// caller drops by [`drop_unused`], or after [`wait_for_writers`].
#[must_use]
pub(super) fn replace_ring(
    event: &Event,
    output: &mut Option<Arc<RingMemory>>,
    new_ring: Option<Arc<RingMemory>>,
) -> Option<Arc<RingMemory>> {
    if let Some(old_ring) = output {
        old_ring.ring().remove_reader(&event.sampler.notifier.wait);
    }
    if let Some(new_ring) = &new_ring {
        // SAFETY: `add_reader` requires that `wait` is removed before its end, and is in one ring at a time: the old
        // ring was left above, and `release_memory` replaces the ring by none before the event is freed.
        unsafe { new_ring.ring().add_reader(&event.sampler.notifier.wait) };
    }
    // SAFETY: `set_ring` requires a ring that lives until a grace period after it was replaced: `output` keeps the new
    // one until it is replaced by this function, whose caller drops the old ring after `wait_for_writers`.
    unsafe {
        event
            .sampler
            .set_ring(new_ring.as_ref().map(|ring| ring.ring()))
    };
    core::mem::replace(output, new_ring)
}

/// Waits until no event is still writing to a ring that was replaced or ended before the call.
pub(super) fn wait_for_writers() {
    // SAFETY: `perfmon_rcu_wait()` requires a caller that may sleep: all callers are tasks in system calls, and hold
    // mutexes at most.
    unsafe { ffi::perfmon_rcu_wait() };
}

/// Drops the caller's reference to a ring, after the event that wrote to it has written its last record.
pub(super) fn drop_unused(ring: Option<Arc<RingMemory>>) {
    if ring.is_some() {
        wait_for_writers();
    }
}

/// Returns the ring of `other`, after checking that an event with this configuration, trigger and target may write to
/// it, too.
///
/// # Errors
///
/// EINVAL or EOPNOTSUPP, as from [`check_output`].
fn shared_ring(
    config: &EventConfig,
    trigger: Trigger,
    target: &Target,
    other: &Event,
) -> Result<Arc<RingMemory>> {
    if !may_share(config, target, other) {
        return Err(EINVAL);
    }
    let memory = other.mapped_memory.lock();
    let ring = memory.live_ring().ok_or(EINVAL)?;
    // A merged sample stands for several samples, but the ring's reader is woken after a number of samples.
    if ring.ring().wakes_after_samples()
        && precise::merges_samples(&config.sampling, trigger, &pmu::common().capabilities)
    {
        return Err(errno(bindings::EOPNOTSUPP));
    }
    Ok(ring.clone())
}

/// Returns whether an event with this configuration and target may write to the same ring as `other`: a ring has one
/// writer at a time, one direction and one clock.
fn may_share(config: &EventConfig, target: &Target, other: &Event) -> bool {
    let has_one_writer = match (target.cpu(), other.target.cpu()) {
        (Some(cpu), Some(other_cpu)) => cpu == other_cpu,
        // Events on all CPUs have one writer at a time only if they count the same task, and no task inherits them.
        _ => {
            target.is_same_target(&other.target)
                && matches!(target, Target::Task(..))
                && !config.inherit
                && !other.config.inherit
        }
    };
    let (sampling, other_sampling) = (&config.sampling, &other.config.sampling);
    has_one_writer
        && sampling.clock == other_sampling.clock
        && sampling.writes_backward == other_sampling.writes_backward
}
