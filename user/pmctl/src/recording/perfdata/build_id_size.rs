// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part of a build-id that a recording stores.

/// The largest number of bytes of a build-id that a recording stores. Linkers can make longer build-ids
/// (`--build-id=0x...`).
pub(super) const BUILD_ID_SIZE: usize = 20;

/// Returns the bytes of a build-id that a recording stores.
pub(crate) fn recorded_part_of_build_id(id: &[u8]) -> &[u8] {
    &id[..id.len().min(BUILD_ID_SIZE)]
}
