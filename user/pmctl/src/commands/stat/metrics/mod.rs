// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metrics of -M: the events that they need, the runs that count these events, and the values.

use std::collections::{BTreeMap, HashMap};

use anstyle::Style;
use anyhow::Result;
use perfmon::spec::EventSpec;
use perfmon::spec::models::Model;
use perfmon::spec::models::metrics::Metric;
use perfmon::{Device, Pmu};

use super::others::OtherEvents;
use super::run::{Figures, Run, running_time};
use super::tasks::OWN_GROUPS;
use super::{Column, CountedPlace};
use super::{turns, wanted};
use crate::args::Stat;
use crate::events::linux_pmu::PmuEvent;
use crate::events::metrics::{self, Formulas, MachineFacts, MetricEvent, MetricEvents, pack};
use crate::events::schedule::CounterSupply;
use crate::system::exit::{self, Usage};
use crate::system::machine::Machine;
use crate::system::screen::Colors;
use crate::system::stdio::complain;

/// The events of -e and -M, and the metrics.
pub(super) struct CountedEvents {
    /// The events of each run.
    pub(super) runs: Vec<Vec<EventSpec>>,
    pub(super) metrics: Metrics,
    /// The events of Linux's PMUs that metrics need and -e does not have.
    pub(super) pmus: Vec<PmuEvent>,
}

