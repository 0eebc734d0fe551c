// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output of counts: a table with a line for each benchmark and event, or an export.

use std::io::{self, Write};

use perfmon_compare::comparison::Comparison;
use perfmon_compare::{document, listing, markdown};

use crate::options::{BenchFormat, Export, Options};

/// Writes the counts for the standard output: the table, or an export without a file.
pub(crate) fn write(
    comparison: &Comparison<'_>,
    options: &Options,
    name: &str,
    output: &mut impl Write,
) -> io::Result<()> {
    match &options.export {
        Some(Export { format, file: None }) => export(comparison, *format, output),
        _ => {
            let baseline = options.baseline.as_deref();
            listing::write_heading(name, comparison.measured, baseline, output)?;
            listing::write(comparison, output)
        }
    }
}

/// Writes the counts in a format of `--export`.
pub(crate) fn export(
    comparison: &Comparison<'_>,
    format: BenchFormat,
    output: &mut impl Write,
) -> io::Result<()> {
    match format {
        BenchFormat::Json => document::write(comparison.measured, output),
        BenchFormat::Markdown => markdown::write(comparison, output),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser;
    use perfmon_compare::comparison::Baseline;
    use perfmon_compare::document::{BenchDocument, BenchEntry};

    use super::*;

    fn document(benches: &[(&str, [u64; 2])]) -> BenchDocument {
        let entry = |(name, counts): &(&str, [u64; 2])| BenchEntry {
            command: (*name).to_owned(),
            values: counts.iter().map(|count| vec![*count; 2]).collect(),
        };
        let events = ["instructions:u", "branches:u"].map(str::to_owned);
        let entries = benches.iter().map(entry).collect();
        BenchDocument::new("a processor".to_owned(), events.to_vec(), entries)
    }

    fn write_to_text(arguments: &[&str]) -> String {
        let old_document = document(&[("sum", [1000, 100]), ("sort/10", [2_000_000, 100])]);
        let measured = document(&[
            ("sum", [1001, 100]),
            ("sort/10", [1_999_996, 100]),
            ("new", [5, 1]),
        ]);
        let names = ["sum", "sort/10", "new"];
        let baseline = Baseline::of_names((Path::new("main.json"), old_document), &names);
        let comparison = Comparison {
            measured: &measured,
            baseline: Some(&baseline),
        };
        let words = ["x"].iter().chain(arguments);
        let options = Options::try_parse_from(words).expect("it is well formed");
        let mut text = Vec::new();
        write(&comparison, &options, "sorting", &mut text).expect("a vector takes everything");
        String::from_utf8(text).expect("it is text")
    }

    #[test]
    fn the_table_shows_a_difference_of_one_instruction() {
        assert_eq!(
            write_to_text(&["--baseline", "main"]),
            "\
sorting: 3 benchmarks; changes are from main

  benchmark  event               count  spread  difference  change
  sum        instructions:u      1,001   exact          +1  +0.100%
             branches:u            100   exact           0  none
  sort/10    instructions:u  1,999,996   exact          -4  -0.000200%
             branches:u            100   exact           0  none
  new        instructions:u          5   exact
             branches:u              1   exact
"
        );
    }

    #[test]
    fn exports_have_the_formats_of_pmctl() {
        let markdown = write_to_text(&["--export", "markdown"]);
        assert!(
            markdown.contains("| instructions:u | `sum` | 1,001 | exact | +0.100% |  |"),
            "{markdown}"
        );
        let table = write_to_text(&["--export", "markdown=x.md"]);
        assert!(table.starts_with("sorting: 3 benchmarks\n"), "{table}");
        let json = write_to_text(&["--export", "json"]);
        let document: BenchDocument = serde_json::from_str(&json).expect("it is JSON");
        assert!(document.into_checked().is_ok());
    }
}
