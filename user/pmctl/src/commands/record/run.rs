// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recording from its start to its end, by the command, by the clock or by the user.

use std::io::{IsTerminal, Write, stderr};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use anyhow::Result;
use perfmon::trace::Chunk;

use super::collect::{Collected, Ready};
use crate::args::Record;
use crate::recording::procfs;
use crate::system::child::{Ending, Running, Waiting};
use crate::system::signals::{Event, Signals};
use crate::system::stdio::complain;

/// Length of a round: perf's rings, which hold some thousand switches, must not get full.
pub(super) const INTERVAL: Duration = Duration::from_millis(100);

/// Result of a recording.
pub(super) struct Run {
    pub(super) collected: Collected,
    pub(super) elapsed: Duration,
    /// End of the command; `None` without one.
    pub(super) ending: Option<Ending>,
}

/// Records until the end. `round` is called now and then with what was recorded since, and a last time after the end;
/// it may break the recording off.
pub(super) fn run(
    args: &Record,
    ready: Ready<'_>,
    (signals, waiting): (&Signals, Option<Waiting<'_>>),
    mut round: impl FnMut(Vec<Chunk>) -> Result<ControlFlow<()>>,
) -> Result<Run> {
    let begin = Instant::now();
    let mut collector = ready.start()?;
    let running = waiting.map(Waiting::release).transpose()?;
    // A command has the terminal for itself.
    let mut progress = Progress::new(begin, args.quiet || running.is_some());
    let mut ending = None;
    loop {
        let left = args
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
            complain_of_end(args);
            break;
        }
        if args.pid.first().is_some_and(|pid| !procfs::is_alive(*pid)) {
            break;
        }
        if args.rotate && collector.is_nearly_full() {
            collector = collector.rotate()?;
        }
        progress.show(Some(collector.size()));
    }
    let elapsed = begin.elapsed();
    let mut collected = collector.stop()?;
    // What it says is of no use any more.
    let _ = round(collected.take())?;
    drop(progress);
    // The recording was over before the command.
    while let (None, Some(running)) = (ending, &running) {
        if let Next::Ended(how) = react(signals.wait(None, None)?, Some(running))? {
            ending = Some(how);
        }
    }
    Ok(Run {
        collected,
        elapsed,
        ending,
    })
}

/// Says that nothing more can be written.
pub(super) fn complain_of_end(args: &Record) {
    if args.output.as_os_str() == "-" {
        complain("nothing more can be written to standard output: the recording ends here");
    } else {
        complain(format_args!(
            "there is no room for more in {}: the recording ends here",
            args.output.display()
        ));
    }
}

/// Reaction to a signal.
pub(super) enum Next {
    GoOn,
    /// End: there is no command that decides.
    End,
    /// The command has ended.
    Ended(Ending),
}

pub(super) fn react(event: Event, running: Option<&Running>) -> Result<Next> {
    Ok(match (event, running) {
        (Event::Child, Some(running)) => running.ending()?.map_or(Next::GoOn, Next::Ended),
        (Event::End { .. }, None) => Next::End,
        (
            Event::End {
                signal,
                by_terminal,
            },
            Some(running),
        ) => {
            // It is the command that decides. What comes from the terminal, it got itself.
            if !by_terminal {
                running.signal(signal);
            }
            Next::GoOn
        }
        _ => Next::GoOn,
    })
}

/// Line of progress on a terminal, once a second.
pub(super) struct Progress {
    begin: Instant,
    next: Instant,
    shown: bool,
    is_off: bool,
}

impl Progress {
    const INTERVAL: Duration = Duration::from_secs(1);

    pub(super) fn new(begin: Instant, is_off: bool) -> Self {
        Self {
            begin,
            next: begin + Self::INTERVAL,
            shown: false,
            is_off,
        }
    }

    /// Shows how many bytes of records there are, if that is known before the end.
    pub(super) fn show(&mut self, bytes: Option<u64>) {
        if self.is_off || Instant::now() < self.next || !stderr().is_terminal() {
            return;
        }
        self.next += Self::INTERVAL;
        self.shown = true;
        let seconds = self.begin.elapsed().as_secs();
        let size = bytes.map(|bytes| format!(", {} KiB of records", bytes / 1024));
        // It is no loss if it can't be shown.
        let _ = write!(
            stderr(),
            "\rpmctl: {seconds} s{} ",
            size.unwrap_or_default()
        );
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(stderr(), "\r{:40}\r", "");
        }
    }
}
