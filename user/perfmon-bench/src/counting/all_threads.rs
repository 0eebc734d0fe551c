// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of all threads of the process, and of the threads and processes that they create.

use std::fs;

use perfmon::event::{Builder, Reading};
use perfmon::{Error, Event};

/// The largest number of attempts to open events for all threads while no thread is created or ends.
const MAX_ATTEMPTS: usize = 100;

/// Reads events of all threads around a function.
#[derive(Debug)]
pub(crate) struct AllThreads {
    /// For each event, a descriptor for each thread of the process when the events were opened. A
    /// descriptor also counts the threads and processes that its thread creates.
    events: Vec<Vec<Event>>,
    /// The reading of each descriptor at the beginning of a pass.
    before: Vec<Vec<Reading>>,
    /// The reading of each descriptor at the end of a pass.
    after: Vec<Vec<Reading>>,
}

impl AllThreads {
    /// Opens events for each thread of the process.
    ///
    /// # Panics
    /// If the threads are unknown.
    pub(crate) fn open(events: &[Builder]) -> Result<Self, Error> {
        for _ in 0..MAX_ATTEMPTS {
            let threads = threads();
            let of_thread = |event: &Builder, thread| event.clone().pid(thread).inherit().open();
            let of_threads = |event| {
                threads
                    .iter()
                    .map(|thread| of_thread(event, *thread))
                    .collect()
            };
            let opened: Result<Vec<Vec<_>>, _> = events.iter().map(of_threads).collect();
            // A thread that was created meanwhile is counted only if the events of its creator were
            // open by then, which is unknown. So the events are used only if the process still has
            // the same threads.
            if threads == self::threads() {
                let events = opened?;
                // Each `Vec` is created anew, since a clone of an empty `Vec` has no capacity, and
                // the first pass would allocate.
                let no_readings = || -> Vec<Vec<Reading>> {
                    let of_event = |_| Vec::with_capacity(threads.len());
                    events.iter().map(of_event).collect()
                };
                return Ok(Self {
                    before: no_readings(),
                    after: no_readings(),
                    events,
                });
            }
        }
        panic!("threads are created and end too fast to count them all");
    }

    /// Calls `work` once, and returns the count of each event. Fails if an event was not counted all the time.
    ///
    /// Neither generic nor inlined, for the reason of `ThisThread::count`.
    #[inline(never)]
    pub(crate) fn count(&mut self, work: &mut dyn FnMut()) -> Result<Vec<u64>, Error> {
        read_all(&self.events, &mut self.before)?;
        work();
        read_all(&self.events, &mut self.after)?;
        let readings = self.before.iter().zip(&self.after);
        let events = self.events.iter().zip(readings);
        events
            .map(|(threads, (before, after))| {
                let passes = threads.iter().zip(before.iter().zip(after));
                passes
                    .map(|(event, (before, after))| event.count_between(before, after))
                    .sum()
            })
            .collect()
    }
}

/// Reads all events of all threads.
fn read_all(events: &[Vec<Event>], readings: &mut [Vec<Reading>]) -> Result<(), Error> {
    for (threads, readings) in events.iter().zip(readings) {
        readings.clear();
        for event in threads {
            readings.push(event.read_with_times()?);
        }
    }
    Ok(())
}

/// Returns the IDs of the process's threads.
fn threads() -> Vec<u32> {
    let entries = fs::read_dir("/proc/self/task");
    let entries = entries.unwrap_or_else(|error| panic!("can't read /proc/self/task: {error}"));
    let mut threads: Vec<u32> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    threads.sort_unstable();
    threads
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_is_found_while_it_runs() {
        let (sender, receiver) = mpsc::channel::<()>();
        let (started_sender, started) = mpsc::channel();
        let other = thread::spawn(move || {
            let thread = fs::read_link("/proc/thread-self").expect("/proc is mounted");
            let name = thread
                .file_name()
                .and_then(|name| name.to_str()?.parse::<u32>().ok());
            let _ = started_sender.send(name.expect("its name is a number"));
            let _ = receiver.recv();
        });
        let other_id = started.recv().expect("the thread has sent its ID");
        assert!(threads().contains(&other_id));
        assert!(threads().contains(&std::process::id()));
        drop(sender);
        other.join().expect("it has not panicked");
    }
}
