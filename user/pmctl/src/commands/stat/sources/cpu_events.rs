// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of CPUs that take turns (--multiplex), that only one kind of core has, or that need an extra register: each
//! CPU has events of its own. The driver's counters of all CPUs can't take turns, count the same event on all CPUs, and
//! have no extra register.

use std::time::Duration;

use anyhow::{Result, anyhow};
use perfmon::event::{Builder, GroupBuilder};
use perfmon::spec::EventSpec;
use perfmon::{Cause, Device, Encoding, Error, Group, Pmu};

use super::source::{ColumnCount, CountSource, Counts, Summands};
use super::tasks::{conflict, groups, mark_or_split, open_on_each};
use crate::args::Stat;
use crate::commands::stat::column::Column;
use crate::commands::stat::runs::split_runs::TooManyEvents;
use crate::commands::stat::scope::{self, CountedPlace, CpuSplit};
use crate::events::cpus::Cpus;
use crate::events::{rights, schedule};
use crate::system::exit::{self, Usage};

/// Returns whether `events` are counted by [`CpuEvents`], and not by counters of all CPUs.
pub(in crate::commands::stat) fn needs_cpu_events(
    args: &Stat,
    events: &[EventSpec],
    pmu: &Pmu,
) -> bool {
    // A session has all counters of all CPUs, and only one program at a time can have one. So without events no session
    // is opened.
    let needs_event = |event| is_kind_specific(event, pmu) || needs_register(event);
    args.multiplex || events.is_empty() || events.iter().any(needs_event)
}

/// Returns whether an event needs an extra register, which counters of all CPUs don't have.
fn needs_register(event: &EventSpec) -> bool {
    matches!(event.encoding, Some(Encoding::RawWithRegister(..)))
}

/// Returns whether an event has different event selects on the kinds of cores, or exists on one kind only.
fn is_kind_specific(event: &EventSpec, pmu: &Pmu) -> bool {
    let is_hybrid = !pmu.core_kinds().is_empty();
    let has_select = matches!(
        event.encoding,
        Some(Encoding::Raw(_) | Encoding::RawWithRegister(..) | Encoding::Cache(_))
    );
    event.core_type.is_some() || is_hybrid && has_select
}

/// Events of CPUs.
pub(in crate::commands::stat) struct CpuEvents {
    device: Device,
    /// The events take turns if the counters are too few.
    multiplex: bool,
    events: Vec<EventSpec>,
    /// The names that the user gave to the events.
    names: Vec<String>,
    cpus: Cpus,
    /// The sums that are reported: each has a place, and the CPUs whose counts are added up. A single sum of all CPUs
    /// has no place.
    summed_cpus: Vec<(Option<CountedPlace>, Cpus)>,
    /// The open groups of each CPU, in the order of `cpus`. Empty before the first run.
    open_groups: Vec<Vec<CpuGroup>>,
}

/// An open group, or a single event, and the indices of its events.
struct CpuGroup {
    group: Group,
    events: Vec<usize>,
}

/// A group that could not be opened, and the reason. If the reason is that there is no such event,
/// all CPUs have refused the group.
struct RefusedCpuGroup {
    error: Error,
    /// The events of the group.
    members: Vec<usize>,
}

impl CpuEvents {
    /// Prepares `events` without opening them yet. They will count on the CPUs of -C; without it, on those of `online`.
    pub(in crate::commands::stat) fn new(
        args: &Stat,
        events: Vec<EventSpec>,
        online: &[usize],
    ) -> Result<Self> {
        refuse_chosen_counters(args, &events)?;
        let cpus = scope::counted_cpus(args, online);
        let summed_cpus = match CpuSplit::from_args(args) {
            None => vec![(None, cpus.clone())],
            Some(split) => {
                let cpu_indices: Vec<usize> = cpus.iter().map(|cpu| cpu as usize).collect();
                let summed_cpus = scope::split_cpus(&cpu_indices, split).into_iter();
                summed_cpus
                    .map(|(place, cpus)| (Some(place), cpus))
                    .collect()
            }
        };
        Ok(Self {
            device: Device::open().map_err(exit::with_help)?,
            multiplex: args.multiplex,
            names: events.iter().map(|event| event.label.clone()).collect(),
            events,
            cpus,
            summed_cpus,
            open_groups: Vec::new(),
        })
    }

    /// Opens all events on each CPU, except those that the driver can't count.
    fn open_events(&mut self) -> Result<()> {
        loop {
            match self.open_all() {
                Ok(open_groups) => {
                    self.open_groups = open_groups;
                    return Ok(());
                }
                Err(refused) => self.drop_refused(refused)?,
            }
        }
    }

    /// Opens all events on each CPU that has them. Returns the open groups of each CPU.
    fn open_all(&self) -> Result<Vec<Vec<CpuGroup>>, RefusedCpuGroup> {
        let mut open_groups: Vec<Vec<CpuGroup>> = self.cpus.iter().map(|_| Vec::new()).collect();
        for members in groups(&self.events) {
            for (opened, group) in open_groups.iter_mut().zip(self.open_on_cpus(&members)?) {
                opened.extend(group);
            }
        }
        Ok(open_groups)
    }

    /// Opens some events as a group on each CPU. Returns `None` for a CPU that does not have them.
    fn open_on_cpus(&self, members: &[usize]) -> Result<Vec<Option<CpuGroup>>, RefusedCpuGroup> {
        let opened = open_on_each(self.cpus.iter(), |cpu| self.open_group(cpu, members));
        opened.map_err(|error| RefusedCpuGroup {
            error,
            members: members.to_vec(),
        })
    }

