// SPDX-License-Identifier: MIT OR Apache-2.0
//! An event select.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::select(bytes));
