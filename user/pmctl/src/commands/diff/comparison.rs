// SPDX-License-Identifier: MIT OR Apache-2.0
//! The comparison of an event, row by row, and the recordings that are compared.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::events::CommonEvent;
use super::fisher;
use super::pairs::Pairs;
use crate::args::{Diff, Key};
use crate::commands::report::{Shares, compare_cells};
use crate::recording::perfdata::{Event, Recording};

/// The recordings and their comparisons.
pub(super) struct ComparedRecordings<'a> {
    /// The recordings, each with its file.
    pub(super) recordings: Vec<(PathBuf, Recording)>,
    /// For each recording but the first, its programs paired with those of the first recording.
    pub(super) pairs: Vec<Pairs>,
    /// The comparisons, one for each event.
    pub(super) comparisons: Vec<Comparison>,
    pub(super) args: &'a Diff,
}

impl ComparedRecordings<'_> {
    /// Returns the event of a comparison as each recording has it.
    pub(super) fn recorded_events(&self, comparison: &Comparison) -> Vec<&Event> {
        let recordings = self.recordings.iter().zip(&comparison.event.indices);
        recordings
            .map(|((_, recording), index)| &recording.events[*index])
            .collect()
    }
}

/// Numbers of events and samples: of a row in one recording, or of a whole recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RecordingShare {
    pub(super) events: u64,
    pub(super) samples: u64,
}

impl RecordingShare {
    /// Returns the share in a whole, from 0 to 1.
    pub(super) fn share_of(self, whole: Self) -> f64 {
        self.events as f64 / whole.events.max(1) as f64
    }
}

/// A row of the comparison.
#[derive(Clone, Debug)]
pub(super) struct DiffRow {
    /// The text of each key.
    pub(super) cells: Vec<String>,
    /// The row's numbers in each recording.
    pub(super) shares: Vec<RecordingShare>,
    /// For each recording but the first, the p-value of the difference from the first recording,
    /// and whether this difference is significant in the whole table.
    pub(super) test_results: Vec<(f64, bool)>,
}

impl DiffRow {
    pub(super) fn is_significant(&self) -> bool {
        self.test_results
            .iter()
            .any(|(_, significant)| *significant)
    }
}

/// The samples and counts of an event in a recording.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) shares: &'a Shares,
    /// The period, if samples can be compared as counts.
    pub(super) period: Option<u64>,
    /// Every single event was recorded, as a sample of its own or in a merged sample.
    pub(super) has_each_event: bool,
}

/// The comparison of an event.
#[derive(Clone, Debug)]
pub(super) struct Comparison {
    pub(super) event: CommonEvent,
    /// The numbers of events and samples in each recording.
    pub(super) recording_totals: Vec<RecordingShare>,
    pub(super) rows: Vec<DiffRow>,
    /// The period in each recording, if counts are tested; `None` if shares are tested.
    pub(super) periods: Option<Vec<u64>>,
    /// Every single event was recorded in all recordings, so that a difference of counts is a difference of the
    /// programs.
    pub(super) is_exact: bool,
}

impl Comparison {
    /// Compares rows grouped by these keys. `pairs` has an entry for each recording but the first: its programs, each
    /// with the program of the first recording that it is compared with.
    pub(super) fn new(
        event: CommonEvent,
        sides: &[Side<'_>],
        (keys, pairs): (&[Key], &[Pairs]),
    ) -> Self {
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
                    part.samples = part.samples.saturating_add(share.samples);
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
        comparison.test_differences();
        comparison.sort_rows(keys);
        comparison
    }

    /// Tests the differences between the first recording and each other one.
    fn test_differences(&mut self) {
        let others = 1..self.recording_totals.len();
        if self.is_exact {
            for row in &mut self.rows {
                let differs = |side: usize| row.shares[0].events != row.shares[side].events;
                let results = others.clone().map(differs);
                row.test_results = results
                    .map(|differs| (if differs { 0.0 } else { 1.0 }, differs))
                    .collect();
            }
            return;
        }
        let rows = self.rows.iter();
        let p_values: Vec<f64> = rows
            .flat_map(|row| others.clone().map(|side| self.p_value(row, side)))
            .collect();
        // The level holds for the table as a whole, and not for each pair of recordings.
        let significant = fisher::are_significant(&p_values);
        let mut results = p_values.into_iter().zip(significant);
        for row in &mut self.rows {
            row.test_results = results.by_ref().take(others.len()).collect();
        }
    }

    /// Returns the probability that a row of equal programs differs at least as much between the first recording and the
    /// recording `side`.
    fn p_value(&self, row: &DiffRow, side: usize) -> f64 {
        let samples = |side: usize| row.shares[side].samples;
        let totals = |side: usize| self.recording_totals[side].samples;
        match &self.periods {
            Some(periods) => {
                fisher::p_value_of_counts((samples(0), periods[0]), (samples(side), periods[side]))
            }
            None => fisher::p_value((samples(0), totals(0)), (samples(side), totals(side))),
        }
    }

    /// Returns a row's share in the recording `side`, minus its share in the first recording.
    pub(super) fn delta(&self, row: &DiffRow, side: usize) -> f64 {
        row.shares[side].share_of(self.recording_totals[side])
            - row.shares[0].share_of(self.recording_totals[0])
    }

    /// Returns how far a row differs from the first recording. If counts are tested, this is the difference of the counts as
    /// a part of the first recording's total, otherwise the difference of the shares.
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

/// Returns a cell without the process ID in the name of JIT code, so that the cells of two
/// recordings can be equal.
fn without_pid(cell: &str) -> &str {
    const JIT_MARK: &str = "[JIT]";
    match cell.strip_prefix(JIT_MARK) {
        Some(rest) if rest.starts_with(" tid ") => JIT_MARK,
        _ => cell,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::commands::report::Share;

    /// Compares two recordings of the event `cycles`. `before` and `after` have functions with their numbers of
    /// samples, each of 1000 events.
    pub(in super::super) fn compared_by_symbol(
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
        // The counts of these rows are unchanged, and their shares have changed.
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
    fn the_level_holds_for_all_recordings_together() {
        let before = shares(&[("a", 50), ("b", 50)]);
        let after = shares(&[("a", 67), ("b", 33)]);
        let has_star = |sides: &[&Shares]| {
            let comparison = compared(sides, None);
            comparison.rows.iter().any(DiffRow::is_significant)
        };
        assert!(has_star(&[&before, &after]));
        assert!(
            !has_star(&[&before, &after, &before]),
            "p is 2%, in a table of four"
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
