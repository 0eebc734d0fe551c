// SPDX-License-Identifier: MIT OR Apache-2.0
//! The identifiers of events in pmctl's files.

/// The identifier of the first event. The kernel's own ids count from 1 on, and 0 means none.
pub(super) const FIRST_ID: u64 = 1 << 32;

/// Returns the identifier of an event by its index. In pmctl's files it replaces the kernel's id.
pub(crate) const fn identifier(event: usize) -> u64 {
    FIRST_ID + event as u64
}
