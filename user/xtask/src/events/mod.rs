// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates the tables of events (`user/perfmon-events/tables`) from the tables of Linux's perf,
//! or checks that the committed tables are up to date.
//!
//! Only facts are taken from `tools/perf/pmu-events/arch/x86`: names and numbers. Descriptions and events outside of cores
//! are left out.

mod json;
mod mapfile;
mod metrics;
mod regex;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use json::{Events, Kind};
use mapfile::Cpu;

/// The folder of the tables.
const TABLES: &str = "user/perfmon-events/tables";

/// The folder of the tables of metrics, within [`TABLES`].
const METRICS: &str = "metrics";

/// The file that names the source of the tables.
const SOURCE: &str = "SOURCE";

/// The second line of each generated file.
const GENERATED_MARK: &str =
    "# Made by `cargo xtask events` from perf's tables: not to be edited.\n";

/// Writes the tables. `source` is a source tree of Linux, with its version in the file `version`.
pub(crate) fn write(top: &Path, source: &Path) -> Result<()> {
    let folder = top.join(TABLES);
    let generated = generate(source)?;
    for name in read_committed(&folder)?.keys() {
        if !generated.contains_key(name) {
            fs::remove_file(folder.join(name)).with_context(|| format!("can't remove {name}"))?;
        }
    }
    fs::create_dir_all(folder.join(METRICS))?;
    for (name, text) in generated {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))?;
    }
    Ok(())
}

/// Fails unless the committed tables are up to date with `source`. If `source` has another version
/// of Linux than the committed tables, only prints the names of the files that differ.
pub(crate) fn check(top: &Path, source: &Path) -> Result<()> {
    let (generated, committed) = (generate(source)?, read_committed(&top.join(TABLES))?);
    let names = generated.keys().chain(committed.keys());
    let mut different_files: Vec<&str> = names
        .filter(|name| generated.get(*name) != committed.get(*name))
        .map(String::as_str)
        .collect();
    different_files.sort_unstable();
    different_files.dedup();
    if different_files.is_empty() {
        return Ok(());
    }
    let difference = format!(
        "In {TABLES}, these files differ from perf's tables: {}.",
        different_files.join(", ")
    );
    let version = version(source)?;
    if committed
        .get(SOURCE)
        .is_some_and(|text| !text.contains(&format!("Linux {version}\n")))
    {
        println!(
            "{difference}\nThey were generated from another version than Linux {version}. `make events` makes them from this one."
        );
        return Ok(());
    }
    bail!("{difference}\nRun `make events`.")
}

/// Returns the version of a source tree of Linux.
fn version(source: &Path) -> Result<String> {
    let path = source.join("version");
    let text =
        fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
    Ok(text.trim().to_owned())
}

/// Returns the generated files in a folder, by name.
fn read_committed(folder: &Path) -> Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    let entries =
        fs::read_dir(folder).with_context(|| format!("can't read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .context("a table has no name")?;
        if path.is_dir() {
            let inner_files = read_committed(&path)?.into_iter();
            files.extend(
                inner_files.map(|(inner_name, text)| (format!("{name}/{inner_name}"), text)),
            );
            continue;
        }
        let text =
            fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
        if text.contains(GENERATED_MARK) {
            files.insert(name.to_owned(), text);
        }
    }
    Ok(files)
}

/// Returns the files to be written, by name.
fn generate(source: &Path) -> Result<BTreeMap<String, String>> {
    let folder = source.join("tools/perf/pmu-events/arch/x86");
    let path = folder.join("mapfile.csv");
    let map =
        fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
    let mut files = BTreeMap::new();
    let (mut core_events, mut uncore_events, mut formulas) = (0, 0, 0);
    for model in mapfile::models(&map)? {
        let folder_events = json::read(&folder.join(&model.name)).context(model.name.clone())?;
        uncore_events += folder_events.uncore;
        let metrics = metrics::read(&folder.join(&model.name)).context(model.name.clone())?;
        for (kind, events) in &folder_events.events {
            ensure!(!events.list.is_empty(), "{} has no events", model.name);
            core_events += events.list.len();
            let name = match kind {
                Kind::Only => model.name.clone(),
                _ => format!("{}-{}", model.name, kind.name()),
            };
            let start = header(&name, &model.version);
            let text = start + &table_text(&model.cpus, *kind, events);
            files.insert(format!("{name}.txt"), text);

            let names = events
                .list
                .iter()
                .map(|event| event.name.to_ascii_lowercase());
            let lines = metrics::metric_lines(&metrics, *kind, &names.collect::<BTreeSet<_>>())
                .context(name.clone())?;
            formulas += lines.lines().filter(|line| !line.contains("\t-\t")).count();
            if !lines.is_empty() {
                let text = format!("{}{lines}", license_and_mark());
                files.insert(format!("{METRICS}/{name}.txt"), text);
            }
        }
    }
    let version = version(source)?;
    let tables = files
        .keys()
        .filter(|name| !name.starts_with(METRICS))
        .count();
    let start = license_and_mark();
    let text = format!(
        "{start}\
         Linux {version}\n\
         {tables} tables, {core_events} events of cores; {uncore_events} events of what is outside of cores are left out.\n\
         {formulas} metrics of events of cores.\n"
    );
    files.insert(SOURCE.to_owned(), text);
    Ok(files)
}

/// Returns the lines of a table after its header: the counters, the kind of cores, the CPUs and the events.
fn table_text(cpus: &[Cpu], kind: Kind, events: &Events) -> String {
    // AMD's lists do not have the number of counters. Zen has six general counters.
    let general = if events.general == 0 {
        6
    } else {
        events.general
    };
    let mut text = format!("counters {general:x} {:x}\n", events.fixed);
    if kind != Kind::Only {
        text += &format!("kind {}\n", kind.name());
    }
    for cpu in cpus {
        text += &cpu_line(*cpu);
    }
    for event in &events.list {
        text += &format!("{event}\n");
    }
    text
}

/// Returns the first lines of a generated file.
fn license_and_mark() -> String {
    // REUSE-IgnoreStart
    let license = "# SPDX-License-Identifier: MIT OR Apache-2.0\n";
    // REUSE-IgnoreEnd
    format!("{license}{GENERATED_MARK}")
}

/// Returns the first lines of a table.
fn header(name: &str, version: &str) -> String {
    let start = license_and_mark();
    format!("{start}table {name}\nversion {version}\n")
}

/// Returns the line of a range of CPUs: vendor, family, models and steppings, in hexadecimal.
fn cpu_line(cpu: Cpu) -> String {
    let Cpu {
        vendor,
        family,
        models,
        steppings,
    } = cpu;
    format!(
        "cpu {vendor} {family:x} {:x}-{:x} {steppings:x}\n",
        models.0, models.1
    )
}
