// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl list`: lists the named events and the metrics of a CPU.

mod descriptions;
mod metrics;
mod pmus;

use std::collections::HashMap;
use std::io::Write;

use anstyle::Style;
use anyhow::{Context, Result};
use perfmon::pmu::CoreKind;
use perfmon::spec::models::{Event, Model, models};
use perfmon::spec::{self, OnCounters};
use perfmon::{CounterId, Encoding, EventSelect, Pmu};
use serde::Serialize;

use descriptions::Descriptions;

use crate::args::List;
use crate::events::decode;
use crate::events::errata::{self, Erratum};
use crate::system::exit::{FAILURE, Usage};
use crate::system::glob::{is_pattern, matches_glob};
use crate::system::machine::Machine;
use crate::system::pmu;
use crate::system::stdio::complain;
use crate::system::table::{Align, Table};
use crate::system::text::{count, did_you_mean, wrap};

/// The argument of --model that asks for the names of the models.
const MODEL_HELP: &str = "help";

/// An event with its names.
struct NamedEvent {
    name: String,
    other_names: Vec<&'static str>,
    /// The counters that can count the event, or the reason why none can.
    counters: Result<OnCounters, String>,
    /// The event in the vendor's list.
    listed: Option<Event>,
    /// The kinds of cores of a hybrid processor that count the event, by the names of Linux's PMUs.
    kinds: Vec<&'static str>,
    /// An erratum that makes the event's counts wrong.
    erratum: Option<&'static Erratum>,
}

/// Writes the events that match, and returns the exit code.
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

/// Reads the descriptions of the PMU's events; there are none without --desc.
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
    // The pattern is for the names of groups, and not of metrics.
    let listed_metrics = metrics::matching_metrics(None, pmu, machine)?;
    let groups = metrics::matching_groups(glob, &listed_metrics);
    write_groups(args, &groups, output)?;
    let number = groups.len();
    report_hidden(args, (ListKind::Groups, glob), pmu, (number, number));
    Ok(if number == 0 { FAILURE } else { 0 })
}

/// The entries that are listed.
struct ListEntries {
    /// The events of the processor.
    events: Vec<NamedEvent>,
    /// The events of Linux's other PMUs.
    pmu_events: Vec<pmus::ListedPmuEvent>,
    metrics: Vec<metrics::ListedMetric>,
}

impl ListEntries {
    /// Returns the entries of this kind whose names match the pattern.
    fn matching(
        args: &List,
        (kind, glob): (ListKind, Option<&str>),
        (pmu, machine): (&Pmu, &Machine),
    ) -> Result<Self> {
        let has_metrics = match kind {
            ListKind::Events | ListKind::Pmus => false,
            // Names of events are for -e.
            ListKind::All => !args.raw,
            ListKind::Metrics | ListKind::Groups => true,
        };
        let metrics = if has_metrics {
            metrics::matching_metrics(glob, pmu, machine)?
        } else {
            Vec::new()
        };
        let events = match kind {
            ListKind::Metrics | ListKind::Pmus => Vec::new(),
            _ => all_named_events(pmu),
        };
        let is_matching = |event: &NamedEvent| glob.is_none_or(|glob| event.matches(glob));
        // A model says nothing about the PMUs of Linux.
        let pmu_events = match (kind, &args.model) {
            (ListKind::All | ListKind::Pmus, None) => pmus::matching_events(glob, machine),
            _ => Vec::new(),
        };
        Ok(Self {
            events: events.into_iter().filter(is_matching).collect(),
            pmu_events,
            metrics,
        })
    }

    /// Removes what is shown with --all only: events that are outdated, and entries that can't be counted.
    fn remove_hidden(&mut self) {
        self.events.retain(NamedEvent::is_current);
        self.metrics.retain(metrics::ListedMetric::is_countable);
    }

    fn count(&self) -> usize {
        self.events.len() + self.pmu_events.len() + self.metrics.len()
    }
}

/// Writes a table for the entries of each kind, if there are some.
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

