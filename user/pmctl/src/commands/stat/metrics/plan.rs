// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events that the metrics of -M need, and the runs that count them.

use std::collections::HashMap;

use anyhow::Result;
use perfmon::Pmu;
use perfmon::spec::EventSpec;
use perfmon::spec::models::metrics::Metric;

use super::super::runs::split_runs;
use super::super::sources::others::OtherEvents;
use super::super::sources::tasks::OWN_GROUPS;
use super::super::wanted;
use super::{MetricWithEvents, Metrics};
use crate::args::Stat;
use crate::events::linux_pmu::PmuEvent;
use crate::events::metrics::{
    self, Formulas, MachineFacts, MetricEvent, MetricEvents, PackedRuns, pack,
};
use crate::system::exit::Usage;
use crate::system::machine::Machine;
use crate::system::stdio::complain;

/// The events of -e and -M, and the metrics.
pub(crate) struct CountedEvents {
    /// The events of each run.
    pub(crate) runs: Vec<Vec<EventSpec>>,
    pub(crate) metrics: Metrics,
    /// The events of Linux's PMUs that metrics need and -e does not have.
    pub(crate) pmus: Vec<PmuEvent>,
}

/// Returns the metrics of -M, and the events of each run: `events`, which are those of -e, and the
/// events that the metrics need.
pub(crate) fn counted_events(
    args: &Stat,
    events: Vec<EventSpec>,
    other_events: &OtherEvents,
    (machine, pmu): (&Machine, &Pmu),
) -> Result<CountedEvents> {
    let words = wanted::metric_names(args, pmu)?;
    if words.is_empty() {
        return Ok(CountedEvents {
            runs: split_runs::events_by_run(args, events, pmu)?,
            metrics: Metrics::none(),
            pmus: Vec::new(),
        });
    }
    let mut formulas = Formulas::new(MachineFacts::of(machine));
    let counts_tasks = !args.has_cpus();
    let words = (args.metrics_option(), &words[..]);
    let mut countable = countable_metrics(words, &mut formulas, (machine, pmu), counts_tasks)?;
    for (_, event) in countable.iter_mut().flat_map(|metric| &mut metric.counters) {
        wanted::limit_modes(args, std::slice::from_mut(event));
    }
    let PackedRuns {
        mut runs,
        places,
        split_items,
    } = pack_into_runs(args, events, &countable, pmu)?;
    let mut indices = EventIndices::new(&runs, other_events);
    let metrics: Vec<MetricWithEvents> = countable
        .into_iter()
        // The first element of `places` belongs to -e.
        .zip(&places[1..])
        .map(|(metric, places)| indices.add_metric(metric, places))
        .collect();
    if counts_tasks {
        group_each_run(&mut runs);
    }
    let events = metrics.iter().flat_map(|metric| metric.events.clone());
    Ok(CountedEvents {
        metrics: Metrics {
            formulas,
            model: pmu.model(),
            events: events.collect(),
            entries: metrics,
            names_in_several_runs: split_items,
        },
        runs,
        pmus: indices.pmus.split_off(other_events.pmus.len()),
    })
}

/// The name of the item with the events of -e.
const E_ITEM: &str = "-e";

/// Distributes the driver's events to runs: `events` of -e, and the events of the metrics. Returns at least one run.
fn pack_into_runs(
    args: &Stat,
    events: Vec<EventSpec>,
    metrics: &[CountableMetric],
    pmu: &Pmu,
) -> Result<PackedRuns> {
    let supply = split_runs::free_supply(args, pmu)?;
    let mut items = vec![MetricEvents {
        name: E_ITEM.to_owned(),
        events,
    }];
    items.extend(metrics.iter().map(CountableMetric::driver_events));
    let mut packed = pack(&items, (!args.multiplex).then_some(supply));
    // The note about metrics in several runs is not about the events of -e.
    packed.split_items.retain(|name| name != E_ITEM);
    if packed.runs.is_empty() {
        // There is always a run. This run has no events of the driver: all events are of Linux's
        // PMUs, or there is no event.
        packed.runs.push(Vec::new());
    }
    split_runs::require_one_run(args, args.metrics_option(), &packed.runs, supply)?;
    Ok(packed)
}

