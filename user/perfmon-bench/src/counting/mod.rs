// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counting on x86-64 Linux, which can have the driver. `elsewhere.rs` has the same interface for other machines.

mod all_threads;
mod baseline;
mod compare;
mod meter;
#[cfg(feature = "criterion")]
mod pass_counter;
mod process;
mod report;
mod this_thread;
mod vm;
mod whole_file;

pub(crate) use baseline::{Target, folder};
pub(crate) use meter::Meter;
#[cfg(feature = "criterion")]
pub(crate) use pass_counter::PassCounter;
pub(crate) use perfmon::Error;
#[cfg(feature = "criterion")]
pub(crate) use perfmon::event::Reading;
pub(crate) use vm::with_help;

/// Returns the names of the events in a list.
pub(crate) fn split_events(text: &str) -> Result<Vec<String>, String> {
    perfmon::spec::split(text).map_err(|error| error.to_string())
}
