// SPDX-License-Identifier: MIT OR Apache-2.0
//! A block of Python code whose events are counted.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, process};

use perfmon::Group;
use perfmon::event::{Builder, Cgroup};
use pyo3::prelude::*;
use pyo3::types::PyAny;

use crate::error::{Error, EventError, exception};
use crate::events;

/// The largest number of attempts to open events for all threads while no thread is created or ends.
const MAX_ATTEMPTS: usize = 10;

/// The base class of `perfmon.count`: events and their counts.
///
/// The events are open only while they count, so a block that has ended uses no counters.
#[pyclass(subclass, module = "perfmon._perfmon")]
pub(crate) struct Block {
    events: Vec<(String, Builder)>,
    /// The block counts all threads of the process, and the threads and processes that they create.
    /// If unset, it counts only the calling thread.
    process: bool,
    /// The cgroup to count, and the name that the caller gave.
    cgroup: Option<(Cgroup, PathBuf)>,
    /// The groups that count now: a group for each thread of the process. The last group is the
    /// calling thread's.
    running: Vec<Group>,
    /// The ID of the process that last started the block. After fork(2) the child shares its parent's descriptors, so it
    /// may only close them: any other call would act on the parent's events.
    starter_pid: Option<u32>,
    /// The counts when the block ended; `None` before the first end, or if they could not be read.
    counts: Option<Vec<u64>>,
    /// The number of tasks that the block had stopped counting by its end; `None` before the first
    /// end.
    tasks_not_followed: Option<u64>,
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
        let open_cgroup = |name: PathBuf| {
            let cgroup = Cgroup::named(&name).map_err(|error| exception(&error))?;
            Ok::<_, PyErr>((cgroup, name))
        };
        Ok(Self {
            events: events::find(events)?,
            process,
            cgroup: cgroup.map(open_cgroup).transpose()?,
            running: Vec::new(),
            starter_pid: None,
            counts: None,
            tasks_not_followed: Some(0),
        })
    }

    /// Starts counting from 0.
    fn start(&mut self) -> PyResult<()> {
        if self.other_starter_pid().is_some() {
            self.close_copies();
        }
        if !self.running.is_empty() {
            return Err(Error::new_err(
                "the block is counting already\nStop it first, or create another block.",
            ));
        }
        self.tasks_not_followed = Some(0);
        self.running = if self.process {
            self.open_threads()?
        } else if let Some((cgroup, _)) = &self.cgroup {
            vec![self.open(&|event| event.cgroup(cgroup))?]
        } else {
            vec![self.open(&|event| event.this_thread())?]
        };
        self.starter_pid = Some(process::id());
        // The groups are enabled right before the block runs, so that little else is counted.
        let result = self.running.iter().try_for_each(Group::enable);
        if result.is_err() {
            // Closing the groups also stops the groups that are already enabled.
            self.running.clear();
        }
        result.map_err(|error| exception(&error))
    }

    /// Stops counting. The counts are kept.
    fn stop(&mut self) -> PyResult<()> {
        if self.running.is_empty() {
            return Err(Error::new_err("the block is not counting\nStart it first."));
        }
        if let Some(starter_pid) = self.other_starter_pid() {
            self.close_copies();
            return Err(other_process_error(starter_pid));
        }
        let result = self.running.iter().rev().try_for_each(Group::disable);
        let result = result.map_err(|error| exception(&error));
        let counts = result.and_then(|()| sum_groups(&self.running));
        let tasks_not_followed = self.sum_tasks_not_followed();
        self.running.clear();
        self.counts = counts.as_ref().ok().cloned();
        self.tasks_not_followed = tasks_not_followed.ok();
        counts.map(drop)
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
        // The code in the block may have called `stop`.
        if self.running.is_empty() {
            return Ok(());
        }
        match self.stop() {
            // In a child process, leaving the block of a parent is not an error.
            Err(_) if self.other_starter_pid().is_some() => Ok(()),
            result => result,
        }
    }

    /// Returns the counts: the current counts while the block counts, and its last counts
    /// afterwards; `None` before the first start.
    fn _counts(&self) -> PyResult<Option<Vec<u64>>> {
        if self.counts.is_none() || !self.running.is_empty() {
            if let Some(starter_pid) = self.other_starter_pid() {
                return Err(other_process_error(starter_pid));
            }
        }
        if self.running.is_empty() {
            return Ok(self.counts.clone());
        }
        sum_groups(&self.running).map(Some)
    }

    /// Returns the number of tasks that are no longer counted since they executed a program with more rights; 0 before the
    /// first start.
    fn _tasks_not_followed(&self) -> PyResult<u64> {
        if self.running.is_empty() {
            return self.tasks_not_followed.ok_or_else(|| {
                Error::new_err(
                    "the tasks that were not followed are unknown: /proc could not be read when the block was stopped\n\
                     Mount /proc where the program runs.",
                )
            });
        }
        match self.other_starter_pid() {
            Some(starter_pid) => Err(other_process_error(starter_pid)),
            None => self.sum_tasks_not_followed(),
        }
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

    /// Returns whether the block is counting, and this process started it.
    #[getter]
    fn running(&self) -> bool {
        !self.running.is_empty() && self.other_starter_pid().is_none()
    }

    /// Returns whether a parent process started the block.
    fn _is_inherited(&self) -> bool {
        self.other_starter_pid().is_some()
    }

    /// Opens and closes an event, and raises the error if that fails.
    #[staticmethod]
    fn _open_probe() -> PyResult<()> {
        events::probe_event()
            .open()
            .map(drop)
            .map_err(|error| exception(&error))
    }
}

