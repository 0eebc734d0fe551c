// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers for people, in the order and the words of `perf stat`.

use std::fmt::Write as _;
use std::io::Write;
use std::time::Duration;

use anstream::adapter::strip_str;
use anyhow::Result;

use super::number_format::NumberFormat;
use super::ratio::ratio;
use super::side_by_side;
use super::summary::Summary;
use crate::commands::stat::column::Column;
use crate::commands::stat::metrics::MetricValue;
use crate::commands::stat::runs::run::{Figures, Run, counted_share};
use crate::commands::stat::scope::{CountedPlace, PlaceKind, Title};
use crate::commands::stat::subject::Subject;
use crate::commands::stat::unit::ColumnUnit;
use crate::system::screen::Colors;
use crate::system::text::{self, thousands};

/// The text in place of a count that can't be trusted.
const UNTRUSTED: &str = "<not trusted>";
/// The text in place of the count of an event that was not counted.
const UNCOUNTED: &str = "<not counted>";

/// Width of the notes, and of the table of metrics.
const NOTE_WIDTH: usize = 78;

/// Width of the column of units.
const UNIT_WIDTH: usize = 6;

/// Width of a bar.
const BAR_WIDTH: usize = 20;

/// Width of the column of numbers.
const NUMBER_WIDTH: usize = 20;

/// Options of the output for people.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::commands::stat) struct Look {
    pub(in crate::commands::stat) colors: Colors,
    /// Commas separate the thousands.
    pub(in crate::commands::stat) has_commas: bool,
    /// The screen is cleared before each interval.
    pub(in crate::commands::stat) clears_screen: bool,
}

pub(in crate::commands::stat) struct Human<'a, W> {
    subject: &'a Subject,
    output: W,
    /// Width of the column of names.
    name_width: usize,
    /// Width of the column of cores or threads.
    place_width: usize,
    /// The heading of the intervals has been written.
    has_heading: bool,
    look: Look,
}

impl<'a, W: Write> Human<'a, W> {
    pub(in crate::commands::stat) fn new(subject: &'a Subject, output: W, look: Look) -> Self {
        let names = subject
            .columns
            .iter()
            .map(|column| column.event.label.chars().count());
        let places = subject
            .columns
            .iter()
            .map(|column| column_place(column).len());
        Self {
            subject,
            output,
            place_width: places.max().unwrap_or(0),
            name_width: names.max().unwrap_or(0).max(16),
            has_heading: false,
            look,
        }
    }

    /// Returns the line of an event: its number and its name.
    fn event_line(&self, figures: &Figures, index: usize) -> String {
        let label = &self.subject.columns[index].event.label;
        let unit = self.subject.columns[index].unit.as_ref();
        let number = match (figures.counts[index], unit) {
            (Some(count), Some(unit)) => unit.text_for_people(count, self.look.has_commas),
            (Some(count), None) if self.look.has_commas => thousands(count),
            (Some(count), None) => count.to_string(),
            (None, _) => {
                let text_if_present = if figures.uncounted[index] {
                    UNCOUNTED
                } else {
                    UNTRUSTED
                };
                self.subject.columns[index]
                    .text_if_missing(text_if_present)
                    .to_owned()
            }
        };
        let place = column_place(&self.subject.columns[index]);
        let width = self.place_width;
        match unit.map_or("", ColumnUnit::name) {
            "" => format!("{place:<width$}{number:>NUMBER_WIDTH$}      {label}"),
            // The narrower number makes room for the unit, so that names stay in their column.
            unit => format!(
                "{place:<width$}{number:>number_width$} {unit:<6} {label}",
                number_width = NUMBER_WIDTH - 2
            ),
        }
    }

    /// Returns the line of an event for all runs: number, name, ratio to another event, and the error of several runs.
    fn total_line(&self, (figures, runs): (&Figures, &[Run]), index: usize) -> String {
        let label = &self.subject.columns[index].event.label;
        let mut line = self.event_line(figures, index);
        let share = counted_share(runs, index);
        if let Some(ratio) = ratio(&self.subject.columns, &figures.means(), index) {
            // Names may be longer than format!() can pad.
            let pad = " ".repeat(self.name_width - label.chars().count());
            let style = self.look.colors.ratio(ratio.value, ratio.limits);
            let _ = write!(
                line,
                "{pad}  # {style}{:8.2}{style:#}  {}",
                ratio.value, ratio.unit
            );
        }
        let line = match figures.summaries[index].filter(|_| figures.runs > 1) {
            Some(summary) => self.with_error(&line, summary),
            None => line,
        };
        match share {
            Some(share) => self.with_share(&line, share),
            None => line,
        }
    }

