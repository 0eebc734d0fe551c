// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands compared with a baseline, or with the first of them: the rows that every form of the result shows.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::document::{BenchDocument, BenchEntry};
use super::figures::{Change, change};
use super::numbers::{shown_change, shown_interval, shown_mean, shown_spread};
use crate::system::exit::Usage;

/// The numbers of an earlier `pmctl bench --save`.
pub(super) struct Baseline {
    pub(super) file: PathBuf,
    pub(super) document: BenchDocument,
    /// For each command the index of its entry in the document.
    entries: Vec<usize>,
}

impl Baseline {
    /// Finds each command's entry: that of the same name, or the only one if there is one command and one entry.
    pub(super) fn new((file, document): (&Path, BenchDocument), names: &[&str]) -> Result<Self> {
        let entry = |name: &&str| {
            let same = document
                .commands
                .iter()
                .position(|old| old.command == **name);
            let is_only = names.len() == 1 && document.commands.len() == 1;
            same.or(is_only.then_some(0)).ok_or_else(|| {
                let known: Vec<&str> = document
                    .commands
                    .iter()
                    .map(|old| &old.command[..])
                    .collect();
                Usage(format!(
                    "--baseline: `{name}` is not in it; it has `{}`.",
                    known.join("`, `")
                ))
            })
        };
        let entries = names.iter().map(entry).collect::<Result<_, _>>()?;
        Ok(Self {
            file: file.to_owned(),
            document,
            entries,
        })
    }

    /// Returns the command of the baseline's only entry, if another one is measured.
    pub(super) fn other_command(&self, measured: &BenchDocument) -> Option<&str> {
        let old = &self.document.commands.get(*self.entries.first()?)?.command;
        let is_same = measured.commands.first()?.command == *old;
        (!is_same).then_some(old)
    }

    /// Returns the numbers of an event in a command's entry; `None` if the event was not counted then.
    fn values(&self, command: usize, event: &str) -> Option<&[u64]> {
        let entry: &BenchEntry = self.document.commands.get(*self.entries.get(command)?)?;
        Some(&entry.values[self.document.index(event)?])
    }
}

/// The numbers of this run, and the baseline that they are compared with; without one, the first command is it.
pub(super) struct Compared<'a> {
    pub(super) measured: &'a BenchDocument,
    pub(super) baseline: Option<&'a Baseline>,
}

/// One event of one command.
pub(super) struct ChangeRow<'a> {
    pub(super) event: &'a str,
    /// The index of the command.
    pub(super) index: usize,
    pub(super) command: &'a str,
    /// The number of each run.
    pub(super) values: &'a [u64],
    /// The numbers are nanoseconds.
    pub(super) is_time: bool,
    /// `None` if there is nothing to compare with, as for the first command.
    pub(super) change: Option<Change>,
}

impl<'a> Compared<'a> {
    /// Returns the numbers of an event that those of a command are compared with; `None` if there are none, as for the
    /// first command.
    pub(super) fn reference_values(&self, command: usize, event: usize) -> Option<&'a [u64]> {
        match self.baseline {
            Some(baseline) => baseline.values(command, &self.measured.events[event]),
            None if command == 0 => None,
            None => Some(&self.measured.commands[0].values[event]),
        }
    }

    /// Returns a row for each command, event by event.
    pub(super) fn rows(&self) -> impl Iterator<Item = ChangeRow<'a>> {
        let events = self.measured.events.iter().enumerate();
        events.flat_map(move |(event, name)| {
            let commands = self.measured.commands.iter().enumerate();
            commands.map(move |(index, entry)| {
                let values = &entry.values[event];
                ChangeRow {
                    event: name,
                    index,
                    command: &entry.command,
                    values,
                    is_time: self.measured.is_time(event),
                    change: self
                        .reference_values(index, event)
                        .map(|before| change(before, values)),
                }
            })
        })
    }
}

impl ChangeRow<'_> {
    /// Returns the cells that people read: mean, spread, change, and the interval of the change.
    pub(super) fn cells(&self) -> [String; 4] {
        [
            shown_mean(self.is_time, self.values),
            shown_spread(self.values),
            self.change.map_or_else(String::new, shown_change),
            self.change.map_or_else(String::new, shown_interval),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::bench::testing;

    #[test]
    fn a_baseline_is_found_by_name_or_is_the_only_entry() {
        let mut old = testing::document();
        let file = Path::new("old.json");
        let names = ["./new", "./old 'a b'"];
        let baseline = Baseline::new((file, old.clone()), &names).expect("it has both");
        assert_eq!(
            baseline.values(0, "instructions:u"),
            Some(&[1020, 1020, 1020][..])
        );
        assert_eq!(
            baseline.values(1, "instructions:u"),
            Some(&[1000, 1000, 1000][..])
        );
        assert_eq!(baseline.values(0, "cycles"), None);
        assert!(Baseline::new((file, old.clone()), &["./other"]).is_err());
        old.commands.truncate(1);
        let only = Baseline::new((file, old), &["./other"]).expect("there is only one");
        assert_eq!(
            only.values(0, "time"),
            Some(&[900_000, 1_000_000, 1_100_000][..])
        );
    }
}
