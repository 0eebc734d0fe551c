// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl bench --suite`: compares saved numbers with those of another file, without a new run.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use perfmon_compare::comparison::{Baseline, Comparison};
use perfmon_compare::document::{self, BenchDocument};
use perfmon_compare::{listing, markdown};

use super::conditions::{check_conditions, check_conditions_are_counted};
use super::history::History;
use super::{csv, files, page, plot};
use crate::args::{Bench, BenchFormat};
use crate::system::exit::Usage;
use crate::system::screen::Screen;
use crate::system::stdio::complain;
use crate::system::text::printable;

/// The files of a suite, and the baseline that the last file is compared with.
struct Suite {
    history: History,
    baseline: Baseline,
}

/// Shows the numbers of the last file, compared with the baseline or else with the first file. Returns the exit code.
pub(super) fn show(args: &Bench) -> Result<u8> {
    let suite = Suite::read(args)?;
    let measured = suite.history.last();
    check_conditions_are_counted(args, &measured.events)?;
    let has_baseline = args.baseline.is_some() || args.suite.len() > 1;
    if let Some(condition) = args
        .fail_if
        .iter()
        .find(|c| c.is_relative() && !has_baseline)
    {
        return Err(Usage(format!(
            "--fail-if '{}': there is nothing to compare {} with.\nName an earlier file before it, or --baseline FILE.",
            condition.text,
            args.suite[0].display()
        ))
        .into());
    }
    let comparison = Comparison {
        measured,
        baseline: Some(&suite.baseline),
    };
    let result = print(args, &suite, &comparison);
    let code = check_conditions(args, &comparison);
    result?;
    Ok(code)
}

impl Suite {
    fn read(args: &Bench) -> Result<Self> {
        let read = |option, file: &Path| -> Result<BenchDocument> {
            let mut document = files::read(option, file)?;
            keep_events(&mut document, &args.events).map_err(|unknown| {
                Usage(format!(
                    "-e: {} has no event `{unknown}`, only {}.",
                    file.display(),
                    document.events.join(", ")
                ))
            })?;
            Ok(document)
        };
        let documents = args.suite.iter().map(|file| read("--suite", file));
        let documents = documents.collect::<Result<Vec<_>>>()?;
        let (first, last) = (&documents[0], &documents[documents.len() - 1]);
        let commands = last.commands.iter();
        let names: Vec<&str> = commands.map(|entry| &entry.command[..]).collect();
        let baseline = match &args.baseline {
            Some(file) => Baseline::of_names((file, read("--baseline", file)?), &names),
            None if documents.len() > 1 => {
                Baseline::of_names((&args.suite[0], first.clone()), &names)
            }
            None => Baseline::empty(last),
        };
        Ok(Self {
            history: History::new(&args.suite, documents),
            baseline,
        })
    }
}

/// Keeps only the named events in a document, in the order of the names; without names, all events.
///
/// # Errors
/// The first name that the document lacks.
fn keep_events(document: &mut BenchDocument, names: &[String]) -> Result<(), String> {
    if names.is_empty() {
        return Ok(());
    }
    // An event with parameters has commas in its name, so the whole name is looked for first.
    let is_known = |name: &&str| document.index(name).is_some();
    let names = names.iter().map(|name| &name[..]);
    let names = names.flat_map(|name| {
        if is_known(&name) {
            vec![name]
        } else {
            name.split(',').collect()
        }
    });
    let names: Vec<&str> = names.collect();
    if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
        return Err((*unknown).to_owned());
    }
    let indices: Vec<usize> = names
        .iter()
        .filter_map(|name| document.index(name))
        .collect();
    document.events = names.into_iter().map(str::to_owned).collect();
    for entry in &mut document.commands {
        entry.values = indices
            .iter()
            .map(|index| entry.values[*index].clone())
            .collect();
    }
    Ok(())
}

/// Prints the numbers as a table, or in the format of --export.
fn print(args: &Bench, suite: &Suite, comparison: &Comparison<'_>) -> Result<()> {
    let mut output = Screen::open(false)?;
    let measured = comparison.measured;
    match args.export {
        None => {
            let baseline = suite.baseline.file.to_string_lossy();
            let baseline = Some(&baseline[..]).filter(|file| !file.is_empty());
            listing::write_heading(suite.history.last_file(), measured, baseline, &mut output)?;
            listing::write(comparison, &mut output)?;
        }
        Some(BenchFormat::Json) => document::write(measured, &mut output)?,
        Some(BenchFormat::Csv) => csv::write(comparison, &mut output)?,
        Some(BenchFormat::Markdown) => markdown::write(comparison, &mut output)?,
        Some(BenchFormat::Html) => page::write(&suite.history, comparison, &mut output)?,
        Some(BenchFormat::Svg) => {
            let event = suite.history.first_count();
            writeln!(output, "{}", plot::draw_changes(&suite.history, event)?)?;
        }
    }
    output.flush()?;
    report_uncompared_benchmarks(suite, comparison);
    Ok(())
}

/// Reports the benchmarks that only the baseline has, and those that only the last file has.
fn report_uncompared_benchmarks(suite: &Suite, comparison: &Comparison<'_>) {
    let names = |names: &mut dyn Iterator<Item = &str>| {
        let names: Vec<String> = names.map(printable).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let (baseline, last) = (suite.baseline.file.display(), suite.history.last_file());
    if let Some(missing) = names(&mut suite.baseline.missing(comparison.measured)) {
        complain(format_args!(
            "{baseline} has benchmarks that {last} lacks: {missing}"
        ));
    }
    if let Some(new) = names(&mut comparison.new_commands()) {
        complain(format_args!(
            "{last} has benchmarks that {baseline} lacks, which are not compared: {new}"
        ));
    }
}

#[cfg(test)]
mod tests {
    use perfmon_compare::testing;

    use super::*;

    #[test]
    fn only_the_named_events_stay_in_their_order() {
        let mut document = testing::document();
        let names = ["instructions:u,time".to_owned()];
        keep_events(&mut document, &names).expect("it has both");
        assert_eq!(document.events, ["instructions:u", "time"]);
        assert_eq!(document.commands[0].values[0], [1000, 1000, 1000]);
        let unknown = keep_events(&mut document, &["time".to_owned(), "cycles".to_owned()]);
        assert_eq!(unknown, Err("cycles".to_owned()));
        assert_eq!(document.events.len(), 2, "nothing is changed");
    }

    #[test]
    fn the_name_of_an_event_may_have_commas() {
        let mut document = testing::document();
        document.events[1] = "cpu/event=0xc0,umask=0/u".to_owned();
        let names = ["cpu/event=0xc0,umask=0/u".to_owned()];
        keep_events(&mut document, &names).expect("it has it");
        assert_eq!(document.events, names);
    }
}
