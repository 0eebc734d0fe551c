// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table in Markdown, for the summary of a CI run.

use std::io::{self, Write};

use perfmon::printable;

use crate::comparison::Comparison;

/// Writes the table.
///
/// # Errors
/// The errors of `output`.
pub fn write(comparison: &Comparison<'_>, output: &mut impl Write) -> io::Result<()> {
    writeln!(
        output,
        "| event | command | mean | spread | change | 95% interval |"
    )?;
    writeln!(output, "|:--|:--|--:|--:|--:|:--|")?;
    for row in comparison.rows() {
        writeln!(
            output,
            "| {} | {} | {} |",
            cell(row.event),
            inline_code(row.command),
            row.cells().join(" | "),
        )?;
    }
    Ok(())
}

/// Escapes text for a cell of a table.
fn cell(text: &str) -> String {
    printable(text).replace('|', "\\|")
}

/// Formats a command as inline code, between longer rows of backquotes than the command contains.
fn inline_code(text: &str) -> String {
    let text = cell(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let marks = "`".repeat(longest + 1);
    let blank = if longest > 0 { " " } else { "" };
    format!("{marks}{blank}{text}{blank}{marks}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn each_line_is_a_row() {
        let text = testing::write_to_text(write);
        assert_eq!(text.lines().count(), 6);
        assert!(text.ends_with("| instructions:u | `./new` | 1,020 | exact | +2.00% |  |\n"));
    }

    #[test]
    fn a_command_with_bars_and_backquotes_stays_in_its_cell() {
        assert_eq!(inline_code("a | b"), "`a \\| b`");
        assert_eq!(inline_code("a `b`\n"), "`` a `b`? ``");
    }
}
