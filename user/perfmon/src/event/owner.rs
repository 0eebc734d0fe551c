// SPDX-License-Identifier: MIT OR Apache-2.0
//! The owners of the counters.

use std::fmt;

use perfmon_core::abi;

use crate::sys::Call;
use crate::{Attempt, CounterId, Device, Error, printable};

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
    /// Events of tasks, which share the counter in time.
    Tasks,
    /// Events of CPUs.
    Cpus,
    /// Events of tasks and of CPUs, which all have the same event select.
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
    /// The name (comm) of the process when it asked. It may hold any bytes; [`fmt::Display`] makes them [`printable`].
    pub comm: String,
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
            OwnerKind::Events => count_events("tasks and CPUs"),
            OwnerKind::Other(_) => "unknown use".to_owned(),
        };
        match (printable(&self.comm).as_str(), self.pid) {
            ("", None) => write!(f, "a process that has ended ({kind})"),
            (comm, None) => write!(f, "{comm} ({kind})"),
            (comm, Some(pid)) => write!(f, "{comm} ({kind}, pid {pid})"),
        }
    }
}

impl Device {
    /// Returns the counters that are not free, with their owners.
    #[must_use]
    pub fn owners(&self) -> Owners {
        Owners::of(self)
    }

    /// Returns the owner of a counter; `None` if it is free.
    ///
    /// # Errors
    /// [`Cause::Invalid`](crate::Cause::Invalid) if the CPUs have no such counter.
    pub fn owner(&self, id: CounterId) -> Result<Option<Owner>, Error> {
        let mut raw = abi::perfmon_counter_owner {
            num: id.number(),
            kind: 0,
            pid: 0,
            users: 0,
            comm: [0; 16],
            reserved: [0; 2],
        };
        self.call(Call::GetOwner(&mut raw), || Attempt::Owner(id))?;
        let kind = match raw.kind {
            abi::PERFMON_OWNER_NONE => return Ok(None),
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
        Ok(Some(Owner {
            kind,
            pid: u32::try_from(raw.pid).ok().filter(|pid| *pid != 0),
            users: raw.users,
            comm: String::from_utf8_lossy(&comm).into_owned(),
        }))
    }
}

/// Counters that are not free, with the owner of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners(pub Vec<(CounterId, Owner)>);

impl Owners {
    /// Returns whether one of them is of this kind.
    #[must_use]
    pub fn contains_kind(&self, kind: OwnerKind) -> bool {
        self.0.iter().any(|(_, owner)| owner.kind == kind)
    }

    /// Reads the owner of each counter.
    pub(super) fn of(device: &Device) -> Self {
        let numbers = |counters: u16| 0..u8::try_from(counters).unwrap_or(u8::MAX);
        let properties = device.properties();
        let general = numbers(properties.general.number).map(CounterId::General);
        let fixed = numbers(properties.fixed.number).map(CounterId::Fixed);
        let owned_counters = general
            .chain(fixed)
            // Skips counters whose owner can't be read: no event gets them.
            .filter_map(|id| Some((id, device.owner(id).ok()??)));
        Self(owned_counters.collect())
    }
}

impl fmt::Display for Owners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
            "top (3 events of tasks and CPUs, pid 7)"
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
    }
}
