// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts a recording to numbered tables, which all formats need.

use std::collections::BTreeMap;
use std::hash::Hash;

use ahash::AHashMap;
use anyhow::Result;

use crate::commands::flamegraph::frame_label;
use crate::events::values::unit_in_viewers;
use crate::recording::perfdata::{Recording, Task, is_kernel_address};
use crate::recording::profile::{self, Frame, NamedSample, SampleNames, SourceLines};
use crate::system::screen::Colors;

/// Distinct values, numbered from 0 on.
#[derive(Debug)]
pub(super) struct Interner<T> {
    pub(super) values: Vec<T>,
    numbers: AHashMap<T, usize>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            numbers: AHashMap::new(),
        }
    }
}

impl<T: Clone + Eq + Hash> Interner<T> {
    /// Returns the number of a value. A new value gets the next number.
    pub(super) fn intern(&mut self, value: T) -> usize {
        if let Some(number) = self.numbers.get(&value) {
            return *number;
        }
        let number = self.values.len();
        self.values.push(value.clone());
        self.numbers.insert(value, number);
        number
    }
}

/// A function of a program or library.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Function {
    pub(super) name: String,
    /// The number of the program or library in [`Profile::objects`].
    pub(super) object: usize,
    /// The path of the source file.
    pub(super) source: Option<String>,
    pub(super) in_kernel: bool,
}

/// A code location in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct CodeLocation {
    /// The number of the function in [`Profile::functions`].
    pub(super) function: usize,
    /// Offset in the program or library; for code in no file, the address.
    pub(super) address: u64,
    /// Line in the function's source file; 0 if it is not known.
    pub(super) line: u32,
    /// Number of functions at the same address into which this function is inlined, directly or
    /// not.
    pub(super) depth: u32,
}

/// A thread. Earlier threads and processes may have had the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ProfileThread {
    pub(super) task: Task,
    /// Number of earlier processes with samples that had the same process number.
    pub(super) earlier_processes: u32,
}

impl ProfileThread {
    /// Returns a unique name of the process: its number, with a suffix for all but the first process of that number.
    pub(super) fn unique_pid(self) -> String {
        self.unique_name(self.task.pid)
    }

    /// Returns a unique name of the thread: its number, with the same suffix as in the name of its process.
    pub(super) fn unique_tid(self) -> String {
        self.unique_name(self.task.tid)
    }

    fn unique_name(self, number: u32) -> String {
        match self.earlier_processes {
            0 => number.to_string(),
            earlier => format!("{number}.{earlier}"),
        }
    }
}

/// A sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimedSample {
    /// The time in nanoseconds since the first sample.
    pub(super) time: u64,
    pub(super) thread: ProfileThread,
    /// The index of the event.
    pub(super) event: usize,
    pub(super) period: u64,
    /// The number of the stack in [`Profile::stacks`].
    pub(super) stack: usize,
}

/// A recording in tables.
pub(super) struct Profile<'a> {
    pub(super) recording: &'a Recording,
    /// Paths of programs and libraries.
    pub(super) objects: Interner<String>,
    pub(super) functions: Interner<Function>,
    pub(super) places: Interner<CodeLocation>,
    /// The stacks. Each is a pair: the number of its caller's stack, if there is one, and the number of its innermost
    /// place. A caller's stack has a smaller number than the stacks of its callees.
    pub(super) stacks: Interner<(Option<usize>, usize)>,
    pub(super) timed_samples: Vec<TimedSample>,
    /// The last name of each thread with samples.
    pub(super) threads: BTreeMap<ProfileThread, String>,
    /// For each process number, the values of [`SampleNames::pid_reuse_count`] for its processes with samples, in the
    /// order of these processes.
    pid_reuse_counts: AHashMap<u32, Vec<u32>>,
}

impl<'a> Profile<'a> {
    /// Reads a recording. With `source_lines`, source lines and inlined functions are looked up.
    pub(super) fn new(
        recording: &'a Recording,
        source_lines: Option<&SourceLines<'_>>,
    ) -> Result<Self> {
        let mut profile = Self {
            recording,
            objects: Interner::default(),
            functions: Interner::default(),
            places: Interner::default(),
            stacks: Interner::default(),
            timed_samples: Vec::new(),
            threads: BTreeMap::new(),
            pid_reuse_counts: AHashMap::new(),
        };
        let mut start = None;
        let cut_chains = profile::each_sample(recording, |named, names| {
            let start = *start.get_or_insert(named.stamp.time);
            profile.add_sample(named, names, source_lines, start);
            Ok(())
        })?;
        cut_chains.write(Colors::new(true), &mut anstream::stderr())?;
        Ok(profile)
    }

    /// Adds a sample. `start` is the time of the first sample.
    fn add_sample(
        &mut self,
        named: &NamedSample<'_>,
        names: &SampleNames<'_>,
        source_lines: Option<&SourceLines<'_>>,
        start: u64,
    ) {
        let frames = names.stack(named, source_lines);
        let mut stack = None;
        let mut depth = 0;
        for frame in frames.iter().rev() {
            depth = if frame.inlined.is_some() {
                depth + 1
            } else {
                0
            };
            let place = self.place_number(frame, depth);
            stack = Some(self.stacks.intern((stack, place)));
        }
        let task = named.stamp.task;
        let comm = names.comm(task);
        let thread = self.thread(task, names);
        let last_name = self.threads.entry(thread).or_default();
        if last_name != comm {
            comm.clone_into(last_name);
        }
        if let Some(stack) = stack {
            self.timed_samples.push(TimedSample {
                time: named.stamp.time.saturating_sub(start),
                thread,
                event: named.sample.event,
                period: named.sample.period,
                stack,
            });
        }
    }

