// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recording by a trace from its start to its end, by the command, by the clock or by the user.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use anyhow::Result;
use perfmon::trace::Chunk;

use super::collect::{Collected, ReadyTrace};
use crate::args::TraceOptions;
use crate::commands::record::watch::Watch;
use crate::recording::procfs;
use crate::system::child::{Ending, Waiting};
use crate::system::signals::Signals;

/// Result of a recording.
pub(super) struct TracedRun {
    pub(super) collected: Collected,
    pub(super) elapsed: Duration,
    /// End of the command; `None` without one.
    pub(super) ending: Option<Ending>,
}

/// Records until the end. `round` is called now and then with what was recorded since, and a last time after the end;
/// it may break the recording off.
pub(super) fn run(
    options: &TraceOptions,
    ready: ReadyTrace<'_>,
    command: (&Signals, Option<Waiting<'_>>),
    mut round: impl FnMut(Vec<Chunk>) -> Result<ControlFlow<()>>,
) -> Result<TracedRun> {
    let watched = options.common.target.process();
    let begin = Instant::now();
    let mut collector = ready.start()?;
    let mut watch = Watch::new(&options.common, begin, command)?;
    while let Some(limit) = watch.round([]) {
        if watch.wait(limit)?.is_break() {
            break;
        }
        if round(collector.poll()?)?.is_break() {
            watch.complain_of_full_output();
            break;
        }
        if !watch.has_command() && watched.is_some_and(|pid| !procfs::is_alive(pid)) {
            break;
        }
        if options.rotate && collector.is_nearly_full() {
            collector = collector.rotate()?;
        }
        watch.show(Some(collector.size()));
    }
    let elapsed = watch.elapsed();
    let mut collected = collector.stop()?;
    // What it says is of no use any more.
    let _ = round(collected.take())?;
    let ending = watch.end()?;
    Ok(TracedRun {
        collected,
        elapsed,
        ending,
    })
}
