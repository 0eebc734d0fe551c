// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl record`: samples while a command runs.
//!
//! [`events`] is the usual recorder, which opens an event for each task or CPU. [`trace`] is the recorder of `--timebase`
//! and `--rotate`, which takes a trace of the whole machine.

mod branches;
mod clock;
mod destination;
mod events;
mod host;
mod local_time;
mod opening;
mod perf_ring;
mod progress;
mod sampled;
mod summary;
mod trace;
mod watch;

use anyhow::Result;

pub(crate) use destination::rename_to_old;

use crate::args::{Record as Args, Recorder};

/// Records, and returns the exit code.
pub(crate) fn record(args: &Args) -> Result<u8> {
    match Recorder::new(args)? {
        Recorder::Events(options) => events::record(&options),
        Recorder::Trace(options) => trace::record(&options),
    }
}
