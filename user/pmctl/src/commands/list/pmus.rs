// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists the events of Linux's PMUs other than those of cores.

use std::io::Write;

use anstyle::Style;
use anyhow::Result;
use serde::Serialize;

use crate::events::linux_pmu::{LinuxPmu, read_all};
use crate::system::glob::contains_or_matches;
use crate::system::machine::Machine;
use crate::system::table::{Align, Table};

/// A named event of a PMU, or a pattern with the PMU's fields for events without names.
#[derive(Debug, Serialize)]
pub(super) struct ListedPmuEvent {
    /// The event as -e takes it.
    name: String,
    /// The number of PMUs whose counts are added up.
    pmus: usize,
    #[serde(skip_serializing_if = "String::is_empty")]
    unit: String,
    /// Factor that converts a count to `unit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    scale: Option<f64>,
    /// The CPUs on which the event is read. Each of them counts for its whole socket or die. `None`
    /// if each CPU counts only for itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpus: Option<String>,
    /// For a named event, the fields and values that the name stands for; for a pattern, the names of the PMU's fields.
    fields: String,
}

/// Returns the events and the PMUs whose names match, in the order of their names.
pub(super) fn matching_events(glob: Option<&str>, machine: &Machine) -> Vec<ListedPmuEvent> {
    let pmus = read_all(machine);
    let pmus_by_kind = pmus.chunk_by(|first, second| first.kind() == second.kind());
    let mut pmu_events: Vec<ListedPmuEvent> = pmus_by_kind.flat_map(entries_of_kind).collect();
    pmu_events.retain(|event| {
        let name = event.name.to_ascii_lowercase();
        glob.is_none_or(|glob| contains_or_matches(&glob.to_ascii_lowercase(), &name))
    });
    pmu_events
}

/// Returns the named events of PMUs of one kind, and an entry with the fields for other events.
fn entries_of_kind(pmus: &[LinuxPmu]) -> Vec<ListedPmuEvent> {
    let Some(pmu) = pmus.first() else {
        return Vec::new();
    };
    let kind = if pmus.len() > 1 {
        pmu.kind()
    } else {
        &*pmu.name
    };
    let entry = |name: String, fields: String| ListedPmuEvent {
        name,
        pmus: pmus.len(),
        unit: String::new(),
        scale: None,
        cpus: pmu.cpus.as_ref().map(ToString::to_string),
        fields,
    };
    let events = pmu.events.iter().filter(|(_, event)| !event.is_level);
    let mut pmu_events: Vec<ListedPmuEvent> = events
        .map(|(name, event)| ListedPmuEvent {
            unit: event.unit.clone(),
            scale: event.scale,
            ..entry(format!("{kind}/{name}/"), event.terms.clone())
        })
        .collect();
    let fields: Vec<&str> = pmu.field_names().collect();
    if !fields.is_empty() {
        pmu_events.push(entry(format!("{kind}/FIELD=NUMBER,.../"), fields.join(",")));
    }
    pmu_events
}

impl ListedPmuEvent {
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// Writes a table of events.
pub(super) fn write_table(events: &[ListedPmuEvent], output: &mut dyn Write) -> Result<()> {
    let headings = ["event of Linux's", "unit", "CPUs", "fields"];
    let mut table = Table::new(&headings.map(|text| (text, Align::Left))).without_margin();
    for event in events {
        let cpus = event.cpus.as_deref().unwrap_or("each");
        let row = [&*event.name, &*event.unit, cpus, &*event.fields];
        table.add_row(&row.map(str::to_owned), Style::new());
    }
    Ok(table.write(None, Style::new(), output)?)
}
