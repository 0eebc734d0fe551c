// SPDX-License-Identifier: MIT OR Apache-2.0
//! Test data for output formats, in this crate and in others: a document, and a comparison of its commands.

use std::io;

use crate::comparison::Comparison;
use crate::document::{BenchDocument, BenchEntry};

/// Returns a document with two commands, and three runs of each.
#[must_use]
pub fn document() -> BenchDocument {
    let entry = |command: &str, values: [[u64; 3]; 2]| BenchEntry {
        command: command.to_owned(),
        values: values.map(|runs| runs.to_vec()).to_vec(),
    };
    let events = ["time", "instructions:u"].map(str::to_owned).to_vec();
    let commands = vec![
        entry("./old 'a b'", [[900_000, 1_000_000, 1_100_000], [1000; 3]]),
        entry("./new", [[909_000, 1_010_000, 1_111_000], [1020; 3]]),
    ];
    BenchDocument::new("a processor".to_owned(), events, commands)
}

/// Returns the output of `write` for a comparison of the two commands of [`document`]. There is no baseline.
///
/// # Panics
/// If `write` fails, or writes no text.
pub fn write_to_text(
    write: impl FnOnce(&Comparison<'_>, &mut Vec<u8>) -> io::Result<()>,
) -> String {
    let mut text = Vec::new();
    let comparison = Comparison {
        measured: &document(),
        baseline: None,
    };
    write(&comparison, &mut text).expect("a vector takes everything");
    String::from_utf8(text).expect("it is text")
}
