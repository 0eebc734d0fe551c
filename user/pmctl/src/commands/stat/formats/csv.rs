// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers for spreadsheets and scripts: one event a line, in the order of `perf stat -x`:
//!
//! 1. the time of the interval (with `-I`);
//! 2. the core and the number of its CPUs (with `--per-core`), or the thread (with `--per-thread`);
//! 3. the value, its unit (empty for counts), the event;
//! 4. the cgroup (if cgroups are counted);
//! 5. the variation in percent (with `-r`);
//! 6. how long the counter ran in ns, and the percentage of the time in which it ran;
//! 7. the value and the unit of a ratio.
//!
//! The lines of the metrics of -M follow. All their fields are empty, except the core or thread,
//! the cgroup, the value, and the unit with the metric's name.
//!
//! Fields with the separator in them are quoted.

use std::io::Write;
use std::time::Duration;

use anyhow::Result;

use super::lines::{LineFormat, share_in_lines};
use super::ratio::ratio;
use crate::commands::stat::runs::run::{Figures, Run, running_time};
use crate::commands::stat::scope::{CountedPlace, PlaceKind};
use crate::commands::stat::subject::Subject;
use crate::commands::stat::unit::ColumnUnit;

pub(in crate::commands::stat) struct Csv<'a, W: Write> {
    subject: &'a Subject,
    writer: ::csv::Writer<W>,
    /// Several runs were asked for, so that each line has the variation, also if only one run was completed.
    is_repeated: bool,
}

impl<'a, W: Write> Csv<'a, W> {
    pub(in crate::commands::stat) fn new(subject: &'a Subject, output: W, separator: u8) -> Self {
        let mut writer = ::csv::WriterBuilder::new();
        writer.delimiter(separator).flexible(true);
        Self {
            subject,
            writer: writer.from_writer(output),
            is_repeated: false,
        }
    }

    /// Adds the variation to each line, also if there is only one run.
    pub(in crate::commands::stat) fn with_variation(self, is_repeated: bool) -> Self {
        Self {
            is_repeated,
            ..self
        }
    }

    /// Writes the first fields of a line: the time of an interval, and the core or thread.
    fn write_start(
        &mut self,
        interval_end: Option<Duration>,
        place: Option<&CountedPlace>,
    ) -> Result<()> {
        if let Some(interval_end) = interval_end {
            self.writer
                .write_field(format!("{:.9}", interval_end.as_secs_f64()))?;
        }
        // A cgroup has a field after the event instead.
        if let Some(place) = place.filter(|place| place.cgroup().is_none()) {
            self.writer.write_field(&place.name)?;
            if let PlaceKind::Core(cpus) | PlaceKind::Socket(cpus) = place.kind {
                self.writer.write_field(cpus.to_string())?;
            }
        }
        Ok(())
    }
}

