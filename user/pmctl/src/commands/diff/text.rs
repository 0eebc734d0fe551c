// SPDX-License-Identifier: MIT OR Apache-2.0
//! A comparison as text.

use std::io::Write;

use anstyle::Style;
use anyhow::Result;

use super::comparison::{ComparedRecordings, Comparison, DiffRow};
use super::fisher;
use crate::args::Diff;
use crate::commands::report::{LIMIT_ADVICE, key_heading};
use crate::recording::perfdata::{self, Event};
use crate::system::screen::Screen;
use crate::system::table::{Align, Table, hidden_rows_line};
use crate::system::text::{count, printable, thousands};

/// The names of the recordings.
pub(super) const RECORDING_NAMES: [&str; 3] = ["A", "B", "C"];

/// Prints a table for each event.
pub(super) fn write(compared: &ComparedRecordings<'_>, output: &mut Screen) -> Result<()> {
    for ((file, recording), name) in compared.recordings.iter().zip(RECORDING_NAMES) {
        let file = file.to_string_lossy();
        writeln!(
            output,
            "{name}: {} ({})",
            printable(&file),
            printable(&recording.notes.scope)
        )?;
        perfdata::warn(&recording.notes, output.colors, output)?;
    }
    for (pairs, name) in compared.pairs.iter().zip(&RECORDING_NAMES[1..]) {
        for line in pairs.in_words(RECORDING_NAMES[0], name) {
            writeln!(output, "{line}")?;
        }
    }
    for comparison in &compared.comparisons {
        let note = precision_note(&compared.recorded_events(comparison));
        write_event(comparison, (note, compared.args), output)?;
    }
    Ok(())
}

/// Returns a note on an event with precise samples in some recordings, and not in others.
fn precision_note(events: &[&Event]) -> Option<String> {
    let named_events = events.iter().zip(RECORDING_NAMES);
    let (precise, imprecise): (Vec<_>, Vec<_>) =
        named_events.partition(|(event, _)| event.attr.is_precise());
    if precise.is_empty() || imprecise.is_empty() {
        return None;
    }
    let list = |events: &[(&&Event, &str)]| {
        let events = events.iter();
        let names = events.map(|(event, name)| format!("{name} ({})", printable(&event.name)));
        names.collect::<Vec<_>>().join(" and ")
    };
    Some(format!(
        "addresses are precise in {}, and some instructions late (skid) in {}, so rows of source lines (srcline) and of short \
         functions may differ.",
        list(&precise),
        list(&imprecise)
    ))
}

/// Prints the totals and the rows of an event.
fn write_event(
    comparison: &Comparison,
    (precision_note, args): (Option<String>, &Diff),
    output: &mut Screen,
) -> Result<()> {
    let style = output.colors.heading;
    let event = printable(&comparison.event.name);
    writeln!(output, "\n{style}Event '{event}'{style:#}")?;
    if let Some(note) = precision_note {
        let mark = output.colors.warning;
        writeln!(output, "{mark}NOTE{mark:#}: {note}")?;
    }
    let first_total = comparison.recording_totals[0];
    for (index, (total, name)) in comparison
        .recording_totals
        .iter()
        .zip(RECORDING_NAMES)
        .enumerate()
    {
        let samples = count(total.samples, "sample");
        let events = thousands(total.events);
        let change = match index {
            0 => String::new(),
            _ => format!(" ({})", change(first_total.events, total.events)),
        };
        writeln!(output, "{name}: {samples}, event count {events}{change}")?;
    }
    if comparison.is_exact {
        return write_exact_rows(comparison, args, output);
    }
    let mut headings: Vec<(&str, Align)> = vec![("A", Align::Right)];
    for name in &RECORDING_NAMES[1..comparison.recording_totals.len()] {
        headings.extend([*name, "delta", "p"].map(|name| (name, Align::Right)));
    }
    for name in ["count A", "count B", "count C"]
        .iter()
        .take(comparison.recording_totals.len())
    {
        headings.push((name, Align::Right));
    }
    if comparison.recording_totals.len() == 2 {
        headings.push(("change", Align::Right));
    }
    let keys = args.keys();
    headings.extend(keys.iter().map(|key| (key_heading(*key), Align::Left)));
    let mut table = Table::new(&headings);
    let limit = args.limit.unwrap_or(usize::MAX);
    for row in comparison.rows.iter().take(limit) {
        let style = if row.is_significant() {
            output.colors.heading
        } else {
            Style::new()
        };
        table.add_row(&row_cells(comparison, row), style);
    }
    table.write(None, output.colors.heading, output)?;
    let hidden_rows = comparison.rows.len().saturating_sub(limit);
    if hidden_rows > 0 {
        writeln!(output, "{}", hidden_rows_line(hidden_rows, LIMIT_ADVICE))?;
    }
    let significant = comparison.rows.iter().filter(|row| row.is_significant());
    let differences = count(significant.count() as u64, "significant difference");
    let tested_values = match comparison.periods {
        Some(_) => "counts",
        None => "shares",
    };
    Ok(writeln!(
        output,
        "  * {differences} of {tested_values}, at a level of {:.0}% for the whole table (Holm's correction)",
        100.0 * fisher::SIGNIFICANCE_LEVEL
    )?)
}

