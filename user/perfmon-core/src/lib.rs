// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of the kernel module that need neither a kernel nor hardware, compiled for the host.
//!
//! The files are the module's own, mounted from `rust/perfmon/`: what `cargo test` runs here is what
//! the kernel executes, and a program can't disagree with the module about a structure or a bit.
#![no_std]
#![forbid(unsafe_code)]

#[path = "../../../rust/perfmon/abi/mod.rs"]
pub mod abi;
#[path = "../../../rust/perfmon/logic/mod.rs"]
pub mod logic;
