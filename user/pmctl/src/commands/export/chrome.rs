// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes Chrome's trace format, which Perfetto reads, too. Functions are slices from one sample of a thread to the next,
//! and counts of other events are tracks.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};

use super::profile::{Profile, ProfileThread, TimedSample};
use crate::events::values::signed;

/// Writes the stacks of one event and the counts of the other events.
pub(super) fn write(profile: &Profile<'_>, event: usize, output: impl Write) -> io::Result<()> {
    let mut array = JsonArray::new(output)?;
    for (thread, name) in &profile.threads {
        let mut add_name = |kind: &str, name: &str| {
            array.push(&json!({
                "ph": "M", "name": kind, "pid": unique_id(*thread, thread.task.pid),
                "tid": unique_id(*thread, thread.task.tid), "args": { "name": name },
            }))
        };
        add_name("process_name", profile.process_name(*thread))?;
        add_name("thread_name", name)?;
    }
    let mut threads: BTreeMap<ProfileThread, Vec<&TimedSample>> = BTreeMap::new();
    for timed_sample in &profile.timed_samples {
        if timed_sample.event == event {
            threads
                .entry(timed_sample.thread)
                .or_default()
                .push(timed_sample);
        } else {
            let value: Value = if profile.recording.events[timed_sample.event].is_level() {
                signed(timed_sample.period).into()
            } else {
                profile.unit(timed_sample.event).1(timed_sample.period).into()
            };
            array.push(&json!({
                "ph": "C", "name": profile.event_with_unit(timed_sample.event), "pid": unique_id(timed_sample.thread, timed_sample.thread.task.pid),
                // The number is written as text, since Perfetto ignores a number here.
                "id": timed_sample.thread.unique_tid(),
                "ts": to_microseconds(timed_sample.time), "args": { "count": value },
            }))?;
        }
    }
    for (thread, timed_samples) in &threads {
        let mut slices = Slices {
            profile,
            thread: *thread,
            all: Vec::new(),
            open: Vec::new(),
        };
        let median = median_interval(timed_samples);
        for (index, timed_sample) in timed_samples.iter().enumerate() {
            slices.add_sample(timed_sample);
            // If samples are far apart, the thread slept or the event did not happen in between.
            let next = timed_samples
                .get(index + 1)
                .map_or(u64::MAX, |next| next.time);
            if next.saturating_sub(timed_sample.time) > median.saturating_mul(MAX_GAP_INTERVALS) {
                slices.close(0, timed_sample.time + median);
            }
        }
        slices.write(&mut array)?;
    }
    let scope = &profile.recording.notes.scope;
    let event = profile.event_name(event);
    array.end(&json!({ "recorded": scope, "event": event, "by": "pmctl" }))
}

/// Number of median intervals without a sample after which functions are assumed to have ended.
const MAX_GAP_INTERVALS: u64 = 4;

/// Returns the median time between two samples of a thread in nanoseconds, at least 1.
fn median_interval(timed_samples: &[&TimedSample]) -> u64 {
    /// The interval in nanoseconds of a thread with a single sample.
    const LONE_SAMPLE_INTERVAL: u64 = 1_000_000;
    let pairs = timed_samples.windows(2);
    let mut times: Vec<u64> = pairs.map(|pair| pair[1].time - pair[0].time).collect();
    times.sort_unstable();
    times
        .get(times.len() / 2)
        .copied()
        .unwrap_or(LONE_SAMPLE_INTERVAL)
        .max(1)
}

/// Returns a unique number for a thread or its process. Processes that had the same number at different times must differ
/// in this format, so all but the first get numbers that no process can have.
fn unique_id(thread: ProfileThread, number: u32) -> u64 {
    /// `PID_MAX_LIMIT` of the kernel.
    const PID_MAX_LIMIT: u64 = 1 << 22;
    u64::from(number) + u64::from(thread.earlier_processes) * PID_MAX_LIMIT
}

fn to_microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1000.0
}

/// The slices of a thread in the order of their start. If slices have the same start, the caller comes first, since viewers
/// nest such slices in the order of the file.
struct Slices<'a> {
    profile: &'a Profile<'a>,
    thread: ProfileThread,
    all: Vec<Slice>,
    /// Indices in `all` of the slices that have not ended, the outermost caller first.
    open: Vec<usize>,
}

/// The time in which a function was on a thread's stack, by the samples.
struct Slice {
    /// The number of the function.
    function: usize,
    /// The number of the place in the function that the first sample shows.
    place: usize,
    /// The time of the first sample in nanoseconds.
    start: u64,
    /// The time of the end in nanoseconds.
    end: u64,
}

