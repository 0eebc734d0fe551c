// SPDX-License-Identifier: GPL-2.0-only
//! Writes to the pages of events, which programs map: whether a slot counts, and how to compute its count.

use super::list::Slots;
use crate::{
    cpu::ThisCpu,
    event::event::Event,
    logic::{
        counter::{CounterId, CounterKind},
        read_format::EventTimes,
        user_page::{page_index, UserPage},
    },
    percpu::{UserPagePtr, UserPageState},
    pmu,
};

/// Writes the count to an event's page, and marks there that no window is open.
pub(in crate::event) fn write_inactive(event: &Event, page: UserPagePtr) {
    // SAFETY: `write` requires a page that is alive and has no other writer. `release_memory` drops the page when the
    // event is closed and has no slot any more: the caller has the event's slot, or serves a mapping of the event's
    // file, which the mapping keeps open. Only the holder of the slot's context writes the page: the caller is the
    // holder, or the event has no slot any more.
    unsafe { page.write(&inactive_state(event, capabilities(event))) };
}

/// Returns the page's fields for an event without an open window.
fn inactive_state(event: &Event, capabilities: u64) -> UserPageState {
    UserPageState {
        capabilities,
        index: 0,
        offset: event.count() as i64,
        times: times(event),
    }
}

/// Returns the times of the event's closed windows and of its waits that have ended.
fn times(event: &Event) -> EventTimes {
    EventTimes::of_parts(
        event.running_time().nanoseconds(),
        event.waited_time().nanoseconds(),
    )
}

/// Returns whether a program may compute the count with RDPMC.
fn allows_rdpmc(event: &Event) -> bool {
    // The processor reloads the counter of precise samples itself, so the page's offset would be wrong.
    let keeps_offset = !event.sampler.sampling.is_precise;
    keeps_offset && event.mapped_memory.mappings.are_all_own(&event.target) && !event.is_broken()
}

/// Returns the width of a counter in bits; 0 for [`CounterId::NONE`].
pub(in crate::event) fn width_of(counter: CounterId) -> u8 {
    let capabilities = &pmu::common().capabilities;
    match counter.kind() {
        _ if counter.is_none() => 0,
        CounterKind::General(_) => capabilities.general_width,
        CounterKind::Fixed(_) => capabilities.fixed_width,
    }
}

/// Returns the field `capabilities` of the event's page.
fn capabilities(event: &Event) -> u64 {
    if allows_rdpmc(event) {
        NO_RDPMC | UserPage::CAP_USER_RDPMC
    } else {
        NO_RDPMC
    }
}

/// The value of the field `capabilities` in a page that does not allow RDPMC, so that readers use read(2).
const NO_RDPMC: u64 = UserPage::CAP_BIT0_IS_DEPRECATED;

/// Writes, to the pages of slots with open windows, how a program computes the counts with RDPMC.
/// If RDPMC can't be used, for example because the CPU's table of pages is full, the page says that
/// its reader has to use read(2).
#[cold]
#[inline(never)]
pub(super) fn show_open_windows(here: ThisCpu<'_>, slots: &mut Slots) {
    for slot in slots.iter_mut().filter(|slot| slot.is_open()) {
        let (Some(page), event) = (slot.page(), slot.event()) else {
            continue;
        };
        // The page's `pmc_width` was written once, for the event's counter at that time. An event moves only to counters of
        // the same width ([`crate::event::reassign`]), but in its turn a slot may have a counter of another width.
        let has_same_width = width_of(slot.counter()) == width_of(event.counter());
        if allows_rdpmc(event) && has_same_width {
            // SAFETY: `show_page` requires a page that is alive until `hide_page`: `release_memory` drops the page only
            // after the event's slots are detached with their windows closed, and `show_closed_windows` calls
            // `hide_page` when a window closes.
            slot.page_entry = unsafe {
                here.percpu().show_page(
                    slot.counter(),
                    page,
                    slot.count_offset(),
                    UserPageState {
                        capabilities: capabilities(event),
                        index: page_index(slot.counter()),
                        offset: 0,
                        times: times(event),
                    },
                )
            };
        }
        if slot.page_entry.is_none() {
            // The count in the page is the count of closed windows.
            // SAFETY: `write` requires a page that is alive and has no other writer: `release_memory` drops the page
            // only after the event's slots are detached, one of which is here, and this CPU, which holds the context,
            // is its only writer.
            unsafe { page.write(&inactive_state(event, NO_RDPMC)) };
        }
    }
}

/// Marks in the pages of all slots that no window is open.
#[cold]
#[inline(never)]
pub(super) fn show_closed_windows(here: ThisCpu<'_>, slots: &mut Slots) {
    for slot in slots.iter_mut() {
        if let Some(page) = slot.page() {
            if let Some(entry) = slot.page_entry.take() {
                here.percpu().hide_page(entry);
            }
            write_inactive(slot.event(), page);
        }
    }
}
