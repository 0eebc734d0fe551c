// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cgroups of -G and --for-each-cgroup, and the events that are counted in each.

use std::collections::HashSet;
use std::path::Path;

use anyhow::Result;
use perfmon::event::Cgroup;
use perfmon::spec::EventSpec;
use perfmon::{Cause, Error};

use super::others::OtherEvents;
use crate::args::Stat;
use crate::events::cgroups::{
    CGROUP_EVENTS_RULE, FoundCgroup, Pattern, SearchLimit, concerns_one_cgroup, display_name,
    search, too_few_events,
};
use crate::events::duration::DURATION;
use crate::system::exit::{self, Usage};
use crate::system::stdio::complain;
use crate::system::text::{count, printable};

/// A cgroup, and its name in the report.
#[derive(Clone, Debug)]
pub(in crate::commands::stat) struct NamedCgroup {
    pub(in crate::commands::stat) name: String,
    pub(in crate::commands::stat) cgroup: Cgroup,
    /// The cgroup matches a pattern, and the user has not named it.
    pub(in crate::commands::stat) is_from_pattern: bool,
}

impl NamedCgroup {
    /// Returns whether both are one cgroup under one name, so that their rows in the report would be the same. The root
    /// cgroup has two names: an empty one and `/`.
    fn is_same(&self, other: &Self) -> bool {
        self.cgroup.path() == other.cgroup.path() && self.name == other.name
    }
}

/// The limits of a search. Deeper cgroups can't be counted.
const SEARCH_LIMIT: SearchLimit = SearchLimit {
    cgroups: usize::MAX,
    levels: Cgroup::MAX_LEVELS,
};

/// Cgroups and their events.
#[derive(Clone, Debug)]
pub(in crate::commands::stat) enum CgroupUse {
    /// Each event is counted in each cgroup.
    Each(Vec<NamedCgroup>),
    /// The first event is counted in the first cgroup, and so on. Further events are counted in the root cgroup, whose
    /// name is empty.
    ByEvent {
        event_cgroups: Vec<NamedCgroup>,
        root: NamedCgroup,
    },
}

/// Refuses events that can't be counted in a cgroup, and options that don't go with several cgroups of -G.
pub(in crate::commands::stat) fn refuse_impossible_options(
    args: &Stat,
    other_events: &OtherEvents,
) -> Result<(), Usage> {
    let Some(option) = cgroup_option(args) else {
        return Ok(());
    };
    let event = other_events.software.first().map(|event| event.name);
    let event = event.or(other_events.values.first().map(|value| value.name));
    let event = event.or(other_events.pmus.first().map(|event| &*event.label));
    let event = event.or(other_events.has_duration.then_some(DURATION));
    if let Some(event) = event {
        return Err(Usage(format!(
            "{option}: the driver does not count {event}, so it can't be counted in a cgroup. Leave it out, or count it \
             in another run."
        )));
    }
    let has_several = args.cgroup.len() > 1 || args.cgroup.iter().any(|text| text.contains(','));
    let lacks_events =
        args.events.is_empty() || !args.metrics.is_empty() || args.topdown || args.detailed;
    if has_several && lacks_events {
        let names = args.cgroup.join(",");
        return Err(Usage(format!(
            "-G {names}: {CGROUP_EVENTS_RULE}, so it needs -e and no -M, -d or --topdown. To count all events in each cgroup, \
             write `--for-each-cgroup {names}`."
        )));
    }
    Ok(())
}

/// Returns the option that names cgroups; `None` if neither -G nor --for-each-cgroup is given.
fn cgroup_option(args: &Stat) -> Option<&'static str> {
    match (args.cgroup.is_empty(), args.for_each_cgroup.is_empty()) {
        (false, _) => Some("-G"),
        (true, false) => Some("--for-each-cgroup"),
        (true, true) => None,
    }
}

/// Returns the cgroups that -G or --for-each-cgroup asks for; `None` without these options.
pub(in crate::commands::stat) fn wanted_cgroups(args: &Stat) -> Result<Option<CgroupUse>> {
    let Some(option) = cgroup_option(args) else {
        return Ok(None);
    };
    let mount = Cgroup::mount_point().map_err(|error| with_option(option, &error))?;
    let find_cgroup =
        |name: &str| named_cgroup(&mount, name).map_err(|error| with_option(option, &error));
    if option == "-G" {
        let names: Vec<&str> = args
            .cgroup
            .iter()
            .flat_map(|text| text.split(','))
            .collect();
        return Ok(Some(match names[..] {
            [name] => CgroupUse::Each(vec![find_cgroup(name)?]),
            _ => CgroupUse::ByEvent {
                event_cgroups: names
                    .iter()
                    .map(|name| find_cgroup(name))
                    .collect::<Result<_>>()?,
                root: find_cgroup("")?,
            },
        }));
    }
    let mut listed_cgroups: Vec<NamedCgroup> = Vec::new();
    for text in args.for_each_cgroup.iter().flat_map(|text| text.split(',')) {
        let pattern = Pattern::new(text);
        let cgroups = if pattern.is_name() {
            vec![find_cgroup(text)?]
        } else {
            matching_cgroups(&mount, &pattern)?
        };
        for cgroup in cgroups {
            if !listed_cgroups.iter().any(|known| known.is_same(&cgroup)) {
                listed_cgroups.push(cgroup);
            }
        }
    }
    Ok(Some(CgroupUse::Each(listed_cgroups)))
}

