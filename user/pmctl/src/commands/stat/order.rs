// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order of the columns: that of -e, whatever counts them.

use std::time::Duration;

use anyhow::Result;

use super::Column;
use super::source::{CountSource, Counts, Uncounted};
use crate::args::Stat;
use crate::events::software::{self, Software};
use crate::events::values::{self, Value};

/// A place among the columns: how many events are in front, and how many words are.
type ColumnPosition = (usize, usize);

/// Returns the place of a value or of an event of the kernel's in what -e asks for. Events have none of their own: they
/// are where their number says.
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

/// Returns the places of the kernel's events and the values.
fn column_positions(
    texts: &[String],
    software: &[Software],
    values: &[Value],
) -> Vec<ColumnPosition> {
    let events = software
        .iter()
        .map(|event| column_position(texts, |word| software::find(word) == Some(*event)));
    let is = |value: &Value, word: &str| values::find(word).is_some_and(|v| v.name == value.name);
    let values = values
        .iter()
        .map(|value| column_position(texts, |word| is(value, word)));
    events.chain(values).collect()
}

/// Returns a source with its columns in the order of -e. `source` has those of the kernel's events and the values last.
pub(super) fn in_event_order(
    args: &Stat,
    (software, values): (&[Software], &[Value]),
    source: Box<dyn CountSource>,
) -> Box<dyn CountSource> {
    let places = column_positions(&args.events, software, values);
    Box::new(Ordered { source, places })
}

/// A source whose last columns have places of their own.
struct Ordered {
    source: Box<dyn CountSource>,
    places: Vec<ColumnPosition>,
}

impl Ordered {
    /// Sorts what there is one of for each column.
    fn sort<T>(&self, items: Vec<T>) -> Vec<T> {
        let events = items.len().saturating_sub(self.places.len());
        let of_events = (0..events).map(|number| (number, usize::MAX));
        let places = of_events.chain(self.places.iter().copied());
        let mut all: Vec<(ColumnPosition, T)> = places.zip(items).collect();
        all.sort_by_key(|(place, _)| *place);
        all.into_iter().map(|(_, item)| item).collect()
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

    /// Has these columns, and as a count the number of each.
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
        // As the sources append them: the kernel's, then values. The cycles are of another option.
        let (rest, values) = values::split(&texts);
        let (_, software) = software::split(&rest);
        let appended = ["task-clock", "cs:u", "page-faults", "energy-pkg"];
        let mut all = columns(events);
        all.extend(appended.iter().map(|name| {
            let mut column = columns("r1").remove(0);
            column.event.label = (*name).to_owned();
            column
        }));
        let places = column_positions(&texts, &software, &values);
        let source = Ordered {
            source: Box::new(Fixed(all)),
            places,
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
