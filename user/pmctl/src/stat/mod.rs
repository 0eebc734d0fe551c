// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl stat`: counts while a command runs.
//!
//! The command is forked and waits, the counters start, the command executes, and when it has ended they
//! stop. So beside the command's work, the counts hold: the child's last steps before exec and exec itself,
//! and what pmctl executes from the first start to the last stop. In user mode that is about 720
//! instructions with one counter and 56 more for each further one, the same for every command and for
//! every counter: they start in one order and stop in the same one, so that each counts the starting and
//! stopping of all the others, no more and no less. `selftests/pmctl/` holds it to that.

mod csv;
mod human;
mod json;
mod measure;
mod metric;
mod summary;

use std::fs::File;
use std::io::{self, Write};
use std::time::Duration;

use anyhow::{Context, Result};
use perfmon::{Counter, CounterId, Session};

use summary::{Summary, mean_count};

use crate::child::{Command, Ending};
use crate::cli::{Cpus, Json, Stat};
use crate::events::{self, Event};
use crate::exit::{self, Usage};
use crate::explain::explain;
use crate::machine::Machine;
use crate::pmu::Pmu;
use crate::schedule::{CounterSupply, schedule};
use crate::stdio::{self, complain};

/// Events, command and CPUs of a measurement.
pub(crate) struct Subject {
    /// The command, as one line; empty without one.
    command: String,
    /// Number of CPUs that count.
    cpus: usize,
    /// The CPUs, if not all.
    only: Option<Cpus>,
    /// -a was given.
    all_cpus: bool,
    pub(crate) columns: Vec<Column>,
}

/// An event and its counter; `None` if the CPU does not have the event.
pub(crate) struct Column {
    pub(crate) event: Event,
    pub(crate) counter: Option<CounterId>,
}

impl Column {
    /// Returns the word for a missing count; `spoiled` is the one for a count that can't be trusted.
    fn missing(&self, spoiled: &'static str) -> &'static str {
        if self.counter.is_some() {
            spoiled
        } else {
            "<not supported>"
        }
    }
}

/// Result of one run.
#[derive(Debug)]
pub(crate) struct Run {
    elapsed: Duration,
    user: Duration,
    system: Duration,
    /// A count for each column; `None` if it can't be trusted.
    counts: Vec<Option<u64>>,
    /// End of the command; `None` without one.
    ending: Option<Ending>,
    /// A signal asked for the end: no other run follows.
    last: bool,
}

/// What several runs give together: for each column the mean of its counts, `None` if one of them can't be
/// trusted.
struct Figures {
    runs: usize,
    /// Rounded, and exact for a single run.
    counts: Vec<Option<u64>>,
    summaries: Vec<Option<Summary>>,
}

impl Figures {
    fn of(runs: &[Run]) -> Self {
        let columns = runs.first().map_or(0, |run| run.counts.len());
        let column = |index: usize| runs.iter().map(move |run| run.counts[index]);
        let floats = |index| column(index).map(|count| count.map(|count| count as f64));
        Self {
            runs: runs.len(),
            counts: (0..columns)
                .map(|index| mean_count(column(index)))
                .collect(),
            summaries: (0..columns)
                .map(|index| Summary::of(floats(index)))
                .collect(),
        }
    }

