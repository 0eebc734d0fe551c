// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sorts the columns into the order of -e, whether the driver or the kernel counts them.

use std::time::Duration;

use anyhow::Result;

use perfmon::Pmu;

use super::others::OtherEvents;
use super::source::{CountSource, Reasons, Summands};
use crate::commands::stat::column::Column;
use crate::commands::stat::scope::CountedPlace;
use crate::events::duration::is_duration;
use crate::events::values::{self, Value};
use crate::events::words::words;
use crate::events::{linux_pmu, software};

/// A position in -e: the number of the driver's events before it, and the number of all words before it.
type ColumnPosition = (usize, usize);

/// Returns whether a word asks for an event of the driver.
fn is_of_driver(word: &str, cores: &Pmu) -> bool {
    !values::is_value(word)
        && !software::is_software(word)
        && !linux_pmu::is_pmu_event(word, cores)
        && !is_duration(word)
}

/// Returns the words of -e with their positions. The driver's events need no position, since their columns are in the order of
/// -e already.
fn words_with_positions<'a>(texts: &'a [String], cores: &Pmu) -> Vec<(&'a str, ColumnPosition)> {
    let mut driver_events = 0;
    let words = texts.iter().flat_map(|text| words(text));
    words
        .enumerate()
        .map(|(before, word)| {
            let position = (driver_events, before);
            driver_events += usize::from(is_of_driver(word, cores));
            (word, position)
        })
        .collect()
}

/// Returns the positions of the software events, of the events of Linux's PMUs, of the values, and of the duration, in the
/// order in which the sources append them.
fn column_positions(
    texts: &[String],
    other_events: &OtherEvents,
    cores: &Pmu,
) -> Vec<ColumnPosition> {
    let words = words_with_positions(texts, cores);
    let position = |is_wanted: &dyn Fn(&str) -> bool| {
        let found = words.iter().find(|(word, _)| is_wanted(word));
        // An event that is not in -e is there for a metric of -M.
        found.map_or((usize::MAX, words.len()), |(_, position)| *position)
    };
    let software = other_events.software.iter();
    let software = software.map(|event| position(&|word| software::find(word) == Some(*event)));
    let pmus = other_events.pmus.iter();
    let pmus = pmus.map(|event| position(&|word| word.trim() == event.word));
    let is_value =
        |value: &Value, word: &str| values::find(word).is_some_and(|v| v.name == value.name);
    let values = other_events.values.iter();
    let values = values.map(|value| position(&|word| is_value(value, word)));
    let duration = other_events.has_duration.then(|| position(&is_duration));
    software.chain(pmus).chain(values).chain(duration).collect()
}

/// Returns `source` with its columns in the order of -e; the columns of a CPU, core or socket stay together. `source` has
/// software events, PMU events, values and the duration after the driver's events.
pub(in crate::commands::stat) fn in_event_order(
    texts: &[String],
    other_events: &OtherEvents,
    cores: &Pmu,
    source: Box<dyn CountSource>,
) -> Box<dyn CountSource> {
    if other_events.is_empty() {
        return source;
    }
    let positions = column_positions(texts, other_events, cores);
    Box::new(Ordered { source, positions })
}

/// A source whose columns are sorted into the order of -e.
struct Ordered {
    source: Box<dyn CountSource>,
    /// The positions of the last columns: software events, events of Linux's PMUs, values, and the duration.
    positions: Vec<ColumnPosition>,
}

