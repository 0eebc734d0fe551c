// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers for programs, as JSON in perf's form.

use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::lines::{LineFormat, share_in_lines};
use super::ratio::ratio;
use crate::commands::stat::runs::run::{Figures, Run, running_time};
use crate::commands::stat::scope::{CountedPlace, PlaceKind};
use crate::commands::stat::subject::Subject;
use crate::commands::stat::unit::ColumnUnit;

/// `perf stat --json`: an object a line for each event, numbers partly as strings.
pub(in crate::commands::stat) struct PerfJson<'a, W> {
    subject: &'a Subject,
    output: W,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct PerfLine<'a> {
    #[serde(flatten)]
    place: PerfPlace<'a>,
    counter_value: String,
    unit: &'a str,
    event: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroup: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    variance: Option<f64>,
    event_runtime: u64,
    pcnt_running: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    metric_value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metric_unit: Option<String>,
}

/// A metric of -M.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct PerfMetric<'a> {
    #[serde(flatten)]
    place: PerfPlace<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroup: Option<&'a str>,
    metric_value: String,
    metric_unit: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    metric_threshold: Option<&'static str>,
}

/// The time of an interval, and the counted core, socket, CPU or thread.
#[derive(Serialize)]
struct PerfPlace<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    core: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    socket: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counters: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<&'a str>,
}

impl<'a> PerfPlace<'a> {
    fn new(interval_end: Option<Duration>, place: Option<&'a CountedPlace>) -> Self {
        let name = |is_kind: fn(PlaceKind) -> bool| {
            let place = place.filter(|place| is_kind(place.kind));
            place.map(|place| place.name.as_str())
        };
        Self {
            interval: interval_end.map(|interval_end| interval_end.as_secs_f64()),
            core: name(|kind| matches!(kind, PlaceKind::Core(_))),
            socket: name(|kind| matches!(kind, PlaceKind::Socket(_))),
            // perf writes the number alone.
            cpu: name(|kind| kind == PlaceKind::Cpu).map(|name| name.trim_start_matches("CPU")),
            counters: place.and_then(|place| match place.kind {
                PlaceKind::Core(cpus) | PlaceKind::Socket(cpus) => Some(cpus),
                PlaceKind::Thread | PlaceKind::Cpu | PlaceKind::Cgroup => None,
            }),
            thread: name(|kind| kind == PlaceKind::Thread),
        }
    }
}

impl<'a, W: Write> PerfJson<'a, W> {
    pub(in crate::commands::stat) fn new(subject: &'a Subject, output: W) -> Self {
        Self { subject, output }
    }
}

