// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers for programs: one object, numbers as numbers. Nothing is rounded, and each run is there; `stat --report` shows
//! it again.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use perfmon::Modes;
use serde::{Deserialize, Serialize};

use super::{Column, ColumnCount, NumberFormat, PlaceKind, Run, Scope, Subject};
use crate::events::cpus::Cpus;
use crate::events::values::Unit;
use crate::system::child::Ending;

/// The name of the form.
pub(super) const SCHEMA: &str = "pmctl-stat-v1";

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct V1Document {
    pub(super) schema: String,
    pub(super) command: String,
    /// CPUs whose counters counted; null if tasks were counted.
    pub(super) cpus: Option<usize>,
    /// Their numbers, if they are not all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) only: Option<String>,
    /// Number of cgroups that were counted, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cgroups: Option<usize>,
    /// The tasks in words, if they are not the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tasks: Option<String>,
    /// The processor's model, if -M asked for something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
    /// Two threads of a core were in use, and this many CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) smt: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) online: Option<usize>,
    /// Number of times that the command ran for a run, if more than once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parts: Option<usize>,
    pub(super) events: Vec<V1Event>,
    /// What -M asked for, of all runs together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) metrics: Vec<V1Metric>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) intervals: Vec<V1Interval>,
    pub(super) runs: Vec<OneRun>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct V1Metric {
    pub(super) metric: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    /// Null if it has none.
    value: Option<f64>,
    unit: String,
    /// The value is worth a look; null if that is not known.
    notable: Option<bool>,
    /// The numbers of the events by their names in the formula.
    #[serde(default)]
    pub(super) numbers: BTreeMap<String, usize>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct V1Event {
    pub(super) event: String,
    /// The core, thread or cgroup that is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) place: Option<String>,
    /// What it is: thread, cpu, core, socket or cgroup; and of how many CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) kind_cpus: Option<usize>,
    /// Null if the CPU does not have the event, or if the driver chose.
    pub(super) counter: Option<String>,
    pub(super) select: Option<u64>,
    /// What the number is, if it is no count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) unit: Option<String>,
    /// Which of the common events it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) meaning: Option<String>,
    /// `u` or `k`, if it is of one mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) mode: Option<String>,
    /// Why the CPU lacks it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) missing: Option<String>,
    /// Its number among all events that are counted.
    #[serde(default)]
    pub(super) number: usize,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct V1Interval {
    /// Seconds from the start to its end.
    pub(super) seconds: f64,
    pub(super) counts: Vec<Option<u64>>,
    /// Time that each event counted, in nanoseconds.
    #[serde(default)]
    pub(super) running_ns: Vec<Option<u64>>,
    /// Time that each was to be counted, if some had to wait: the counts are estimates then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) enabled_ns: Vec<Option<u64>>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct OneRun {
    pub(super) elapsed_seconds: f64,
    pub(super) user_seconds: f64,
    pub(super) system_seconds: f64,
    /// Exit code as in a shell; null without a command.
    pub(super) exit_code: Option<u8>,
    /// In the order of the events; null for one that can't be trusted.
    pub(super) counts: Vec<Option<u64>>,
    #[serde(default)]
    pub(super) running_ns: Vec<Option<u64>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) enabled_ns: Vec<Option<u64>>,
}

/// The names of units in the object.
pub(super) const UNITS: [(Unit, &str); 4] = [
    (Unit::Milliseconds, "ns"),
    (Unit::Joules, "2^-32 Joules"),
    (Unit::Celsius, "degrees Celsius"),
    (Unit::Cycles, "cycles"),
];

/// Writes the object at the end.
pub(super) struct V1<'a, W> {
    subject: &'a Subject,
    pub(super) output: W,
    intervals: Vec<V1Interval>,
}

impl<'a, W: Write> V1<'a, W> {
    pub(super) fn new(subject: &'a Subject, output: W) -> Self {
        Self {
            subject,
            output,
            intervals: Vec::new(),
        }
    }
}

impl<W: Write> NumberFormat for V1<'_, W> {
    fn interval(&mut self, at: Duration, run: &Run) -> Result<()> {
        self.intervals.push(V1Interval {
            seconds: at.as_secs_f64(),
            counts: values(run),
            running_ns: running(run),
            enabled_ns: enabled(run),
        });
        Ok(())
    }

    fn end(&mut self, runs: &[Run]) -> Result<()> {
        let subject = self.subject;
        let text = |only: &Option<Cpus>| only.as_ref().map(ToString::to_string);
        let mut document = V1Document::default();
        match &subject.scope {
            Scope::Command => {}
            Scope::Tasks { words, .. } => document.tasks = Some(words.clone()),
            Scope::Cpus { number, only } => {
                (document.cpus, document.only) = (Some(*number), text(only));
            }
            Scope::Cgroups { number, only } => {
                (document.cgroups, document.only) = (Some(*number), text(only));
            }
        }
        let facts = subject.metrics.machine_facts();
        let document = V1Document {
            schema: SCHEMA.to_owned(),
            command: subject.command.clone(),
            model: subject.metrics.model().map(str::to_owned),
            smt: facts.map(|facts| facts.is_smt),
            online: facts.map(|facts| facts.online),
            parts: (subject.parts > 1).then_some(subject.parts),
            events: subject.columns.iter().map(event).collect(),
            metrics: metrics(subject, runs),
            intervals: std::mem::take(&mut self.intervals),
            runs: runs.iter().map(one_run).collect(),
            ..document
        };
        Ok(writeln!(
            self.output,
            "{}",
            serde_json::to_string(&document)?
        )?)
    }
}

