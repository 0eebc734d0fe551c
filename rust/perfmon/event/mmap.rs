// SPDX-License-Identifier: GPL-2.0-only
//! The mappings of an event's page, which programs read the count from without a system call, and of its ring.
//!
//! A program may execute RDPMC while it has the page of an event of one of its own threads mapped (sys/rdpmc.c, which has
//! all that can happen to the right). Then a counter must not tell it what other tasks have counted before
//! (`switch::hide_counters_from`).

use super::{
    attach::with_context,
    event::Event,
    memory::{Page, RingMemory},
    output,
    slot::{refresh, set_page, width_of, write_inactive},
    slow_switch_users::SLOW_SWITCH_USERS,
    target::Target,
};
use crate::{
    cpu::timestamp,
    logic::user_page::UserPage,
    percpu::UserPagePtr,
    sys::{descriptor::Area, ffi},
};
use core::{ptr::NonNull, sync::atomic::Ordering::SeqCst};
use kernel::{page::PAGE_SIZE, prelude::*, sync::Arc};

/// Serves mmap(2) of an event's page, and of its ring behind that.
///
/// # Errors
///
/// EINVAL for another size than one page and 0 or a power of 2 pages for the ring, another size than that of other
/// mappings or of the ring that the event writes to, another offset than 0, a private mapping, or an event that is
/// inherited on any CPU. EBUSY if the event writes to the ring of another one. ENOMEM, EPERM.
pub(super) fn map(event: &Event, area: &Area<'_>) -> Result {
    // Of a sum over several CPUs no page can tell: EINVAL, as from perf.
    let is_sum = match event.target {
        Target::Task(_, None) => event.config.inherit,
        Target::Cgroup(_, None) => true,
        Target::Task(_, Some(_)) | Target::Cpu(_) | Target::Cgroup(_, Some(_)) => false,
    };
    let ring_size = area.size() - PAGE_SIZE;
    let is_ring = ring_size / PAGE_SIZE == 0 || (ring_size / PAGE_SIZE).is_power_of_two();
    if is_sum || !area.is_shared() || area.first_page() != 0 || !is_ring {
        return Err(EINVAL);
    }
    area.keep_to_this_program();
    let start = map_memory(event, area, ring_size)?;
    if begin_own(event, area) {
        area.mark();
    }
    publish(event, UserPagePtr::new(start));
    Ok(())
}

/// Lets the caller use RDPMC, if the event counts a thread of its program. Returns whether it may.
fn begin_own(event: &Event, area: &Area<'_>) -> bool {
    let mappings = &event.mapped.mappings;
    if event.counter.is_none() {
        return false;
    }
    {
        let _memory = event.mapped.lock();
        if !mappings.begin_own(&event.target, area.mm()) {
            return false;
        }
    }
    SLOW_SWITCH_USERS.fetch_add(1, SeqCst);
    // SAFETY: The mm is the caller's, and locked, since an area is being mapped.
    if unsafe { ffi::perfmon_rdpmc_begin(area.mm()) } {
        return true;
    }
    SLOW_SWITCH_USERS.fetch_sub(1, SeqCst);
    let _memory = event.mapped.lock();
    mappings.own.fetch_sub(1, SeqCst);
    false
}

/// Maps the page and a ring with so many bytes. Returns the page.
fn map_memory(event: &Event, area: &Area<'_>, ring_size: usize) -> Result<NonNull<UserPage>> {
    let mut memory = event.mapped.lock();
    if memory.live_ring().is_none() {
        output::drop_unused(output::replace(event, &mut memory.ring, None));
    }
    let is_first = event.mapped.mappings.is_empty();
    if memory.ring_size() != ring_size && (!is_first || memory.ring.is_some()) {
        return Err(EINVAL);
    }
    if is_first && memory.ring.is_some() {
        return Err(EBUSY);
    }
    let page = match &memory.page {
        Some(page) => page.clone(),
        None => Arc::new(Page::new(width_of(event.counter))?, GFP_KERNEL)?,
    };
    let new_ring = if is_first && ring_size != 0 {
        let sampling = &event.sampler.sampling;
        let overwrite = !area.is_writable();
        Some(RingMemory::new(&page, sampling, ring_size, overwrite)?)
    } else {
        None
    };
    // SAFETY: The page is from `perfmon_buffer_alloc()`. It is freed after the last mapping has gone; if this fails, before:
    // the kernel's page tables have references of their own to its pages.
    unsafe { area.insert(0, page.start().cast(), PAGE_SIZE) }?;
    if let Some(ring) = new_ring.as_ref().or(memory.ring.as_ref()) {
        ring.map(area)?;
    }
    // Nothing fails any more.
    if let Some(ring) = &new_ring {
        ring.ring().publish_data();
        // There was none.
        let _ = output::replace(event, &mut memory.ring, new_ring);
        memory.has_own_ring = true;
    }
    event.mapped.mappings.all.fetch_add(1, SeqCst);
    Ok(memory.page.insert(page).start())
}

/// Copies a mapping, for mremap(2), or for a change of a part.
pub(super) fn copied(event: &Event, area: &Area<'_>) {
    let mappings = &event.mapped.mappings;
    let _memory = event.mapped.lock();
    if area.is_marked() {
        SLOW_SWITCH_USERS.fetch_add(1, SeqCst);
        // SAFETY: The mm may use RDPMC, since the mapping that is copied says so.
        unsafe { ffi::perfmon_rdpmc_again(area.mm()) };
        mappings.own.fetch_add(1, SeqCst);
    }
    mappings.all.fetch_add(1, SeqCst);
}

/// Counts a mapping less. With the last one the ring ends. Returns the page.
fn end_mapping(event: &Event, area: &Area<'_>) -> Option<NonNull<UserPage>> {
    let mappings = &event.mapped.mappings;
    let mut memory = event.mapped.lock();
    let start = memory.page.as_ref().map(|page| page.start());
    if area.is_marked() {
        mappings.own.fetch_sub(1, SeqCst);
    }
    mappings.all.fetch_sub(1, SeqCst);
    if !mappings.is_empty() || !memory.has_own_ring {
        return start;
    }
    memory.has_own_ring = false;
    if let Some(ring) = output::replace(event, &mut memory.ring, None) {
        // The events that write to it, too, write no more when `wait_for_writers` returns. Under the lock, since the
        // page may have another ring afterwards.
        ring.ring().end_writing();
        output::wait_for_writers();
        ring.ring().withdraw_data();
    }
    start
}

/// Ends a mapping.
pub(super) fn unmapped(event: &Event, area: &Area<'_>) {
    // The rest may be the program's own.
    if let Some(start) = end_mapping(event, area) {
        publish(event, UserPagePtr::new(start));
    }
    if area.is_marked() {
        // SAFETY: `map` or `copied` has begun it.
        unsafe { ffi::perfmon_rdpmc_end(area.mm()) };
        SLOW_SWITCH_USERS.fetch_sub(1, SeqCst);
    }
}

/// Writes the page, and from now on at each switch.
fn publish(event: &Event, page: UserPagePtr) {
    let written = with_context(&event.target, |here, slots| {
        set_page(slots, event, page);
        match here {
            Some(here) => refresh(here, slots, timestamp()),
            None => write_inactive(event, page),
        }
    });
    if written.is_none() {
        write_inactive(event, page);
    }
}
