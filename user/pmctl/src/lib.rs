// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl`: counts what x86 CPUs do, through `/dev/perfmon`.
//!
//! This crate is a library only so that `fuzz-targets` can use [`fuzz`], and `cargo xtask` [`command`].

mod args;
mod commands;
mod events;
pub mod fuzz;
mod recording;
mod system;

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::CommandFactory;
use clap::error::ContextKind;
use nix::sys::signal::Signal;

use args::{Cli, Command, hints, usage};
use commands::{
    annotate, bench, diff, doctor, encode, export, flamegraph, info, list, record, regs, report,
    script, serve, stat, top, tui, vm, wrap,
};
use system::child::CannotRun;
use system::machine::Machine;
use system::screen::Screen;
use system::stdio::complain;
use system::{exit, signals, stdio};

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    signals::replace_inherited();
    let words: Vec<OsString> = env::args_os().collect();
    if vm::is_guest(&words) {
        return vm::guest();
    }
    let command = match args::parse_quickly(&words) {
        Some(command) => command,
        None => match Cli::parse_words(&words) {
            Ok(cli) => cli.command,
            // clap returns help and the version as errors, too.
            Err(error) => return print_clap_error(error, words.get(1..).unwrap_or_default()),
        },
    };
    let failure_code = match command {
        Command::Stat(_)
        | Command::Record(_)
        | Command::Bench(_)
        | Command::Wrap(_)
        | Command::Vm(_) => exit::NO_COUNT,
        _ => exit::FAILURE,
    };
    // For a recording, a closed pipe is an error, since the recording is then cut off.
    let is_record = matches!(command, Command::Record(_));
    match run_command(&command) {
        Ok(code) => ExitCode::from(code),
        Err(error) if is_broken_pipe(&error) && !is_record => signals::end_by(Signal::SIGPIPE),
        Err(error) => match error.downcast() {
            // An error of the command line that `pmctl vm` runs in the machine.
            Ok(clap_error) => {
                let inner_words: &[OsString] = match &command {
                    Command::Vm(args) => &args.words,
                    _ => &[],
                };
                print_clap_error(clap_error, inner_words)
            }
            Err(error) => {
                complain(format_args!("{error:#}"));
                ExitCode::from(exit_code(&error).unwrap_or(failure_code))
            }
        },
    }
}

/// Prints the message about a mistake in `words`, the arguments of the program: pmctl's own message if there is one,
/// otherwise clap's. Returns the exit code.
fn print_clap_error(mut clap_error: clap::Error, words: &[OsString]) -> ExitCode {
    let pmctl = Cli::command();
    let command = words.first().and_then(|word| word.to_str());
    let definition = command.and_then(|command| pmctl.find_subcommand(command));
    if definition.is_some_and(|definition| hints::suggests_hidden_option(&clap_error, definition)) {
        clap_error.remove(ContextKind::SuggestedArg);
    }
    let message = hints::attached_mode_message(&clap_error, words)
        .or_else(|| hints::perf_user_message(&clap_error, command.unwrap_or_default()))
        .or_else(|| usage::message(&clap_error, words, &pmctl));
    if let Some(message) = message {
        complain(message);
        return ExitCode::from(exit::USAGE);
    }
    let is_for_stdout = !clap_error.use_stderr();
    let result = match stdio::require_output() {
        Err(error) if is_for_stdout => Err(error),
        _ => clap_error.print().map_err(anyhow::Error::from),
    };
    match result {
        Ok(()) => ExitCode::from(u8::try_from(clap_error.exit_code()).unwrap_or(exit::USAGE)),
        Err(error) if is_broken_pipe(&error) => signals::end_by(Signal::SIGPIPE),
        Err(error) => {
            complain(format_args!("can't write help: {error}"));
            ExitCode::from(exit::FAILURE)
        }
    }
}

pub use args::hints::page as perf_options_page;

/// Returns the definition of the command line, from which `cargo xtask pmctl` makes the manual page.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

fn run_command(command: &Command) -> Result<u8> {
    match command {
        Command::Stat(args) => return stat::stat(args),
        Command::Record(args) => return record::record(args),
        Command::Bench(args) => return bench::bench(args),
        Command::Wrap(args) => return wrap::wrap(args),
        Command::Vm(args) => return vm::vm(args),
        Command::Serve(args) => return serve::serve(args),
        _ => stdio::require_output()?,
    }
    match command {
        Command::Report(args) if tui::is_wanted(args) => return tui::report(args),
        Command::Top(args) => return top::top(args),
        _ => {}
    }
    let may_page = match command {
        Command::Report(args) => !args.view.no_pager,
        Command::Script(args) => !args.view.no_pager,
        Command::Annotate(args) => !args.view.no_pager,
        Command::Diff(args) => !args.no_pager,
        _ => false,
    };
    let mut output = Screen::open(may_page)?;
    let result = run_printing(command, &mut output).and_then(|code| {
        output.flush()?;
        Ok(code)
    });
    match result {
        // The user has left the pager.
        Err(error) if output.is_paged() && is_broken_pipe(&error) => Ok(0),
        result => result,
    }
}

/// Runs a command that prints to standard output.
fn run_printing(command: &Command, output: &mut Screen) -> Result<u8> {
    match command {
        Command::Stat(_)
        | Command::Record(_)
        | Command::Bench(_)
        | Command::Wrap(_)
        | Command::Vm(_)
        | Command::Serve(_)
        | Command::Top(_) => {}
        Command::Report(args) => report::report(args, output)?,
        Command::Script(args) => script::script(args, output)?,
        Command::Flamegraph(args) => flamegraph::flamegraph(args, output)?,
        Command::Annotate(args) => annotate::annotate(args, output)?,
        Command::Diff(args) => return diff::diff(args, output),
        Command::Export(args) => export::export(args, output)?,
        Command::Doctor(args) => return doctor::doctor(&machine(args.replay.as_deref())?, output),
        Command::Info(args) => info::info(&machine(args.replay.as_deref())?, output)?,
        Command::List(args) => {
            return list::list(args, &machine(args.machine.replay.as_deref())?, output);
        }
        Command::Encode(args) => {
            encode::encode(args, &machine(args.machine.replay.as_deref())?, output)?;
        }
        Command::Regs(args) => regs::regs(args, &Machine::here(), output)?,
    }
    Ok(0)
}

/// Returns the exit code of an error that determines one itself.
fn exit_code(error: &anyhow::Error) -> Option<u8> {
    if error.is::<exit::Usage>() {
        return Some(exit::USAGE);
    }
    if let Some(failed) = error.downcast_ref::<exit::Failed>() {
        return Some(failed.code);
    }
    error.downcast_ref::<CannotRun>().map(CannotRun::exit_code)
}

/// Returns this machine, or with --replay the recorded one.
fn machine(replay: Option<&Path>) -> Result<Machine> {
    replay.map_or_else(|| Ok(Machine::here()), Machine::recorded)
}

/// Returns whether the reader of the output has closed it, as `head` does.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let error_kind = |cause: &(dyn Error + 'static)| {
        // An error of serde_json does not return the I/O error as its source.
        let json_kind = cause
            .downcast_ref()
            .and_then(serde_json::Error::io_error_kind);
        json_kind.or(cause.downcast_ref().map(io::Error::kind))
    };
    error
        .chain()
        .any(|cause| error_kind(cause) == Some(io::ErrorKind::BrokenPipe))
}

/// The examples in the project's README are compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
