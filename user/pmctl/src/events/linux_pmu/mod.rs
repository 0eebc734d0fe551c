// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of Linux's PMUs other than those of cores: memory controllers, power, clocks, AMD's sampling of instructions.
//! Linux counts and samples them beside the driver's events.

mod find;
mod format;
mod sysfs;

pub(crate) use find::{Encoding, PmuEvent, Scale, is_pmu_event, split, split_sampled};
pub(crate) use sysfs::{LinuxPmu, read_all};

#[cfg(test)]
mod tests;
