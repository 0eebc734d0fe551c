// SPDX-License-Identifier: MIT OR Apache-2.0
//! The open events of one CPU or one cgroup. If there are enough counters, the events are opened as one group, and one
//! read(2) returns all counts of the same moment.

use perfmon::event::{Builder, GroupBuilder};
use perfmon::spec::EventSpec;
use perfmon::{Cause, Device, Error, Group};

/// Reason why an event is not counted on a CPU or in a cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UncountedReason {
    /// No counter is free.
    NoFreeCounter,
    /// The CPU or the driver can't count the event.
    UnsupportedEvent,
    /// The CPU is offline.
    OfflineCpu,
    /// Tasks of the cgroup have run on CPUs that can't count the event.
    PartialCount,
}

impl UncountedReason {
    /// Returns the reason that the cause of an error stands for; `None` for all other causes.
    pub(super) const fn of(cause: &Cause) -> Option<Self> {
        match cause {
            Cause::NoFreeCounter(_) => Some(Self::NoFreeCounter),
            Cause::NoSuchEvent | Cause::NotSupported => Some(Self::UnsupportedEvent),
            Cause::NoSuchCpu => Some(Self::OfflineCpu),
            _ => None,
        }
    }

    /// Returns whether the reason stays, so that another attempt to open the event is of no use.
    const fn is_permanent(self) -> bool {
        matches!(self, Self::UnsupportedEvent | Self::PartialCount)
    }
}

/// The events of a CPU or a cgroup.
pub(super) struct OpenEvents {
    groups: Vec<OpenGroup>,
    /// For each event, the reason why the last attempt to open or to read it failed.
    uncounted_reasons: Vec<Option<UncountedReason>>,
}

/// An open group, with the indices of its events.
struct OpenGroup {
    group: Group,
    events: Vec<usize>,
}

impl OpenEvents {
    /// Creates the state without any open event. Events that the CPU does not have are never opened.
    pub(super) fn none(events: &[EventSpec]) -> Self {
        let absence = |event: &EventSpec| {
            event
                .is_absent()
                .then_some(UncountedReason::UnsupportedEvent)
        };
        Self {
            groups: Vec::new(),
            uncounted_reasons: events.iter().map(absence).collect(),
        }
    }

    /// Returns whether an event is open.
    pub(super) fn is_open(&self, event: usize) -> bool {
        self.open_events().any(|open| open == event)
    }

    /// Returns the reason why an event is not open, if it is known.
    pub(super) fn uncounted_reason(&self, event: usize) -> Option<UncountedReason> {
        self.uncounted_reasons[event]
    }

    /// Returns the reason of the first event that is not open for a known reason.
    pub(super) fn first_uncounted_reason(&self) -> Option<UncountedReason> {
        self.uncounted_reasons.iter().find_map(|reason| *reason)
    }

    /// Returns whether an event is open.
    pub(super) fn has_open(&self) -> bool {
        self.open_events().next().is_some()
    }

    /// Returns the number of events that are not open. On an offline CPU nothing happens, so that no event is missing.
    pub(super) fn missing_count(&self) -> usize {
        let reasons = self.uncounted_reasons.iter();
        let offline = reasons.filter(|reason| **reason == Some(UncountedReason::OfflineCpu));
        self.uncounted_reasons.len() - offline.count() - self.open_events().count()
    }

