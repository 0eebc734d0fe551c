// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts with the counters of all CPUs: every task that runs there is counted.

use std::io;
use std::time::Duration;

use anyhow::Result;
use perfmon::spec::EventSpec;
use perfmon::{Cause, Counter, Error, Pmu, Session};

use super::source::{ColumnCount, CountSource, Summands};
use crate::args::Stat;
use crate::commands::stat::column::Column;
use crate::commands::stat::explain::explain;
use crate::commands::stat::runs::split_runs::TooManyEvents;
use crate::commands::stat::scope::{self, CountedPlace, CpuSplit};
use crate::events::cpus::Cpus;
use crate::events::rights;
use crate::events::schedule::{CounterSupply, schedule};
use crate::system::exit::{self, Usage};
use crate::system::machine::Machine;

/// Opens a counter of all CPUs for each event, and sets up the columns of the report.
pub(in crate::commands::stat) fn open_counters(
    args: &Stat,
    (session, events): (&Session, Vec<EventSpec>),
    online: &[usize],
    (machine, pmu): (&Machine, &Pmu),
) -> Result<AllCpus> {
    if events.iter().any(|event| event.group.is_some()) {
        return Err(Usage(
            "-a, -C: the driver reads the counters of CPUs one after the other, so that they make no group.\n\
             Write the events without the braces: all of them count all the time."
                .to_owned(),
        )
        .into());
    }
    let supply = CounterSupply::free(session.device(), pmu);
    let columns = assign_counters(events, supply)?;
    let set_up_counter = |Column { event, counter, .. }: &Column| {
        let counter = counter.map(|id| session.counter(id, event.select_on(id)));
        let counter = counter.transpose();
        counter.map_err(|error| rights::with_cpu_counting_advice(&error, &event.label))
    };
    let counters = columns
        .iter()
        .map(set_up_counter)
        .collect::<Result<Vec<Option<Counter>>>>()?;
    if args.explain {
        // The explanation goes to standard error: a program may read the counts from standard
        // output.
        explain(&mut io::stderr(), &columns, &counters, (machine, pmu))?;
    }
    let all_cpus: Vec<usize> = match &args.cpu {
        Some(cpus) => cpus.iter().map(|cpu| cpu as usize).collect(),
        None => online.to_vec(),
    };
    let split = CpuSplit::from_args(args);
    let places: Vec<(Option<CountedPlace>, Option<Cpus>, usize)> = match split {
        Some(split) => {
            let parts = scope::split_cpus(&all_cpus, split).into_iter();
            parts
                .map(|(place, cpus)| (Some(place), Some(cpus.clone()), cpus.len()))
                .collect()
        }
        None => vec![(None, args.cpu.clone(), all_cpus.len())],
    };
    let mut source = AllCpus {
        counters,
        column_sources: Vec::new(),
        columns: Vec::new(),
    };
    for (place, cpus, cpu_count) in places {
        for (index, column) in columns.iter().enumerate() {
            let cpu_count = u32::try_from(cpu_count).unwrap_or(u32::MAX);
            source.column_sources.push((index, cpus.clone(), cpu_count));
            source.columns.push(Column {
                place: place.clone(),
                event_index: index,
                event: column.event.clone(),
                counter: column.counter,
                unit: None,
            });
        }
    }
    Ok(source)
}

/// Returns a column for each event, with a counter if the CPU has the event.
pub(in crate::commands::stat) fn assign_counters(
    events: Vec<EventSpec>,
    supply: CounterSupply,
) -> Result<Vec<Column>> {
    let present_events: Vec<EventSpec> =
        events.iter().filter(|e| !e.is_absent()).cloned().collect();
    let counters =
        schedule(&present_events, supply).map_err(|error| TooManyEvents::between_events(&error))?;
    let mut counters = counters.into_iter();
    let column = |(event_index, event): (usize, EventSpec)| Column {
        place: None,
        event_index,
        counter: if event.is_absent() {
            None
        } else {
            counters.next()
        },
        unit: None,
        event,
    };
    Ok(events.into_iter().enumerate().map(column).collect())
}

/// The counters of all CPUs, and the columns of the report.
pub(in crate::commands::stat) struct AllCpus {
    counters: Vec<Option<Counter>>,
    /// For each column the index of its counter, the CPUs that are summed up (`None` for all), and their number.
    column_sources: Vec<(usize, Option<Cpus>, u32)>,
    columns: Vec<Column>,
}

impl AllCpus {
    /// Calls `call` for each counter, in their order.
    fn for_each_counter(&self, call: impl Fn(&Counter) -> Result<(), Error>) -> Result<()> {
        let mut counters = self.counters.iter().flatten();
        counters.try_for_each(call).map_err(exit::with_help)
    }
}

impl CountSource for AllCpus {
    fn prepare(&mut self, _: Option<u32>) -> Result<()> {
        self.for_each_counter(Counter::reset)
    }

    fn columns(&self) -> Vec<Column> {
        self.columns.clone()
    }

    fn start(&mut self) -> Result<()> {
        self.for_each_counter(Counter::start)
    }

    fn stop(&mut self) -> Result<()> {
        self.for_each_counter(|counter| match counter.stop() {
            // The counter is stopped all the same, and `read` leaves out its count.
            Err(error) if error.cause == Cause::Untrusted => Ok(()),
            result => result,
        })
    }

    fn read(&self, elapsed: Duration) -> Result<Summands> {
        let count_of_column = |(index, cpus, cpu_count): &(usize, Option<Cpus>, u32)| {
            let Some(counter) = &self.counters[*index] else {
                return Ok(None);
            };
            let running_time = elapsed * *cpu_count;
            match sum_counts(counter, cpus.as_ref()) {
                Ok(value) => Ok(Some(vec![ColumnCount::whole(value, running_time)])),
                Err(error) if error.cause == Cause::Untrusted => Ok(None),
                Err(error) => Err(exit::with_help(error)),
            }
        };
        self.column_sources.iter().map(count_of_column).collect()
    }
}

/// Returns the sum of a counter's counts on `cpus`, or on all CPUs.
fn sum_counts(counter: &Counter, cpus: Option<&Cpus>) -> Result<u64, Error> {
    let Some(cpus) = cpus else {
        return counter.read();
    };
    cpus.ranges().try_fold(0, |sum, range| {
        Ok(sum + counter.read_on(range)?.into_iter().sum::<u64>())
    })
}
