// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metrics of -M, and their values.

mod plan;

use std::collections::{BTreeMap, HashMap};

use anstyle::Style;
use anyhow::Result;
#[cfg(test)]
use perfmon::Pmu;
use perfmon::spec::models::Model;
use perfmon::spec::models::metrics::Metric;

pub(super) use self::plan::{CountedEvents, counted_events};
use super::column::Column;
use super::runs::run::{Figures, Run, running_time};
use super::scope::CountedPlace;
use crate::events::metrics::{self, Formulas, MachineFacts};
use crate::system::screen::Colors;

/// The metrics of -M, or of a file of --record.
pub(crate) struct Metrics {
    formulas: Formulas,
    model: Option<&'static Model>,
    entries: Vec<MetricWithEvents>,
    /// The indices of all metrics' events, by their names in formulas.
    events: HashMap<String, usize>,
    /// The names of metrics whose events are counted in several runs.
    pub(super) names_in_several_runs: Vec<String>,
}

/// A metric, and the indices of its events by their names in formulas.
struct MetricWithEvents {
    metric: Metric,
    events: HashMap<String, usize>,
}

/// The value of a metric.
#[derive(Clone, Debug)]
pub(super) struct MetricValue<'a> {
    pub(super) place: Option<&'a CountedPlace>,
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    /// The number; `None` if a count is missing, or if the formula divides by 0.
    pub(super) number: Option<f64>,
    /// The value has reached the metric's threshold; `None` if the metric has no threshold, or if
    /// the value can't be computed.
    pub(super) is_notable: Option<bool>,
}

impl MetricValue<'_> {
    /// Returns the number for people, without its unit.
    pub(super) fn text(&self) -> String {
        match self.number {
            Some(number) => format!("{number:.2}"),
            None => "<no value>".to_owned(),
        }
    }

    /// Returns the style of the number: red if the value has reached the metric's threshold.
    pub(super) fn style(&self, colors: &Colors) -> Style {
        match self.is_notable {
            Some(true) => colors.notable(),
            _ => Style::new(),
        }
    }

    /// Returns the unit and the name as `perf stat -M` has them.
    pub(super) fn perf_unit(&self) -> String {
        match self.unit {
            "" => self.name.to_owned(),
            unit => format!("{unit}  {}", self.name),
        }
    }
}

impl Metrics {
    pub(super) fn none() -> Self {
        let facts = MachineFacts {
            is_smt: false,
            online: 1,
        };
        Self {
            formulas: Formulas::new(facts),
            model: None,
            entries: Vec::new(),
            events: HashMap::new(),
            names_in_several_runs: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the metrics of a file of --record, with the indices of their events.
    ///
    /// Metrics that this version's tables lack are left out.
    pub(super) fn from_file<'a>(
        wanted_metrics: impl Iterator<Item = (&'a str, &'a BTreeMap<String, usize>)>,
        model: Option<&'static Model>,
        facts: MachineFacts,
    ) -> Result<Self> {
        let mut result = Self {
            formulas: Formulas::new(facts),
            model,
            ..Self::none()
        };
        let all_metrics = metrics::of_model(model);
        for (name, event_indices) in wanted_metrics {
            let is_added = |known: &MetricWithEvents| known.metric.name == name;
            let candidate = all_metrics.iter().find(|metric| metric.name == name);
            let Some(metric) = candidate.filter(|_| !result.entries.iter().any(is_added)) else {
                continue;
            };
            result.formulas.add(metric, model)?;
            let events: HashMap<String, usize> = event_indices.clone().into_iter().collect();
            result.events.extend(events.clone());
            result.entries.push(MetricWithEvents {
                metric: *metric,
                events,
            });
        }
        Ok(result)
    }

    /// Returns the name of the CPU model that the metrics are for; `None` without metrics.
    pub(super) fn model(&self) -> Option<&'static str> {
        self.model.filter(|_| !self.is_empty()).map(Model::name)
    }

    /// Returns the facts about the machine that the formulas use; `None` without metrics.
    pub(super) fn machine_facts(&self) -> Option<MachineFacts> {
        (!self.is_empty()).then_some(self.formulas.machine_facts())
    }

    /// Returns the indices of a metric's events, by their names in formulas.
    pub(super) fn event_indices(&self, name: &str) -> BTreeMap<String, usize> {
        let entry = self.entries.iter().find(|known| known.metric.name == name);
        entry.map_or_else(BTreeMap::new, |entry| {
            entry.events.clone().into_iter().collect()
        })
    }

    /// Returns the metrics of these names, whose events are counted in `columns`.
    #[cfg(test)]
    pub(super) fn named(names: &[&str], columns: &[Column], pmu: &Pmu) -> Self {
        let mut result = Self::none();
        let all_metrics = metrics::all(pmu);
        let event_index = |name: &str| {
            let column = columns.iter().find(|column| column.event.label == name);
            column.expect("it is counted").event_index
        };
        for name in names {
            let metric = *all_metrics
                .iter()
                .find(|metric| metric.name == *name)
                .expect("it is there");
            let events = result
                .formulas
                .add(&metric, pmu.model())
                .expect("it is well formed");
            let events = events
                .into_iter()
                .map(|name| (name.clone(), event_index(&name)));
            result.entries.push(MetricWithEvents {
                metric,
                events: events.collect(),
            });
        }
        result
    }

    /// Returns the names of the metrics.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.entries.iter().map(|metric| metric.metric.name)
    }

    /// Returns the value of each metric for each place that has counts of its own.
    pub(super) fn values<'a>(&self, columns: &'a [Column], runs: &[Run]) -> Vec<MetricValue<'a>> {
        if self.is_empty() {
            return Vec::new();
        }
        let means = Figures::from_runs(runs).means();
        let counted_for: f64 = runs.iter().map(|run| run.counted_for.as_secs_f64()).sum();
        let counted_for = counted_for / runs.len().max(1) as f64;
        let mut places: Vec<Option<&CountedPlace>> = Vec::new();
        for column in columns {
            let place = column.place.as_ref();
            if !places.contains(&place) {
                places.push(place);
            }
        }
        let mut values = Vec::new();
        for place in places {
            let column_of_event: HashMap<usize, usize> = columns
                .iter()
                .enumerate()
                .filter(|(_, column)| column.place.as_ref() == place)
                .map(|(index, column)| (column.event_index, index))
                .collect();
            for MetricWithEvents { metric, events } in &self.entries {
                let column = |name: &str| {
                    let event_index = events.get(name).or_else(|| self.events.get(name))?;
                    column_of_event.get(event_index).copied()
                };
                let running_seconds = || {
                    let first_event = events.values().min()?;
                    let ns = running_time(runs, *column_of_event.get(first_event)?);
                    Some(ns as f64 / 1e9)
                };
                let count_of = |name: &str| match name {
                    "duration_time" => Some(counted_for),
                    "running_time" => running_seconds(),
                    _ => means[column(name)?],
                };
                values.push(MetricValue {
                    place,
                    name: metric.name,
                    unit: metric.unit,
                    number: self.formulas.value(metric, &count_of),
                    is_notable: self.formulas.is_notable(metric, &count_of),
                });
            }
        }
        values
    }
}
