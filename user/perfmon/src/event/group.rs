// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events that count together.

use std::ops::Index;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use perfmon_core::logic::event_attr as attr;

use super::group_reading::{GroupPlace, read_group};
use super::{Builder, Encoding, Event, EventLabel, shared};
use crate::sys::EventCall;
use crate::{Device, Error};

/// Events that start and stop together, and are read at one moment.
///
/// ```no_run
/// use perfmon::{Event, Group};
///
/// let group = Group::of(Event::instructions().user().disabled())
///     .and(Event::cycles().user())
///     .open()?;
/// let (sum, counts) = group.measure(|| (0..1000).map(std::hint::black_box).sum::<u64>())?;
/// println!("{} instructions in {} cycles for {sum}", counts[0], counts[1]);
/// # Ok::<(), perfmon::Error>(())
/// ```
#[derive(Debug)]
pub struct Group {
    /// The events, the leader first.
    events: Vec<Event>,
    labels: Arc<[EventLabel]>,
}

/// The events of a group; [`open`](Self::open) makes it a [`Group`].
#[derive(Clone, Debug)]
#[must_use = "it counts once it is opened"]
pub struct GroupBuilder {
    leader: Builder,
    others: Vec<Builder>,
}

/// The counts of a group at one moment, by index in the group or by name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    labels: Arc<[EventLabel]>,
    values: Vec<u64>,
    /// Time that the tasks ran while the group was enabled.
    pub enabled: Duration,
    /// The part of `enabled` in which the group was counted. It is less than `enabled` if the group takes
    /// [turns](Builder::rotate), or if tasks ran on cores of a hybrid processor that lack one of the events: the counts
    /// are then too low.
    pub running: Duration,
}

impl Group {
    /// Creates a group with this leader. The leader determines the tasks that the group counts, and when.
    pub fn of(leader: Builder) -> GroupBuilder {
        GroupBuilder {
            leader,
            others: Vec::new(),
        }
    }

    /// Returns the events, the leader first.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Starts counting all events of the group.
    ///
    /// # Errors
    /// None that are specific to this call.
    pub fn enable(&self) -> Result<(), Error> {
        self.leader().control(EventCall::Enable { group: true })
    }

    /// Stops counting all events of the group. The counts are kept.
    ///
    /// # Errors
    /// None that are specific to this call.
    pub fn disable(&self) -> Result<(), Error> {
        self.leader().control(EventCall::Disable { group: true })
    }

    /// Zeroes all counts.
    ///
    /// # Errors
    /// None that are specific to this call.
    pub fn reset(&self) -> Result<(), Error> {
        self.leader().control(EventCall::Reset { group: true })
    }

    /// Returns all counts, read at one moment.
    ///
    /// # Errors
    /// As [`Event::read`].
    pub fn read(&self) -> Result<Counts, Error> {
        let leader = self.leader();
        read_group(
            self.events.len(),
            |words| leader.read_words(words),
            |reading| Counts {
                labels: Arc::clone(&self.labels),
                values: reading.counts.to_vec(),
                enabled: Duration::from_nanos(reading.enabled),
                running: Duration::from_nanos(reading.running),
            },
        )
    }

    /// Reads all counts at one moment, writes them to `counts`, and returns how long the group was enabled and not
    /// counted, in nanoseconds. Does not allocate memory for groups of at most eight events.
    ///
    /// # Errors
    /// As [`Event::read`].
    ///
    /// # Panics
    /// Panics if the length of `counts` is not the number of events in the group.
    pub(super) fn read_into(&self, counts: &mut [u64]) -> Result<u64, Error> {
        let leader = self.leader();
        read_group(
            self.events.len(),
            |words| leader.read_words(words),
            |reading| {
                counts.copy_from_slice(reading.counts);
                reading.enabled.saturating_sub(reading.running)
            },
        )
    }

    /// Returns the number of tasks that the group has stopped counting: see [`Event::tasks_not_followed`].
    ///
    /// # Errors
    /// As [`Event::tasks_not_followed`].
    pub fn tasks_not_followed(&self) -> Result<u64, Error> {
        self.leader().tasks_not_followed()
    }

