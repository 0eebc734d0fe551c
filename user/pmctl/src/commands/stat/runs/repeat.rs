// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repeats runs, each of which counts all events or one part of them.

use anyhow::Result;
use perfmon::spec::EventSpec;

use super::input::RepeatedInput;
use super::measure::{self, PreparedRun, RunPlan};
use super::problems::{exit_code, report_problems, worse_exit_code};
use super::run::{Run, StoppedRun};
use crate::args::Stat;
use crate::commands::stat::column::Column;
use crate::commands::stat::formats::number_format::NumberFormat;
use crate::commands::stat::formats::output;
use crate::commands::stat::sources::source::CountSource;
use crate::commands::stat::sources::{Sources, events_before};
use crate::commands::stat::subject::Subject;
use crate::system::signals::BlockedSignals;
use crate::system::stdio::complain;

/// The number of runs, and whether each is shown by itself.
#[derive(Clone, Copy)]
pub(in crate::commands::stat) struct Repeats {
    count: u32,
    /// Each run is shown by itself, instead of the mean of all.
    shows_each: bool,
}

impl Repeats {
    pub(in crate::commands::stat) fn from_args(args: &Stat) -> Self {
        match args.repeat {
            Some(0) => Self {
                count: u32::MAX,
                shows_each: true,
            },
            repeat => Self {
                count: repeat.unwrap_or(1),
                shows_each: false,
            },
        }
    }

    /// Returns the number of runs; `None` if they go on until Ctrl-C.
    fn requested_runs(self) -> Option<u32> {
        (!self.shows_each).then_some(self.count)
    }
}

/// Counts as many runs as the options ask for, shows them, and returns the exit code.
pub(in crate::commands::stat) fn count_runs<'a>(
    repeats: Repeats,
    first_run: PreparedRun<'a>,
    (plan, subject, signals): (&'a RunPlan, &Subject, &BlockedSignals),
    source: &mut dyn CountSource,
    report: &mut dyn NumberFormat,
) -> Result<u8> {
    let mut runs = Vec::new();
    // The exit code of the runs that have been shown already.
    let mut earlier_code = 0;
    let mut prepared_run = Some(first_run);
    let mut input = RepeatedInput::before_runs();
    let mut failed_run = None;
    for _ in 0..repeats.count {
        let run = match prepared_run.take() {
            Some(prepared_run) => Ok(prepared_run),
            None => {
                input.warn_if_consumed();
                measure::prepare_run(plan, signals, source)
            }
        };
        let run = run.and_then(|run| measure::measure_run(run, (plan, signals), source, report));
        let run = match run {
            Ok(run) => run,
            Err(error) => {
                failed_run = Some(report_failed_run(error, &runs, repeats)?);
                break;
            }
        };
        let is_last = run.is_last();
        runs.push(run);
        if repeats.shows_each {
            report.write_totals(&runs)?;
        }
        if is_last {
            break;
        }
        if repeats.shows_each {
            earlier_code = worse_exit_code(earlier_code, exit_code(subject, &runs));
            runs.clear();
        }
    }
    let stopped_run = failed_run
        .or_else(|| StoppedRun::take_last_if_stopped(&mut runs, repeats.requested_runs()));
    if !repeats.shows_each {
        report.write_totals(&runs)?;
    }
    Ok(worse_exit_code(
        earlier_code,
        report_problems(subject, &runs, stopped_run),
    ))
}

/// Reports the error of a run, so that the numbers of the runs before it are not lost.
///
/// # Errors
/// `error`, if no run was completed before it.
fn report_failed_run(error: anyhow::Error, runs: &[Run], repeats: Repeats) -> Result<StoppedRun> {
    if runs.is_empty() {
        return Err(error);
    }
    complain(format_args!("{error:#}"));
    Ok(StoppedRun::by_failure(runs.len(), repeats.requested_runs()))
}

/// Runs the command for each part of the events, as often as the options ask for. Returns the columns of all parts, the
/// runs with all counts, and the last run if it was stopped.
///
/// `first` is the source of the first part and the first run, both prepared.
pub(in crate::commands::stat) fn run_parts<'a>(
    repeats: Repeats,
    (sources, parts): (&Sources<'_>, &[Vec<EventSpec>]),
    (plan, signals): (&'a RunPlan, &BlockedSignals),
    first: (Box<dyn CountSource>, PreparedRun<'a>),
) -> Result<(Vec<Column>, Vec<Run>, Option<StoppedRun>)> {
    let mut prepared_run = Some(first);
    let mut input = RepeatedInput::before_runs();
    let mut prepare_part = |part| match prepared_run.take() {
        Some(first) => Ok(first),
        None => {
            input.warn_if_consumed();
            let mut source = sources.open_part(parts, part)?;
            let run = measure::prepare_run(plan, signals, source.as_mut())?;
            anyhow::Ok((source, run))
        }
    };
    let (mut columns, mut runs, mut stopped) = (Vec::new(), Vec::new(), None);
    'runs: for repetition in 0..repeats.count {
        let mut part_runs: Vec<Run> = Vec::new();
        for index in 0..parts.len() {
            let start = events_before(parts, index);
            let run = prepare_part(index).and_then(|(mut source, prepared)| {
                if repetition == 0 {
                    columns.extend(source.columns().into_iter().map(|column| Column {
                        event_index: start + column.event_index,
                        ..column
                    }));
                }
                let (source, output) = (source.as_mut(), &mut output::NoOutput);
                measure::measure_run(prepared, (plan, signals), source, output)
            });
            let run = match run {
                Ok(run) => run,
                Err(error) => {
                    stopped = Some(report_failed_run(error, &runs, repeats)?);
                    break 'runs;
                }
            };
            if run.is_last() && index + 1 < parts.len() {
                anyhow::ensure!(
                    !runs.is_empty(),
                    "the command was stopped in run {} of the {} that it takes to count all events; there are no numbers.",
                    index + 1,
                    parts.len()
                );
                stopped = Some(StoppedRun::after_runs(
                    runs.len(),
                    repeats.requested_runs(),
                    &run,
                ));
                break 'runs;
            }
            part_runs.push(run);
        }
        let run = Run::from_parts(&part_runs);
        let is_last = run.is_last();
        runs.push(run);
        if is_last {
            break;
        }
    }
    let stopped =
        stopped.or_else(|| StoppedRun::take_last_if_stopped(&mut runs, repeats.requested_runs()));
    Ok((columns, runs, stopped))
}
