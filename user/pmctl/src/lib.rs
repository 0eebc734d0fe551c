// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl`: counts what x86 CPUs do, through `/dev/perfmon`.
//!
//! It is a library for the sake of [`fuzz`] only.

mod child;
mod cli;
mod decode;
mod doctor;
mod encode;
mod events;
mod exit;
mod explain;
mod flamegraph;
pub mod fuzz;
mod hypervisor;
mod info;
mod machine;
mod msr;
mod perfdata;
mod place;
mod pmu;
mod processes;
mod profile;
mod record;
mod regs;
mod report;
mod script;
mod signals;
mod stat;
mod stdio;
mod text;

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use child::CannotRun;
use cli::{Cli, Command};
use machine::Machine;
use stdio::complain;

/// The program.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Help and the version, too, which are no fault.
        Err(answer) => return print(&answer),
    };
    let failure = match cli.command {
        Command::Stat(_) | Command::Record(_) => exit::NO_COUNT,
        _ => exit::FAILURE,
    };
    match run(&cli.command) {
        Ok(code) => ExitCode::from(code),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            complain(format_args!("{error:#}"));
            ExitCode::from(exit_code(&error).unwrap_or(failure))
        }
    }
}

/// Prints what clap has to say, and gives the exit code.
fn print(answer: &clap::Error) -> ExitCode {
    match answer.print() {
        Ok(()) => ExitCode::from(u8::try_from(answer.exit_code()).unwrap_or(exit::USAGE)),
        Err(_) => ExitCode::from(exit::FAILURE),
    }
}

fn run(command: &Command) -> Result<u8> {
    match command {
        Command::Stat(args) => return stat::stat(args),
        Command::Record(args) => return record::record(args),
        _ => stdio::require_output()?,
    }
    let output = stdio::Named {
        output: io::stdout().lock(),
        name: "standard output".to_owned(),
    };
    let mut output = BufWriter::with_capacity(OUTPUT, output);
    let code = show(command, &mut output)?;
    output.flush()?;
    Ok(code)
}

/// How much of the output is written at once.
const OUTPUT: usize = 1 << 16;

/// The commands that look at something.
fn show(command: &Command, output: &mut impl Write) -> Result<u8> {
    match command {
        Command::Stat(_) | Command::Record(_) => {}
        Command::Report(args) => report::report(args, output)?,
        Command::Script(args) => script::script(args, output)?,
        Command::Flamegraph(args) => flamegraph::flamegraph(args, output)?,
        Command::Doctor(args) => return doctor::doctor(&machine(args.replay.as_deref())?, output),
        Command::Info(args) => info::info(&machine(args.replay.as_deref())?, output)?,
        Command::Encode(args) => {
            encode::encode(args, &machine(args.look.replay.as_deref())?, output)?;
        }
        Command::Regs(args) => regs::regs(args, &Machine::here(), output)?,
    }
    Ok(0)
}

/// The exit code of an error that has its own.
fn exit_code(error: &anyhow::Error) -> Option<u8> {
    if error.is::<exit::Usage>() {
        return Some(exit::USAGE);
    }
    error.downcast_ref::<CannotRun>().map(CannotRun::exit_code)
}

/// The machine to look at.
fn machine(replay: Option<&Path>) -> Result<Machine> {
    replay.map_or_else(|| Ok(Machine::here()), Machine::recorded)
}

/// Whether the reader of the output has seen enough, as `head` has.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}
