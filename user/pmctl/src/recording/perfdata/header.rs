// SPDX-License-Identifier: MIT OR Apache-2.0
//! The beginning of the file, and the sizes of its first parts.

use super::attr;

/// The magic number `PERFILE2` of a file in this CPU's byte order.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"PERFILE2");
/// Bytes of the header, and of an event's entry: the attr, and the section with its ids.
pub(super) const HEADER_SIZE: usize = 104;
pub(super) const ENTRY_SIZE: usize = attr::SIZE + 16;
