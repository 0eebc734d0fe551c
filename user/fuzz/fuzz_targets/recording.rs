// SPDX-License-Identifier: MIT OR Apache-2.0
//! A `perf.data` file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::recording(bytes));
