// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of cgroups, which are containers, virtual machines and services. The cgroups are chosen by patterns of names.
//!
//! The cgroups are looked up at each reading. New cgroups are counted from then on, and removed cgroups are no longer
//! shown. Their number is limited, since each takes descriptors and, on each CPU, memory of the kernel.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use anyhow::Result;
use perfmon::event::Cgroup;
use perfmon::spec::EventSpec;
use perfmon::{Cause, Device, Error};

use super::open_events::{OpenEvents, UncountedReason};
use crate::events::cgroups::{
    ContainerNames, FoundCgroup, FoundCgroups, Pattern, SearchLimit, concerns_one_cgroup, escaped,
    search,
};
use crate::events::rights;
use crate::system::exit;
use crate::system::stdio::complain;

/// The limits of a search, which takes a fraction of a second. Deeper cgroups have no counts.
const SEARCH_LIMIT: SearchLimit = SearchLimit {
    cgroups: 50_000,
    levels: Cgroup::MAX_LEVELS,
};

/// Number of descriptors that the events of cgroups leave free: for connections, for a profile and for the next search.
const RESERVED_DESCRIPTORS: usize = 100;

/// The counters of cgroups.
pub(crate) struct Containers {
    device: Device,
    events: Vec<EventSpec>,
    mount: PathBuf,
    patterns: Vec<Pattern>,
    limit: CgroupLimit,
    /// The cgroups that are counted, by name.
    by_path: BTreeMap<PathBuf, Container>,
    /// Number of cgroups that match and are not counted.
    left_out_count: usize,
    /// The last message about cgroups that are not counted.
    last_complaint: Option<String>,
    /// Number of times that a cgroup's counts were lost and began from 0.
    lost_count: u64,
}

/// The largest number of cgroups that are counted, and the advice if there are more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CgroupLimit {
    pub(crate) max_count: usize,
    pub(crate) advice: &'static str,
}

/// A cgroup that is counted.
struct Container {
    found_cgroup: FoundCgroup,
    cgroup: Cgroup,
    labels: Labels,
    open_events: OpenEvents,
}

/// The names of a cgroup.
#[derive(Clone, Debug)]
pub(crate) struct Labels {
    /// The name with a slash in front, as cAdvisor shows it.
    pub(crate) id: String,
    /// Inode of the directory, which differs for another cgroup with the same name.
    pub(crate) inode: u64,
    pub(super) names: ContainerNames,
}

/// The count of an event in a cgroup.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContainerCount<'a> {
    pub(crate) labels: &'a Labels,
    /// The index of the event.
    pub(crate) event: usize,
    pub(crate) value: u64,
}

impl Containers {
    /// Finds the cgroups, and opens the events of each. At most `limit` cgroups are counted.
    ///
    /// # Errors
    /// No cgroups are mounted, or this user may not count them.
    pub(crate) fn open(
        device: Device,
        events: Vec<EventSpec>,
        (patterns, limit): (Vec<Pattern>, CgroupLimit),
    ) -> Result<Self> {
        let mount = Cgroup::mount_point();
        let mount = mount.map_err(|error| exit::error_with_advice("--cgroups", &error))?;
        let mut containers = Self {
            device,
            events,
            mount,
            patterns,
            limit,
            by_path: BTreeMap::new(),
            left_out_count: 0,
            last_complaint: None,
            lost_count: 0,
        };
        match containers.refresh() {
            Ok(Some(error)) if error.cause == Cause::Forbidden => {
                Err(rights::cgroups_forbidden("count"))
            }
            Ok(_) => Ok(containers),
            Err(error) => Err(error.context("--cgroups")),
        }
    }

    /// Returns the events.
    pub(super) fn events(&self) -> &[EventSpec] {
        &self.events
    }

    /// Returns the number of cgroups that are counted.
    pub(super) fn cgroup_count(&self) -> usize {
        self.by_path.len()
    }

    /// Returns the names of the counted cgroups. Some of their events may wait for a free counter.
    pub(crate) fn labels(&self) -> impl Iterator<Item = &Labels> {
        self.by_path.values().map(|container| &container.labels)
    }

    /// Returns the greatest number of cgroups that can be counted.
    pub(super) const fn max_count(&self) -> usize {
        self.limit.max_count
    }

    /// Returns the number of cgroups that match and are not counted.
    pub(super) const fn left_out_count(&self) -> usize {
        self.left_out_count
    }

    /// Returns the number of missing counts: the events that are not open, over all cgroups.
    pub(super) fn missing_count(&self) -> usize {
        let containers = self.by_path.values();
        containers
            .map(|container| container.open_events.missing_count())
            .sum()
    }

    /// Returns the reason why the first missing event is not counted, if it is known.
    pub(crate) fn first_uncounted_reason(&self) -> Option<UncountedReason> {
        let mut containers = self.by_path.values();
        containers.find_map(|container| container.open_events.first_uncounted_reason())
    }

    /// Returns the number of times that a cgroup's counts were lost and began from 0.
    pub(super) const fn lost_count(&self) -> u64 {
        self.lost_count
    }

    /// Looks up the cgroups, and returns all their counts with labels. The cgroups are read one after the other.
    ///
    /// # Errors
    /// Reading a counter fails.
    pub(crate) fn read(&mut self) -> Result<Vec<ContainerCount<'_>>, Error> {
        if let Err(error) = self.refresh() {
            self.complain_once(Some(format!(
                "--cgroups: {error:#}; the cgroups that were found before are still counted"
            )));
        }
        let mut values = Vec::with_capacity(self.by_path.len() * self.events.len());
        for (index, container) in self.by_path.values_mut().enumerate() {
            self.lost_count += container
                .open_events
                .read(|event, value| values.push((index, event, value)))?;
        }
        let labels: Vec<&Labels> = self
            .by_path
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

