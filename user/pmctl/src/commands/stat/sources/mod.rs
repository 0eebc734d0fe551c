// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sources of each run's counts: counters of CPUs, events of cgroups, or events of tasks. Beside these, software
//! events, events of Linux's PMUs, machine values and the time are counted.

pub(super) mod cgroup_use;
mod cgroups;
mod cpu_events;
pub(super) mod cpus;
mod order;
pub(super) mod others;
pub(super) mod source;
pub(super) mod tasks;
pub(super) mod with_duration;
pub(super) mod with_pmus;
pub(super) mod with_software;
pub(super) mod with_values;

use anyhow::Result;
use perfmon::spec::EventSpec;
use perfmon::{Pmu, Session};

use crate::args::Stat;
use crate::commands::stat::scope::Scope;
use crate::system::exit;
use crate::system::machine::Machine;
use cgroup_use::CgroupUse;
use cgroups::CgroupCounts;
use cpu_events::CpuEvents;
use others::OtherEvents;
use source::CountSource;
use tasks::{CountingManner, TaskCounts};
use with_duration::WithDuration;
use with_pmus::WithPmus;
use with_software::WithSoftware;
use with_values::WithValues;

/// The options, devices and events that the source of each run is opened with.
pub(super) struct Sources<'a> {
    args: &'a Stat,
    machine: &'a Machine,
    pmu: &'a Pmu,
    scope: &'a Scope,
    online: Vec<usize>,
    cgroups: Option<CgroupUse>,
    other_events: OtherEvents,
    /// The driver's session, for counters of all CPUs and for values; `None` if neither is needed.
    session: Option<Session>,
}

impl<'a> Sources<'a> {
    /// Opens the driver's session, if one is needed.
    pub(super) fn new(
        args: &'a Stat,
        (machine, pmu): (&'a Machine, &'a Pmu),
        (scope, online, cgroups): (&'a Scope, Vec<usize>, Option<CgroupUse>),
        (other_events, parts): (OtherEvents, &[Vec<EventSpec>]),
    ) -> Result<Self> {
        let takes_counters =
            |events: &Vec<EventSpec>| !cpu_events::needs_cpu_events(args, events, pmu);
        let has_counters = matches!(scope, Scope::Cpus { .. }) && parts.iter().any(takes_counters);
        let needs_session = has_counters || !other_events.values.is_empty();
        let session = needs_session.then(Session::open).transpose();
        Ok(Self {
            args,
            machine,
            pmu,
            scope,
            online,
            cgroups,
            other_events,
            session: session.map_err(exit::with_help)?,
        })
    }

    /// Opens the source for one part of the events.
    pub(super) fn open_part(
        &self,
        parts: &[Vec<EventSpec>],
        part: usize,
    ) -> Result<Box<dyn CountSource>> {
        let events = parts[part].clone();
        let counts: Box<dyn CountSource> = match (&self.cgroups, &self.session, self.scope) {
            (Some(cgroups), _, _) => Box::new(CgroupCounts::new(
                events,
                cgroups,
                (events_before(parts, part), parts.len() == 1),
                self.args.cpu.as_ref(),
            )?),
            (None, _, Scope::Cpus { .. })
                if cpu_events::needs_cpu_events(self.args, &events, self.pmu) =>
            {
                Box::new(CpuEvents::new(self.args, events, &self.online)?)
            }
            (None, Some(session), Scope::Cpus { .. }) => Box::new(cpus::open_counters(
                self.args,
                (session, events),
                &self.online,
                (self.machine, self.pmu),
            )?),
            (None, _, scope) => {
                let manner = CountingManner::from_args(self.args, scope);
                Box::new(TaskCounts::new(events, scope, manner)?)
            }
        };
        self.with_others(counts)
    }

    /// Returns a source that adds software events, events of Linux's PMUs, values and the duration to `counts`, in the order
    /// of -e.
    fn with_others(&self, counts: Box<dyn CountSource>) -> Result<Box<dyn CountSource>> {
        let OtherEvents {
            software,
            values,
            pmus,
            has_duration,
        } = &self.other_events;
        let counts = if software.is_empty() {
            counts
        } else {
            let scope = (self.scope, &self.online[..]);
            Box::new(WithSoftware::new(
                self.args,
                software.clone(),
                scope,
                counts,
            ))
        };
        let counts = if pmus.is_empty() {
            counts
        } else {
            Box::new(WithPmus::new(self.args, pmus.clone(), &self.online, counts))
        };
        let counts = match self.session.as_ref().filter(|_| !values.is_empty()) {
            Some(session) => Box::new(WithValues::new(session, values.clone(), counts)?),
            None => counts,
        };
        let counts = if *has_duration {
            Box::new(WithDuration::new(counts))
        } else {
            counts
        };
        Ok(order::in_event_order(
            &self.args.events,
            &self.other_events,
            self.pmu,
            counts,
        ))
    }
}

/// Returns the number of events in the parts before this one.
pub(super) fn events_before(parts: &[Vec<EventSpec>], part: usize) -> usize {
    parts[..part].iter().map(Vec::len).sum()
}