impl<W: Write> LineFormat for Csv<'_, W> {
    fn write_lines(&mut self, interval_end: Option<Duration>, runs: &[Run]) -> Result<()> {
        let figures = Figures::from_runs(runs);
        let has_variation = self.is_repeated || runs.len() > 1;
        let columns = self.subject.columns.iter().enumerate();
        for (index, column) in columns.filter(|(index, _)| self.subject.shows(&figures, *index)) {
            self.write_start(interval_end, column.place.as_ref())?;
            let number = |count: u64| match &column.unit {
                Some(unit) => unit.number_text(count),
                None => count.to_string(),
            };
            let value = figures.counts[index].map(number);
            self.writer.write_field(
                value
                    .as_deref()
                    .unwrap_or(column.text_if_missing("<not counted>")),
            )?;
            let unit = column.unit.as_ref().map_or("", ColumnUnit::name);
            self.writer.write_field(unit)?;
            self.writer.write_field(&column.event.label)?;
            if let Some(name) = column.place.as_ref().and_then(CountedPlace::cgroup) {
                self.writer.write_field(name)?;
            }
            if has_variation {
                let error = figures.summaries[index].map_or(0.0, |summary| summary.error_percent);
                self.writer.write_field(format!("{error:.2}%"))?;
            }
            self.writer
                .write_field(running_time(runs, index).to_string())?;
            let share = share_in_lines(column, runs, index);
            self.writer.write_field(format!("{share:.2}"))?;
            let ratio = ratio(&self.subject.columns, &figures.means(), index);
            match ratio.filter(|_| interval_end.is_none()) {
                Some(ratio) => {
                    self.writer.write_field(format!("{:.2}", ratio.value))?;
                    self.writer.write_field(ratio.unit)?;
                }
                None => {
                    self.writer.write_field("")?;
                    self.writer.write_field("")?;
                }
            }
            self.writer.write_record(None::<&[u8]>)?;
        }
        for metric in self.subject.metrics.values(&self.subject.columns, runs) {
            self.write_start(interval_end, metric.place)?;
            // The value, the unit and the event are empty.
            for _ in 0..3 {
                self.writer.write_field("")?;
            }
            if let Some(name) = metric.place.and_then(CountedPlace::cgroup) {
                self.writer.write_field(name)?;
            }
            // The running time and its percentage are empty. With several runs, the variation is
            // empty, too, as in perf.
            let empty_fields = if has_variation { 3 } else { 2 };
            for _ in 0..empty_fields {
                self.writer.write_field("")?;
            }
            let value = metric
                .number
                .map_or("nan".to_owned(), |value| format!("{value:.2}"));
            self.writer.write_field(value)?;
            self.writer.write_field(metric.perf_unit())?;
            self.writer.write_record(None::<&[u8]>)?;
        }
        Ok(self.writer.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines::WithTotals;
    use super::super::number_format::NumberFormat;
    use super::*;
    use crate::commands::stat::sources::source::Uncounted;
    use crate::commands::stat::testing::{
        run, subject, subject_of_cgroups, subject_with, text_written_by, with_partial_time,
    };

    #[test]
    fn fields_match_perf() {
        let subject = subject("instructions:u,cycles:u,r1c0,cache-misses");
        let text = text_written_by(|out| {
            let run = run(&[Some(3_000_000), Some(1_500_000), None, None]);
            WithTotals::new(Csv::new(&subject, out, b','), false)
                .write_totals(&[run])
                .expect("a vector takes all");
        });
        let expected = "\
3000000,,instructions:u,3000000000,100.00,2.00,insn per cycle
1500000,,cycles:u,3000000000,100.00,,
<not counted>,,r1c0,0,100.00,,
<not supported>,,cache-misses,0,100.00,,
";
        assert_eq!(text, expected);
    }

    #[test]
    fn an_estimate_comes_with_its_share_of_the_time() {
        let subject = subject("r1c0");
        let text = text_written_by(|out| {
            WithTotals::new(Csv::new(&subject, out, b','), false)
                .write_totals(&[with_partial_time(run(&[Some(9)]))])
                .expect("a vector takes all");
        });
        assert_eq!(text, "9,,r1c0,1026000000,34.20,,\n");
    }

    #[test]
    fn an_event_without_a_turn_has_no_share() {
        let subject = subject("r1c0,cycles,cache-misses");
        let text = text_written_by(|out| {
            let run = Run {
                uncounted: vec![Some(Uncounted::NoTurn), None, None],
                ..run(&[None, Some(9), None])
            };
            WithTotals::new(Csv::new(&subject, out, b','), false)
                .write_totals(&[run])
                .expect("a vector takes all");
        });
        let expected = "\
<not counted>,,r1c0,0,0.00,,
9,,cycles,3000000000,100.00,,
<not supported>,,cache-misses,0,100.00,,
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_name_with_the_separator_in_it_is_quoted() {
        let subject = subject("cpu/event=0xc0,umask=0/");
        let text = text_written_by(|out| {
            WithTotals::new(Csv::new(&subject, out, b','), false)
                .write_totals(&[run(&[Some(1)])])
                .expect("a vector takes all");
        });
        assert!(
            text.starts_with("1,,\"cpu/event=0xc0,umask=0/\",3"),
            "{text}"
        );
    }

    #[test]
    fn intervals_begin_with_their_time_and_have_no_total_and_no_ratio() {
        let subject = subject("instructions,cycles");
        let text = text_written_by(|out| {
            let mut csv = WithTotals::new(Csv::new(&subject, out, b';'), false);
            let run = run(&[Some(5), Some(4)]);
            csv.write_interval(Duration::from_millis(100), &run)
                .expect("room");
            csv.write_totals(&[run]).expect("room");
        });
        let expected = "\
0.100000000;5;;instructions;3000000000;100.00;;
0.100000000;4;;cycles;3000000000;100.00;;
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_cgroup_stands_behind_the_event() {
        let subject = subject_of_cgroups("instructions,cycles", &["a", "b/c"]);
        let text = text_written_by(|out| {
            let run = run(&[Some(6), Some(3), Some(1), Some(4)]);
            let mut csv = WithTotals::new(Csv::new(&subject, out, b','), false);
            csv.write_totals(&[run]).expect("a vector takes all");
        });
        let expected = "\
6,,instructions,a,3000000000,100.00,2.00,insn per cycle
3,,cycles,a,3000000000,100.00,,
1,,instructions,b/c,3000000000,100.00,0.25,insn per cycle
4,,cycles,b/c,3000000000,100.00,,
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_metric_has_a_line_of_its_own() {
        let subject = subject_with(
            "instructions,cycles",
            &["insn_per_cycle", "cycles_frequency"],
        );
        let text = text_written_by(|out| {
            WithTotals::new(Csv::new(&subject, out, b','), false)
                .write_totals(&[run(&[Some(6), Some(3_000_000_000)])])
                .expect("a vector takes all");
        });
        assert!(
            text.ends_with("\n,,,,,0.00,insn_per_cycle\n,,,,,1.00,GHz  cycles_frequency\n"),
            "{text}"
        );
    }

    #[test]
    fn the_variation_follows_the_event() {
        let subject = subject("instructions");
        let text = text_written_by(|out| {
            let runs = [run(&[Some(90)]), run(&[Some(110)])];
            WithTotals::new(Csv::new(&subject, out, b','), false)
                .write_totals(&runs)
                .expect("a vector takes all");
        });
        assert_eq!(text, "100,,instructions,10.00%,3000000000,100.00,,\n");
    }

    #[test]
    fn the_only_run_of_several_has_the_same_fields() {
        let subject = subject_with("instructions,cycles", &["insn_per_cycle"]);
        let text = text_written_by(|out| {
            let csv = Csv::new(&subject, out, b',').with_variation(true);
            WithTotals::new(csv, false)
                .write_totals(&[run(&[Some(90), Some(90)])])
                .expect("a vector takes all");
        });
        let expected = "\
90,,instructions,0.00%,3000000000,100.00,1.00,insn per cycle
90,,cycles,0.00%,3000000000,100.00,,
,,,,,,1.00,insn_per_cycle
";
        assert_eq!(text, expected);
    }
}
