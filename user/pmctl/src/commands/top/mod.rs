// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl top`: a live view of the samples of `pmctl record`, which runs as a child process; or of the counts of cgroups.

mod cgroups;
mod recorder;
mod stream;
mod text;

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Error, Result};

use crate::args::{Order, Top};
use crate::commands::report::Grouping;
use crate::commands::tui::{self, Tui};
use crate::recording::profile::Filter;
use crate::system::screen::Screen;
use recorder::{RecorderOutput, RecorderProcess};
use stream::PipeStream;

/// Time to wait for the recorder's first bytes before the screen is set up. They usually take some tenths of a second.
const FIRST_BYTES_TIMEOUT: Duration = Duration::from_secs(1);

/// The status of a table without samples, if the sampled tasks executed a program that must not be sampled.
const LEFT_PROGRAM_STATUS: &str =
    "no sample; a process or a child of it has executed a program with more rights (setuid)";

/// Shows tables until the user quits, and returns the exit code.
pub(crate) fn top(args: &Top) -> Result<u8> {
    if let Some(globs) = &args.cgroups {
        return cgroups::top(args, globs);
    }
    let grouping = Grouping {
        keys: args.rows.keys(),
        children: false,
        graph: args.chains.then_some(Order::Callee),
        inline: false,
        max_stack: 127,
        filter: Filter::default(),
    };
    let mut recorder = RecorderProcess::start(args)?;
    let is_text = args.stdio || !tui::has_terminal();
    // An error of the recorder is reported before the screen changes, unless the error comes so late that keys would
    // have to wait.
    let limit = (!is_text).then(|| Instant::now() + FIRST_BYTES_TIMEOUT);
    let first_bytes = recorder.wait_for_first_bytes(limit)?;
    let mut live = LiveView {
        stream: PipeStream::new(),
        tables: 0,
        next_table: Instant::now() + args.delay,
        failure: None,
    };
    live.stream.push(&first_bytes)?;
    if is_text {
        return live.print_tables(args, &grouping, &mut recorder);
    }
    let mut tui = Tui::new(&grouping, String::new());
    let code = tui.run(|tui| live.refresh(args, tui, &mut recorder))?;
    live.failure.map_or(Ok(code), Err)
}

/// The state of a live view.
struct LiveView {
    stream: PipeStream,
    /// Number of tables that have been shown.
    tables: u64,
    /// Time of the next table.
    next_table: Instant,
    /// The error of the recorder, if it has failed.
    failure: Option<Error>,
}

impl LiveView {
    /// Returns whether all tables of --iterations have been shown.
    fn is_done(&self, args: &Top) -> bool {
        args.iterations
            .is_some_and(|iterations| self.tables >= iterations)
    }

    /// Prints tables as text.
    fn print_tables(
        &mut self,
        args: &Top,
        grouping: &Grouping,
        recorder: &mut RecorderProcess,
    ) -> Result<u8> {
        let mut output = Screen::open(false)?;
        loop {
            let has_ended = match recorder.wait(self.next_table) {
                RecorderOutput::Bytes(bytes) => {
                    self.stream.push(&bytes)?;
                    // A table is due even if more samples wait.
                    if Instant::now() < self.next_table {
                        continue;
                    }
                    false
                }
                RecorderOutput::Nothing => false,
                RecorderOutput::End => true,
            };
            self.next_table = time_after(self.next_table, args.delay, Instant::now());
            let has_samples = self.stream.has_samples();
            if let Some(recording) = self.stream.take_recording() {
                let colors = output.colors;
                text::write_tables(&recording, grouping, args.entries, (colors, &mut output))?;
                text::write_lost(self.stream.lost_records(), (colors, &mut output))?;
                if !has_samples && recorder.has_left_program() {
                    text::write_left_program((colors, &mut output))?;
                }
                output.flush()?;
                self.tables += 1;
            }
            if has_ended {
                return recorder.wait_for_end().map(|()| 0);
            }
            if self.is_done(args) {
                return Ok(0);
            }
        }
    }

    /// Reads the stream, and shows a table if one is due. Returns whether no further table follows.
    fn refresh(
        &mut self,
        args: &Top,
        tui: &mut Tui,
        recorder: &mut RecorderProcess,
    ) -> Result<bool> {
        loop {
            match recorder.wait(Instant::now()) {
                RecorderOutput::Bytes(bytes) => {
                    self.stream.push(&bytes)?;
                    // A table is due even if more samples wait.
                    if Instant::now() >= self.next_table {
                        break;
                    }
                }
                RecorderOutput::Nothing => break,
                RecorderOutput::End => {
                    let end = recorder.wait_for_end();
                    // Without new samples the last table stays on the screen.
                    if self.stream.has_samples() || (self.tables == 0 && end.is_ok()) {
                        self.show_table(tui, recorder)?;
                    }
                    if self.tables == 0 {
                        return end.map(|()| true);
                    }
                    tui.show_status("the sampled programs have ended: q quits".to_owned());
                    if let Err(failure) = end {
                        tui.show_status(
                            "the recorder has failed: q quits and shows why".to_owned(),
                        );
                        self.failure = Some(failure);
                    }
                    return Ok(false);
                }
            }
        }
        if Instant::now() < self.next_table {
            return Ok(false);
        }
        self.next_table = Instant::now() + args.delay;
        self.show_table(tui, recorder)?;
        Ok(self.is_done(args))
    }

    /// Shows a table of the samples since the last one, and the reason if the programs must not be sampled.
    fn show_table(&mut self, tui: &mut Tui, recorder: &RecorderProcess) -> Result<()> {
        let has_samples = self.stream.has_samples();
        if let Some(recording) = self.stream.take_recording() {
            tui.replace_recording(recording)?;
            if !has_samples && recorder.has_left_program() {
                tui.show_status(LEFT_PROGRAM_STATUS.to_owned());
            }
            if let Some(words) = text::lost_in_words(self.stream.lost_records()) {
                tui.show_status(format!("LOST: {words}"));
            }
            self.tables += 1;
        }
        Ok(())
    }
}

/// Returns the time of the next table, if the last one was due at `previous`. If pmctl was held up for several tables,
/// the missed ones are left out.
fn time_after(previous: Instant, delay: Duration, now: Instant) -> Instant {
    let next = previous + delay;
    if next > now { next } else { now + delay }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_tables_are_left_out() {
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let late = begin + second / 10;
        assert_eq!(time_after(begin, second, late), begin + second);
        let stopped = begin + 100 * second;
        assert_eq!(time_after(begin, second, stopped), stopped + second);
    }
}
