// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the PMUs of `/sys/bus/event_source/devices`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use perfmon::pmu::CoreKind;

use super::format::Field;
use crate::events::cpus::Cpus;
use crate::system::machine::Machine;

/// The folder in which Linux lists its PMUs.
const DEVICES: &str = "/sys/bus/event_source/devices";

/// PMUs of [`EXCLUDED_PMUS`] whose events can be sampled if the command line has the events' numbers.
const SAMPLED_BY_NUMBER: [&str; 2] = ["software", "tracepoint"];

/// PMUs that are left out, since their events have other names in pmctl, or need an address or a trace, which only perf
/// provides.
pub(super) const EXCLUDED_PMUS: [&str; 8] = [
    "software",
    "tracepoint",
    "breakpoint",
    "kprobe",
    "uprobe",
    "intel_pt",
    "intel_bts",
    "dummy",
];

/// A PMU of Linux.
#[derive(Clone, Debug)]
pub(crate) struct LinuxPmu {
    pub(crate) name: String,
    /// The `type` of the PMU's events in `struct perf_event_attr`.
    pub(super) number: u32,
    /// The fields by their names.
    pub(super) fields: BTreeMap<String, Field>,
    /// The named events by their names.
    pub(crate) events: BTreeMap<String, NamedEvent>,
    /// The CPUs on which the events are read. Each of them counts for its whole socket or die.
    /// `None` if each CPU counts only for itself.
    pub(crate) cpus: Option<Cpus>,
}

impl LinuxPmu {
    /// Returns the name without the number at its end, by which several PMUs of one kind differ.
    pub(crate) fn kind(&self) -> &str {
        match self.name.rsplit_once('_') {
            Some((kind, number)) if number.parse::<u32>().is_ok() => kind,
            _ => &self.name,
        }
    }

    /// Returns the names of the fields.
    pub(crate) fn field_names(&self) -> impl Iterator<Item = &str> {
        self.fields.keys().map(String::as_str)
    }

    /// Returns whether `wanted` names the PMU: by its whole name, or without `uncore_`, the number, or both.
    pub(super) fn is_called(&self, wanted: &str) -> bool {
        let is_wanted = |name: &str| name == wanted || name.strip_prefix("uncore_") == Some(wanted);
        is_wanted(&self.name) || is_wanted(self.kind())
    }
}

/// An event that has a name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NamedEvent {
    /// Fields with their values, as `event=0x04,umask=0x03`.
    pub(crate) terms: String,
    /// The factor that converts the count to `unit`.
    pub(crate) scale: Option<f64>,
    pub(crate) unit: String,
    /// The number is a level, such as a temperature, and not a count.
    pub(crate) is_level: bool,
}

/// Returns whether this is a PMU of cores, which the driver counts on.
pub(super) fn is_core_pmu(name: &str) -> bool {
    name == "cpu" || CoreKind::NAMES.contains(&name)
}

/// Returns all PMUs except PMUs of cores and [`EXCLUDED_PMUS`], in the order of their names. PMUs, fields and events
/// that can't be read are left out.
pub(crate) fn read_all(machine: &Machine) -> Vec<LinuxPmu> {
    read_except(machine, |name| EXCLUDED_PMUS.contains(&name))
}

/// Returns the PMUs of [`read_all`], and those of [`SAMPLED_BY_NUMBER`].
pub(super) fn read_sampled(machine: &Machine) -> Vec<LinuxPmu> {
    read_except(machine, |name| {
        EXCLUDED_PMUS.contains(&name) && !SAMPLED_BY_NUMBER.contains(&name)
    })
}

fn read_except(machine: &Machine, is_left_out: fn(&str) -> bool) -> Vec<LinuxPmu> {
    let names = names(&machine.path(DEVICES)).into_iter();
    names
        .filter(|name| !is_core_pmu(name) && !is_left_out(name))
        .filter_map(|name| read(machine, name))
        .collect()
}

fn read(machine: &Machine, name: String) -> Option<LinuxPmu> {
    let folder = format!("{DEVICES}/{name}");
    let text = |file: &str| machine.text(&format!("{folder}/{file}")).ok().flatten();
    let fields = names(&machine.path(&format!("{folder}/format")));
    let fields = fields.into_iter().filter_map(|field| {
        let bits = Field::parse(&text(&format!("format/{field}"))?)?;
        Some((field, bits))
    });
    let events = names(&machine.path(&format!("{folder}/events")));
    let events = events.into_iter().filter_map(|event| {
        // The files `NAME.scale`, `NAME.unit` and `NAME.snapshot` describe the event `NAME`.
        if event.contains('.') {
            return None;
        }
        let property = |suffix: &str| text(&format!("events/{event}.{suffix}"));
        let named_event = NamedEvent {
            terms: text(&format!("events/{event}"))?,
            scale: property("scale").and_then(|scale| scale.parse().ok()),
            unit: property("unit").unwrap_or_default(),
            is_level: property("snapshot").is_some_and(|text| text == "1"),
        };
        Some((event, named_event))
    });
    Some(LinuxPmu {
        number: text("type")?.parse().ok()?,
        fields: fields.collect(),
        events: events.collect(),
        cpus: text("cpumask").and_then(|list| Cpus::parse(&list).ok()),
        name,
    })
}

/// Returns the names of the files in a folder, sorted; none if there is no such folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}
