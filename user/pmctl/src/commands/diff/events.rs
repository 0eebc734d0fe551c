// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events that all recordings have. Names may differ in the modifiers of precise samples: without -e `pmctl record`
//! takes precise samples only where they are possible, so that one machine records `cycles:P`, and another one `cycles`.

use std::path::PathBuf;

use anyhow::Result;

use crate::recording::perfdata::{Event, Recording};
use crate::system::exit::Usage;
use crate::system::text::printable;

/// An event that all recordings have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommonEvent {
    /// The name; without the modifiers of precise samples if the recordings differ in them.
    pub(super) name: String,
    /// The index of the event in each recording.
    pub(super) indices: Vec<usize>,
}

/// Returns the events that all recordings have; with a name, only the event with that name.
///
/// # Errors
/// No event, or none with this name, is in all recordings.
pub(super) fn common_events(
    recordings: &[(PathBuf, Recording)],
    requested: Option<&str>,
) -> Result<Vec<CommonEvent>> {
    let events: Vec<&[Event]> = recordings
        .iter()
        .map(|(_, recording)| &recording.events[..])
        .collect();
    let mut common = matching_events(&events);
    let accepted_names: Vec<String> = common.iter().map(|event| event.name.clone()).collect();
    common.retain(|event| {
        let mut names = event.indices.iter().zip(&events);
        requested.is_none_or(|requested| {
            requested == event.name || names.any(|(index, events)| requested == events[*index].name)
        })
    });
    if !common.is_empty() {
        return Ok(common);
    }
    if let (Some(requested), false) = (requested, accepted_names.is_empty()) {
        return Err(Usage(format!(
            "-e: the event `{}` is not in all recordings; it takes `{}`.",
            printable(requested),
            printable(&accepted_names.join("`, `"))
        ))
        .into());
    }
    let lists = recordings.iter().map(|(file, recording)| {
        let names: Vec<&str> = comparable(&recording.events)
            .map(|(_, event)| &event.name[..])
            .collect();
        format!(
            "{} has `{}`",
            file.display(),
            printable(&names.join("`, `"))
        )
    });
    let lists: Vec<String> = lists.collect();
    let problem = match requested {
        Some(name) => format!(
            "-e: the event `{}` is not in all recordings",
            printable(name)
        ),
        None => "no event is in all recordings".to_owned(),
    };
    Err(Usage(format!(
        "{problem}: {}.\nRecord the same event each time, as with `pmctl record -e cycles`.",
        lists.join("; ")
    ))
    .into())
}

/// Returns the events of a recording that can be compared, with their indices. A level such as a temperature can't be
/// divided among functions.
fn comparable(events: &[Event]) -> impl Iterator<Item = (usize, &Event)> {
    let events = events.iter().enumerate();
    events.filter(|(_, event)| !event.is_level())
}

/// Returns the events of the first recording that all other recordings have, too. An event is looked up by its name. If
/// a recording lacks the name, the event is looked up by its name without the modifiers of precise samples, which must
/// fit a single event of each recording.
fn matching_events(recordings: &[&[Event]]) -> Vec<CommonEvent> {
    let first = recordings.first().copied().unwrap_or_default();
    let with_same_name = |name: &str| -> Option<Vec<usize>> {
        let index_in = |events: &&[Event]| {
            let mut events = comparable(events);
            events.find_map(|(index, event)| (event.name == name).then_some(index))
        };
        recordings.iter().map(index_in).collect()
    };
    let with_any_precision = |name: &str| -> Option<Vec<usize>> {
        let index_in = |events: &&[Event]| {
            let events = comparable(events);
            let mut matches = events.filter(|(_, event)| without_precision(&event.name) == name);
            let (index, _) = matches.next()?;
            matches.next().is_none().then_some(index)
        };
        recordings.iter().map(index_in).collect()
    };
    let common = comparable(first).filter_map(|(_, event)| {
        if let Some(indices) = with_same_name(&event.name) {
            let name = event.name.clone();
            return Some(CommonEvent { name, indices });
        }
        let name = without_precision(&event.name);
        let indices = with_any_precision(&name)?;
        Some(CommonEvent { name, indices })
    });
    common.collect()
}

