// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers of several runs, and what changed: the file that keeps them, how sure a change is, and conditions that fail
//! a build.
//!
//! `pmctl bench` compares commands with it, and [`perfmon-bench`](https://docs.rs/perfmon-bench) functions. Both write
//! and read the same files.

#![forbid(unsafe_code)]

pub mod compared;
pub mod condition;
pub mod document;
pub mod figures;
pub mod markdown;
pub mod numbers;
#[doc(hidden)]
pub mod testing;
pub mod verdict;
