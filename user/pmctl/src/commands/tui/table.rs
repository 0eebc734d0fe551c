// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of a report as lines that can be unfolded.

use std::collections::HashSet;

use crate::commands::report::{Share, Shares, Tree, at_least, total};
use crate::events::values::Unit;
use crate::system::text::{printable, thousands};

/// The report of an event.
#[derive(Clone, Debug, Default)]
pub(super) struct CallTable {
    pub(super) event: String,
    pub(super) samples: u64,
    pub(super) events: u64,
    /// The unit of its values, if it is no count.
    pub(super) unit: Option<Unit>,
    /// Range and mean of a level, which has no rows: degrees are not shared by functions.
    pub(super) range: Option<String>,
    pub(super) rows: Vec<TableRow>,
    /// The number of rows that are too small to be shown.
    pub(super) hidden: usize,
    /// Rows have what their functions call, too.
    pub(super) children: bool,
    /// Callers with fewer events are not shown.
    least: u64,
}

/// The least parts of all events, in percent, that are shown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Least {
    pub(super) row: f64,
    pub(super) caller: f64,
}

/// A row.
#[derive(Clone, Debug, Default)]
pub(super) struct TableRow {
    pub(super) cells: Vec<String>,
    pub(super) share: Share,
}

/// The key of an unfolded line: the cells of its row, and the functions from the row to a caller.
pub(super) type CallPath = (Vec<String>, Vec<String>);

/// A line of the table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TableLine {
    /// Index of the row.
    pub(super) row: usize,
    /// The callers from the row to this line; none for the row itself.
    pub(super) callers: Vec<String>,
    pub(super) events: u64,
    /// State of the callers: shown or not; `None` if the line has none.
    pub(super) is_open: Option<bool>,
    /// The line has callers, each with too few events to be shown.
    pub(super) hides: bool,
}

impl CallTable {
    /// Creates one of a level, such as a temperature.
    pub(super) fn of_level(
        (event, unit): (&str, Unit),
        shares: &Shares,
        range: Option<String>,
    ) -> Self {
        Self {
            event: event.to_owned(),
            unit: Some(unit),
            samples: shares.values().map(|share| share.samples).sum(),
            range,
            ..Self::default()
        }
    }

    /// Creates one of the shares of an event, the largest first.
    pub(super) fn new(
        (event, unit): (&str, Option<Unit>),
        shares: &Shares,
        children: bool,
        least: Least,
    ) -> Self {
        let mut rows: Vec<TableRow> = shares
            .iter()
            .map(|(cells, share)| TableRow {
                cells: cells.clone(),
                share: share.clone(),
            })
            .collect();
        let size = |row: &TableRow| Self::size(children, &row.share);
        rows.sort_by(|a, b| size(b).cmp(&size(a)).then_with(|| a.cells.cmp(&b.cells)));
        let samples = rows.iter().map(|row| row.share.samples).sum();
        let events = rows.iter().map(|row| row.share.events);
        let events = events.fold(0, u64::saturating_add);
        let least_row = at_least(least.row, events);
        let all = rows.len();
        rows.retain(|row| Self::size(children, &row.share) >= least_row);
        Self {
            event: event.to_owned(),
            unit,
            range: None,
            samples,
            events,
            hidden: all - rows.len(),
            rows,
            children,
            least: at_least(least.caller, events),
        }
    }

    const fn size(children: bool, share: &Share) -> u64 {
        if children {
            share.children
        } else {
            share.events
        }
    }

    /// Returns how much all samples are, in words; `None` of a level.
    pub(super) fn amount(&self) -> Option<String> {
        let is_level = self.unit.is_some_and(|unit| !unit.grows());
        (!is_level).then(|| total(self.unit, self.events))
    }

    /// Returns the part that a number of events is of all.
    pub(super) fn part(&self, events: u64) -> f64 {
        events as f64 / self.events.max(1) as f64
    }

    /// Returns whether the callers of any function are known.
    pub(super) fn has_callers(&self) -> bool {
        self.rows.iter().any(|row| !row.share.callers.is_empty())
    }

    /// Returns the lines to show: of rows with a text in one of their cells, and of callers that are unfolded.
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
            let place = (row.cells.clone(), Vec::new());
            let events = Self::size(self.children, &row.share);
            self.push(
                (index, events, &row.share.callers),
                &place,
                open,
                &mut lines,
            );
        }
        lines
    }

    /// Appends the line of a row or a caller, and if it is unfolded, those of its callers.
    fn push(
        &self,
        (row, events, tree): (usize, u64, &Tree),
        place: &CallPath,
        open: &HashSet<CallPath>,
        lines: &mut Vec<TableLine>,
    ) {
        let has_callers = tree.has(self.least);
        let is_open = has_callers.then(|| open.contains(place));
        lines.push(TableLine {
            row,
            callers: place.1.clone(),
            events,
            is_open,
            hides: !has_callers && !tree.is_empty(),
        });
        if is_open != Some(true) {
            return;
        }
        for (name, events, below) in tree.sorted(self.least) {
            let mut place = place.clone();
            place.1.push(name.to_owned());
            self.push((row, events, below), &place, open, lines);
        }
    }

    /// Returns the texts of a line: of a row its cells behind overhead and samples, of a caller its name.
    pub(super) fn cells(&self, line: &TableLine) -> Vec<String> {
        let row = &self.rows[line.row];
        let mark = match line.is_open {
            Some(true) => "-",
            Some(false) => "+",
            None => " ",
        };
        let percent = format!("{:.2}%", self.part(line.events) * 100.0);
        if let Some(name) = line.callers.last() {
            let indent = "  ".repeat(line.callers.len() + 1);
            return vec![format!("{indent}{mark} {percent:>7}  {}", printable(name))];
        }
        let mut cells = vec![format!("{mark} {percent:>7}")];
        if self.children {
            let own = self.part(row.share.events) * 100.0;
            cells.push(format!("{own:.2}%"));
        }
        cells.push(thousands(row.share.samples));
        cells.extend(row.cells.iter().map(|cell| printable(cell)));
        cells
    }
}
