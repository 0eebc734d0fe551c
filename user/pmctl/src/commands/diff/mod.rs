// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl diff`: compares recordings, row by row.

mod events;
mod fisher;
mod gate;
mod json;
mod pairs;
mod text;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use events::{CommonEvent, common_events};
use pairs::Pairs;

use crate::args::{Diff, Key};
use crate::commands::report::{Grouping, Shares, check_keys, compare_cells, sum_by_row};
use crate::recording::perfdata::{Event, Recording};
use crate::recording::profile::{self, Filter, SourceLines};
use crate::system::exit::Usage;
use crate::system::screen::Screen;
use crate::system::text::printable;

/// The message for a key whose value differs with the number of samples.
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
            period: count_period(recording, *index),
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

/// Returns the period of an event, if all samples have the same one and none is missing. Only then can samples be compared
/// as counts.
fn count_period(recording: &Recording, event: usize) -> Option<u64> {
    let period = recording.events[event].attr.fixed_period();
    period.filter(|_| recording.has_all_samples())
}

/// Returns whether the samples are the events, each of them. A period of 1 alone does not say so: while a sample is taken,
/// events go by.
fn has_each_event(recording: &Recording, event: usize) -> bool {
    recording.events[event].attr.samples_each_event() && recording.has_all_samples()
}

/// The recordings and their comparisons.
struct ComparedRecordings<'a> {
    /// The recordings, each with its file.
    recordings: Vec<(PathBuf, Recording)>,
    /// The pairs of programs of each recording but the first.
    pairs: Vec<Pairs>,
    /// The comparisons, one for each event.
    comparisons: Vec<Comparison>,
    args: &'a Diff,
}

impl ComparedRecordings<'_> {
    /// Returns the event of a comparison as each recording has it.
    fn recorded_events(&self, comparison: &Comparison) -> Vec<&Event> {
        let recordings = self.recordings.iter().zip(&comparison.event.indices);
        recordings
            .map(|((_, recording), index)| &recording.events[*index])
            .collect()
    }
}

/// The events and samples of a row in a recording, or of a whole recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RecordingShare {
    events: u64,
    samples: u64,
}

impl RecordingShare {
    /// Returns the share in a whole, from 0 to 1.
    fn share_of(self, whole: Self) -> f64 {
        self.events as f64 / whole.events.max(1) as f64
    }
}

/// A row of the comparison.
#[derive(Clone, Debug)]
struct DiffRow {
    /// The text of each key.
    cells: Vec<String>,
    /// The row's part of each recording.
    shares: Vec<RecordingShare>,
    /// For each recording but the first, the p-value of the difference from the first, and whether it is significant
    /// among those of all rows.
    test_results: Vec<(f64, bool)>,
}

impl DiffRow {
    fn is_significant(&self) -> bool {
        self.test_results
            .iter()
            .any(|(_, significant)| *significant)
    }
}

/// The samples and counts of an event in a recording.
#[derive(Clone, Copy)]
struct Side<'a> {
    shares: &'a Shares,
    /// The period, if samples can be compared as counts.
    period: Option<u64>,
    /// The recording has each event, as a sample or a part of one.
    has_each_event: bool,
}

/// The comparison of an event.
#[derive(Clone, Debug)]
struct Comparison {
    event: CommonEvent,
    /// The events and samples of each recording.
    recording_totals: Vec<RecordingShare>,
    rows: Vec<DiffRow>,
    /// The periods of the recordings, if counts are tested and not shares.
    periods: Option<Vec<u64>>,
    /// The recordings have each event, so that each difference is one of the programs.
    is_exact: bool,
}

