// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of `pmctl bench`.

use std::io::Write;

use anstyle::Style;
use anyhow::Result;
use perfmon_compare::comparison::Comparison;

use crate::system::screen::Screen;
use crate::system::table::{Align, Table};
use crate::system::text::{count, printable};

/// Prints the table.
pub(super) fn write(comparison: &Comparison<'_>, output: &mut Screen) -> Result<()> {
    let heading = output.colors.heading;
    for line in command_list(comparison) {
        writeln!(output, "{line}")?;
    }
    writeln!(output)?;
    build_table(comparison).write(None, heading, output)?;
    Ok(())
}

/// Returns the lines above the table: the commands, and the number of their runs.
fn command_list(comparison: &Comparison<'_>) -> Vec<String> {
    let measured = comparison.measured;
    let runs = measured.commands[0].values[0].len() as u64;
    let mut lines = Vec::new();
    if let Some(baseline) = comparison.baseline {
        if let Some(old) = baseline.other_command(measured) {
            let file = baseline.file.display().to_string();
            lines.push(format!("{}: {}", printable(&file), printable(old)));
        }
    }
    let commands = measured.commands.iter().zip(1..);
    let commands =
        commands.map(|(entry, number)| format!("{number}: {}", printable(&entry.command)));
    lines.extend(commands);
    let turns_note = if measured.commands.len() > 1 {
        " of each, in turns"
    } else {
        ""
    };
    let reference_note = match comparison.baseline {
        Some(_) => "; changes are from the baseline",
        None if measured.commands.len() > 1 => "; changes are from 1",
        None => "",
    };
    lines.push(format!(
        "{}{turns_note}{reference_note}",
        count(runs, "run")
    ));
    lines
}

fn build_table(comparison: &Comparison<'_>) -> Table {
    let headings = [
        ("event", Align::Left),
        ("", Align::Left),
        ("mean", Align::Right),
        ("spread", Align::Right),
        ("change", Align::Right),
        ("95% interval of the change", Align::Left),
    ];
    let mut table = Table::new(&headings);
    for row in comparison.rows() {
        // Only the first command's row has the event's name.
        let name = if row.index == 0 { row.event } else { "" };
        let [mean, spread, change, interval] = row.cells();
        let number = (row.index + 1).to_string();
        table.add_row(
            &[name.to_owned(), number, mean, spread, change, interval],
            Style::new(),
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use perfmon_compare::comparison::Baseline;
    use perfmon_compare::document::BenchDocument;
    use perfmon_compare::testing;

    use super::*;

    #[test]
    fn a_baseline_of_another_command_is_shown() {
        let mut measured = testing::document();
        let mut old_document = measured.clone();
        old_document.commands.truncate(1);
        measured.commands.remove(0);
        let lines = |old: &BenchDocument, name| {
            let file = Path::new("old.json");
            let baseline =
                Baseline::of_commands((file, old.clone()), &[name]).expect("it is the only one");
            let comparison = Comparison {
                measured: &measured,
                baseline: Some(&baseline),
            };
            command_list(&comparison)
        };
        let runs = "3 runs; changes are from the baseline";
        let other = lines(&old_document, "./new");
        assert_eq!(other, ["old.json: ./old 'a b'", "1: ./new", runs]);
        old_document.commands[0].command = "./new".to_owned();
        assert_eq!(lines(&old_document, "./new"), ["1: ./new", runs]);
    }

    #[test]
    fn exact_counts_have_no_interval() {
        let text = testing::write_to_text(|comparison, text| {
            let expected = [
                "1: ./old 'a b'",
                "2: ./new",
                "3 runs of each, in turns; changes are from 1",
            ];
            assert_eq!(command_list(comparison), expected);
            build_table(comparison).write(None, Style::new(), text)
        });
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