    /// Opens some events as a group on a CPU; `None` if there is nothing to open.
    fn open_group(&self, cpu: u32, members: &[usize]) -> Result<Option<CpuGroup>, Error> {
        let mut builders = members.iter().filter_map(|index| self.builder(*index));
        let Some(leader) = builders.next() else {
            return Ok(None);
        };
        let leader = leader.all_tasks().cpu(cpu).disabled();
        let leader = if self.multiplex {
            leader.rotate()
        } else {
            leader
        };
        let group = builders.fold(Group::of(leader), GroupBuilder::and);
        Ok(Some(CpuGroup {
            group: group.open_on(&self.device)?,
            events: members.to_vec(),
        }))
    }

    /// Returns the event to open; `None` if the CPU lacks it. Error messages have the name that the user gave.
    fn builder(&self, index: usize) -> Option<Builder> {
        let event = self.events[index].builder()?;
        Some(event.label(&self.names[index]))
    }

    /// Finds the events of a refused group that the driver can't count, and marks them as unsupported, as perf does.
    /// The other events can then be opened.
    ///
    /// # Errors
    /// The reason for the refusal, if no single event is its cause.
    fn drop_refused(&mut self, refused: RefusedCpuGroup) -> Result<()> {
        let RefusedCpuGroup { error, members } = refused;
        match error.cause {
            Cause::NoSuchEvent | Cause::NotSupported => {
                let error_by_itself =
                    |index: &usize| Some((*index, self.open_on_cpus(&[*index]).err()?.error));
                let unsupported = members.iter().filter_map(error_by_itself).collect();
                if mark_or_split(&mut self.events, &members, unsupported) {
                    return Ok(());
                }
            }
            Cause::NoFreeCounter(_) => {
                if let Some(conflict) = conflict(&self.device, &self.events) {
                    return Err(TooManyEvents::between_events(&conflict).into());
                }
                return Err(TooManyEvents::from_driver(&exit::with_help(error)).into());
            }
            Cause::Forbidden => return Err(anyhow!(rights::all_programs_advice("count"))),
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

    /// Returns the place and the event of each column. An event has a column for each place with a CPU on which it is
    /// open; an absent event has a column for each place.
    fn places_of_events(&self) -> impl Iterator<Item = (&(Option<CountedPlace>, Cpus), usize)> {
        let events = 0..self.events.len();
        let all = self.summed_cpus.iter().flat_map(move |place| {
            let events = events.clone();
            events.map(move |event| (place, event))
        });
        all.filter(|((_, cpus), event)| {
            self.events[*event].is_absent() || self.open_on(cpus, *event).next().is_some()
        })
    }

    /// Returns the indices of those of `cpus` on which the event is open.
    fn open_on(&self, cpus: &Cpus, event: usize) -> impl Iterator<Item = usize> {
        let is_wanted = move |cpu: u32| cpus.iter().any(|wanted| wanted == cpu);
        let all_cpus = self.cpus.iter().zip(&self.open_groups).enumerate();
        let cpus = all_cpus.filter(move |(_, (cpu, groups))| {
            is_wanted(*cpu) && groups.iter().any(|group| group.events.contains(&event))
        });
        cpus.map(|(index, _)| index)
    }

    /// Returns the counts of one CPU, one for each event; `None` for events that were missed or that are not open.
    fn counts(&self, opened: &[CpuGroup]) -> Result<Counts> {
        let mut counts = vec![None; self.events.len()];
        for CpuGroup { group, events } in opened {
            let group_counts = match group.read() {
                Ok(group_counts) => group_counts,
                Err(error) if error.cause == Cause::Missed => continue,
                Err(error) => return Err(exit::with_help(error)),
            };
            for (position, index) in events.iter().enumerate() {
                let (value, ran) = (group_counts[position], group_counts.running);
                counts[*index] = Some(if self.multiplex {
                    ColumnCount::of_turns(value, ran, group_counts.enabled)
                } else {
                    ColumnCount::without_turns(value, ran, group_counts.enabled)
                });
            }
        }
        Ok(counts)
    }
}

/// Refuses events that need a counter of the user's choice, and --explain.
fn refuse_chosen_counters(args: &Stat, events: &[EventSpec]) -> Result<(), Usage> {
    let (which, advice) = if args.multiplex {
        (
            "events that take turns",
            "Leave out --multiplex or the event.",
        )
    } else {
        (
            "events that the kinds of cores count differently",
            "Leave out the counter, or count the event in another run.",
        )
    };
    if args.explain {
        return Err(Usage(format!(
            "--explain: the driver chooses the counters of {which}. Leave out one of the two."
        )));
    }
    for event in events {
        let why = if event.pinned.is_some() {
            format!(
                "{}: the driver chooses the counters of {which}.",
                event.label
            )
        } else if event.needs_own_counter_choice {
            schedule::counter_choice_message(event)
        } else {
            continue;
        };
        let option = if args.multiplex {
            "--multiplex"
        } else {
            "-a, -C"
        };
        return Err(Usage(format!("{option}: {why} {advice}")));
    }
    Ok(())
}

impl CountSource for CpuEvents {
    fn prepare(&mut self, _: Option<u32>) -> Result<()> {
        // The times of an event can't be set back to 0, so each run opens new events.
        self.open_groups.clear();
        self.open_events()
    }

    fn columns(&self) -> Vec<Column> {
        let columns = self.places_of_events();
        let columns = columns.map(|((place, _), event_index)| Column {
            place: place.clone(),
            event_index,
            event: self.events[event_index].clone(),
            counter: None,
            unit: None,
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
        let counts = self.places_of_events().map(|((_, cpus), event)| {
            let counts = self.open_on(cpus, event).map(|cpu| cpu_counts[cpu][event]);
            let counts: Option<Vec<ColumnCount>> = counts.collect();
            counts.filter(|counts| !counts.is_empty())
        });
        Ok(counts.collect())
    }
}