    /// Returns the indices of the open events.
    fn open_events(&self) -> impl Iterator<Item = usize> + '_ {
        let groups = self.groups.iter();
        groups.flat_map(|opened| opened.events.iter().copied())
    }

    /// Opens the events that are not open: as one group if possible, otherwise each alone. `set_target` sets the CPU or
    /// the cgroup of a group's leader. Returns the events that can't be opened, each with its error.
    pub(super) fn open_missing(
        &mut self,
        device_and_events: (&Device, &[EventSpec]),
        set_target: impl Fn(Builder) -> Builder,
    ) -> Vec<(usize, Error)> {
        let missing_events: Vec<usize> = (0..self.uncounted_reasons.len())
            .filter(|event| {
                !self.uncounted_reasons[*event].is_some_and(UncountedReason::is_permanent)
            })
            .filter(|event| !self.is_open(*event))
            .collect();
        if missing_events.is_empty() {
            return Vec::new();
        }
        if self
            .try_open(device_and_events, &set_target, &missing_events)
            .is_ok()
        {
            for event in missing_events {
                self.uncounted_reasons[event] = None;
            }
            return Vec::new();
        }
        let mut failures = Vec::new();
        for event in missing_events {
            let result = self.try_open(device_and_events, &set_target, &[event]);
            self.uncounted_reasons[event] = result
                .as_ref()
                .err()
                .and_then(|e| UncountedReason::of(&e.cause));
            failures.extend(result.err().map(|error| (event, error)));
        }
        failures
    }

    /// Opens the events with these indices as a group.
    fn try_open(
        &mut self,
        (device, events): (&Device, &[EventSpec]),
        set_target: impl Fn(Builder) -> Builder,
        indices: &[usize],
    ) -> Result<(), Error> {
        let mut builders = indices.iter().filter_map(|event| events[*event].builder());
        let Some(leader) = builders.next() else {
            return Ok(());
        };
        let group = builders.fold(Group::of(set_target(leader)), GroupBuilder::and);
        self.groups.push(OpenGroup {
            group: group.open_on(device)?,
            events: indices.to_vec(),
        });
        Ok(())
    }

    /// Calls `on_count` with the index and the count of each open event. Closes the groups whose
    /// counts were lost, and returns their number. Also closes groups that have not counted all the
    /// time, because tasks of a cgroup ran on another kind of core: such a count would be taken for
    /// the whole.
    ///
    /// # Errors
    /// Reading a group fails.
    pub(super) fn read(&mut self, mut on_count: impl FnMut(usize, u64)) -> Result<u64, Error> {
        let (mut lost, mut failure) = (0, None);
        let uncounted_reasons = &mut self.uncounted_reasons;
        self.groups.retain(|opened| match opened.group.read() {
            Ok(values) if values.running < values.enabled => {
                for event in &opened.events {
                    uncounted_reasons[*event] = Some(UncountedReason::PartialCount);
                }
                false
            }
            Ok(values) => {
                let values = opened.events.iter().zip(values.iter());
                values.for_each(|(event, (_, value))| on_count(*event, value));
                true
            }
            Err(error) if error.cause == Cause::Missed => {
                lost += 1;
                false
            }
            Err(error) => {
                failure = Some(error);
                true
            }
        });
        failure.map_or(Ok(lost), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::pmu::testing;
    use perfmon::spec;

    #[test]
    fn an_event_that_the_cpu_lacks_is_missing_from_the_start() {
        let mut events = spec::parse("cycles", &testing::intel()).expect("the CPU has it");
        events.push(EventSpec::absent("branch-misses", "The CPU lacks it."));
        let open_events = OpenEvents::none(&events);
        assert_eq!(
            (
                open_events.uncounted_reason(0),
                open_events.uncounted_reason(1)
            ),
            (None, Some(UncountedReason::UnsupportedEvent))
        );
        assert_eq!(open_events.missing_count(), 2);
    }

    #[test]
    fn nothing_is_missing_on_an_offline_cpu() {
        let events = spec::parse("cycles,instructions", &testing::intel());
        let mut open_events = OpenEvents::none(&events.expect("the CPU has them"));
        open_events.uncounted_reasons[0] = Some(UncountedReason::OfflineCpu);
        assert_eq!(open_events.missing_count(), 1);
        open_events.uncounted_reasons[1] = Some(UncountedReason::OfflineCpu);
        assert_eq!(open_events.missing_count(), 0);
        assert!(!open_events.has_open());
    }
}
