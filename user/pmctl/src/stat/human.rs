// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers for people, in the order and the words of `perf stat`.

use std::fmt::Write as _;
use std::io::Write;
use std::time::Duration;

use anyhow::Result;

use super::metric::metric;
use super::summary::Summary;
use super::{Figures, Report, Run, Subject};
use crate::text::thousands;

/// In place of a number that can't be trusted.
const UNTRUSTED: &str = "<not trusted>";

/// Said when a command was given without `-a`.
const SCOPE_NOTE: &str =
    " All that ran on these CPUs is counted, not the command alone (-a hides this).";

/// Printed if the CPU lacks an event.
const ABSENT_NOTE: &str =
    " <not supported>: this CPU does not have the event; `pmctl info` lists those it has.";

/// Width of the column of numbers.
const NUMBER: usize = 20;

pub(super) struct Human<'a, W> {
    subject: &'a Subject,
    output: W,
    /// Width of the column of names.
    name: usize,
    headed: bool,
}

impl<'a, W: Write> Human<'a, W> {
    pub(super) fn new(subject: &'a Subject, output: W) -> Self {
        let names = subject
            .columns
            .iter()
            .map(|column| column.event.label.chars().count());
        Self {
            subject,
            output,
            name: names.max().unwrap_or(0).max(16),
            headed: false,
        }
    }

    /// One event: its number and its name.
    fn line(&self, figures: &Figures, index: usize) -> String {
        let label = &self.subject.columns[index].event.label;
        let number = match figures.counts[index] {
            Some(count) => thousands(count),
            None => self.subject.columns[index].missing(UNTRUSTED).to_owned(),
        };
        format!("{number:>NUMBER$}      {label}")
    }

    /// The same, and what it tells with another; with several runs, how much they differ.
    fn line_of_total(&self, figures: &Figures, index: usize) -> String {
        let label = &self.subject.columns[index].event.label;
        let mut line = self.line(figures, index);
        if let Some(metric) = metric(&self.subject.columns, &figures.means(), index) {
            let pad = self.name - label.chars().count();
            let _ = write!(line, "{:pad$}  # {:8.2}  {}", "", metric.value, metric.unit);
        }
        match figures.summaries[index].filter(|_| figures.runs > 1) {
            Some(summary) => self.with_error(&line, summary),
            None => line,
        }
    }

    /// A line with the error of its number, all errors in one column.
    fn with_error(&self, line: &str, summary: Summary) -> String {
        // Behind the number, the name, and a ratio.
        let width = NUMBER + 6 + self.name + 32;
        format!("{line:<width$}( +-{:6.2}% )", summary.error_percent)
    }

    /// The line above the numbers: what was counted, and where.
    fn title(&self, runs: &[Run]) -> String {
        let Subject {
            command,
            cpus,
            only,
            ..
        } = self.subject;
        let whose = if command.is_empty() {
            "the machine".to_owned()
        } else {
            format!("'{command}'")
        };
        let place = match (only, cpus) {
            (Some(only), 1) => format!("CPU {only}"),
            (Some(only), _) => format!("CPUs {only}"),
            (None, 1) => "1 CPU".to_owned(),
            (None, _) => format!("all {cpus} CPUs"),
        };
        let times = match runs.len() {
            1 => String::new(),
            runs => format!(", mean of {runs} runs"),
        };
        format!(" Performance counter stats for {whose}, every task on {place}{times}:")
    }
}

