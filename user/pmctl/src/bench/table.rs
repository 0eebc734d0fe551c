// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of `pmctl bench`.

use std::io::Write;

use anstyle::Style;
use anyhow::Result;

use super::Compared;
use super::figures::change;
use super::numbers::{shown_change, shown_interval, shown_mean, shown_spread};
use crate::report::{Align, Table};
use crate::screen::Screen;
use crate::text::{count, printable};

/// Prints the table.
pub(super) fn write(compared: &Compared<'_>, output: &mut Screen) -> Result<()> {
    let heading = output.colors.heading;
    for line in head(compared) {
        writeln!(output, "{line}")?;
    }
    writeln!(output)?;
    table(compared).write(None, heading, output)?;
    Ok(())
}

/// Returns what ran.
fn head(compared: &Compared<'_>) -> Vec<String> {
    let measured = compared.measured;
    let runs = measured.commands[0].values[0].len() as u64;
    let mut lines: Vec<String> = measured
        .commands
        .iter()
        .zip(1..)
        .map(|(entry, number)| format!("{number}: {}", printable(&entry.command)))
        .collect();
    let turns = if measured.commands.len() > 1 {
        " of each, in turns"
    } else {
        ""
    };
    let from = match &compared.reference.baseline {
        Some(_) => "; changes are from the baseline",
        None if measured.commands.len() > 1 => "; changes are from 1",
        None => "",
    };
    lines.push(format!("{}{turns}{from}", count(runs, "run")));
    lines
}

fn table(compared: &Compared<'_>) -> Table {
    let measured = compared.measured;
    let headings = [
        ("event", Align::Left),
        ("", Align::Left),
        ("mean", Align::Right),
        ("spread", Align::Right),
        ("change", Align::Right),
        ("95% interval of the change", Align::Left),
    ];
    let mut table = Table::new(&headings);
    for (event, name) in measured.events.iter().enumerate() {
        for (index, entry) in measured.commands.iter().enumerate() {
            let values = &entry.values[event];
            let change = compared
                .before(index, event)
                .map(|before| change(before, values));
            table.row(
                &[
                    if index == 0 {
                        name.clone()
                    } else {
                        String::new()
                    },
                    (index + 1).to_string(),
                    shown_mean(measured.is_time(event), values),
                    shown_spread(values),
                    change.map_or_else(String::new, shown_change),
                    change.map_or_else(String::new, shown_interval),
                ],
                Style::new(),
            );
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::testing;

    #[test]
    fn exact_counts_have_no_interval() {
        let (measured, reference) = (testing::document(), testing::none());
        let compared = Compared {
            measured: &measured,
            reference: &reference,
        };
        let expected = [
            "1: ./old 'a b'",
            "2: ./new",
            "3 runs of each, in turns; changes are from 1",
        ];
        assert_eq!(head(&compared), expected);
        let mut text = Vec::new();
        table(&compared)
            .write(None, Style::new(), &mut text)
            .expect("a vector takes everything");
        let text = String::from_utf8(text).expect("it is text");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5);
        assert_eq!(lines[3], "  instructions:u  1    1,000    exact");
        assert_eq!(lines[4], "                  2    1,020    exact  +2.00%");
        assert!(
            lines[2].contains("+1.00%") && lines[2].ends_with("may be none"),
            "{}",
            lines[2]
        );
    }
}