    /// Returns the thread of a sample, with the number of earlier processes that had its process number.
    fn thread(&mut self, task: Task, names: &SampleNames<'_>) -> ProfileThread {
        let count = names.pid_reuse_count(task.pid);
        let counts = self.pid_reuse_counts.entry(task.pid).or_default();
        let index = counts.iter().position(|known| *known == count);
        let index = index.unwrap_or_else(|| {
            counts.push(count);
            counts.len() - 1
        });
        ProfileThread {
            task,
            earlier_processes: u32::try_from(index).unwrap_or(u32::MAX),
        }
    }

    /// Returns the number of a frame's place.
    fn place_number(&mut self, frame: &Frame<'_>, depth: u32) -> usize {
        let source = frame.source.as_ref();
        let name = match &frame.inlined {
            Some(name) => name.text.to_string(),
            None => frame_label(frame),
        };
        let object = self.objects.intern(frame.site.path().into_owned());
        let function = self.functions.intern(Function {
            name,
            object,
            source: source.map(|source| source.path.text.to_string()),
            in_kernel: is_kernel_address(frame.address),
        });
        let address = match frame.site.file_number() {
            Some(_) => frame.site.file_offset(),
            None => frame.address,
        };
        self.places.intern(CodeLocation {
            function,
            address: address.saturating_sub(u64::from(frame.is_return)),
            line: source.map_or(0, |source| source.number),
            depth,
        })
    }

    /// Returns the numbers of a stack's places, the innermost first.
    pub(super) fn places_of_stack(&self, stack: usize) -> impl Iterator<Item = usize> + '_ {
        let mut next = Some(stack);
        std::iter::from_fn(move || {
            let (parent, place) = self.stacks.values[next?];
            next = parent;
            Some(place)
        })
    }

    /// Returns the name of an event.
    pub(super) fn event_name(&self, event: usize) -> &str {
        &self.recording.events[event].name
    }

    /// Returns the name of an event, with the unit of its numbers unless they are counts.
    pub(super) fn event_with_unit(&self, event: usize) -> String {
        let name = self.event_name(event);
        match self.unit(event).0 {
            "count" => name.to_owned(),
            unit => format!("{name} ({unit})"),
        }
    }

    /// Returns the unit of an event's numbers in the exported file, and a function that converts a number of the
    /// recording to that unit.
    pub(super) fn unit(&self, event: usize) -> (&'static str, fn(u64) -> u64) {
        unit_in_viewers(self.recording.events[event].attr.unit())
    }

    /// Returns the samples of an event.
    pub(super) fn samples_of_event(&self, event: usize) -> impl Iterator<Item = &TimedSample> + '_ {
        self.timed_samples
            .iter()
            .filter(move |timed_sample| timed_sample.event == event)
    }

    /// Returns the name of a thread's process, which is the name of the process's first thread.
    pub(super) fn process_name(&self, thread: ProfileThread) -> &str {
        let pid = thread.task.pid;
        let task = Task::leader(pid);
        let leader = self.threads.get(&ProfileThread { task, ..thread });
        let mut other_threads = self.threads.iter();
        let other = || {
            let is_same_process = |other: &ProfileThread| {
                other.task.pid == pid && other.earlier_processes == thread.earlier_processes
            };
            other_threads
                .find(|(other, _)| is_same_process(other))
                .map(|(_, name)| name)
        };
        leader.or_else(other).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::export::{chrome, firefox, speedscope};
    use crate::recording::perfdata::example::example;
    use crate::recording::perfdata::{Body, Record, Records, Sample, Stamp};

    /// Returns a recording in which two processes have the same number, one after the other.
    fn with_reused_number() -> Recording {
        let (parent, task) = (Task::leader(1), Task::leader(7));
        let name = |name: &str| Body::Comm {
            task,
            name: name.to_owned(),
            exec: true,
        };
        let sample = Body::Sample(Sample {
            ip: 0x1000,
            ..Sample::default()
        });
        let fork = Body::Fork {
            child: task,
            parent,
        };
        let bodies = [name("first"), sample.clone(), fork, name("second"), sample];
        let record = |(time, body)| Record {
            stamp: Stamp { time, task, cpu: 0 },
            body,
        };
        let records: Vec<Record> = (0..).zip(bodies).map(record).collect();
        Recording {
            records: Records::from(&records[..]),
            ..example(false)
        }
    }

    #[test]
    fn processes_with_the_same_number_have_tracks_of_their_own() {
        let recording = with_reused_number();
        let profile = Profile::new(&recording, None).expect("it is whole");
        let threads = profile.threads.iter();
        let threads: Vec<_> = threads
            .map(|(thread, name)| {
                (
                    thread.unique_pid(),
                    profile.process_name(*thread),
                    &name[..],
                )
            })
            .collect();
        let expected = ["7", "7.1"].into_iter().zip(["first", "second"]);
        let expected: Vec<_> = expected
            .map(|(number, name)| (number.to_owned(), name, name))
            .collect();
        assert_eq!(threads, expected);
        let text = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = Vec::new();
            write(&mut bytes);
            String::from_utf8(bytes).expect("it is text")
        };
        let firefox = text(&|bytes| firefox::write(&profile, 0, bytes).expect("all is taken"));
        assert!(firefox.contains(r#""pid":"7.1""#), "{firefox}");
        let chrome = text(&|bytes| chrome::write(&profile, 0, bytes).expect("all is taken"));
        assert!(chrome.contains(r#""pid":4194311"#), "{chrome}");
        let speedscope = text(&|bytes| speedscope::write(&profile, &[0], bytes).expect("all"));
        assert!(speedscope.contains("second 7.1 ("), "{speedscope}");
    }
}
