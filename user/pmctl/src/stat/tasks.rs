// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of tasks: of a command, of processes, of threads.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use perfmon::event::{Builder, Counts as GroupCounts, Encoding};
use perfmon::{Cause, Device, Error, EventSelect, Group, Modes};

use super::source::{Count, Counts, Source};
use crate::events::Event;
use crate::exit::{self, Usage};

/// The number of no cache, of an event that the CPU lacks.
const LACKING: u32 = u32::MAX;

/// A thread that is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Thread {
    pub(super) tid: u32,
    /// Its name and number, as perf shows it.
    pub(super) name: String,
}

impl Thread {
    fn new(tid: u32) -> Self {
        let comm = fs::read_to_string(format!("/proc/{tid}/comm")).unwrap_or_default();
        let name = format!("{}-{tid}", crate::text::printable(comm.trim_end()));
        Self { tid, name }
    }
}

/// Returns the threads of these processes, and these threads.
pub(super) fn threads(pids: &[u32], tids: &[u32]) -> Result<Vec<Thread>, Usage> {
    let mut found = Vec::new();
    for pid in pids {
        let folder = fs::read_dir(format!("/proc/{pid}/task"));
        let folder = folder.map_err(|_| absent('p', "process", *pid))?;
        let names = folder.flatten().map(|entry| entry.file_name());
        found.extend(names.filter_map(|name| name.to_str()?.parse::<u32>().ok()));
    }
    for tid in tids {
        if fs::metadata(format!("/proc/{tid}/comm")).is_err() {
            return Err(absent('t', "thread", *tid));
        }
        found.push(*tid);
    }
    found.sort_unstable();
    found.dedup();
    Ok(found.into_iter().map(Thread::new).collect())
}

fn absent(option: char, what: &str, number: u32) -> Usage {
    Usage(format!(
        "-{option}: there is no {what} {number}; `ps -eL` lists them."
    ))
}

/// How events of tasks count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// Also what the tasks create.
    pub(super) inherit: bool,
    /// From the command's exec on; else from the start.
    pub(super) from_exec: bool,
}

/// Events of tasks.
pub(super) struct Tasks {
    device: Device,
    events: Vec<Event>,
    manner: Manner,
    /// The threads, if not the command.
    threads: Vec<Thread>,
    /// Each thread has columns of its own.
    per_thread: bool,
    /// What is open: for each thread the groups of events.
    open: Vec<Vec<Opened>>,
}

/// A group, or an event alone, and which events these are.
struct Opened {
    group: Group,
    events: Vec<usize>,
}

impl Tasks {
    /// Takes the events that the CPUs and the driver have; those that they lack become absent. If this user may not
    /// count the kernel, events without a mode are counted in user mode.
    pub(super) fn new(
        device: Device,
        events: Vec<Event>,
        (threads, per_thread): (Vec<Thread>, bool),
        manner: Manner,
    ) -> Result<Self> {
        let mut tasks = Self {
            device,
            events,
            manner,
            threads,
            per_thread,
            open: Vec::new(),
        };
        for index in 0..tasks.events.len() {
            let event = &tasks.events[index];
            if let Some(counter) = event.pinned {
                return Err(Usage(format!(
                    "{}: {counter} can be chosen with -a or -C only; for a command, a process or a thread the driver \
                     chooses the counter. Leave out the counter, or add -a.",
                    event.label
                ))
                .into());
            }
            if !event.is_absent() {
                tasks.try_out(index)?;
            }
        }
        // `-d` asks for none of its events by name.
        tasks.events.retain(|event| event.cache != Some(LACKING));
        Ok(tasks)
    }

    /// Returns the events, as they are counted.
    pub(super) fn events(&self) -> &[Event] {
        &self.events
    }

