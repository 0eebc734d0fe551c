// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which events are counted at the same time: as few runs as it takes, and each metric in one of them if it fits.

use perfmon::spec::EventSpec;

use crate::events::schedule::{CounterSupply, schedule};

/// Events that belong together.
#[derive(Clone, Debug)]
pub(crate) struct MetricEvents {
    /// The name to tell, if they can't be counted together.
    pub(crate) name: String,
    pub(crate) events: Vec<EventSpec>,
}

/// The events of all runs.
#[derive(Debug, Default)]
pub(crate) struct Packed {
    /// The events of each run.
    pub(crate) runs: Vec<Vec<EventSpec>>,
    /// The places of the events of each item: the run, and which of its events.
    pub(crate) places: Vec<Vec<(usize, usize)>>,
    /// The names of items whose events are in several runs.
    pub(crate) split: Vec<String>,
}

/// Distributes the events to runs. An event that has no counter even alone is in a run of its own. If they take turns, there
/// is no `supply` that limits a run.
pub(crate) fn pack(items: &[MetricEvents], supply: Option<CounterSupply>) -> Packed {
    let mut packed = Packed::default();
    for item in items {
        let fits = |run: &Vec<EventSpec>| fit_together(run, &item.events, supply);
        let whole = packed.runs.iter().position(fits).or_else(|| {
            let alone = fit_together(&[], &item.events, supply);
            alone.then(|| {
                packed.runs.push(Vec::new());
                packed.runs.len() - 1
            })
        });
        let places = match whole {
            Some(run) => place(&mut packed.runs, run, &item.events),
            None => {
                packed.split.push(item.name.clone());
                let mut places = Vec::new();
                for event in &item.events {
                    let one = std::slice::from_ref(event);
                    let run = packed
                        .runs
                        .iter()
                        .position(|run| fit_together(run, one, supply))
                        .unwrap_or_else(|| {
                            packed.runs.push(Vec::new());
                            packed.runs.len() - 1
                        });
                    places.extend(place(&mut packed.runs, run, one));
                }
                places
            }
        };
        packed.places.push(places);
    }
    packed
}

/// Returns whether all of these events have counters at the same time.
fn fit_together(run: &[EventSpec], more: &[EventSpec], supply: Option<CounterSupply>) -> bool {
    let Some(supply) = supply else {
        return true;
    };
    let new = more.iter().filter(|event| find(run, event).is_none());
    let all = run.iter().chain(new).filter(|event| !event.is_absent());
    let all: Vec<EventSpec> = all.cloned().collect();
    schedule(&all, supply).is_ok()
}

/// Adds the events that the run has not, and returns the places of all.
fn place(runs: &mut [Vec<EventSpec>], run: usize, events: &[EventSpec]) -> Vec<(usize, usize)> {
    let add = |event: &EventSpec| {
        let found = find(&runs[run], event).unwrap_or_else(|| {
            runs[run].push(event.clone());
            runs[run].len() - 1
        });
        (run, found)
    };
    events.iter().map(add).collect()
}

/// Returns where an event is that counts the same.
fn find(run: &[EventSpec], event: &EventSpec) -> Option<usize> {
    run.iter().position(|known| {
        !known.is_absent()
            && known.encoding == event.encoding
            && known.modes == event.modes
            && known.pinned == event.pinned
            && known.general_counters == event.general_counters
    })
}
