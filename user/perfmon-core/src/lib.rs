// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of the kernel module that need neither a kernel nor hardware, compiled for the host.
//!
//! The files are the module's own: `abi` and `logic` are links to its folders in `rust/perfmon/`, which `cargo package`
//! follows. So `cargo test` tests the code that the kernel executes, and programs use the same structures and bits as the
//! module.
//!
//! Programs should use the library [`perfmon-counters`](https://docs.rs/perfmon-counters), which is
//! built on this crate and has the same version. The public items of this crate follow the module,
//! and may change with each version.
#![no_std]
#![forbid(unsafe_code)]

pub mod abi;
pub mod logic;