/// Returns the cgroup of a name. An empty name means the root cgroup, as in perf, and stays empty in the report.
fn named_cgroup(mount: &Path, name: &str) -> Result<NamedCgroup, Error> {
    let cgroup = Cgroup::named(name)?;
    let relative_path = cgroup.path().strip_prefix(mount).unwrap_or(cgroup.path());
    Ok(NamedCgroup {
        name: if name.is_empty() {
            String::new()
        } else {
            display_name(relative_path)
        },
        cgroup,
        is_from_pattern: false,
    })
}

/// Returns the cgroups whose names match the pattern. A cgroup that can't be opened is left out, with a message, if the
/// reason concerns that cgroup alone and others can be opened.
fn matching_cgroups(mount: &Path, pattern: &Pattern) -> Result<Vec<NamedCgroup>> {
    let search_result = search(mount, std::slice::from_ref(pattern), SEARCH_LIMIT)?;
    let (mut cgroups, mut errors) = (Vec::new(), Vec::new());
    for FoundCgroup { name, .. } in search_result.cgroups {
        match Cgroup::open(mount.join(&name)) {
            Ok(cgroup) => cgroups.push(NamedCgroup {
                name: display_name(&name),
                cgroup,
                is_from_pattern: true,
            }),
            // The cgroup has been removed since the search.
            Err(error) if error.cause == Cause::NoSuchCgroup => {}
            Err(error) => errors.push(error),
        }
    }
    let decisive_error = errors.iter().find(|error| !concerns_one_cgroup(error));
    let decisive_error = decisive_error.or(errors.first().filter(|_| cgroups.is_empty()));
    if let Some(error) = decisive_error {
        return Err(with_option("--for-each-cgroup", error));
    }
    if let Some(error) = errors.first() {
        complain(left_out_message(errors.len(), error));
    }
    if cgroups.is_empty() {
        let text = pattern.text();
        return Err(Usage(format!(
            "--for-each-cgroup {text}: no cgroup below {} has a name of this form. `*` stays within a level, `**` is any \
             number of levels: `find {0} -type d` lists all.",
            mount.display()
        ))
        .into());
    }
    Ok(cgroups)
}

/// Returns the message about cgroups that are left out; `error` is the reason for the first of them.
pub(in crate::commands::stat) fn left_out_message(number: usize, error: &Error) -> String {
    let cgroups = count(number as u64, "cgroup");
    printable(&format!("--for-each-cgroup: {cgroups} left out: {error}"))
}

/// Returns the error with the option in front.
fn with_option(option: &str, error: &Error) -> anyhow::Error {
    exit::error_with_advice(&format!("{option}: {}", error.attempt), error)
}

impl CgroupUse {
    /// Returns the number of different cgroups.
    pub(in crate::commands::stat) fn cgroup_count(&self) -> usize {
        match self {
            Self::Each(cgroups) => cgroups.len(),
            Self::ByEvent { event_cgroups, .. } => {
                let paths = event_cgroups.iter().map(|cgroup| cgroup.cgroup.path());
                paths.collect::<HashSet<_>>().len()
            }
        }
    }

    /// Refuses a list of -G with more cgroups than there are events; `events` is the number of all events.
    pub(in crate::commands::stat) fn check_event_count(&self, events: usize) -> Result<(), Usage> {
        match self {
            Self::ByEvent { event_cgroups, .. } if event_cgroups.len() > events => {
                let names: Vec<&str> = event_cgroups.iter().map(|named| &*named.name).collect();
                let names = names.join(",");
                let other_way =
                    format!(", or count all events in each cgroup: `--for-each-cgroup {names}`");
                Err(too_few_events(&names, events, &other_way))
            }
            _ => Ok(()),
        }
    }

    /// Returns each cgroup with the indices of its events. `preceding` other events come before `events` on the command
    /// line.
    pub(in crate::commands::stat) fn with_event_indices(
        &self,
        events: &[EventSpec],
        preceding: usize,
    ) -> Result<Vec<(&NamedCgroup, Vec<usize>)>, Usage> {
        let (event_cgroups, root) = match self {
            Self::Each(cgroups) => {
                let all = || (0..events.len()).collect();
                return Ok(cgroups.iter().map(|cgroup| (cgroup, all())).collect());
            }
            Self::ByEvent {
                event_cgroups,
                root,
            } => (event_cgroups, root),
        };
        let cgroup = |index: usize| event_cgroups.get(preceding + index).unwrap_or(root);
        let mut by_cgroup: Vec<(&NamedCgroup, Vec<usize>)> = Vec::new();
        for (index, event) in events.iter().enumerate() {
            let same_group =
                |other: &EventSpec| event.group.is_some() && other.group == event.group;
            let is_split = (0..index)
                .filter(|other| same_group(&events[*other]))
                .any(|other| !cgroup(other).is_same(cgroup(index)));
            if is_split {
                return Err(Usage(format!(
                    "-G: {} is in a group with events of another cgroup, and a group is counted in a single cgroup. Write \
                     the events without the braces.",
                    event.label
                )));
            }
            // In the order of the events, as in perf: a cgroup that is named again gets further rows.
            match by_cgroup.last_mut() {
                Some((known, events)) if known.is_same(cgroup(index)) => events.push(index),
                _ => by_cgroup.push((cgroup(index), vec![index])),
            }
        }
        Ok(by_cgroup)
    }
}