impl<W: Write> Report for Human<'_, W> {
    fn interval(&mut self, at: Duration, run: &Run) -> Result<()> {
        if !self.headed {
            writeln!(
                self.output,
                "#{:>15}{:>NUMBER$}      event",
                "time", "count"
            )?;
            self.headed = true;
        }
        let figures = Figures::of(std::slice::from_ref(run));
        for index in 0..self.subject.columns.len() {
            let line = self.line(&figures, index);
            writeln!(self.output, "{:>16.9}{line}", at.as_secs_f64())?;
        }
        Ok(())
    }

    fn end(&mut self, runs: &[Run]) -> Result<()> {
        writeln!(self.output, "\n{}\n", self.title(runs))?;
        let figures = Figures::of(runs);
        for index in 0..self.subject.columns.len() {
            writeln!(self.output, "{}", self.line_of_total(&figures, index))?;
        }
        writeln!(self.output)?;
        let mut times = vec![(
            "seconds time elapsed",
            (|run| run.elapsed) as fn(&Run) -> Duration,
        )];
        // Without a command there is no CPU time of its own.
        if !self.subject.command.is_empty() {
            times.push(("seconds user", |run| run.user));
            times.push(("seconds sys", |run| run.system));
        }
        for (label, time) in times {
            let seconds = runs.iter().map(|run| Some(time(run).as_secs_f64()));
            if let Some(summary) = Summary::of(seconds) {
                let mut line = format!("{:>NUMBER$.9} {label}", summary.mean);
                if runs.len() > 1 {
                    line = self.with_error(&line, summary);
                }
                writeln!(self.output, "{line}")?;
            }
        }
        if self.subject.columns.iter().any(|c| c.event.is_absent()) {
            writeln!(self.output, "\n{ABSENT_NOTE}")?;
        }
        if !self.subject.all_cpus && self.subject.only.is_none() {
            writeln!(self.output, "\n{SCOPE_NOTE}")?;
        }
        writeln!(self.output)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{run, subject, written};
    use super::*;

    #[test]
    fn one_run() {
        let subject = subject("instructions:u,cycles:u,r1c0:k,cache-misses");
        let text = written(|out| {
            let run = run(&[Some(3_000_000), Some(1_500_000), None, None]);
            Human::new(&subject, out)
                .end(&[run])
                .expect("a vector takes all");
        });
        let expected = "
 Performance counter stats for 'ls -l', every task on all 2 CPUs:

           3,000,000      instructions:u    #     2.00  insn per cycle
           1,500,000      cycles:u
       <not trusted>      r1c0:k
     <not supported>      cache-misses

         1.500000000 seconds time elapsed
         1.200000000 seconds user
         0.300000000 seconds sys
";
        assert_eq!(
            text.strip_suffix(&format!("\n{ABSENT_NOTE}\n\n{SCOPE_NOTE}\n\n")),
            Some(expected)
        );
    }

    #[test]
    fn several_runs_show_their_variation() {
        let subject = subject("instructions,cycles");
        let text = written(|out| {
            let runs = [run(&[Some(90), Some(9)]), run(&[Some(110), Some(11)])];
            Human::new(&subject, out)
                .end(&runs)
                .expect("a vector takes all");
        });
        assert!(text.contains("mean of 2 runs"), "{text}");
        let errors: Vec<&str> = text.lines().filter(|l| l.contains("+-")).collect();
        assert_eq!(errors.len(), 5, "{text}");
        assert!(errors[0].ends_with("( +- 10.00% )"), "{text}");
        let columns = errors.iter().map(|line| line.find("( +-"));
        assert!(
            columns
                .clone()
                .all(|column| column == columns.clone().next().flatten()),
            "{text}"
        );
    }

    #[test]
    fn who_asked_for_all_cpus_is_not_told_about_them() {
        let mut subject = subject("instructions");
        subject.all_cpus = true;
        subject.command.clear();
        let text = written(|out| {
            Human::new(&subject, out)
                .end(&[run(&[Some(1)])])
                .expect("a vector takes all");
        });
        assert!(SCOPE_NOTE.chars().count() < 80, "it is one line");
        assert!(!text.contains(SCOPE_NOTE), "{text}");
        assert!(!text.contains("seconds user"), "{text}");
        assert!(text.contains("stats for the machine,"), "{text}");
    }

    #[test]
    fn intervals_have_one_heading_and_no_ratio() {
        let subject = subject("instructions,cycles");
        let text = written(|out| {
            let mut human = Human::new(&subject, out);
            for second in [1, 2] {
                let at = Duration::from_secs(second);
                human
                    .interval(at, &run(&[Some(second * 1000), Some(500)]))
                    .expect("a vector takes all");
            }
        });
        let expected = "\
#           time               count      event
     1.000000000               1,000      instructions
     1.000000000                 500      cycles
     2.000000000               2,000      instructions
     2.000000000                 500      cycles
";
        assert_eq!(text, expected);
    }
}
