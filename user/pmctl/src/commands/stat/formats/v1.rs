// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers for programs: one JSON object with all runs, numbers as numbers, nothing rounded. `stat --report` shows it.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use perfmon::Modes;
use serde::{Deserialize, Serialize};

use super::number_format::NumberFormat;
use crate::commands::stat::column::Column;
use crate::commands::stat::runs::run::Run;
use crate::commands::stat::scope::{PlaceKind, Scope};
use crate::commands::stat::sources::source::ColumnCount;
use crate::commands::stat::subject::Subject;
use crate::commands::stat::unit::ColumnUnit;
use crate::events::cpus::Cpus;
use crate::system::child::Ending;

/// The name of the form.
pub(in crate::commands::stat) const SCHEMA: &str = "pmctl-stat-v1";

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(in crate::commands::stat) struct V1Document {
    pub(in crate::commands::stat) schema: String,
    pub(in crate::commands::stat) command: String,
    /// Number of CPUs that were counted; null if tasks were counted.
    pub(in crate::commands::stat) cpus: Option<usize>,
    /// List of the counted CPUs, if some online CPUs are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::commands::stat) only: Option<String>,
    /// Number of cgroups that were counted, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::commands::stat) cgroups: Option<usize>,
    /// The processes or threads of -p or -t, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::commands::stat) tasks: Option<String>,
    /// The CPU model whose metrics were asked for with -M.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::commands::stat) model: Option<String>,
    /// Two hardware threads of a core were in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::commands::stat) smt: Option<bool>,
    /// Number of online CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::commands::stat) online: Option<usize>,
    /// Number of times that the command ran to count all events once, if more than 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::commands::stat) parts: Option<usize>,
    pub(in crate::commands::stat) events: Vec<V1Event>,
    /// The metrics of -M, from the means of all runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::commands::stat) metrics: Vec<V1Metric>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::commands::stat) intervals: Vec<V1Interval>,
    pub(in crate::commands::stat) runs: Vec<V1Run>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(in crate::commands::stat) struct V1Metric {
    pub(in crate::commands::stat) metric: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    /// The value; null if a count is missing, or if the formula divides by 0.
    value: Option<f64>,
    unit: String,
    /// The value has reached the metric's threshold; null if that is not known.
    notable: Option<bool>,
    /// The indices of the events, by their names in the formula.
    #[serde(default)]
    pub(in crate::commands::stat) numbers: BTreeMap<String, usize>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(in crate::commands::stat) struct V1Event {
    pub(in crate::commands::stat) event: String,
    /// The thread, CPU, core, socket or cgroup that is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::commands::stat) place: Option<String>,
    /// The kind of the place: thread, cpu, core, socket or cgroup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::commands::stat) kind: Option<String>,
    /// Number of counted CPUs of a core or socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::commands::stat) kind_cpus: Option<usize>,
    /// The counter; null if the CPU does not have the event, or if the driver chose the counter.
    pub(in crate::commands::stat) counter: Option<String>,
    /// The event's bits in the select register of `counter`.
    pub(in crate::commands::stat) select: Option<u64>,
    /// The unit of the number, if it is not a count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::commands::stat) unit: Option<String>,
    /// The factor that converts the number to that unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::commands::stat) scale: Option<f64>,
    /// The name of the common event, if the event is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::commands::stat) meaning: Option<String>,
    /// `u` or `k`, if the event is counted in one mode only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::commands::stat) mode: Option<String>,
    /// perf's PMU type of the kind of core that counts the event, if only one kind counts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::commands::stat) core_type: Option<u32>,
    /// The reason why the CPU lacks the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::commands::stat) missing: Option<String>,
    /// Index among all events that are counted.
    #[serde(default)]
    pub(in crate::commands::stat) number: usize,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(in crate::commands::stat) struct V1Interval {
    /// Seconds from the start of the run to the end of the interval.
    pub(in crate::commands::stat) seconds: f64,
    pub(in crate::commands::stat) counts: Vec<Option<u64>>,
    /// Time that each event counted, in nanoseconds.
    #[serde(default)]
    pub(in crate::commands::stat) running_ns: Vec<Option<u64>>,
    /// Time that each event was enabled, in nanoseconds. Empty if no event had to wait for a
    /// counter. Otherwise counts are estimates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::commands::stat) enabled_ns: Vec<Option<u64>>,
    /// The first known reason why a count is null. Applies to all null counts if `uncounted_by_event` is empty. Absent
    /// if no reason is known: then the null counts can't be trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::commands::stat) uncounted: Option<String>,
    /// The reason of each column; null for a count that is there, or that can't be trusted. Empty if `uncounted`
    /// applies to all null counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::commands::stat) uncounted_by_event: Vec<Option<String>>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(in crate::commands::stat) struct V1Run {
    pub(in crate::commands::stat) elapsed_seconds: f64,
    /// Time since the start of the counters, if they started after a delay (-D).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::commands::stat) counted_seconds: Option<f64>,
    pub(in crate::commands::stat) user_seconds: f64,
    pub(in crate::commands::stat) system_seconds: f64,
    /// Exit code as in a shell; null without a command.
    pub(in crate::commands::stat) exit_code: Option<u8>,
    /// Counts in the order of the events; null for a count that can't be trusted.
    pub(in crate::commands::stat) counts: Vec<Option<u64>>,
    #[serde(default)]
    pub(in crate::commands::stat) running_ns: Vec<Option<u64>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::commands::stat) enabled_ns: Vec<Option<u64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::commands::stat) uncounted: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::commands::stat) uncounted_by_event: Vec<Option<String>>,
}

