// SPDX-License-Identifier: MIT OR Apache-2.0
//! The configuration of a trace.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::config(bytes));