/// Writes the entries as JSON.
fn write_json(
    entries: &ListEntries,
    descriptions: &Descriptions,
    output: &mut dyn Write,
) -> Result<()> {
    let events = entries.events.iter();
    let events = events.map(|event| EventJson::new(event, descriptions));
    let metrics = entries.metrics.iter().map(metrics::MetricJson::new);
    let rows: Vec<AnyRow<'_>> = events
        .map(AnyRow::Event)
        .chain(entries.pmu_events.iter().map(AnyRow::Pmu))
        .chain(metrics.map(AnyRow::Metric))
        .collect();
    serde_json::to_writer_pretty(&mut *output, &rows)?;
    Ok(writeln!(output)?)
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

/// The kind of entries that are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListKind {
    All,
    Events,
    Metrics,
    Groups,
    Pmus,
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

/// Returns the named events of a PMU, and those that only other kinds of cores have.
fn all_named_events(pmu: &Pmu) -> Vec<NamedEvent> {
    let mut events = events_of_kind(pmu);
    let mut indices: HashMap<String, usize> = events
        .iter()
        .enumerate()
        .map(|(index, event)| (event.name.to_ascii_lowercase(), index))
        .collect();
    for kind in pmu.core_kinds() {
        for mut of_kind in events_of_kind(kind.pmu()) {
            let is_counted = of_kind.counters.is_ok();
            of_kind.kinds.extend(is_counted.then_some(kind.name()));
            match indices.get(&of_kind.name.to_ascii_lowercase()) {
                None => {
                    indices.insert(of_kind.name.to_ascii_lowercase(), events.len());
                    events.push(of_kind);
                }
                Some(index) if is_counted && events[*index].counters.is_err() => {
                    events[*index] = of_kind;
                }
                Some(index) => events[*index].kinds.append(&mut of_kind.kinds),
            }
        }
    }
    events
}

/// Returns the named events of a PMU: generic ones, cache events, and those of the model's list.
fn events_of_kind(pmu: &Pmu) -> Vec<NamedEvent> {
    let model = pmu.model();
    let common_events = spec::named_events(pmu.vendor()).map(|event| {
        let mut names = event.names();
        let name = names.next().unwrap_or_default();
        let other_names: Vec<&str> = names.collect();
        NamedEvent {
            name: name.to_owned(),
            counters: event
                .counters_on(pmu)
                .ok_or_else(|| "This CPU does not have it.".to_owned()),
            listed: model.and_then(|model| {
                std::iter::once(name)
                    .chain(other_names.clone())
                    .find_map(|name| model.event(name))
            }),
            other_names,
            kinds: Vec::new(),
            erratum: None,
        }
    });
    let caches = spec::cache_events(pmu).map(|event| NamedEvent {
        name: event.to_string(),
        other_names: Vec::new(),
        counters: event.counters_on(pmu).ok_or_else(String::new),
        listed: None,
        kinds: Vec::new(),
        erratum: None,
    });
    let mut named_events: Vec<NamedEvent> = common_events.chain(caches).collect();
    let is_common = |name: &str| {
        spec::named_events(pmu.vendor())
            .any(|event| event.names().any(|known| known.eq_ignore_ascii_case(name)))
    };
    named_events.extend(
        model
            .into_iter()
            .flat_map(Model::events)
            .filter(|event| !is_common(&event.name))
            .map(|event| NamedEvent {
                name: event.name.clone(),
                other_names: Vec::new(),
                counters: spec::counters_of_listed(&event, pmu),
                listed: Some(event),
                kinds: Vec::new(),
                erratum: None,
            }),
    );
    for event in &mut named_events {
        let number = event.number();
        event.erratum = errata::of(pmu)
            .filter(|erratum| number.is_some_and(|number| erratum.is_of_event(number)));
    }
    named_events
}

impl NamedEvent {
    /// Returns whether one of the event's names contains `glob`, or matches it if it is a pattern.
    fn matches(&self, glob: &str) -> bool {
        self.all_names()
            .any(|name| matches(&glob.to_ascii_lowercase(), &name.to_ascii_lowercase()))
    }

    fn all_names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.name).chain(self.other_names.iter().copied())
    }

    /// Returns whether the event can be counted, and its name is not outdated.
    fn is_current(&self) -> bool {
        self.counters.is_ok() && !(self.is_deprecated() && self.other_names.is_empty())
    }

    /// Returns the PMU that the event's counters belong to: the PMU of the first kind of core that counts the event.
    fn pmu<'a>(&self, pmu: &'a Pmu) -> &'a Pmu {
        let mut kinds = pmu.core_kinds().iter();
        let kind = kinds.find(|kind| self.kinds.first() == Some(&kind.name()));
        kind.map_or(pmu, CoreKind::pmu)
    }

    fn is_deprecated(&self) -> bool {
        self.listed.as_ref().is_some_and(|event| event.deprecated)
    }

    /// Returns the other names and the erratum.
    fn note(&self) -> String {
        let erratum = self
            .erratum
            .map(|erratum| format!("(erratum {})", erratum.name));
        let names = self.other_names.iter().map(|name| (*name).to_owned());
        names.chain(erratum).collect::<Vec<_>>().join(", ")
    }

    /// Returns the event number, on a CPU whose event numbers have 8 bits.
    fn number(&self) -> Option<u16> {
        self.select().map(|select| (select.bits() & 0xff) as u16)
    }

    /// Returns the event select as a raw event, without modes, with the value of its extra register.
    fn raw_event(&self) -> Option<String> {
        let extra = self.listed.as_ref().and_then(|event| event.extra);
        let select = self.select()?;
        let encoding = match extra {
            Some(extra) => Encoding::RawWithRegister(select, extra.value),
            None => Encoding::Raw(select),
        };
        Some(encoding.to_string())
    }

    /// Returns the event select.
    fn select(&self) -> Option<EventSelect> {
        match &self.counters {
            Ok(counters) => counters.select,
            Err(_) => self
                .listed
                .as_ref()
                .filter(|event| event.fixed.is_none())
                .and_then(spec::select_of),
        }
    }
}

