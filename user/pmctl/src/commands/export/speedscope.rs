// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes speedscope's format, with a profile for each event and thread.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Result;
use serde::Serialize;

use super::profile::{Interner, Profile, ProfileThread, TimedSample};

#[derive(Serialize)]
struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    exporter: &'static str,
    name: &'a str,
    shared: Shared<'a>,
    profiles: Vec<Thread>,
}

#[derive(Serialize)]
struct Shared<'a> {
    frames: Vec<Frame<'a>>,
}

#[derive(Serialize)]
struct Frame<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Serialize)]
struct Thread {
    #[serde(rename = "type")]
    kind: &'static str,
    name: String,
    unit: &'static str,
    #[serde(rename = "startValue")]
    start: u64,
    #[serde(rename = "endValue")]
    end: u64,
    samples: Vec<Vec<usize>>,
    weights: Vec<u64>,
}

/// Writes the samples of these events.
pub(super) fn write(profile: &Profile<'_>, events: &[usize], output: impl Write) -> Result<()> {
    // A frame is a function without its lines, so that a function is one row in all views.
    let mut frames: Interner<usize> = Interner::default();
    let mut profiles = Vec::new();
    for event in events {
        let (_, convert) = profile.unit(*event);
        for (thread, timed_samples) in samples_by_thread(profile, *event) {
            let stack = |timed_sample: &&TimedSample| {
                let places: Vec<usize> = profile.places_of_stack(timed_sample.stack).collect();
                let places = places.into_iter().rev();
                let functions = places.map(|place| profile.places.values[place].function);
                functions.map(|function| frames.intern(function)).collect()
            };
            let weights: Vec<u64> = timed_samples
                .iter()
                .map(|timed_sample| convert(timed_sample.period))
                .collect();
            profiles.push(Thread {
                kind: "sampled",
                name: format!(
                    "{} {} ({})",
                    profile.threads[&thread],
                    thread.unique_tid(),
                    profile.event_with_unit(*event)
                ),
                unit: "none",
                start: 0,
                end: weights.iter().copied().fold(0, u64::saturating_add),
                samples: timed_samples.iter().map(stack).collect(),
                weights,
            });
        }
    }
    let lines = first_lines(profile);
    let frame = |number: &usize| {
        let function = &profile.functions.values[*number];
        let object = profile.objects.values[function.object].as_str();
        Frame {
            name: &function.name,
            file: Some(function.source.as_deref().unwrap_or(object)),
            line: lines.get(number).copied(),
        }
    };
    let file = File {
        schema: "https://www.speedscope.app/file-format-schema.json",
        exporter: concat!("pmctl ", env!("CARGO_PKG_VERSION")),
        name: &profile.recording.notes.scope,
        shared: Shared {
            frames: frames.values.iter().map(frame).collect(),
        },
        profiles,
    };
    Ok(serde_json::to_writer(output, &file)?)
}

/// Returns the samples of an event by thread, the thread with the most events first.
fn samples_by_thread<'a>(
    profile: &'a Profile<'_>,
    event: usize,
) -> Vec<(ProfileThread, Vec<&'a TimedSample>)> {
    let mut threads: BTreeMap<ProfileThread, Vec<&TimedSample>> = BTreeMap::new();
    for timed_sample in profile.samples_of_event(event) {
        threads
            .entry(timed_sample.thread)
            .or_default()
            .push(timed_sample);
    }
    let mut threads: Vec<_> = threads.into_iter().collect();
    threads.sort_by_key(|(_, timed_samples)| Reverse(total_events(timed_samples)));
    threads
}

/// Returns the number of events that the samples stand for.
fn total_events(timed_samples: &[&TimedSample]) -> u64 {
    let periods = timed_samples.iter().map(|timed_sample| timed_sample.period);
    periods.fold(0, u64::saturating_add)
}

/// Returns the lowest sampled line of each function.
fn first_lines(profile: &Profile<'_>) -> BTreeMap<usize, u32> {
    let mut lines = BTreeMap::new();
    for place in profile.places.values.iter().filter(|place| place.line > 0) {
        let line = lines.entry(place.function).or_insert(place.line);
        *line = place.line.min(*line);
    }
    lines
}
