// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl stat`: counts while a command runs.
//!
//! A command and its children are counted by events of tasks, from the command's exec on: nothing of pmctl is in the
//! counts.
//!
//! With `-a` and `-C` the counters count whatever runs on the CPUs. The command is forked and waits, the counters
//! start, the command executes, and when it has ended they stop. So the counts also hold the child's last steps before
//! exec, exec itself, and what pmctl executes from the first start to the last stop. In user mode that is about 620
//! instructions with one counter and 56 more for each further one, the same for every command and for every counter:
//! counters start and stop in the same order, so that each one counts either the start or the stop of every other
//! one. `selftests/pmctl/` tests these numbers.

mod cgroup_use;
mod cgroups;
mod check;
mod cpu_turns;
mod cpus;
mod csv;
mod explain;
mod human;
mod input;
mod json;
mod lines;
mod measure;
mod metrics;
mod order;
mod others;
mod output;
mod ratio;
mod recorded;
mod run;
mod scope;
pub(crate) mod series;
mod side_by_side;
mod source;
mod sources;
mod summary;
mod tasks;
#[cfg(test)]
mod testing;
mod turns;
mod unit;
mod v1;
mod wanted;
mod with_pmus;
mod with_software;
mod with_values;

use std::time::Duration;

use anyhow::Result;
use perfmon::spec::EventSpec;
use perfmon::{CounterId, Encoding, EventSelect};

use cgroup_use::CgroupUse;
use input::RepeatedInput;
use measure::{PreparedRun, RunPlan};
use metrics::{CountedEvents, Metrics};
use others::OtherEvents;
use run::{Figures, Run, StoppedRun, counted_share, running_time};
use scope::{CountedPlace, PlaceKind, Scope};
use source::{ColumnCount, CountSource, Uncounted};
use sources::Sources;
use unit::ColumnUnit;

use crate::args::Stat;
use crate::events::linux_pmu;
use crate::events::software;
use crate::events::values;
use crate::system::child::{CannotRun, Command, Ending};
use crate::system::exit::{self, Failed};
use crate::system::machine::Machine;
use crate::system::pmu;
use crate::system::signals::Signals;
use crate::system::stdio::complain;

/// What is counted, and where.
pub(crate) struct Subject {
    /// The command, as one line; empty without one.
    command: String,
    scope: Scope,
    pub(crate) columns: Vec<Column>,
    metrics: Metrics,
    /// Number of runs that it takes to count all events once.
    runs_per_count: usize,
    /// Counts of events are shown, and not only metrics.
    has_counts: bool,
    /// Events whose count is 0 are left out.
    hides_zeros: bool,
}

impl Subject {
    /// Returns whether the count of a column is shown.
    fn shows(&self, figures: &Figures, index: usize) -> bool {
        self.has_counts && !(self.hides_zeros && figures.counts[index] == Some(0))
    }
}

/// An event in one place: a thread, CPU, core, socket or cgroup, or all that is counted.
#[derive(Clone)]
pub(crate) struct Column {
    /// The place; `None` for all that is counted.
    place: Option<CountedPlace>,
    /// The index of the event among all that are counted.
    event_index: usize,
    pub(crate) event: EventSpec,
    /// The counter, unless the driver chooses it.
    pub(crate) counter: Option<CounterId>,
    /// The unit, if the number is no count.
    unit: Option<ColumnUnit>,
}

impl Column {
    /// Returns the column of an event that Linux counts.
    fn of_linux(
        event_index: usize,
        label: String,
        place: Option<CountedPlace>,
        unit: Option<ColumnUnit>,
    ) -> Self {
        Self {
            place,
            event_index,
            // The encoding only marks the event as present: no counter of the driver's counts it.
            event: EventSpec {
                encoding: Some(Encoding::Raw(EventSelect::fixed())),
                missing: None,
                ..EventSpec::absent(label, "")
            },
            counter: None,
            unit,
        }
    }

