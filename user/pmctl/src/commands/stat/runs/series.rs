// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs of one command, for `pmctl bench`: each is counted as by `pmctl stat`.

use std::time::Duration;

use anyhow::Result;
use perfmon::spec::EventSpec;

use super::measure::{self, RunPlan};
use super::split_runs;
use crate::commands::stat::formats::output::NoOutput;
use crate::commands::stat::scope::Scope;
use crate::commands::stat::sources::source::{CountSource, Uncounted};
use crate::commands::stat::sources::tasks::{CountingManner, TaskCounts};
use crate::system::child::{Command, Ending};
use crate::system::signals::BlockedSignals;

/// A command that runs several times.
pub(crate) struct Series {
    plan: RunPlan,
    source: TaskCounts,
}

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct SingleRun {
    pub(crate) elapsed: Duration,
    /// A count for each event; `None` if it can't be trusted.
    pub(crate) counts: Vec<Option<u64>>,
    /// A task executed a program that must not be counted: [`UNCOUNTED_PROGRAM_REASON`](crate::commands::stat::UNCOUNTED_PROGRAM_REASON).
    pub(crate) has_left_program: bool,
    pub(crate) ending: Option<Ending>,
    /// A signal asked for the end.
    pub(crate) is_stopped: bool,
}

impl Series {
    /// Prepares to count `events` from the command's exec on, in the command and the tasks that it creates.
    pub(crate) fn new(command: Command, events: Vec<EventSpec>) -> Result<Self> {
        let manner = CountingManner {
            inherit: true,
            begins_at_exec: true,
            per_thread: false,
            one_group: false,
            multiplex: false,
        };
        Ok(Self {
            plan: RunPlan {
                command: Some(command),
                ..RunPlan::default()
            },
            source: TaskCounts::new(events, &Scope::Command, manner)?,
        })
    }

    /// Runs the command once.
    pub(crate) fn run(&mut self, signals: &BlockedSignals) -> Result<SingleRun> {
        let prepared_run = measure::prepare_run(&self.plan, signals, &mut self.source);
        let prepared_run = prepared_run.map_err(split_runs::without_advice)?;
        let run = measure::measure_run(
            prepared_run,
            (&self.plan, signals),
            &mut self.source,
            &mut NoOutput,
        )?;
        let counts = run.counts.iter();
        Ok(SingleRun {
            elapsed: run.elapsed,
            counts: counts.map(|count| count.map(|count| count.value)).collect(),
            has_left_program: run.uncounted.contains(&Some(Uncounted::LeftProgram)),
            ending: run.ending,
            is_stopped: run.stopped_by.is_some(),
        })
    }

    /// Returns the events as they were counted in the last run. If this user may not count the kernel, they have been
    /// limited to user mode, and their names end with `:u`.
    pub(crate) fn events(&self) -> Vec<EventSpec> {
        let columns = self.source.columns().into_iter();
        columns.map(|column| column.event).collect()
    }
}