/// A form that collects the intervals, and writes the whole object at the end.
pub(in crate::commands::stat) struct V1<'a, W> {
    subject: &'a Subject,
    pub(in crate::commands::stat) output: W,
    intervals: Vec<V1Interval>,
}

impl<'a, W: Write> V1<'a, W> {
    pub(in crate::commands::stat) fn new(subject: &'a Subject, output: W) -> Self {
        Self {
            subject,
            output,
            intervals: Vec::new(),
        }
    }
}

impl<W: Write> NumberFormat for V1<'_, W> {
    fn write_interval(&mut self, interval_end: Duration, run: &Run) -> Result<()> {
        self.intervals.push(V1Interval {
            seconds: interval_end.as_secs_f64(),
            counts: counts_of(run),
            running_ns: running_ns(run),
            enabled_ns: enabled_ns(run),
            uncounted: uncounted_reason(run),
            uncounted_by_event: uncounted_by_event(run),
        });
        Ok(())
    }

    fn write_totals(&mut self, runs: &[Run]) -> Result<()> {
        let subject = self.subject;
        let text = |cpus: &Option<Cpus>| cpus.as_ref().map(ToString::to_string);
        let mut document = V1Document::default();
        match &subject.scope {
            Scope::Command => {}
            Scope::Tasks { description, .. } => document.tasks = Some(description.clone()),
            Scope::Cpus {
                number,
                chosen_cpus,
            } => {
                (document.cpus, document.only) = (Some(*number), text(chosen_cpus));
            }
            Scope::Cgroups {
                number,
                chosen_cpus,
            } => {
                (document.cgroups, document.only) = (Some(*number), text(chosen_cpus));
            }
        }
        let facts = subject.metrics.machine_facts();
        let document = V1Document {
            schema: SCHEMA.to_owned(),
            command: subject.command.clone(),
            model: subject.metrics.model().map(str::to_owned),
            smt: facts.map(|facts| facts.is_smt),
            online: facts.map(|facts| facts.online),
            parts: (subject.runs_per_count > 1).then_some(subject.runs_per_count),
            events: subject.columns.iter().map(v1_event).collect(),
            metrics: v1_metrics(subject, runs),
            intervals: std::mem::take(&mut self.intervals),
            runs: runs.iter().map(v1_run).collect(),
            ..document
        };
        Ok(writeln!(
            self.output,
            "{}",
            serde_json::to_string(&document)?
        )?)
    }
}

fn v1_event(column: &Column) -> V1Event {
    let kind = column.place.as_ref().map(|place| match place.kind {
        PlaceKind::Thread => ("thread", None),
        PlaceKind::Cpu => ("cpu", None),
        PlaceKind::Core(cpus) => ("core", Some(cpus)),
        PlaceKind::Socket(cpus) => ("socket", Some(cpus)),
        PlaceKind::Cgroup => ("cgroup", None),
    });
    let meaning = column.event.meaning;
    V1Event {
        event: column.event.label.clone(),
        place: column.place.as_ref().map(|place| place.name.clone()),
        kind: kind.map(|(kind, _)| kind.to_owned()),
        kind_cpus: kind.and_then(|(_, cpus)| cpus),
        counter: column.counter.map(|counter| counter.to_string()),
        select: column
            .counter
            .map(|counter| column.event.select_on(counter).bits()),
        unit: column.unit.as_ref().map(ColumnUnit::name_in_file),
        scale: column.unit.as_ref().and_then(ColumnUnit::factor),
        meaning: meaning.and_then(|meaning| meaning.names().first().map(|name| (*name).to_owned())),
        mode: match column.event.modes {
            Modes::User => Some("u".to_owned()),
            Modes::Kernel => Some("k".to_owned()),
            Modes::Both => None,
        },
        core_type: column.event.core_type,
        missing: column.event.missing.clone(),
        number: column.event_index,
    }
}

