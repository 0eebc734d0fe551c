// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recording from its start to its end, by the command, by the clock or by the user.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use anyhow::Result;
use perfmon::trace::Chunk;

use super::collect::{Collected, Ready};
use crate::args::TraceOptions;
use crate::commands::record::progress::{
    INTERVAL, Next, Progress, complain_of_end, react, wait_for_command,
};
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
    ready: Ready<'_>,
    (signals, waiting): (&Signals, Option<Waiting<'_>>),
    mut round: impl FnMut(Vec<Chunk>) -> Result<ControlFlow<()>>,
) -> Result<TracedRun> {
    let common = &options.common;
    let watched = common.target.process();
    let begin = Instant::now();
    let mut collector = ready.start()?;
    let running = waiting.map(Waiting::release).transpose()?;
    // A command has the terminal for itself.
    let mut progress = Progress::new(begin, common.quiet || running.is_some());
    let mut ending = None;
    loop {
        let left = common
            .duration
            .map(|limit| limit.saturating_sub(begin.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            break;
        }
        let event = signals.wait(Some(INTERVAL.min(left.unwrap_or(INTERVAL))), None)?;
        match react(event, running.as_ref())? {
            Next::GoOn => {}
            Next::End => break,
            Next::Ended(how) => {
                ending = Some(how);
                break;
            }
        }
        if round(collector.poll()?)?.is_break() {
            complain_of_end(common);
            break;
        }
        if watched.is_some_and(|pid| !procfs::is_alive(pid)) {
            break;
        }
        if options.rotate && collector.is_nearly_full() {
            collector = collector.rotate()?;
        }
        progress.show(Some(collector.size()));
    }
    let elapsed = begin.elapsed();
    let mut collected = collector.stop()?;
    // What it says is of no use any more.
    let _ = round(collected.take())?;
    drop(progress);
    let ending = wait_for_command(signals, running.as_ref(), ending)?;
    Ok(TracedRun {
        collected,
        elapsed,
        ending,
    })
}
