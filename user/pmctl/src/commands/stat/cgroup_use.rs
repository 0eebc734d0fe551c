// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cgroups that the command line asks for, and which events are counted in which.

use std::path::{Path, PathBuf};

use anyhow::Result;
use perfmon::event::Cgroup;
use perfmon::spec::EventSpec;
use perfmon::{Cause, Error};

use crate::args::Stat;
use crate::events::cgroups::{Pattern, display_name, search};
use crate::events::software::Software;
use crate::events::values::Value;
use crate::system::exit::{self, Usage};

/// A cgroup, and what it is called in the report.
#[derive(Clone, Debug)]
pub(super) struct NamedCgroup {
    pub(super) name: String,
    pub(super) cgroup: Cgroup,
}

/// Cgroups and their events.
#[derive(Clone, Debug)]
pub(super) enum CgroupUse {
    /// Each event is counted in each of them.
    Each(Vec<NamedCgroup>),
    /// The first is the first event's, and so on; events behind the last are the root's, which has no name here.
    ByEvent {
        of_events: Vec<NamedCgroup>,
        root: NamedCgroup,
    },
}

/// Refuses what has no meaning for cgroups, or no cgroup.
pub(super) fn refuse_the_impossible(
    args: &Stat,
    software: &[Software],
    values: &[Value],
) -> Result<(), Usage> {
    let Some(option) = option(args) else {
        return Ok(());
    };
    let event = software.first().map(|event| event.name);
    let event = event.or(values.first().map(|value| value.name));
    if let Some(event) = event {
        return Err(Usage(format!(
            "{option}: {event} is none of the driver's events, and can't be counted in a cgroup. Leave it out, or count it \
             in another run."
        )));
    }
    if args.cgroup.len() > 1 || args.cgroup.iter().any(|text| text.contains(',')) {
        let by_event = "with several cgroups, -G gives each one an event of -e, so it needs -e and no -M, -d or \
                        --topdown. To count all events in each cgroup, write `--for-each-cgroup";
        if args.events.is_empty() || !args.metrics.is_empty() || args.topdown || args.detailed {
            let names = args.cgroup.join(",");
            return Err(Usage(format!("-G {names}: {by_event} {names}`.")));
        }
    }
    Ok(())
}

/// Returns the option that asks for cgroups.
fn option(args: &Stat) -> Option<&'static str> {
    match (args.cgroup.is_empty(), args.for_each_cgroup.is_empty()) {
        (false, _) => Some("-G"),
        (true, false) => Some("--for-each-cgroup"),
        (true, true) => None,
    }
}

/// Returns the cgroups that -G or --for-each-cgroup asks for; `None` without them.
pub(super) fn wanted_cgroups(args: &Stat) -> Result<Option<CgroupUse>> {
    let Some(option) = option(args) else {
        return Ok(None);
    };
    let mount = Cgroup::mount_point().map_err(|error| with_option(option, &error))?;
    let named =
        |name: &str| named_cgroup(&mount, name).map_err(|error| with_option(option, &error));
    if option == "-G" {
        let names: Vec<&str> = args
            .cgroup
            .iter()
            .flat_map(|text| text.split(','))
            .collect();
        return Ok(Some(match names[..] {
            [name] => CgroupUse::Each(vec![named(name)?]),
            _ => CgroupUse::ByEvent {
                of_events: names
                    .iter()
                    .map(|name| named(name))
                    .collect::<Result<_>>()?,
                root: named("")?,
            },
        }));
    }
    let mut found: Vec<NamedCgroup> = Vec::new();
    for text in args.for_each_cgroup.iter().flat_map(|text| text.split(',')) {
        let pattern = Pattern::new(text);
        let cgroups = if pattern.is_name() {
            vec![named(text)?]
        } else {
            matching_cgroups(&mount, &pattern)?
        };
        for cgroup in cgroups {
            if found.iter().all(|known| known.name != cgroup.name) {
                found.push(cgroup);
            }
        }
    }
    Ok(Some(CgroupUse::Each(found)))
}