impl Comparison {
    /// Compares rows with these keys. `pairs` has the pairs of programs of each recording but the first.
    fn new(event: CommonEvent, sides: &[Side<'_>], (keys, pairs): (&[Key], &[Pairs])) -> Self {
        let mut shares_by_cells: BTreeMap<Vec<String>, Vec<RecordingShare>> = BTreeMap::new();
        let mut recording_totals = vec![RecordingShare::default(); sides.len()];
        for (index, side) in sides.iter().enumerate() {
            let pairs = index.checked_sub(1).and_then(|index| pairs.get(index));
            for (cells, share) in side.shares {
                let cells = keys.iter().zip(cells).map(|(key, cell)| {
                    let cell = without_pid(cell);
                    match (key, pairs) {
                        (Key::Dso, Some(pairs)) => pairs.first_file(cell).to_owned(),
                        (Key::Comm, Some(pairs)) => pairs.first_comm(cell).to_owned(),
                        _ => cell.to_owned(),
                    }
                });
                let row = shares_by_cells.entry(cells.collect());
                let row = row.or_insert_with(|| vec![RecordingShare::default(); sides.len()]);
                for part in [&mut row[index], &mut recording_totals[index]] {
                    part.events = part.events.saturating_add(share.events);
                    part.samples += share.samples;
                }
            }
        }
        let rows = shares_by_cells.into_iter().map(|(cells, shares)| DiffRow {
            cells,
            shares,
            test_results: Vec::new(),
        });
        let mut comparison = Self {
            event,
            recording_totals,
            rows: rows.collect(),
            periods: sides.iter().map(|side| side.period).collect(),
            is_exact: sides.iter().all(|side| side.has_each_event),
        };
        for side in 1..sides.len() {
            comparison.test_differences(side);
        }
        comparison.sort_rows(keys);
        comparison
    }

    /// Tests the differences between the first recording and another.
    fn test_differences(&mut self, side: usize) {
        if self.is_exact {
            for row in &mut self.rows {
                let differs = row.shares[0].events != row.shares[side].events;
                let p = if differs { 0.0 } else { 1.0 };
                row.test_results.push((p, differs));
            }
            return;
        }
        let recording_totals = &self.recording_totals;
        let count =
            |row: &DiffRow, side: usize| (row.shares[side].samples, recording_totals[side].samples);
        let rows = self.rows.iter();
        let values: Vec<f64> = rows
            .map(|row| match &self.periods {
                Some(periods) => fisher::p_value_of_counts(
                    (row.shares[0].samples, periods[0]),
                    (row.shares[side].samples, periods[side]),
                ),
                None => fisher::p_value(count(row, 0), count(row, side)),
            })
            .collect();
        let significant = fisher::are_significant(&values);
        for ((row, value), significant) in self.rows.iter_mut().zip(values).zip(significant) {
            row.test_results.push((value, significant));
        }
    }

    /// Returns the difference of a row's share in a recording from that in the first.
    fn delta(&self, row: &DiffRow, side: usize) -> f64 {
        row.shares[side].share_of(self.recording_totals[side])
            - row.shares[0].share_of(self.recording_totals[0])
    }

    /// Returns how far a row differs from the first recording: the difference of the counts, as a part of the first
    /// recording's total, if counts are tested, and else the difference of the shares.
    fn distance(&self, row: &DiffRow, side: usize) -> f64 {
        if self.periods.is_none() {
            return self.delta(row, side).abs();
        }
        let base_events = self.recording_totals[0].events.max(1) as f64;
        row.shares[side].events.abs_diff(row.shares[0].events) as f64 / base_events
    }

    /// Sorts the rows: significant differences first, then the largest differences, then the largest rows.
    fn sort_rows(&mut self, keys: &[Key]) {
        let mut rows = std::mem::take(&mut self.rows);
        let largest_difference = |row: &DiffRow| {
            let deltas = (1..row.shares.len()).map(|side| self.distance(row, side));
            deltas.fold(0.0, f64::max)
        };
        let rank = |row: &DiffRow| (row.is_significant(), largest_difference(row));
        rows.sort_by(|a, b| {
            let (a_rank, b_rank) = (rank(a), rank(b));
            let order = b_rank.0.cmp(&a_rank.0);
            let order = order.then(b_rank.1.total_cmp(&a_rank.1));
            let order = order.then(b.shares[0].events.cmp(&a.shares[0].events));
            order.then_with(|| compare_cells(keys, &a.cells, &b.cells))
        });
        self.rows = rows;
    }
}

/// Returns a cell without the process ID in the name of JIT code, so that cells of several recordings compare.
fn without_pid(cell: &str) -> &str {
    const JIT_MARK: &str = "[JIT]";
    match cell.strip_prefix(JIT_MARK) {
        Some(rest) if rest.starts_with(" tid ") => JIT_MARK,
        _ => cell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::report::Share;
    use crate::recording::perfdata::example::example;
    use crate::recording::perfdata::{Attr, SampleParts};
    use perfmon::Modes;

    /// Compares two recordings of the event `cycles` with these numbers of samples of 1000 events in functions.
    pub(super) fn compared_by_symbol(
        before: &[(&str, u64)],
        after: &[(&str, u64)],
        period: Option<u64>,
    ) -> Comparison {
        compared(&[&shares(before), &shares(after)], period)
    }

    #[test]
    fn each_difference_of_exact_counts_is_significant() {
        let before = [("grown", 5000), ("same", 5000)];
        let after = [("grown", 5001), ("same", 5000)];
        let comparison = compared_by_symbol(&before, &after, Some(1));
        let results: Vec<_> = comparison
            .rows
            .iter()
            .map(|row| (&row.cells[0][..], row.is_significant()))
            .collect();
        assert_eq!(results, [("grown", true), ("same", false)]);
    }

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

    fn shares(rows: &[(&str, u64)]) -> Shares {
        let share = |(name, samples): &(&str, u64)| {
            let share = Share {
                events: samples * 1000,
                samples: *samples,
                ..Share::default()
            };
            (vec![(*name).to_owned()], share)
        };
        rows.iter().map(share).collect()
    }

    fn cycles() -> CommonEvent {
        CommonEvent {
            name: "cycles".to_owned(),
            indices: Vec::new(),
        }
    }

    /// Compares recordings of a program. `period` is the period of all samples; `None` if it varies.
    fn compared(sides: &[&Shares], period: Option<u64>) -> Comparison {
        let sides = sides.iter().map(|shares| Side {
            shares,
            period,
            has_each_event: period == Some(1),
        });
        let sides: Vec<_> = sides.collect();
        Comparison::new(cycles(), &sides, (&[Key::Symbol], &[]))
    }

    #[test]
    fn unchanged_rows_have_no_star() {
        let before = shares(&[("slow", 5000), ("same", 5000), ("other", 2000)]);
        let after = shares(&[("slow", 3000), ("same", 5020), ("other", 2000)]);
        let stars = |period| {
            let comparison = compared(&[&before, &after], period);
            let rows = comparison.rows.iter();
            rows.map(|row| (row.cells[0].clone(), row.is_significant()))
                .collect::<Vec<_>>()
        };
        let row = |name: &str, star| (name.to_owned(), star);
        let rows = ["same", "other"];
        let expected = |star| {
            [
                [row("slow", true)].to_vec(),
                rows.map(|name| row(name, star)).to_vec(),
            ]
            .concat()
        };
        assert_eq!(stars(Some(1000)), expected(false));
        // Their shares have changed.
        assert_eq!(stars(None), expected(true));
    }

    #[test]
    fn a_program_is_compared_with_its_next_version() {
        let program = |name: &str, samples| {
            let share = Share {
                samples,
                ..Share::default()
            };
            Shares::from_iter([(vec![name.to_owned(), "main".to_owned()], share)])
        };
        let recording = |name: &str| {
            let mut recording = Recording::default();
            recording.notes.scope = format!("./{name}");
            recording.notes.symbols = vec![crate::recording::perfdata::SymbolTable {
                file: format!("/{name}"),
                ..Default::default()
            }];
            recording
        };
        let pairs = [Pairs::find(&recording("old"), &recording("new"))];
        let (before, after) = (program("old", 10), program("new", 20));
        let side = |shares| Side {
            shares,
            period: None,
            has_each_event: false,
        };
        let sides = [side(&before), side(&after)];
        let keys = [Key::Dso, Key::Symbol];
        let comparison = Comparison::new(cycles(), &sides, (&keys, &pairs));
        assert_eq!(comparison.rows.len(), 1);
        let samples = comparison.rows[0].shares.iter().map(|share| share.samples);
        assert_eq!(samples.collect::<Vec<_>>(), [10, 20]);
    }

    #[test]
    fn significant_differences_come_before_large_ones() {
        let before = shares(&[("slow", 5000), ("same", 5000), ("rare", 1)]);
        let after = shares(&[("slow", 3000), ("same", 5020), ("new", 400)]);
        let comparison = compared(&[&before, &after], None);
        let names: Vec<&str> = comparison
            .rows
            .iter()
            .map(|row| &row.cells[0][..])
            .collect();
        assert_eq!(names, ["slow", "same", "new", "rare"]);
        assert!(comparison.rows[2].is_significant() && !comparison.rows[3].is_significant());
        let delta = comparison.delta(&comparison.rows[0], 1);
        assert!((delta - (3000.0 / 8420.0 - 5000.0 / 10001.0)).abs() < 1e-12);
    }

    #[test]
    fn jit_code_is_compared_with_that_of_another_process() {
        let before = shares(&[("[JIT] tid 7", 50), ("[JIT] tid 8", 10), ("b", 50)]);
        let after = shares(&[("[JIT] tid 9", 60), ("b", 50)]);
        let comparison = compared(&[&before, &after], None);
        assert_eq!(comparison.rows.len(), 2);
        assert!(
            comparison
                .rows
                .iter()
                .all(|row| row.shares[0] == row.shares[1])
        );
    }

    #[test]
    fn random_differences_are_not_significant() {
        let before = shares(&[("a", 50), ("b", 50)]);
        let after = shares(&[("a", 55), ("b", 45)]);
        let comparison = compared(&[&before, &after, &before], None);
        assert!(comparison.rows.iter().all(|row| !row.is_significant()));
        assert!(
            comparison
                .rows
                .iter()
                .all(|row| row.test_results[1].0 > 0.999)
        );
    }
}
