// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of tasks: of a command, of processes, of threads.

use std::time::Duration;

use anyhow::{Context, Result};
use perfmon::event::{Builder, Counts as GroupCounts, GroupBuilder};
use perfmon::spec::EventSpec;
use perfmon::{Cause, Device, Error, Group, Modes, Pmu};

use super::source::{ColumnCount, CountSource, Counts, Reasons, Summands, Uncounted};
use crate::args::Stat;
use crate::commands::stat::column::Column;
use crate::commands::stat::runs::split_runs::TooManyEvents;
use crate::commands::stat::scope::{CountedPlace, PlaceKind, Scope};
use crate::events::schedule::{self, CounterSupply, ScheduleError};
use crate::events::threads::{TaskList, Thread};
use crate::system::exit::{self, Usage};
use crate::{events::modes, events::rights};

/// The way in which events of tasks count.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub(in crate::commands::stat) struct CountingManner {
    /// Tasks that the counted tasks create are counted, too.
    pub(in crate::commands::stat) inherit: bool,
    /// Counting begins with the command's exec, and not when the counters are started.
    pub(in crate::commands::stat) begins_at_exec: bool,
    /// Each thread has columns of its own.
    pub(in crate::commands::stat) per_thread: bool,
    /// Events without a group become one group, so that an interval reads all of them at the same moment.
    pub(in crate::commands::stat) one_group: bool,
    /// Events take turns if the counters are too few.
    pub(in crate::commands::stat) multiplex: bool,
}

impl CountingManner {
    /// Returns the manner that the options ask for.
    pub(in crate::commands::stat) fn from_args(args: &Stat, scope: &Scope) -> Self {
        Self {
            inherit: !args.no_inherit,
            begins_at_exec: matches!(scope, Scope::Command) && args.delay().is_none(),
            per_thread: args.per_thread,
            // With --multiplex there is no common group: all its events would have counters at the
            // same time, or none would.
            one_group: args.interval.is_some() && !args.multiplex,
            multiplex: args.multiplex,
        }
    }
}

/// The lowest number of a group that pmctl itself makes, to read the events of the group at the same moment. Groups in
/// braces on the command line have lower numbers.
pub(in crate::commands::stat) const OWN_GROUPS: usize = usize::MAX / 2;

/// Events of tasks.
pub(in crate::commands::stat) struct TaskCounts {
    device: Device,
    events: Vec<EventSpec>,
    /// The names that the user gave to the events.
    names: Vec<String>,
    manner: CountingManner,
    /// The processes and threads of -p and -t; `None` for a command.
    task_list: Option<TaskList>,
    /// The threads of `task_list`.
    threads: Vec<Thread>,
    /// The open groups of each thread.
    open_groups: Vec<Vec<TaskGroup>>,
}

/// An open group, or a single event, and the indices of its events.
struct TaskGroup {
    group: Group,
    events: Vec<usize>,
}

/// A group that could not be opened, and the reason.
struct RefusedTaskGroup {
    error: Error,
    tid: u32,
    /// The events of the group.
    members: Vec<usize>,
}

impl TaskCounts {
    /// Prepares `events` without opening them yet.
    ///
    /// # Errors
    /// A usage error if an event needs a certain counter: the driver chooses the counters of tasks' events.
    pub(in crate::commands::stat) fn new(
        mut events: Vec<EventSpec>,
        scope: &Scope,
        manner: CountingManner,
    ) -> Result<Self> {
        let is_pinned = |event: &&EventSpec| event.pinned.is_some();
        if let Some(EventSpec {
            label,
            pinned: Some(counter),
            ..
        }) = events.iter().find(is_pinned)
        {
            return Err(Usage(format!(
                "{label}: {counter} can be chosen with -a or -C only; for a command, a process or a thread the driver \
                 chooses the counter. Leave out the counter, or add -a."
            ))
            .into());
        }
        if let Some(event) = events.iter().find(|event| event.needs_own_counter_choice) {
            return Err(Usage(format!(
                "{} Add -a, where pmctl chooses the counter.",
                schedule::counter_choice_message(event)
            ))
            .into());
        }
        if manner.one_group {
            group_the_ungrouped(&mut events);
        }
        let device = Device::open().map_err(exit::with_help)?;
        let (task_list, threads) = match scope {
            Scope::Tasks {
                task_list, threads, ..
            } => (Some(task_list.clone()), threads.clone()),
            _ => (None, Vec::new()),
        };
        Ok(Self {
            device,
            names: events.iter().map(|event| event.label.clone()).collect(),
            events,
            manner,
            task_list,
            threads,
            open_groups: Vec::new(),
        })
    }