    /// Appends the error of the number to a line, so that all errors are in one column.
    fn with_error(&self, line: &str, summary: Summary) -> String {
        let line = self.pad_to_error(line);
        format!("{line}( +-{:6.2}% )", summary.error_percent)
    }

    /// Appends the percentage of the time in which the event was counted, in the column of the errors or after the error.
    fn with_share(&self, line: &str, share: f64) -> String {
        let line = self.pad_to_error(line);
        format!("{line}  ({share:.2}%)")
    }

    /// Pads a line with blanks to the width of a number, a name and a ratio.
    fn pad_to_error(&self, line: &str) -> String {
        let width = self.place_width + NUMBER_WIDTH + 6 + self.name_width + 32;
        let shown_width = strip_str(line).to_string().chars().count();
        let pad = " ".repeat(width.saturating_sub(shown_width));
        format!("{line}{pad}")
    }

    /// Returns the line of a metric: its value and its name, and a bar on a terminal.
    fn metric_line(&self, value: &MetricValue<'_>) -> String {
        let place = value.place.map_or_else(String::new, place_text);
        let number = value.text();
        let style = value.style(&self.look.colors);
        let width = self.place_width;
        let (number_width, unit, suffix) = match value.unit {
            "" => (NUMBER_WIDTH, String::new(), String::new()),
            unit if unit.chars().count() <= UNIT_WIDTH => (
                NUMBER_WIDTH - 2,
                format!(" {unit:<UNIT_WIDTH$}"),
                String::new(),
            ),
            unit => (NUMBER_WIDTH, String::new(), format!("  ({unit})")),
        };
        let gap = if unit.is_empty() { "      " } else { " " };
        let name = value.name;
        let mut line = format!(
            "{place:<width$}{style}{number:>number_width$}{style:#}{unit}{gap}{name}{suffix}"
        );
        if let (true, "%", Some(percent)) = (self.look.colors.are_on(), value.unit, value.number) {
            let pad = self
                .metric_name_width()
                .saturating_sub(name.chars().count());
            let bar = text::bar(percent / 100.0, BAR_WIDTH);
            let _ = write!(line, "{:pad$}  {style}{bar}{style:#}", "");
        }
        line
    }

    /// Returns the width of the column of metrics' names.
    fn metric_name_width(&self) -> usize {
        let names = self.subject.metrics.names();
        names.map(|name| name.chars().count()).max().unwrap_or(0)
    }

    /// Writes the metrics, and a note if several runs were needed to count their events.
    fn write_metrics(&mut self, runs: &[Run]) -> Result<()> {
        let values = self.subject.metrics.values(&self.subject.columns, runs);
        let lines: Vec<String> = if values.iter().any(|value| value.place.is_some()) {
            side_by_side::table_lines(&values, NOTE_WIDTH, &self.look.colors)
        } else {
            values.iter().map(|value| self.metric_line(value)).collect()
        };
        for line in &lines {
            writeln!(self.output, "{line}")?;
        }
        if !lines.is_empty() {
            writeln!(self.output)?;
        }
        if self.subject.runs_per_count > 1 {
            let note = format!(
                "The command ran {} times, once for each part of the events: the counters are too few for all.",
                self.subject.runs_per_count.saturating_mul(runs.len())
            );
            self.write_note(&note)?;
        }
        if !self.subject.metrics.names_in_several_runs.is_empty() {
            let note = format!(
                "Counted in several runs, since the counters are too few for the events of one metric: {}.",
                self.subject.metrics.names_in_several_runs.join(", ")
            );
            self.write_note(&note)?;
        }
        Ok(())
    }

    fn write_note(&mut self, note: &str) -> Result<()> {
        for line in text::wrap(note, NOTE_WIDTH) {
            writeln!(self.output, " {line}")?;
        }
        writeln!(self.output)?;
        Ok(())
    }

    /// Writes the reasons why the CPU lacks events.
    fn write_missing(&mut self) -> Result<()> {
        let events = self.subject.columns.iter().map(|column| &column.event);
        let mut written_labels: Vec<&str> = Vec::new();
        for event in events {
            let Some(reason) = event.missing.as_deref() else {
                continue;
            };
            // Writes the reason once for an event that is counted on several cores or threads.
            if written_labels.contains(&event.label.as_str()) {
                continue;
            }
            writeln!(self.output)?;
            written_labels.push(&event.label);
            let note = format!("<not supported> {}: {reason}", event.label);
            for line in text::wrap(&note, NOTE_WIDTH) {
                writeln!(self.output, " {line}")?;
            }
        }
        if !written_labels.is_empty() {
            writeln!(
                self.output,
                " `pmctl info` lists the events that this CPU has."
            )?;
        }
        Ok(())
    }

