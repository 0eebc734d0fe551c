// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl bench`: compares commands by any counter, over several runs.

mod conditions;
mod csv;
mod files;
mod history;
mod page;
mod plot;
mod runs;
mod suite;
mod table;

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use perfmon::Modes;
use perfmon::spec::{self, EventSpec};
use perfmon_compare::comparison::{Baseline, Comparison};
use perfmon_compare::condition::TIME;
use perfmon_compare::document::{self, BenchDocument, first_repeated};
use perfmon_compare::markdown;

use conditions::{check_conditions, check_conditions_are_counted};

use crate::args::{Bench, BenchFormat};
use crate::commands::info;
use crate::system::exit::Usage;
use crate::system::machine::Machine;
use crate::system::pmu;
use crate::system::screen::Screen;
use crate::system::signals::BlockedSignals;
use crate::system::stdio::{complain, require_output};
use crate::system::whole_file::WholeFile;

/// Runs the commands, shows their numbers, and returns the exit code.
pub(crate) fn bench(args: &Bench) -> Result<u8> {
    require_output()?;
    if !args.suite.is_empty() {
        return suite::show(args);
    }
    refuse_suite_formats(args)?;
    let machine = Machine::here();
    let pmu = pmu::of_machine(&machine);
    let events = if args.events.is_empty() {
        // The user has not named these events, so those that the CPU lacks are left out.
        let names: &[&str] = if args.emulated {
            &EMULATED_DEFAULT_EVENTS
        } else {
            &DEFAULT_EVENTS
        };
        names
            .iter()
            .filter_map(|name| spec::parse(name, &pmu).ok())
            .flatten()
            .collect()
    } else {
        spec::parse(&args.events.join(","), &pmu).map_err(|error| Usage(error.to_string()))?
    };
    let commands = runs::find_commands(args)?;
    let names: Vec<&str> = commands.iter().map(|command| &command.name[..]).collect();
    let baseline = args.baseline.as_deref();
    let baseline = baseline
        .map(|file| {
            let baseline = Baseline::of_commands((file, files::read("--baseline", file)?), &names);
            baseline.map_err(|error| anyhow::Error::from(Usage(error.to_string())))
        })
        .transpose()?;
    let has_nothing_to_compare = baseline.is_none() && names.len() == 1;
    if let Some(condition) = args
        .fail_if
        .iter()
        .find(|c| c.is_relative() && has_nothing_to_compare)
    {
        return Err(Usage(format!(
            "--fail-if '{}': there is nothing to compare {} with.\nGive another COMMAND before it, or --baseline FILE.",
            condition.text, names[0]
        ))
        .into());
    }
    let labels: Vec<String> = events.iter().map(|event| event.label.clone()).collect();
    check_conditions_are_counted(args, &labels)?;
    refuse_same_names(args, &names, &labels)?;
    let save = args.save.as_deref().map(WholeFile::create).transpose()?;

    // Signals are held until the numbers are saved, so that a second Ctrl-C does not lose them.
    let signals = BlockedSignals::hold()?;
    let run_result = runs::run_all(args, &events, commands, &signals);
    let code = run_result.and_then(|(events, mut entries)| {
        let labels = events.iter().map(|event| event.label.clone());
        let mut names: Vec<_> = [TIME.to_owned()].into_iter().chain(labels).collect();
        if args.emulated {
            let names_time = args.fail_if.iter().any(|condition| condition.event == TIME);
            if names_time || events.iter().any(|event| counts_cycles(&event.label)) {
                complain(EMULATED_TIMES);
            }
            if !names_time {
                names.remove(0);
                for entry in &mut entries {
                    entry.values.remove(0);
                }
            }
        }
        let document = BenchDocument::new(info::brand(&machine), names, entries)
            .with_user_mode_events(user_mode_events(&events));
        show_and_save(args, &document, baseline.as_ref(), save)
    });
    signals.discard_pending();
    code
}

/// Shows and saves the numbers, and returns the exit code.
fn show_and_save(
    args: &Bench,
    measured: &BenchDocument,
    baseline: Option<&Baseline>,
    save: Option<WholeFile>,
) -> Result<u8> {
    let comparison = Comparison { measured, baseline };
    let result = print_numbers(args, &comparison);
    let code = check_conditions(args, &comparison);
    // Saves the numbers even if the table could not be written, as to a pipe without a reader.
    if let Some(mut file) = save {
        if code != 0 && is_own_baseline(args) {
            complain(
                "--save: nothing is written, since the file is the baseline and a condition of --fail-if holds, or can't be \
                 checked. Leave out --fail-if to make these numbers the baseline",
            );
        } else {
            document::write(measured, &mut file)?;
            file.finish()?;
        }
    }
    result?;
    Ok(code)
}

/// Prints the numbers as a table, or in the format of --export.
fn print_numbers(args: &Bench, comparison: &Comparison<'_>) -> Result<()> {
    let mut output = Screen::open(false)?;
    match args.export {
        None => table::write(comparison, &mut output)?,
        Some(BenchFormat::Json) => document::write(comparison.measured, &mut output)?,
        Some(BenchFormat::Csv) => csv::write(comparison, &mut output)?,
        Some(BenchFormat::Markdown) => markdown::write(comparison, &mut output)?,
        Some(BenchFormat::Html | BenchFormat::Svg) => {
            unreachable!("refuse_suite_formats has refused it")
        }
    }
    Ok(output.flush()?)
}