    /// Closes the open events, since their counters are needed again. Then opens, for each of these threads, all events
    /// that the driver can count.
    fn reopen(&mut self, tids: &[u32]) -> Result<()> {
        self.open_groups.clear();
        loop {
            let refused_group = match self.open_all(tids) {
                Ok(groups) => {
                    self.open_groups = groups;
                    return Ok(());
                }
                Err(refused_group) => refused_group,
            };
            if !self.drop_refused(&refused_group) {
                return Err(self.error_of(refused_group));
            }
        }
    }

    /// Returns the error of a group that could not be opened, with advice.
    fn error_of(&self, refused: RefusedTaskGroup) -> anyhow::Error {
        let RefusedTaskGroup {
            error,
            tid,
            members,
        } = refused;
        let competing_events: Vec<usize> = match error.cause {
            Cause::NoFreeCounter(_) if !self.manner.multiplex => (0..self.events.len()).collect(),
            // A group needs all its counters at once. Groups that take turns don't compete with each other.
            Cause::NoFreeCounter(_) | Cause::NoSuchEvent => members,
            _ => Vec::new(),
        };
        let competing_events = competing_events.iter().map(|index| &self.events[*index]);
        if let Some(conflict) = conflict(&self.device, competing_events) {
            return TooManyEvents::between_events(&conflict).into();
        }
        if matches!(error.cause, Cause::NoFreeCounter(_)) {
            return TooManyEvents::from_driver(&exit::with_help(error)).into();
        }
        rights::with_counting_advice(error, self.task_list.is_some().then_some(tid))
    }

    /// Opens all events for these threads.
    fn open_all(&self, tids: &[u32]) -> Result<Vec<Vec<TaskGroup>>, RefusedTaskGroup> {
        let has_ended = |refused: &RefusedTaskGroup| refused.error.cause == Cause::NoSuchTask;
        opened_or_ended(tids.iter().map(|tid| self.open_thread(*tid)), has_ended)
    }

    /// Opens all events for a thread.
    fn open_thread(&self, tid: u32) -> Result<Vec<TaskGroup>, RefusedTaskGroup> {
        let mut open_groups = Vec::new();
        for members in most_limited_first(&self.events, groups(&self.events)) {
            let mut builders = members.iter().filter_map(|index| self.builder(*index));
            let Some(leader) = builders.next() else {
                continue;
            };
            let group = Group::of(self.leader(leader, tid));
            let group = builders.fold(group, GroupBuilder::and);
            match group.open_on(&self.device) {
                Ok(group) => open_groups.push(TaskGroup {
                    group,
                    events: members,
                }),
                Err(error) => {
                    return Err(RefusedTaskGroup {
                        error,
                        tid,
                        members,
                    });
                }
            }
        }
        Ok(open_groups)
    }

    /// With --per-thread, removes the threads that ended before they could be counted.
    fn remove_ended(&mut self) {
        let is_counted: Vec<bool> = self
            .open_groups
            .iter()
            .map(|opened| !opened.is_empty())
            .collect();
        // If no thread has an open event, there are no events, and no thread is known to have ended.
        if !self.manner.per_thread || !is_counted.contains(&true) {
            return;
        }
        let mut counted_flags = is_counted.iter();
        self.threads.retain(|_| counted_flags.next() == Some(&true));
        self.open_groups.retain(|opened| !opened.is_empty());
    }

    /// Returns the event to open; `None` if the CPU lacks it. Error messages have the name that the user gave.
    fn builder(&self, index: usize) -> Option<Builder> {
        let event = self.events[index].builder()?;
        Some(event.label(&self.names[index]))
    }

