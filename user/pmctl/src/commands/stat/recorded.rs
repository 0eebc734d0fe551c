// SPDX-License-Identifier: MIT OR Apache-2.0
//! `stat --report`: shows a file of `--record` or `--json=v1` in any form.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use perfmon::pmu::Vendor;
use perfmon::spec::models::model;
use perfmon::spec::{self, EventSpec, Meaning, NamedEvent};
use perfmon::{Encoding, EventSelect, Modes};

use super::column::Column;
use super::formats::output;
use super::formats::v1::{SCHEMA, V1Document, V1Event, V1Run};
use super::metrics::Metrics;
use super::runs::run::Run;
use super::scope::{CountedPlace, PlaceKind, Scope};
use super::sources::source::{ColumnCount, Reasons, Uncounted};
use super::subject::Subject;
use super::unit::ColumnUnit;
use crate::args::{Json, Stat};
use crate::events::cpus::Cpus;
use crate::events::metrics::MachineFacts;
use crate::events::threads::TaskList;
use crate::system::exit::Usage;
use crate::system::text::json_of;

/// The largest length of a place's name in bytes: twice the length of a path on Linux (4096) with each byte escaped to
/// four. format!() panics if it has to pad a text to a width above 65535.
const MAX_PLACE_LENGTH: usize = 1 << 15;

/// Shows the counts of a file.
pub(super) fn report(args: &Stat, path: &Path) -> Result<u8> {
    let name = path.display();
    let text = read_limited(path).with_context(|| format!("can't read {name}"))?;
    let document: V1Document = json_of(&text, || {
        format!("{name} is not a file of `pmctl stat --record` or `--json=v1`")
    })?;
    if document.schema != SCHEMA {
        bail!(
            "{name} has the form `{}`; this pmctl reads `{SCHEMA}`. Show it with the version of pmctl that wrote it.",
            document.schema
        );
    }
    let columns = document.events.len();
    let counts = document.runs.iter().map(|run| &run.counts);
    let mut counts = counts.chain(document.intervals.iter().map(|interval| &interval.counts));
    if document.runs.is_empty() || !counts.all(|counts| counts.len() == columns) {
        bail!(
            "{name} is damaged: a run or an interval has another number of counts than there are events. Count again."
        );
    }
    if args.json == Some(Json::V1) {
        std::io::Write::write_all(&mut output::open_output(args)?, &text)?;
        return Ok(0);
    }
    let subject = to_subject(&document, args)?;
    let places = subject.columns.iter().flat_map(|column| &column.place);
    if places.map(|place| place.name.len()).max() > Some(MAX_PLACE_LENGTH) {
        bail!("{name} is damaged: the name of a thread or a cgroup is too long. Count again.");
    }
    if args.metric_only && subject.metrics.is_empty() {
        return Err(Usage(format!(
            "--metric-only: {name} has no metrics that this pmctl knows. Leave --metric-only out."
        ))
        .into());
    }
    let output = output::open_output(args)?;
    let mut report = output::number_format(args, &subject, output);
    let mut previous_time = Duration::ZERO;
    for interval in &document.intervals {
        let interval_end = to_duration(interval.seconds);
        let run = Run {
            uncounted: missing_count_reasons(
                &interval.counts,
                (interval.uncounted.as_deref(), &interval.uncounted_by_event),
            ),
            ..to_run(
                interval_end.saturating_sub(previous_time),
                &interval.counts,
                (&interval.running_ns, &interval.enabled_ns),
            )
        };
        report.write_interval(interval_end, &run)?;
        previous_time = interval_end;
    }
    let runs: Vec<Run> = document.runs.iter().map(to_whole_run).collect();
    report.write_totals(&runs)?;
    Ok(0)
}

/// Converts a run of a file, with the times of its command.
fn to_whole_run(v1_run: &V1Run) -> Run {
    Run {
        elapsed: to_duration(v1_run.elapsed_seconds),
        user: to_duration(v1_run.user_seconds),
        system: to_duration(v1_run.system_seconds),
        uncounted: missing_count_reasons(
            &v1_run.counts,
            (v1_run.uncounted.as_deref(), &v1_run.uncounted_by_event),
        ),
        ..to_run(
            to_duration(v1_run.counted_seconds.unwrap_or(v1_run.elapsed_seconds)),
            &v1_run.counts,
            (&v1_run.running_ns, &v1_run.enabled_ns),
        )
    }
}

