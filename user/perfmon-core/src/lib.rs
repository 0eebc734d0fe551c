// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of the kernel module that need neither a kernel nor hardware, compiled for the host.
//!
//! The files are the module's own: `abi` and `logic` are links to its folders in `rust/perfmon/`, which `cargo package`
//! follows. What `cargo test` runs here is what the kernel executes, and a program can't disagree with the module about a
//! structure or a bit.
//!
//! It is made for the library [`perfmon-counters`](https://docs.rs/perfmon-counters), which programs use, and has its
//! version. What is public here follows the module and may change with each version.
#![no_std]
#![forbid(unsafe_code)]

pub mod abi;
pub mod logic;
