// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands compared with a baseline, or with the first command: the rows that every output format shows.

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::document::{BenchDocument, BenchEntry};
use crate::figures::{Change, change, side_with_too_few_runs};
use crate::numbers::{format_change, format_interval, format_mean, format_spread};

/// The numbers of an earlier run.
#[derive(Debug)]
pub struct Baseline {
    /// The file of the baseline.
    pub file: PathBuf,
    /// The content of the file.
    pub document: BenchDocument,
    /// For each measured command, the index of its entry in the document; `None` if there is no
    /// entry.
    entries: Vec<Option<usize>>,
}

/// The error of a command that the baseline lacks.
#[derive(Clone, Debug, Error, PartialEq)]
#[error("--baseline: the file has no command `{command}`, only `{}`.", .known.join("`, `"))]
pub struct NotInBaseline {
    /// The missing command.
    pub command: String,
    /// The commands of the baseline.
    pub known: Vec<String>,
}

impl Baseline {
    /// Finds each command's entry by the command's name. If there are only one command and one
    /// entry, their names may differ.
    ///
    /// # Errors
    /// The first command without an entry.
    pub fn of_commands(
        (file, document): (&Path, BenchDocument),
        names: &[&str],
    ) -> Result<Self, NotInBaseline> {
        let mut baseline = Self::of_names((file, document), names);
        if names.len() == 1 && baseline.document.commands.len() == 1 {
            baseline.entries = vec![Some(0)];
        }
        let named_entries = names.iter().zip(&baseline.entries);
        match named_entries.into_iter().find(|(_, entry)| entry.is_none()) {
            None => Ok(baseline),
            Some((name, _)) => Err(NotInBaseline {
                command: (*name).to_owned(),
                known: baseline
                    .document
                    .commands
                    .iter()
                    .map(|old| old.command.clone())
                    .collect(),
            }),
        }
    }

    /// Creates a baseline without entries: no command is compared, not even with the first command.
    #[must_use]
    pub fn empty(measured: &BenchDocument) -> Self {
        let (machine, events) = (measured.machine.clone(), measured.events.clone());
        let names = measured.commands.iter().map(|_| "");
        let document = BenchDocument::new(machine, events, Vec::new());
        Self::of_names((Path::new(""), document), &names.collect::<Vec<_>>())
    }

    /// Finds each command's entry by its name. A command without an entry is not compared.
    #[must_use]
    pub fn of_names((file, document): (&Path, BenchDocument), names: &[&str]) -> Self {
        let entry = |name: &&str| {
            let mut commands = document.commands.iter();
            commands.position(|old| old.command == **name)
        };
        Self {
            file: file.to_owned(),
            entries: names.iter().map(entry).collect(),
            document,
        }
    }

    /// Returns the baseline's command that the first measured command is compared with, if their names differ.
    #[must_use]
    pub fn other_command(&self, measured: &BenchDocument) -> Option<&str> {
        let old_command = &self
            .document
            .commands
            .get((*self.entries.first()?)?)?
            .command;
        let is_same = measured.commands.first()?.command == *old_command;
        (!is_same).then_some(old_command)
    }

    /// Returns the commands of the baseline that were not measured in this run.
    pub fn missing<'a>(&'a self, measured: &'a BenchDocument) -> impl Iterator<Item = &'a str> {
        let names = self.document.commands.iter();
        let names = names.map(|entry| &entry.command[..]);
        names.filter(|name| measured.commands.iter().all(|now| now.command != *name))
    }

    /// Returns the numbers of an event in a command's entry; `None` if the entry has no such event.
    fn values(&self, command: usize, event: &str) -> Option<&[u64]> {
        let entry: &BenchEntry = self.document.commands.get((*self.entries.get(command)?)?)?;
        Some(&entry.values[self.document.index(event)?])
    }
}

/// The numbers of this run, and the baseline that they are compared with. Without a baseline, they are compared with the
/// first command.
#[derive(Clone, Copy, Debug)]
pub struct Comparison<'a> {
    /// The numbers of this run.
    pub measured: &'a BenchDocument,
    /// The numbers of an earlier run.
    pub baseline: Option<&'a Baseline>,
}

/// One event of one command.
#[derive(Debug)]
pub struct ChangeRow<'a> {
    /// The event.
    pub event: &'a str,
    /// The index of the command.
    pub index: usize,
    /// The command.
    pub command: &'a str,
    /// The number of each run.
    pub values: &'a [u64],
    /// The numbers are times in nanoseconds.
    pub is_time: bool,
    /// The change; `None` if there is nothing to compare with, as for the first command without a baseline.
    pub change: Option<Change>,
}