    /// Reduces the events to those that the driver accepts, as perf does. Returns whether an event
    /// was changed.
    ///
    /// - An event that the driver does not have becomes absent.
    /// - A group that pmctl made is split if the driver accepts each of its events, but not the group.
    /// - If this user may not count the kernel, events without a mode are limited to user mode.
    fn drop_refused(&mut self, refused: &RefusedTaskGroup) -> bool {
        let mut has_changed = false;
        match refused.error.cause {
            Cause::Forbidden => {
                for event in &mut self.events {
                    if !event.is_absent() {
                        has_changed |= modes::limit_modes_if_unmodified(event, Modes::User);
                    }
                }
            }
            Cause::NoSuchEvent | Cause::NotSupported => {
                let error_by_itself = |index: usize| {
                    let builder = self.builder(index)?;
                    self.leader(builder, refused.tid)
                        .open_on(&self.device)
                        .err()
                };
                let members = refused.members.iter();
                let unsupported: Vec<(usize, Error)> = members
                    .copied()
                    .filter_map(|index| Some((index, error_by_itself(index)?)))
                    .collect();
                has_changed = mark_or_split(&mut self.events, &refused.members, unsupported);
            }
            _ => {}
        }
        has_changed
    }

    /// Returns the event with the thread and the options of this measurement.
    fn leader(&self, event: Builder, tid: u32) -> Builder {
        let event = event.pid(tid).disabled();
        let event = if self.manner.inherit {
            event.inherit()
        } else {
            event
        };
        let event = if self.manner.multiplex {
            event.rotate()
        } else {
            event
        };
        if self.manner.begins_at_exec {
            event.enable_on_exec()
        } else {
            event
        }
    }

    /// Calls `call` for each open group.
    fn for_each_group(&self, call: impl Fn(&Group) -> Result<(), Error>) -> Result<()> {
        let mut groups = self.open_groups.iter().flatten();
        groups
            .try_for_each(|opened| call(&opened.group))
            .map_err(exit::with_help)
    }

    /// Returns the counts of one thread, one for each event; empty if no event is open for the thread.
    fn counts(&self, opened: &[TaskGroup]) -> Result<Counts> {
        if opened.is_empty() {
            return Ok(Vec::new());
        }
        let mut counts = vec![None; self.events.len()];
        for TaskGroup { group, events } in opened {
            if has_left_program(group)? {
                continue;
            }
            let group_counts: Option<GroupCounts> = match group.read() {
                Ok(group_counts) => Some(group_counts),
                Err(error) if error.cause == Cause::Missed => None,
                Err(error) => return Err(exit::with_help(error)),
            };
            for (position, index) in events.iter().enumerate() {
                counts[*index] = group_counts.as_ref().map(|group_counts| {
                    let (value, ran) = (group_counts[position], group_counts.running);
                    if self.manner.multiplex {
                        ColumnCount::of_turns(value, ran, group_counts.enabled)
                    } else {
                        ColumnCount::without_turns(value, ran, group_counts.enabled)
                    }
                });
            }
        }
        Ok(counts)
    }
}

impl CountSource for TaskCounts {
    fn prepare(&mut self, command: Option<u32>) -> Result<()> {
        let Some(task_list) = self.task_list.clone() else {
            let command = command.context("there is no task to count")?;
            return self.reopen(&[command]);
        };
        task_list.open_for_all(|threads| {
            let tids: Vec<u32> = threads.iter().map(|thread| thread.tid).collect();
            self.threads = threads;
            self.reopen(&tids)
        })?;
        self.remove_ended();
        Ok(())
    }

    fn columns(&self) -> Vec<Column> {
        let place = |thread: &Thread| {
            Some(CountedPlace {
                name: thread.name.clone(),
                kind: PlaceKind::Thread,
            })
        };
        let places = if self.manner.per_thread {
            self.threads.iter().map(place).collect()
        } else {
            vec![None]
        };
        let column =
            |place: &Option<CountedPlace>, (event_index, event): (usize, &EventSpec)| Column {
                place: place.clone(),
                event_index,
                event: event.clone(),
                counter: None,
                unit: None,
            };
        let columns = places.iter().flat_map(|place| {
            let events = self.events.iter().enumerate();
            events.map(move |event| column(place, event))
        });
        columns.collect()
    }