/// Prints the rows whose counts differ. Every single event must have been recorded in all recordings.
fn write_exact_rows(comparison: &Comparison, args: &Diff, output: &mut Screen) -> Result<()> {
    let sides = comparison.recording_totals.len();
    let counts = ["count A", "count B", "count C"].iter().take(sides);
    let differences = [["B - A", "change"], ["C - A", "change"]];
    let differences = differences.iter().take(sides - 1).flatten();
    let numbers = counts.chain(differences).map(|name| (*name, Align::Right));
    let keys = args.keys();
    let keys = keys.iter().map(|key| (key_heading(*key), Align::Left));
    let headings: Vec<(&str, Align)> = numbers.chain(keys).collect();
    let mut table = Table::new(&headings);
    let (changed, same): (Vec<_>, Vec<_>) =
        comparison.rows.iter().partition(|row| row.is_significant());
    let limit = args.limit.unwrap_or(usize::MAX);
    for row in changed.iter().take(limit) {
        let before = row.shares[0].events;
        let mut cells: Vec<String> = row
            .shares
            .iter()
            .map(|share| thousands(share.events))
            .collect();
        for after in &row.shares[1..] {
            cells.push(difference(before, after.events));
            cells.push(change(before, after.events));
        }
        cells.extend(row.cells.iter().cloned());
        table.add_row(&cells, Style::new());
    }
    if !changed.is_empty() {
        table.write(None, output.colors.heading, output)?;
    }
    let hidden_rows = changed.len().saturating_sub(limit);
    if hidden_rows > 0 {
        writeln!(output, "{}", hidden_rows_line(hidden_rows, LIMIT_ADVICE))?;
    }
    Ok(writeln!(
        output,
        "  {} of counts, which are exact; {} as before",
        count(changed.len() as u64, "difference"),
        count(same.len() as u64, "row")
    )?)
}

/// Returns the difference of two counts as text, with its sign.
fn difference(before: u64, after: u64) -> String {
    let sign = match after.cmp(&before) {
        std::cmp::Ordering::Less => "-",
        std::cmp::Ordering::Equal => "",
        std::cmp::Ordering::Greater => "+",
    };
    format!("{sign}{}", thousands(after.abs_diff(before)))
}

/// Returns the cells of a row of a table with shares and p-values.
fn row_cells(comparison: &Comparison, row: &DiffRow) -> Vec<String> {
    let share = |side: usize| {
        let share = row.shares[side].share_of(comparison.recording_totals[side]);
        format!("{:.2}%", share * 100.0)
    };
    let mut cells = vec![share(0)];
    for (side, (p, significant)) in (1..).zip(&row.test_results) {
        let mark = if *significant { "*" } else { " " };
        let p = if *p < 0.001 {
            "<0.001".to_owned()
        } else {
            format!("{p:.3}")
        };
        let delta = comparison.delta(row, side) * 100.0;
        cells.extend([share(side), format!("{delta:+.2}%"), format!("{p}{mark}")]);
    }
    cells.extend(row.shares.iter().map(|share| thousands(share.events)));
    if let [before, after] = row.shares[..] {
        cells.push(change(before.events, after.events));
    }
    cells.extend(row.cells.iter().cloned());
    cells
}

/// Returns the change from one count to another as text.
pub(super) fn change(before: u64, after: u64) -> String {
    match (before, after) {
        (0, 0) => "0.0%".to_owned(),
        (0, _) => "new".to_owned(),
        (_, 0) => "gone".to_owned(),
        _ => format!("{:+.1}%", (after as f64 / before as f64 - 1.0) * 100.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::perfdata::example::example;

    #[test]
    fn a_note_says_which_addresses_are_precise() {
        let event = &example(false).events[0];
        let recorded = |name: &str, precision| Event {
            name: name.to_owned(),
            attr: event.attr.with_precision(precision),
        };
        let (precise, imprecise) = (recorded("cycles:P", 2), recorded("cycles", 0));
        assert_eq!(precision_note(&[&precise, &precise]), None);
        assert_eq!(precision_note(&[&imprecise, &imprecise]), None);
        assert_eq!(
            precision_note(&[&precise, &imprecise, &precise]).as_deref(),
            Some(
                "addresses are precise in A (cycles:P) and C (cycles:P), and some instructions late (skid) in B (cycles), \
                 so rows of source lines (srcline) and of short functions may differ."
            )
        );
    }
}