/// Returns the cgroup of a name; an empty one, as perf has it, is that of the root and called so.
fn named_cgroup(mount: &Path, name: &str) -> Result<NamedCgroup, Error> {
    let cgroup = Cgroup::named(name)?;
    let below = cgroup.path().strip_prefix(mount).unwrap_or(cgroup.path());
    Ok(NamedCgroup {
        name: if name.is_empty() {
            String::new()
        } else {
            display_name(below)
        },
        cgroup,
    })
}

/// Returns the cgroups whose names have this form.
fn matching_cgroups(mount: &Path, pattern: &Pattern) -> Result<Vec<NamedCgroup>> {
    let found = search(mount, std::slice::from_ref(pattern), usize::MAX)?;
    let open = |name: PathBuf| match Cgroup::open(mount.join(&name)) {
        // It has been removed since it was found.
        Err(error) if error.cause == Cause::NoSuchCgroup => None,
        result => Some(result.map(|cgroup| NamedCgroup {
            name: display_name(&name),
            cgroup,
        })),
    };
    let cgroups = found.cgroups.into_iter();
    let opened: Result<Vec<NamedCgroup>, Error> =
        cgroups.filter_map(|cgroup| open(cgroup.name)).collect();
    let opened = opened.map_err(|error| with_option("--for-each-cgroup", &error))?;
    if opened.is_empty() {
        let text = pattern.text();
        return Err(Usage(format!(
            "--for-each-cgroup {text}: no cgroup below {} has a name of this form. `*` stays within a level, `**` is any number \
             of levels: `find {0} -type d` lists all.",
            mount.display()
        ))
        .into());
    }
    Ok(opened)
}

/// Returns an error with the option in front.
fn with_option(option: &str, error: &Error) -> anyhow::Error {
    exit::with_help_to(&format!("{option}: {}", error.attempt), error)
}

impl CgroupUse {
    /// Returns how many cgroups are counted.
    pub(super) fn number(&self) -> usize {
        match self {
            Self::Each(cgroups) => cgroups.len(),
            Self::ByEvent { of_events, .. } => {
                let mut names: Vec<&str> = of_events.iter().map(|cgroup| &*cgroup.name).collect();
                names.sort_unstable();
                names.dedup();
                names.len()
            }
        }
    }

    /// Returns the cgroups with the indices of their events. `events` stand behind `before` others in the command line.
    pub(super) fn of_events(
        &self,
        events: &[EventSpec],
        before: usize,
    ) -> Result<Vec<(&NamedCgroup, Vec<usize>)>, Usage> {
        let (of_events, root) = match self {
            Self::Each(cgroups) => {
                let all = || (0..events.len()).collect();
                return Ok(cgroups.iter().map(|cgroup| (cgroup, all())).collect());
            }
            Self::ByEvent { of_events, root } => (of_events, root),
        };
        let cgroup = |index: usize| of_events.get(before + index).unwrap_or(root);
        let mut found: Vec<(&NamedCgroup, Vec<usize>)> = Vec::new();
        for (index, event) in events.iter().enumerate() {
            let same_group =
                |other: &EventSpec| event.group.is_some() && other.group == event.group;
            let apart = (0..index)
                .filter(|other| same_group(&events[*other]))
                .any(|other| cgroup(other).name != cgroup(index).name);
            if apart {
                return Err(Usage(format!(
                    "-G: {} is in a group with events of another cgroup, and a group is counted in one. Write the events \
                     without the braces.",
                    event.label
                )));
            }
            // As perf, in the order of the events: a cgroup that comes again has further rows.
            match found.last_mut() {
                Some((known, events)) if known.name == cgroup(index).name => events.push(index),
                _ => found.push((cgroup(index), vec![index])),
            }
        }
        Ok(found)
    }
}
