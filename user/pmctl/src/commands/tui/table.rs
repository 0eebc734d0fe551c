// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of a report as a table, in which callers can be shown below a row.

use std::collections::HashSet;

use crate::args::Key;
use crate::commands::report::{
    Share, Shares, Tree, compare_cells, min_events, shown_cells, total_text, totals,
};
use crate::events::values::Unit;
use crate::system::text::{printable, thousands};

/// The report of an event.
#[derive(Clone, Debug, Default)]
pub(super) struct CallTable {
    pub(super) event: String,
    pub(super) samples: u64,
    pub(super) events: u64,
    /// The unit of the event's values; `None` if they are counts.
    pub(super) unit: Option<Unit>,
    /// A text with the range and the median of a level, such as a temperature. A level has no rows, since functions
    /// have no shares of it.
    pub(super) range: Option<String>,
    pub(super) rows: Vec<TableRow>,
    /// Number of rows that are too small to be shown.
    pub(super) hidden: usize,
    /// The row of a function includes the samples of the functions that it calls (--children).
    pub(super) children: bool,
    /// The smallest number of events with which a caller is shown.
    min_caller_events: u64,
}

/// The smallest shares that are shown, in percent of all events.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ShownLimits {
    pub(super) row: f64,
    pub(super) caller: f64,
}

/// A row of the report, with its cells and its share of the event.
#[derive(Clone, Debug, Default)]
pub(super) struct TableRow {
    /// The cells that identify the row. Further samples do not change them.
    pub(super) key: Vec<String>,
    /// The cells as they are shown. A cell with a sum, such as that of weights, changes with further samples.
    pub(super) cells: Vec<String>,
    pub(super) share: Share,
}

/// The key of a line: the key of its row, and the callers from the row to this line.
pub(super) type CallPath = (Vec<String>, Vec<String>);

/// A line of the table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TableLine {
    /// Index of the row.
    pub(super) row: usize,
    /// The callers from the row to this line; empty for the row itself.
    pub(super) callers: Vec<String>,
    pub(super) events: u64,
    /// The line's callers are shown; `None` if the line has no callers.
    pub(super) is_open: Option<bool>,
    /// The line has callers, but each has too few events to be shown.
    pub(super) hides_callers: bool,
}

impl CallTable {
    /// Creates the table of a level, such as a temperature.
    pub(super) fn of_level(
        (event, unit): (&str, Unit),
        shares: &Shares,
        range: Option<String>,
    ) -> Self {
        Self {
            event: event.to_owned(),
            unit: Some(unit),
            samples: totals(shares.values()).1,
            range,
            ..Self::default()
        }
    }

    /// Creates the table of an event from its shares. The largest row comes first.
    pub(super) fn new(
        (event, unit): (&str, Option<Unit>),
        (keys, shares): (&[Key], &Shares),
        children: bool,
        limits: ShownLimits,
    ) -> Self {
        let mut rows: Vec<TableRow> = shares
            .iter()
            .map(|(cells, share)| TableRow {
                key: cells.clone(),
                cells: shown_cells(keys, cells, share.samples),
                share: share.clone(),
            })
            .collect();
        let size = |row: &TableRow| Self::size(children, &row.share);
        rows.sort_by(|a, b| {
            let order = size(b).cmp(&size(a));
            order.then_with(|| compare_cells(keys, &a.key, &b.key))
        });
        let (events, samples) = totals(shares.values());
        let min_row_events = min_events(limits.row, events);
        let row_count = rows.len();
        rows.retain(|row| Self::size(children, &row.share) >= min_row_events);
        Self {
            event: event.to_owned(),
            unit,
            range: None,
            samples,
            events,
            hidden: row_count - rows.len(),
            rows,
            children,
            min_caller_events: min_events(limits.caller, events),
        }
    }

    /// Returns the number of events that determines a row's place in the table, and whether the row is shown.
    const fn size(children: bool, share: &Share) -> u64 {
        if children {
            share.children
        } else {
            share.events
        }
    }