fn event(column: &Column) -> V1Event {
    let kind = column.place.as_ref().map(|place| match place.kind {
        PlaceKind::Thread => ("thread", None),
        PlaceKind::Cpu => ("cpu", None),
        PlaceKind::Core(cpus) => ("core", Some(cpus)),
        PlaceKind::Socket(cpus) => ("socket", Some(cpus)),
        PlaceKind::Cgroup => ("cgroup", None),
    });
    let meaning = column.event.meaning;
    let unit = column
        .unit
        .and_then(|unit| UNITS.iter().find(|(known, _)| *known == unit));
    V1Event {
        event: column.event.label.clone(),
        place: column.place.as_ref().map(|place| place.name.clone()),
        kind: kind.map(|(kind, _)| kind.to_owned()),
        kind_cpus: kind.and_then(|(_, cpus)| cpus),
        counter: column.counter.map(|counter| counter.to_string()),
        select: column
            .counter
            .map(|counter| column.event.select_on(counter).bits()),
        unit: unit.map(|(_, name)| (*name).to_owned()),
        meaning: meaning.and_then(|meaning| meaning.names().first().map(|name| (*name).to_owned())),
        mode: match column.event.modes {
            Modes::User => Some("u".to_owned()),
            Modes::Kernel => Some("k".to_owned()),
            Modes::Both => None,
        },
        missing: column.event.missing.clone(),
        number: column.number,
    }
}

fn metrics(subject: &Subject, runs: &[Run]) -> Vec<V1Metric> {
    let values = subject.metrics.values(&subject.columns, runs);
    let metric = |value: super::metrics::MetricValue<'_>| V1Metric {
        metric: value.name.to_owned(),
        place: value.place.map(|place| place.name.clone()),
        value: value.number,
        unit: value.unit.to_owned(),
        notable: value.is_notable,
        numbers: subject.metrics.numbers(value.name),
    };
    values.into_iter().map(metric).collect()
}

fn one_run(run: &Run) -> OneRun {
    OneRun {
        elapsed_seconds: run.elapsed.as_secs_f64(),
        user_seconds: run.user.as_secs_f64(),
        system_seconds: run.system.as_secs_f64(),
        exit_code: run.ending.map(Ending::exit_code),
        counts: values(run),
        running_ns: running(run),
        enabled_ns: enabled(run),
    }
}

/// Returns the counts of a run.
fn values(run: &Run) -> Vec<Option<u64>> {
    (0..run.counts.len())
        .map(|column| run.value(column))
        .collect()
}

/// Returns how long each counted.
fn running(run: &Run) -> Vec<Option<u64>> {
    times(run, |count| count.ran)
}

/// Returns how long each was to be counted; nothing if none had to wait.
fn enabled(run: &Run) -> Vec<Option<u64>> {
    let mut counts = run.counts.iter().flatten();
    if counts.all(|count| count.ran >= count.enabled) {
        return Vec::new();
    }
    times(run, |count| count.enabled)
}

fn times(run: &Run, time: fn(&ColumnCount) -> Duration) -> Vec<Option<u64>> {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let counts = run.counts.iter().map(Option::as_ref);
    counts.map(|count| Some(ns(time(count?)))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{lines, run, subject, subject_with, written};
    use super::*;
    use serde_json::json;

    #[test]
    fn metrics_have_their_values() {
        let subject = subject_with("instructions,cycles", &["insn_per_cycle"]);
        let runs = [run(&[Some(2), Some(4)])];
        let text = written(|out| V1::new(&subject, out).end(&runs).expect("room"));
        let expected = json!([{
            "metric": "insn_per_cycle", "value": 0.5, "unit": "", "notable": true,
            "numbers": {"instructions": 0, "cycles": 1},
        }]);
        assert_eq!(lines(&text)[0]["metrics"], expected);
    }

    #[test]
    fn our_object_loses_nothing() {
        let subject = subject("instructions:u,fixed1:k,cache-misses");
        let text = written(|out| {
            let mut v1 = V1::new(&subject, out);
            v1.interval(Duration::from_secs(1), &run(&[Some(1), Some(2), None]))
                .expect("room");
            v1.end(&[run(&[Some(u64::MAX), None, None])]).expect("room");
        });
        let expected = json!({
            "schema": "pmctl-stat-v1", "command": "ls -l", "cpus": 2,
            "events": [
                {"event": "instructions:u", "counter": "general counter 0", "select": 0x0001_00c0,
                    "meaning": "instructions", "mode": "u", "number": 0},
                {"event": "fixed1:k", "counter": "fixed counter 1", "select": 0x0002_0000,
                    "mode": "k", "number": 1},
                {"event": "cache-misses", "counter": null, "select": null, "number": 2,
                    "missing": "The CPU says that it lacks it (CPUID.0AH:EBX[4])."},
            ],
            "intervals": [{"seconds": 1.0, "counts": [1, 2, null],
                "running_ns": [3_000_000_000u64, 3_000_000_000u64, null]}],
            "runs": [{
                "elapsed_seconds": 1.5, "user_seconds": 1.2, "system_seconds": 0.3,
                "exit_code": 0, "counts": [u64::MAX, null, null],
                "running_ns": [3_000_000_000u64, null, null],
            }],
        });
        assert_eq!(lines(&text), [expected]);
    }
}
