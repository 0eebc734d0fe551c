// SPDX-License-Identifier: MIT OR Apache-2.0
//! Assigns events to counters.

use std::fmt;

use perfmon::event::{Owner, OwnerKind, Owners};
use perfmon::spec::EventSpec;
use perfmon::{CounterId, Device, Pmu};

use crate::events::decode;

/// Counters of the CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CounterSupply {
    /// Number of general counters.
    pub(crate) general: u8,
    /// Fixed ones: bit n for counter n.
    pub(crate) fixed: u16,
    /// General ones that others have: bit n for counter n.
    pub(crate) busy: u64,
}

impl CounterSupply {
    /// The counters that the driver has.
    pub(crate) fn of(device: &Device, pmu: &Pmu) -> Self {
        Self {
            general: u8::try_from(device.properties().general.number).unwrap_or(u8::MAX),
            // The driver reports how many there are, CPUID which ones.
            fixed: pmu.fixed_bitmap(),
            busy: 0,
        }
    }

    /// The counters that no other program, perf or watchdog has now.
    pub(crate) fn free(device: &Device, pmu: &Pmu) -> Self {
        Self::free_of(device, pmu, |_| true)
    }

    /// The counters that are free for events of tasks, which share counters with those of other tasks.
    pub(crate) fn free_for_tasks(device: &Device, pmu: &Pmu) -> Self {
        Self::free_of(device, pmu, |owner| owner.kind != OwnerKind::Tasks)
    }

    fn free_of(device: &Device, pmu: &Pmu, excludes: impl Fn(&Owner) -> bool) -> Self {
        let mut supply = Self::of(device, pmu);
        let Owners(owners) = device.owners();
        let others = owners
            .iter()
            .filter(|(_, owner)| owner.pid != Some(std::process::id()) && excludes(owner));
        for (counter, _) in others {
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
            // The driver's error names the owners.
            return Self::of(device, pmu);
        }
        supply
    }

    /// Returns the number of general counters that can be had.
    pub(crate) fn general_free(self) -> u32 {
        let all = u64::MAX
            .checked_shr(64 - u32::from(self.general.min(64)))
            .unwrap_or(0);
        (all & !self.busy).count_ones()
    }
}

/// Reason why an event gets no counter.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ScheduleError {
    /// The only counter that this event can have is another one's, or isn't there.
    Taken {
        label: String,
        counter: CounterId,
        by: Option<String>,
    },
    /// Only these counters can count this event and others, which are too many.
    Crowded {
        label: String,
        counters: Vec<CounterId>,
        by: Vec<String>,
    },
    /// No counter is left for this event.
    Full {
        label: String,
        events: usize,
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
                    "{label} needs {counter}, which {by} has\nLeave one of them out."
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
                let counters: Vec<String> = counters.iter().copied().map(decode::counter).collect();
                let has = if by.len() == 1 { "has" } else { "have" };
                write!(
                    f,
                    "{label}: no counter is left: only {} can count it, which {} {has}\n\
                     Count one of them in another run.",
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
                 are free\nCount the others in another run: pmctl never shares a counter between events, \
                 so that every number is a count and no estimate."
            ),
        }
    }
}

impl std::error::Error for ScheduleError {}

/// Returns a counter for each event, in their order. An event takes a general counter while there are any, so that
/// all are programmed in the same way; then those that can give way to a fixed one.
pub(crate) fn schedule(
    events: &[EventSpec],
    supply: CounterSupply,
) -> Result<Vec<CounterId>, ScheduleError> {
    let mut plan = Assignment {
        places: vec![None; events.len()],
        supply,
    };

    // Events that only one counter can count come first.
    for (index, event) in events.iter().enumerate() {
        let only = event.pinned.or(match (event.general, event.fixed) {
            (None, Some(number)) => Some(CounterId::Fixed(number)),
            _ => None,
        });
        if let Some(counter) = only {
            // If another program has it, the driver's error names that program.
            if !plan.exists(counter) || plan.places.contains(&Some(counter)) {
                let holder = plan.places.iter().position(|place| *place == Some(counter));
                let by = holder.map(|index| events[index].label.clone());
                return Err(ScheduleError::Taken {
                    label: event.label.clone(),
                    counter,
                    by,
                });
            }
            plan.places[index] = Some(counter);
        }
    }

    // If the general counters are too few, the last events that a fixed one can count go there.
    let unplaced = plan.places.iter().filter(|place| place.is_none()).count();
    let mut excess = unplaced.saturating_sub(plan.free_general().count());
    for (index, event) in events.iter().enumerate().rev() {
        let Some(number) = event
            .fixed
            .filter(|_| excess > 0 && plan.places[index].is_none())
        else {
            continue;
        };
        if plan.is_free(CounterId::Fixed(number)) {
            plan.places[index] = Some(CounterId::Fixed(number));
            excess -= 1;
        }
    }

    // Those with the least choice come first.
    let mut order: Vec<usize> = (0..events.len()).collect();
    order.sort_by_key(|index| events[*index].general_counters.count_ones());
    for index in order {
        let allowed = |counter: &CounterId| counts_on(&events[index], *counter);
        let place = plan.places[index].or_else(|| plan.free_general().find(allowed));
        plan.places[index] = place;
    }
    for (index, event) in events.iter().enumerate() {
        let mut seen = Vec::new();
        if plan.places[index].is_none() && !plan.make_room(events, index, &mut seen) {
            return Err(plan.conflict(events, event, seen));
        }
    }
    Ok(plan.places.into_iter().flatten().collect())
}