impl<W: Write> LineFormat for PerfJson<'_, W> {
    fn write_lines(&mut self, interval_end: Option<Duration>, runs: &[Run]) -> Result<()> {
        let figures = Figures::from_runs(runs);
        let columns = self.subject.columns.iter().enumerate();
        for (index, column) in columns.filter(|(index, _)| self.subject.shows(&figures, *index)) {
            let ratio = ratio(&self.subject.columns, &figures.means(), index);
            let ratio = ratio.filter(|_| interval_end.is_none());
            let error = figures.summaries[index].map(|summary| summary.error_percent);
            let line = PerfLine {
                place: PerfPlace::new(interval_end, column.place.as_ref()),
                counter_value: figures.counts[index].map_or_else(
                    || column.text_if_missing("<not counted>").to_owned(),
                    |count| match &column.unit {
                        Some(unit) => unit.json_text(count),
                        None => format!("{count}.000000"),
                    },
                ),
                unit: column.unit.as_ref().map_or("", ColumnUnit::name),
                event: &column.event.label,
                cgroup: column.place.as_ref().and_then(CountedPlace::cgroup),
                variance: error.filter(|_| runs.len() > 1),
                event_runtime: running_time(runs, index),
                // Two digits, as in perf.
                pcnt_running: (share_in_lines(column, runs, index) * 100.0).round() / 100.0,
                metric_value: ratio.as_ref().map(|ratio| format!("{:.6}", ratio.value)),
                metric_unit: ratio.map(|ratio| ratio.unit),
            };
            writeln!(self.output, "{}", serde_json::to_string(&line)?)?;
        }
        for metric in self.subject.metrics.values(&self.subject.columns, runs) {
            let line = PerfMetric {
                place: PerfPlace::new(interval_end, metric.place),
                cgroup: metric.place.and_then(CountedPlace::cgroup),
                metric_value: metric
                    .number
                    .map_or("nan".to_owned(), |value| format!("{value:.6}")),
                metric_unit: metric.perf_unit(),
                metric_threshold: metric
                    .is_notable
                    .map(|is_notable| if is_notable { "bad" } else { "good" }),
            };
            writeln!(self.output, "{}", serde_json::to_string(&line)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines::WithTotals;
    use super::super::number_format::NumberFormat;
    use super::*;
    use crate::commands::stat::testing::{
        json_lines, run, subject, subject_of_cgroups, subject_with, text_written_by,
        with_partial_time,
    };
    use crate::events::values::Unit;
    use serde_json::json;

    #[test]
    fn keys_match_perf() {
        let subject = subject("instructions:u,cycles:u");
        let text = text_written_by(|out| {
            let run = run(&[Some(3_000_000), Some(1_500_000)]);
            WithTotals::new(PerfJson::new(&subject, out), false)
                .write_totals(&[run])
                .expect("a vector takes all");
        });
        let expected = [
            json!({
                "counter-value": "3000000.000000", "unit": "", "event": "instructions:u",
                "event-runtime": 3_000_000_000u64, "pcnt-running": 100.0,
                "metric-value": "2.000000", "metric-unit": "insn per cycle",
            }),
            json!({
                "counter-value": "1500000.000000", "unit": "", "event": "cycles:u",
                "event-runtime": 3_000_000_000u64, "pcnt-running": 100.0,
            }),
        ];
        assert_eq!(json_lines(&text), expected);
    }

    #[test]
    fn an_estimate_comes_with_its_share_of_the_time() {
        let subject = subject("r1c0");
        let text = text_written_by(|out| {
            WithTotals::new(PerfJson::new(&subject, out), false)
                .write_totals(&[with_partial_time(run(&[Some(9)]))])
                .expect("a vector takes all");
        });
        assert_eq!(json_lines(&text)[0]["pcnt-running"], 34.2);
        assert_eq!(json_lines(&text)[0]["event-runtime"], 1_026_000_000u64);
    }

    #[test]
    fn a_cgroup_has_its_key() {
        let subject = subject_of_cgroups("instructions", &["a", "b/c"]);
        let text = text_written_by(|out| {
            let mut perf = WithTotals::new(PerfJson::new(&subject, out), false);
            perf.write_totals(&[run(&[Some(7), Some(8)])])
                .expect("room");
        });
        let cgroups = json_lines(&text)
            .into_iter()
            .map(|line| line["cgroup"].clone());
        assert_eq!(cgroups.collect::<Vec<_>>(), ["a", "b/c"]);
    }

    #[test]
    fn numbers_have_the_digits_of_their_units() {
        for (unit, number) in [
            (None, "7.000000"),
            (Some(Unit::Cycles), "7.000000"),
            (Some(Unit::Celsius), "7"),
            (Some(Unit::Milliseconds), "0.00"),
        ] {
            let mut subject = subject("instructions");
            subject.columns[0].unit = unit.map(ColumnUnit::Known);
            let text = text_written_by(|out| {
                let mut perf = WithTotals::new(PerfJson::new(&subject, out), false);
                perf.write_totals(&[run(&[Some(7)])]).expect("room");
            });
            assert_eq!(json_lines(&text)[0]["counter-value"], number, "{unit:?}");
        }
    }

    #[test]
    fn intervals_and_variations_have_their_keys() {
        let subject = subject("instructions");
        let text = text_written_by(|out| {
            let mut perf = WithTotals::new(PerfJson::new(&subject, out), false);
            perf.write_interval(Duration::from_millis(500), &run(&[None]))
                .expect("room");
            perf.write_totals(&[run(&[None])]).expect("room");
        });
        let objects = json_lines(&text);
        assert_eq!(objects.len(), 1, "no total after intervals");
        assert_eq!(objects[0]["interval"], 0.5);
        assert_eq!(objects[0]["counter-value"], "<not counted>");

        let text = text_written_by(|out| {
            let runs = [run(&[Some(90)]), run(&[Some(110)])];
            WithTotals::new(PerfJson::new(&subject, out), false)
                .write_totals(&runs)
                .expect("room");
        });
        assert!((json_lines(&text)[0]["variance"].as_f64().expect("a number") - 10.0).abs() < 1e-9);
    }

    #[test]
    fn keys_of_metrics_match_perf() {
        let subject = subject_with("instructions,cycles", &["insn_per_cycle"]);
        let runs = || [run(&[Some(2), Some(4)])];
        let text = text_written_by(|out| {
            WithTotals::new(PerfJson::new(&subject, out), false)
                .write_totals(&runs())
                .expect("room");
        });
        let expected = json!({
            "metric-value": "0.500000", "metric-unit": "insn_per_cycle", "metric-threshold": "bad"
        });
        assert_eq!(json_lines(&text)[2], expected);
    }
}