    /// Opens an event of this thread for a moment.
    fn try_out(&mut self, index: usize) -> Result<()> {
        let event = &self.events[index];
        let try_out = |event: &Event| builder(event).disabled().open_on(&self.device);
        let Err(error) = try_out(event) else {
            return Ok(());
        };
        match error.cause {
            Cause::NoSuchEvent | Cause::NotSupported => {
                let label = event.label.clone();
                let group = event.group;
                let cache = event.cache.map(|_| LACKING);
                self.events[index] = Event {
                    cache,
                    group,
                    ..Event::absent(&label)
                };
                Ok(())
            }
            // As perf does it, with the mode in the name.
            Cause::Forbidden if event.modes == Modes::Both => {
                let user = Event {
                    modes: Modes::User,
                    label: in_user_mode(&event.label),
                    ..event.clone()
                };
                try_out(&user).map_err(|error| failed(&user, error))?;
                self.events[index] = user;
                Ok(())
            }
            _ => Err(failed(event, error)),
        }
    }

    /// Opens all events for a thread.
    fn open(&self, tid: u32) -> Result<Vec<Opened>, Error> {
        let mut opened = Vec::new();
        for members in groups(&self.events) {
            let mut members = members.into_iter();
            let Some(leader) = members.next() else {
                continue;
            };
            let rest: Vec<usize> = members.collect();
            let builder_of = |index: usize| builder(&self.events[index]);
            let mut group = Group::of(self.leader(builder_of(leader), tid));
            for index in &rest {
                group = group.and(builder_of(*index));
            }
            opened.push(Opened {
                group: group.open_on(&self.device)?,
                events: [leader].into_iter().chain(rest).collect(),
            });
        }
        Ok(opened)
    }

    /// Returns the event with the thread and the manner of this measurement.
    fn leader(&self, event: Builder, tid: u32) -> Builder {
        let event = event.pid(tid).disabled();
        let event = if self.manner.inherit {
            event.inherit()
        } else {
            event
        };
        if self.manner.from_exec {
            event.enable_on_exec()
        } else {
            event
        }
    }

    /// Makes one call for each group.
    fn each(&self, call: impl Fn(&Group) -> Result<(), Error>) -> Result<()> {
        let mut groups = self.open.iter().flatten();
        groups
            .try_for_each(|opened| call(&opened.group))
            .map_err(exit::with_help)
    }

    /// Returns the counts of one thread, for each event.
    fn counts(&self, opened: &[Opened]) -> Result<Counts> {
        let mut counts = vec![None; self.events.len()];
        for Opened { group, events } in opened {
            let read: Option<GroupCounts> = match group.read() {
                Ok(read) => Some(read),
                Err(error) if error.cause == Cause::Missed => None,
                Err(error) => return Err(exit::with_help(error)),
            };
            for (place, index) in events.iter().enumerate() {
                counts[*index] = read.as_ref().map(|read| Count {
                    value: read[place],
                    ran: read.running,
                });
            }
        }
        Ok(counts)
    }
}

impl Source for Tasks {
    fn prepare(&mut self, command: Option<u32>) -> Result<()> {
        // The counters of the run before are free again.
        self.open.clear();
        let tids: Vec<u32> = if self.threads.is_empty() {
            vec![command.context("there is no task to count")?]
        } else {
            self.threads.iter().map(|thread| thread.tid).collect()
        };
        for tid in tids {
            match self.open(tid) {
                Ok(opened) => self.open.push(opened),
                // It ended meanwhile; its columns have no count then.
                Err(error) if error.cause == Cause::NoSuchTask && self.threads.len() > 1 => {
                    self.open.push(Vec::new());
                }
                Err(error) => return Err(exit::with_help(error)),
            }
        }
        Ok(())
    }

    fn start(&mut self) -> Result<()> {
        if self.manner.from_exec {
            return Ok(());
        }
        self.each(Group::enable)
    }

    fn stop(&mut self) -> Result<()> {
        self.each(Group::disable)
    }

