// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of CPUs that take turns, which the driver's counters of all CPUs can't: each CPU has its own.

use std::time::Duration;

use anyhow::{Result, anyhow};
use perfmon::event::{Builder, GroupBuilder};
use perfmon::spec::EventSpec;
use perfmon::{Cause, Device, Error, Group};

use super::Column;
use super::scope::{self, CountedPlace, CpuSplit};
use super::source::{ColumnCount, CountSource, Counts, Summands};
use super::tasks::{conflict, groups, mark_unsupported, summands};
use super::turns::TooMany;
use crate::args::Stat;
use crate::events::cpus::Cpus;
use crate::events::{rights, schedule};
use crate::system::exit::{self, Usage};
use crate::system::files::allow_many_files;

/// Events of CPUs that take turns.
pub(super) struct CpuTurns {
    device: Device,
    events: Vec<EventSpec>,
    /// The names that the events were asked for by.
    names: Vec<String>,
    cpus: Cpus,
    /// The CPUs that are summed up, and where they are if not all are one sum.
    parts: Vec<(Option<CountedPlace>, Cpus)>,
    /// The groups of each CPU, in the order of `cpus`. Empty before the first run.
    open: Vec<Vec<CpuGroup>>,
}

/// A group, or an event alone, and which events these are.
struct CpuGroup {
    group: Group,
    events: Vec<usize>,
}

/// Why a group could not be opened.
struct Refused {
    error: Error,
    cpu: u32,
    /// The events of the group.
    members: Vec<usize>,
}

impl CpuTurns {
    /// Takes the events, which count on the CPUs of `online` that -C has, if it is there.
    pub(super) fn new(args: &Stat, events: Vec<EventSpec>, online: &[usize]) -> Result<Self> {
        refuse_chosen(&events)?;
        let cpus = scope::counted_cpus(args, online);
        let parts = match CpuSplit::of(args) {
            None => vec![(None, cpus.clone())],
            Some(split) => {
                let all: Vec<usize> = cpus.iter().map(|cpu| cpu as usize).collect();
                let parts = scope::split_cpus(&all, split).into_iter();
                parts.map(|(place, cpus)| (Some(place), cpus)).collect()
            }
        };
        Ok(Self {
            device: Device::open().map_err(exit::with_help)?,
            names: events.iter().map(|event| event.label.clone()).collect(),
            events,
            cpus,
            parts,
            open: Vec::new(),
        })
    }

    /// Opens all events on each CPU, without what is refused.
    fn open(&mut self) -> Result<()> {
        // Each event takes one for each CPU.
        allow_many_files();
        loop {
            let open: Result<Vec<_>, Refused> =
                self.cpus.iter().map(|cpu| self.open_on(cpu)).collect();
            match open {
                Ok(open) => {
                    self.open = open;
                    return Ok(());
                }
                Err(refused) => self.drop_refused(refused)?,
            }
        }
    }

    /// Opens all events on a CPU.
    fn open_on(&self, cpu: u32) -> Result<Vec<CpuGroup>, Refused> {
        let mut open = Vec::new();
        for members in groups(&self.events, false) {
            let mut builders = members.iter().filter_map(|index| self.builder(*index));
            let Some(leader) = builders.next() else {
                continue;
            };
            let group = builders.fold(Group::of(leader_on(cpu, leader)), GroupBuilder::and);
            match group.open_on(&self.device) {
                Ok(group) => open.push(CpuGroup {
                    group,
                    events: members,
                }),
                Err(error) => {
                    return Err(Refused {
                        error,
                        cpu,
                        members,
                    });
                }
            }
        }
        Ok(open)
    }

    /// Returns the event to open; `None` if it is absent. Errors call it what it was asked for.
    fn builder(&self, index: usize) -> Option<Builder> {
        let event = self.events[index].builder()?;
        Some(event.label(&self.names[index]))
    }