    fn start(&mut self) -> Result<()> {
        if self.manner.begins_at_exec {
            return Ok(());
        }
        self.for_each_group(Group::enable)
    }

    fn stop(&mut self) -> Result<()> {
        self.for_each_group(Group::disable)
    }

    fn read(&self, _: Duration) -> Result<Summands> {
        let threads = self.open_groups.iter().map(|opened| self.counts(opened));
        let threads: Vec<Counts> = threads.collect::<Result<_>>()?;
        if self.manner.per_thread {
            let places = threads.into_iter().flat_map(|mut counts| {
                counts.resize(self.events.len(), None);
                counts
            });
            return Ok(places.map(|count| Some(vec![count?])).collect());
        }
        Ok(summands(&threads, self.events.len()))
    }

    fn uncounted_reasons(&self) -> Result<Reasons> {
        let mut reasons = vec![None; self.columns().len()];
        for (thread, opened) in self.open_groups.iter().enumerate() {
            let first_column = if self.manner.per_thread {
                thread * self.events.len()
            } else {
                0
            };
            for TaskGroup { group, events } in opened {
                if has_left_program(group)? {
                    for event in events {
                        reasons[first_column + event] = Some(Uncounted::LeftProgram);
                    }
                }
            }
        }
        Ok(reasons)
    }
}

/// Returns the message that names the events which need the same counters; `None` if there is no such conflict.
pub(in crate::commands::stat) fn conflict<'a>(
    device: &Device,
    events: impl IntoIterator<Item = &'a EventSpec>,
) -> Option<String> {
    let supply = CounterSupply::of(device, &Pmu::of_this_cpu());
    let present = events.into_iter().filter(|event| !event.is_absent());
    match schedule::schedule(&present.cloned().collect::<Vec<_>>(), supply) {
        Err(conflict @ ScheduleError::Crowded { .. }) => Some(conflict.to_string()),
        _ => None,
    }
}

/// Returns the open groups of each thread. A thread that has ended has no groups, so its columns have no count.
/// `has_ended` returns whether an error means the end of the thread.
///
/// # Errors
/// The first error that does not mean the end of a thread. If all threads have ended, the error of
/// the first thread.
fn opened_or_ended<T, E>(
    results: impl IntoIterator<Item = Result<Vec<T>, E>>,
    has_ended: impl Fn(&E) -> bool,
) -> Result<Vec<Vec<T>>, E> {
    let (mut opened, mut first_ended, mut has_running) = (Vec::new(), None, false);
    for result in results {
        match result {
            Ok(groups) => {
                has_running = true;
                opened.push(groups);
            }
            Err(refused) if has_ended(&refused) => {
                first_ended = first_ended.or(Some(refused));
                opened.push(Vec::new());
            }
            Err(refused) => return Err(refused),
        }
    }
    match first_ended {
        Some(refused) if !has_running => Err(refused),
        _ => Ok(opened),
    }
}

/// Changes the events `members` of a refused group so that they may be opened. Returns whether an event was changed.
///
/// `failed` has the errors of opening each event by itself, since the group may also be refused for its size.
///
/// - Events that the driver does not have become absent.
/// - If `failed` is empty, and pmctl made the group, the group is split: its events may be of different kinds of cores.
pub(in crate::commands::stat) fn mark_or_split(
    events: &mut [EventSpec],
    members: &[usize],
    failed: Vec<(usize, Error)>,
) -> bool {
    let mut has_changed = false;
    if failed.is_empty() {
        for index in members {
            let own_group = &mut events[*index].group;
            has_changed |= own_group.take_if(|group| *group >= OWN_GROUPS).is_some();
        }
    }
    for (index, error) in failed {
        if matches!(error.cause, Cause::NoSuchEvent | Cause::NotSupported) {
            let event = &events[index];
            let reason = format!("The driver says: {}.", error.cause);
            events[index] = EventSpec {
                group: event.group,
                ..EventSpec::absent(&event.label, reason)
            };
            has_changed = true;
        }
    }
    has_changed
}

