// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counters of cgroups, which are containers, machines and services: of all whose names have one of some forms.
//!
//! Which cgroups there are is looked up at each reading: new ones are counted from then on, and those that are gone leave.
//! There is a limit on their number, for each takes descriptors and, on each CPU, memory of the kernel.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use anyhow::Result;
use perfmon::event::Cgroup;
use perfmon::spec::EventSpec;
use perfmon::{Cause, Device, Error};

use super::open_events::{Lack, OpenEvents};
use crate::events::cgroups::{ContainerNames, FoundCgroup, FoundCgroups, Pattern, search};
use crate::events::rights;
use crate::system::exit;
use crate::system::stdio::complain;

/// The most cgroups that are looked at: a walk over as many takes a part of a second.
const MAX_CGROUPS_SEARCHED: usize = 50_000;

/// The counters of cgroups.
pub(super) struct Containers {
    device: Device,
    events: Vec<EventSpec>,
    mount: PathBuf,
    patterns: Vec<Pattern>,
    most: usize,
    /// By name.
    counted: BTreeMap<PathBuf, Container>,
    /// Number of cgroups that were found and are not counted.
    left_out: usize,
    /// The last remark on cgroups that are not counted.
    told: Option<String>,
    /// Number of times that the counts of one were lost and began from 0.
    lost: u64,
}

/// A cgroup that is counted.
struct Container {
    found: FoundCgroup,
    cgroup: Cgroup,
    labels: Labels,
    open: OpenEvents,
}

/// The names of a cgroup.
#[derive(Clone, Debug)]
pub(super) struct Labels {
    /// Its name with a slash in front, as cAdvisor has it.
    pub(super) id: String,
    pub(super) names: ContainerNames,
}

/// A count.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContainerCount<'a> {
    pub(super) labels: &'a Labels,
    /// The index of the event.
    pub(super) event: usize,
    pub(super) value: u64,
}

impl Containers {
    /// Finds the cgroups, and opens the events of each.
    ///
    /// # Errors
    /// No cgroups are mounted, or this user may not count them.
    pub(super) fn open(
        device: Device,
        events: Vec<EventSpec>,
        (patterns, most): (Vec<Pattern>, usize),
    ) -> Result<Self> {
        let mount = Cgroup::mount_point();
        let mount = mount.map_err(|error| exit::with_help_to("--cgroups", &error))?;
        let mut containers = Self {
            device,
            events,
            mount,
            patterns,
            most,
            counted: BTreeMap::new(),
            left_out: 0,
            told: None,
            lost: 0,
        };
        match containers.refresh() {
            Ok(Some(error)) if error.cause == Cause::Forbidden => Err(rights::cgroups_forbidden()),
            Ok(_) => Ok(containers),
            Err(error) => Err(error.context("--cgroups")),
        }
    }

    /// Returns the events.
    pub(super) fn events(&self) -> &[EventSpec] {
        &self.events
    }

    /// Returns how many cgroups are counted.
    pub(super) fn number(&self) -> usize {
        self.counted.len()
    }

    /// Returns the limit of that number.
    pub(super) const fn most(&self) -> usize {
        self.most
    }

    /// Returns how many cgroups have a name of the forms, and are not counted.
    pub(super) const fn left_out(&self) -> usize {
        self.left_out
    }

    /// Returns how many counts there should be and are not.
    pub(super) fn missing(&self) -> usize {
        let containers = self.counted.values();
        containers.map(|container| container.open.missing()).sum()
    }

