// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl diff`: compares recordings, row by row.

mod comparison;
mod events;
mod fisher;
mod gate;
mod json;
mod pairs;
mod text;

use anyhow::Result;
use comparison::{ComparedRecordings, Comparison, Side};
use events::common_events;
use pairs::Pairs;

use crate::args::{Diff, Key};
use crate::commands::report::{Grouping, check_keys, sum_by_row};
use crate::recording::perfdata::Recording;
use crate::recording::profile::{self, Filter, SourceLines};
use crate::system::exit::Usage;
use crate::system::screen::Screen;
use crate::system::text::printable;

/// The message that refuses the key `weight`, which is a sum and so depends on the number of samples.
const SUM_OF_WEIGHTS: &str =
    "--sort weight: rows can't be compared by a sum. Use local_weight, the latency of each sample.";

/// Compares recordings, and prints a table for each event. Returns the exit code: 1 if a condition of --fail-if holds.
pub(crate) fn diff(args: &Diff, output: &mut Screen) -> Result<u8> {
    let files = args.files();
    let mut recordings = Vec::new();
    for file in files {
        let recording = profile::open_with_advice(&file, missing_file_advice(args))?;
        recordings.push((file, recording));
    }
    let events = common_events(&recordings, args.event.as_deref())?;
    let keys = args.keys();
    if keys.contains(&Key::Weight) {
        return Err(Usage(SUM_OF_WEIGHTS.to_owned()).into());
    }
    let grouping = Grouping {
        keys: keys.clone(),
        children: false,
        graph: None,
        inline: false,
        max_stack: 1,
        filter: Filter::default(),
    };
    let mut tables = Vec::new();
    for (file, recording) in &recordings {
        check_keys(&keys, recording, &printable(&file.to_string_lossy()))?;
        let wants_lines = keys.contains(&Key::Srcline);
        let source_lines = wants_lines.then(|| SourceLines::new(recording));
        tables.push(sum_by_row(recording, &grouping, source_lines.as_ref())?.0);
    }
    let first = &recordings[0].1;
    let pairs: Vec<Pairs> = recordings[1..]
        .iter()
        .map(|(_, other)| Pairs::find(first, other))
        .collect();
    let mut comparisons = Vec::new();
    for event in events {
        let sides = recordings.iter().zip(&tables).zip(&event.indices);
        let sides = sides.map(|(((_, recording), tables), index)| Side {
            shares: &tables[*index],
            period: period_of_counts(recording, *index),
            has_each_event: has_each_event(recording, *index),
        });
        let sides: Vec<Side<'_>> = sides.collect();
        comparisons.push(Comparison::new(event, &sides, (&keys, &pairs)));
    }
    let compared_recordings = ComparedRecordings {
        recordings,
        pairs,
        comparisons,
        args,
    };
    if args.json {
        json::write(&compared_recordings, output)?;
    } else {
        text::write(&compared_recordings, output)?;
    }
    let comparisons = &compared_recordings.comparisons;
    Ok(gate::check_conditions(&args.fail_if, comparisons, &keys)?)
}

/// Returns the advice for a file that does not exist.
fn missing_file_advice(args: &Diff) -> &'static str {
    if args.files.is_empty() {
        "The second `pmctl record` keeps the recording before it as perf.data.old. Or name two recordings: \
         `pmctl diff BEFORE AFTER`."
    } else {
        "Name two recordings: `pmctl diff BEFORE AFTER`."
    }
}

/// Returns the period of an event, if all samples have the same period and no sample is missing. Only then can samples
/// be compared as counts.
fn period_of_counts(recording: &Recording, event: usize) -> Option<u64> {
    let period = recording.events[event].attr.fixed_period();
    period.filter(|_| recording.has_all_samples())
}

/// Returns whether every single event was recorded, as a sample of its own or in a merged sample. A period of 1 is not
/// enough: events that happen while a sample is taken have no sample.
fn has_each_event(recording: &Recording, event: usize) -> bool {
    recording.events[event].attr.samples_each_event() && recording.has_all_samples()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::perfdata::example::example;
    use crate::recording::perfdata::{Attr, SampleParts};
    use perfmon::Modes;

    #[test]
    fn only_precise_samples_of_period_1_are_all_events() {
        let mut recording = example(false);
        let kind = recording.events[0].attr.kind;
        let attr = |period| Attr::sampled(kind, period, Modes::User, SampleParts::default());
        for (period, precision, expected) in [(1, 0, false), (1, 2, true), (1000, 2, false)] {
            recording.events[0].attr = attr(period).with_precision(precision);
            assert_eq!(
                has_each_event(&recording, 0),
                expected,
                "{period} {precision}"
            );
        }
        recording.events[0].attr = attr(1).with_precision(2);
        recording.notes.reached_max_size = true;
        assert!(!has_each_event(&recording, 0));
    }
}
