// SPDX-License-Identifier: MIT OR Apache-2.0
//! Assigns events to counters.

use std::fmt;

use perfmon::event::{Owner, OwnerKind, Owners};
use perfmon::spec::EventSpec;
use perfmon::{CounterId, Device, Pmu};

use crate::events::decode;

/// The counters of a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CounterSupply {
    /// Number of general counters.
    pub(crate) general: u8,
    /// Mask of the fixed counters.
    pub(crate) fixed: u16,
    /// Mask of the general counters that are in use by others.
    pub(crate) busy: u64,
}

impl CounterSupply {
    /// Returns all counters of the driver.
    pub(crate) fn of(device: &Device, pmu: &Pmu) -> Self {
        Self {
            general: u8::try_from(device.properties().general.number).unwrap_or(u8::MAX),
            // The driver reports the number of fixed counters, and CPUID reports which ones exist.
            fixed: pmu.fixed_bitmap(),
            busy: 0,
        }
    }

    /// Returns the counters that no other program, perf or watchdog uses at present.
    pub(crate) fn free(device: &Device, pmu: &Pmu) -> Self {
        Self::free_except(device, pmu, |_| true)
    }

    /// Returns the counters that are free for events of tasks, which can share counters with events of other tasks.
    pub(crate) fn free_for_tasks(device: &Device, pmu: &Pmu) -> Self {
        Self::free_except(device, pmu, |owner| owner.kind != OwnerKind::Tasks)
    }

    /// Returns all counters, except those of other programs for whose owner `excludes` returns
    /// true. If no counter would be left, returns all counters.
    fn free_except(device: &Device, pmu: &Pmu, excludes: impl Fn(&Owner) -> bool) -> Self {
        let mut supply = Self::of(device, pmu);
        let Owners(owners) = device.owners();
        let other_owners = owners
            .iter()
            .filter(|(_, owner)| owner.pid != Some(std::process::id()) && excludes(owner));
        for (counter, _) in other_owners {
            match *counter {
                CounterId::General(number) => {
                    supply.busy |= 1_u64.checked_shl(number.into()).unwrap_or(0);
                }
                CounterId::Fixed(number) => {
                    supply.fixed &= !1_u16.checked_shl(number.into()).unwrap_or(0);
                }
            }
        }
        if supply.general_free() == 0 && supply.fixed == 0 {
            // With no free counter, opening an event fails, and the driver's error names the owners.
            return Self::of(device, pmu);
        }
        supply
    }

    /// Returns the number of free general counters.
    pub(crate) fn general_free(self) -> u32 {
        let all_general = u64::MAX
            .checked_shr(64 - u32::from(self.general.min(64)))
            .unwrap_or(0);
        (all_general & !self.busy).count_ones()
    }
}

/// Reason why an event gets no counter.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ScheduleError {
    /// The only counter that this event can use is assigned to another event, or does not exist.
    Taken {
        label: String,
        counter: CounterId,
        by: Option<String>,
    },
    /// Too many events need the same counters: this event and the events `by` can use only these counters.
    Crowded {
        label: String,
        counters: Vec<CounterId>,
        by: Vec<String>,
    },
    /// No counter is left for this event.
    Full {
        label: String,
        /// Number of all events.
        events: usize,
        /// Numbers of free general and fixed counters.
        supply: (u32, u32),
    },
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken {
                label,
                counter,
                by: Some(by),
            } => {
                write!(
                    f,
                    "{label} needs {counter}, which already counts {by}\nCount one of the two in another run."
                )
            }
            Self::Taken {
                label,
                counter,
                by: None,
            } => {
                write!(
                    f,
                    "{label} needs {counter}, which this machine's driver does not have"
                )
            }
            Self::Crowded { label, by, .. } if by.is_empty() => {
                write!(f, "{label}: no counter of this machine can count it")
            }
            Self::Crowded {
                label,
                counters,
                by,
            } => {
                let counters: Vec<String> =
                    counters.iter().copied().map(decode::counter_name).collect();
                let uses = if by.len() == 1 { "uses" } else { "use" };
                let them = if counters.len() == 1 { "it" } else { "them" };
                write!(
                    f,
                    "{label}: no counter is left: only {} can count it, and {} {uses} {them}\n\
                     Count one of these events in another run.",
                    counters.join(", "),
                    by.join(", ")
                )
            }
            Self::Full {
                label,
                events,
                supply: (general, fixed),
            } => write!(
                f,
                "{label}: no counter is left: {events} events, and {general} general and {fixed} fixed counters \
                 are free\nCount the others in another run."
            ),
        }
    }
}