    /// Runs `work`, and returns its result and the counts of this run alone.
    ///
    /// If [`running`](Counts::running) is less than [`enabled`](Counts::enabled), a part of the run was not counted.
    ///
    /// The counts include the end of the call that enables the group and the beginning of the call that disables it: the
    /// same number of instructions each time.
    ///
    /// # Errors
    /// As [`Event::read`].
    pub fn measure<R>(&self, work: impl FnOnce() -> R) -> Result<(R, Counts), Error> {
        self.disable()?;
        self.reset()?;
        // A reset zeroes the counts, but not the times.
        let before = self.read()?;
        self.enable()?;
        let result = work();
        self.disable()?;
        let mut counts = self.read()?;
        counts.enabled = counts.enabled.saturating_sub(before.enabled);
        counts.running = counts.running.saturating_sub(before.running);
        Ok((result, counts))
    }

    fn leader(&self) -> &Event {
        &self.events[0]
    }
}

impl GroupBuilder {
    /// Adds an event. The event keeps its own modes, and counts the leader's tasks.
    pub fn and(mut self, event: Builder) -> Self {
        self.others.push(event);
        self
    }

    /// Returns the number of events.
    #[expect(clippy::len_without_is_empty, reason = "there is always a leader")]
    #[must_use]
    pub fn len(&self) -> usize {
        1 + self.others.len()
    }

    /// Returns the labels of the events, the leader's first.
    pub(super) fn labels(&self) -> impl Iterator<Item = EventLabel> + '_ {
        [&self.leader]
            .into_iter()
            .chain(&self.others)
            .map(|event| event.label.clone())
    }

    /// Opens the events.
    ///
    /// # Errors
    /// As [`Builder::open`]; [`Cause::NoSuchEvent`](crate::Cause::NoSuchEvent) also if the events can never count together.
    pub fn open(&self) -> Result<Group, Error> {
        self.open_on(&shared::device()?)
    }

    /// Opens the group on a device that is open already.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(&self, device: &Device) -> Result<Group, Error> {
        /// Flags that a member takes from its leader.
        const INHERITED_FLAGS: u64 = attr::PerfEventAttr::INHERIT;
        /// Flags that only a leader can have.
        const LEADER_ONLY_FLAGS: u64 = attr::PerfEventAttr::DISABLED
            | attr::PerfEventAttr::ENABLE_ON_EXEC
            | attr::PerfEventAttr::PINNED
            | attr::PerfEventAttr::EXCLUSIVE;
        let mut leader = self.leader.clone();
        leader.attr.read_format |= attr::PERF_FORMAT_GROUP;
        let mut events = vec![leader.open_in(device, None)?];
        for member in &self.others {
            let mut member = member.clone();
            member.target = leader.target.clone();
            member.takes_turns = leader.takes_turns;
            member.attr.flags &= !(INHERITED_FLAGS | LEADER_ONLY_FLAGS);
            member.attr.flags |= leader.attr.flags & INHERITED_FLAGS;
            member.attr.read_format |= attr::PERF_FORMAT_GROUP;
            let event = member.open_in(device, Some(events[0].as_fd()))?;
            events.push(event);
        }
        let length = events.len();
        for (index, event) in events.iter_mut().enumerate() {
            event.place = Some(GroupPlace { index, length });
        }
        let labels = events.iter().map(|event| event.label().clone()).collect();
        Ok(Group { events, labels })
    }
}

impl Counts {
    /// Returns the counts with their events, in the order of the group.
    pub fn iter(&self) -> impl Iterator<Item = (&EventLabel, u64)> + '_ {
        self.labels.iter().zip(self.values.iter().copied())
    }

    /// Returns the count of the event that has the caller's name `name`, or else of the first event that perf calls
    /// `name`, such as `instructions`. Returns `None` if the group has neither.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        find_label(&self.labels, name).map(|index| self.values[index])
    }
}

/// Returns the index of the label that has the caller's name `name`, or else of the first label whose event perf calls
/// `name`.
pub(super) fn find_label(labels: &[EventLabel], name: &str) -> Option<usize> {
    let by_text = || labels.iter().position(|label| label.has_name(name));
    let by_encoding = || {
        let encoding = Encoding::named(name)?;
        labels.iter().position(|label| label.encoding() == encoding)
    };
    by_text().or_else(by_encoding)
}

impl Index<usize> for Counts {
    type Output = u64;

    fn index(&self, index: usize) -> &u64 {
        &self.values[index]
    }
}