    fn means(&self) -> Vec<Option<f64>> {
        self.summaries
            .iter()
            .map(|summary| summary.map(|summary| summary.mean))
            .collect()
    }
}

/// Returns how long each counter ran, in ns: the sum over the CPUs, and the mean over the runs.
fn running_time(subject: &Subject, runs: &[Run]) -> u64 {
    let elapsed: u128 = runs.iter().map(|run| run.elapsed.as_nanos()).sum();
    let mean = elapsed / runs.len().max(1) as u128;
    u64::try_from(mean * subject.cpus as u128).unwrap_or(u64::MAX)
}

/// A way to show numbers.
trait Report {
    /// Prints the counts of an interval, which ended `at` after the start.
    fn interval(&mut self, at: Duration, run: &Run) -> Result<()>;
    /// Everything that was counted.
    fn end(&mut self, runs: &[Run]) -> Result<()>;
}

/// Counts, and gives the exit code.
pub(crate) fn stat(args: &Stat) -> Result<u8> {
    refuse_the_impossible(args)?;
    let machine = Machine::here();
    let pmu = Pmu::from_cpuid(machine.cpuid());
    let events = wanted(args, &pmu)?;

    let online = machine.online_cpus()?;
    if let Some(cpus) = &args.cpu {
        cpus.require_online(&online)?;
    }

    let command = match &args.command[..] {
        [] => None,
        words => Some(Command::find(words)?),
    };

    let session = Session::open().map_err(exit::with_help)?;
    let properties = session.device().properties();
    let supply = CounterSupply {
        general: number(properties.general.number),
        // The driver tells how many, CPUID tells which.
        fixed: pmu.fixed_bitmap(),
    };
    let columns = columns(events, supply)?;
    let counter = |Column { event, counter }: &Column| {
        let counter = counter.map(|id| session.counter(id, event.select_on(id)));
        counter.transpose()
    };
    let counters = columns
        .iter()
        .map(counter)
        .collect::<Result<Vec<Option<Counter>>, _>>()
        .map_err(exit::with_help)?;

    let output = output(args)?;
    if args.explain {
        // Apart from the figures: those may be for a program to read.
        explain(&mut io::stderr(), &columns, &counters, (&machine, &pmu))?;
    }
    let subject = Subject {
        command: shown(args),
        cpus: args.cpu.as_ref().map_or(online.len(), Cpus::len),
        only: args.cpu.clone(),
        all_cpus: args.all_cpus,
        columns,
    };
    let mut report = report(args, &subject, output);
    count(args, command.as_ref(), &counters, report.as_mut())
}

/// A counter for each event that the CPU has.
fn columns(events: Vec<Event>, supply: CounterSupply) -> Result<Vec<Column>, Usage> {
    let present: Vec<Event> = events.iter().filter(|e| !e.is_absent()).cloned().collect();
    let places = schedule(&present, supply).map_err(|error| Usage(error.to_string()))?;
    let mut places = places.into_iter();
    let column = |event: Event| Column {
        counter: if event.is_absent() {
            None
        } else {
            places.next()
        },
        event,
    };
    Ok(events.into_iter().map(column).collect())
}

/// Runs as often as it is wanted; the exit code.
fn count(
    args: &Stat,
    command: Option<&Command>,
    counters: &[Option<Counter>],
    report: &mut dyn Report,
) -> Result<u8> {
    let mut runs = Vec::new();
    for _ in 0..args.repeat {
        let run = measure::measure(
            command,
            (counters, args.cpu.as_ref()),
            args.interval,
            report,
        )?;
        let last = run.last || matches!(run.ending, Some(Ending::Killed(_)));
        runs.push(run);
        if last {
            break;
        }
    }
    report.end(&runs)?;
    let last = runs.last().and_then(|run| run.ending);
    if let Some(words) = last.and_then(Ending::in_words) {
        complain(words);
    }
    let is_spoiled =
        |(counter, count): (&Option<Counter>, &Option<u64>)| counter.is_some() && count.is_none();
    let has_spoiled = |run: &Run| counters.iter().zip(&run.counts).any(is_spoiled);
    if runs.iter().any(has_spoiled) {
        let message = perfmon::Cause::Untrusted;
        complain(format_args!(
            "{message}\n{}",
            message.help().unwrap_or_default()
        ));
        return Ok(exit::NO_COUNT);
    }
    if counters.iter().any(Option::is_none) {
        return Ok(exit::NO_COUNT);
    }
    let mut codes = runs
        .iter()
        .filter_map(|run| run.ending)
        .map(Ending::exit_code);
    Ok(codes.rfind(|code| *code != 0).unwrap_or(0))
}

/// Refuses what the driver can't do yet, with the reason.
fn refuse_the_impossible(args: &Stat) -> Result<(), Usage> {
    let refused = [
        (
            args.pid.is_some(),
            "-p: the driver counts CPUs, and can't count one process yet.\n\
             Sample it (`pmctl record -p`), count the whole system (`pmctl stat -a`), or use `perf stat -p`.",
        ),
        (
            args.detailed > 0,
            "-d: cache events differ by CPU model, and pmctl has no table of models yet.\n\
             Give them with -e by their numbers in the CPU's manual: `rUUEE` or `cpu/event=..,umask=../`.",
        ),
        (
            args.cpu.is_some() && args.all_cpus,
            "-a means all CPUs, -C some of them: give only one of the two.",
        ),
        (
            args.command.is_empty() && !args.all_cpus && args.cpu.is_none(),
            "there is nothing to run.\n\
             Give a command (`pmctl stat -- make`), or count the whole system until Ctrl-C: `pmctl stat -a`.",
        ),
        (
            args.command.is_empty() && args.repeat > 1,
            "-r: there is nothing to run more than once. Give a command: `pmctl stat -r 5 -- make`.",
        ),
    ];
    match refused.into_iter().find(|(applies, _)| *applies) {
        Some((_, reason)) => Err(Usage(reason.to_owned())),
        None => Ok(()),
    }
}

/// The events that are asked for, or the usual ones.
fn wanted(args: &Stat, pmu: &Pmu) -> Result<Vec<Event>> {
    if args.events.is_empty() {
        return Ok(events::default_events(pmu));
    }
    let lists = args
        .events
        .iter()
        .map(|text| events::events_or_absent(text, pmu));
    let lists = lists
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| Usage(error.to_string()))?;
    Ok(lists.into_iter().flatten().collect())
}

