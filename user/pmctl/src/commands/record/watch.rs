// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end of a recording: by the clock, by a signal, or by the command's end.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::progress::Progress;
use crate::args::CommonOptions;
use crate::system::child::{Ending, Running, Waiting};
use crate::system::exit;
use crate::system::signals::{Event, Signals};
use crate::system::stdio::complain;

/// Length of a round: perf's rings, which hold some thousand switches, must not get full.
const ROUND_INTERVAL: Duration = Duration::from_millis(100);

/// The watch over a recording that runs.
pub(super) struct Watch<'a> {
    options: &'a CommonOptions,
    signals: &'a Signals,
    begin: Instant,
    progress: Progress,
    /// The command; `None` without one.
    running: Option<Running>,
    ending: Option<Ending>,
}

impl<'a> Watch<'a> {
    /// Lets the command run, in a recording that has begun at `begin`.
    pub(super) fn new(
        options: &'a CommonOptions,
        begin: Instant,
        (signals, waiting): (&'a Signals, Option<Waiting<'_>>),
    ) -> Result<Self> {
        let running = waiting.map(Waiting::release).transpose()?;
        Ok(Self {
            options,
            signals,
            begin,
            // A command has the terminal for itself.
            progress: Progress::new(begin, options.quiet || running.is_some()),
            running,
            ending: None,
        })
    }

    /// Returns the time since the begin.
    pub(super) fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Returns whether there is a command, whose end is that of the recording.
    pub(super) const fn has_command(&self) -> bool {
        self.running.is_some()
    }

    /// Returns how long the next round may last, which may be less than what is `left` until something else; `None` if
    /// the time of the recording is over.
    pub(super) fn round(&self, left: impl IntoIterator<Item = Duration>) -> Option<Duration> {
        let limit = self.options.duration;
        let own = limit.map(|limit| limit.saturating_sub(self.elapsed()));
        if own.is_some_and(|own| own.is_zero()) {
            return None;
        }
        left.into_iter().chain(own).chain([ROUND_INTERVAL]).min()
    }

    /// Waits until the end of a round, or for a signal; breaks at the end of the recording.
    pub(super) fn wait(&mut self, round: Duration) -> Result<ControlFlow<()>> {
        let event = self.signals.wait(Some(round), None)?;
        self.react(event)
    }

    /// Reacts to what has ended a wait: breaks at the end of the recording.
    pub(super) fn react(&mut self, event: Event) -> Result<ControlFlow<()>> {
        match (event, &self.running) {
            (Event::Child, Some(running)) => {
                self.ending = running.ending()?;
                if self.ending.is_some() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            // There is no command that decides.
            (Event::End { .. }, None) => return Ok(ControlFlow::Break(())),
            (
                Event::End {
                    signal,
                    by_terminal,
                },
                Some(running),
            ) => {
                // The command decides when it ends. The terminal sends its signals to the command, too.
                if !by_terminal {
                    running.signal(signal);
                }
            }
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Shows how many bytes of records there are, if that is known before the end.
    pub(super) fn show(&mut self, bytes: Option<u64>) {
        self.progress.show(bytes);
    }

    /// Reports that the output is full.
    pub(super) fn complain_of_full_output(&self) {
        if self.options.is_to_standard_output() {
            complain("nothing more can be written to standard output: the recording ends here");
        } else {
            complain(format_args!(
                "there is no room for more in {}: the recording ends here",
                self.options.output.display()
            ));
        }
    }

    /// Waits for the end of a command that goes on after the recording, and returns it; `None` without a command.
    pub(super) fn end(mut self) -> Result<Option<Ending>> {
        self.progress.remove();
        while self.running.is_some() && self.ending.is_none() {
            let event = self.signals.wait(None, None)?;
            let _ = self.react(event)?;
        }
        Ok(self.ending)
    }
}

/// Reports a signal that killed the command, and returns the exit code of a recording.
pub(super) fn conclude(ending: Option<Ending>, is_whole: bool) -> u8 {
    if let Some(words) = ending.and_then(Ending::in_words) {
        complain(words);
    }
    if !is_whole {
        return exit::NO_COUNT;
    }
    ending.map_or(0, Ending::exit_code)
}
