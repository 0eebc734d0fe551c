// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counts of a call.

use std::mem;

use perfmon::Error;
use perfmon::event::Builder;

use super::all_threads::AllThreads;
use super::this_thread::ThisThread;

/// Number of empty passes. The smallest of their counts is subtracted from other counts.
const EMPTY_PASSES: usize = 8;

/// Counts events of the calling thread, or of all threads, while a function runs.
#[derive(Debug)]
pub(crate) struct Meter {
    events: Vec<Builder>,
    counts_all_threads: bool,
    /// The open events; `None` before the first pass.
    counters: Option<Counters>,
    /// The counts of an empty function.
    overhead: Vec<u64>,
}

/// Open events.
#[derive(Debug)]
enum Counters {
    ThisThread(ThisThread),
    AllThreads(AllThreads),
}

impl Meter {
    /// Prepares to count these events.
    pub(crate) fn new(events: Vec<Builder>) -> Self {
        Self {
            overhead: vec![0; events.len()],
            events,
            counts_all_threads: false,
            counters: None,
        }
    }

    /// Returns the meter, and leaves a meter without events in its place.
    pub(crate) fn take(&mut self) -> Self {
        mem::replace(self, Self::new(Vec::new()))
    }

    /// Counts all threads of the process from the next pass on.
    pub(crate) fn count_all_threads(&mut self) {
        self.counts_all_threads = true;
        self.counters = None;
    }

    /// Opens the events, and counts an empty function.
    pub(crate) fn open(&mut self) -> Result<(), Error> {
        let mut counters = if self.counts_all_threads {
            Counters::AllThreads(AllThreads::open(&self.events)?)
        } else {
            Counters::ThisThread(ThisThread::open(&self.events)?)
        };
        self.overhead.fill(u64::MAX);
        for _ in 0..EMPTY_PASSES {
            let counts = counters.count(&mut || {})?;
            for (smallest, count) in self.overhead.iter_mut().zip(counts) {
                *smallest = count.min(*smallest);
            }
        }
        self.counters = Some(counters);
        Ok(())
    }

    /// Calls `work` once, and returns the count of each event. Fails if an event was not counted all the time.
    pub(crate) fn count_pass(&mut self, work: &mut dyn FnMut()) -> Result<Vec<u64>, Error> {
        if self.counters.is_none() {
            self.open()?;
        }
        let counts = match &mut self.counters {
            Some(counters) => counters.count(work)?,
            None => Vec::new(),
        };
        // The difference saturates at 0, because the overhead varies: a page that changes while it
        // is read is read again.
        let counts = counts.iter().zip(&self.overhead);
        Ok(counts
            .map(|(count, overhead)| count.saturating_sub(*overhead))
            .collect())
    }
}

impl Counters {
    fn count(&mut self, work: &mut dyn FnMut()) -> Result<Vec<u64>, Error> {
        match self {
            Self::ThisThread(thread) => thread.count(work),
            Self::AllThreads(threads) => threads.count(work),
        }
    }
}