/// In each run, puts the events without a group into one group, so that they are read at the same moment.
fn group_each_run(runs: &mut [Vec<EventSpec>]) {
    for (index, run) in runs.iter_mut().enumerate() {
        for event in run.iter_mut().filter(|event| event.group.is_none()) {
            event.group = Some(OWN_GROUPS + index);
        }
    }
}

/// Converts positions of events to indices among all events that are counted. The order is: the driver's events run by
/// run, then software events, then events of Linux's PMUs.
struct EventIndices {
    /// The index of the first event of each run.
    first_of_run: Vec<usize>,
    /// The index of the first event of `pmus`.
    first_of_pmus: usize,
    /// The events of Linux's PMUs: those of -e, then those that only metrics need.
    pmus: Vec<PmuEvent>,
}

impl EventIndices {
    fn new(runs: &[Vec<EventSpec>], other_events: &OtherEvents) -> Self {
        let mut next = 0;
        let first_of_run = runs.iter().map(|run| {
            let first = next;
            next += run.len();
            first
        });
        Self {
            first_of_run: first_of_run.collect(),
            first_of_pmus: next + other_events.software.len(),
            pmus: other_events.pmus.clone(),
        }
    }

    /// Returns the metric with the indices of its events. `places` has a pair for each event of the metric that the
    /// driver counts: the index of the run, and the index of the event in that run. The metric's events of Linux's PMUs
    /// are added to the counted ones if they are new.
    fn add_metric(
        &mut self,
        countable: CountableMetric,
        places: &[(usize, usize)],
    ) -> MetricWithEvents {
        let names = countable.counters.into_iter().map(|(name, _)| name);
        let indices = places
            .iter()
            .map(|(run, event)| self.first_of_run[*run] + event);
        let mut events: HashMap<String, usize> = names.zip(indices).collect();
        for (name, event) in countable.pmus {
            events.insert(name, self.pmu_event_index(event));
        }
        MetricWithEvents {
            metric: countable.metric,
            events,
        }
    }

    /// Returns the index of an event of Linux's PMUs, and adds the event if it is new.
    fn pmu_event_index(&mut self, event: PmuEvent) -> usize {
        let is_same = |known: &PmuEvent| known.encodings == event.encodings;
        let index = self.pmus.iter().position(is_same).unwrap_or_else(|| {
            self.pmus.push(event);
            self.pmus.len() - 1
        });
        self.first_of_pmus + index
    }
}

/// A metric that can be counted, with its events by their names in formulas: first the driver's, then those of Linux's
/// PMUs.
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
                *event = event.clone().limit_to_cpus(&cpus);
            }
        }
        Self {
            metric,
            counters,
            pmus,
        }
    }

    /// Returns the events of the driver, to distribute them to runs.
    fn driver_events(&self) -> MetricEvents {
        MetricEvents {
            name: self.metric.name.to_owned(),
            events: self
                .counters
                .iter()
                .map(|(_, event)| event.clone())
                .collect(),
        }
    }
}

/// Returns the metrics that the words of an option name, and that can be counted. If a word names a
/// group, warns of the metrics of the group that can't be counted.
fn countable_metrics(
    (option, words): (&str, &[String]),
    formulas: &mut Formulas,
    (machine, pmu): (&Machine, &Pmu),
    counts_tasks: bool,
) -> Result<Vec<CountableMetric>> {
    let all_metrics = metrics::all(pmu);
    let mut countable: Vec<CountableMetric> = Vec::new();
    for word in words {
        let wanted_metrics = metrics::find(word, &all_metrics, pmu)?;
        let mut left_out: Vec<(&str, String)> = Vec::new();
        let mut is_counted = false;
        for metric in &wanted_metrics.metrics {
            let names = formulas.add(metric, pmu.model())?;
            match metrics::events(&names, (machine, pmu), counts_tasks) {
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
            return Err(Usage(format!("{option}: {name} can't be counted here: {reason}")).into());
        }
        if wanted_metrics.is_group {
            let names: Vec<&str> = left_out.iter().map(|(name, _)| *name).collect();
            complain(format_args!(
                "{option}: metrics of {word} are left out, since they can't be counted here: {}.\n\
                 `pmctl stat -M {name}` says why.",
                names.join(", ")
            ));
        }
    }
    Ok(countable)
}