/// Returns the reason for each missing count: the one in `by_event`, or `common_reason` if `by_event` is empty. `None`
/// for a count that is there, or that can't be trusted.
fn missing_count_reasons(
    counts: &[Option<u64>],
    (common_reason, by_event): (Option<&str>, &[Option<String>]),
) -> Reasons {
    let reason = |(index, count): (usize, &Option<u64>)| {
        let name = if by_event.is_empty() {
            common_reason
        } else {
            by_event.get(index)?.as_deref()
        };
        name.filter(|_| count.is_none())
            .and_then(Uncounted::from_name)
    };
    counts.iter().enumerate().map(reason).collect()
}

/// Reads a file, but no more than `MAX_FILE_SIZE`: a file such as /dev/zero has no end.
fn read_limited(path: &Path) -> io::Result<Vec<u8>> {
    const MAX_FILE_SIZE: u64 = 1 << 28;
    let mut text = Vec::new();
    File::open(path)?
        .take(MAX_FILE_SIZE)
        .read_to_end(&mut text)?;
    Ok(text)
}

fn to_subject(document: &V1Document, args: &Stat) -> Result<Subject> {
    let chosen_cpus = document.only.as_deref();
    let chosen_cpus = chosen_cpus.and_then(|text| Cpus::parse(text).ok());
    let scope = match (document.cpus, document.cgroups, &document.tasks) {
        (Some(number), ..) => Scope::Cpus {
            number,
            chosen_cpus,
        },
        (None, Some(number), _) => Scope::Cgroups {
            number,
            chosen_cpus,
        },
        (None, None, Some(description)) => Scope::Tasks {
            task_list: TaskList::default(),
            threads: Vec::new(),
            description: crate::system::text::printable(description),
        },
        (None, None, None) => Scope::Command,
    };
    let facts = MachineFacts {
        is_smt: document.smt.unwrap_or(false),
        online: document.online.unwrap_or(1),
    };
    let metrics = document.metrics.iter();
    let metrics = metrics.map(|metric| (&*metric.metric, &metric.numbers));
    Ok(Subject {
        command: crate::system::text::printable(&document.command),
        scope,
        columns: document.events.iter().map(to_column).collect(),
        metrics: Metrics::from_file(metrics, document.model.as_deref().and_then(model), facts)?,
        runs_per_count: document.parts.unwrap_or(1),
        shows_counts: !args.metric_only,
        hides_zeros: args.hide_zero_events,
    })
}

fn to_column(event: &V1Event) -> Column {
    let kind = |cpus: usize| match event.kind.as_deref() {
        Some("cpu") => PlaceKind::Cpu,
        Some("core") => PlaceKind::Core(cpus),
        Some("socket") => PlaceKind::Socket(cpus),
        Some("cgroup") => PlaceKind::Cgroup,
        _ => PlaceKind::Thread,
    };
    let place = event.place.as_ref().map(|name| CountedPlace {
        name: crate::system::text::printable(name),
        kind: kind(event.kind_cpus.unwrap_or(1)),
    });
    let absent = EventSpec::absent(
        crate::system::text::printable(&event.event),
        event.missing.clone().unwrap_or_default(),
    );
    Column {
        place,
        event_index: event.number,
        event: EventSpec {
            meaning: event.meaning.as_deref().and_then(find_meaning),
            core_type: event.core_type,
            modes: match event.mode.as_deref() {
                Some("u") => Modes::User,
                Some("k") => Modes::Kernel,
                _ => Modes::Both,
            },
            // Any encoding marks the event as present: nothing is counted with it.
            encoding: match event.missing {
                Some(_) => None,
                None => Some(Encoding::Raw(EventSelect::fixed())),
            },
            missing: event.missing.as_deref().map(crate::system::text::printable),
            ..absent
        },
        counter: None,
        unit: ColumnUnit::from_file(event.unit.as_deref(), event.scale),
    }
}

