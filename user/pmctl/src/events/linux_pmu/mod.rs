// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of Linux's PMUs other than those of cores: memory controllers, power, clocks, AMD's
//! sampling of instructions. Linux counts and samples these events, while the driver counts and
//! samples its own.

mod find;
mod format;
mod sysfs;

pub(crate) use find::{Encoding, PmuEvent, Scale, is_pmu_event, split, split_sampled};
pub(crate) use sysfs::{LinuxPmu, read_all};

#[cfg(test)]
mod tests;
