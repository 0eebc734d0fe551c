// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the Firefox Profiler's format ("processed profile"): tables that are stored as columns, with indices into each
//! other.
//!
//! The crate fxprof-processed-profile is not used, since it has no way to write source lines and inlined functions: it
//! expects a symbol server to supply them.

use std::collections::BTreeMap;
use std::io::{self, Write};

use ahash::AHashMap;
use serde_json::{Map, Value, json};

use super::profile::{Interner, Profile, ProfileThread, TimedSample};
use crate::recording::file_text::path_of_text;
use crate::recording::symbols::hexadecimal;

/// The version of the format.
const FORMAT_VERSION: u32 = 55;

/// Indices of the categories.
const USER_CATEGORY: usize = 1;
const KERNEL_CATEGORY: usize = 2;

/// Writes the stacks of one event and the counts of the other events.
pub(super) fn write(profile: &Profile<'_>, event: usize, output: impl Write) -> io::Result<()> {
    let mut samples_by_thread: BTreeMap<ProfileThread, Vec<&TimedSample>> = BTreeMap::new();
    for thread in profile.threads.keys() {
        samples_by_thread.insert(*thread, Vec::new());
    }
    for timed_sample in profile.samples_of_event(event) {
        samples_by_thread
            .entry(timed_sample.thread)
            .or_default()
            .push(timed_sample);
    }
    // Weights are left out if all samples of all threads have the same period: without weights each sample weighs 1.
    let mut periods = profile.samples_of_event(event).map(|sample| sample.period);
    let first = periods.next();
    let has_weights = periods.any(|period| Some(period) != first);
    let to_weight = has_weights.then(|| profile.unit(event).1);
    let threads = samples_by_thread.iter();
    let threads: Vec<Value> = threads
        .map(|(thread, samples)| Tables::new(profile).json(*thread, samples, to_weight))
        .collect();
    let times = profile
        .samples_of_event(event)
        .map(|timed_sample| timed_sample.time);
    let last_time = profile
        .timed_samples
        .last()
        .map_or(0, |timed_sample| timed_sample.time);
    let interval = to_milliseconds(last_time) / times.count().max(1) as f64;
    let file = json!({
        "meta": {
            "version": 24,
            "preprocessedProfileVersion": FORMAT_VERSION,
            "product": profile.recording.notes.scope,
            "importedFrom": "pmctl",
            "oscpu": format!("Linux {}", profile.recording.host.release),
            "interval": interval,
            "startTime": 0,
            "processType": 0,
            "symbolicated": true,
            "debug": false,
            "usesOnlyOneStackType": true,
            "sourceCodeIsNotOnSearchfox": true,
            "markerSchema": [],
            "pausedRanges": [],
            "extensions": { "length": 0, "baseURL": [], "id": [], "name": [] },
            "sampleUnits": { "time": "ms", "eventDelay": "ms", "threadCPUDelta": "µs" },
            "categories": [
                { "name": "Other", "color": "grey", "subcategories": ["Other"] },
                { "name": "User", "color": "yellow", "subcategories": ["Other"] },
                { "name": "Kernel", "color": "orange", "subcategories": ["Other"] },
            ],
        },
        "libs": profile.objects.values.iter().map(|object| library(profile, object)).collect::<Vec<_>>(),
        "threads": threads,
        "pages": [],
        "profilerOverhead": [],
        "counters": counter_tracks(profile, event, &samples_by_thread),
    });
    let mut output = output;
    serde_json::to_writer(&mut output, &file)?;
    writeln!(output)
}

fn to_milliseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}

/// Returns the differences between times in milliseconds; the first difference is from 0.
fn time_deltas_ms(times: impl Iterator<Item = u64>) -> Vec<f64> {
    let mut last = 0;
    let delta = |time| to_milliseconds(time - std::mem::replace(&mut last, time));
    times.map(delta).collect()
}

/// Returns the entry of a program or library.
fn library(profile: &Profile<'_>, path: &str) -> Value {
    let id = profile.recording.build_id(&path_of_text(path));
    let name = path.rsplit('/').next().unwrap_or(path);
    json!({
        "name": name, "path": path, "debugName": name, "debugPath": path, "arch": "x86_64",
        "breakpadId": id.map(breakpad_id).unwrap_or_default(),
        "codeId": id.map(hexadecimal),
    })
}

