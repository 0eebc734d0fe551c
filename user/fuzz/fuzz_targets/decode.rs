// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records of a trace.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::decode(bytes));
