// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! CPUID's report of a processor's PMU.
//!
//! [`Processor`] holds the leaves that the module uses, from which [`Capabilities`] follow. The leaves are read through
//! a function, so that they may come from the instruction, from `/dev/cpu/N/cpuid`, or from a recorded dump.

mod capabilities;
mod detect;
#[cfg(any(test, CONFIG_KUNIT = "y"))]
mod dumps;
mod microarchitecture;
mod power;
mod processor;

pub use self::capabilities::{Architecture, Capabilities, NoPmu};
pub use self::microarchitecture::Microarchitecture;
pub use self::processor::{Leaf, Processor};
