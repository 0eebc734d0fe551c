// SPDX-License-Identifier: GPL-2.0-only
//! The slots of a context: one for each event of its task, CPU or cgroup, with the event's window.
//!
//! A window is the time in which a slot counts on one CPU. That CPU opens and closes the window with interrupts off.
//! The counter runs all the time ([`crate::pmu`]), so a window is measured by the counter's totals at both ends.

mod call_stack;
mod list;
mod phase;
mod readings;
mod sampling;
mod saved_calls;
#[allow(clippy::module_inception, reason = "what the folder is about")]
mod slot;
mod slot_memory;
mod turn_order;
mod turns;
mod user_pages;
mod windows;

pub(super) use self::{
    call_stack::discard as discard_calls,
    list::{
        inherit, own_counters, register_conflicts, remove, remove_all, remove_where, set_page,
        ExecStage, RegisterConflicts, Slots,
    },
    readings::Readings,
    sampling::show_program,
    slot::{EventCount, Slot},
    slot_memory::{SlotMemory, INITIAL_SLOTS, MAX_SLOTS},
    user_pages::{width_of, write_inactive},
    windows::{refresh, update_counters, with_windows_closed},
};
