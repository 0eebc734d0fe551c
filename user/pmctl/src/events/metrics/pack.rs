// SPDX-License-Identifier: MIT OR Apache-2.0
//! Distributes the events of metrics to as few runs as possible, and the events of each metric to one run if they fit.

use perfmon::spec::EventSpec;

use crate::events::schedule::{CounterSupply, are_of_one_group, schedule};

/// The events of a metric, which are counted in one run if they fit.
#[derive(Clone, Debug)]
pub(crate) struct MetricEvents {
    /// Name of the metric.
    pub(crate) name: String,
    pub(crate) events: Vec<EventSpec>,
}

/// The events of all runs.
#[derive(Debug, Default)]
pub(crate) struct PackedRuns {
    /// The events of each run.
    pub(crate) runs: Vec<Vec<EventSpec>>,
    /// For each item, the places of its events. A place is the index of a run, and the index of the event in that run.
    pub(crate) places: Vec<Vec<(usize, usize)>>,
    /// The names of items whose events are in several runs.
    pub(crate) split_items: Vec<String>,
}

/// Distributes the events to runs. An event or a group that can't be counted even alone gets a run of its own. `supply`
/// are the counters of a run; `None` means no limit, for events that take turns.
pub(crate) fn pack(items: &[MetricEvents], supply: Option<CounterSupply>) -> PackedRuns {
    let mut packed_runs = PackedRuns::default();
    for item in items {
        // An item without events needs no run. If it added a run, that run would stay empty if no
        // other events fit into a run.
        if item.events.is_empty() {
            packed_runs.places.push(Vec::new());
            continue;
        }
        let fits = |run: &Vec<EventSpec>| fit_together(run, &item.events, supply);
        let common_run = packed_runs.runs.iter().position(fits).or_else(|| {
            let fits_alone = fit_together(&[], &item.events, supply);
            fits_alone.then(|| {
                packed_runs.runs.push(Vec::new());
                packed_runs.runs.len() - 1
            })
        });
        let places = match common_run {
            Some(run) => add_events(&mut packed_runs.runs, run, &item.events),
            None => {
                packed_runs.split_items.push(item.name.clone());
                let mut places = Vec::new();
                for events in item.events.chunk_by(are_of_one_group) {
                    let run = packed_runs
                        .runs
                        .iter()
                        .position(|run| fit_together(run, events, supply))
                        .unwrap_or_else(|| {
                            packed_runs.runs.push(Vec::new());
                            packed_runs.runs.len() - 1
                        });
                    places.extend(add_events(&mut packed_runs.runs, run, events));
                }
                places
            }
        };
        packed_runs.places.push(places);
    }
    packed_runs
}

/// Returns whether the events of a run and `more` events can all be counted at the same time.
fn fit_together(run: &[EventSpec], more: &[EventSpec], supply: Option<CounterSupply>) -> bool {
    let Some(supply) = supply else {
        return true;
    };
    let new_events = more.iter().filter(|event| find(run, event).is_none());
    let events = run
        .iter()
        .chain(new_events)
        .filter(|event| !event.is_absent());
    let events: Vec<EventSpec> = events.cloned().collect();
    schedule(&events, supply).is_ok()
}

/// Adds the events that a run does not have yet. Returns the place of each event: the index of the run, and the index
/// of the event in that run.
fn add_events(
    runs: &mut [Vec<EventSpec>],
    run: usize,
    events: &[EventSpec],
) -> Vec<(usize, usize)> {
    let add = |event: &EventSpec| {
        let index = find(&runs[run], event).unwrap_or_else(|| {
            runs[run].push(event.clone());
            runs[run].len() - 1
        });
        (run, index)
    };
    events.iter().map(add).collect()
}

/// Returns the index of an event of the run that counts the same as `event`. A group stays whole, so an event of a group
/// is found in its own group only.
fn find(run: &[EventSpec], event: &EventSpec) -> Option<usize> {
    run.iter().position(|known| {
        !known.is_absent()
            && (event.group.is_none() || known.group == event.group)
            && known.encoding == event.encoding
            && known.core_type == event.core_type
            && known.modes == event.modes
            && known.pinned == event.pinned
            && known.general_counters == event.general_counters
    })
}