    /// Returns the text for a missing count: `if_present` if the CPU has the event.
    fn text_if_missing(&self, if_present: &'static str) -> &'static str {
        if self.event.is_absent() {
            "<not supported>"
        } else {
            if_present
        }
    }
}

/// A form of the output.
trait NumberFormat {
    /// Prints the counts of an interval, which ended `at` after the start.
    fn interval(&mut self, at: Duration, run: &Run) -> Result<()>;
    /// Prints the counts of all runs.
    fn end(&mut self, runs: &[Run]) -> Result<()>;
}

/// Runs `pmctl stat`, and returns the exit code.
pub(crate) fn stat(args: &Stat) -> Result<u8> {
    if let Some(path) = &args.report {
        return recorded::report(args, path);
    }
    check::refuse_impossible_options(args)?;
    let machine = Machine::here();
    let pmu = pmu::of_machine(&machine);
    let (texts, values) = values::split(&args.events);
    let (texts, pmus) = linux_pmu::split(&texts, &machine, &pmu)?;
    let (texts, software) = software::split(&texts);
    let mut others = OtherEvents {
        software,
        values,
        pmus,
    };
    let has_other_counts = !others.is_empty() || !args.metrics.is_empty() || args.topdown;
    let events = wanted::wanted_events(args, (&texts, has_other_counts), &pmu)?;
    // Tasks are counted wherever they run.
    let online = if args.all_cpus || args.cpu.is_some() {
        machine.online_cpus()?
    } else {
        Vec::new()
    };
    cgroup_use::refuse_impossible_options(args, &others)?;
    let cgroups = cgroup_use::wanted_cgroups(args)?;
    let scope = Scope::from_args(args, &online, cgroups.as_ref().map(CgroupUse::cgroup_count))?;
    let CountedEvents {
        runs: parts,
        metrics,
        pmus,
    } = metrics::counted_events(args, events, &others, (&machine, &pmu))?;
    others.pmus.extend(pmus);
    with_values::refuse_impossible_options(args, &others.values, parts.len())?;
    with_software::refuse_impossible_options(args, &others.software, parts.len())?;
    with_pmus::refuse_impossible_options(args, &others.pmus, parts.len())?;
    let plan = run_plan(args)?;

    // From here on Ctrl-C asks for the counts.
    let signals = Signals::hold()?;
    let sources = Sources::new(
        args,
        (&machine, &pmu),
        (&scope, online, cgroups),
        (others, &parts),
    )?;
    let with_advice = |error| turns::with_advice(error, args, (&parts[0], &pmu));
    let mut first_source = sources.open_part(&parts, 0).map_err(with_advice)?;
    let prepared_run =
        measure::prepare_run(&plan, &signals, first_source.as_mut()).map_err(with_advice)?;
    let output = output::open_output(args)?;
    let record = output::open_recording(args)?;
    let subject = |columns| Subject {
        command: output::command_line(args),
        scope: scope.clone(),
        columns,
        metrics,
        runs_per_count: parts.len(),
        has_counts: !args.metric_only,
        hides_zeros: args.hide_zero_events,
    };
    let repeats = Repeats::from_args(args);
    if parts.len() > 1 {
        let mut prepared_run = Some((first_source, prepared_run));
        let mut input = RepeatedInput::before_runs();
        let (columns, runs, stopped) =
            run_parts(
                (repeats, &parts),
                (&plan, &signals),
                |part| match prepared_run.take() {
                    Some(first) => Ok(first),
                    None => {
                        input.warn_if_consumed();
                        let mut source = sources.open_part(&parts, part)?;
                        let prepared_run = measure::prepare_run(&plan, &signals, source.as_mut())?;
                        Ok((source, prepared_run))
                    }
                },
            )?;
        let subject = subject(columns);
        output::with_recording(args, &subject, output, record).end(&runs)?;
        return Ok(report_problems(&subject, &runs, stopped));
    }
    let subject = subject(first_source.columns());
    let mut report = output::with_recording(args, &subject, output, record);
    count_runs(
        repeats,
        prepared_run,
        (&plan, &subject, &signals),
        first_source.as_mut(),
        report.as_mut(),
    )
}

/// Adds a hint to the error of a command that is not found.
fn with_hint(error: anyhow::Error, args: &Stat) -> anyhow::Error {
    const COUNT_FILE_ADVICE: &str =
        "`pmctl stat --record FILE` keeps counts, `pmctl stat --report FILE` shows them.";
    let (Some(missing), Some(word)) = (error.downcast_ref::<CannotRun>(), args.command.first())
    else {
        return error;
    };
    let hint = match (word.to_str(), args.json) {
        (Some("record" | "report"), _) => COUNT_FILE_ADVICE.to_owned(),
        (Some(kind @ ("v1" | "perf")), Some(_)) => format!("The form is written `--json={kind}`."),
        _ => return error,
    };
    Failed::new(missing.exit_code(), &format!("{missing}\n{hint}")).into()
}

/// Returns the options of a run.
fn run_plan(args: &Stat) -> Result<RunPlan> {
    let command = match &args.command[..] {
        [] => None,
        words => Some(Command::find(words).map_err(|error| with_hint(error, args))?),
    };
    Ok(RunPlan {
        command,
        watched: args.pid.iter().chain(&args.tid).copied().collect(),
        interval: args.interval,
        delay: args.delay(),
        timeout: args.timeout,
        intervals: args.interval_count,
        sync: args.sync,
    })
}

/// The number of runs, and whether each is shown by itself.
#[derive(Clone, Copy)]
struct Repeats {
    count: u32,
    /// Each run is shown by itself, instead of the mean of all.
    shows_each: bool,
}

impl Repeats {
    fn from_args(args: &Stat) -> Self {
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
    fn limit(self) -> Option<u32> {
        (!self.shows_each).then_some(self.count)
    }
}

/// Counts as many runs as the options ask for, shows them, and returns the exit code.
fn count_runs<'a>(
    repeats: Repeats,
    first_run: PreparedRun<'a>,
    (plan, subject, signals): (&'a RunPlan, &Subject, &Signals),
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
                failed_run = Some(stop_at(error, &runs, repeats)?);
                break;
            }
        };
        let is_last = run.is_last();
        runs.push(run);
        if repeats.shows_each {
            report.end(&runs)?;
        }
        if is_last {
            break;
        }
        if repeats.shows_each {
            earlier_code = worse_exit_code(earlier_code, exit_code(subject, &runs));
            runs.clear();
        }
    }
    let stopped_run = failed_run.or_else(|| StoppedRun::of_last(&mut runs, repeats.limit()));
    if !repeats.shows_each {
        report.end(&runs)?;
    }
    Ok(worse_exit_code(
        earlier_code,
        report_problems(subject, &runs, stopped_run),
    ))
}