fn v1_metrics(subject: &Subject, runs: &[Run]) -> Vec<V1Metric> {
    let values = subject.metrics.values(&subject.columns, runs);
    let metric = |value: crate::commands::stat::metrics::MetricValue<'_>| V1Metric {
        metric: value.name.to_owned(),
        place: value.place.map(|place| place.name.clone()),
        value: value.number,
        unit: value.unit.to_owned(),
        notable: value.is_notable,
        numbers: subject.metrics.event_indices(value.name),
    };
    values.into_iter().map(metric).collect()
}

fn v1_run(run: &Run) -> V1Run {
    V1Run {
        elapsed_seconds: run.elapsed.as_secs_f64(),
        counted_seconds: (run.counted_for < run.elapsed).then_some(run.counted_for.as_secs_f64()),
        user_seconds: run.user.as_secs_f64(),
        system_seconds: run.system.as_secs_f64(),
        exit_code: run.ending.map(Ending::exit_code),
        counts: counts_of(run),
        running_ns: running_ns(run),
        enabled_ns: enabled_ns(run),
        uncounted: uncounted_reason(run),
        uncounted_by_event: uncounted_by_event(run),
    }
}

/// Returns the name of the first reason for missing counts.
fn uncounted_reason(run: &Run) -> Option<String> {
    let reason = run.missing_counts().find_map(|(_, reason)| reason)?;
    Some(reason.name().to_owned())
}

/// Returns the names of the reasons by column; empty if all missing counts have the same reason, or none.
fn uncounted_by_event(run: &Run) -> Vec<Option<String>> {
    let mut reasons = run.missing_counts().map(|(_, reason)| reason);
    let first = reasons.next();
    if reasons.all(|reason| Some(reason) == first) {
        return Vec::new();
    }
    let mut names = vec![None; run.counts.len()];
    for (column, reason) in run.missing_counts() {
        names[column] = reason.map(|reason| reason.name().to_owned());
    }
    names
}

/// Returns the counts of a run.
fn counts_of(run: &Run) -> Vec<Option<u64>> {
    (0..run.counts.len())
        .map(|column| run.value(column))
        .collect()
}

/// Returns how long each event was counted, in nanoseconds.
fn running_ns(run: &Run) -> Vec<Option<u64>> {
    times_ns(run, |count| count.ran)
}

/// Returns how long each event was enabled, in nanoseconds; empty if no event had to wait for a counter.
fn enabled_ns(run: &Run) -> Vec<Option<u64>> {
    let mut counts = run.counts.iter().flatten();
    if counts.all(|count| count.ran >= count.enabled) {
        return Vec::new();
    }
    times_ns(run, |count| count.enabled)
}

fn times_ns(run: &Run, time: fn(&ColumnCount) -> Duration) -> Vec<Option<u64>> {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let counts = run.counts.iter().map(Option::as_ref);
    counts.map(|count| Some(ns(time(count?)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::stat::testing::{json_lines, run, subject, subject_with, text_written_by};
    use serde_json::json;

    #[test]
    fn metrics_have_their_values() {
        let subject = subject_with("instructions,cycles", &["insn_per_cycle"]);
        let runs = [run(&[Some(2), Some(4)])];
        let text = text_written_by(|out| V1::new(&subject, out).write_totals(&runs).expect("room"));
        let expected = json!([{
            "metric": "insn_per_cycle", "value": 0.5, "unit": "", "notable": true,
            "numbers": {"instructions": 0, "cycles": 1},
        }]);
        assert_eq!(json_lines(&text)[0]["metrics"], expected);
    }

    #[test]
    fn the_object_has_all_counts_unrounded() {
        let subject = subject("instructions:u,fixed1:k,cache-misses");
        let text = text_written_by(|out| {
            let mut v1 = V1::new(&subject, out);
            v1.write_interval(Duration::from_secs(1), &run(&[Some(1), Some(2), None]))
                .expect("room");
            v1.write_totals(&[run(&[Some(u64::MAX), None, None])])
                .expect("room");
        });
        let expected = json!({
            "schema": "pmctl-stat-v1", "command": "ls -l", "cpus": 2,
            "events": [
                {"event": "instructions:u", "counter": "general counter 0", "select": 0x0001_00c0,
                    "meaning": "instructions", "mode": "u", "number": 0},
                {"event": "fixed1:k", "counter": "fixed counter 1", "select": 0x0002_0000,
                    "mode": "k", "number": 1},
                {"event": "cache-misses", "counter": null, "select": null, "number": 2,
                    "missing": "CPUID says that the CPU lacks the event (CPUID.0AH:EBX[4])."},
            ],
            "intervals": [{"seconds": 1.0, "counts": [1, 2, null],
                "running_ns": [3_000_000_000u64, 3_000_000_000u64, null]}],
            "runs": [{
                "elapsed_seconds": 1.5, "user_seconds": 1.2, "system_seconds": 0.3,
                "exit_code": 0, "counts": [u64::MAX, null, null],
                "running_ns": [3_000_000_000u64, null, null],
            }],
        });
        assert_eq!(json_lines(&text), [expected]);
    }
}