/// Returns why an event can't be left to the driver, which chooses the counters of tasks.
pub(crate) fn needs_choice(event: &EventSpec) -> String {
    let counters = (0..64).filter(|number| event.general_counters >> number & 1 != 0);
    let counters: Vec<String> = counters.map(|number| format!("PMC{number}")).collect();
    format!(
        "{}: only {} can count it, and for tasks the driver might choose another counter, which counts something else.",
        event.label,
        counters.join(", ")
    )
}

/// Returns whether a counter can count an event, and is not excluded by one that is asked for.
fn counts_on(event: &EventSpec, counter: CounterId) -> bool {
    event.pinned.is_none_or(|pinned| pinned == counter)
        && match counter {
            CounterId::General(number) => {
                event.general.is_some() && event.general_counters >> number & 1 != 0
            }
            CounterId::Fixed(number) => event.fixed == Some(number),
        }
}

/// Counters that are assigned so far.
struct Assignment {
    places: Vec<Option<CounterId>>,
    supply: CounterSupply,
}

impl Assignment {
    fn is_free(&self, counter: CounterId) -> bool {
        let is_busy = match counter {
            CounterId::General(number) => {
                self.supply.busy.checked_shr(number.into()).unwrap_or(0) & 1 != 0
            }
            CounterId::Fixed(_) => false,
        };
        self.exists(counter) && !is_busy && !self.places.contains(&Some(counter))
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

    /// Places an event on a counter of another one, which moves on to a third counter and so on.
    fn make_room(&mut self, events: &[EventSpec], index: usize, seen: &mut Vec<CounterId>) -> bool {
        for counter in self.all().collect::<Vec<_>>() {
            if !counts_on(&events[index], counter) || seen.contains(&counter) {
                continue;
            }
            seen.push(counter);
            let holder = self.places.iter().position(|place| *place == Some(counter));
            if holder.is_none_or(|holder| self.make_room(events, holder, seen)) {
                self.places[index] = Some(counter);
                return true;
            }
        }
        false
    }

    /// Returns why there is no room for an event. `seen` are the counters that it and those that have them can use.
    fn conflict(
        &self,
        events: &[EventSpec],
        event: &EventSpec,
        mut seen: Vec<CounterId>,
    ) -> ScheduleError {
        let label = event.label.clone();
        let is_general = |counter: &CounterId| matches!(counter, CounterId::General(_));
        let uses_all = self.all().filter(is_general).all(|c| seen.contains(&c));
        if uses_all && self.supply.general_free() > 0 {
            return ScheduleError::Full {
                label,
                events: events.len(),
                supply: (self.supply.general_free(), self.supply.fixed.count_ones()),
            };
        }
        seen.sort_unstable();
        let has_one = |place: &Option<CounterId>| place.is_some_and(|c| seen.contains(&c));
        let by = events
            .iter()
            .zip(&self.places)
            .filter(|(_, place)| has_one(place));
        ScheduleError::Crowded {
            label,
            by: by.map(|(event, _)| event.label.clone()).collect(),
            counters: seen,
        }
    }

    fn all(&self) -> impl Iterator<Item = CounterId> + use<> {
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

    fn free_general(&self) -> impl Iterator<Item = CounterId> + '_ {
        (0..self.supply.general)
            .map(CounterId::General)
            .filter(|counter| self.is_free(*counter))
    }
}

#[cfg(test)]
mod tests;
