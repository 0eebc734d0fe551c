// SPDX-License-Identifier: MIT OR Apache-2.0
//! The numbers of all runs as JSON, which are saved for comparison with a later run.

use std::collections::HashSet;
use std::io::{self, Write};

use raw_cpuid::{CpuId, CpuIdReader};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::condition::TIME;

/// The name and version of the JSON format.
const SCHEMA: &str = "pmctl-bench-v1";

/// The events that depend only on the path of the program, if they count only user mode.
const REPEATABLE_EVENTS: [&str; 3] = ["instructions", "branches", "branch-instructions"];

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
    /// Several commands have this name, so it does not say which one is meant.
    #[error("it has several commands called `{0}`. Measure each of them into a file of its own")]
    SameName(String),
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
    /// The names of the events that count only user mode; `None` if the names themselves show it. The name that a user
    /// gives to an event does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user_mode_events: Option<Vec<String>>,
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
            user_mode_events: None,
        }
    }

    /// Stores the names of the events that count only user mode.
    #[must_use]
    pub fn with_user_mode_events(mut self, names: Vec<String>) -> Self {
        self.user_mode_events = Some(names);
        self
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
        let names = self.commands.iter().map(|entry| &entry.command[..]);
        match first_repeated(names).map(str::to_owned) {
            Some(name) => Err(UnusableDocument::SameName(name)),
            None => Ok(self),
        }
    }

    /// Returns the index of an event.
    #[must_use]
    pub fn index(&self, event: &str) -> Option<usize> {
        self.events.iter().position(|known| known == event)
    }

    /// Returns whether the event with this index counts only user mode, where all processors have the same count of
    /// instructions and branches.
    #[must_use]
    pub fn is_user_mode(&self, event: usize) -> bool {
        let name = &self.events[event];
        match &self.user_mode_events {
            Some(names) => names.contains(name),
            None => has_user_modifier(name),
        }
    }

    /// Returns whether the event with this index has the same count in each run of a program that does the same each time.
    #[must_use]
    pub fn repeats(&self, event: usize) -> bool {
        let name = self.events[event].split(':').next();
        let is_repeatable = |name| REPEATABLE_EVENTS.contains(&name);
        name.is_some_and(is_repeatable) && self.is_user_mode(event)
    }

    /// Returns whether the numbers of an event are times.
    #[must_use]
    pub fn is_time(&self, event: usize) -> bool {
        self.events[event] == TIME
    }
}

/// Returns whether the modifiers at the end of an event's name limit the event to user mode, as in `cycles:u` and
/// `cpu/event=0xc0/u`.
fn has_user_modifier(event: &str) -> bool {
    let end = event.rsplit_once('/').map_or(event, |(_, end)| end);
    let modifiers = match end.rsplit_once(':') {
        Some((_, modifiers)) => modifiers,
        // After a slash the colon may be left out.
        None if end.len() < event.len() => end,
        None => return false,
    };
    let is_known = |letter| matches!(letter, 'u' | 'p' | 'P');
    modifiers.contains('u') && modifiers.chars().all(is_known)
}

/// Returns the first name that comes a second time.
pub fn first_repeated<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut known = HashSet::new();
    names.into_iter().find(|name| !known.insert(*name))
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

    #[test]
    fn the_mode_is_in_the_name_or_in_the_file() {
        for (name, expected) in [
            ("instructions:u", true),
            ("cycles:ppu", true),
            ("cpu/event=0xc0/u", true),
            ("cpu/event=0xc0/:u", true),
            ("cpu/event=0xc0,name=a:u/k", false),
            ("cpu/event=0xc0,name=a:u/", false),
            ("instructions", false),
            ("cycles:uk", false),
            ("cycles:k", false),
            ("futex:futures", false),
            ("u", false),
        ] {
            assert_eq!(has_user_modifier(name), expected, "{name}");
        }
        let mut document = testing::document();
        document.events = ["kernel:u", "mine"].map(str::to_owned).to_vec();
        assert!(document.is_user_mode(0) && !document.is_user_mode(1));
        let saved = document.with_user_mode_events(vec!["mine".to_owned()]);
        let mut text = Vec::new();
        write(&saved, &mut text).expect("writing to a vector can't fail");
        let read: BenchDocument = serde_json::from_slice(&text).expect("it is JSON");
        assert!(!read.is_user_mode(0) && read.is_user_mode(1));
    }

    #[test]
    fn instructions_and_branches_of_user_mode_repeat() {
        let mut document = testing::document();
        for (name, expected) in [
            ("instructions:u", true),
            ("branches:u", true),
            ("instructions", false),
            ("cycles:u", false),
            ("time", false),
        ] {
            name.clone_into(&mut document.events[1]);
            assert_eq!(document.repeats(1), expected, "{name}");
        }
    }

    #[test]
    fn commands_of_one_name_are_refused() {
        let mut document = testing::document();
        document.commands[1].command = document.commands[0].command.clone();
        let error = document
            .into_checked()
            .map(drop)
            .map_err(|error| error.to_string());
        assert_eq!(
            error,
            Err(
                "it has several commands called `./old 'a b'`. Measure each of them into a file of its own"
                    .to_owned()
            )
        );
    }
}
