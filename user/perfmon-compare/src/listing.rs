// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of a suite: a line for each benchmark and event.

use std::io::{self, Write};

use perfmon::printable;

use crate::comparison::{ChangeRow, Comparison};
use crate::document::BenchDocument;
use crate::figures::is_exact;
use crate::numbers::thousands;

/// The headings; the flag aligns the column to the right.
const HEADINGS: [(&str, bool); 6] = [
    ("benchmark", false),
    ("event", false),
    ("count", true),
    ("spread", true),
    ("difference", true),
    ("change", false),
];

/// Writes the line above the table: the name of the suite, the number of its benchmarks, and the name of the baseline.
///
/// # Errors
/// The errors of `output`.
pub fn write_heading(
    name: &str,
    measured: &BenchDocument,
    baseline: Option<&str>,
    output: &mut impl Write,
) -> io::Result<()> {
    let benchmarks = match measured.commands.len() {
        1 => "1 benchmark".to_owned(),
        number => format!("{number} benchmarks"),
    };
    let note = baseline.map_or_else(String::new, |baseline| {
        format!("; changes are from {}", printable(baseline))
    });
    writeln!(output, "{}: {benchmarks}{note}\n", printable(name))
}

/// Writes the table.
///
/// # Errors
/// The errors of `output`.
pub fn write(comparison: &Comparison<'_>, output: &mut impl Write) -> io::Result<()> {
    let mut rows = vec![HEADINGS.map(|(heading, _)| heading.to_owned())];
    for command in 0..comparison.measured.commands.len() {
        for event in 0..comparison.measured.events.len() {
            let reference = comparison.reference_values(command, event);
            rows.push(row_cells(
                &comparison.row(command, event),
                reference,
                event == 0,
            ));
        }
    }
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..HEADINGS.len()).map(width).collect();
    for row in &rows {
        let mut line = String::new();
        for ((cell, (_, is_right)), width) in row.iter().zip(HEADINGS).zip(&widths) {
            let blanks = " ".repeat(width - cell.chars().count());
            let (left_blanks, right_blanks) = if is_right {
                (&blanks[..], "")
            } else {
                ("", &blanks[..])
            };
            line.push_str("  ");
            line.push_str(left_blanks);
            line.push_str(cell);
            line.push_str(right_blanks);
        }
        writeln!(output, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Returns the cells of a row. Only the row of the first event has the name of the benchmark.
fn row_cells(row: &ChangeRow<'_>, before: Option<&[u64]>, is_first: bool) -> [String; 6] {
    let [mean, spread, change, interval] = row.cells();
    let change = match interval {
        interval if interval.is_empty() => change,
        interval => format!("{change} ({interval})"),
    };
    [
        if is_first {
            printable(row.command)
        } else {
            String::new()
        },
        printable(row.event),
        mean,
        spread,
        before.map_or_else(String::new, |before| format_difference(before, row.values)),
        change,
    ]
}

/// Returns the difference of two exact counts; an empty text if a count varies from pass to pass.
fn format_difference(before: &[u64], after: &[u64]) -> String {
    if !is_exact(before) || !is_exact(after) {
        return String::new();
    }
    match (before[0], after[0]) {
        (before, after) if after > before => format!("+{}", thousands(after - before)),
        (before, after) if after < before => format!("-{}", thousands(before - after)),
        _ => "0".to_owned(),
    }
}