/// Returns whether `name` contains `glob`, or matches it if it is a pattern.
fn matches(glob: &str, name: &str) -> bool {
    if !is_pattern(glob) {
        return name.contains(glob);
    }
    matches_glob(glob.as_bytes(), name.as_bytes())
}

fn write_table(
    events: &[NamedEvent],
    pmu: &Pmu,
    descriptions: &Descriptions,
    output: &mut dyn Write,
) -> Result<()> {
    /// Columns of descriptions.
    const DESCRIPTION_WIDTH: usize = 76;
    let is_hybrid = !pmu.core_kinds().is_empty();
    let mut headings = vec!["event", "raw", "counters", "also called"];
    if is_hybrid {
        headings.insert(3, "cores");
    }
    let headings: Vec<_> = headings
        .into_iter()
        .map(|text| (text, Align::Left))
        .collect();
    let mut table = Table::new(&headings).without_margin();
    for event in events {
        let note = match &event.counters {
            Ok(_) if event.is_deprecated() => "(outdated)".to_owned(),
            Ok(_) => event.note(),
            Err(reason) => reason.clone(),
        };
        let counters = match &event.counters {
            Ok(event_counters) => format_counters(event_counters, event.pmu(pmu)),
            Err(_) => "none".to_owned(),
        };
        let raw_event = event.raw_event().unwrap_or_default();
        let mut cells = vec![event.name.clone(), raw_event, counters, note];
        if is_hybrid {
            cells.insert(3, event.kinds.join(" "));
        }
        table.add_row(&cells, Style::new());
        let description = descriptions.of(event.all_names());
        let lines = description.map_or(Vec::new(), |text| wrap(text, DESCRIPTION_WIDTH));
        let lines = lines.into_iter().map(|line| format!("    {line}"));
        table.add_lines_below(lines.collect());
    }
    Ok(table.write(None, Style::new(), output)?)
}

