// SPDX-License-Identifier: GPL-2.0-only
//! The pages of events that programs map: showing there where a slot counts.

use super::list::Slots;
use crate::{
    cpu::ThisCpu,
    event::event::Event,
    logic::user_page::{index, UserPage},
    percpu::{PageState, UserPagePtr},
};

/// Writes the page of an event that counts nowhere.
pub(in crate::event) fn write_inactive(event: &Event, page: UserPagePtr) {
    // SAFETY: The page lives as long as the event, and has no other writer: the caller holds the context, or there is
    // none any more.
    unsafe {
        page.write(&PageState {
            capabilities: capabilities(event),
            index: 0,
            offset: event.count() as i64,
            time: event.time().nanoseconds(),
        });
    }
}

/// Returns whether a program may compute the count with RDPMC.
fn is_readable(event: &Event) -> bool {
    event.mapped.mappings.are_own(&event.target) && !event.is_broken()
}

/// Returns what `capabilities` of the page says.
fn capabilities(event: &Event) -> u64 {
    let rdpmc = if is_readable(event) {
        UserPage::CAP_USER_RDPMC
    } else {
        0
    };
    UserPage::CAP_BIT0_IS_DEPRECATED | rdpmc
}

/// Shows in their pages that the slots with open windows count.
#[cold]
#[inline(never)]
pub(super) fn show(here: ThisCpu<'_>, slots: &Slots) {
    for slot in slots.iter().filter(|slot| slot.is_open()) {
        let (Some(page), event) = (slot.page(), slot.event()) else {
            continue;
        };
        if !is_readable(event) {
            write_inactive(event, page);
            continue;
        }
        // SAFETY: The page lives as long as the event; before that ends, its windows are closed.
        unsafe {
            here.percpu().show_page(
                slot.counter(),
                page,
                slot.base(),
                PageState {
                    capabilities: capabilities(event),
                    index: index(slot.counter()),
                    offset: 0,
                    time: event.time().nanoseconds(),
                },
            );
        }
    }
}

/// Shows in their pages that no slot counts.
#[cold]
#[inline(never)]
pub(super) fn hide(here: ThisCpu<'_>, slots: &Slots) {
    for slot in slots.iter() {
        if let Some(page) = slot.page() {
            here.percpu().hide_page(slot.counter());
            write_inactive(slot.event(), page);
        }
    }
}