impl Slices<'_> {
    /// Ends the slices of functions that are not in the stack of a sample, and begins slices for new ones.
    fn add_sample(&mut self, timed_sample: &TimedSample) {
        let mut places: Vec<usize> = self.profile.places_of_stack(timed_sample.stack).collect();
        places.reverse();
        let function = |place: usize| self.profile.places.values[place].function;
        let pairs = self.open.iter().zip(&places);
        let common = pairs
            .take_while(|(open, place)| self.all[**open].function == function(**place))
            .count();
        self.close(common, timed_sample.time);
        for place in &places[common..] {
            self.open.push(self.all.len());
            self.all.push(Slice {
                function: self.profile.places.values[*place].function,
                place: *place,
                start: timed_sample.time,
                end: timed_sample.time,
            });
        }
    }

    /// Ends all open slices at `time`, except the first `kept` slices, which are those of the
    /// outermost callers.
    fn close(&mut self, kept: usize, time: u64) {
        for open in self.open.drain(kept..) {
            self.all[open].end = time;
        }
    }

    fn write<W: Write>(&self, array: &mut JsonArray<W>) -> io::Result<()> {
        for slice in &self.all {
            let function = &self.profile.functions.values[slice.function];
            let place = &self.profile.places.values[slice.place];
            let mut args = json!({ "object": self.profile.objects.values[function.object] });
            if let Some(source) = &function.source {
                args["source"] = format!("{source}:{}", place.line).into();
            }
            array.push(&json!({
                "ph": "X", "cat": if function.in_kernel { "kernel" } else { "user" }, "name": function.name,
                "pid": unique_id(self.thread, self.thread.task.pid),
                "tid": unique_id(self.thread, self.thread.task.tid), "ts": to_microseconds(slice.start),
                "dur": to_microseconds(slice.end - slice.start), "args": args,
            }))?;
        }
        Ok(())
    }
}

/// A JSON array that is written value by value.
struct JsonArray<W> {
    output: W,
    is_empty: bool,
}

impl<W: Write> JsonArray<W> {
    fn new(mut output: W) -> io::Result<Self> {
        output.write_all(b"{\"traceEvents\":[")?;
        Ok(Self {
            output,
            is_empty: true,
        })
    }

    fn push(&mut self, value: &Value) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.output.write_all(b",\n")?;
        }
        Ok(serde_json::to_writer(&mut self.output, value)?)
    }

    fn end(mut self, metadata: &Value) -> io::Result<()> {
        writeln!(
            self.output,
            "],\n\"displayTimeUnit\":\"ms\",\"otherData\":{metadata}}}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::perfdata::example::{example, value_attr};
    use crate::recording::perfdata::{Body, Record, Records};

    /// Exports a recording of a value whose samples are `number`, and returns the name of the value's track and the
    /// number in it.
    fn track(value: &str, number: u64) -> (Value, Value) {
        let mut recording = example(false);
        value.clone_into(&mut recording.events[0].name);
        recording.events[0].attr = value_attr(value);
        let mut records: Vec<Record> = recording.records.iter().flatten().collect();
        for record in &mut records {
            if let Body::Sample(sample) = &mut record.body {
                sample.period = number;
            }
        }
        recording.records = Records::from(&records[..]);
        let profile = Profile::new(&recording, None).expect("it is whole");
        let mut bytes = Vec::new();
        write(&profile, 1, &mut bytes).expect("a vector takes everything");
        let file: Value = serde_json::from_slice(&bytes).expect("it is JSON");
        let mut events = file["traceEvents"].as_array().expect("a list").iter();
        let event = events.find(|event| event["ph"] == "C").expect("a track");
        (event["name"].clone(), event["args"]["count"].clone())
    }

    #[test]
    fn samples_may_be_any_time_apart() {
        let mut recording = example(false);
        let mut records: Vec<Record> = recording.records.iter().flatten().collect();
        let sample = records
            .iter()
            .find(|record| matches!(record.body, Body::Sample(_)));
        let mut late = sample.expect("it has some").clone();
        late.stamp.time = 1 << 63;
        records.push(late);
        recording.records = Records::from(&records[..]);
        let profile = Profile::new(&recording, None).expect("it is whole");
        let mut bytes = Vec::new();
        write(&profile, 0, &mut bytes).expect("a vector takes everything");
        assert!(serde_json::from_slice::<Value>(&bytes).is_ok());
    }

    #[test]
    fn values_have_their_units() {
        let energy = track("energy-pkg", 1 << 31);
        assert_eq!(
            energy,
            ("energy-pkg (nanojoules)".into(), 500_000_000.into())
        );
        let level = track("temperature", 5_u64.wrapping_neg());
        assert_eq!(level, ("temperature (°C)".into(), (-5).into()));
    }
}