impl Block {
    /// Returns the process that started the block, if it is not this process.
    fn other_starter_pid(&self) -> Option<u32> {
        self.starter_pid.filter(|pid| *pid != process::id())
    }

    /// Closes this process's copies of the descriptors. The process that started the block continues to count.
    fn close_copies(&mut self) {
        self.running.clear();
        self.counts = None;
    }

    /// Opens the events as a group. `target` sets the tasks of the first event. The other events of
    /// the group count the same tasks.
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

    /// Returns the number of tasks that the running block has stopped counting. If no other task inherits the events,
    /// returns 0 without reading the number, because a decorated function ends a block at each call.
    fn sum_tasks_not_followed(&self) -> PyResult<u64> {
        if !self.process {
            return Ok(0);
        }
        let numbers = self.running.iter().map(Group::tasks_not_followed);
        let sum: Result<u64, perfmon::Error> = numbers.sum();
        sum.map_err(|error| exception(&error))
    }

    /// Opens the events for each thread of the process.
    fn open_threads(&self) -> PyResult<Vec<Group>> {
        for _ in 0..MAX_ATTEMPTS {
            let threads = threads()?;
            let groups: PyResult<Vec<Group>> = threads
                .iter()
                .map(|thread| self.open(&|event| event.pid(*thread).inherit()))
                .collect();
            // A thread that was created meanwhile is counted only if the events of its creator were
            // open by then, which is unknown. So the groups are used only if the process still has
            // the same threads.
            if threads == self::threads()? {
                return groups;
            }
        }
        Err(Error::new_err(
            "threads are created and end too fast to count them all\nCount one of them: `process=False`.",
        ))
    }
}

/// Returns the exception for using a block that another process started.
fn other_process_error(starter_pid: u32) -> PyErr {
    Error::new_err(format!(
        "the block counts in process {starter_pid}, which started it\nStart another block in this process."
    ))
}

/// Returns the sums of the counts of all groups, event by event. On a hybrid processor, the sums
/// include only the cores that have the events.
///
/// # Errors
/// A group can't be read, or no task ran on a core that has the events.
fn sum_groups(groups: &[Group]) -> PyResult<Vec<u64>> {
    let mut sums: Vec<u64> = Vec::new();
    let (mut enabled, mut running) = (Duration::ZERO, Duration::ZERO);
    for group in groups {
        let counts = group.read().map_err(|error| exception(&error))?;
        enabled += counts.enabled;
        running += counts.running;
        sums.resize(group.events().len(), 0);
        for (sum, (_, count)) in sums.iter_mut().zip(counts.iter()) {
            *sum += count;
        }
    }
    if running.is_zero() && !enabled.is_zero() {
        return Err(EventError::new_err(
            "nothing ran on a core that has the events: on a hybrid processor raw events and some cache events are of one \
             kind of core only\n`pmctl info` shows the kinds of cores; `taskset -c CPUS` runs a program on certain ones.",
        ));
    }
    Ok(sums)
}

/// Returns the IDs of the process's threads, the calling thread's last.
fn threads() -> PyResult<Vec<u32>> {
    let own_thread = fs::read_link("/proc/thread-self")?;
    let own_thread: Option<u32> = own_thread
        .file_name()
        .and_then(|name| name.to_str()?.parse().ok());
    let mut threads: Vec<u32> = fs::read_dir("/proc/self/task")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|thread| Some(*thread) != own_thread)
        .collect();
    threads.sort_unstable();
    threads.extend(own_thread);
    Ok(threads)
}
