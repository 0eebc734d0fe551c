// SPDX-License-Identifier: MIT OR Apache-2.0
//! Subjects and runs for the tests of the reports.

use std::time::Duration;

use perfmon::spec;

use super::column::Column;
use super::metrics::Metrics;
use super::runs::run::Run;
use super::scope::{CountedPlace, PlaceKind, Scope};
use super::sources::cpus::assign_counters;
use super::sources::source::ColumnCount;
use super::subject::Subject;
use crate::events::schedule::CounterSupply;
use crate::system::child::Ending;
use crate::system::pmu::testing;

/// Returns columns for these events on an Intel PMU with 8 general and 3 fixed counters.
pub(super) fn columns(text: &str) -> Vec<Column> {
    let events = spec::parse_or_absent(text, &testing::intel()).expect("they exist");
    let supply = CounterSupply {
        general: 8,
        fixed: 0b111,
        busy: 0,
    };
    assign_counters(events, supply).expect("there is room")
}

/// Returns a subject that counts these events on two CPUs, without metrics.
pub(super) fn subject(events: &str) -> Subject {
    Subject {
        command: "ls -l".to_owned(),
        scope: Scope::Cpus {
            number: 2,
            chosen_cpus: None,
        },
        columns: columns(events),
        metrics: Metrics::none(),
        runs_per_count: 1,
        shows_counts: true,
        hides_zeros: false,
    }
}

/// Returns a subject that counts the same events in each of these cgroups.
pub(super) fn subject_of_cgroups(events: &str, names: &[&str]) -> Subject {
    let subject = subject(events);
    let cgroup_columns = |name: &&str| {
        let place = CountedPlace {
            name: (*name).to_owned(),
            kind: PlaceKind::Cgroup,
        };
        let columns = subject.columns.clone().into_iter();
        columns.map(move |column| Column {
            place: Some(place.clone()),
            ..column
        })
    };
    Subject {
        scope: Scope::Cgroups {
            number: names.len(),
            chosen_cpus: None,
        },
        columns: names.iter().flat_map(cgroup_columns).collect(),
        ..subject
    }
}

/// Returns a subject with metrics.
pub(super) fn subject_with(events: &str, metrics: &[&str]) -> Subject {
    let subject = subject(events);
    Subject {
        metrics: Metrics::named(metrics, &subject.columns, &testing::intel()),
        ..subject
    }
}

/// Returns a run with these counts, each counted for 3 s.
pub(super) fn run(counts: &[Option<u64>]) -> Run {
    let running_time = Duration::from_secs(3);
    let count = |value: &Option<u64>| value.map(|value| ColumnCount::whole(value, running_time));
    Run {
        elapsed: Duration::from_micros(1_500_000),
        counted_for: Duration::from_micros(1_500_000),
        user: Duration::from_millis(1200),
        system: Duration::from_millis(300),
        counts: counts.iter().map(count).collect(),
        uncounted: vec![None; counts.len()],
        ending: Some(Ending::Exit(0)),
        stopped_by: None,
    }
}

/// Returns the run with each event counted for 1026 ms of 3 s: 34.2 % of the time.
pub(super) fn with_partial_time(mut run: Run) -> Run {
    for count in run.counts.iter_mut().flatten() {
        count.ran = Duration::from_millis(1026);
    }
    run
}

/// Returns the text that `write` writes.
pub(super) fn text_written_by(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut bytes = Vec::new();
    write(&mut bytes);
    String::from_utf8(bytes).expect("it is text")
}

/// Returns the JSON value of each line.
pub(super) fn json_lines(text: &str) -> Vec<serde_json::Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).expect("each line is JSON"))
        .collect()
}
