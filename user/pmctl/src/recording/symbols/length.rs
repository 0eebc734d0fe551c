// SPDX-License-Identifier: MIT OR Apache-2.0
//! The longest name that is kept.

/// The largest number of bytes of a name that are kept. Names of C++ templates can have several thousand.
pub(super) const MAX_NAME_LENGTH: usize = 4096;

/// Returns the first [`MAX_NAME_LENGTH`] bytes of a name, or a few less to end with a whole character.
pub(super) fn truncate_name(name: &str) -> &str {
    let mut length = MAX_NAME_LENGTH.min(name.len());
    while !name.is_char_boundary(length) {
        length -= 1;
    }
    &name[..length]
}