    fn read(&self, _: Duration) -> Result<Counts> {
        let threads = self.open.iter().map(|opened| self.counts(opened));
        let threads: Vec<Counts> = threads.collect::<Result<_>>()?;
        if self.per_thread {
            return Ok(threads.into_iter().flatten().collect());
        }
        let sum = |index: usize| {
            let counts = threads.iter().filter(|counts| !counts.is_empty());
            counts
                .map(|counts| counts[index])
                .try_fold(Count::default(), |sum, count| {
                    let count = count?;
                    Some(Count {
                        value: sum.value + count.value,
                        ran: sum.ran + count.ran,
                    })
                })
        };
        Ok((0..self.events.len()).map(sum).collect())
    }
}

/// Returns the events of each group, in their order; one without a group is alone. Absent ones are left out.
fn groups(events: &[Event]) -> Vec<Vec<usize>> {
    let mut groups: Vec<(Option<usize>, Vec<usize>)> = Vec::new();
    for (index, event) in events.iter().enumerate() {
        if event.is_absent() {
            continue;
        }
        let same = |known: &&mut (Option<usize>, Vec<usize>)| {
            event.group.is_some() && known.0 == event.group
        };
        match groups.iter_mut().find(same) {
            Some((_, members)) => members.push(index),
            None => groups.push((event.group, vec![index])),
        }
    }
    groups.into_iter().map(|(_, members)| members).collect()
}

/// Returns the event as the driver knows it.
fn builder(event: &Event) -> Builder {
    let encoding = match (event.cache, event.general, event.fixed) {
        (Some(cache), _, _) => Encoding::Cache(cache),
        (None, Some(select), _) => Encoding::Raw(select.modes(Modes::Both)),
        (None, None, Some(number)) => Encoding::Fixed(number),
        // No counter has it, and so the driver will say.
        (None, None, None) => Encoding::Raw(EventSelect::new(0, 0)),
    };
    Builder::new(encoding).modes(event.modes)
}

/// Returns the name of an event with the mode that perf adds.
fn in_user_mode(label: &str) -> String {
    let label = label.trim_end_matches(":uk").trim_end_matches(":ku");
    // Behind `cpu/.../` the colon may be left out, and perf leaves it out.
    if label.ends_with('/') {
        format!("{label}u")
    } else {
        format!("{label}:u")
    }
}

/// Returns the error of an event, with the name that the user gave it.
fn failed(event: &Event, error: Error) -> anyhow::Error {
    exit::with_help(error).context(event.label.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::events_or_absent;
    use crate::pmu::Pmu;

    fn events(text: &str) -> Vec<Event> {
        events_or_absent(text, &Pmu::for_tests()).expect("it is well formed")
    }

    #[test]
    fn events_of_a_group_are_together_and_others_alone() {
        let found = groups(&events(
            "r1,{r2,r3},cache-misses,{r4},{r5,cache-misses,r6},r7",
        ));
        let expected: [&[usize]; 5] = [&[0], &[1, 2], &[4], &[5, 7], &[8]];
        assert_eq!(found, expected);
    }

    #[test]
    fn perf_adds_the_mode_to_the_name() {
        assert_eq!(in_user_mode("cycles"), "cycles:u");
        assert_eq!(in_user_mode("cycles:uk"), "cycles:u");
        assert_eq!(in_user_mode("cpu/event=1/"), "cpu/event=1/u");
    }

    #[test]
    fn the_threads_of_a_process_are_found_once() {
        let pid = std::process::id();
        let found = threads(&[pid], &[pid]).expect("it runs");
        assert_eq!(found.iter().filter(|thread| thread.tid == pid).count(), 1);
        assert!(found[0].name.ends_with(&format!("-{}", found[0].tid)));
        assert!(threads(&[0], &[]).is_err());
        assert!(threads(&[], &[0]).is_err());
    }

    #[test]
    fn each_kind_of_event_has_its_encoding() {
        let encoding = |event: &Event| builder(event).encoding();
        let [raw, fixed] = &events("r1c0:k,fixed1")[..] else {
            panic!("there are two")
        };
        let select = EventSelect::new(0xc0, 1);
        assert_eq!(encoding(raw), Encoding::Raw(select));
        assert_eq!(encoding(fixed), Encoding::Fixed(1));
        assert_eq!(encoding(&Event::of_cache("x", 2)), Encoding::Cache(2));
    }
}