/// Opens events on each of `cpus` by `open`, which returns `None` if there is nothing to open. The result has `None` for
/// CPUs that lack the events: the kinds of cores of a hybrid processor have different ones.
///
/// # Errors
/// The first error of `open` other than [`Cause::NoSuchEvent`], which means that the CPU lacks the events. If all CPUs
/// lack them, the error of the first CPU.
pub(in crate::commands::stat) fn open_on_each<C, T>(
    cpus: impl IntoIterator<Item = C>,
    open: impl Fn(C) -> Result<Option<T>, Error>,
) -> Result<Vec<Option<T>>, Error> {
    let (mut opened, mut lacking) = (Vec::new(), None);
    for cpu in cpus {
        match open(cpu) {
            Ok(result) => opened.push(result),
            Err(error) if error.cause == Cause::NoSuchEvent => {
                lacking = lacking.or(Some(error));
                opened.push(None);
            }
            Err(error) => return Err(error),
        }
    }
    match lacking {
        Some(error) if opened.iter().all(Option::is_none) => Err(error),
        _ => Ok(opened),
    }
}

/// Returns whether a counted task has executed a program that the group must not count.
fn has_left_program(group: &Group) -> Result<bool> {
    Ok(group.tasks_not_followed().map_err(exit::with_help)? > 0)
}

/// Returns the counts of all threads, or of all CPUs, for each event. A thread that had ended before it could be counted is
/// left out: it has no counts.
pub(in crate::commands::stat) fn summands(threads: &[Counts], events: usize) -> Summands {
    let counted_threads = threads.iter().filter(|counts| !counts.is_empty());
    let of_event = |index: usize| {
        let counts: Option<Vec<ColumnCount>> = counted_threads
            .clone()
            .map(|counts| counts[index])
            .collect();
        counts.filter(|counts| !counts.is_empty())
    };
    (0..events).map(of_event).collect()
}

/// Makes one group of the events without a group, so that they are read at the same moment.
pub(in crate::commands::stat) fn group_the_ungrouped(events: &mut [EventSpec]) {
    for event in events {
        event.group = event.group.or(Some(OWN_GROUPS));
    }
}

/// Returns the indices of the events of each group, in their order. Each event without a group is a group by itself.
/// Absent events are left out.
pub(in crate::commands::stat) fn groups(events: &[EventSpec]) -> Vec<Vec<usize>> {
    let mut groups: Vec<(Option<usize>, Vec<usize>)> = Vec::new();
    for (index, event) in events.iter().enumerate() {
        if event.is_absent() {
            continue;
        }
        let same_group = |known: &&mut (Option<usize>, Vec<usize>)| {
            event.group.is_some() && known.0 == event.group
        };
        match groups.iter_mut().find(same_group) {
            Some((_, members)) => members.push(index),
            None => groups.push((event.group, vec![index])),
        }
    }
    groups.into_iter().map(|(_, members)| members).collect()
}

