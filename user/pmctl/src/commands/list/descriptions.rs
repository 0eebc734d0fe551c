// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads descriptions of events from perf's files, if they are installed.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result, bail};
use perfmon::spec::models::{Kind, Model};
use serde::Deserialize;

use crate::system::machine::Machine;
use crate::system::text::printable;

/// The folder that has a folder for each model.
const DESCRIPTIONS_FOLDER: &str = "/usr/share/perfmon/events";

/// Descriptions by the names of their events in lower case.
#[derive(Default)]
pub(super) struct Descriptions(HashMap<String, String>);

/// An event or a metric in one of perf's files, with the fields that pmctl reads.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    /// Name of the event; metrics have none.
    event_name: Option<String>,
    brief_description: Option<String>,
    /// The PMU that counts the event, such as `cpu_core`.
    unit: Option<String>,
}

impl Descriptions {
    /// Reads the files of a model.
    ///
    /// # Errors
    /// The model has no files (with advice), or a file can't be read.
    pub(super) fn read(model: &Model, machine: &Machine) -> Result<Self> {
        // The kinds of cores of a hybrid processor are in the same files.
        let (name, unit) = match model.kind() {
            Kind::Only => (model.name(), None),
            Kind::Core => (model.name().trim_end_matches("-core"), Some("cpu_core")),
            Kind::Atom => (model.name().trim_end_matches("-atom"), Some("cpu_atom")),
            Kind::LowPower => (
                model.name().trim_end_matches("-lowpower"),
                Some("cpu_lowpower"),
            ),
        };
        let folder = format!("{DESCRIPTIONS_FOLDER}/{name}");
        let entries = match fs::read_dir(machine.path(&folder)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => bail!(
                "there are no descriptions of {name}'s events.\nThey are in Linux's source: copy \
                 tools/perf/pmu-events/arch/x86/{name} to {folder}."
            ),
            entries => entries.with_context(|| format!("can't read {folder}"))?,
        };
        let mut descriptions = Self::default();
        for entry in entries {
            let path = entry?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "json")
            {
                descriptions.add_file(&path, unit)?;
            }
        }
        Ok(descriptions)
    }

    /// Adds the descriptions in a file. With `unit`, adds only the descriptions of events whose field `unit` has this
    /// value.
    fn add_file(&mut self, path: &Path, unit: Option<&str>) -> Result<()> {
        let text = fs::read(path).with_context(|| format!("can't read {}", path.display()))?;
        // A file with an object has the names of groups of metrics.
        if text.trim_ascii_start().first() == Some(&b'{') {
            return Ok(());
        }
        let entries: Vec<Entry> = serde_json::from_slice(&text)
            .with_context(|| format!("can't parse the descriptions in {}", path.display()))?;
        for entry in entries {
            if let (Some(name), Some(text)) = (entry.event_name, entry.brief_description) {
                if unit.is_none_or(|unit| entry.unit.as_deref() == Some(unit)) {
                    self.0.insert(name.to_ascii_lowercase(), printable(&text));
                }
            }
        }
        Ok(())
    }

    /// Returns the description of the first name that has one.
    pub(super) fn find<'a>(&self, mut names: impl Iterator<Item = &'a str>) -> Option<&str> {
        names.find_map(|name| self.0.get(&name.to_ascii_lowercase()).map(String::as_str))
    }
}
