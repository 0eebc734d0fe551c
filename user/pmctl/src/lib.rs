// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl`: counts what x86 CPUs do, through `/dev/perfmon`.
//!
//! A library only for [`fuzz`] and [`command`].

mod child;
mod cli;
mod decode;
mod doctor;
mod encode;
mod exit;
mod explain;
mod flamegraph;
pub mod fuzz;
mod hypervisor;
mod info;
mod list;
mod machine;
mod msr;
mod perfdata;
mod pmu;
mod processes;
mod profile;
mod record;
mod regs;
mod report;
mod schedule;
mod screen;
mod script;
mod signals;
mod stat;
mod stdio;
mod symbols;
mod text;
mod wrap;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};

use child::CannotRun;
use cli::{Cli, Command};
use machine::Machine;
use screen::Screen;
use stdio::complain;

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    signals::ignore_file_limit();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Help and the version, too, which are no fault.
        Err(answer) => return print(answer),
    };
    let failure = match cli.command {
        Command::Stat(_) | Command::Record(_) | Command::Wrap(_) => exit::NO_COUNT,
        _ => exit::FAILURE,
    };
    // What a recording is cut off by is always said.
    let is_record = matches!(cli.command, Command::Record(_));
    match run(&cli.command) {
        Ok(code) => ExitCode::from(code),
        Err(error) if is_broken_pipe(&error) && !is_record => ExitCode::SUCCESS,
        Err(error) => {
            complain(format_args!("{error:#}"));
            ExitCode::from(exit_code(&error).unwrap_or(failure))
        }
    }
}

/// Prints clap's message, and returns the exit code.
fn print(mut answer: clap::Error) -> ExitCode {
    if answer.kind() == ErrorKind::UnknownArgument {
        // It is to write `-- -t`, which runs a command `-t`.
        answer.remove(ContextKind::Suggested);
    }
    if is_twice_detailed(&answer) {
        complain(
            "-d: once is all, since the further events of perf's `-d -d` would have to share counters. Name those that \
             you want: `pmctl stat -e dTLB-load-misses,iTLB-load-misses -- COMMAND`.",
        );
        return ExitCode::from(exit::USAGE);
    }
    if let Some((name, instead)) = perfs_option(&answer) {
        complain(format_args!("there is no option `{name}`.\n{instead}"));
        return ExitCode::from(exit::USAGE);
    }
    if let Some((name, instead)) = perfs_command(&answer) {
        complain(format_args!("there is no command `{name}`.\n{instead}"));
        return ExitCode::from(exit::USAGE);
    }
    match answer.print() {
        Ok(()) => ExitCode::from(u8::try_from(answer.exit_code()).unwrap_or(exit::USAGE)),
        Err(_) => ExitCode::from(exit::FAILURE),
    }
}

/// Returns whether the mistake is `stat -d -d`, which perf takes.
fn is_twice_detailed(answer: &clap::Error) -> bool {
    let again = answer.get(ContextKind::InvalidArg);
    answer.kind() == ErrorKind::ArgumentConflict
        && matches!(again, Some(ContextValue::String(name)) if name == "--detailed")
}

