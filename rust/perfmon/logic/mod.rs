// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! What can be decided without a kernel and without hardware.
//!
//! Every file here is compiled twice: into the module, and by cargo on the host (the crate
//! `perfmon-core`). So userland can't disagree with the module about a bit, and the tests below run
//! in both places: under KUnit when the module is loaded, and under `cargo test`.
//!
//! Only `core` and [`crate::abi`] are used, and no `unsafe`. In tests, only `assert!(condition)` and
//! `assert_eq!(a, b)`: KUnit knows no others, and any other panic would stop the kernel.
#![forbid(unsafe_code)]

pub mod config;
pub mod count;
pub mod counter;
pub mod cpuid;
pub mod events;
pub mod evtsel;
pub mod lbr;
pub mod life;
pub mod limit;
pub mod plan;
pub mod pmu;
pub mod publish;
pub mod record;
pub mod regs;
pub mod state;
pub mod throttle;
