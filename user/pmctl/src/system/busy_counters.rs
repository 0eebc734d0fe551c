// SPDX-License-Identifier: MIT OR Apache-2.0
//! Advice for counters that are in use: by this measurement's own events, or by others.

use std::collections::BTreeSet;
use std::process;

use perfmon::event::{OwnerKind, Owners};
use perfmon::{Attempt, Cause, CounterId, Device, Error};

/// Numbers of counters in use by kind of owner, from the view of an event that needs a counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OwnerCounts {
    /// Number of counters that this process has asked for.
    own: usize,
    /// Number of counters in use by events of tasks, from other processes; 0 unless the event
    /// itself counts tasks. Events of different tasks share counters in time, so only events of the
    /// same task keep the event from such a counter.
    shared: usize,
    /// Number of counters that all other owners have.
    others: usize,
    /// The processes among these other owners.
    other_pids: BTreeSet<u32>,
}

impl OwnerCounts {
    /// Counts `owners`, each given by its kind and process, from the view of an event of the process `own_pid`.
    fn new(
        owners: impl Iterator<Item = (OwnerKind, Option<u32>)>,
        (own_pid, is_of_tasks): (u32, bool),
    ) -> Self {
        let mut counts = Self::default();
        for (kind, pid) in owners {
            match (kind, pid) {
                (_, Some(pid)) if pid == own_pid => counts.own += 1,
                (OwnerKind::Tasks, _) if is_of_tasks => counts.shared += 1,
                _ => {
                    counts.others += 1;
                    counts.other_pids.extend(pid);
                }
            }
        }
        counts
    }

    /// Returns advice; `None` if the measurement has none of the counters, unless all counters are `shared`.
    /// `free_note` is empty or a sentence.
    fn advice(&self, free_note: &str) -> Option<String> {
        match self {
            Self {
                own: 0, shared: 0, ..
            }
            | Self {
                own: 0,
                others: 1..,
                ..
            } => None,
            Self {
                shared: 0,
                others: 0,
                ..
            } => Some(format!(
                "These counters are in use by this measurement. {free_note}Count fewer events at once."
            )),
            Self { others: 0, .. } => Some(format!(
                "Events of other tasks share them with this one: only events of the same task keep it from a counter, of this \
                 measurement or of another program. {free_note}Count fewer events at once, or end other programs that count the task."
            )),
            Self {
                own, other_pids, ..
            } => {
                let verb = if *own == 1 { "is" } else { "are" };
                Some(format!(
                    "{own} of them {verb} in use by this measurement (pid {}). {free_note}Count fewer events, or end {}.",
                    process::id(),
                    programs_in_words(other_pids)
                ))
            }
        }
    }
}

/// Returns these processes as the end of a sentence.
fn programs_in_words(pids: &BTreeSet<u32>) -> String {
    if pids.is_empty() {
        return "the programs that have the others".to_owned();
    }
    let pids: Vec<String> = pids.iter().map(|pid| format!("pid {pid}")).collect();
    pids.join(", ")
}

/// Returns two texts for an error of counters in use: the owners, which may be empty, and advice. Returns `None` for other
/// errors, and if the advice of the library is the right one.
pub(super) fn owners_and_advice(error: &Error) -> Option<(String, String)> {
    match (&error.attempt, &error.cause) {
        (Attempt::OpenEvent(_, target), Cause::NoFreeCounter(owners)) => {
            let free_note = if has_free_counter(owners) {
                "Other counters are free, but can't count this event. "
            } else {
                ""
            };
            let advice = advice(owners, target.is_of_tasks(), free_note)?;
            Some((String::new(), advice))
        }
        (_, Cause::HardwareBusy) => hardware_owners_and_advice(),
        _ => None,
    }
}

