// SPDX-License-Identifier: MIT OR Apache-2.0
//! The owners of the counters.

use std::fmt;

use perfmon_core::abi;

use crate::{CounterId, printable};

/// A kind of owner of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OwnerKind {
    /// Linux's perf, or the NMI watchdog.
    Perf,
    /// A program that has a [`Session`](crate::Session).
    Session,
    /// A program whose trace runs.
    Trace,
    /// Events of tasks. The counter counts for each task while the task runs.
    Tasks,
    /// Events of CPUs. Each CPU may count a different event with the counter.
    Cpus,
    /// Events of tasks, of CPUs or of cgroups that all have the same event select.
    Events,
    /// A kind of owner that this library does not know.
    Other(u32),
}

/// The owner of a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Owner {
    /// The kind of owner.
    pub kind: OwnerKind,
    /// The process that asked for the counter first, unless it has ended.
    pub pid: Option<u32>,
    /// Number of events that share the counter.
    pub users: u32,
    /// The name (comm) that the process had when it asked for the counter. The name may hold any bytes; [`fmt::Display`]
    /// makes them [`printable`].
    pub comm: String,
}

impl Owner {
    /// Converts the driver's answer; `None` if the counter is free.
    pub(crate) fn from_raw(raw: &abi::perfmon_counter_owner) -> Option<Self> {
        let kind = match raw.kind {
            abi::PERFMON_OWNER_NONE => return None,
            abi::PERFMON_OWNER_PERF => OwnerKind::Perf,
            abi::PERFMON_OWNER_SESSION => OwnerKind::Session,
            abi::PERFMON_OWNER_TRACE => OwnerKind::Trace,
            abi::PERFMON_OWNER_TASKS => OwnerKind::Tasks,
            abi::PERFMON_OWNER_CPUS => OwnerKind::Cpus,
            abi::PERFMON_OWNER_EVENTS => OwnerKind::Events,
            other => OwnerKind::Other(other),
        };
        let comm: Vec<u8> = raw
            .comm
            .iter()
            .map(|byte| byte.to_ne_bytes()[0])
            .take_while(|byte| *byte != 0)
            .collect();
        Some(Self {
            kind,
            pid: u32::try_from(raw.pid).ok().filter(|pid| *pid != 0),
            users: raw.users,
            comm: String::from_utf8_lossy(&comm).into_owned(),
        })
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count_events = |of: &str| match self.users {
            0 | 1 => format!("events of {of}"),
            users => format!("{users} events of {of}"),
        };
        let kind = match self.kind {
            OwnerKind::Perf => return f.write_str("Linux's perf or the NMI watchdog"),
            OwnerKind::Session => "counting".to_owned(),
            OwnerKind::Trace => "a trace".to_owned(),
            OwnerKind::Tasks => count_events("tasks"),
            OwnerKind::Cpus => count_events("CPUs"),
            OwnerKind::Events => count_events("tasks, CPUs or cgroups"),
            OwnerKind::Other(_) => "unknown use".to_owned(),
        };
        match (printable(&self.comm).as_str(), self.pid) {
            ("", None) => write!(f, "a process that has ended ({kind})"),
            (comm, None) => write!(f, "{comm} ({kind})"),
            (comm, Some(pid)) => write!(f, "{comm} ({kind}, pid {pid})"),
        }
    }
}

/// Counters that are not free, with the owner of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners(pub Vec<(CounterId, Owner)>);

impl Owners {
    /// Returns whether one of the owners is of this kind.
    #[must_use]
    pub fn contains_kind(&self, kind: OwnerKind) -> bool {
        self.0.iter().any(|(_, owner)| owner.kind == kind)
    }

    /// Returns whether the process `pid` owns all of these counters; `false` if the list is empty.
    #[must_use]
    pub fn are_all_owned_by(&self, pid: u32) -> bool {
        !self.0.is_empty() && self.0.iter().all(|(_, owner)| owner.pid == Some(pid))
    }
}

/// The explanation for an event that got no counter although every counter is free.
const NO_OWNER: &str = "no program has one: the events are too many, an event is exclusive, or a real-time program keeps a \
                        CPU busy (the kernel log names the CPU)";

impl fmt::Display for Owners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str(NO_OWNER);
        }
        let mut owners: Vec<(&Owner, usize)> = Vec::new();
        for (_, owner) in &self.0 {
            let is_same = |known: &&mut (&Owner, usize)| known.0.to_string() == owner.to_string();
            match owners.iter_mut().find(is_same) {
                Some((_, counters)) => *counters += 1,
                None => owners.push((owner, 1)),
            }
        }
        for (index, (owner, counters)) in owners.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            let plural = if *counters == 1 { "" } else { "s" };
            write!(f, "{separator}{owner} has {counters} counter{plural}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_of_an_owner_are_added_up() {
        let owner = |kind, comm: &str, pid| Owner {
            kind,
            pid,
            users: 1,
            comm: comm.to_owned(),
        };
        let make = owner(OwnerKind::Tasks, "make", Some(12));
        let other = owner(OwnerKind::Session, "\x1b[31mX\n", None);
        assert_eq!(other.to_string(), "?[31mX? (counting)");
        let shared_owner = Owner {
            users: 3,
            ..owner(OwnerKind::Events, "top", Some(7))
        };
        assert_eq!(
            shared_owner.to_string(),
            "top (3 events of tasks, CPUs or cgroups, pid 7)"
        );
        let owners = Owners(vec![
            (CounterId::General(0), make.clone()),
            (CounterId::General(1), owner(OwnerKind::Perf, "", None)),
            (CounterId::Fixed(0), make),
        ]);
        assert_eq!(
            owners.to_string(),
            "make (events of tasks, pid 12) has 2 counters, Linux's perf or the NMI watchdog has 1 counter"
        );
        let no_owner = Owners::default().to_string();
        assert!(no_owner.starts_with("no program has one"), "{no_owner}");
    }

    #[test]
    fn a_process_may_have_all_counters() {
        let owners = |pids: &[Option<u32>]| {
            let owner = |pid: &Option<u32>| Owner {
                kind: OwnerKind::Tasks,
                pid: *pid,
                users: 1,
                comm: String::new(),
            };
            let owners = pids.iter().map(owner).zip(0..);
            Owners(
                owners
                    .map(|(owner, number)| (CounterId::General(number), owner))
                    .collect(),
            )
        };
        assert!(owners(&[Some(7), Some(7)]).are_all_owned_by(7));
        assert!(!owners(&[Some(7), Some(9)]).are_all_owned_by(7));
        assert!(!owners(&[Some(7), None]).are_all_owned_by(7));
        assert!(!owners(&[]).are_all_owned_by(7));
    }
}