impl std::error::Error for ScheduleError {}

/// Returns whether two events are of one group, whose events are counted in the same run.
pub(crate) fn are_of_one_group(one: &EventSpec, other: &EventSpec) -> bool {
    one.group.is_some() && one.group == other.group
}

/// Returns a counter for each event, in the order of the events. Events get general counters as long as some are free, so
/// that all are programmed in the same way. If there are too few, events move to the fixed counters that can count them.
///
/// # Errors
/// [`ScheduleError`]: there is no assignment for all events.
pub(crate) fn schedule(
    events: &[EventSpec],
    supply: CounterSupply,
) -> Result<Vec<CounterId>, ScheduleError> {
    let mut assignment = Assignment {
        assigned: vec![None; events.len()],
        supply,
    };

    // Events that only one counter can count come first.
    for (index, event) in events.iter().enumerate() {
        let only_counter = event.pinned.or(match (event.general, event.fixed) {
            (None, Some(number)) => Some(CounterId::Fixed(number)),
            _ => None,
        });
        if let Some(counter) = only_counter {
            // A counter in use by another program is accepted here: opening the event fails with an error that names it.
            if !assignment.exists(counter) || assignment.assigned.contains(&Some(counter)) {
                let holder = assignment
                    .assigned
                    .iter()
                    .position(|place| *place == Some(counter));
                let by = holder.map(|index| events[index].label.clone());
                return Err(ScheduleError::Taken {
                    label: event.label.clone(),
                    counter,
                    by,
                });
            }
            assignment.assigned[index] = Some(counter);
        }
    }

    // If there are too few general counters, the last events that fixed counters can count get fixed ones.
    let unplaced_count = assignment
        .assigned
        .iter()
        .filter(|place| place.is_none())
        .count();
    let mut excess = unplaced_count.saturating_sub(assignment.free_general().count());
    for (index, event) in events.iter().enumerate().rev() {
        let Some(number) = event
            .fixed
            .filter(|_| excess > 0 && assignment.assigned[index].is_none())
        else {
            continue;
        };
        if assignment.is_free(CounterId::Fixed(number)) {
            assignment.assigned[index] = Some(CounterId::Fixed(number));
            excess -= 1;
        }
    }

    // Events with the fewest possible counters come first.
    let mut order: Vec<usize> = (0..events.len()).collect();
    order.sort_by_key(|index| events[*index].general_counters.count_ones());
    for index in order {
        let can_count_event = |counter: &CounterId| counts_on(&events[index], *counter);
        let place =
            assignment.assigned[index].or_else(|| assignment.free_general().find(can_count_event));
        assignment.assigned[index] = place;
    }
    for (index, event) in events.iter().enumerate() {
        let mut tried_counters = Vec::new();
        if assignment.assigned[index].is_none()
            && !assignment.make_room(events, index, &mut tried_counters)
        {
            return Err(assignment.conflict_error(events, event, tried_counters));
        }
    }
    Ok(assignment.assigned.into_iter().flatten().collect())
}

/// Returns the message about an event of tasks that only some counters can count: the driver chooses the counters of
/// tasks, and does not know this limit.
pub(crate) fn counter_choice_message(event: &EventSpec) -> String {
    let counters = (0..64).filter(|number| event.general_counters >> number & 1 != 0);
    let counters: Vec<String> = counters.map(|number| format!("PMC{number}")).collect();
    format!(
        "{}: only {} can count it, and for tasks the driver may choose another counter, which would count something else.",
        event.label,
        counters.join(", ")
    )
}

