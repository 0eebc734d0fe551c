// SPDX-License-Identifier: GPL-2.0-only
//! The rings of events: their memory, and who writes where.

use super::{
    event::{Event, Target},
    page,
};
use crate::{
    logic::{ring::RingShape, sampling::Sampling},
    ownership::Charge,
    ring::Ring,
    sys::{descriptor::Area, ffi},
};
use core::ptr::NonNull;
use kernel::{page::PAGE_SIZE, prelude::*, sync::Arc};

/// Memory for records.
///
/// # Invariants
///
/// The pointer is from `perfmon_buffer_alloc()`.
struct Data(NonNull<u64>);

// SAFETY: The memory may be used and freed by any task.
unsafe impl Send for Data {}
// SAFETY: As above.
unsafe impl Sync for Data {}

impl Data {
    fn new(size: usize) -> Result<Self> {
        // SAFETY: The function has no requirements.
        let data = unsafe { ffi::perfmon_buffer_alloc(size) };
        // INVARIANT: Just allocated.
        NonNull::new(data.cast()).map(Self).ok_or(ENOMEM)
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. Nobody writes to the ring any more, and there is no mapping.
        unsafe { ffi::perfmon_buffer_free(self.0.as_ptr().cast()) };
    }
}

/// A ring with its memory.
pub(super) struct Memory {
    ring: Ring,
    data: Data,
    size: usize,
    /// It has the positions.
    _page: Arc<page::Memory>,
    _charge: Charge,
}

impl Memory {
    /// Allocates a ring with data of so many bytes.
    ///
    /// # Errors
    ///
    /// ENOMEM. EPERM if the caller may not pin more memory.
    pub(super) fn new(
        page: &Arc<page::Memory>,
        sampling: &Sampling,
        size: usize,
        overwrite: bool,
    ) -> Result<Arc<Self>> {
        let pages = u32::try_from(size / PAGE_SIZE).map_err(|_| ENOMEM)?;
        let charge = Charge::new(pages)?;
        let data = Data::new(size)?;
        let shape = RingShape {
            size: size as u64,
            overwrite,
            backward: sampling.backward,
        };
        // SAFETY: Both are alive as long as the result.
        let ring = unsafe { Ring::new(data.0, page.start(), shape, sampling.wakeup) }?;
        let memory = Self {
            ring,
            data,
            size,
            _page: page.clone(),
            _charge: charge,
        };
        Ok(Arc::new(memory, GFP_KERNEL)?)
    }

    /// Returns the bytes of the data.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Returns the ring.
    pub(super) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Maps the data behind the page.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub(super) fn map(&self, area: &Area<'_>) -> Result {
        // SAFETY: The memory is freed after the last mapping has gone.
        unsafe { area.insert(PAGE_SIZE, self.data.0.cast(), self.size) }
    }
}

/// Makes the event write to this ring, or to none. Returns what it wrote to before; the caller drops that by
/// [`drop_unused`], or after [`wait_for_writers`].
#[must_use]
pub(super) fn replace(
    event: &Event,
    output: &mut Option<Arc<Memory>>,
    new: Option<Arc<Memory>>,
) -> Option<Arc<Memory>> {
    if let Some(old) = output {
        old.ring.remove_reader(&event.sampler.alarm.wait);
    }
    if let Some(new) = &new {
        // SAFETY: The event leaves the ring before it is freed.
        unsafe { new.ring.add_reader(&event.sampler.alarm.wait) };
    }
    // SAFETY: The old ring is dropped after RCU has waited; the new one when it has been replaced as well.
    unsafe { event.sampler.set_ring(new.as_ref().map(|new| &new.ring)) };
    core::mem::replace(output, new)
}

/// Waits until no event writes a record to a ring that it was taken from, or that was ended.
pub(super) fn wait_for_writers() {
    // SAFETY: The function has no preconditions but a task that may sleep.
    unsafe { ffi::perfmon_rcu_wait() };
}

/// Drops a ring that an event has written to.
pub(super) fn drop_unused(ring: Option<Arc<Memory>>) {
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
            && are_alike(event, other);
    };
    cpu == other_cpu && are_alike(event, other)
}

/// Returns whether both write in the same direction, by the same clock.
fn are_alike(event: &Event, other: &Event) -> bool {
    let (this, other) = (&event.sampler.sampling, &other.sampler.sampling);
    this.clock == other.clock && this.backward == other.backward
}
