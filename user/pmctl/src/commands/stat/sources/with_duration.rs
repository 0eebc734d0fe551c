// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adds [the duration of the count](crate::events::duration) to a source of counts.

use std::time::Duration;

use anyhow::Result;

use super::source::{ColumnCount, CountSource, Reasons, Summands};
use crate::args::Stat;
use crate::commands::stat::column::Column;
use crate::commands::stat::unit::ColumnUnit;
use crate::events::duration::DURATION;
use crate::events::linux_pmu::Scale;
use crate::system::exit::Usage;

/// Refuses options that split the counts by place, or that need several runs.
pub(in crate::commands::stat) fn refuse_impossible_options(
    args: &Stat,
    has_duration: bool,
    runs_per_count: usize,
) -> Result<(), Usage> {
    match args.splitting_option(runs_per_count) {
        Some(option) if has_duration => Err(Usage(format!(
            "{option}: {DURATION} is one number for each run. Leave out the option or the event."
        ))),
        _ => Ok(()),
    }
}

/// The duration of the count, and the source that counts the other events.
pub(in crate::commands::stat) struct WithDuration {
    counts: Box<dyn CountSource>,
}

impl WithDuration {
    pub(in crate::commands::stat) fn new(counts: Box<dyn CountSource>) -> Self {
        Self { counts }
    }
}

impl CountSource for WithDuration {
    fn prepare(&mut self, command: Option<u32>) -> Result<()> {
        self.counts.prepare(command)
    }

    fn columns(&self) -> Vec<Column> {
        let mut columns = self.counts.columns();
        let nanoseconds = ColumnUnit::Scaled(Scale {
            factor: 1.0,
            unit: "ns".to_owned(),
        });
        let index = columns.len();
        columns.push(Column::of_linux(
            index,
            DURATION.to_owned(),
            None,
            Some(nanoseconds),
        ));
        columns
    }

    fn start(&mut self) -> Result<()> {
        self.counts.start()
    }

    fn stop(&mut self) -> Result<()> {
        self.counts.stop()
    }

    fn read(&self, elapsed: Duration) -> Result<Summands> {
        let mut counts = self.counts.read(elapsed)?;
        let nanoseconds = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        counts.push(Some(vec![ColumnCount::whole(nanoseconds, elapsed)]));
        Ok(counts)
    }

    fn uncounted_reasons(&self) -> Result<Reasons> {
        let mut reasons = self.counts.uncounted_reasons()?;
        reasons.push(None);
        Ok(reasons)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source without events.
    struct Nothing;

    impl CountSource for Nothing {
        fn prepare(&mut self, _: Option<u32>) -> Result<()> {
            Ok(())
        }

        fn columns(&self) -> Vec<Column> {
            Vec::new()
        }

        fn start(&mut self) -> Result<()> {
            Ok(())
        }

        fn stop(&mut self) -> Result<()> {
            Ok(())
        }

        fn read(&self, _: Duration) -> Result<Summands> {
            Ok(Summands::new())
        }
    }

    #[test]
    fn the_duration_is_in_nanoseconds() {
        let source = WithDuration::new(Box::new(Nothing));
        let elapsed = Duration::from_micros(1500);
        let counts = source.read(elapsed).expect("nothing fails");
        let count = ColumnCount::whole(1_500_000, elapsed);
        assert_eq!(counts, [Some(vec![count])]);
        let columns = source.columns();
        let unit = columns[0].unit.as_ref().expect("it has one");
        assert_eq!(
            (unit.number_text(count.value), unit.name()),
            ("1500000".to_owned(), "ns")
        );
        assert_eq!(source.uncounted_reasons().ok(), Some(vec![None]));
    }
}
