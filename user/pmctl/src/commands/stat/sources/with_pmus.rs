// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adds [events of Linux's other PMUs](crate::events::linux_pmu) to a source of counts.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use nix::errno::Errno;
use perfmon_core::logic::event_attr::PerfEventAttr;

use super::source::{ColumnCount, CountSource, Reasons, Summands, Uncounted};
use crate::args::Stat;
use crate::commands::stat::column::Column;
use crate::commands::stat::scope::{self, CountedPlace, CpuSplit};
use crate::commands::stat::unit::ColumnUnit;
use crate::events::cpus::Cpus;
use crate::events::linux_pmu::{Encoding, PmuEvent};
use crate::events::perf_event::CountingEvent;
use crate::events::rights;
use crate::system::exit::{self, Usage};

/// Refuses counts of tasks, several runs, and CPUs of -C on which Linux does not read the PMU of an event.
pub(in crate::commands::stat) fn refuse_impossible_options(
    args: &Stat,
    events: &[PmuEvent],
    parts: usize,
) -> Result<(), Usage> {
    let Some(PmuEvent { label, pmu, .. }) = events.first() else {
        return Ok(());
    };
    if !args.has_cpus() {
        let reason = match events[0].cpus() {
            Some(_) => "counts for a whole socket or the whole machine, whatever runs there",
            None => "is counted by Linux, which pmctl asks for whole CPUs",
        };
        return Err(Usage(format!(
            "-e {label}: `{pmu}` {reason}; a command or a process has no count of its own.\n\
             Count the whole system, also while a command runs: `pmctl stat -a -e {label} -- COMMAND`."
        )));
    }
    if parts > 1 {
        return Err(Usage(format!(
            "{}, -r: {label} is counted once, and the other events take {parts} runs. Leave out one of the two, or count \
             fewer events.",
            args.metrics_option()
        )));
    }
    for event in events {
        let (Some(chosen), Some(readable)) = (&args.cpu, event.cpus()) else {
            continue;
        };
        if chosen.intersection(&readable).len() == 0 {
            return Err(Usage(format!(
                "-C {chosen}: {} is read on CPU {readable} only, for all others. Write `-C {readable}`, or -a.",
                event.label
            )));
        }
    }
    Ok(())
}

/// Events of Linux's PMUs, and the source that counts the other events.
pub(in crate::commands::stat) struct WithPmus {
    counts: Box<dyn CountSource>,
    events: Vec<PmuEvent>,
    columns: Vec<PmuColumn>,
    /// Events take turns if the counters of a PMU are too few. Otherwise, an event without a counter is not counted.
    multiplex: bool,
}

/// A column: an event in a place.
struct PmuColumn {
    /// The index of the event.
    event: usize,
    place: Option<CountedPlace>,
    /// The encodings of the event, each with the CPUs that it is counted on.
    targets: Vec<(Encoding, Cpus)>,
    /// The open events. Empty before the first run.
    open_events: Vec<CountingEvent>,
}

impl WithPmus {
    /// Prepares `events` without opening them yet. They will count on the CPUs of -C; without it, on those of `online`.
    pub(in crate::commands::stat) fn new(
        args: &Stat,
        events: Vec<PmuEvent>,
        online: &[usize],
        counts: Box<dyn CountSource>,
    ) -> Self {
        let wanted_cpus = scope::counted_cpus(args, online);
        let split = CpuSplit::from_args(args);
        let mut columns = Vec::new();
        for (index, event) in events.iter().enumerate() {
            let cpus_of = |encoding: &Encoding| match &encoding.cpus {
                Some(readable) => readable.intersection(&wanted_cpus),
                None => wanted_cpus.clone(),
            };
            let encodings: Vec<(Encoding, Cpus)> = event
                .encodings
                .iter()
                .map(|encoding| (encoding.clone(), cpus_of(encoding)))
                .collect();
            let column = |place, targets| PmuColumn {
                event: index,
                place,
                targets,
                open_events: Vec::new(),
            };
            let Some(split) = split else {
                columns.push(column(None, encodings));
                continue;
            };
            let cpus = Cpus::new(encodings.iter().flat_map(|(_, cpus)| cpus.iter()).collect());
            let cpus: Vec<usize> = cpus.iter().map(|cpu| cpu as usize).collect();
            for (place, cpus) in scope::split_cpus(&cpus, split) {
                let of_place =
                    |(encoding, on): &(Encoding, Cpus)| (encoding.clone(), on.intersection(&cpus));
                columns.push(column(
                    Some(place),
                    encodings.iter().map(of_place).collect(),
                ));
            }
        }
        Self {
            counts,
            events,
            columns,
            multiplex: args.multiplex,
        }
    }

