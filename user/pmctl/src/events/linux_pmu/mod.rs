// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of Linux's PMUs other than those of cores: memory controllers, power, clocks. Linux counts them beside the
//! driver's events.

mod find;
mod format;
mod sysfs;

pub(crate) use find::{Encoding, PmuEvent, Scale, is_pmu_event, split};
pub(crate) use sysfs::{LinuxPmu, read_all};

#[cfg(test)]
mod tests;
