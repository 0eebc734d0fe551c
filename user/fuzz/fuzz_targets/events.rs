// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text after `-e`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::events(bytes));
