// SPDX-License-Identifier: GPL-2.0-only
//! The memory of an event that programs map: a page, and a ring.

mod mapped;
mod page;
mod ring;

pub(super) use self::{mapped::MappedMemory, page::EventPage, ring::RingMemory};
