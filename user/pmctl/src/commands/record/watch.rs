// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits for the end of a recording: the time limit, a signal, or the command's end.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::progress::Progress;
use crate::args::CommonOptions;
use crate::system::child::{Ending, RunningCommand, WaitingCommand};
use crate::system::exit;
use crate::system::signals::{BlockedSignals, Event};
use crate::system::stdio::{HeldMessages, complain};

/// The largest length of a round. In this time perf's rings, which hold some thousand switches, don't get full.
const ROUND_INTERVAL: Duration = Duration::from_millis(100);

/// A running recording: its command, its time limit and its line of progress.
pub(super) struct Watch<'a> {
    options: &'a CommonOptions,
    signals: &'a BlockedSignals,
    begin: Instant,
    progress: Progress,
    /// The running command; `None` without a command.
    running: Option<RunningCommand>,
    ending: Option<Ending>,
    /// Keeps messages off the terminal while the command runs; `None` without a command or a terminal.
    _held_messages: Option<HeldMessages>,
}

impl<'a> Watch<'a> {
    /// Lets the waiting command execute. `begin` is the time when the recording began.
    pub(super) fn new(
        options: &'a CommonOptions,
        begin: Instant,
        (signals, waiting): (&'a BlockedSignals, Option<WaitingCommand<'_>>),
    ) -> Result<Self> {
        let held_messages = waiting.as_ref().and_then(|_| HeldMessages::on_terminal());
        let running = waiting.map(WaitingCommand::release).transpose()?;
        Ok(Self {
            options,
            signals,
            begin,
            // A command has the terminal for itself.
            progress: Progress::new(begin, options.quiet || running.is_some()),
            running,
            ending: None,
            _held_messages: held_messages,
        })
    }

    /// Returns the time since the beginning of the recording.
    pub(super) fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Returns whether there is a command; the recording ends when the command does.
    pub(super) const fn has_command(&self) -> bool {
        self.running.is_some()
    }

    /// Returns how long the next round may last: the shortest of [`ROUND_INTERVAL`], `limits`, and the recording's
    /// remaining time. `None` if the recording's time is over.
    pub(super) fn next_round(
        &self,
        limits: impl IntoIterator<Item = Duration>,
    ) -> Option<Duration> {
        let limit = self.options.duration;
        let time_left = limit.map(|limit| limit.saturating_sub(self.elapsed()));
        if time_left.is_some_and(|time| time.is_zero()) {
            return None;
        }
        limits
            .into_iter()
            .chain(time_left)
            .chain([ROUND_INTERVAL])
            .min()
    }

    /// Waits until the end of a round, or for a signal; breaks at the end of the recording.
    pub(super) fn wait(&mut self, round: Duration) -> Result<ControlFlow<()>> {
        let event = self.signals.wait(Some(round), None)?;
        self.handle_event(event)
    }

    /// Handles the event that has ended a wait. Breaks at the end of the recording.
    pub(super) fn handle_event(&mut self, event: Event) -> Result<ControlFlow<()>> {
        match (event, &self.running) {
            (Event::Child, Some(running)) => {
                self.ending = running.ending()?;
                if self.ending.is_some() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            // Without a command the signal ends the recording.
            (Event::End { .. }, None) => return Ok(ControlFlow::Break(())),
            (
                Event::End {
                    signal,
                    by_terminal,
                },
                Some(running),
            ) => {
                // The recording ends when the command does. The terminal sends its signals to the command, too.
                if !by_terminal {
                    running.signal(signal);
                }
            }
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Shows the time and the size of the records; `bytes` is `None` if the size is known only at
    /// the end.
    pub(super) fn show_progress(&mut self, bytes: Option<u64>) {
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

    /// Waits until the command has ended, also if `recorded` is an error. Returns the result of the recording and the
    /// ending of the command; `None` without a command. Held messages appear then.
    pub(super) fn wait_for_command<T>(
        mut self,
        recorded: Result<T>,
    ) -> Result<(T, Option<Ending>)> {
        self.progress.remove();
        let ending = match (&self.running, self.ending) {
            (Some(running), None) => {
                if recorded.is_err() {
                    complain(
                        "the recording has failed, and ends here; pmctl waits for the command",
                    );
                }
                running.wait(self.signals).map(Some)
            }
            (_, ending) => Ok(ending),
        };
        Ok((recorded?, ending?))
    }
}

/// Reports a signal that killed the command, and returns the exit code of a recording.
pub(super) fn report_ending(ending: Option<Ending>, is_whole: bool) -> u8 {
    if let Some(words) = ending.and_then(Ending::in_words) {
        complain(words);
    }
    if !is_whole {
        return exit::NO_COUNT;
    }
    ending.map_or(0, Ending::exit_code)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use nix::errno::Errno;
    use nix::sys::signal::kill;
    use nix::unistd::Pid;

    use super::*;
    use crate::args::{Cli, Command, Recorder};
    use crate::system::child;

    #[test]
    fn a_recording_that_fails_waits_for_its_command() {
        let words = "pmctl record sleep 0.2".split(' ').map(OsString::from);
        let words: Vec<OsString> = words.collect();
        let cli = Cli::parse_words(&words).expect("the words are options");
        let Command::Record(args) = cli.command else {
            panic!("{words:?}");
        };
        let Ok(Recorder::Events(options)) = Recorder::new(&args) else {
            panic!("{words:?}");
        };
        let signals = BlockedSignals::hold().expect("they can be held");
        let command = child::Command::find(&words[2..]).expect("there is one");
        let waiting = WaitingCommand::fork(&command, signals.previous_mask());
        let waiting = waiting.expect("a process can be made");
        let pid = Pid::from_raw(waiting.pid().try_into().expect("it fits"));
        let watch = Watch::new(&options.common, Instant::now(), (&signals, Some(waiting)));
        let watch = watch.expect("the command is there");
        let result = watch.wait_for_command::<()>(Err(anyhow::anyhow!("the disk is gone")));
        assert_eq!(
            result.expect_err("it fails").to_string(),
            "the disk is gone"
        );
        assert_eq!(kill(pid, None), Err(Errno::ESRCH), "it has ended");
    }
}
