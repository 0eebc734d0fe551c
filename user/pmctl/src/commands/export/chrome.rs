// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chrome's trace format, which Perfetto shows, too: functions are slices, from a sample to the next one of the
//! thread, and counts of other events are tracks.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};

use super::profile::{Profile, ProfileThread, TimedSample};

/// Writes the stacks of an event and the counts of the others.
pub(super) fn write(profile: &Profile<'_>, event: usize, output: impl Write) -> io::Result<()> {
    let mut list = List::new(output)?;
    for (thread, name) in &profile.threads {
        let mut named = |what: &str, name: &str| {
            list.push(&json!({
                "ph": "M", "name": what, "pid": unique_id(*thread, thread.task.pid),
                "tid": unique_id(*thread, thread.task.tid), "args": { "name": name },
            }))
        };
        named("process_name", profile.process(*thread))?;
        named("thread_name", name)?;
    }
    let mut threads: BTreeMap<ProfileThread, Vec<&TimedSample>> = BTreeMap::new();
    for shot in &profile.shots {
        if shot.event == event {
            threads.entry(shot.thread).or_default().push(shot);
        } else {
            list.push(&json!({
                "ph": "C", "name": profile.event(shot.event), "pid": unique_id(shot.thread, shot.thread.task.pid),
                // Perfetto takes no notice of a number here.
                "id": shot.thread.thread(),
                "ts": microseconds(shot.time), "args": { "count": shot.period },
            }))?;
        }
    }
    for (thread, shots) in &threads {
        let mut slices = Slices {
            profile,
            thread: *thread,
            all: Vec::new(),
            open: Vec::new(),
        };
        let usual = usual_interval(shots);
        for (index, shot) in shots.iter().enumerate() {
            slices.show(shot);
            // Where samples are far apart the thread slept, or the event did not happen.
            let next = shots.get(index + 1).map_or(u64::MAX, |next| next.time);
            if next.saturating_sub(shot.time) > MAX_GAP_INTERVALS * usual {
                slices.close(0, shot.time + usual);
            }
        }
        slices.write(&mut list)?;
    }
    let notes = &profile.recording.notes.scope;
    let event = profile.event(event);
    list.end(&json!({ "recorded": notes, "event": event, "by": "pmctl" }))
}

/// A time without samples, in usual intervals, after which a function is taken to have ended.
const MAX_GAP_INTERVALS: u64 = 4;

/// Returns the median time between two samples.
fn usual_interval(shots: &[&TimedSample]) -> u64 {
    const LONE_SAMPLE_INTERVAL: u64 = 1_000_000;
    let pairs = shots.windows(2);
    let mut times: Vec<u64> = pairs.map(|pair| pair[1].time - pair[0].time).collect();
    times.sort_unstable();
    times
        .get(times.len() / 2)
        .copied()
        .unwrap_or(LONE_SAMPLE_INTERVAL)
        .max(1)
}

/// Returns the number of a thread or its process, which in this format is a number: one that no process can have for each
/// further process that has it.
fn unique_id(thread: ProfileThread, number: u32) -> u64 {
    /// `PID_MAX_LIMIT` of the kernel.
    const PID_MAX_LIMIT: u64 = 1 << 22;
    u64::from(number) + u64::from(thread.before) * PID_MAX_LIMIT
}

fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1000.0
}

/// The slices of a thread in the order of their beginnings, the caller first of those that begin together: viewers nest
/// such slices in the order of the file.
struct Slices<'a> {
    profile: &'a Profile<'a>,
    thread: ProfileThread,
    all: Vec<Slice>,
    /// Indexes in `all` of the slices that have not ended, the outermost caller first.
    open: Vec<usize>,
}

struct Slice {
    function: usize,
    place: usize,
    start: u64,
    end: u64,
}

impl Slices<'_> {
    /// Ends the functions that are not in the stack of a sample, and begins those that are new.
    fn show(&mut self, shot: &TimedSample) {
        let mut places: Vec<usize> = self.profile.stack(shot.stack).collect();
        places.reverse();
        let function = |place: usize| self.profile.places.things[place].function;
        let pairs = self.open.iter().zip(&places);
        let same = pairs
            .take_while(|(open, place)| self.all[**open].function == function(**place))
            .count();
        self.close(same, shot.time);
        for place in &places[same..] {
            self.open.push(self.all.len());
            self.all.push(Slice {
                function: self.profile.places.things[*place].function,
                place: *place,
                start: shot.time,
                end: shot.time,
            });
        }
    }

    /// Ends all functions but the outermost `stay`.
    fn close(&mut self, stay: usize, time: u64) {
        for open in self.open.drain(stay..) {
            self.all[open].end = time;
        }
    }

    fn write<W: Write>(&self, list: &mut List<W>) -> io::Result<()> {
        for slice in &self.all {
            let function = &self.profile.functions.things[slice.function];
            let place = &self.profile.places.things[slice.place];
            let mut args = json!({ "object": self.profile.objects.things[function.object] });
            if let Some(source) = &function.source {
                args["source"] = format!("{source}:{}", place.line).into();
            }
            list.push(&json!({
                "ph": "X", "cat": if function.in_kernel { "kernel" } else { "user" }, "name": function.name,
                "pid": unique_id(self.thread, self.thread.task.pid),
                "tid": unique_id(self.thread, self.thread.task.tid), "ts": microseconds(slice.start),
                "dur": microseconds(slice.end - slice.start), "args": args,
            }))?;
        }
        Ok(())
    }
}

/// A list of JSON that is written as it grows.
struct List<W> {
    output: W,
    is_empty: bool,
}

impl<W: Write> List<W> {
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
