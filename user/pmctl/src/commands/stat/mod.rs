// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl stat`: counts while a command runs.
//!
//! A command and its children are counted by events of tasks, from the command's exec on, so the counts contain nothing
//! of pmctl.
//!
//! With `-a` and `-C` the counters count all programs on the CPUs. pmctl forks a process that
//! waits, starts the counters, lets the process execute the command, and stops the counters when
//! the command has ended. So the counts also contain the child's last steps before exec, exec
//! itself, and the work of pmctl from the first start to the last stop. In user mode these are
//! about 620 instructions with one counter and 56 more for each further counter. The numbers are
//! the same for every command and for every counter: counters start and stop in the same order, so
//! that each counter counts either the start or the stop of every other counter. `selftests/pmctl/`
//! tests these numbers.

mod check;
mod column;
mod explain;
mod formats;
mod metrics;
mod recorded;
mod runs;
mod scope;
mod sources;
mod subject;
#[cfg(test)]
mod testing;
mod unit;
mod wanted;

use anyhow::Result;

pub(crate) use runs::problems::UNCOUNTED_PROGRAM_REASON;
pub(crate) use runs::series;
pub(crate) use subject::Subject;

use column::Column;
use formats::output;
use metrics::CountedEvents;
use runs::measure::{self, RunPlan};
use runs::problems::report_problems;
use runs::repeat::{Repeats, count_runs, run_parts};
use runs::split_runs;
use scope::Scope;
use sources::cgroup_use::{self, CgroupUse};
use sources::others::OtherEvents;
use sources::{Sources, with_duration, with_pmus, with_software, with_values};

use crate::args::Stat;
use crate::events::duration;
use crate::events::linux_pmu;
use crate::events::software;
use crate::events::threads::TaskList;
use crate::events::values;
use crate::system::child::{CannotRun, Command};
use crate::system::exit::Failed;
use crate::system::files::allow_many_files;
use crate::system::machine::Machine;
use crate::system::pmu;
use crate::system::signals::BlockedSignals;

/// Runs `pmctl stat`, and returns the exit code.
pub(crate) fn stat(args: &Stat) -> Result<u8> {
    if let Some(path) = &args.report {
        return recorded::report(args, path);
    }
    check::refuse_impossible_options(args)?;
    // Each cgroup needs a descriptor, and each event needs one for each task, CPU or cgroup.
    allow_many_files();
    let machine = Machine::here();
    let pmu = pmu::of_machine(&machine);
    let (texts, values) = values::split(&args.events);
    let (texts, pmus) = linux_pmu::split(&texts, &machine, &pmu)?;
    let (texts, software) = software::split(&texts);
    let (texts, has_duration) = duration::split(&texts);
    let mut other_events = OtherEvents {
        software,
        values,
        pmus,
        has_duration,
    };
    let has_other_counts = !other_events.is_empty() || !args.metrics.is_empty() || args.topdown;
    let events = wanted::wanted_events(args, (&texts, has_other_counts), &pmu)?;
    // Only counts of CPUs need the list. Tasks, and cgroups without -C, are counted on every CPU
    // that they run on.
    let online = if args.all_cpus || args.cpu.is_some() {
        machine.online_cpus()?
    } else {
        Vec::new()
    };
    cgroup_use::refuse_impossible_options(args, &other_events)?;
    let cgroups = cgroup_use::wanted_cgroups(args)?;
    let scope = Scope::from_args(args, &online, cgroups.as_ref().map(CgroupUse::cgroup_count))?;
    let CountedEvents {
        runs: parts,
        metrics,
        pmus,
    } = metrics::counted_events(args, events, &other_events, (&machine, &pmu))?;
    other_events.pmus.extend(pmus);
    with_values::refuse_impossible_options(args, &other_events.values, parts.len())?;
    with_software::refuse_impossible_options(args, &other_events.software, parts.len())?;
    with_pmus::refuse_impossible_options(args, &other_events.pmus, parts.len())?;
    with_duration::refuse_impossible_options(args, other_events.has_duration, parts.len())?;
    let plan = run_plan(args)?;

    // From here on Ctrl-C ends the count, and the counts are shown.
    let signals = BlockedSignals::hold()?;
    let sources = Sources::new(
        args,
        (&machine, &pmu),
        (&scope, online, cgroups),
        (other_events, &parts),
    )?;
    let with_advice = |error| split_runs::with_advice(error, args, (&parts[0], &pmu));
    let mut first_source = sources.open_part(&parts, 0).map_err(with_advice)?;
    let prepared_run =
        measure::prepare_run(&plan, &signals, first_source.as_mut()).map_err(with_advice)?;
    let output = output::open_output(args)?;
    let record = output::open_recording(args)?;
    let subject = |columns: Vec<Column>| Subject {
        command: output::command_line(args),
        scope: scope
            .clone()
            .with_cgroup_count_of(columns.iter().filter_map(|column| column.place.as_ref())),
        columns,
        metrics,
        runs_per_count: parts.len(),
        shows_counts: !args.metric_only,
        hides_zeros: args.hide_zero_events,
    };
    let repeats = Repeats::from_args(args);
    if parts.len() > 1 {
        let (columns, runs, stopped) = run_parts(
            repeats,
            (&sources, &parts),
            (&plan, &signals),
            (first_source, prepared_run),
        )?;
        let subject = subject(columns);
        output::with_recording(args, &subject, output, record).write_totals(&runs)?;
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
        watched: TaskList {
            pids: args.pid.clone(),
            tids: args.tid.clone(),
        },
        interval: args.interval,
        delay: args.delay(),
        timeout: args.timeout,
        intervals: args.interval_count,
        sync: args.sync,
    })
}
