// SPDX-License-Identifier: GPL-2.0-only
//! The mappings of an event's page, from which programs read the count without a system call, and of its ring.
//!
//! A program may execute RDPMC while it has mapped the page of an event of one of its own threads
//! (sys/rdpmc.c explains how a program gets and loses that right). So such a program must not find
//! the events of other tasks in the counters (`switch::hide_counters_from`).

use super::{
    attach::with_context,
    event::Event,
    memory::{EventPage, RingMemory},
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

/// Serves mmap(2): maps an event's page, and its ring after the page.
///
/// # Errors
///
/// - EINVAL if the size is not one page, or one page and 2^n pages for the ring; if the size
///   differs from the size of other mappings, or of the ring that the event writes to; if the
///   offset is not 0; if the mapping is private; or if the event counts on all CPUs, and is
///   inherited or counts a cgroup.
/// - EBUSY if the event writes to the ring of another event.
/// - EPERM if the caller may not pin more memory.
/// - ENOMEM if there is no memory.
pub(super) fn map(event: &Event, area: &Area<'_>) -> Result {
    // A page shows one window, so it can't show a sum over several CPUs: EINVAL, as from perf.
    let is_sum = match event.target {
        Target::Task(_, None) => event.config.inherit,
        Target::Cgroup(_, None) => true,
        Target::Task(_, Some(_)) | Target::Cpu(_) | Target::Cgroup(_, Some(_)) => false,
    };
    let ring_size = area.size() - PAGE_SIZE;
    let is_ring_size = ring_size / PAGE_SIZE == 0 || (ring_size / PAGE_SIZE).is_power_of_two();
    if is_sum || !area.is_shared() || area.first_page() != 0 || !is_ring_size {
        return Err(EINVAL);
    }
    area.keep_to_this_program();
    let start = map_memory(event, area, ring_size)?;
    if allow_rdpmc(event, area) {
        area.set_rdpmc_mark();
    }
    publish_page(event, UserPagePtr::new(start));
    Ok(())
}

/// Lets the caller's program use RDPMC, if the event counts one of its threads. Returns whether the program may.
fn allow_rdpmc(event: &Event, area: &Area<'_>) -> bool {
    let mappings = &event.mapped_memory.mappings;
    if event.counter().is_none() {
        return false;
    }
    {
        let _memory = event.mapped_memory.lock();
        if !mappings.count_own(&event.target, area.mm()) {
            return false;
        }
    }
    SLOW_SWITCH_USERS.fetch_add(1, SeqCst);
    // SAFETY: The function requires the caller's mm, locked for writing: mmap(2) has locked the mm
    // of `area`.
    if unsafe { ffi::perfmon_rdpmc_begin(area.mm()) } {
        return true;
    }
    SLOW_SWITCH_USERS.fetch_sub(1, SeqCst);
    let _memory = event.mapped_memory.lock();
    mappings.count_in_mm.fetch_sub(1, SeqCst);
    false
}

/// Maps the page and a ring with `ring_size` bytes of data. Returns the page.
fn map_memory(event: &Event, area: &Area<'_>, ring_size: usize) -> Result<NonNull<UserPage>> {
    let mut memory = event.mapped_memory.lock();
    if memory.live_ring().is_none() {
        output::drop_unused(output::replace_ring(event, &mut memory.ring, None));
    }
    let is_first = event.mapped_memory.mappings.is_empty();
    if memory.ring_size() != ring_size && (!is_first || memory.ring.is_some()) {
        return Err(EINVAL);
    }
    if is_first && memory.ring.is_some() {
        return Err(EBUSY);
    }
    let page = match &memory.page {
        Some(page) => page.clone(),
        None => Arc::new(EventPage::new(width_of(event.counter()))?, GFP_KERNEL)?,
    };
    let new_ring = if is_first && ring_size != 0 {
        let sampling = &event.sampler.sampling;
        let overwrite = !area.is_writable();
        Some(RingMemory::new(&page, sampling, ring_size, overwrite)?)
    } else {
        None
    };
    // SAFETY: `insert_pages` requires memory of `__vmalloc()` that outlives the mapping, and an area that is being
    // mapped, as `area` is. `page` is one page, PAGE_SIZE bytes, from `perfmon_buffer_alloc()`, which calls
    // `__vmalloc()`; the mapping keeps the event, which keeps the page. On an error the page is freed before the area,
    // whose page tables have references of their own to it.
    unsafe { area.insert_pages(0, page.start().cast(), PAGE_SIZE) }?;
    if let Some(ring) = new_ring.as_ref().or(memory.ring.as_ref()) {
        ring.map(area)?;
    }
    // Nothing below fails.
    if let Some(ring) = &new_ring {
        ring.ring().publish_data_area();
        // The event had no ring, so there is nothing to drop.
        let _ = output::replace_ring(event, &mut memory.ring, new_ring);
        memory.has_own_ring = true;
    }
    event
        .mapped_memory
        .mappings
        .total_count
        .fetch_add(1, SeqCst);
    Ok(memory.page.insert(page).start())
}

/// Counts a copy of a mapping. mremap(2) makes such a copy, and so does the kernel when it splits a
/// mapping.
pub(super) fn mapping_added(event: &Event, area: &Area<'_>) {
    let mappings = &event.mapped_memory.mappings;
    let _memory = event.mapped_memory.lock();
    if area.has_rdpmc_mark() {
        SLOW_SWITCH_USERS.fetch_add(1, SeqCst);
        // SAFETY: The function requires an mm that has the right to use RDPMC: the mapping that is copied gives that
        // right, as its mark says.
        unsafe { ffi::perfmon_rdpmc_begin_again(area.mm()) };
        mappings.count_in_mm.fetch_add(1, SeqCst);
    }
    mappings.total_count.fetch_add(1, SeqCst);
}

/// Counts the end of a mapping. The end of the last mapping also ends the event's own ring. Returns the page.
fn end_mapping(event: &Event, area: &Area<'_>) -> Option<NonNull<UserPage>> {
    let mappings = &event.mapped_memory.mappings;
    let mut memory = event.mapped_memory.lock();
    let start = memory.page.as_ref().map(|page| page.start());
    if area.has_rdpmc_mark() {
        mappings.count_in_mm.fetch_sub(1, SeqCst);
    }
    mappings.total_count.fetch_sub(1, SeqCst);
    if !mappings.is_empty() || !memory.has_own_ring {
        return start;
    }
    memory.has_own_ring = false;
    if let Some(ring) = output::replace_ring(event, &mut memory.ring, None) {
        // After `wait_for_writers` no other event writes to the ring, either. The lock is held until the data area is
        // cleared, since the page may get another ring afterwards.
        ring.ring().end_writing();
        output::wait_for_writers();
        ring.ring().clear_data_area();
    }
    start
}

/// Serves the end of a mapping, by munmap(2) or exit.
pub(super) fn mapping_ended(event: &Event, area: &Area<'_>) {
    // If all remaining mappings are the counted program's own, the page allows RDPMC again.
    if let Some(start) = end_mapping(event, area) {
        publish_page(event, UserPagePtr::new(start));
    }
    if area.has_rdpmc_mark() {
        // SAFETY: The function requires one `perfmon_rdpmc_begin()` or `perfmon_rdpmc_begin_again()` of the mm before:
        // `map` or `mapping_added` has called one for this mapping, as its mark says, and the mapping ends once.
        unsafe { ffi::perfmon_rdpmc_end(area.mm()) };
        SLOW_SWITCH_USERS.fetch_sub(1, SeqCst);
    }
}

/// Writes the page now, and has it written whenever a window of the event's slot opens or closes.
fn publish_page(event: &Event, page: UserPagePtr) {
    let result = with_context(&event.target, |here, slots| {
        set_page(slots, event, page);
        match here {
            Some(here) => refresh(here, slots, timestamp()),
            None => write_inactive(event, page),
        }
    });
    if result.is_none() {
        write_inactive(event, page);
    }
}