    /// Returns how often counts were lost.
    pub(super) const fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the counts of all cgroups that there are now, with their labels. They are read one right after the other.
    ///
    /// # Errors
    /// None that are specific to it.
    pub(super) fn read(&mut self) -> Result<Vec<ContainerCount<'_>>, Error> {
        if let Err(error) = self.refresh() {
            self.complain_once(Some(format!(
                "--cgroups: {error:#}; those that are known are counted on"
            )));
        }
        let mut values = Vec::with_capacity(self.counted.len() * self.events.len());
        for (index, container) in self.counted.values_mut().enumerate() {
            self.lost += container
                .open
                .read(|event, value| values.push((index, event, value)))?;
        }
        let labels: Vec<&Labels> = self
            .counted
            .values()
            .map(|container| &container.labels)
            .collect();
        let count = |(index, event, value): (usize, usize, u64)| ContainerCount {
            labels: labels[index],
            event,
            value,
        };
        Ok(values.into_iter().map(count).collect())
    }

    /// Looks which cgroups there are, forgets those that are gone, and opens the events of new ones. Returns the error for
    /// which some were left out.
    fn refresh(&mut self) -> Result<Option<Error>> {
        let FoundCgroups { cgroups, is_cut } =
            search(&self.mount, &self.patterns, MAX_CGROUPS_SEARCHED)?;
        let mount = &self.mount;
        let there: HashSet<&FoundCgroup> = cgroups.iter().collect();
        self.counted.retain(|_, container| {
            let found = &container.found;
            there.contains(found) || (is_cut && found.is_there(mount))
        });
        for container in self.counted.values_mut() {
            // What could not be opened may be free now.
            container.open_missing(&self.device, &self.events);
        }
        let mut refused = None;
        self.left_out = 0;
        for found in cgroups {
            if self.counted.contains_key(&found.name) {
                continue;
            }
            if self.counted.len() >= self.most || refused.is_some() {
                self.left_out += 1;
                continue;
            }
            match self.container(&found) {
                Ok(container) => {
                    self.counted.insert(found.name, container);
                }
                // It has been removed since it was found.
                Err(error) if error.cause == Cause::NoSuchCgroup => {}
                Err(error) => {
                    self.left_out += 1;
                    refused = Some(error);
                }
            }
        }
        self.complain_once(self.complaint(refused.as_ref(), is_cut));
        Ok(refused)
    }

    /// Opens the events of a cgroup.
    ///
    /// # Errors
    /// The errors of opening the cgroup; and of an event, unless other cgroups may lack it, too.
    fn container(&self, found: &FoundCgroup) -> Result<Container, Error> {
        let mut container = Container {
            found: found.clone(),
            cgroup: Cgroup::open(self.mount.join(&found.name))?,
            labels: Labels {
                id: format!("/{}", found.name.display()),
                names: ContainerNames::of(&found.name),
            },
            open: OpenEvents::none(&self.events),
        };
        let failed = container.open_missing(&self.device, &self.events);
        let mut errors = failed.into_iter().map(|(_, error)| error);
        match errors.find(|error| Lack::of(&error.cause).is_none()) {
            Some(error) => Err(error),
            None => Ok(container),
        }
    }

    /// Returns what is to be said of the cgroups that are not counted.
    fn complaint(&self, refused: Option<&Error>, is_cut: bool) -> Option<String> {
        if is_cut {
            return Some(format!(
                "--cgroups: there are more than {MAX_CGROUPS_SEARCHED} cgroups where the forms may be, and the further ones are not looked \
                 at. Begin the forms with a name, as `kubepods.slice/**`."
            ));
        }
        if let Some(error) = refused {
            let help = error.cause.help().unwrap_or_default();
            return Some(format!(
                "{} cgroups are counted, and no further one: {error}\n{help}",
                self.counted.len()
            ));
        }
        (self.left_out > 0).then(|| {
            format!(
                "{} cgroups are counted, and no further one: that is the limit. --max-cgroups raises it, or --cgroups names \
                 fewer; the metric perfmon_cgroups_left_out tells how many there are.",
                self.most
            )
        })
    }

    /// Prints a message about uncounted cgroups, unless it is the same as the last one.
    fn complain_once(&mut self, words: Option<String>) {
        if words != self.told {
            if let Some(words) = &words {
                complain(words);
            }
            self.told = words;
        }
    }
}

impl Container {
    /// Opens the events that are not open. Returns those that still are not, and why.
    fn open_missing(&mut self, device: &Device, events: &[EventSpec]) -> Vec<(usize, Error)> {
        let cgroup = &self.cgroup;
        self.open
            .open_missing((device, events), |leader| leader.cgroup(cgroup))
    }
}
