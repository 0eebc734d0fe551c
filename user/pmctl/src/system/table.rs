// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes a table as text, with columns as wide as their content.

use std::collections::BTreeMap;
use std::io::{self, Write};

use anstyle::Style;

use crate::system::text::{count, printable, push_left, push_right};

/// Blanks between columns.
const GAP: usize = 2;

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A table.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Align>,
    /// Blanks before the first column.
    margin: usize,
    /// The headings, and then the rows. The style of a row is that of its first cell.
    rows: Vec<(Vec<String>, Style)>,
    /// Lines that are written below a row, by the row's index.
    lines_below: BTreeMap<usize, Vec<String>>,
}

impl Table {
    /// Creates a table with these headings.
    pub(crate) fn new(headings: &[(&str, Align)]) -> Self {
        let texts = headings.iter().map(|(text, _)| (*text).to_owned());
        Self {
            columns: headings.iter().map(|(_, align)| *align).collect(),
            margin: GAP,
            rows: vec![(texts.collect(), Style::new())],
            lines_below: BTreeMap::new(),
        }
    }

    /// Leaves out the blanks in front of the first column.
    pub(crate) fn without_margin(mut self) -> Self {
        self.margin = 0;
        self
    }

    /// Adds a row with a cell for each heading. Characters that are not printable become question marks. `style` is the
    /// style of the first cell.
    pub(crate) fn add_row(&mut self, cells: &[String], style: Style) {
        let cells = cells.iter().map(|cell| printable(cell));
        self.rows.push((cells.collect(), style));
    }

    /// Adds lines below the row that was added last.
    pub(crate) fn add_lines_below(&mut self, lines: Vec<String>) {
        if !lines.is_empty() {
            self.lines_below.insert(self.len(), lines);
        }
    }

    /// Returns the number of rows without the headings.
    pub(crate) fn len(&self) -> usize {
        self.rows.len() - 1
    }

    /// Writes the table without blanks at the ends of lines. Lines are cut after `width` characters. `heading` is the style
    /// of the headings.
    pub(crate) fn write(
        &self,
        width: Option<usize>,
        heading: Style,
        output: &mut (impl Write + ?Sized),
    ) -> io::Result<()> {
        let limit = width.unwrap_or(usize::MAX);
        let length = |text: &String| text.chars().count();
        let width = |column| {
            let cells = self.rows.iter().filter_map(|(row, _)| row.get(column));
            cells.map(length).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        for (index, (row, style)) in self.rows.iter().enumerate() {
            let mut line = " ".repeat(self.margin);
            for (column, ((cell, align), width)) in
                row.iter().zip(&self.columns).zip(&widths).enumerate()
            {
                if column > 0 {
                    push_left(&mut line, "", GAP);
                }
                match align {
                    Align::Left => push_left(&mut line, cell, *width),
                    Align::Right => push_right(&mut line, cell, *width),
                }
            }
            line.truncate(offset_after(&line, limit));
            let line = line.trim_end();
            let (style, end) = match index {
                0 => (heading, line.len()),
                _ => (*style, offset_after(line, self.margin + widths[0])),
            };
            let (first, rest) = line.split_at(end);
            writeln!(output, "{style}{first}{style:#}{rest}")?;
            for line in self.lines_below.get(&index).into_iter().flatten() {
                let line: String = line.chars().take(limit).collect();
                writeln!(output, "{}", printable(&line))?;
            }
        }
        Ok(())
    }
}

/// Returns the line below a table without `hidden` of its rows. `advice` says which option shows more.
pub(crate) fn hidden_rows_line(hidden: usize, advice: &str) -> String {
    format!("  ({} not shown: {advice})", count(hidden as u64, "row"))
}

/// Returns the byte offset after the first `characters` characters of `line`, or its end if it is shorter.
fn offset_after(line: &str, characters: usize) -> usize {
    let mut offsets = line.char_indices().map(|(offset, _)| offset);
    offsets.nth(characters).unwrap_or(line.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_contents() {
        let mut table = Table::new(&[
            ("share", Align::Right),
            ("é", Align::Left),
            ("z", Align::Left),
        ]);
        table.add_row(
            &["1%".to_owned(), "a".to_owned(), "b".to_owned()],
            Style::new(),
        );
        table.add_row(
            &["100.00%".to_owned(), "abc".to_owned(), String::new()],
            Style::new(),
        );
        let mut text = Vec::new();
        table
            .write(None, Style::new(), &mut text)
            .expect("a vector takes everything");
        let text = String::from_utf8(text).expect("it is text");
        assert_eq!(
            text,
            "    share  é    z\n       1%  a    b\n  100.00%  abc\n"
        );
        let mut text = Vec::new();
        table
            .write(Some(12), Style::new(), &mut text)
            .expect("a vector takes everything");
        let text = String::from_utf8(text).expect("it is text");
        assert_eq!(text, "    share  é\n       1%  a\n  100.00%  a\n");
    }

    #[test]
    fn a_table_may_begin_at_the_margin() {
        let table = Table::new(&[("a", Align::Left), ("b", Align::Left)]);
        let mut table = table.without_margin();
        table.add_row(&["123".to_owned(), "4".to_owned()], Style::new().bold());
        table.add_lines_below(vec!["    5".to_owned()]);
        let mut text = Vec::new();
        table
            .write(None, Style::new(), &mut text)
            .expect("a vector takes everything");
        let text = String::from_utf8(text).expect("it is text");
        assert_eq!(text, "a    b\n\u{1b}[1m123\u{1b}[0m  4\n    5\n");
    }

    #[test]
    fn a_name_may_have_any_length() {
        let mut table = Table::new(&[("symbol", Align::Left), ("end", Align::Right)]);
        let name = "a".repeat(70_000);
        table.add_row(&[name.clone(), name.clone()], Style::new());
        let mut text = Vec::new();
        table
            .write(None, Style::new(), &mut text)
            .expect("a vector takes everything");
        let text = String::from_utf8(text).expect("it is text");
        assert!(text.ends_with(&format!("\n  {name}  {name}\n")));
    }
}
