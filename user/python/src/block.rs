// SPDX-License-Identifier: MIT OR Apache-2.0
//! A block of Python code whose events are counted.

use std::path::{Path, PathBuf};
use std::{fs, process};

use perfmon::Group;
use perfmon::event::{Builder, Cgroup};
use pyo3::prelude::*;
use pyo3::types::PyAny;

use crate::error::{Error, exception};
use crate::events;

/// Number of times that the threads of the process are looked for until none comes or goes meanwhile.
const MAX_ATTEMPTS: usize = 10;

/// The base class of `perfmon.count`: events and their counts.
///
/// The events are open while they count, so that a block that has ended takes no counters.
#[pyclass(subclass, module = "perfmon._perfmon")]
pub(crate) struct Block {
    events: Vec<(String, Builder)>,
    /// The whole process and what it creates is counted, not the calling thread.
    process: bool,
    /// This cgroup is counted, and the name that it was asked for by.
    cgroup: Option<(Cgroup, PathBuf)>,
    /// The groups that count: one for each thread of the process, the calling thread's last.
    running: Vec<Group>,
    /// The process that started it last. After fork(2) the child has the same descriptors as its parent: all that it
    /// does with them, except closing them, it does to the parent's counters.
    starter: Option<u32>,
    counts: Option<Vec<u64>>,
}

#[pymethods]
impl Block {
    #[new]
    #[pyo3(signature = (events, process, cgroup))]
    fn new(events: Vec<String>, process: bool, cgroup: Option<PathBuf>) -> PyResult<Self> {
        if process && cgroup.is_some() {
            return Err(Error::new_err(
                "a process and a cgroup can't be counted together\nLeave out `process` or `cgroup`.",
            ));
        }
        let open = |name: PathBuf| {
            let cgroup = Cgroup::named(&name).map_err(|error| exception(&error))?;
            Ok::<_, PyErr>((cgroup, name))
        };
        Ok(Self {
            events: events::find(events)?,
            process,
            cgroup: cgroup.map(open).transpose()?,
            running: Vec::new(),
            starter: None,
            counts: None,
        })
    }

    /// Counts from now on, beginning at 0.
    fn start(&mut self) -> PyResult<()> {
        if self.other_starter().is_some() {
            self.close_copies();
        }
        if !self.running.is_empty() {
            return Err(Error::new_err(
                "the block is counting already\nStop it first, or create another block.",
            ));
        }
        self.running = if self.process {
            self.open_threads()?
        } else if let Some((cgroup, _)) = &self.cgroup {
            vec![self.open(&|event| event.cgroup(cgroup))?]
        } else {
            vec![self.open(&|event| event.this_thread())?]
        };
        self.starter = Some(process::id());
        for group in &self.running {
            // The last call before the block.
            group.enable().map_err(|error| exception(&error))?;
        }
        Ok(())
    }

    /// Stops counting; the counts stay.
    fn stop(&mut self) -> PyResult<()> {
        if self.running.is_empty() {
            return Err(Error::new_err("the block is not counting\nStart it first."));
        }
        if let Some(starter) = self.other_starter() {
            self.close_copies();
            return Err(counts_elsewhere(starter));
        }
        let disabled = self.running.iter().rev().try_for_each(Group::disable);
        let counts = disabled.and_then(|()| sum_groups(&self.running));
        self.running.clear();
        self.counts = counts.as_ref().ok().cloned();
        counts.map(drop).map_err(|error| exception(&error))
    }