    /// Returns the line above the numbers: what was counted, and where.
    fn title_line(&self, runs: &[Run]) -> String {
        let Subject { command, scope, .. } = self.subject;
        let command = &text::printable(command);
        let title = Title { command, scope };
        let run_count = match runs.len() {
            1 => String::new(),
            runs => format!(", mean of {runs} runs"),
        };
        format!(" Performance counter stats for {title}{run_count}:")
    }
}

impl<W: Write> NumberFormat for Human<'_, W> {
    fn write_interval(&mut self, interval_end: Duration, run: &Run) -> Result<()> {
        if self.look.clears_screen {
            // Without colors the output may be no terminal, so it gets no escape sequences.
            if self.look.colors.are_on() {
                write!(self.output, "\x1b[H\x1b[2J")?;
            }
            self.has_heading = false;
        }
        if !self.has_heading {
            writeln!(
                self.output,
                "#{:>15}{:>width$}      event",
                "time",
                "count",
                width = NUMBER_WIDTH + self.place_width + usize::from(self.place_width > 0)
            )?;
            self.has_heading = true;
        }
        let runs = std::slice::from_ref(run);
        let figures = Figures::from_runs(runs);
        let mut lines = Vec::new();
        let shown_columns =
            (0..self.subject.columns.len()).filter(|index| self.subject.shows(&figures, *index));
        lines.extend(shown_columns.map(|index| {
            let line = self.event_line(&figures, index);
            match counted_share(runs, index) {
                Some(share) => self.with_share(&line, share),
                None => line,
            }
        }));
        let metrics = self.subject.metrics.values(&self.subject.columns, runs);
        lines.extend(metrics.iter().map(|value| self.metric_line(value)));
        for line in lines {
            // Separates a core or a thread from the time; a number has blanks in front already.
            let gap = if self.place_width > 0 { " " } else { "" };
            writeln!(
                self.output,
                "{:>16.9}{gap}{line}",
                interval_end.as_secs_f64()
            )?;
        }
        Ok(())
    }

    fn write_totals(&mut self, runs: &[Run]) -> Result<()> {
        writeln!(self.output, "\n{}\n", self.title_line(runs))?;
        let figures = Figures::from_runs(runs);
        let columns = 0..self.subject.columns.len();
        let shown_columns: Vec<usize> = columns
            .filter(|index| self.subject.shows(&figures, *index))
            .collect();
        for index in &shown_columns {
            writeln!(self.output, "{}", self.total_line((&figures, runs), *index))?;
        }
        if !shown_columns.is_empty() {
            writeln!(self.output)?;
        }
        self.write_metrics(runs)?;
        let mut times = vec![(
            "seconds time elapsed",
            (|run| run.elapsed) as fn(&Run) -> Duration,
        )];
        // Without a command there is no CPU time to report.
        if !self.subject.command.is_empty() {
            times.push(("seconds user", |run| run.user));
            times.push(("seconds sys", |run| run.system));
        }
        for (label, time) in times {
            let seconds = runs.iter().map(|run| Some(time(run).as_secs_f64()));
            if let Some(summary) = Summary::from_values(seconds) {
                let mut line = format!("{:>NUMBER_WIDTH$.9} {label}", summary.mean);
                if runs.len() > 1 {
                    line = self.with_error(&line, summary);
                }
                writeln!(self.output, "{line}")?;
            }
        }
        self.write_missing()?;
        writeln!(self.output)?;
        Ok(())
    }
}

/// Returns the core or the thread of a column, followed by a blank.
fn column_place(column: &Column) -> String {
    column.place.as_ref().map_or_else(String::new, place_text)
}

/// Returns a core or a thread, followed by a blank.
fn place_text(place: &CountedPlace) -> String {
    match place.kind {
        PlaceKind::Thread | PlaceKind::Cpu | PlaceKind::Cgroup => format!("{} ", place.name),
        PlaceKind::Core(cpus) | PlaceKind::Socket(cpus) => format!("{} {cpus:>4} ", place.name),
    }
}

#[cfg(test)]
mod tests;