fn report<'a>(args: &Stat, subject: &'a Subject, output: Box<dyn Write>) -> Box<dyn Report + 'a> {
    match (args.field_separator, args.json) {
        (Some(separator), _) => Box::new(csv::Csv::new(subject, output, separator)),
        (None, Some(Json::Perf)) => Box::new(json::Perf::new(subject, output)),
        (None, Some(Json::V1)) => Box::new(json::V1::new(subject, output)),
        (None, None) => Box::new(human::Human::new(subject, output)),
    }
}

fn output(args: &Stat) -> Result<Box<dyn Write>> {
    let (output, name): (Box<dyn Write>, _) = match &args.output {
        None => {
            stdio::require_error()?;
            (Box::new(io::stderr()), "standard error".to_owned())
        }
        Some(path) if path.as_os_str() == "-" => {
            stdio::require_output()?;
            (Box::new(io::stdout()), "standard output".to_owned())
        }
        Some(path) => {
            let name = path.display().to_string();
            let file = File::create(path).with_context(|| format!("can't write {name}"))?;
            (Box::new(file), name)
        }
    };
    Ok(Box::new(stdio::Named { output, name }))
}

/// The command as one line.
fn shown(args: &Stat) -> String {
    args.command
        .iter()
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

/// A number of counters; no CPU has as many as 255.
fn number(counters: u16) -> u8 {
    u8::try_from(counters).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod testing {
    //! Subjects and runs for the tests of the reports.

    use super::*;

    /// Columns for these events on an Intel PMU with 8 general and 3 fixed counters.
    pub(super) fn columns(text: &str) -> Vec<Column> {
        let events = events::events_or_absent(text, &Pmu::for_tests()).expect("they exist");
        let supply = CounterSupply {
            general: 8,
            fixed: 0b111,
        };
        super::columns(events, supply).expect("there is room")
    }

    pub(super) fn subject(events: &str) -> Subject {
        Subject {
            command: "ls -l".to_owned(),
            cpus: 2,
            only: None,
            all_cpus: false,
            columns: columns(events),
        }
    }

    pub(super) fn run(counts: &[Option<u64>]) -> Run {
        Run {
            elapsed: Duration::from_micros(1_500_000),
            user: Duration::from_millis(1200),
            system: Duration::from_millis(300),
            counts: counts.to_vec(),
            ending: Some(Ending::Exit(0)),
            last: false,
        }
    }

    /// What a report made by `make` writes.
    pub(super) fn written(make: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut bytes = Vec::new();
        make(&mut bytes);
        String::from_utf8(bytes).expect("it is text")
    }
}