impl<'a> Comparison<'a> {
    /// Returns the numbers that a command's numbers of an event are compared with; `None` if there are none, as for the
    /// first command without a baseline.
    #[must_use]
    pub fn reference_values(&self, command: usize, event: usize) -> Option<&'a [u64]> {
        match self.baseline {
            Some(baseline) => baseline.values(command, &self.measured.events[event]),
            None if command == 0 => None,
            None => Some(&self.measured.commands[0].values[event]),
        }
    }

    /// Returns whether a command's numbers of an event and those that they are compared with are enough runs to tell a change
    /// from chance. A command that is compared with nothing has enough.
    #[must_use]
    pub fn has_enough_runs(&self, command: usize, event: usize) -> bool {
        let Some(reference) = self.reference_values(command, event) else {
            return true;
        };
        let values = &self.measured.commands[command].values[event];
        side_with_too_few_runs(&[values, reference], self.measured.repeats(event)).is_none()
    }

    /// Returns whether the baseline has an entry of a command, with any events.
    #[must_use]
    pub fn has_baseline_of(&self, command: usize) -> bool {
        let entry = |baseline: &Baseline| baseline.entries.get(command).copied().flatten();
        self.baseline.and_then(entry).is_some()
    }

    /// Returns the commands that the baseline lacks. Returns none if there is no baseline, or if it
    /// is [empty](Baseline::empty).
    pub fn new_commands(self) -> impl Iterator<Item = &'a str> {
        let commands = self.measured.commands.iter().enumerate();
        let is_baseline = |baseline: &Baseline| !baseline.document.commands.is_empty();
        let has_baseline = self.baseline.is_some_and(is_baseline);
        let new = commands.filter(move |(index, _)| has_baseline && !self.has_baseline_of(*index));
        new.map(|(_, entry)| &entry.command[..])
    }

    /// Returns the processor of the baseline, if it differs from this run's.
    #[must_use]
    pub fn other_machine(&self) -> Option<&'a str> {
        let machine = self.baseline.map(|baseline| &baseline.document.machine[..]);
        machine.filter(|machine| *machine != self.measured.machine)
    }

    /// Returns a warning if the baseline was measured on another processor.
    #[must_use]
    pub fn machine_warning(&self) -> Option<String> {
        let (old, now) = (self.other_machine()?, &self.measured.machine);
        Some(format!(
            "the baseline was measured on another processor, {old}; this is {now}. Compare only counts of user mode."
        ))
    }

    /// Returns the row of one event of one command, by their indices.
    #[must_use]
    pub fn row(&self, command: usize, event: usize) -> ChangeRow<'a> {
        let measured = self.measured;
        let entry = &measured.commands[command];
        let values = &entry.values[event];
        let reference = self.reference_values(command, event);
        ChangeRow {
            event: &measured.events[event],
            index: command,
            command: &entry.command,
            values,
            is_time: measured.is_time(event),
            change: reference.map(|reference| change(reference, values)),
        }
    }

    /// Returns a row for each command, event by event.
    pub fn rows(self) -> impl Iterator<Item = ChangeRow<'a>> {
        (0..self.measured.events.len()).flat_map(move |event| {
            let commands = 0..self.measured.commands.len();
            commands.map(move |command| self.row(command, event))
        })
    }
}

impl ChangeRow<'_> {
    /// Returns the formatted cells: mean, spread, change, and the interval of the change.
    #[must_use]
    pub fn cells(&self) -> [String; 4] {
        [
            format_mean(self.is_time, self.values),
            format_spread(self.values),
            self.change.map_or_else(String::new, format_change),
            self.change.map_or_else(String::new, format_interval),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn an_entry_is_found_by_name_or_is_the_only_one() {
        let mut old_document = testing::document();
        let file = Path::new("old.json");
        let names = ["./new", "./old 'a b'"];
        let baseline =
            Baseline::of_commands((file, old_document.clone()), &names).expect("it has both");
        assert_eq!(
            baseline.values(0, "instructions:u"),
            Some(&[1020, 1020, 1020][..])
        );
        assert_eq!(
            baseline.values(1, "instructions:u"),
            Some(&[1000, 1000, 1000][..])
        );
        assert_eq!(baseline.values(0, "cycles"), None);
        let other = Baseline::of_commands((file, old_document.clone()), &["./other"]).map(drop);
        assert_eq!(
            other.map_err(|error| error.to_string()),
            Err(
                "--baseline: the file has no command `./other`, only `./old 'a b'`, `./new`."
                    .to_owned()
            )
        );
        let lenient = Baseline::of_names((file, old_document.clone()), &["./other", "./new"]);
        assert_eq!(lenient.values(0, "time"), None);
        assert!(lenient.values(1, "time").is_some());
        let measured = testing::document();
        let mut comparison = Comparison {
            measured: &measured,
            baseline: Some(&lenient),
        };
        let new: Vec<&str> = comparison.new_commands().collect();
        assert_eq!(new, ["./old 'a b'"]);
        let empty = Baseline::empty(&measured);
        comparison.baseline = Some(&empty);
        assert_eq!(comparison.new_commands().count(), 0);
        old_document.commands.truncate(1);
        let baseline =
            Baseline::of_commands((file, old_document), &["./other"]).expect("there is only one");
        assert_eq!(
            baseline.values(0, "time"),
            Some(&[900_000, 1_000_000, 1_100_000][..])
        );
    }
}