/// Returns a build-id in the form of symbol servers (Breakpad). First come the first 16 bytes as a
/// GUID, whose first three parts are little-endian, and then the age 0.
fn breakpad_id(id: &[u8]) -> String {
    const GUID_BYTE_ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let bytes = GUID_BYTE_ORDER.map(|index| id.get(index).copied().unwrap_or(0));
    hexadecimal(&bytes).to_uppercase() + "0"
}

/// Returns a counter track for each process and each event other than `event`.
fn counter_tracks(
    profile: &Profile<'_>,
    event: usize,
    samples_by_thread: &BTreeMap<ProfileThread, Vec<&TimedSample>>,
) -> Vec<Value> {
    let mut tracks: BTreeMap<(usize, u32, u32), Vec<&TimedSample>> = BTreeMap::new();
    for timed_sample in profile
        .timed_samples
        .iter()
        .filter(|timed_sample| timed_sample.event != event)
        // Tracks add up their numbers, which makes no sense for levels.
        .filter(|timed_sample| !profile.recording.events[timed_sample.event].is_level())
    {
        let thread = timed_sample.thread;
        let process = (
            timed_sample.event,
            thread.task.pid,
            thread.earlier_processes,
        );
        let track = tracks.entry(process).or_default();
        track.push(timed_sample);
    }
    let counter = |((event, pid, earlier_processes), timed_samples): (
        (usize, u32, u32),
        Vec<&TimedSample>,
    )| {
        let name = profile.event_with_unit(event);
        let (_, convert) = profile.unit(event);
        let is_of_process = |thread: &ProfileThread| {
            thread.task.pid == pid && thread.earlier_processes == earlier_processes
        };
        let main_thread = samples_by_thread.keys().position(is_of_process);
        json!({
            "name": name,
            "category": "events",
            "description": format!("{name} since the sample before"),
            "pid": timed_samples[0].thread.unique_pid(),
            "mainThreadIndex": main_thread.unwrap_or(0),
            "samples": {
                "length": timed_samples.len(),
                "timeDeltas": time_deltas_ms(timed_samples.iter().map(|timed_sample| timed_sample.time)),
                "count": timed_samples.iter().map(|timed_sample| convert(timed_sample.period)).collect::<Vec<_>>(),
                "number": vec![0; timed_samples.len()],
            },
        })
    };
    tracks.into_iter().map(counter).collect()
}

/// Returns a table of `length` rows as its columns.
fn columns_table<const N: usize>(length: usize, columns: [(&str, Value); N]) -> Value {
    let mut map = Map::new();
    map.insert("length".to_owned(), length.into());
    map.extend(columns.map(|(name, column)| (name.to_owned(), column)));
    map.into()
}

/// Returns a column with the same value in every row.
fn repeated_column(length: usize, value: &Value) -> Value {
    vec![value.clone(); length].into()
}

/// The tables of a thread. In this format each thread has tables of its own.
struct Tables<'a> {
    profile: &'a Profile<'a>,
    texts: Interner<String>,
    objects: Interner<usize>,
    functions: Interner<usize>,
    places: Interner<usize>,
    stacks: Interner<(Option<usize>, usize)>,
    /// The number of each stack in these tables, by the stack's number in the profile.
    stack_numbers: AHashMap<usize, usize>,
}

impl<'a> Tables<'a> {
    fn new(profile: &'a Profile<'a>) -> Self {
        Self {
            profile,
            texts: Interner::default(),
            objects: Interner::default(),
            functions: Interner::default(),
            places: Interner::default(),
            stacks: Interner::default(),
            stack_numbers: AHashMap::new(),
        }
    }