    fn __enter__(mut slf: PyRefMut<'_, Self>) -> PyResult<PyRefMut<'_, Self>> {
        slf.start()?;
        Ok(slf)
    }

    fn __exit__(
        &mut self,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        // The block may have stopped it.
        if self.running.is_empty() {
            return Ok(());
        }
        match self.stop() {
            // A child that leaves its parent's block does nothing wrong.
            Err(_) if self.other_starter().is_some() => Ok(()),
            stopped => stopped,
        }
    }

    /// Returns the counts, until now if it is counting; `None` before the first start.
    fn _counts(&self) -> PyResult<Option<Vec<u64>>> {
        if self.counts.is_none() || !self.running.is_empty() {
            if let Some(starter) = self.other_starter() {
                return Err(counts_elsewhere(starter));
            }
        }
        if self.running.is_empty() {
            return Ok(self.counts.clone());
        }
        sum_groups(&self.running)
            .map(Some)
            .map_err(|error| exception(&error))
    }

    /// Returns the names of the events.
    fn _names(&self) -> Vec<&str> {
        self.events.iter().map(|(name, _)| &**name).collect()
    }

    #[getter]
    fn process(&self) -> bool {
        self.process
    }

    #[getter]
    fn cgroup(&self) -> Option<&Path> {
        self.cgroup.as_ref().map(|(_, name)| name.as_path())
    }

    /// Returns whether it is counting, started by this process.
    #[getter]
    fn running(&self) -> bool {
        !self.running.is_empty() && self.other_starter().is_none()
    }

    /// Returns whether another process started it, of which this one is a child.
    fn _is_inherited(&self) -> bool {
        self.other_starter().is_some()
    }

    /// Opens an event and closes it, to see whether that is possible.
    #[staticmethod]
    fn _try() -> PyResult<()> {
        events::any()
            .open()
            .map(drop)
            .map_err(|error| exception(&error))
    }
}

impl Block {
    /// Returns the process that started it, if it is not this one.
    fn other_starter(&self) -> Option<u32> {
        self.starter.filter(|starter| *starter != process::id())
    }

    /// Closes this process's copies of the descriptors. The process that started it goes on counting.
    fn close_copies(&mut self) {
        self.running.clear();
        self.counts = None;
    }

    /// Opens the events for the task that `target` gives the first of them; the others follow it.
    fn open(&self, target: &dyn Fn(Builder) -> Builder) -> PyResult<Group> {
        let mut builders = self.events.iter().map(|(_, event)| event.clone());
        let Some(first) = builders.next() else {
            return Err(Error::new_err("there is no event to count"));
        };
        let group = builders.fold(
            Group::of(target(first.disabled())),
            perfmon::event::GroupBuilder::and,
        );
        group.open().map_err(|error| exception(&error))
    }

    /// Opens the events for each thread of the process.
    fn open_threads(&self) -> PyResult<Vec<Group>> {
        for _ in 0..MAX_ATTEMPTS {
            let threads = threads()?;
            let opened: PyResult<Vec<Group>> = threads
                .iter()
                .map(|thread| self.open(&|event| event.pid(*thread).inherit()))
                .collect();
            // A thread that one of these has created is counted already; of another one that is new nothing is
            // known. So there must be none.
            if threads == self::threads()? {
                return opened;
            }
        }
        Err(Error::new_err(
            "threads come and go too fast for all to be counted\nCount one of them: `process=False`.",
        ))
    }
}

/// Returns the exception for asking in one process for what another one counts.
fn counts_elsewhere(starter: u32) -> PyErr {
    Error::new_err(format!(
        "the block counts in process {starter}, which started it\nStart another block in this process."
    ))
}

/// Returns the counts of all groups together.
fn sum_groups(groups: &[Group]) -> Result<Vec<u64>, perfmon::Error> {
    let mut sums: Vec<u64> = Vec::new();
    for group in groups {
        let counts = group.read()?;
        sums.resize(group.events().len(), 0);
        for (sum, (_, count)) in sums.iter_mut().zip(counts.iter()) {
            *sum += count;
        }
    }
    Ok(sums)
}

/// Returns the threads of the process, the calling one last.
fn threads() -> PyResult<Vec<u32>> {
    let own = fs::read_link("/proc/thread-self")?;
    let own: Option<u32> = own.file_name().and_then(|name| name.to_str()?.parse().ok());
    let mut threads: Vec<u32> = fs::read_dir("/proc/self/task")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|thread| Some(*thread) != own)
        .collect();
    threads.sort_unstable();
    threads.extend(own);
    Ok(threads)
}
