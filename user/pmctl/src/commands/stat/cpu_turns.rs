// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of CPUs that take turns (--multiplex): each CPU has events of its own, since the driver's counters of all CPUs
//! can't take turns.

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
    /// The names that the user gave to the events.
    names: Vec<String>,
    cpus: Cpus,
    /// The CPUs of each sum, and its place; no place if all CPUs are one sum.
    parts: Vec<(Option<CountedPlace>, Cpus)>,
    /// The open groups of each CPU, in the order of `cpus`. Empty before the first run.
    open_groups: Vec<Vec<CpuGroup>>,
}

/// An open group, or a single event, and the indices of its events.
struct CpuGroup {
    group: Group,
    events: Vec<usize>,
}

/// A group that could not be opened, and the reason.
struct RefusedGroup {
    error: Error,
    cpu: u32,
    /// The events of the group.
    members: Vec<usize>,
}

impl CpuTurns {
    /// Prepares `events` without opening them yet. They will count on the CPUs of -C; without it, on those of `online`.
    pub(super) fn new(args: &Stat, events: Vec<EventSpec>, online: &[usize]) -> Result<Self> {
        refuse_chosen_counters(&events)?;
        let cpus = scope::counted_cpus(args, online);
        let parts = match CpuSplit::of(args) {
            None => vec![(None, cpus.clone())],
            Some(split) => {
                let cpu_indices: Vec<usize> = cpus.iter().map(|cpu| cpu as usize).collect();
                let parts = scope::split_cpus(&cpu_indices, split).into_iter();
                parts.map(|(place, cpus)| (Some(place), cpus)).collect()
            }
        };
        Ok(Self {
            device: Device::open().map_err(exit::with_help)?,
            names: events.iter().map(|event| event.label.clone()).collect(),
            events,
            cpus,
            parts,
            open_groups: Vec::new(),
        })
    }

    /// Opens all events on each CPU, but those that the driver can't count.
    fn open_events(&mut self) -> Result<()> {
        // Each event takes a descriptor for each CPU.
        allow_many_files();
        loop {
            let open_groups: Result<Vec<_>, RefusedGroup> =
                self.cpus.iter().map(|cpu| self.open_on(cpu)).collect();
            match open_groups {
                Ok(open_groups) => {
                    self.open_groups = open_groups;
                    return Ok(());
                }
                Err(refused) => self.drop_refused(refused)?,
            }
        }
    }

    /// Opens all events on a CPU.
    fn open_on(&self, cpu: u32) -> Result<Vec<CpuGroup>, RefusedGroup> {
        let mut open_groups = Vec::new();
        for members in groups(&self.events, false) {
            let mut builders = members.iter().filter_map(|index| self.builder(*index));
            let Some(leader) = builders.next() else {
                continue;
            };
            let group = builders.fold(Group::of(leader_on(cpu, leader)), GroupBuilder::and);
            match group.open_on(&self.device) {
                Ok(group) => open_groups.push(CpuGroup {
                    group,
                    events: members,
                }),
                Err(error) => {
                    return Err(RefusedGroup {
                        error,
                        cpu,
                        members,
                    });
                }
            }
        }
        Ok(open_groups)
    }

    /// Returns the event to open; `None` if the CPU lacks it. Error messages have the name that the user gave.
    fn builder(&self, index: usize) -> Option<Builder> {
        let event = self.events[index].builder()?;
        Some(event.label(&self.names[index]))
    }

    /// Marks the events of a refused group that the driver can't count as unsupported, as perf does, so that the others
    /// can be opened.
    ///
    /// # Errors
    /// The reason for the refusal, if no single event is its cause.
    fn drop_refused(&mut self, refused: RefusedGroup) -> Result<()> {
        let RefusedGroup {
            error,
            cpu,
            members,
        } = refused;
        match error.cause {
            Cause::NoSuchEvent | Cause::NotSupported => {
                let error_by_itself = |index: usize| {
                    let builder = leader_on(cpu, self.builder(index)?);
                    builder.open_on(&self.device).err()
                };
                let unsupported: Vec<(usize, Error)> = members
                    .into_iter()
                    .filter_map(|index| Some((index, error_by_itself(index)?)))
                    .collect();
                if mark_unsupported(&mut self.events, unsupported) {
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

    /// Calls `call` for each open group.
    fn for_each_group(&self, call: impl Fn(&Group) -> Result<(), Error>) -> Result<()> {
        let mut groups = self.open_groups.iter().flatten();
        groups
            .try_for_each(|opened| call(&opened.group))
            .map_err(exit::with_help)
    }

    /// Returns the counts of one CPU, one for each event.
    fn counts(&self, opened: &[CpuGroup]) -> Result<Counts> {
        let mut counts = vec![None; self.events.len()];
        for CpuGroup { group, events } in opened {
            let group_counts = match group.read() {
                Ok(group_counts) => group_counts,
                Err(error) if error.cause == Cause::Missed => continue,
                Err(error) => return Err(exit::with_help(error)),
            };
            for (place, index) in events.iter().enumerate() {
                counts[*index] = Some(ColumnCount::of_turns(
                    group_counts[place],
                    group_counts.running,
                    group_counts.enabled,
                ));
            }
        }
        Ok(counts)
    }
}

/// Returns the event with its CPU, as one that takes turns.
fn leader_on(cpu: u32, event: Builder) -> Builder {
    event.all_tasks().cpu(cpu).disabled().rotate()
}

/// Refuses events that need a counter of the user's choice.
fn refuse_chosen_counters(events: &[EventSpec]) -> Result<(), Usage> {
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
        self.open_groups.clear();
        self.open_events()
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
        let cpu_counts = self.open_groups.iter().map(|opened| self.counts(opened));
        let cpu_counts: Vec<Counts> = cpu_counts.collect::<Result<_>>()?;
        let mut counts = Summands::new();
        for (_, cpus) in &self.parts {
            let is_in = |cpu: u32| cpus.iter().any(|known| known == cpu);
            let part_counts = self.cpus.iter().zip(&cpu_counts);
            let part_counts = part_counts.filter(|(cpu, _)| is_in(*cpu));
            let part_counts: Vec<Counts> = part_counts.map(|(_, counts)| counts.clone()).collect();
            counts.extend(summands(&part_counts, self.events.len()));
        }
        Ok(counts)
    }
}
