// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table in Markdown, for the summary of a CI run.

use std::io::Write;

use anyhow::Result;

use super::Compared;
use super::figures::change;
use super::numbers::{shown_change, shown_interval, shown_mean, shown_spread};
use crate::text::printable;

/// Writes the table.
pub(super) fn write(compared: &Compared<'_>, output: &mut impl Write) -> Result<()> {
    writeln!(
        output,
        "| event | command | mean | spread | change | 95% interval |"
    )?;
    writeln!(output, "|:--|:--|--:|--:|--:|:--|")?;
    let measured = compared.measured;
    for (event, name) in measured.events.iter().enumerate() {
        for (index, entry) in measured.commands.iter().enumerate() {
            let values = &entry.values[event];
            let change = compared
                .before(index, event)
                .map(|before| change(before, values));
            writeln!(
                output,
                "| {} | {} | {} | {} | {} | {} |",
                cell(name),
                code(&entry.command),
                shown_mean(measured.is_time(event), values),
                shown_spread(values),
                change.map_or_else(String::new, shown_change),
                change.map_or_else(String::new, shown_interval),
            )?;
        }
    }
    Ok(())
}

/// Returns text as it stands in a cell.
fn cell(text: &str) -> String {
    printable(text).replace('|', "\\|")
}

/// Returns a command in its letters: the marks are more than it has in a row.
fn code(text: &str) -> String {
    let text = cell(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let marks = "`".repeat(longest + 1);
    let blank = if longest > 0 { " " } else { "" };
    format!("{marks}{blank}{text}{blank}{marks}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::testing;

    #[test]
    fn each_line_is_a_row() {
        let (measured, reference) = (testing::document(), testing::none());
        let compared = Compared {
            measured: &measured,
            reference: &reference,
        };
        let mut text = Vec::new();
        write(&compared, &mut text).expect("a vector takes everything");
        let text = String::from_utf8(text).expect("it is text");
        assert_eq!(text.lines().count(), 6);
        assert!(text.ends_with("| instructions:u | `./new` | 1,020 | exact | +2.00% |  |\n"));
    }

    #[test]
    fn a_command_can_end_no_cell() {
        assert_eq!(code("a | b"), "`a \\| b`");
        assert_eq!(code("a `b`\n"), "`` a `b`? ``");
    }
}