/// Returns an option that `perf stat` has and pmctl has not, and what to type instead, if that is the mistake.
fn perfs_option(answer: &clap::Error) -> Option<(&'static str, &'static str)> {
    const METRICS: &str =
        "Metrics are not there yet; ratios of two events, as `insn per cycle`, stand beside them.";
    const PARTS: &str = "`--per-socket`, `--per-core` and `-A` have the same numbers in larger and in smaller parts.";
    const GROUPS: &str = "The driver knows no control groups: count processes with `-p`.";
    const COMMAS: &str =
        "Numbers for people have commas always; `-x,` and `--json` are for programs.";
    const SCALING: &str = "Leave it out: no count is scaled, for no counter is shared.";
    const MODES: &str =
        "Write `:u` (user) or `:k` (kernel) behind each event: `-e instructions:u,cycles:u`.";
    const VERBOSE: &str = "`pmctl stat -a --explain` shows what is written to the counters.";
    const NULL: &str = "`time COMMAND` tells the times alone.";
    const SYNC: &str = "Write `sync` before it.";
    const OPTIONS: [(&str, &str); 35] = [
        ("--metric-only", METRICS),
        ("--metric-no-group", METRICS),
        ("--smi-cost", METRICS),
        ("-T", METRICS),
        ("--transaction", METRICS),
        ("--no-merge", PARTS),
        ("--no-big-num", COMMAS),
        ("--scale", SCALING),
        ("--no-scale", SCALING),
        ("--all-user", MODES),
        ("--all-kernel", MODES),
        ("--verbose", VERBOSE),
        ("--null", NULL),
        ("--sync", SYNC),
        ("--pre", "Write the command before it."),
        ("--post", "Write the command behind it."),
        (
            "--interval-count",
            "`--timeout MS` ends after a time: 10 intervals of `-I 1000` are `--timeout 10000`.",
        ),
        ("--table", "`--json=v1` has the counts of each run."),
        ("--log-fd", "`-o /dev/fd/N` writes to descriptor N."),
        ("-M", METRICS),
        ("--metrics", METRICS),
        ("--topdown", METRICS),
        ("--per-node", PARTS),
        ("--per-die", PARTS),
        ("--per-cluster", PARTS),
        ("--per-cache", PARTS),
        ("-G", GROUPS),
        ("--cgroup", GROUPS),
        ("--for-each-cgroup", GROUPS),
        ("-B", COMMAS),
        ("--big-num", COMMAS),
        ("-v", VERBOSE),
        (
            "--append",
            "`-o - >>FILE` appends what goes to standard output.",
        ),
        ("-n", NULL),
        ("-S", SYNC),
    ];
    if answer.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    // `pmctl record` has other options.
    let is_stat = std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == "stat");
    let Some(ContextValue::String(name)) = answer.get(ContextKind::InvalidArg) else {
        return None;
    };
    OPTIONS
        .into_iter()
        .find(|(known, _)| is_stat && known == name)
}

/// Returns a command that perf has and pmctl has not, and what to type instead, if that is the mistake.
fn perfs_command(answer: &clap::Error) -> Option<(&'static str, &'static str)> {
    const COMMANDS: [(&str, &str); 3] = [
        (
            "top",
            "For a report of five seconds: `pmctl record -a --duration 5; pmctl report`.",
        ),
        (
            "annotate",
            "perf does it with a recording of pmctl's: `perf annotate -i perf.data`.",
        ),
        ("version", "The version is shown by `pmctl -V`."),
    ];
    let Some(ContextValue::String(name)) = answer.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    COMMANDS.into_iter().find(|(known, _)| known == name)
}

/// Returns the definition of the command line, of which `cargo xtask pmctl` makes the manual page.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

fn run(command: &Command) -> Result<u8> {
    match command {
        Command::Stat(args) => return stat::stat(args),
        Command::Record(args) => return record::record(args),
        Command::Wrap(args) => return wrap::wrap(args),
        _ => stdio::require_output()?,
    }
    let paged = match command {
        Command::Report(args) => !args.view.no_pager,
        Command::Script(args) => !args.view.no_pager,
        _ => false,
    };
    let mut output = Screen::open(paged)?;
    let code = show(command, &mut output)?;
    output.flush()?;
    Ok(code)
}

/// Runs a command that prints to standard output.
fn show(command: &Command, output: &mut Screen) -> Result<u8> {
    match command {
        Command::Stat(_) | Command::Record(_) | Command::Wrap(_) => {}
        Command::Report(args) => report::report(args, output)?,
        Command::Script(args) => script::script(args, output)?,
        Command::Flamegraph(args) => flamegraph::flamegraph(args, output)?,
        Command::Doctor(args) => return doctor::doctor(&machine(args.replay.as_deref())?, output),
        Command::Info(args) => info::info(&machine(args.replay.as_deref())?, output)?,
        Command::List(args) => {
            return list::list(args, &machine(args.look.replay.as_deref())?, output);
        }
        Command::Encode(args) => {
            encode::encode(args, &machine(args.look.replay.as_deref())?, output)?;
        }
        Command::Regs(args) => regs::regs(args, &Machine::here(), output)?,
    }
    Ok(0)
}

/// Returns the exit code of an error that has its own.
fn exit_code(error: &anyhow::Error) -> Option<u8> {
    if error.is::<exit::Usage>() {
        return Some(exit::USAGE);
    }
    error.downcast_ref::<CannotRun>().map(CannotRun::exit_code)
}

/// Returns the machine to look at.
fn machine(replay: Option<&Path>) -> Result<Machine> {
    replay.map_or_else(|| Ok(Machine::here()), Machine::recorded)
}

/// Returns whether the reader of the output has closed it, as `head` does.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}