/// Returns the name of an event without the modifiers of precise samples: `instructions:u` for `instructions:uP`.
pub(super) fn without_precision(name: &str) -> String {
    let is_modifier = |part: &str| {
        let mut letters = part.chars();
        !part.is_empty() && letters.all(|letter| "hkpPu".contains(letter))
    };
    let mut parts = name.split(':');
    let mut plain_name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let plain_part = if is_modifier(part) {
            part.replace(['p', 'P'], "")
        } else {
            part.to_owned()
        };
        if plain_part.is_empty() && !part.is_empty() {
            continue;
        }
        plain_name.push(':');
        plain_name.push_str(&plain_part);
    }
    // `cpu/event=0x3c/pp` has the modifiers after the slash.
    match plain_name.rsplit_once('/') {
        Some((event, modifiers)) if is_modifier(modifiers) => {
            format!("{event}/{}", modifiers.replace(['p', 'P'], ""))
        }
        _ => plain_name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::perfdata::example::example;

    fn events(names: &[&str]) -> Vec<Event> {
        let event = &example(false).events[0];
        let named = |name: &&str| Event {
            name: (*name).to_owned(),
            ..event.clone()
        };
        names.iter().map(named).collect()
    }

    /// Returns the names of the events that all recordings have, and their indices.
    fn matching(recordings: &[&[&str]]) -> Vec<(String, Vec<usize>)> {
        let recordings: Vec<Vec<Event>> = recordings.iter().map(|names| events(names)).collect();
        let recordings: Vec<&[Event]> = recordings.iter().map(|events| &events[..]).collect();
        let common = matching_events(&recordings).into_iter();
        common.map(|event| (event.name, event.indices)).collect()
    }

    fn common(name: &str, indices: &[usize]) -> (String, Vec<usize>) {
        (name.to_owned(), indices.to_vec())
    }

    #[test]
    fn precise_events_are_compared_with_others() {
        assert_eq!(
            matching(&[&["branches", "cycles"], &["cycles:P"]]),
            [common("cycles", &[1, 0])]
        );
        assert_eq!(
            matching(&[&["cycles:upp"], &["cycles:uP"], &["cycles:u"]]),
            [common("cycles:u", &[0, 0, 0])]
        );
        assert_eq!(
            matching(&[&["cycles:P"], &["cycles:P"]]),
            [common("cycles:P", &[0, 0])]
        );
    }

    #[test]
    fn modes_have_to_match() {
        assert!(matching(&[&["cycles:uP"], &["cycles"]]).is_empty());
        assert!(matching(&[&["cycles:P"], &["cycles:k"]]).is_empty());
    }

    #[test]
    fn an_event_with_two_precisions_is_compared_by_its_name() {
        let both = ["cycles", "cycles:P"];
        assert_eq!(
            matching(&[&both, &["cycles:P"]]),
            [common("cycles:P", &[1, 0])]
        );
        assert_eq!(
            matching(&[&both, &both]),
            [common("cycles", &[0, 0]), common("cycles:P", &[1, 1])]
        );
        assert!(matching(&[&both, &["cycles:pp"]]).is_empty());
        assert!(matching(&[&["cycles:pp"], &both]).is_empty());
    }

    #[test]
    fn each_name_of_an_event_can_be_asked_for() {
        let recordings = [&["cycles"][..], &["cycles:P"]].map(|names| {
            let events = events(names);
            let recording = Recording {
                events,
                ..Recording::default()
            };
            (PathBuf::new(), recording)
        });
        for (wanted, is_common) in [("cycles", true), ("cycles:P", true), ("cycles:pp", false)] {
            let common = common_events(&recordings, Some(wanted));
            assert_eq!(common.is_ok(), is_common, "{wanted}");
        }
    }

    #[test]
    fn a_refusal_of_an_event_lists_those_that_can_be_asked_for() {
        let message = |names: [&[&str]; 2]| {
            let recordings = names.map(|names| {
                let events = events(names);
                let recording = Recording {
                    events,
                    ..Recording::default()
                };
                (PathBuf::from("a.data"), recording)
            });
            let refused = common_events(&recordings, Some("slots"));
            refused.expect_err("no recording has it").to_string()
        };
        assert_eq!(
            message([&["cycles:P", "branches", "slots"], &["branches", "cycles"]]),
            "-e: the event `slots` is not in all recordings; it takes `cycles`, `branches`."
        );
        let message = message([&["cycles"], &["branches"]]);
        assert!(
            message.contains("a.data has `cycles`; a.data has `branches`"),
            "{message}"
        );
    }

    #[test]
    fn the_precision_is_taken_off_a_name() {
        for (name, expected) in [
            ("instructions:uP", "instructions:u"),
            ("instructions:upp", "instructions:u"),
            ("cycles:P", "cycles"),
            ("cycles:P:u", "cycles:u"),
            ("cpu/event=0x3c/pp", "cpu/event=0x3c/"),
            ("cpu/cycles/uP", "cpu/cycles/u"),
            ("std::map", "std::map"),
            ("sched:sched_switch", "sched:sched_switch"),
        ] {
            assert_eq!(without_precision(name), expected);
        }
    }
}