    /// Returns the index in these tables of stack `number` of the profile, and adds the stack if it is new.
    fn stack_number(&mut self, number: usize) -> usize {
        // This is a loop and not a recursion, since a stack may have too many callers.
        let mut new_stacks = Vec::new();
        let (mut next, mut own_number) = (Some(number), None);
        while let Some(stack) = next {
            own_number = self.stack_numbers.get(&stack).copied();
            if own_number.is_some() {
                break;
            }
            new_stacks.push(stack);
            next = self.profile.stacks.values[stack].0;
        }
        // The callers come first.
        for stack in new_stacks.into_iter().rev() {
            let place = self.places.intern(self.profile.stacks.values[stack].1);
            let new_number = self.stacks.intern((own_number, place));
            self.stack_numbers.insert(stack, new_number);
            own_number = Some(new_number);
        }
        own_number.unwrap_or_default()
    }

    /// Returns a thread with its samples and tables.
    fn json(
        mut self,
        thread: ProfileThread,
        timed_samples: &[&TimedSample],
        to_weight: Option<fn(u64) -> u64>,
    ) -> Value {
        let stacks: Vec<usize> = timed_samples
            .iter()
            .map(|timed_sample| self.stack_number(timed_sample.stack))
            .collect();
        let weights: Option<Vec<u64>> = to_weight.map(|to_weight| {
            timed_samples
                .iter()
                .map(|timed_sample| to_weight(timed_sample.period))
                .collect()
        });
        let samples = columns_table(
            timed_samples.len(),
            [
                ("stack", stacks.into()),
                (
                    "timeDeltas",
                    time_deltas_ms(timed_samples.iter().map(|timed_sample| timed_sample.time))
                        .into(),
                ),
                ("weight", weights.into()),
                ("weightType", "samples".into()),
            ],
        );
        let frames = self.frames();
        let functions = self.functions();
        let resources = self.resources();
        let (parents, places): (Vec<Option<usize>>, Vec<usize>) =
            self.stacks.values.iter().copied().unzip();
        let empty = Vec::<usize>::new;
        let start = timed_samples
            .first()
            .map_or(0, |timed_sample| timed_sample.time);
        json!({
            "name": self.profile.threads[&thread],
            "processName": self.profile.process_name(thread),
            "processType": "default",
            "isMainThread": thread.task.pid == thread.task.tid,
            "pid": thread.unique_pid(),
            "tid": thread.unique_tid(),
            "processStartupTime": 0,
            "processShutdownTime": null,
            "registerTime": to_milliseconds(start),
            "unregisterTime": null,
            "pausedRanges": [],
            "showMarkersInTimeline": false,
            "samples": samples,
            "stackTable": columns_table(places.len(), [("prefix", parents.into()), ("frame", places.into())]),
            "frameTable": frames,
            "funcTable": functions,
            "resourceTable": resources,
            "nativeSymbols": columns_table(0, ["address", "functionSize", "libIndex", "name"].map(|name| (name, empty().into()))),
            "markers": columns_table(0, ["category", "data", "endTime", "name", "phase", "startTime"].map(|name| (name, empty().into()))),
            "stringArray": self.texts.values,
        })
    }

    /// Returns the table of places, and gives numbers to their functions.
    fn frames(&mut self) -> Value {
        let places = self.places.values.iter();
        let places: Vec<_> = places
            .map(|place| self.profile.places.values[*place])
            .collect();
        let length = places.len();
        let category = |place: &super::profile::CodeLocation| {
            let function = &self.profile.functions.values[place.function];
            if function.in_kernel {
                KERNEL_CATEGORY
            } else {
                USER_CATEGORY
            }
        };
        let categories: Vec<usize> = places.iter().map(category).collect();
        let functions: Vec<usize> = places
            .iter()
            .map(|place| self.functions.intern(place.function))
            .collect();
        let lines = places
            .iter()
            .map(|place| Some(place.line).filter(|line| *line > 0));
        let depths = places.iter().map(|place| place.depth);
        columns_table(
            length,
            [
                ("address", repeated_column(length, &(-1).into())),
                ("inlineDepth", depths.collect::<Vec<_>>().into()),
                ("category", categories.into()),
                ("subcategory", repeated_column(length, &0.into())),
                ("func", functions.into()),
                ("nativeSymbol", repeated_column(length, &Value::Null)),
                ("innerWindowID", repeated_column(length, &0.into())),
                ("line", lines.collect::<Vec<_>>().into()),
                ("column", repeated_column(length, &Value::Null)),
            ],
        )
    }

