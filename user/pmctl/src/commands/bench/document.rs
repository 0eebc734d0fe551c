// SPDX-License-Identifier: MIT OR Apache-2.0
//! The numbers of all runs as JSON: what --save and --export json write, and --baseline reads.

use std::io::Write;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use crate::args::TIME;

/// The name of the form.
const SCHEMA: &str = "pmctl-bench-v1";

/// The numbers of all runs of all commands.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct BenchDocument {
    schema: String,
    /// The brand string of the processor.
    pub(super) machine: String,
    /// `time`, whose numbers are nanoseconds, and the events.
    pub(super) events: Vec<String>,
    pub(super) commands: Vec<BenchEntry>,
}

/// A command, and for each event its numbers, run by run.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct BenchEntry {
    pub(super) command: String,
    pub(super) values: Vec<Vec<u64>>,
}

impl BenchDocument {
    pub(super) fn new(machine: String, events: Vec<String>, commands: Vec<BenchEntry>) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            machine,
            events,
            commands,
        }
    }

    /// Fails if it was not written by this program, or one like it.
    pub(super) fn checked(self) -> Result<Self> {
        ensure!(
            self.schema == SCHEMA,
            "its schema is `{}`, not `{SCHEMA}`",
            self.schema
        );
        ensure!(!self.commands.is_empty(), "it has no commands");
        let is_whole = |entry: &BenchEntry| {
            entry.values.len() == self.events.len()
                && entry.values.iter().all(|runs| !runs.is_empty())
        };
        ensure!(self.commands.iter().all(is_whole), "numbers are missing");
        Ok(self)
    }

    /// Returns the place of an event.
    pub(super) fn index(&self, event: &str) -> Option<usize> {
        self.events.iter().position(|known| known == event)
    }

    /// Returns whether the numbers of an event are times.
    pub(super) fn is_time(&self, event: usize) -> bool {
        self.events[event] == TIME
    }
}

/// Writes the numbers.
pub(super) fn write(document: &BenchDocument, output: &mut impl Write) -> Result<()> {
    serde_json::to_writer_pretty(&mut *output, document)?;
    Ok(writeln!(output)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::bench::testing;

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