/// Returns whether --save and --baseline name the same file. Then numbers for which a condition holds must not be
/// saved, since they would become the next baseline.
fn is_own_baseline(args: &Bench) -> bool {
    let canonical_path =
        |path: &Option<PathBuf>| path.as_ref().and_then(|path| fs::canonicalize(path).ok());
    let saved_path = canonical_path(&args.save);
    saved_path.is_some() && saved_path == canonical_path(&args.baseline)
}

/// The events that are counted without -e. The first event has the same count in each run of a
/// program that always does the same work.
const DEFAULT_EVENTS: [&str; 4] = ["instructions:u", "cycles", "branches", "branch-misses"];

/// The events that are counted without -e in an emulated machine: those whose counts are the same on a real processor.
const EMULATED_DEFAULT_EVENTS: [&str; 2] = ["instructions:u", "branches:u"];

/// The warning about times and cycles in an emulated machine.
const EMULATED_TIMES: &str = "time and cycles are those of the emulated machine, which has no caches and no pipeline: they say \
                              nothing about a processor. Compare instructions, or measure without `vm`.";

/// Returns whether an event of this name counts cycles.
fn counts_cycles(label: &str) -> bool {
    label.contains("cycles")
}

/// Fails if --export names a format that only --suite has.
fn refuse_suite_formats(args: &Bench) -> Result<(), Usage> {
    match args.export {
        Some(BenchFormat::Html | BenchFormat::Svg) => Err(Usage(
            "--export html and svg show saved numbers. Save them with --save, and name the files with --suite."
                .to_owned(),
        )),
        _ => Ok(()),
    }
}

/// Fails if two commands have one name and are to be saved, or if two events have one name and are to be saved or
/// compared: a reader of the file would take the first of them.
fn refuse_same_names(args: &Bench, commands: &[&str], labels: &[String]) -> Result<(), Usage> {
    let is_saved = args.save.is_some() || matches!(args.export, Some(BenchFormat::Json));
    let option = if args.save.is_some() {
        "--save"
    } else {
        "--export json"
    };
    if let Some(name) = first_repeated(commands.iter().copied()).filter(|_| is_saved) {
        return Err(Usage(format!(
            "{option}: two commands are called `{name}`, so the file would not say which numbers are whose.\n\
             Leave out {option}; or save one, `pmctl bench --save FILE -- {name}`, and compare the other with it, by --baseline FILE."
        )));
    }
    let is_compared = args.baseline.is_some() || !args.fail_if.is_empty();
    let labels = labels.iter().map(|label| &label[..]);
    match first_repeated(labels).filter(|_| is_saved || is_compared) {
        Some(name) => Err(Usage(format!(
            "-e: two events are called `{name}`, so they can't be saved or compared by their names.\n\
             Leave one out, or give it another name, as in cpu/event=0xc0,name=mine/u."
        ))),
        None => Ok(()),
    }
}

/// Returns the names of the events that count only user mode. The name need not show the mode:
/// `cpu/event=0xc0,name=mine/u` has the name `mine`.
fn user_mode_events(events: &[EventSpec]) -> Vec<String> {
    let of_user = events.iter().filter(|event| event.modes == Modes::User);
    of_user.map(|event| event.label.clone()).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};
    use crate::system::pmu::testing;

    #[test]
    fn what_is_saved_or_compared_by_name_has_a_name_of_its_own() {
        let refused = |options: &[&str], commands: &[&str], events: &[&str]| {
            let words = [&["pmctl", "bench"][..], options, &["true"]].concat();
            let cli = Cli::try_parse_from(words).expect("it is well formed");
            let Command::Bench(args) = cli.command else {
                panic!("it is bench");
            };
            let labels: Vec<String> = events.iter().map(|event| (*event).to_owned()).collect();
            let result = refuse_same_names(&args, commands, &labels);
            result.err().map(|error| error.to_string())
        };
        let (twice, once) = (&["./x", "./x"][..], &["./x", "./y"][..]);
        let save = &["--save", "a.json"][..];
        assert_eq!(refused(&[], twice, &["a", "a"]), None);
        assert_eq!(refused(save, once, &["a", "b"]), None);
        let error = refused(save, twice, &["a"]).expect("the file would have one name twice");
        assert!(
            error.starts_with("--save: two commands are called `./x`"),
            "{error}"
        );
        assert!(refused(&["--export", "json"], twice, &["a"]).is_some());
        for options in [save, &["--baseline", "a.json"], &["--fail-if", "a>1"]] {
            let error = refused(options, once, &["a", "b", "a"]).expect("they have one name");
            assert!(
                error.starts_with("-e: two events are called `a`"),
                "{error}"
            );
        }
    }

    #[test]
    fn the_mode_comes_from_the_event_and_not_from_its_name() {
        let text =
            "instructions:u,cpu/event=0xc0,name=mine/u,cpu/event=0xc0,name=kernel:u/k,cycles";
        let events = spec::parse(text, &testing::intel()).expect("the CPU has them");
        assert_eq!(user_mode_events(&events), ["instructions:u", "mine"]);
    }
}
