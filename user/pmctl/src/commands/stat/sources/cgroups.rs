// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of cgroups, on all CPUs or on those of -C: an event of a cgroup has one descriptor for all CPUs, or one for
//! each CPU of -C.

use std::time::Duration;

use anyhow::Result;
use perfmon::event::{Builder, Cgroup, Counts as GroupCounts, GroupBuilder};
use perfmon::spec::EventSpec;
use perfmon::{Cause, Device, Error, Group};

use super::cgroup_use::{CgroupUse, NamedCgroup, left_out_message};
use super::source::{ColumnCount, CountSource, Summands};
use super::tasks::{conflict, group_the_ungrouped, groups, mark_or_split, open_on_each};
use crate::commands::stat::column::Column;
use crate::commands::stat::runs::split_runs::TooManyEvents;
use crate::commands::stat::scope::{CountedPlace, PlaceKind};
use crate::events::cgroups::concerns_one_cgroup;
use crate::events::cpus::Cpus;
use crate::events::rights;
use crate::events::schedule;
use crate::system::exit::{self, Usage};
use crate::system::stdio::complain;

/// The counts of events in cgroups.
pub(in crate::commands::stat) struct CgroupCounts {
    device: Device,
    events: Vec<EventSpec>,
    /// The names that the user gave to the events.
    names: Vec<String>,
    cgroups: Vec<CountedCgroup>,
    /// The source counts all events of the command line. Otherwise other runs count the other events, and all runs must
    /// have the same cgroups.
    has_all_events: bool,
    /// The CPUs of -C, each with descriptors of its own; a single `None` counts all CPUs together.
    cpus: Vec<Option<u32>>,
    /// The open groups of each cgroup on each CPU. Empty before the first run.
    open_groups: Vec<OpenGroup>,
}

/// A cgroup and its events.
struct CountedCgroup {
    name: String,
    cgroup: Cgroup,
    is_from_pattern: bool,
    events: Vec<usize>,
}

/// A group of a cgroup, on one CPU or on all.
struct OpenGroup {
    group: Group,
    /// Index of the cgroup.
    cgroup: usize,
    /// Indices of the events.
    events: Vec<usize>,
    /// The times of earlier runs, with a count of 0: a reset keeps the times.
    earlier_runs: ColumnCount,
}

impl OpenGroup {
    /// Returns the group's counts; `None` if events were missed.
    fn read(&self) -> Result<Option<GroupCounts>> {
        match self.group.read() {
            Ok(counts) => Ok(Some(counts)),
            Err(error) if error.cause == Cause::Missed => Ok(None),
            Err(error) => Err(exit::with_help(error)),
        }
    }
}

/// A group that could not be opened, and the reason. If the reason is that there is no such event,
/// all CPUs have refused the group.
struct RefusedCgroupGroup {
    error: Error,
    cgroup: usize,
    /// The events of the group.
    members: Vec<usize>,
}

impl CgroupCounts {
    /// Prepares `events`, and opens none yet. `preceding` is the number of other events before `events` on the command
    /// line; `has_all_events` is true if the command line has no other events.
    pub(in crate::commands::stat) fn new(
        mut events: Vec<EventSpec>,
        cgroups: &CgroupUse,
        (preceding, has_all_events): (usize, bool),
        cpus: Option<&Cpus>,
    ) -> Result<Self> {
        refuse_chosen_counters(&events)?;
        if has_all_events {
            cgroups.check_event_count(preceding + events.len())?;
        }
        let to_counted_cgroup = |(cgroup, events): (&NamedCgroup, Vec<usize>)| CountedCgroup {
            name: cgroup.name.clone(),
            cgroup: cgroup.cgroup.clone(),
            is_from_pattern: cgroup.is_from_pattern,
            events,
        };
        let cgroups = cgroups
            .with_event_indices(&events, preceding)?
            .into_iter()
            .map(to_counted_cgroup)
            .collect();
        group_the_ungrouped(&mut events);
        Ok(Self {
            device: Device::open().map_err(exit::with_help)?,
            names: events.iter().map(|event| event.label.clone()).collect(),
            cgroups,
            has_all_events,
            events,
            cpus: cpus.map_or_else(|| vec![None], |cpus| cpus.iter().map(Some).collect()),
            open_groups: Vec::new(),
        })
    }

