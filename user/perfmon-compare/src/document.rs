// SPDX-License-Identifier: MIT OR Apache-2.0
//! The numbers of all runs as JSON: what is saved, and what a later run is compared with.

use std::io::{self, Write};

use raw_cpuid::{CpuId, CpuIdReader};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::condition::TIME;

/// The name of the form.
const SCHEMA: &str = "pmctl-bench-v1";

/// Reason for which a document can't be used.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum Unusable {
    /// Another form.
    #[error("its schema is `{0}`, not `{SCHEMA}`")]
    Schema(String),
    /// No commands, and so nothing to compare with.
    #[error("it has no commands")]
    Empty,
    /// A command without numbers of an event.
    #[error("numbers are missing")]
    Incomplete,
}

/// The numbers of all runs of all commands.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct BenchDocument {
    schema: String,
    /// The brand string of the processor.
    pub machine: String,
    /// `time`, whose numbers are nanoseconds, and the events.
    pub events: Vec<String>,
    /// The commands, each with a name of its own.
    pub commands: Vec<BenchEntry>,
}

/// A command, and for each event its numbers, run by run.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct BenchEntry {
    /// The name: the command as it was typed, or that of a function.
    pub command: String,
    /// The numbers.
    pub values: Vec<Vec<u64>>,
}

impl BenchDocument {
    /// Creates one of these numbers.
    #[must_use]
    pub fn new(machine: String, events: Vec<String>, commands: Vec<BenchEntry>) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            machine,
            events,
            commands,
        }
    }

    /// Fails if it was not written by a program of this project, or one like it.
    ///
    /// # Errors
    /// The reason for which it can't be used.
    pub fn checked(self) -> Result<Self, Unusable> {
        if self.schema != SCHEMA {
            return Err(Unusable::Schema(self.schema));
        }
        if self.commands.is_empty() {
            return Err(Unusable::Empty);
        }
        let is_whole = |entry: &BenchEntry| {
            entry.values.len() == self.events.len()
                && entry.values.iter().all(|runs| !runs.is_empty())
        };
        if !self.commands.iter().all(is_whole) {
            return Err(Unusable::Incomplete);
        }
        Ok(self)
    }

    /// Returns the place of an event.
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

/// Returns the brand string of a processor, by which documents know it; `unknown` if it has none.
#[must_use]
pub fn brand(cpuid: &CpuId<impl CpuIdReader>) -> String {
    let brand = cpuid.get_processor_brand_string();
    let brand = brand.as_ref().map(|brand| brand.as_str().trim());
    brand
        .filter(|brand| !brand.is_empty())
        .unwrap_or("unknown")
        .to_owned()
}

/// Writes the numbers.
///
/// # Errors
/// Those of `output`.
pub fn write(document: &BenchDocument, output: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *output, document)?;
    writeln!(output)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn what_is_written_is_read_again() {
        let document = testing::document();
        let mut text = Vec::new();
        write(&document, &mut text).expect("a vector takes everything");
        let read: BenchDocument = serde_json::from_slice(&text).expect("it is JSON");
        assert_eq!(read.checked().expect("it is whole"), document);
    }

    #[test]
    fn what_is_not_whole_is_refused() {
        let document = testing::document();
        let other = BenchDocument {
            schema: "pmctl-stat-v1".to_owned(),
            ..document.clone()
        };
        assert!(other.checked().is_err());
        let mut cut = document.clone();
        cut.commands[0].values.pop();
        assert!(cut.checked().is_err());
        let mut empty = document;
        empty.commands[0].values[0].clear();
        assert!(empty.checked().is_err());
    }
}