impl Ordered {
    /// Sorts `items`, one for each column of `source`, into the order of -e.
    fn sort<T>(&self, items: Vec<T>) -> Vec<T> {
        let columns = self.source.columns();
        let event_count = columns.iter().map(|column| column.event_index + 1).max();
        let driver_events = event_count
            .unwrap_or(0)
            .saturating_sub(self.positions.len());
        let mut parts: Vec<&Option<CountedPlace>> = Vec::new();
        let mut keys = Vec::new();
        for column in &columns {
            let index = parts.iter().position(|part| **part == column.place);
            let part = index.unwrap_or(parts.len());
            if index.is_none() {
                parts.push(&column.place);
            }
            let other_index = column.event_index.checked_sub(driver_events);
            let position = other_index.and_then(|index| self.positions.get(index));
            keys.push((
                part,
                position
                    .copied()
                    .unwrap_or((column.event_index, usize::MAX)),
            ));
        }
        let mut keyed_items: Vec<_> = keys.into_iter().zip(items).collect();
        keyed_items.sort_by_key(|(key, _)| *key);
        keyed_items.into_iter().map(|(_, item)| item).collect()
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

    fn read(&self, elapsed: Duration) -> Result<Summands> {
        Ok(self.sort(self.source.read(elapsed)?))
    }

    fn uncounted_reasons(&self) -> Result<Reasons> {
        Ok(self.sort(self.source.uncounted_reasons()?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::ColumnCount;
    use super::*;
    use crate::commands::stat::testing::columns;
    use perfmon::Modes;

    use crate::events::linux_pmu::PmuEvent;
    use crate::system::pmu::testing;

    /// A source with these columns; the count of a column is its index.
    struct FixedColumns(Vec<Column>);

    impl CountSource for FixedColumns {
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

        fn read(&self, ran: Duration) -> Result<Summands> {
            let values = 0..self.0.len() as u64;
            Ok(values
                .map(|value| Some(vec![ColumnCount::whole(value, ran)]))
                .collect())
        }
    }

    #[test]
    fn columns_have_the_order_of_the_command_line() {
        let texts = [
            "task-clock,cpu/event=0xc0,umask=0/,power/energy-pkg/,cs:u",
            "{instructions,branches},msr/event=1,config1=2/,duration_time,page-faults",
        ]
        .map(str::to_owned);
        let events = "cpu/event=0xc0,umask=0/,instructions,branches,cycles";
        let cores = testing::intel();
        // The order in which the sources append: software events, PMU events, values, then the duration. `cycles` comes
        // from another option.
        let (rest, values) = values::split(&texts);
        let (_, software) = software::split(&rest);
        let pmus = vec![PmuEvent {
            word: "msr/event=1,config1=2/".to_owned(),
            label: "msr".to_owned(),
            pmu: "msr".to_owned(),
            encodings: Vec::new(),
            scale: None,
            modes: Modes::Both,
            rate: None,
        }];
        let other_events = OtherEvents {
            software,
            values,
            pmus,
            has_duration: true,
        };
        let appended = [
            "task-clock",
            "cs:u",
            "page-faults",
            "msr",
            "energy-pkg",
            "duration_time",
        ];
        let mut all = columns(events);
        all.extend(appended.iter().zip(4..).map(|(name, number)| {
            let mut column = columns("r1").remove(0);
            column.event.label = (*name).to_owned();
            column.event_index = number;
            column
        }));
        let source = in_event_order(&texts, &other_events, &cores, Box::new(FixedColumns(all)));
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
                "msr",
                "duration_time",
                "page-faults",
                "cycles"
            ]
        );
        let counts = source.read(Duration::ZERO).expect("nothing fails");
        let values = counts.iter().flatten().flatten();
        let values: Vec<u64> = values.map(|count| count.value).collect();
        assert_eq!(values, [4, 0, 8, 5, 1, 2, 7, 9, 6, 3]);
    }
    #[test]
    fn columns_of_a_part_stand_together() {
        let texts = ["msr/tsc/,cycles".to_owned()];
        let other_events = OtherEvents {
            pmus: vec![PmuEvent {
                word: texts[0][..8].to_owned(),
                label: "tsc".to_owned(),
                pmu: "msr".to_owned(),
                encodings: Vec::new(),
                scale: None,
                modes: Modes::Both,
                rate: None,
            }],
            ..OtherEvents::default()
        };
        let column_of = |name: &str, (number, label): (usize, &str)| {
            let mut column = columns("cycles").remove(0);
            label.clone_into(&mut column.event.label);
            let kind = crate::commands::stat::scope::PlaceKind::Cpu;
            let name = name.to_owned();
            let place = Some(CountedPlace { name, kind });
            Column {
                place,
                event_index: number,
                ..column
            }
        };
        let all = vec![
            column_of("CPU0", (0, "cycles")),
            column_of("CPU1", (0, "cycles")),
            column_of("CPU0", (1, "tsc")),
            column_of("CPU1", (1, "tsc")),
        ];
        let source = in_event_order(
            &texts,
            &other_events,
            &testing::intel(),
            Box::new(FixedColumns(all)),
        );
        let columns = source.columns().into_iter();
        let labels = columns.map(|column| {
            let place = column.place.map_or_else(String::new, |place| place.name);
            format!("{place} {}", column.event.label)
        });
        assert_eq!(
            labels.collect::<Vec<_>>(),
            ["CPU0 tsc", "CPU0 cycles", "CPU1 tsc", "CPU1 cycles"]
        );
    }
}
