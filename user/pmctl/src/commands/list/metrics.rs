// SPDX-License-Identifier: MIT OR Apache-2.0
//! The metrics of `pmctl list`.

use std::io::Write;

use anstyle::Style;
use anyhow::Result;
use perfmon::Pmu;
use perfmon::spec::models::Model;
use perfmon::spec::models::metrics::Metric;
use serde::Serialize;

use crate::events::metrics::{self, Formulas, MachineFacts};
use crate::system::glob::contains_or_matches;
use crate::system::machine::Machine;
use crate::system::table::{Align, Table};

/// A metric, with the events that it needs.
pub(super) struct ListedMetric {
    name: &'static str,
    /// The metric in the tables; `None` if it needs more than events of cores.
    metric: Option<Metric>,
    events: Vec<String>,
    /// Reason why the metric can't be counted, if it can't.
    uncountable_reason: Option<String>,
}

/// Returns the metrics of a PMU whose names or groups match.
pub(super) fn matching_metrics(
    glob: Option<&str>,
    pmu: &Pmu,
    machine: &Machine,
) -> Result<Vec<ListedMetric>> {
    let metrics = metrics::all(pmu);
    let mut formulas = Formulas::new(MachineFacts::of(machine));
    let mut listed_metrics = Vec::new();
    for metric in metrics {
        let names = std::iter::once(metric.name).chain(metric.groups());
        if !has_match(glob, names) {
            continue;
        }
        let events = formulas.add(&metric, pmu.model())?;
        listed_metrics.push(ListedMetric {
            name: metric.name,
            uncountable_reason: metrics::events(&events, (machine, pmu), false).err(),
            metric: Some(metric),
            events,
        });
    }
    let unsupported = pmu.model().into_iter().flat_map(Model::unsupported_metrics);
    let unsupported = unsupported.filter(|(name, _)| has_match(glob, std::iter::once(*name)));
    listed_metrics.extend(unsupported.map(|(name, needed)| ListedMetric {
        name,
        metric: None,
        events: Vec::new(),
        uncountable_reason: Some(format!(
            "it needs {needed}, which is not an event of a core."
        )),
    }));
    Ok(listed_metrics)
}

/// Returns whether one of these names matches `glob`; without a pattern, returns true.
fn has_match<'a>(glob: Option<&str>, mut names: impl Iterator<Item = &'a str>) -> bool {
    glob.is_none_or(|glob| {
        let glob = glob.to_ascii_lowercase();
        names.any(|name| contains_or_matches(&glob, &name.to_ascii_lowercase()))
    })
}

impl ListedMetric {
    pub(super) fn is_countable(&self) -> bool {
        self.uncountable_reason.is_none()
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the metric's groups, separated by commas.
    fn groups(&self) -> String {
        let groups: Vec<&str> = self.metric.iter().flat_map(Metric::groups).collect();
        groups.join(",")
    }
}

/// Returns the groups of these metrics, each once.
pub(super) fn groups(listed_metrics: &[ListedMetric]) -> Vec<&'static str> {
    let metrics = listed_metrics.iter().filter_map(|listed| listed.metric);
    let metrics: Vec<Metric> = metrics.collect();
    metrics::groups(&metrics).into_iter().collect()
}

/// Returns the groups of these metrics whose names match.
pub(super) fn matching_groups(
    glob: Option<&str>,
    listed_metrics: &[ListedMetric],
) -> Vec<&'static str> {
    let mut groups = groups(listed_metrics);
    groups.retain(|group| has_match(glob, std::iter::once(*group)));
    groups
}

/// Writes a table of metrics.
pub(super) fn write_table(metrics: &[ListedMetric], output: &mut dyn Write) -> Result<()> {
    let headings = ["metric", "unit", "groups"];
    let mut table = Table::new(&headings.map(|text| (text, Align::Left))).without_margin();
    for metric in metrics {
        let note = match &metric.uncountable_reason {
            None => metric.groups(),
            Some(reason) => format!("not here: {}", reason.replace('\n', " ")),
        };
        let unit = metric.metric.map_or("", |metric| metric.unit);
        table.add_row(
            &[metric.name.to_owned(), unit.to_owned(), note],
            Style::new(),
        );
    }
    Ok(table.write(None, Style::new(), output)?)
}

/// A metric in JSON. Keys without a value are left out.
#[derive(Serialize)]
pub(super) struct MetricJson<'a> {
    metric: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<&'static str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    unit: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    factor: Option<f64>,
    #[serde(skip_serializing_if = "str::is_empty")]
    formula: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    threshold: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    events: &'a [String],
    /// The reason why the metric can't be counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_here: Option<&'a str>,
}

impl<'a> MetricJson<'a> {
    pub(super) fn new(listed: &'a ListedMetric) -> Self {
        let metric = listed.metric.as_ref();
        Self {
            metric: listed.name,
            groups: metric.into_iter().flat_map(Metric::groups).collect(),
            unit: metric.map_or("", |metric| metric.unit),
            factor: metric.map(|metric| metric.factor),
            formula: metric.map_or("", |metric| metric.formula),
            threshold: metric.map_or("", |metric| metric.threshold),
            events: &listed.events,
            not_here: listed.uncountable_reason.as_deref(),
        }
    }
}
