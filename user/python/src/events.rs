// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events by their names.

use perfmon::event::Builder;
use perfmon::spec::{self, EventSpec};
use perfmon::{Modes, Pmu};
use pyo3::prelude::*;

use crate::error::{EventError, of_name};

/// Returns the events that `texts` ask for on this CPU, with their names.
pub(crate) fn find(texts: Vec<String>) -> PyResult<Vec<(String, Builder)>> {
    let pmu = Pmu::here();
    let mut found: Vec<(String, Builder)> = Vec::new();
    for text in texts {
        let events = spec::parse_without_groups(&text, &pmu);
        for event in events.map_err(|error| of_name(&error, &pmu))? {
            let builder = builder(&event)?;
            let name = event.label;
            if found.iter().any(|(known, _)| *known == name) {
                let message = format!("`{name}` is given twice\nLeave one of them out.");
                return Err(EventError::new_err(message));
            }
            found.push((name, builder));
        }
    }
    if found.is_empty() {
        let message = "there is no event to count\nName one: `perfmon.count(\"instructions:u\")`.";
        return Err(EventError::new_err(message));
    }
    Ok(found)
}

/// Returns the event to open.
fn builder(event: &EventSpec) -> PyResult<Builder> {
    let refused = |reason: &str| {
        let message = format!("can't count `{}`: {reason}", event.label);
        Err(EventError::new_err(message))
    };
    match event.builder() {
        None => refused("the CPU does not have it"),
        Some(_) if event.needs_choice => refused(
            "only some counters count it, and the driver chooses among more\n`pmctl stat -a` chooses them.",
        ),
        Some(_) if event.pinned.is_some() => {
            refused("the driver chooses the counter\nLeave the counter's name out.")
        }
        Some(builder) => Ok(builder),
    }
}

/// Returns the names of the events that this CPU can count, without the modifiers that go behind them.
#[pyfunction]
pub(crate) fn names() -> Vec<String> {
    let pmu = Pmu::here();
    let common = spec::named_events(pmu.vendor())
        .flat_map(|event| event.names().map(str::to_owned).collect::<Vec<_>>());
    let caches = spec::cache_events(&pmu).map(|event| event.to_string());
    let listed = pmu
        .model()
        .into_iter()
        .flat_map(spec::models::Model::events)
        .filter(|event| !event.deprecated)
        .map(|event| event.name);
    let mut names: Vec<String> = Vec::new();
    for name in common.chain(caches).chain(listed) {
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

/// Returns the event by which [`crate::block`] finds out whether anything can be counted.
pub(crate) fn any() -> Builder {
    perfmon::Event::instructions().modes(Modes::User)
}
