// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long a name may be.

/// The longest name that is kept, in bytes. Names of C++ templates have some thousands.
pub(super) const MAX_NAME_LENGTH: usize = 4096;

/// Returns a name without what is too long of it.
pub(super) fn capped(name: &str) -> &str {
    let mut length = MAX_NAME_LENGTH.min(name.len());
    while !name.is_char_boundary(length) {
        length -= 1;
    }
    &name[..length]
}
