// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events by their names.

use perfmon::event::Builder;
use perfmon::spec::{self, EventSpec};
use perfmon::{Modes, Pmu};
use pyo3::prelude::*;

use crate::error::{EventError, name_exception};

/// Finds the events of `texts` on this CPU, and returns them with their names.
pub(crate) fn find(texts: Vec<String>) -> PyResult<Vec<(String, Builder)>> {
    let pmu = Pmu::of_this_cpu();
    let mut named_builders: Vec<(String, Builder)> = Vec::new();
    for text in texts {
        let events = spec::parse_without_groups(&text, &pmu);
        for event in events.map_err(|error| name_exception(&error, &pmu))? {
            let builder = builder(&event)?;
            let name = event.label;
            if named_builders.iter().any(|(known, _)| *known == name) {
                let message = format!("`{name}` is given twice\nLeave one of them out.");
                return Err(EventError::new_err(message));
            }
            named_builders.push((name, builder));
        }
    }
    if named_builders.is_empty() {
        let message = "there is no event to count\nName one: `perfmon.count(\"instructions:u\")`.";
        return Err(EventError::new_err(message));
    }
    Ok(named_builders)
}

/// Returns the configuration for opening the event, or the exception if the driver can't count it.
fn builder(event: &EventSpec) -> PyResult<Builder> {
    let refuse = |reason: &str| {
        let message = format!("can't count `{}`: {reason}", event.label);
        Err(EventError::new_err(message))
    };
    match event.builder() {
        None => refuse("the CPU does not have it"),
        Some(_) if event.needs_own_counter_choice => refuse(
            "only some counters can count it, and the driver may choose another one\n`pmctl stat -a` chooses them.",
        ),
        Some(_) if event.pinned.is_some() => {
            refuse("the driver chooses the counter\nLeave the counter's name out.")
        }
        Some(builder) => Ok(builder),
    }
}

/// Returns the names of the events that this CPU can count, without modifiers.
#[pyfunction]
pub(crate) fn names() -> Vec<String> {
    let pmu = Pmu::of_this_cpu();
    let common = spec::named_events(pmu.vendor())
        .flat_map(|event| event.names().map(str::to_owned).collect::<Vec<_>>());
    let cache_events = spec::cache_events(&pmu).map(|event| event.to_string());
    let listed = pmu
        .model()
        .into_iter()
        .flat_map(spec::models::Model::events)
        .filter(|event| !event.deprecated)
        .map(|event| event.name);
    let mut names: Vec<String> = Vec::new();
    for name in common.chain(cache_events).chain(listed) {
        let is_known = names.iter().any(|known| known.eq_ignore_ascii_case(&name));
        if !is_known && is_countable(&name, &pmu) {
            names.push(name);
        }
    }
    names
}

fn is_countable(name: &str, pmu: &Pmu) -> bool {
    spec::parse(name, pmu).is_ok_and(|events| events.iter().all(|event| builder(event).is_ok()))
}

/// Returns the event that [`crate::block`] opens to check whether anything can be counted.
pub(crate) fn probe_event() -> Builder {
    perfmon::Event::instructions().modes(Modes::User)
}
