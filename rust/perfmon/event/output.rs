// SPDX-License-Identifier: GPL-2.0-only
//! The rings that events write to.

use super::{event::Event, memory::RingMemory, target::Target};
use crate::{ring::Ring, sys::ffi};
use kernel::{prelude::*, sync::Arc};

/// Frees the page and leaves the ring of an event that is closed and has no slot any more. Not left to RCU: a charge ends
/// in a task.
pub(super) fn free(event: &Event) {
    let (_page, ring) = {
        let mut mapped = event.mapped.lock();
        let ring = replace(event, &mut mapped.ring, None);
        (mapped.page.take(), ring)
    };
    drop_unused(ring);
}

/// Makes the event write to the ring of another one, or to none.
///
/// # Errors
///
/// EINVAL if the event has a mapping, the other has no ring, or they may not share one.
pub(super) fn set_output(event: &Event, other: Option<&Event>) -> Result {
    let new = match other {
        None => None,
        Some(other) => {
            if core::ptr::eq(event, other) || !may_share(event, other) {
                return Err(EINVAL);
            }
            let mapped = other.mapped.lock();
            Some(mapped.live_ring().ok_or(EINVAL)?.clone())
        }
    };
    let old = {
        let mut mapped = event.mapped.lock();
        if !event.mapped.mappings.is_empty() {
            return Err(EINVAL);
        }
        replace(event, &mut mapped.ring, new)
    };
    drop_unused(old);
    Ok(())
}

/// Calls `f` with the ring that the event writes to, if there is one.
pub(super) fn with_ring<R>(event: &Event, f: impl FnOnce(&Ring) -> R) -> Option<R> {
    let mapped = event.mapped.lock();
    mapped.live_ring().map(|ring| f(ring.ring()))
}

/// Makes the event write to this ring, or to none. Returns what it wrote to before; the caller drops that by
/// [`drop_unused`], or after [`wait_for_writers`].
#[must_use]
pub(super) fn replace(
    event: &Event,
    output: &mut Option<Arc<RingMemory>>,
    new: Option<Arc<RingMemory>>,
) -> Option<Arc<RingMemory>> {
    if let Some(old) = output {
        old.ring().remove_reader(&event.sampler.notifier.wait);
    }
    if let Some(new) = &new {
        // SAFETY: The event leaves the ring before it is freed.
        unsafe { new.ring().add_reader(&event.sampler.notifier.wait) };
    }
    // SAFETY: The old ring is dropped after RCU has waited; the new one when it has been replaced as well.
    unsafe { event.sampler.set_ring(new.as_ref().map(|new| new.ring())) };
    core::mem::replace(output, new)
}

/// Waits until no event writes a record to a ring that it was taken from, or that was ended.
pub(super) fn wait_for_writers() {
    // SAFETY: The function has no preconditions but a task that may sleep.
    unsafe { ffi::perfmon_rcu_wait() };
}

/// Drops a ring that an event has written to.
pub(super) fn drop_unused(ring: Option<Arc<RingMemory>>) {
    if ring.is_some() {
        wait_for_writers();
    }
}

/// Returns whether events may share a ring: there is one writer at a time, and one clock.
pub(super) fn may_share(event: &Event, other: &Event) -> bool {
    let (Some(cpu), Some(other_cpu)) = (event.target.cpu(), other.target.cpu()) else {
        // On any CPU: the same task, and nothing that it creates.
        return event.target.is_same(&other.target)
            && matches!(event.target, Target::Task(..))
            && !event.config.inherit
            && !other.config.inherit
            && have_same_direction_and_clock(event, other);
    };
    cpu == other_cpu && have_same_direction_and_clock(event, other)
}

/// Returns whether both write in the same direction, by the same clock.
fn have_same_direction_and_clock(event: &Event, other: &Event) -> bool {
    let (this, other) = (&event.sampler.sampling, &other.sampler.sampling);
    this.clock == other.clock && this.backward == other.backward
}
