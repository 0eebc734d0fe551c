// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts of several runs, and their changes: the file that stores the counts, the change with its confidence interval,
//! and conditions that fail a build.
//!
//! `pmctl bench` uses this crate to compare commands, and
//! [`perfmon-bench`](https://docs.rs/perfmon-bench) to compare functions. Both programs write and
//! read files of the same format.

#![forbid(unsafe_code)]

pub mod comparison;
pub mod condition;
pub mod document;
pub mod errors;
pub mod figures;
// These modules use the crate `perfmon`, which builds only on x86-64 Linux.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod listing;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod markdown;
pub mod numbers;
#[doc(hidden)]
pub mod testing;
pub mod verdict;
