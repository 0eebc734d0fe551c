// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fuzz targets: each function takes any bytes, and panics if a property of the tested code does
//! not hold.
//!
//! cargo-fuzz (../fuzz) calls the functions with generated inputs, `tests/seeds.rs` with the files
//! in `fuzz/seeds`, and `tests/random.rs` with bytes that are nearly valid.

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

/// Parses the text after `-e`. Input that is not UTF-8 is ignored.
pub fn events(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        pmctl::fuzz::events(text);
    }
}