    /// Returns the sum of all samples in words; `None` for a level.
    pub(super) fn amount(&self) -> Option<String> {
        let is_level = self.unit.is_some_and(|unit| !unit.grows());
        (!is_level).then(|| total_text(self.unit, self.events))
    }

    /// Returns `events` as a share of all events of the table, from 0 to 1.
    pub(super) fn share_of_all(&self, events: u64) -> f64 {
        events as f64 / self.events.max(1) as f64
    }

    /// Returns whether any function has known callers.
    pub(super) fn has_callers(&self) -> bool {
        self.rows.iter().any(|row| !row.share.callers.is_empty())
    }

    /// Returns the lines to show: rows with the text `filter` in a cell, and callers of lines in `open`.
    pub(super) fn lines(&self, filter: &str, open: &HashSet<CallPath>) -> Vec<TableLine> {
        let filter = filter.to_lowercase();
        let has_text = |row: &TableRow| {
            let mut cells = row.cells.iter();
            filter.is_empty() || cells.any(|cell| cell.to_lowercase().contains(&filter))
        };
        let mut lines = Vec::new();
        for (index, row) in self
            .rows
            .iter()
            .enumerate()
            .filter(|(_, row)| has_text(row))
        {
            let path = (row.key.clone(), Vec::new());
            let events = Self::size(self.children, &row.share);
            self.push_lines((index, events, &row.share.callers), &path, open, &mut lines);
        }
        lines
    }

    /// Appends the line of a row or a caller, and if it is open, the lines of its callers.
    fn push_lines(
        &self,
        (row, events, tree): (usize, u64, &Tree),
        path: &CallPath,
        open: &HashSet<CallPath>,
        lines: &mut Vec<TableLine>,
    ) {
        let has_callers = tree.has_events(self.min_caller_events);
        let is_open = has_callers.then(|| open.contains(path));
        lines.push(TableLine {
            row,
            callers: path.1.clone(),
            events,
            is_open,
            hides_callers: !has_callers && !tree.is_empty(),
        });
        if is_open != Some(true) {
            return;
        }
        for (name, events, callers) in tree.largest_first(self.min_caller_events) {
            let mut path = path.clone();
            path.1.push(name.to_owned());
            self.push_lines((row, events, callers), &path, open, lines);
        }
    }

    /// Returns the texts of a line. A row has its overhead, its samples and its cells; a caller has one text with its
    /// share and its name.
    pub(super) fn cells(&self, line: &TableLine) -> Vec<String> {
        let row = &self.rows[line.row];
        let mark = match line.is_open {
            Some(true) => "-",
            Some(false) => "+",
            None => " ",
        };
        let percent = format!("{:.2}%", self.share_of_all(line.events) * 100.0);
        if let Some(name) = line.callers.last() {
            let indent = "  ".repeat(line.callers.len() + 1);
            return vec![format!("{indent}{mark} {percent:>7}  {}", printable(name))];
        }
        let mut cells = vec![format!("{mark} {percent:>7}")];
        if self.children {
            let own_percent = self.share_of_all(row.share.events) * 100.0;
            cells.push(format!("{own_percent:.2}%"));
        }
        cells.push(thousands(row.share.samples));
        cells.extend(row.cells.iter().map(|cell| printable(cell)));
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_keeps_its_key_while_its_sum_grows() {
        let row = |samples| {
            let share = Share {
                events: samples,
                samples,
                ..Share::default()
            };
            let shares = Shares::from_iter([(vec!["30".to_owned()], share)]);
            let keys = [Key::Weight];
            let table = CallTable::new(
                ("loads", None),
                (&keys, &shares),
                false,
                ShownLimits::default(),
            );
            table.rows[0].clone()
        };
        let (before, after) = (row(1), row(2));
        assert_eq!(
            (&before.cells[0], &after.cells[0]),
            (&"30".to_owned(), &"60".to_owned())
        );
        assert_eq!(before.key, after.key);
    }
}