    /// Opens the events of a column.
    fn open_column(&self, column: &PmuColumn) -> Result<Vec<CountingEvent>> {
        let PmuEvent { label, pmu, .. } = &self.events[column.event];
        let mut open_events = Vec::new();
        for (encoding, cpus) in &column.targets {
            let [config, config1, config2, config3, config4] = encoding.configs;
            let attr = PerfEventAttr {
                type_: encoding.number,
                config,
                config1,
                config2,
                config3,
                config4,
                // A pinned event has its counter all the time, or no count.
                flags: if self.multiplex {
                    0
                } else {
                    PerfEventAttr::PINNED
                },
                ..PerfEventAttr::ZERO
            };
            for cpu in cpus.iter() {
                const ALL_TASKS: i32 = -1;
                let number = i32::try_from(cpu).unwrap_or(i32::MAX);
                let event = CountingEvent::open(attr, ALL_TASKS, number);
                open_events.push(event.map_err(|errno| match errno {
                    Errno::EACCES | Errno::EPERM => anyhow!(rights::all_programs_advice("count")),
                    Errno::EMFILE | Errno::ENFILE => {
                        exit::no_descriptor(&format!("can't count {label} on CPU {cpu}"))
                    }
                    errno => anyhow!(
                        "Linux's PMU `{pmu}` can't count {label} on CPU {cpu}: {}.\n`pmctl list pmus {pmu}` shows its \
                         events and fields.",
                        errno.desc()
                    ),
                })?);
            }
        }
        Ok(open_events)
    }

    fn for_each_open(&self, call: fn(&CountingEvent) -> nix::Result<()>) -> Result<()> {
        for event in self.columns.iter().flat_map(|column| &column.open_events) {
            call(event).context("can't start or stop an event of Linux's")?;
        }
        Ok(())
    }

    /// Returns the counts whose sum is the count of a column; `None` if Linux had no counter for an
    /// event.
    fn read_column(column: &PmuColumn) -> Result<Option<Vec<ColumnCount>>> {
        let mut counts = Vec::new();
        for event in &column.open_events {
            let reading = event.read().context("can't read an event of Linux's")?;
            let Some(reading) = reading else {
                return Ok(None);
            };
            let [ran, enabled] = [reading.running, reading.enabled].map(Duration::from_nanos);
            counts.push(ColumnCount::of_turns(reading.count, ran, enabled));
        }
        Ok(Some(counts))
    }
}

impl CountSource for WithPmus {
    fn prepare(&mut self, command: Option<u32>) -> Result<()> {
        self.counts.prepare(command)?;
        for index in 0..self.columns.len() {
            // Closes the events of the previous run first, since their counters are needed again.
            self.columns[index].open_events.clear();
        }
        for index in 0..self.columns.len() {
            self.columns[index].open_events = self.open_column(&self.columns[index])?;
        }
        Ok(())
    }

    fn columns(&self) -> Vec<Column> {
        let mut columns = self.counts.columns();
        let first_index = columns
            .iter()
            .map(|column| column.event_index + 1)
            .max()
            .unwrap_or(0);
        columns.extend(self.columns.iter().map(|column| {
            let event = &self.events[column.event];
            Column::of_linux(
                first_index + column.event,
                event.label.clone(),
                column.place.clone(),
                event.scale.clone().map(ColumnUnit::Scaled),
            )
        }));
        columns
    }

    fn start(&mut self) -> Result<()> {
        self.for_each_open(CountingEvent::enable)?;
        self.counts.start()
    }

    fn stop(&mut self) -> Result<()> {
        self.counts.stop()?;
        self.for_each_open(CountingEvent::disable)
    }

    fn read(&self, elapsed: Duration) -> Result<Summands> {
        let mut counts = self.counts.read(elapsed)?;
        for column in &self.columns {
            counts.push(Self::read_column(column)?);
        }
        Ok(counts)
    }

    fn uncounted_reasons(&self) -> Result<Reasons> {
        let mut reasons = self.counts.uncounted_reasons()?;
        for column in &self.columns {
            let is_counted = Self::read_column(column)?.is_some();
            reasons.push((!is_counted).then_some(Uncounted::NoPmuCounter));
        }
        Ok(reasons)
    }
}