    /// Opens all events except those that the driver can't count.
    fn open_events(&mut self) -> Result<()> {
        loop {
            match self.open_all() {
                Ok(groups) => {
                    self.open_groups = groups;
                    return Ok(());
                }
                Err(refused) => self.drop_refused(refused)?,
            }
        }
    }

    fn open_all(&self) -> Result<Vec<OpenGroup>, RefusedCgroupGroup> {
        let mut open_groups = Vec::new();
        for (index, cgroup) in self.cgroups.iter().enumerate() {
            for members in self.groups_of(cgroup) {
                open_groups.extend(self.open_on_cpus(index, &members)?);
            }
        }
        Ok(open_groups)
    }

    /// Opens some events as a group on each CPU that has them.
    fn open_on_cpus(
        &self,
        cgroup: usize,
        members: &[usize],
    ) -> Result<Vec<OpenGroup>, RefusedCgroupGroup> {
        let refused = |error| RefusedCgroupGroup {
            error,
            cgroup,
            members: members.to_vec(),
        };
        let opened = open_on_each(&self.cpus, |cpu| self.open_group(cgroup, *cpu, members));
        Ok(opened.map_err(refused)?.into_iter().flatten().collect())
    }

    /// Returns the groups of a cgroup, as indices of their events.
    fn groups_of(&self, cgroup: &CountedCgroup) -> Vec<Vec<usize>> {
        let events: Vec<EventSpec> = cgroup
            .events
            .iter()
            .map(|index| self.events[*index].clone())
            .collect();
        let to_event_indices = |members: Vec<usize>| {
            members
                .iter()
                .map(|member| cgroup.events[*member])
                .collect()
        };
        groups(&events).into_iter().map(to_event_indices).collect()
    }

    /// Opens some events as a group; `None` if there is nothing to open.
    fn open_group(
        &self,
        cgroup: usize,
        cpu: Option<u32>,
        members: &[usize],
    ) -> Result<Option<OpenGroup>, Error> {
        let mut builders = members.iter().filter_map(|index| self.builder(*index));
        let Some(leader) = builders.next() else {
            return Ok(None);
        };
        let leader = self.leader(leader, cgroup, cpu);
        let group = builders.fold(Group::of(leader), GroupBuilder::and);
        Ok(Some(OpenGroup {
            group: group.open_on(&self.device)?,
            cgroup,
            events: members.to_vec(),
            earlier_runs: ColumnCount::default(),
        }))
    }

    /// Returns the event to open; `None` if the CPU lacks it. Error messages have the name that the user gave.
    fn builder(&self, index: usize) -> Option<Builder> {
        let event = self.events[index].builder()?;
        Some(event.label(&self.names[index]))
    }

    /// Returns the event with its cgroup and CPU.
    fn leader(&self, event: Builder, cgroup: usize, cpu: Option<u32>) -> Builder {
        let event = event.cgroup(&self.cgroups[cgroup].cgroup).disabled();
        match cpu {
            Some(cpu) => event.cpu(cpu),
            None => event,
        }
    }

    /// Finds the events of a refused group that the driver can't count, and marks them as unsupported, as perf does.
    /// The other events can then be opened. If the cgroup is the reason for the refusal, and a pattern matches it,
    /// drops the cgroup: it may have been removed meanwhile.
    ///
    /// # Errors
    /// The reason for the refusal, if no single event is its cause.
    fn drop_refused(&mut self, refused: RefusedCgroupGroup) -> Result<()> {
        let RefusedCgroupGroup {
            error,
            cgroup,
            members,
        } = refused;
        let may_drop = self.has_all_events && self.cgroups[cgroup].is_from_pattern;
        if may_drop && concerns_one_cgroup(&error) {
            complain(left_out_message(1, &error));
            self.cgroups.remove(cgroup);
            if !self.cgroups.is_empty() {
                return Ok(());
            }
        }
        match &error.cause {
            Cause::NoSuchEvent | Cause::NotSupported => {
                let error_by_itself = |index: &usize| {
                    Some((*index, self.open_on_cpus(cgroup, &[*index]).err()?.error))
                };
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
            Cause::Forbidden => return Err(rights::cgroups_forbidden("count")),
            _ => {}
        }
        Err(exit::with_help(error))
    }

    /// Calls `call` for each open group.
    fn for_each_group(&self, call: impl Fn(&Group) -> Result<(), Error>) -> Result<()> {
        let mut groups = self.open_groups.iter();
        groups
            .try_for_each(|opened| call(&opened.group))
            .map_err(exit::with_help)
    }

    /// Returns the index of each cgroup's first count in the list of all counts.
    fn first_columns(&self) -> Vec<usize> {
        let mut next = 0;
        let start = |cgroup: &CountedCgroup| {
            let start = next;
            next += cgroup.events.len();
            start
        };
        self.cgroups.iter().map(start).collect()
    }
}

impl CountSource for CgroupCounts {
    fn prepare(&mut self, _: Option<u32>) -> Result<()> {
        if self.open_groups.is_empty() {
            return self.open_events();
        }
        self.for_each_group(Group::reset)?;
        for opened in &mut self.open_groups {
            if let Some(counts) = opened.read()? {
                opened.earlier_runs = ColumnCount::without_turns(0, counts.running, counts.enabled);
            }
        }
        Ok(())
    }

