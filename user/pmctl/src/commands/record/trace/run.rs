// SPDX-License-Identifier: MIT OR Apache-2.0
//! The main loop of a recording by a trace, until the command, a time limit or the user ends it.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use anyhow::Result;
use perfmon::trace::Chunk;

use super::collect::{Collected, Collector, ReadyTrace};
use crate::args::TraceOptions;
use crate::commands::record::watch::Watch;
use crate::recording::procfs;
use crate::system::child::{Ending, WaitingCommand};
use crate::system::signals::BlockedSignals;

/// Result of a recording.
pub(super) struct TracedRun {
    pub(super) collected: Collected,
    pub(super) elapsed: Duration,
    /// End of the command; `None` without a command.
    pub(super) ending: Option<Ending>,
}

/// Records until the end. Calls `round` in each round with the records since the last one, and once after the end. The
/// recording ends if `round` breaks.
pub(super) fn record_until_end(
    options: &TraceOptions,
    ready: ReadyTrace<'_>,
    command: (&BlockedSignals, Option<WaitingCommand<'_>>),
    round: impl FnMut(Vec<Chunk>) -> Result<ControlFlow<()>>,
) -> Result<TracedRun> {
    let begin = Instant::now();
    let collector = ready.start()?;
    let mut watch = Watch::new(&options.common, begin, command)?;
    let recorded = record_rounds(options, collector, &mut watch, round);
    let ((collected, elapsed), ending) = watch.wait_for_command(recorded)?;
    Ok(TracedRun {
        collected,
        elapsed,
        ending,
    })
}

/// Records while the command runs: until the end of the recording. Returns the time until then, too.
fn record_rounds(
    options: &TraceOptions,
    mut collector: Collector<'_>,
    watch: &mut Watch<'_>,
    mut round: impl FnMut(Vec<Chunk>) -> Result<ControlFlow<()>>,
) -> Result<(Collected, Duration)> {
    let watched = options.common.target.first_process();
    while let Some(limit) = watch.next_round([]) {
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
            collector = collector.replace_buffers()?;
        }
        watch.show_progress(Some(collector.size()));
    }
    let elapsed = watch.elapsed();
    let mut collected = collector.stop()?;
    // The recording ends here whether the output is full or not.
    let _ = round(collected.take_chunks())?;
    Ok((collected, elapsed))
}
