// SPDX-License-Identifier: MIT OR Apache-2.0
//! The numbers of all runs as JSON, which are saved for comparison with a later run.

use std::io::{self, Write};

use raw_cpuid::{CpuId, CpuIdReader};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::condition::TIME;

/// The name and version of the JSON format.
const SCHEMA: &str = "pmctl-bench-v1";

/// The reason why a document can't be used.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum UnusableDocument {
    /// The document has this schema instead of `pmctl-bench-v1`.
    #[error("its schema is `{0}`, not `{SCHEMA}`")]
    Schema(String),
    /// The document has no commands, so there is nothing to compare with.
    #[error("it has no commands")]
    Empty,
    /// The document has no events, not even the time.
    #[error("it has no events")]
    NoEvents,
    /// A command lacks numbers of an event.
    #[error("a command lacks the numbers of an event")]
    Incomplete,
}

/// The numbers of all runs of all commands.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct BenchDocument {
    schema: String,
    /// The brand string of the processor.
    pub machine: String,
    /// The names of the events, and `time`, whose numbers are nanoseconds.
    pub events: Vec<String>,
    /// The commands. No two have the same name.
    pub commands: Vec<BenchEntry>,
}

/// A command and its numbers.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct BenchEntry {
    /// The name: the command as it was typed, or the name of a function.
    pub command: String,
    /// For each event, the number of each run.
    pub values: Vec<Vec<u64>>,
}

impl BenchDocument {
    /// Creates a document with these numbers.
    #[must_use]
    pub fn new(machine: String, events: Vec<String>, commands: Vec<BenchEntry>) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            machine,
            events,
            commands,
        }
    }

    /// Checks that the document has the right schema, commands, and all numbers.
    ///
    /// # Errors
    /// The reason why the document can't be used.
    pub fn into_checked(self) -> Result<Self, UnusableDocument> {
        if self.schema != SCHEMA {
            return Err(UnusableDocument::Schema(self.schema));
        }
        if self.commands.is_empty() {
            return Err(UnusableDocument::Empty);
        }
        if self.events.is_empty() {
            return Err(UnusableDocument::NoEvents);
        }
        let is_complete = |entry: &BenchEntry| {
            entry.values.len() == self.events.len()
                && entry.values.iter().all(|runs| !runs.is_empty())
        };
        if !self.commands.iter().all(is_complete) {
            return Err(UnusableDocument::Incomplete);
        }
        Ok(self)
    }

    /// Returns the index of an event.
    #[must_use]
    pub fn index(&self, event: &str) -> Option<usize> {
        self.events.iter().position(|known| known == event)
    }

    /// Returns whether the numbers of an event are times.
    #[must_use]
    pub fn is_time(&self, event: usize) -> bool {
        self.events[event] == TIME
    }
}

/// Returns the brand string of a processor, which documents have as `machine`; `unknown` if it has none.
#[must_use]
pub fn brand(cpuid: &CpuId<impl CpuIdReader>) -> String {
    let brand = cpuid.get_processor_brand_string();
    let brand = brand.as_ref().map(|brand| brand.as_str().trim());
    brand
        .filter(|brand| !brand.is_empty())
        .unwrap_or("unknown")
        .to_owned()
}

/// Writes the document as JSON.
///
/// # Errors
/// The errors of `output`.
pub fn write(document: &BenchDocument, output: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *output, document)?;
    writeln!(output)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_written_document_is_read_again() {
        let document = testing::document();
        let mut text = Vec::new();
        write(&document, &mut text).expect("writing to a vector can't fail");
        let read_document: BenchDocument = serde_json::from_slice(&text).expect("it is JSON");
        assert_eq!(read_document.into_checked().expect("it is whole"), document);
    }

    #[test]
    fn an_unusable_document_is_refused() {
        let document = testing::document();
        let other_document = BenchDocument {
            schema: "pmctl-stat-v1".to_owned(),
            ..document.clone()
        };
        assert!(other_document.into_checked().is_err());
        let mut incomplete_document = document.clone();
        incomplete_document.commands[0].values.pop();
        assert!(incomplete_document.into_checked().is_err());
        let mut empty = document;
        empty.commands[0].values[0].clear();
        assert!(empty.into_checked().is_err());
    }
}
