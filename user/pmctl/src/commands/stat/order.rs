// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sorts the columns into the order of -e, whether the driver or the kernel counts them.

use std::time::Duration;

use anyhow::Result;

use super::Column;
use super::source::{CountSource, Counts, Uncounted};
use crate::args::Stat;
use crate::events::software::{self, Software};
use crate::events::values::{self, Value};

/// A position in -e: the number of the driver's events before it, and the number of all words before it.
type ColumnPosition = (usize, usize);

/// Returns the position of the value or software event that `is_it` recognizes. `texts` are the arguments of -e. The
/// driver's events need no search: their index is their position.
fn column_position(texts: &[String], is_it: impl Fn(&str) -> bool) -> ColumnPosition {
    let (mut events, mut words) = (0, 0);
    for text in texts {
        let mut in_slashes = false;
        for word in text.split(',') {
            if !in_slashes && is_it(word) {
                return (events, words);
            }
            words += 1;
            // `cpu/event=1,umask=2/` is one event of two words.
            if !in_slashes && !values::is_value(word) && !software::is_software(word) {
                events += 1;
            }
            in_slashes ^= word.matches('/').count() % 2 == 1;
        }
    }
    (events, words)
}

/// Returns the positions of the software events, and then of the values.
fn column_positions(
    texts: &[String],
    software: &[Software],
    values: &[Value],
) -> Vec<ColumnPosition> {
    let events = software
        .iter()
        .map(|event| column_position(texts, |word| software::find(word) == Some(*event)));
    let is_same_value =
        |value: &Value, word: &str| values::find(word).is_some_and(|v| v.name == value.name);
    let values = values
        .iter()
        .map(|value| column_position(texts, |word| is_same_value(value, word)));
    events.chain(values).collect()
}

/// Returns `source` with its columns in the order of -e. The last columns of `source` must be those of the software
/// events and of the values.
pub(super) fn in_event_order(
    args: &Stat,
    (software, values): (&[Software], &[Value]),
    source: Box<dyn CountSource>,
) -> Box<dyn CountSource> {
    let positions = column_positions(&args.events, software, values);
    Box::new(Ordered { source, positions })
}

/// A source whose columns are sorted into the order of -e.
struct Ordered {
    source: Box<dyn CountSource>,
    /// The positions of the last columns: software events and values.
    positions: Vec<ColumnPosition>,
}

impl Ordered {
    /// Sorts `items`, one for each column of `source`, into the order of -e.
    fn sort<T>(&self, items: Vec<T>) -> Vec<T> {
        let events = items.len().saturating_sub(self.positions.len());
        let event_positions = (0..events).map(|number| (number, usize::MAX));
        let positions = event_positions.chain(self.positions.iter().copied());
        let mut positioned: Vec<(ColumnPosition, T)> = positions.zip(items).collect();
        positioned.sort_by_key(|(position, _)| *position);
        positioned.into_iter().map(|(_, item)| item).collect()
    }
}

impl CountSource for Ordered {
    fn prepare(&mut self, command: Option<u32>) -> Result<()> {
        self.source.prepare(command)
    }

    fn columns(&self) -> Vec<Column> {
        self.sort(self.source.columns())
    }

    fn start(&mut self) -> Result<()> {
        self.source.start()
    }

    fn stop(&mut self) -> Result<()> {
        self.source.stop()
    }

    fn read(&self, elapsed: Duration) -> Result<Counts> {
        Ok(self.sort(self.source.read(elapsed)?))
    }

    fn uncounted(&self) -> Result<Option<Uncounted>> {
        self.source.uncounted()
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::ColumnCount;
    use super::super::testing::columns;
    use super::*;

    /// A source with these columns; the count of a column is its index.
    struct Fixed(Vec<Column>);

    impl CountSource for Fixed {
        fn prepare(&mut self, _: Option<u32>) -> Result<()> {
            Ok(())
        }

        fn columns(&self) -> Vec<Column> {
            self.0.clone()
        }

        fn start(&mut self) -> Result<()> {
            Ok(())
        }

        fn stop(&mut self) -> Result<()> {
            Ok(())
        }

        fn read(&self, ran: Duration) -> Result<Counts> {
            let values = 0..self.0.len() as u64;
            Ok(values
                .map(|value| Some(ColumnCount::whole(value, ran)))
                .collect())
        }
    }

    #[test]
    fn columns_have_the_order_of_the_command_line() {
        let texts = [
            "task-clock,cpu/event=0xc0,umask=0/,power/energy-pkg/,cs:u",
            "{instructions,branches},page-faults",
        ]
        .map(str::to_owned);
        let events = "cpu/event=0xc0,umask=0/,instructions,branches,cycles";
        // Sources append software events and then values. `cycles` stands for an event of another option.
        let (rest, values) = values::split(&texts);
        let (_, software) = software::split(&rest);
        let appended = ["task-clock", "cs:u", "page-faults", "energy-pkg"];
        let mut all = columns(events);
        all.extend(appended.iter().map(|name| {
            let mut column = columns("r1").remove(0);
            column.event.label = (*name).to_owned();
            column
        }));
        let positions = column_positions(&texts, &software, &values);
        let source = Ordered {
            source: Box::new(Fixed(all)),
            positions,
        };
        let labels: Vec<String> = source
            .columns()
            .into_iter()
            .map(|column| column.event.label)
            .collect();
        assert_eq!(
            labels,
            [
                "task-clock",
                "cpu/event=0xc0,umask=0/",
                "energy-pkg",
                "cs:u",
                "instructions",
                "branches",
                "page-faults",
                "cycles"
            ]
        );
        let counts = source.read(Duration::ZERO).expect("nothing fails");
        let values: Vec<u64> = counts.iter().flatten().map(|count| count.value).collect();
        assert_eq!(values, [4, 0, 7, 5, 1, 2, 6, 3]);
    }
}