/// Returns the meaning (such as cycles) that a file of --record has under this name.
fn find_meaning(name: &str) -> Option<Meaning> {
    let mut common_events = [Vendor::Intel, Vendor::Amd]
        .into_iter()
        .flat_map(spec::named_events);
    let event = common_events.find(|event| event.meaning().names().contains(&name));
    event.map(NamedEvent::meaning)
}

/// Converts the counts of a run or of an interval, in which the events were counted for `counted_for`.
fn to_run(
    counted_for: Duration,
    counts: &[Option<u64>],
    (running, enabled): (&[Option<u64>], &[Option<u64>]),
) -> Run {
    let time = |times: &[Option<u64>], index: usize| {
        let ns = times.get(index).copied().flatten();
        ns.map(Duration::from_nanos)
    };
    let count = |(index, value): (usize, &Option<u64>)| {
        let running_time = time(running, index).unwrap_or(counted_for);
        let enabled_time = time(enabled, index).filter(|enabled| *enabled > running_time);
        value.map(|value| match enabled_time {
            None => ColumnCount::whole(value, running_time),
            Some(enabled_time) => ColumnCount::of_turns(value, running_time, enabled_time),
        })
    };
    Run {
        elapsed: counted_for,
        counted_for,
        user: Duration::ZERO,
        system: Duration::ZERO,
        counts: counts.iter().enumerate().map(count).collect(),
        uncounted: vec![None; counts.len()],
        ending: None,
        stopped_by: None,
    }
}