/// Returns the owners and advice for a session or a trace whose counters are in use; `None` if perf has some of them, or no
/// owner is known.
fn hardware_owners_and_advice() -> Option<(String, String)> {
    const WAIT_FOR_OTHERS: &str =
        "Count fewer events at once, or wait until the others have ended.";
    let owners = Device::open().ok()?.owners();
    if owners.0.is_empty() || owners.contains_kind(OwnerKind::Perf) {
        return None;
    }
    let advice = advice(&owners, false, "").unwrap_or_else(|| WAIT_FOR_OTHERS.to_owned());
    Some((format!(": {owners}."), advice))
}

/// Returns advice if this measurement may have some of the counters; `None` if others have them all.
fn advice(owners: &Owners, is_of_tasks: bool, free_note: &str) -> Option<String> {
    let own_pid = process::id();
    let kinds_and_pids = owners.0.iter().map(|(_, owner)| (owner.kind, owner.pid));
    OwnerCounts::new(kinds_and_pids, (own_pid, is_of_tasks)).advice(free_note)
}

/// Returns whether a program other than this process has one of the counters.
pub(crate) fn has_other_owner(owners: &Owners) -> bool {
    let mut owners = owners.0.iter();
    owners.any(|(_, owner)| owner.pid != Some(process::id()))
}

/// Returns whether at least one counter is free: none of these owners has it.
fn has_free_counter(owners: &Owners) -> bool {
    let Ok(device) = Device::open() else {
        return false;
    };
    let properties = device.properties();
    let number = |counters: u16| 0..u8::try_from(counters).unwrap_or(u8::MAX);
    let general = number(properties.general.number).map(CounterId::General);
    let mut counters = general.chain(number(properties.fixed.number).map(CounterId::Fixed));
    // Events can't use a counter whose owner can't be read.
    counters.any(|id| !owners.0.iter().any(|(taken, _)| *taken == id) && device.owner(id).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u32 = 7;
    const OTHER: u32 = 9;

    fn advice_for(owners: &[(OwnerKind, u32)], is_of_tasks: bool) -> Option<String> {
        let owners = owners.iter().map(|(kind, pid)| (*kind, Some(*pid)));
        let counts = OwnerCounts::new(owners, (OWN, is_of_tasks));
        counts.advice("")
    }

    #[test]
    fn own_events_call_for_fewer_of_them() {
        for kind in [OwnerKind::Tasks, OwnerKind::Cpus, OwnerKind::Events] {
            for is_of_tasks in [true, false] {
                let advice = advice_for(&[(kind, OWN), (kind, OWN)], is_of_tasks);
                let advice = advice.expect("they have the counters");
                // Only `stat` knows whether --multiplex helps, and names it.
                assert_eq!(
                    advice,
                    "These counters are in use by this measurement. Count fewer events at once."
                );
            }
        }
    }

    #[test]
    fn events_of_other_tasks_keep_no_task_from_a_counter() {
        let shared = [(OwnerKind::Tasks, OTHER), (OwnerKind::Tasks, OTHER)];
        let advice = advice_for(&shared, true).expect("the measurement has some");
        assert!(advice.contains("only events of the same task"), "{advice}");
        assert_eq!(advice_for(&shared, false), None, "an event of CPUs");
        let with_own = [shared[0], (OwnerKind::Tasks, OWN)];
        assert_eq!(advice_for(&with_own, true), Some(advice));
    }

    #[test]
    fn others_are_named_beside_own_events() {
        const SHARING: u32 = 11;
        let owners = [
            (OwnerKind::Cpus, OTHER),
            (OwnerKind::Tasks, OWN),
            (OwnerKind::Tasks, SHARING),
        ];
        let advice = advice_for(&owners, true).expect("it has one");
        assert!(advice.starts_with("1 of them is in use by this measurement"));
        assert!(advice.ends_with("Count fewer events, or end pid 9."));
        assert_eq!(advice_for(&owners[..1], true), None);
        assert_eq!(advice_for(&[(OwnerKind::Perf, OTHER)], true), None);
        assert_eq!(advice_for(&[], true), None);
    }
}