/// The metrics of -M, or of a file of --record.
pub(super) struct Metrics {
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
    /// The number; `None` if a count is missing, or if it is divided by 0.
    pub(super) number: Option<f64>,
    /// The value has reached the metric's threshold; `None` if the metric has none, or if it can't be computed.
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

/// Returns `events` of -e and the events of -M by run, and the metrics of -M.
pub(super) fn counted_events(
    args: &Stat,
    events: Vec<EventSpec>,
    others: &OtherEvents,
    (machine, pmu): (&Machine, &Pmu),
) -> Result<CountedEvents> {
    let words = wanted::metric_names(args, pmu);
    if words.is_empty() {
        return Ok(CountedEvents {
            runs: turns::events_by_run(args, events, pmu)?,
            metrics: Metrics::none(),
            pmus: Vec::new(),
        });
    }
    let mut formulas = Formulas::new(MachineFacts::of(machine));
    let of_tasks = !args.has_cpus();
    let mut countable = countable_metrics(&words, &mut formulas, (machine, pmu), of_tasks)?;
    for event in countable.iter_mut().flat_map(|metric| &mut metric.counters) {
        wanted::limit_modes(args, std::slice::from_mut(&mut event.1));
    }
    let device = Device::open().map_err(exit::with_help)?;
    let supply = CounterSupply::free(&device, pmu);
    let mut items = vec![MetricEvents {
        name: "-e".to_owned(),
        events,
    }];
    items.extend(countable.iter().map(|countable_metric| {
        MetricEvents {
            name: countable_metric.metric.name.to_owned(),
            events: countable_metric
                .counters
                .iter()
                .map(|(_, event)| event.clone())
                .collect(),
        }
    }));
    let mut packed_runs = pack(&items, (!args.multiplex).then_some(supply));
    packed_runs.runs.retain(|run| !run.is_empty());
    if packed_runs.runs.is_empty() {
        // A run without events of the driver: all events are of Linux's PMUs, or there is none.
        packed_runs.runs.push(Vec::new());
    }
    turns::require_one_run(args, "-M", &packed_runs.runs, supply)?;

    let first_indices: Vec<usize> = packed_runs
        .runs
        .iter()
        .scan(0, |next, run| {
            let start = *next;
            *next += run.len();
            Some(start)
        })
        .collect();
    let event_indices = |places: &Vec<(usize, usize)>| -> Vec<usize> {
        places
            .iter()
            .map(|(run, event)| first_indices[*run] + event)
            .collect()
    };
    // The sources append events of PMUs behind those of the driver and the software events.
    let first_pmu_index =
        packed_runs.runs.iter().map(Vec::len).sum::<usize>() + others.software.len();
    let mut pmus = others.pmus.clone();
    let mut pmu_event_index = |event: &PmuEvent| {
        let known = pmus
            .iter()
            .position(|known| known.encodings == event.encodings);
        first_pmu_index
            + known.unwrap_or_else(|| {
                pmus.push(event.clone());
                pmus.len() - 1
            })
    };
    let metrics: Vec<MetricWithEvents> = countable
        .iter()
        .zip(&packed_runs.places[1..])
        .map(|(countable, places)| {
            let names = countable.counters.iter().map(|(name, _)| name.clone());
            let mut events: HashMap<String, usize> = names.zip(event_indices(places)).collect();
            let of_pmus = countable.pmus.iter();
            events.extend(of_pmus.map(|(name, event)| (name.clone(), pmu_event_index(event))));
            MetricWithEvents {
                metric: countable.metric,
                events,
            }
        })
        .collect();
    let pmus = pmus.split_off(others.pmus.len());
    if of_tasks {
        // One group, so that the events are read at the same moment.
        for (index, run) in packed_runs.runs.iter_mut().enumerate() {
            let ungrouped_events = run.iter_mut().filter(|event| event.group.is_none());
            ungrouped_events.for_each(|event| event.group = Some(OWN_GROUPS + index));
        }
    }
    let events = metrics.iter().flat_map(|metric| metric.events.clone());
    Ok(CountedEvents {
        metrics: Metrics {
            formulas,
            model: pmu.model(),
            events: events.collect(),
            entries: metrics,
            names_in_several_runs: packed_runs.split,
        },
        runs: packed_runs.runs,
        pmus,
    })
}

/// A metric that can be counted, with its events by their names in formulas: those of the driver, and of Linux's PMUs.
struct CountableMetric {
    metric: Metric,
    counters: Vec<(String, EventSpec)>,
    pmus: Vec<(String, PmuEvent)>,
}

impl CountableMetric {
    fn new(metric: Metric, events: Vec<(String, MetricEvent)>) -> Self {
        let (mut counters, mut pmus): (Vec<_>, Vec<(String, PmuEvent)>) = Default::default();
        for (name, event) in events {
            match event {
                MetricEvent::Counter(event) => counters.push((name, event)),
                MetricEvent::Linux(event) => pmus.push((name, event)),
            }
        }
        // Some PMUs are read on one CPU for several others. The metric's other PMU events count on the same CPUs then.
        if let Some(cpus) = pmus.iter().find_map(|(_, event)| event.cpus()) {
            for (_, event) in &mut pmus {
                *event = event.clone().only_on(&cpus);
            }
        }
        Self {
            metric,
            counters,
            pmus,
        }
    }
}

/// Returns the metrics that can be counted. If a word names a group of metrics, warns of those that can't be counted.
fn countable_metrics(
    words: &[String],
    formulas: &mut Formulas,
    (machine, pmu): (&Machine, &Pmu),
    of_tasks: bool,
) -> Result<Vec<CountableMetric>> {
    let all = metrics::all(pmu);
    let mut countable: Vec<CountableMetric> = Vec::new();
    for word in words {
        let wanted_metrics = metrics::find(word, &all, pmu)?;
        let mut left_out: Vec<(&str, String)> = Vec::new();
        let mut is_counted = false;
        for metric in &wanted_metrics.metrics {
            let names = formulas.add(metric, pmu.model())?;
            match metrics::events(&names, (machine, pmu), of_tasks) {
                Err(reason) => left_out.push((metric.name, reason)),
                Ok(events) => {
                    is_counted = true;
                    if countable
                        .iter()
                        .all(|known| known.metric.name != metric.name)
                    {
                        countable.push(CountableMetric::new(*metric, events));
                    }
                }
            }
        }
        let Some((name, reason)) = left_out.first() else {
            continue;
        };
        if !is_counted {
            return Err(Usage(format!("-M: {name} can't be counted here: {reason}")).into());
        }
        if wanted_metrics.is_group {
            let names: Vec<&str> = left_out.iter().map(|(name, _)| *name).collect();
            complain(format_args!(
                "-M {word}: left out, since they can't be counted here: {}.\n`pmctl stat -M {name}` says why.",
                names.join(", ")
            ));
        }
    }
    Ok(countable)
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
        wanted: impl Iterator<Item = (&'a str, &'a BTreeMap<String, usize>)>,
        model: Option<&'static Model>,
        facts: MachineFacts,
    ) -> Result<Self> {
        let mut result = Self {
            formulas: Formulas::new(facts),
            model,
            ..Self::none()
        };
        let all = metrics::of_model(model);
        for (name, event_indices) in wanted {
            let is_there = |known: &MetricWithEvents| known.metric.name == name;
            let candidate = all.iter().find(|metric| metric.name == name);
            let Some(metric) = candidate.filter(|_| !result.entries.iter().any(is_there)) else {
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
        let all = metrics::all(pmu);
        let event_index = |name: &str| {
            let column = columns.iter().find(|column| column.event.label == name);
            column.expect("it is counted").event_index
        };
        for name in names {
            let metric = *all
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
                    let first = events.values().min()?;
                    let ns = running_time(runs, *column_of_event.get(first)?);
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