/// Converts seconds to a duration; 0 for a number that can't be a duration, such as a negative one.
fn to_duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::formats::human::{Human, Look};
    use super::super::formats::number_format::NumberFormat;
    use super::super::formats::v1::V1;
    use super::super::testing::{self, subject_with, text_written_by};
    use super::*;
    use clap::Parser;
    use std::fs;

    use crate::args::{Cli, Command};

    fn args(words: &[&str]) -> Stat {
        let cli = Cli::try_parse_from([&["pmctl", "stat"], words].concat());
        match cli.expect("it is well formed").command {
            Command::Stat(stat) => stat,
            other => panic!("it is no stat: {other:?}"),
        }
    }

    #[test]
    fn report_of_a_file_equals_that_of_the_run() {
        let events = "instructions,cycles,branch-misses,cache-misses";
        let subject = subject_with(events, &["insn_per_cycle"]);
        let runs = [testing::run(&[Some(6), Some(3), Some(1), None])];
        let table = |subject: &Subject| {
            text_written_by(|out| {
                let human = &mut Human::new(subject, out, Look::default());
                human.write_totals(&runs).expect("a vector takes all");
            })
        };
        let text = text_written_by(|out| V1::new(&subject, out).write_totals(&runs).expect("room"));
        let document: V1Document = serde_json::from_str(&text).expect("it was written");
        let read_subject =
            super::to_subject(&document, &args(&["true"])).expect("it is well formed");
        assert_eq!(table(&read_subject), table(&subject));
        let v1_run = &document.runs[0];
        let run = to_run(
            runs[0].elapsed,
            &v1_run.counts,
            (&v1_run.running_ns, &v1_run.enabled_ns),
        );
        assert_eq!(run.counts, runs[0].counts);
    }

    #[test]
    fn report_of_a_file_says_that_an_event_was_not_counted() {
        let subject = subject_with("instructions,cycles", &[]);
        for (uncounted, expected) in [
            (Some(Uncounted::LeftProgram), "<not counted>"),
            (Some(Uncounted::NotStarted), "<not counted>"),
            (Some(Uncounted::NoTurn), "<not counted>"),
            (Some(Uncounted::NoCore), "<not counted>"),
            (Some(Uncounted::NoPmuCounter), "<not counted>"),
            (Some(Uncounted::Level), "<not counted>"),
            (None, "<not trusted>"),
        ] {
            let run = Run {
                uncounted: vec![uncounted, None],
                counted_for: Duration::from_secs(1),
                ..testing::run(&[None, Some(3)])
            };
            let text =
                text_written_by(|out| V1::new(&subject, out).write_totals(&[run]).expect("room"));
            let document: V1Document = serde_json::from_str(&text).expect("it was written");
            let runs = [to_whole_run(&document.runs[0])];
            assert_eq!(runs[0].uncounted, [uncounted, None]);
            assert_eq!(runs[0].counted_for, Duration::from_secs(1));
            let table = text_written_by(|out| {
                let human = &mut Human::new(&subject, out, Look::default());
                human.write_totals(&runs).expect("a vector takes all");
            });
            assert!(table.contains(expected), "{table}");
        }
    }

    #[test]
    fn each_count_keeps_its_reason_in_a_file() {
        let subject = subject_with("instructions,cycles,branches,r1", &[]);
        for reasons in [
            vec![
                Some(Uncounted::LeftProgram),
                None,
                Some(Uncounted::NoPmuCounter),
                None,
            ],
            vec![Some(Uncounted::NoTurn), Some(Uncounted::NoTurn), None, None],
        ] {
            let count = reasons[1].is_none().then_some(3);
            let run = || Run {
                uncounted: reasons.clone(),
                ..testing::run(&[None, count, None, Some(1)])
            };
            let text = text_written_by(|out| {
                let mut v1 = V1::new(&subject, out);
                v1.write_interval(Duration::from_secs(1), &run())
                    .expect("room");
                v1.write_totals(&[run()]).expect("room");
            });
            let document: V1Document = serde_json::from_str(&text).expect("it was written");
            assert_eq!(to_whole_run(&document.runs[0]).uncounted, reasons);
            let interval = &document.intervals[0];
            let names = (
                interval.uncounted.as_deref(),
                &interval.uncounted_by_event[..],
            );
            assert_eq!(missing_count_reasons(&interval.counts, names), reasons);
        }
    }

    #[test]
    fn too_long_times_are_accepted() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("x");
        let subject = subject_with("instructions,cycles", &["insn_per_cycle"]);
        let runs = [(); 2].map(|()| Run {
            elapsed: Duration::from_secs(10_000_000_000_000_000_000),
            counted_for: Duration::from_secs(10_000_000_000_000_000_000),
            ..testing::run(&[Some(6), Some(3)])
        });
        let text = text_written_by(|out| V1::new(&subject, out).write_totals(&runs).expect("room"));
        fs::write(&path, text).expect("it can be written");
        let output = folder.path().join("y").display().to_string();
        report(&args(&["-o", &output, "true"]), &path).expect("there are counts");
    }

    #[test]
    fn too_long_places_are_refused() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("x");
        let output = folder.path().join("y").display().to_string();
        let mut subject = subject_with("instructions,cycles", &[]);
        let mut show = |length: usize| {
            subject.columns[1].place = Some(CountedPlace {
                name: "a".repeat(length),
                kind: PlaceKind::Core(2),
            });
            let runs = [testing::run(&[Some(6), Some(3)])];
            let text =
                text_written_by(|out| V1::new(&subject, out).write_totals(&runs).expect("room"));
            fs::write(&path, text).expect("it can be written");
            report(&args(&["-o", &output, "true"]), &path)
        };
        show(MAX_PLACE_LENGTH).expect("it can be shown");
        let error = show(1 << 16).expect_err("it is too long");
        assert!(error.to_string().contains("is too long"), "{error:#}");
    }

    #[test]
    fn damaged_files_are_refused() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("x");
        let args = args(&["-q", "true"]);
        for (text, message) in [
            ("", "is not a file of"),
            ("{}", "is not a file of"),
            (
                r#"{"schema": "v9", "command": "", "cpus": null, "events": [], "runs": []}"#,
                "has the form `v9`",
            ),
            (
                r#"{"schema": "pmctl-stat-v1", "command": "", "cpus": null, "events": [], "runs": []}"#,
                "is damaged",
            ),
        ] {
            fs::write(&path, text).expect("it can be written");
            let error = report(&args, &path).expect_err(text);
            assert!(format!("{error:#}").contains(message), "{error:#}");
        }
    }
}
