// SPDX-License-Identifier: MIT OR Apache-2.0
//! What both recorders do while they record: they show how far they are, and react to signals and to the end of the
//! command.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::args::CommonOptions;
use crate::system::child::{Ending, Running};
use crate::system::signals::{Event, Signals};
use crate::system::stdio::complain;

/// Length of a round: perf's rings, which hold some thousand switches, must not get full.
pub(super) const INTERVAL: Duration = Duration::from_millis(100);

/// Says that nothing more can be written.
pub(super) fn complain_of_end(options: &CommonOptions) {
    if options.is_to_standard_output() {
        complain("nothing more can be written to standard output: the recording ends here");
    } else {
        complain(format_args!(
            "there is no room for more in {}: the recording ends here",
            options.output.display()
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

/// Waits for the end of a command that goes on after the recording; returns `ending` if it has ended, or there is none.
pub(super) fn wait_for_command(
    signals: &Signals,
    running: Option<&Running>,
    mut ending: Option<Ending>,
) -> Result<Option<Ending>> {
    while let (None, Some(running)) = (ending, running) {
        if let Next::Ended(how) = react(signals.wait(None, None)?, Some(running))? {
            ending = Some(how);
        }
    }
    Ok(ending)
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