/// Returns the names of counters: `PMC` for all general ones, or such as `PMC0-3`, `PMC1 FIXED0`.
pub(crate) fn format_counters(event_counters: &OnCounters, pmu: &Pmu) -> String {
    let number = event_counters.general.count_ones();
    let general = match event_counters.general {
        0 => None,
        _ if number == u32::from(pmu.general_counters()) => Some("PMC".to_owned()),
        // Events that only some of the counters can count, which are usually the first ones.
        mask if number > 1 && mask.trailing_ones() == number => {
            Some(format!("PMC0-{}", number - 1))
        }
        mask => {
            let numbers = (0..pmu.general_counters()).filter(|number| mask >> number & 1 != 0);
            let names: Vec<String> = numbers
                .map(|number| decode::counter_name(CounterId::General(number)))
                .collect();
            Some(names.join(" "))
        }
    };
    let fixed = event_counters
        .fixed
        .map(|number| decode::counter_name(CounterId::Fixed(number)));
    general
        .into_iter()
        .chain(fixed)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Reports on standard error that no name matches, or how many matching entries are not shown.
fn report_hidden(
    args: &List,
    (kind, glob): (ListKind, Option<&str>),
    pmu: &Pmu,
    (shown_count, found_count): (usize, usize),
) {
    let model_name = pmu
        .model()
        .map(|model| format!("{} ({})", model.name(), model.version()));
    if let (0, Some(glob)) = (found_count, glob) {
        let of_model = model_name
            .as_ref()
            .map_or(String::new(), |name| format!(" of {name}"));
        let what = match kind {
            ListKind::Metrics => "metric",
            ListKind::Groups => "group of metrics",
            ListKind::Pmus => "event of Linux's PMUs",
            _ => "event",
        };
        complain(format_args!("no {what}{of_model} has `{glob}` in its name"));
        if model_name.is_none() && kind != ListKind::Pmus {
            complain(missing_list_message(pmu, "`pmctl list` shows them"));
        }
        advise_category(glob);
        return;
    }
    if args.raw || args.json {
        return;
    }
    if found_count > shown_count {
        let what = match kind {
            ListKind::Metrics => "more metric",
            ListKind::Events => "more event",
            _ => "more name",
        };
        let hidden_count = u64::try_from(found_count - shown_count).unwrap_or(u64::MAX);
        match shown_count {
            0 => complain(format_args!(
                "{}, and none of them can be counted here: `--all` shows them with the reason.",
                count(hidden_count, what.trim_start_matches("more "))
            )),
            _ => complain(format_args!(
                "{} that can't be counted here or are outdated: `--all` shows them with the reason.",
                count(hidden_count, what)
            )),
        }
    }
    if let (0, Some(glob)) = (shown_count, glob) {
        advise_category(glob);
    }
    if model_name.is_none() {
        complain(missing_list_message(
            pmu,
            "`--model MODEL` lists another model's",
        ));
    }
}

/// Prints the erratum of the listed events on standard error.
fn report_erratum(args: &List, shown_events: &[NamedEvent]) {
    let mut marked_events = shown_events
        .iter()
        .filter(|event| event.counters.is_ok() && !event.is_deprecated());
    let erratum = marked_events.find_map(|event| event.erratum);
    if let Some(erratum) = erratum.filter(|_| !args.raw && !args.json) {
        complain(format_args!(
            "{}: {}. {}",
            erratum.name, erratum.consequence, erratum.fix
        ));
    }
}

/// Returns the message that pmctl knows only generic events and metrics of a CPU, with advice.
fn missing_list_message(pmu: &Pmu, advice: &str) -> String {
    let processor = pmu.processor();
    format!(
        "pmctl has no list for this CPU (family {:#x}, model {:#x}), only generic events and metrics: {advice}.",
        processor.family(),
        processor.model()
    )
}

/// Prints how to find the events of a category of `perf list`, if `glob` is such a category.
fn advise_category(glob: &str) {
    const COUNTER_ADVICE: &str =
        "`pmctl info` lists the generic events, `pmctl list` those of this CPU.";
    const KERNEL_ADVICE: &str = "The kernel's events are `pmctl stat -e task-clock,page-faults,context-switches` and the like.";
    const CACHE_ADVICE: &str =
        "Cache events have names such as `L1-dcache-load-misses`: `pmctl list L1-` lists some.";
    const PERF_ADVICE: &str = "`perf list` lists the other events of the kernel.";
    let categories = [
        ("hw", COUNTER_ADVICE),
        ("hardware", COUNTER_ADVICE),
        ("sw", KERNEL_ADVICE),
        ("software", KERNEL_ADVICE),
        ("cache", CACHE_ADVICE),
        ("hwcache", CACHE_ADVICE),
        ("tracepoint", PERF_ADVICE),
        ("sdt", PERF_ADVICE),
    ];
    let glob = glob.to_ascii_lowercase();
    if let Some((_, advice)) = categories.iter().find(|(name, _)| *name == glob) {
        complain(format_args!(
            "`{glob}` is a category of `perf list`; `pmctl list` takes a part of an event's name. {advice}"
        ));
    }
}

/// An event or a metric in JSON.
#[derive(Serialize)]
#[serde(untagged)]
enum AnyRow<'a> {
    Event(EventJson<'a>),
    Pmu(&'a pmus::ListedPmuEvent),
    Metric(metrics::MetricJson<'a>),
}

/// An event in JSON. Keys without a value are left out.
#[derive(Serialize)]
struct EventJson<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    also: &'a [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<String>,
    /// The numbers of the general counters that can count the event.
    counters: Vec<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fixed: Option<u8>,
    /// The kinds of cores of a hybrid processor that count the event.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    kinds: &'a [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    register: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    register_value: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    period: Option<u32>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    deprecated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    errata: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_here: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
}

impl<'a> EventJson<'a> {
    fn new(event: &'a NamedEvent, descriptions: &'a Descriptions) -> Self {
        let (listed, counters) = (event.listed.as_ref(), event.counters.as_ref().ok());
        let general = counters.map_or(0, |counters| counters.general);
        Self {
            name: &event.name,
            also: &event.other_names,
            raw: event.raw_event(),
            counters: (0..64)
                .filter(|number| general >> number & 1 != 0)
                .collect(),
            fixed: counters
                .and_then(|counters| counters.fixed)
                .or(listed.and_then(|event| event.fixed)),
            kinds: &event.kinds,
            register: listed
                .and_then(|event| event.extra)
                .map(|extra| extra.register),
            register_value: listed
                .and_then(|event| event.extra)
                .map(|extra| extra.value),
            period: listed.and_then(|event| event.period),
            deprecated: listed.is_some_and(|event| event.deprecated),
            errata: event.erratum.map(|erratum| erratum.name),
            not_here: event.counters.as_ref().err().map(String::as_str),
            description: descriptions.of(event.all_names()),
        }
    }
}

#[cfg(test)]
mod tests;
