// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks for options that can't be combined, or that the driver can't serve.

use crate::args::{Json, Stat};
use crate::system::exit::Usage;

/// Refuses options that the driver can't serve, and combinations that have no meaning, each with its reason.
pub(super) fn refuse_impossible_options(args: &Stat) -> Result<(), Usage> {
    let has_cpus = args.all_cpus || args.cpu.is_some() || args.has_cgroups();
    let has_tasks = !args.pid.is_empty() || !args.tid.is_empty();
    let refused_options = [
        (
            args.command.is_empty() && !has_cpus && !has_tasks,
            "there is nothing to count.\n\
             Give a command (`pmctl stat -- make`), or count a process (`pmctl stat -p PID`), or the whole system until \
             Ctrl-C: `pmctl stat -a`.",
        ),
        (
            args.command.is_empty() && args.repeat.is_some_and(|repeat| repeat > 1),
            "-r repeats a command, and there is none. Give one: `pmctl stat -r 5 -- make`.",
        ),
        (
            args.per_core && !has_cpus,
            "--per-core: a task has no core of its own. Count the whole system: `pmctl stat -a --per-core`.",
        ),
        (
            args.per_socket && !has_cpus,
            "--per-socket: a task has no socket of its own. Count the whole system: `pmctl stat -a --per-socket`.",
        ),
        (
            args.no_aggr && !has_cpus,
            "-A: a task has no CPU of its own. Count the whole system: `pmctl stat -a -A`.",
        ),
        (
            args.per_thread && !has_tasks,
            "--per-thread: the threads of a command are not known before it runs. Give a process that runs: `pmctl \
             stat -p PID --per-thread`.",
        ),
        (
            args.per_thread && args.repeat.is_some_and(|repeat| repeat != 1),
            "--per-thread: the process may have other threads in each run of -r. Leave out one of the two.",
        ),
        (
            args.metric_only && args.metrics.is_empty() && !args.topdown,
            "--metric-only shows metrics, and none is chosen. Name one with -M: `pmctl stat --metric-only -M insn_per_cycle -- COMMAND`.",
        ),
        (
            args.command.is_empty() && args.repeat == Some(0),
            "-r 0 repeats a command until Ctrl-C, and there is none. Give one, or use -I MS in place of -r for counts at intervals.",
        ),
        (
            args.repeat == Some(0) && (args.json == Some(Json::V1) || args.record.is_some()),
            "-r 0: --record and --json=v1 write one object after the last run, and -r 0 has no last run. `--json` has \
             lines for each run.",
        ),
        (
            args.multiplex && args.has_cgroups(),
            "--multiplex: the events of cgroups can't take turns. Choose fewer events, or count some in another run.",
        ),
        (
            args.explain && !has_cpus,
            "--explain: the counters of a task can change at each task switch, so there are none to explain. Count \
             the whole system: `pmctl stat -a --explain`.",
        ),
        (
            args.explain && args.multiplex,
            "--explain: events that take turns have no counter of their own to show. Leave out one of the two.",
        ),
    ];
    match refused_options.into_iter().find(|(applies, _)| *applies) {
        Some((_, reason)) => Err(Usage(reason.to_owned())),
        None => Ok(()),
    }
}