    fn columns(&self) -> Vec<Column> {
        let column = |(cgroup, index): (&CountedCgroup, usize)| Column {
            place: Some(CountedPlace {
                name: cgroup.name.clone(),
                kind: PlaceKind::Cgroup,
            }),
            event_index: index,
            event: self.events[index].clone(),
            counter: None,
            unit: None,
        };
        let repeated = |cgroup| std::iter::repeat(cgroup);
        self.cgroups
            .iter()
            .flat_map(|cgroup| repeated(cgroup).zip(cgroup.events.iter().copied()))
            .map(column)
            .collect()
    }

    fn start(&mut self) -> Result<()> {
        self.for_each_group(Group::enable)
    }

    fn stop(&mut self) -> Result<()> {
        self.for_each_group(Group::disable)
    }

    fn read(&self, _: Duration) -> Result<Summands> {
        let first_columns = self.first_columns();
        let columns = self.cgroups.iter().map(|cgroup| cgroup.events.len()).sum();
        let mut sums = vec![Sum::Nothing; columns];
        for opened in &self.open_groups {
            let counts = opened.read()?;
            let cgroup_events = &self.cgroups[opened.cgroup].events;
            for (position, event) in opened.events.iter().enumerate() {
                let Some(offset) = cgroup_events.iter().position(|index| index == event) else {
                    continue;
                };
                // The driver's counts only grow: one that falls can't be trusted.
                let count = counts.as_ref().and_then(|counts| {
                    ColumnCount::without_turns(counts[position], counts.running, counts.enabled)
                        .since(opened.earlier_runs)
                        .ok()
                });
                sums[first_columns[opened.cgroup] + offset].add(count);
            }
        }
        let counts = sums.into_iter().map(Sum::total);
        Ok(counts.map(|count| Some(vec![count?])).collect())
    }
}

/// Refuses events that need a counter of the user's choice.
fn refuse_chosen_counters(events: &[EventSpec]) -> Result<(), Usage> {
    for event in events {
        if event.pinned.is_some() {
            let label = &event.label;
            return Err(Usage(format!(
                "{label}: the driver chooses the counters of cgroups. Leave out the counter."
            )));
        }
        if event.needs_own_counter_choice {
            return Err(Usage(format!(
                "{} It can't be counted in a cgroup.",
                schedule::counter_choice_message(event)
            )));
        }
    }
    Ok(())
}

/// The sum of counts of several CPUs. There is no sum if a CPU has no count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sum {
    Nothing,
    Known(ColumnCount),
    Missed,
}

impl Sum {
    fn add(&mut self, count: Option<ColumnCount>) {
        *self = match (*self, count) {
            (Self::Missed, _) | (_, None) => Self::Missed,
            (Self::Nothing, Some(count)) => Self::Known(count),
            (Self::Known(sum), Some(count)) => Self::Known(sum.plus(count)),
        }
    }

    fn total(self) -> Option<ColumnCount> {
        match self {
            Self::Known(count) => Some(count),
            Self::Nothing | Self::Missed => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroup_has_no_count_if_a_cpu_has_none() {
        let count = |value| Some(ColumnCount::whole(value, Duration::from_millis(value)));
        let sum = |counts: &[Option<ColumnCount>]| {
            let mut sum = Sum::Nothing;
            counts.iter().for_each(|count| sum.add(*count));
            sum.total()
        };
        assert_eq!(sum(&[count(3), count(4)]), count(7));
        assert_eq!(sum(&[count(3), None, count(4)]), None);
        assert_eq!(sum(&[]), None);
    }
}