    /// Returns the table of functions, and gives numbers to their names, sources, programs and libraries.
    fn functions(&mut self) -> Value {
        let functions = self.functions.values.iter();
        let functions: Vec<_> = functions
            .map(|function| &self.profile.functions.values[*function])
            .collect();
        let length = functions.len();
        let (mut names, mut resources, mut sources) = (Vec::new(), Vec::new(), Vec::new());
        for function in functions {
            names.push(self.texts.intern(function.name.clone()));
            resources.push(self.objects.intern(function.object));
            let source = function.source.clone();
            sources.push(source.map(|source| self.texts.intern(source)));
        }
        columns_table(
            length,
            [
                ("name", names.into()),
                ("isJS", repeated_column(length, &false.into())),
                ("relevantForJS", repeated_column(length, &false.into())),
                ("resource", resources.into()),
                ("fileName", sources.into()),
                ("lineNumber", repeated_column(length, &Value::Null)),
                ("columnNumber", repeated_column(length, &Value::Null)),
            ],
        )
    }

    /// Returns the table of programs and libraries, and gives numbers to their names.
    fn resources(&mut self) -> Value {
        const LIBRARY: u32 = 1;
        let length = self.objects.values.len();
        let objects = self.objects.values.iter();
        let names: Vec<usize> = objects
            .map(|object| {
                let path = &self.profile.objects.values[*object];
                let name = path.rsplit('/').next().unwrap_or(path);
                self.texts.intern(name.to_owned())
            })
            .collect();
        columns_table(
            length,
            [
                ("lib", self.objects.values.clone().into()),
                ("name", names.into()),
                ("host", repeated_column(length, &Value::Null)),
                ("type", repeated_column(length, &LIBRARY.into())),
            ],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::perfdata::example::example;
    use crate::recording::perfdata::{Body, Record, Records, Task};

    /// Exports a recording of two threads, each with one sample of one of these periods. Returns the weights of each
    /// thread's samples.
    fn weights(periods: [u64; 2]) -> Vec<Value> {
        let mut recording = example(false);
        let first_sample = recording
            .records
            .iter()
            .flatten()
            .find(|record| matches!(&record.body, Body::Sample(sample) if sample.event == 0));
        let mut records = Vec::new();
        for (tid, period) in (1..).zip(periods) {
            let mut record: Record = first_sample.clone().expect("it has one");
            record.stamp.task = Task { pid: 1, tid };
            if let Body::Sample(sample) = &mut record.body {
                sample.period = period;
            }
            records.push(record);
        }
        recording.records = Records::from(&records[..]);
        let profile = Profile::new(&recording, None).expect("it is whole");
        let mut bytes = Vec::new();
        write(&profile, 0, &mut bytes).expect("a vector takes everything");
        let file: Value = serde_json::from_slice(&bytes).expect("it is JSON");
        let threads = file["threads"].as_array().expect("a list").iter();
        threads
            .map(|thread| thread["samples"]["weight"].clone())
            .collect()
    }

    #[test]
    fn stacks_may_be_very_deep() {
        const DEPTH: usize = 200_000;
        let recording = example(false);
        let mut profile = Profile::new(&recording, None).expect("it is whole");
        let mut caller = None;
        for _ in 0..DEPTH {
            caller = Some(profile.stacks.intern((caller, 0)));
        }
        let innermost = caller.expect("it has callers");
        let mut tables = Tables::new(&profile);
        assert_eq!(tables.stack_number(innermost), DEPTH - 1);
        assert_eq!(tables.stack_number(innermost), DEPTH - 1);
        assert_eq!(tables.stacks.values[DEPTH - 1], (Some(DEPTH - 2), 0));
    }

    #[test]
    fn all_threads_have_weights_or_none() {
        assert_eq!(weights([7, 3]), [json!([7]), json!([3])]);
        assert_eq!(weights([7, 7]), [Value::Null, Value::Null]);
    }
}