/// Reports the error of a run, so that the numbers of the runs before it are not lost.
///
/// # Errors
/// The error, if there are no such runs.
fn stop_at(error: anyhow::Error, runs: &[Run], repeats: Repeats) -> Result<StoppedRun> {
    if runs.is_empty() {
        return Err(error);
    }
    complain(format_args!("{error:#}"));
    Ok(StoppedRun::by_failure(runs.len(), repeats.limit()))
}

/// Returns the number of events in the parts before this one.
fn events_before(parts: &[Vec<EventSpec>], part: usize) -> usize {
    parts[..part].iter().map(Vec::len).sum()
}

/// Runs the command for each part of the events, as often as the options ask for. Returns the columns of all parts, the
/// runs with all counts, and the last run if it was stopped.
fn run_parts<'a>(
    (repeats, parts): (Repeats, &[Vec<EventSpec>]),
    (plan, signals): (&'a RunPlan, &Signals),
    mut prepare_part: impl FnMut(usize) -> Result<(Box<dyn CountSource>, PreparedRun<'a>)>,
) -> Result<(Vec<Column>, Vec<Run>, Option<StoppedRun>)> {
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
                    stopped = Some(stop_at(error, &runs, repeats)?);
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
                stopped = Some(StoppedRun::after_runs(runs.len(), repeats.limit(), &run));
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
    let stopped = stopped.or_else(|| StoppedRun::of_last(&mut runs, repeats.limit()));
    Ok((columns, runs, stopped))
}

/// Reports problems of the counts or of the command, and returns the exit code.
fn report_problems(subject: &Subject, runs: &[Run], stopped: Option<StoppedRun>) -> u8 {
    if let Some(stopped) = &stopped {
        complain(stopped);
    }
    let ending = match &stopped {
        Some(stopped) => stopped.ending,
        None => runs.last().and_then(|run| run.ending),
    };
    if let Some(words) = ending.and_then(Ending::in_words) {
        complain(words);
    }
    let uncounted = runs.iter().find_map(|run| run.uncounted);
    if uncounted == Some(Uncounted::LeftProgram) {
        complain(LEFT_PROGRAM_REASON);
    } else if uncounted == Some(Uncounted::NoTurn) {
        complain(NO_TURN_REASON);
    } else if uncounted == Some(Uncounted::NoCore) {
        complain(NO_CORE_REASON);
    } else if uncounted == Some(Uncounted::NoPmuCounter) {
        complain(NO_PMU_COUNTER_REASON);
    } else if uncounted.is_none() && lacks_count(subject, runs) {
        let message = match subject.scope {
            Scope::Cpus { .. } => perfmon::Cause::Untrusted,
            _ => perfmon::Cause::Missed,
        };
        complain(format_args!(
            "{message}\n{}",
            message.help().unwrap_or_default()
        ));
    }
    let stopped_code = stopped.map_or(0, |stopped| stopped.exit_code());
    worse_exit_code(exit_code(subject, runs), stopped_code)
}

/// The message for a program that must not be counted, so that the events stopped at its exec.
pub(crate) const LEFT_PROGRAM_REASON: &str = "\
the command executed a program that has more rights than its caller (setuid, setgid, capabilities of its file), or \
that the caller may not read: this program is not counted.\n\
Start pmctl with the rights of the program (as root for a program of root's), or count whole CPUs with -a.";

/// The message for an event that never had a counter.
const NO_TURN_REASON: &str = "\
the run ended before each event had its turn (--multiplex): turns change at each tick of the kernel, mostly every 4 \
ms.\n\
Count something that takes longer, or fewer events; `-r 1` without --multiplex counts them in several runs.";

/// The message for an event of another kind of core than those on which the tasks ran.
const NO_CORE_REASON: &str = "\
no task ran on a core that has the event: on a hybrid processor a raw event is one of the big cores only, and \
`cpu_atom/.../` one of the small cores.\n\
`pmctl info` shows the kinds of cores; `taskset -c CPUS COMMAND` runs a command on certain ones.";

/// Why there is no count of an event of one of Linux's PMUs.
const NO_PMU_COUNTER_REASON: &str = "\
Linux had no counter left for an event of a PMU: its events are too many, or others have the counters.\n\
Count fewer at a time; `--multiplex` lets them take turns, and estimates their counts.";

/// Returns whether a count can't be trusted, or is absent.
fn lacks_count(subject: &Subject, runs: &[Run]) -> bool {
    let is_missing = |(column, count): (&Column, &Option<ColumnCount>)| {
        !column.event.is_absent() && count.is_none()
    };
    let has_missing = |run: &Run| subject.columns.iter().zip(&run.counts).any(is_missing);
    runs.iter().any(has_missing)
}

/// Returns the exit code of runs: `NO_COUNT` if a count is missing, otherwise that of the last run that failed.
fn exit_code(subject: &Subject, runs: &[Run]) -> u8 {
    let is_absent = |column: &Column| column.event.is_absent();
    if lacks_count(subject, runs) || subject.columns.iter().any(is_absent) {
        return exit::NO_COUNT;
    }
    let mut codes = runs
        .iter()
        .filter_map(|run| run.ending)
        .map(Ending::exit_code);
    codes.rfind(|code| *code != 0).unwrap_or(0)
}

/// Combines the exit codes of earlier and later runs: the later one counts unless it is 0, but `NO_COUNT` of the
/// earlier runs stays.
const fn worse_exit_code(earlier: u8, later: u8) -> u8 {
    match (earlier, later) {
        (exit::NO_COUNT, _) | (_, 0) => earlier,
        _ => later,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_of_many_runs_is_the_last_that_is_not_0() {
        assert_eq!(worse_exit_code(7, 0), 7);
        assert_eq!(worse_exit_code(7, 3), 3);
        assert_eq!(worse_exit_code(0, 3), 3);
        assert_eq!(worse_exit_code(exit::NO_COUNT, 3), exit::NO_COUNT);
    }
}