/// Returns the groups in the order in which they are opened. The driver gives each event the first
/// free counter that fits. In another order, an event that only few counters can count would find
/// its counters taken by events that could use others.
fn most_limited_first(events: &[EventSpec], mut groups: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    let counters = |index: &usize| events[*index].general_counters.count_ones();
    groups.sort_by_key(|members| members.iter().map(counters).min());
    groups
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::sync::Arc;

    use super::*;
    use crate::system::pmu::testing;
    use nix::errno::Errno;
    use perfmon::spec;
    use perfmon::sys::{Call, Driver, EventOpen};

    fn events(text: &str) -> Vec<EventSpec> {
        spec::parse_or_absent(text, &testing::intel()).expect("it is well formed")
    }

    #[test]
    fn events_of_a_group_are_together_and_others_alone() {
        let mut events = events("r1,{r2,r3},cache-misses,{r4},{r5,cache-misses,r6},r7");
        let expected_apart: [&[usize]; 5] = [&[0], &[1, 2], &[4], &[5, 7], &[8]];
        assert_eq!(groups(&events), expected_apart);
        group_the_ungrouped(&mut events);
        let expected: [&[usize]; 4] = [&[0, 8], &[1, 2], &[4], &[5, 7]];
        assert_eq!(groups(&events), expected);
        // Only groups that are not in braces are split.
        assert!(!mark_or_split(&mut events, &[1, 2], Vec::new()));
        assert!(mark_or_split(&mut events, &[0, 8], Vec::new()));
        assert_eq!(groups(&events), expected_apart);
        assert!(!mark_or_split(&mut events, &[0], Vec::new()));
    }

    #[test]
    fn events_of_few_counters_are_opened_first() {
        let mut events = events("r1,{r2,r3},r4,r5");
        events[2].general_counters = 0b100;
        events[4].general_counters = 0b11;
        let groups = most_limited_first(&events, groups(&events));
        let expected: [&[usize]; 4] = [&[1, 2], &[4], &[0], &[3]];
        assert_eq!(groups, expected);
    }

    /// A driver that refuses all events.
    #[derive(Debug)]
    struct Refusing(Errno);

    // SAFETY: `Driver` requires that each descriptor that `open_event` returns is an event of the kernel. This
    // `open_event` always fails, so it returns no descriptor.
    unsafe impl Driver for Refusing {
        fn call(&self, call: Call<'_>) -> Result<(), Errno> {
            match call {
                Call::Properties(properties) => {
                    properties.api_version = 3;
                    properties.max_num_programmable_events = 4;
                    Ok(())
                }
                _ => Err(Errno::ENOTTY),
            }
        }

        fn open_event(&self, _: &mut EventOpen<'_>) -> Result<OwnedFd, Errno> {
            Err(self.0)
        }
    }

    /// Returns the error of counting two events that need the same counter, if the driver refuses them for `errno`.
    fn error_of_crowded_events(errno: Errno, multiplex: bool) -> String {
        let mut events = events("r1,r2");
        for event in &mut events {
            event.general_counters = 0b100;
        }
        let mut counts = TaskCounts {
            device: Device::with_driver(Arc::new(Refusing(errno))).expect("it has properties"),
            names: events.iter().map(|event| event.label.clone()).collect(),
            events,
            manner: CountingManner {
                inherit: true,
                begins_at_exec: false,
                per_thread: false,
                one_group: false,
                multiplex,
            },
            task_list: None,
            threads: Vec::new(),
            open_groups: Vec::new(),
        };
        let error = counts.reopen(&[1, 2]).expect_err("all events are refused");
        error.to_string()
    }

    #[test]
    fn only_events_without_a_counter_are_in_conflict() {
        const CONFLICT: &str = "no counter is left: only PMC2 can count it";
        let error = error_of_crowded_events(Errno::EBUSY, false);
        assert!(error.contains(CONFLICT), "{error}");
        // These events take turns on their counter, so the counter must be in use by others.
        let error = error_of_crowded_events(Errno::EBUSY, true);
        assert!(
            error.contains("no counter is free for this event"),
            "{error}"
        );
        let error = error_of_crowded_events(Errno::EACCES, false);
        assert!(error.contains("policy for performance events"), "{error}");
        let error = error_of_crowded_events(Errno::ESRCH, false);
        assert!(error.contains("there is no such task"), "{error}");
    }

    #[test]
    fn threads_may_end_but_not_all() {
        const ENDED: Result<Vec<u8>, &str> = Err("ended");
        let opened = |results: &[Result<Vec<u8>, &'static str>]| {
            opened_or_ended(results.iter().cloned(), |error| *error == "ended")
        };
        assert_eq!(opened(&[ENDED, Ok(vec![1])]), Ok(vec![vec![], vec![1]]));
        assert_eq!(opened(&[ENDED, ENDED]), Err("ended"));
        assert_eq!(opened(&[ENDED, Err("busy"), Ok(vec![])]), Err("busy"));
        // Without events there is nothing to open.
        assert_eq!(opened(&[Ok(vec![])]), Ok(vec![vec![]]));
        assert_eq!(opened(&[]), Ok(vec![]));
    }

    #[test]
    fn a_thread_that_had_ended_is_left_out() {
        let count = |value| Some(ColumnCount::whole(value, Duration::from_millis(value)));
        let threads = [vec![count(3), None], vec![], vec![count(4), count(1)]];
        let expected = [count(3), count(4)].into_iter().collect();
        assert_eq!(summands(&threads, 2), [expected, None]);
        assert_eq!(summands(&[vec![]], 2), [None, None]);
    }
}
