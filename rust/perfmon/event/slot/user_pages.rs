// SPDX-License-Identifier: GPL-2.0-only
//! The pages of events that programs map: showing there where a slot counts.

use super::list::Slots;
use crate::{
    cpu::ThisCpu,
    event::event::Event,
    logic::{
        counter::{CounterId, CounterKind},
        user_page::{index, UserPage},
    },
    percpu::{UserPagePtr, UserPageState},
    pmu,
};

/// Writes the page of an event that counts nowhere.
pub(in crate::event) fn write_inactive(event: &Event, page: UserPagePtr) {
    // SAFETY: The page lives as long as the event, and has no other writer: the caller holds the context, or there is
    // none any more.
    unsafe { page.write(&inactive_state(event, capabilities(event))) };
}

/// Returns what the page says of an event that counts nowhere.
fn inactive_state(event: &Event, capabilities: u64) -> UserPageState {
    UserPageState {
        capabilities,
        index: 0,
        offset: event.count() as i64,
        enabled: event.enabled_time().nanoseconds(),
        running: event.time().nanoseconds(),
    }
}

/// Returns whether a program may compute the count with RDPMC.
fn is_readable(event: &Event) -> bool {
    // With each sample that the processor takes, the counter begins anew.
    let stays = !event.sampler.sampling.precise;
    stays && event.mapped.mappings.are_own(&event.target) && !event.is_broken()
}

/// Returns the bits of a counter.
pub(in crate::event) fn width_of(counter: CounterId) -> u8 {
    let capabilities = &pmu::common().capabilities;
    match counter.kind() {
        _ if counter.is_none() => 0,
        CounterKind::General(_) => capabilities.general_width,
        CounterKind::Fixed(_) => capabilities.fixed_width,
    }
}

/// Returns what `capabilities` of the page says.
fn capabilities(event: &Event) -> u64 {
    if is_readable(event) {
        NO_RDPMC | UserPage::CAP_USER_RDPMC
    } else {
        NO_RDPMC
    }
}

/// [`capabilities`] of a page from which the count can't be computed.
const NO_RDPMC: u64 = UserPage::CAP_BIT0_IS_DEPRECATED;

/// Shows in their pages that the slots with open windows count. Where there is no room for one more page, that says that
/// the count is to be read from the kernel.
#[cold]
#[inline(never)]
pub(super) fn show(here: ThisCpu<'_>, slots: &mut Slots) {
    for slot in slots.iter_mut().filter(|slot| slot.is_open()) {
        let (Some(page), event) = (slot.page(), slot.event()) else {
            continue;
        };
        // The page says once how wide the counter is.
        let is_as_wide = width_of(slot.counter()) == width_of(event.counter);
        if !is_readable(event) || !is_as_wide {
            write_inactive(event, page);
            continue;
        }
        // SAFETY: The page lives as long as the event; before that ends, its windows are closed.
        slot.page_entry = unsafe {
            here.percpu().show_page(
                slot.counter(),
                page,
                slot.base(),
                UserPageState {
                    capabilities: capabilities(event),
                    index: index(slot.counter()),
                    offset: 0,
                    enabled: event.enabled_time().nanoseconds(),
                    running: event.time().nanoseconds(),
                },
            )
        };
        if slot.page_entry.is_none() {
            // SAFETY: The page lives as long as the event, and this CPU, which has the context, is its only writer.
            unsafe { page.write(&inactive_state(event, NO_RDPMC)) };
        }
    }
}

/// Shows in their pages that no slot counts.
#[cold]
#[inline(never)]
pub(super) fn hide(here: ThisCpu<'_>, slots: &mut Slots) {
    for slot in slots.iter_mut() {
        if let Some(page) = slot.page() {
            if let Some(entry) = slot.page_entry.take() {
                here.percpu().hide_page(entry);
            }
            write_inactive(slot.event(), page);
        }
    }
}