    /// Searches the cgroups, drops removed ones, and opens the events of new ones. Returns the last error because of
    /// which a cgroup was left out.
    fn refresh(&mut self) -> Result<Option<Error>> {
        let mount = &self.mount;
        let FoundCgroups {
            mut cgroups,
            is_incomplete,
        } = search(mount, &self.patterns, SEARCH_LIMIT).inspect_err(|_| {
            // Removed cgroups still have descriptors, and the search may have failed for lack of descriptors.
            self.by_path
                .retain(|_, container| container.found_cgroup.still_exists(mount));
        })?;
        let existing: HashSet<&FoundCgroup> = cgroups.iter().collect();
        self.by_path.retain(|_, container| {
            let cgroup = &container.found_cgroup;
            existing.contains(cgroup) || (is_incomplete && cgroup.still_exists(mount))
        });
        let is_new = |cgroup: &FoundCgroup| !self.by_path.contains_key(&cgroup.name);
        let _reserve = if self.missing_count() > 0 || cgroups.iter().any(is_new) {
            reserve_descriptors()
        } else {
            Vec::new()
        };
        for container in self.by_path.values_mut() {
            // A counter that was in use may be free now.
            container.open_missing(&self.device, &self.events);
        }
        let mut failure = None;
        let mut is_full = false;
        self.left_out_count = 0;
        cgroups.retain(|cgroup| !self.by_path.contains_key(&cgroup.name));
        // Cgroups of higher levels come first, since users may make any number of cgroups within
        // their own. The sort is stable, so cgroups of one level stay in the order of their names.
        cgroups.sort_by_key(FoundCgroup::levels);
        for found_cgroup in cgroups {
            if self.by_path.len() >= self.limit.max_count || is_full {
                self.left_out_count += 1;
                continue;
            }
            match self.open_container(&found_cgroup) {
                Ok(container) => {
                    self.by_path.insert(found_cgroup.name, container);
                }
                // The cgroup was removed after it was found.
                Err(error) if error.cause == Cause::NoSuchCgroup => {}
                Err(error) => {
                    self.left_out_count += 1;
                    is_full = !concerns_one_cgroup(&error);
                    failure = Some(error);
                }
            }
        }
        self.complain_once(self.left_out_message(failure.as_ref(), is_incomplete));
        Ok(failure)
    }

    /// Opens the events of a cgroup.
    ///
    /// # Errors
    /// The cgroup can't be opened, or an event can't for a reason other than a [`UncountedReason`].
    fn open_container(&self, found_cgroup: &FoundCgroup) -> Result<Container, Error> {
        let mut container = Container {
            found_cgroup: found_cgroup.clone(),
            cgroup: Cgroup::open(self.mount.join(&found_cgroup.name))?,
            labels: Labels {
                id: format!("/{}", escaped(&found_cgroup.name)),
                inode: found_cgroup.inode,
                names: ContainerNames::of(&found_cgroup.name),
            },
            open_events: OpenEvents::none(&self.events),
        };
        let not_open = container.open_missing(&self.device, &self.events);
        let mut errors = not_open.into_iter().map(|(_, error)| error);
        match errors.find(|error| UncountedReason::of(&error.cause).is_none()) {
            Some(error) => Err(error),
            None => Ok(container),
        }
    }

    /// Returns the message about cgroups that are not counted; `None` if all are counted. `failure` is the error of
    /// opening a cgroup. `is_incomplete` is true if the search ended at its limit.
    fn left_out_message(&self, failure: Option<&Error>, is_incomplete: bool) -> Option<String> {
        if is_incomplete {
            return Some(format!(
                "--cgroups: more than {} cgroups may match, and no more than that are searched. Begin the patterns with a \
                 name, such as `kubepods.slice/**`.",
                SEARCH_LIMIT.cgroups
            ));
        }
        if let Some(error) = failure {
            let help = error.cause.help().unwrap_or_default();
            return Some(format!(
                "only {} cgroups are counted, since opening another one failed: {error}\n{help}",
                self.by_path.len()
            ));
        }
        (self.left_out_count > 0).then(|| {
            let CgroupLimit { max_count, advice } = self.limit;
            format!("only {max_count} cgroups are counted, which is the limit. {advice}")
        })
    }

    /// Prints a message about cgroups that are not counted, unless it is the same as the last one.
    fn complain_once(&mut self, message: Option<String>) {
        if message != self.last_complaint {
            if let Some(message) = &message {
                complain(message);
            }
            self.last_complaint = message;
        }
    }
}

/// Opens [`RESERVED_DESCRIPTORS`] descriptors, or as many as the limit allows. While they are open, events can't take the
/// last descriptors.
fn reserve_descriptors() -> Vec<OwnedFd> {
    let descriptors = (0..RESERVED_DESCRIPTORS).map(|_| io::stderr().as_fd().try_clone_to_owned());
    descriptors.map_while(Result::ok).collect()
}

impl Container {
    /// Opens the events that are not open. Returns the events that can't be opened, each with its error.
    fn open_missing(&mut self, device: &Device, events: &[EventSpec]) -> Vec<(usize, Error)> {
        let cgroup = &self.cgroup;
        self.open_events
            .open_missing((device, events), |leader| leader.cgroup(cgroup))
    }
}