    /// Does without an event that the driver can't count, as perf does.
    ///
    /// # Errors
    /// The reason, if there is nothing to do without.
    fn drop_refused(&mut self, refused: Refused) -> Result<()> {
        let Refused {
            error,
            cpu,
            members,
        } = refused;
        match error.cause {
            Cause::NoSuchEvent | Cause::NotSupported => {
                let alone = |index: usize| {
                    let builder = leader_on(cpu, self.builder(index)?);
                    builder.open_on(&self.device).err()
                };
                let lost: Vec<(usize, Error)> = members
                    .into_iter()
                    .filter_map(|index| Some((index, alone(index)?)))
                    .collect();
                if mark_unsupported(&mut self.events, lost) {
                    return Ok(());
                }
            }
            Cause::NoFreeCounter(_) => {
                if let Some(conflict) = conflict(&self.device, &self.events) {
                    return Err(TooMany::of_cpus(&conflict).into());
                }
                return Err(TooMany::of_tasks(&exit::with_help(error)).into());
            }
            Cause::Forbidden => return Err(anyhow!(rights::of_all_programs("count"))),
            _ => {}
        }
        Err(exit::with_help(error))
    }

    /// Makes one call for each group.
    fn for_each_group(&self, call: impl Fn(&Group) -> Result<(), Error>) -> Result<()> {
        let mut groups = self.open.iter().flatten();
        groups
            .try_for_each(|opened| call(&opened.group))
            .map_err(exit::with_help)
    }

    /// Returns the counts of a CPU, for each event.
    fn counts(&self, opened: &[CpuGroup]) -> Result<Counts> {
        let mut counts = vec![None; self.events.len()];
        for CpuGroup { group, events } in opened {
            let read = match group.read() {
                Ok(read) => read,
                Err(error) if error.cause == Cause::Missed => continue,
                Err(error) => return Err(exit::with_help(error)),
            };
            for (place, index) in events.iter().enumerate() {
                counts[*index] = Some(ColumnCount {
                    value: read[place],
                    ran: read.running,
                    enabled: read.enabled,
                });
            }
        }
        Ok(counts)
    }
}

/// Returns the event with its CPU; it takes turns.
fn leader_on(cpu: u32, event: Builder) -> Builder {
    event.all_tasks().cpu(cpu).disabled().rotate()
}

/// Refuses events that need a counter of the user's choice.
fn refuse_chosen(events: &[EventSpec]) -> Result<(), Usage> {
    for event in events {
        let why = if event.pinned.is_some() {
            format!(
                "{}: the driver chooses the counters of events that take turns.",
                event.label
            )
        } else if event.needs_choice {
            schedule::needs_choice(event)
        } else {
            continue;
        };
        return Err(Usage(format!(
            "--multiplex: {why} Leave out --multiplex, or the event."
        )));
    }
    Ok(())
}

impl CountSource for CpuTurns {
    fn prepare(&mut self, _: Option<u32>) -> Result<()> {
        // The times of an event can't be set back: each run has events of its own.
        self.open.clear();
        self.open()
    }

    fn columns(&self) -> Vec<Column> {
        let columns = self.parts.iter().flat_map(|(place, _)| {
            let events = self.events.iter().enumerate();
            events.map(|(number, event)| Column {
                place: place.clone(),
                event_index: number,
                event: event.clone(),
                counter: None,
                unit: None,
            })
        });
        columns.collect()
    }

    fn start(&mut self) -> Result<()> {
        self.for_each_group(Group::enable)
    }

    fn stop(&mut self) -> Result<()> {
        self.for_each_group(Group::disable)
    }

    fn read(&self, _: Duration) -> Result<Summands> {
        let of_cpus = self.open.iter().map(|opened| self.counts(opened));
        let of_cpus: Vec<Counts> = of_cpus.collect::<Result<_>>()?;
        let mut counts = Summands::new();
        for (_, cpus) in &self.parts {
            let is_in = |cpu: u32| cpus.iter().any(|known| known == cpu);
            let of_part = self.cpus.iter().zip(&of_cpus);
            let of_part = of_part.filter(|(cpu, _)| is_in(*cpu));
            let of_part: Vec<Counts> = of_part.map(|(_, counts)| counts.clone()).collect();
            counts.extend(summands(&of_part, self.events.len()));
        }
        Ok(counts)
    }
}