/// Returns whether a counter can count an event. If the event's modifier names a counter, only this
/// counter can count the event.
fn counts_on(event: &EventSpec, counter: CounterId) -> bool {
    event.pinned.is_none_or(|pinned| pinned == counter)
        && match counter {
            CounterId::General(number) => {
                event.general.is_some() && event.general_counters >> number & 1 != 0
            }
            CounterId::Fixed(number) => event.fixed == Some(number),
        }
}

/// The counters that are assigned so far, by event.
struct Assignment {
    assigned: Vec<Option<CounterId>>,
    supply: CounterSupply,
}

impl Assignment {
    /// Returns whether a counter exists, is not in use by others, and is not assigned.
    fn is_free(&self, counter: CounterId) -> bool {
        let is_busy = match counter {
            CounterId::General(number) => {
                self.supply.busy.checked_shr(number.into()).unwrap_or(0) & 1 != 0
            }
            CounterId::Fixed(_) => false,
        };
        self.exists(counter) && !is_busy && !self.assigned.contains(&Some(counter))
    }

    fn exists(&self, counter: CounterId) -> bool {
        match counter {
            CounterId::General(number) => number < self.supply.general,
            CounterId::Fixed(number) => {
                let fixed = self.supply.fixed.checked_shr(number.into());
                fixed.unwrap_or(0) & 1 != 0
            }
        }
    }

    /// Assigns a counter to an event by moving other events to other counters, if that is possible. Appends to `tried`
    /// the counters that it has tried.
    fn make_room(
        &mut self,
        events: &[EventSpec],
        index: usize,
        tried: &mut Vec<CounterId>,
    ) -> bool {
        for counter in self.usable_counters().collect::<Vec<_>>() {
            if !counts_on(&events[index], counter) || tried.contains(&counter) {
                continue;
            }
            tried.push(counter);
            let holder = self
                .assigned
                .iter()
                .position(|place| *place == Some(counter));
            if holder.is_none_or(|holder| self.make_room(events, holder, tried)) {
                self.assigned[index] = Some(counter);
                return true;
            }
        }
        false
    }

    /// Returns the error of an event for which there is no counter. `tried` has the counters that
    /// this event can use, and in turn the counters that the events on these counters can use.
    fn conflict_error(
        &self,
        events: &[EventSpec],
        event: &EventSpec,
        mut tried: Vec<CounterId>,
    ) -> ScheduleError {
        let label = event.label.clone();
        let is_general = |counter: &CounterId| matches!(counter, CounterId::General(_));
        let uses_all = self
            .usable_counters()
            .filter(is_general)
            .all(|c| tried.contains(&c));
        if uses_all && self.supply.general_free() > 0 {
            return ScheduleError::Full {
                label,
                events: events.len(),
                supply: (self.supply.general_free(), self.supply.fixed.count_ones()),
            };
        }
        tried.sort_unstable();
        let has_tried_counter =
            |place: &Option<CounterId>| place.is_some_and(|c| tried.contains(&c));
        let by = events
            .iter()
            .zip(&self.assigned)
            .filter(|(_, place)| has_tried_counter(place));
        ScheduleError::Crowded {
            label,
            by: by.map(|(event, _)| event.label.clone()).collect(),
            counters: tried,
        }
    }

    /// Returns all counters that are not in use by others, assigned or not.
    fn usable_counters(&self) -> impl Iterator<Item = CounterId> + use<> {
        let CounterSupply {
            general,
            fixed,
            busy,
        } = self.supply;
        let fixed = (0..16).filter(move |number| fixed >> number & 1 != 0);
        let general = (0..general)
            .filter(move |number| busy.checked_shr((*number).into()).unwrap_or(0) & 1 == 0)
            .map(CounterId::General);
        general.chain(fixed.map(CounterId::Fixed))
    }

    /// Returns the general counters that are free.
    fn free_general(&self) -> impl Iterator<Item = CounterId> + '_ {
        (0..self.supply.general)
            .map(CounterId::General)
            .filter(|counter| self.is_free(*counter))
    }
}

#[cfg(test)]
mod tests;
