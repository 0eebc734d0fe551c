// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl list`: lists the named events and the metrics of a CPU.

mod advice;
mod descriptions;
mod entries;
mod event_table;
mod json;
mod metrics;
mod named_event;
mod pmus;

use std::io::Write;

use anyhow::{Context, Result};
use perfmon::Pmu;
use perfmon::spec;
use perfmon::spec::models::{Model, models};

pub(crate) use event_table::format_counters;

use advice::{report_erratum, report_hidden};
use descriptions::Descriptions;
use entries::{ListEntries, ListKind};
use event_table::write_table;
use json::write_json;

use crate::args::List;
use crate::system::exit::{FAILURE, Usage};
use crate::system::machine::Machine;
use crate::system::pmu;
use crate::system::text::did_you_mean;

/// The argument of --model that asks for the names of the models.
const MODEL_HELP: &str = "help";

/// Writes the events and metrics that match the arguments, and returns the exit code.
pub(crate) fn list(args: &List, machine: &Machine, output: &mut dyn Write) -> Result<u8> {
    if args.model.as_deref() == Some(MODEL_HELP) {
        for model in models() {
            writeln!(output, "{}", model.name())?;
        }
        return Ok(0);
    }
    let pmu = pmu(args.model.as_deref(), machine)?;
    let descriptions = read_descriptions(args, &pmu, machine)?;
    let (kind, glob) = kind_and_glob(&args.words)?;
    if kind == ListKind::Groups {
        return list_groups(args, glob, (&pmu, machine), output);
    }
    let mut entries = ListEntries::matching(args, (kind, glob), (&pmu, machine))?;
    let found_count = entries.count();
    if !args.all {
        entries.remove_hidden();
    }
    if args.json {
        write_json(&entries, &descriptions, output)?;
    } else if args.raw {
        write_names(&entries, output)?;
    } else {
        write_tables(&entries, &pmu, &descriptions, output)?;
    }
    output.flush()?;
    let shown_count = entries.count();
    report_hidden(args, (kind, glob), &pmu, (shown_count, found_count));
    report_erratum(args, &entries.events);
    Ok(if shown_count == 0 { FAILURE } else { 0 })
}

/// Reads the descriptions of the PMU's events; without --desc, returns none.
fn read_descriptions(args: &List, pmu: &Pmu, machine: &Machine) -> Result<Descriptions> {
    if !args.desc {
        return Ok(Descriptions::default());
    }
    let model = pmu
        .model()
        .context("there are no descriptions for this CPU, whose model is unknown.\n`--model MODEL` shows those of another model.")?;
    Descriptions::read(model, machine)
}

/// Writes the groups of metrics that match, and returns the exit code.
fn list_groups(
    args: &List,
    glob: Option<&str>,
    (pmu, machine): (&Pmu, &Machine),
    output: &mut dyn Write,
) -> Result<u8> {
    // The pattern selects groups by their own names, not by those of their metrics.
    let listed_metrics = metrics::matching_metrics(None, pmu, machine)?;
    let groups = metrics::matching_groups(glob, &listed_metrics);
    write_groups(args, &groups, output)?;
    let group_count = groups.len();
    let counts = (group_count, group_count);
    report_hidden(args, (ListKind::Groups, glob), pmu, counts);
    Ok(if group_count == 0 { FAILURE } else { 0 })
}

/// Writes a table for each kind of entries, unless it has none.
fn write_tables(
    entries: &ListEntries,
    pmu: &Pmu,
    descriptions: &Descriptions,
    output: &mut dyn Write,
) -> Result<()> {
    let ListEntries {
        events,
        pmu_events,
        metrics,
    } = entries;
    if !events.is_empty() {
        write_table(events, pmu, descriptions, output)?;
    }
    if !pmu_events.is_empty() {
        if !events.is_empty() {
            writeln!(output)?;
        }
        pmus::write_table(pmu_events, output)?;
    }
    if !metrics.is_empty() {
        if !events.is_empty() || !pmu_events.is_empty() {
            writeln!(output)?;
        }
        metrics::write_table(metrics, output)?;
    }
    Ok(())
}

/// Writes the names of the entries and of the metrics' groups, one a line.
fn write_names(entries: &ListEntries, output: &mut dyn Write) -> Result<()> {
    for event in &entries.events {
        writeln!(output, "{}", event.name)?;
    }
    for event in &entries.pmu_events {
        writeln!(output, "{}", event.name())?;
    }
    let names = entries.metrics.iter().map(metrics::ListedMetric::name);
    for name in names.chain(metrics::groups(&entries.metrics)) {
        writeln!(output, "{name}")?;
    }
    Ok(())
}

/// Writes the groups of metrics.
fn write_groups(args: &List, groups: &[&str], output: &mut dyn Write) -> Result<()> {
    if args.json {
        serde_json::to_writer_pretty(&mut *output, groups)?;
        writeln!(output)?;
    } else {
        for group in groups {
            writeln!(output, "{group}")?;
        }
    }
    Ok(output.flush()?)
}

/// Parses the arguments: a kind, a pattern, or both.
fn kind_and_glob(words: &[String]) -> Result<(ListKind, Option<&str>), Usage> {
    const LIST_KINDS: [(&str, ListKind); 8] = [
        ("event", ListKind::Events),
        ("events", ListKind::Events),
        ("metric", ListKind::Metrics),
        ("metrics", ListKind::Metrics),
        ("metricgroup", ListKind::Groups),
        ("metricgroups", ListKind::Groups),
        ("pmu", ListKind::Pmus),
        ("pmus", ListKind::Pmus),
    ];
    let kind = words.first().and_then(|word| {
        let entry = LIST_KINDS.iter().find(|(name, _)| name == word);
        entry.map(|(_, kind)| *kind)
    });
    match (kind, words) {
        (Some(kind), [_]) => Ok((kind, None)),
        (Some(kind), [_, glob]) => Ok((kind, Some(glob))),
        (None, []) => Ok((ListKind::All, None)),
        (None, [glob]) => Ok((ListKind::All, Some(glob))),
        _ => Err(Usage(
            "`pmctl list` takes `events`, `metrics`, `metricgroups` or `pmus`, and then at most one pattern: `pmctl list metrics \
             'tma_*'`."
                .to_owned(),
        )),
    }
}

/// Returns the PMU of a model, or of the machine.
pub(crate) fn pmu(model: Option<&str>, machine: &Machine) -> Result<Pmu, Usage> {
    let Some(name) = model else {
        return Ok(pmu::of_machine(machine));
    };
    let model = spec::models::model(name).ok_or_else(|| unknown_model(name))?;
    Ok(Pmu::of_model(model))
}

/// Returns the message about an unknown model, with similar names.
fn unknown_model(name: &str) -> Usage {
    let lower = name.to_ascii_lowercase();
    let likeness = |model: &&Model| {
        let model_name = model.name();
        let is_part = lower.len() >= 3 && model_name.contains(&lower);
        if is_part {
            1.0
        } else {
            strsim::jaro_winkler(&lower, model_name)
        }
    };
    let mut similar_models: Vec<&Model> = models()
        .iter()
        .filter(|model| likeness(model) > 0.85)
        .collect();
    similar_models.sort_by(|a, b| likeness(b).total_cmp(&likeness(a)));
    let similar_models: Vec<&str> = similar_models
        .iter()
        .take(3)
        .map(|model| model.name())
        .collect();
    let question =
        did_you_mean(&similar_models).map_or_else(String::new, |question| question + " ");
    Usage(format!(
        "--model: no model is called `{name}`.\n{question}`pmctl list --model help` shows them all."
    ))
}

#[cfg(test)]
mod tests;
