// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fuzz targets: each function takes any bytes, and panics if what must hold for them does not.
//!
//! cargo-fuzz calls them (../fuzz), `tests/seeds.rs` with the bytes in `fuzz/seeds` and `tests/random.rs` with
//! some that are nearly right.

mod config;
mod records;
mod select;

pub use config::config;
pub use pmctl::fuzz::recording;
pub use records::decode;
pub use select::select;

/// A function, and the name of its folder in `fuzz/seeds`.
pub type Target = (&'static str, fn(&[u8]));

/// All fuzz targets.
pub const TARGETS: [Target; 5] = [
    ("config", config),
    ("decode", decode),
    ("events", events),
    ("recording", recording),
    ("select", select),
];

/// Parses the text after `-e`. Bytes that are not UTF-8 are no such text.
pub fn events(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        pmctl::fuzz::events(text);
    }
}
