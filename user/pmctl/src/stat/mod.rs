// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl stat`: counts while a command runs.
//!
//! A command and its children are counted by events of tasks, from the command's exec on: nothing of pmctl is in the
//! counts.
//!
//! With `-a` and `-C` the counters count whatever runs on the CPUs. The command is forked and waits, the counters
//! start, the command executes, and when it has ended they stop. So beside all that runs, the counts hold: the child's
//! last steps before exec and exec itself, and what pmctl executes from the first start to the last stop. In user mode
//! that is about 620 instructions with one counter and 56 more for each further one, the same for every command and for
//! every counter: they start in one order and stop in the same one, so that each counts the starting and stopping of
//! all the others, no more and no less. `selftests/pmctl/` holds it to that.

mod csv;
mod human;
mod json;
mod measure;
mod metric;
mod scope;
mod source;
mod summary;
mod tasks;

use std::fs::File;
use std::io::{self, Write};
use std::time::Duration;

use anyhow::{Context, Result};
use perfmon::{Counter, CounterId, Device, Session};

use measure::Plan;
use scope::{Place, PlaceKind, Scope};
use source::{Count, Counts, Source};
use summary::{Summary, mean_count};
use tasks::{Manner, Tasks};

use crate::child::{Command, Ending};
use crate::cli::{Cpus, Json, Stat};
use crate::events::{self, Event};
use crate::exit::{self, Usage};
use crate::explain::explain;
use crate::machine::Machine;
use crate::pmu::Pmu;
use crate::schedule::{CounterSupply, schedule};
use crate::stdio::{self, complain};

/// What is counted, and where.
pub(crate) struct Subject {
    /// The command, as one line; empty without one.
    command: String,
    scope: Scope,
    pub(crate) columns: Vec<Column>,
}

/// An event, of a part of what is counted.
pub(crate) struct Column {
    /// The part, if each has a count of its own.
    place: Option<Place>,
    pub(crate) event: Event,
    /// The counter, unless the driver chooses it.
    pub(crate) counter: Option<CounterId>,
}

impl Column {
    /// Returns the word for a missing count; `spoiled` is the one for a count that can't be trusted.
    fn missing(&self, spoiled: &'static str) -> &'static str {
        if self.event.is_absent() {
            "<not supported>"
        } else {
            spoiled
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
    counts: Counts,
    /// End of the command; `None` without one.
    ending: Option<Ending>,
    /// A signal asked for the end: no other run follows.
    last: bool,
}

impl Run {
    fn value(&self, column: usize) -> Option<u64> {
        self.counts[column].map(|count| count.value)
    }
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
        let column = |index: usize| runs.iter().map(move |run| run.value(index));
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

/// Returns how long the counter of a column ran, in ns: the mean over the runs.
fn running_time(runs: &[Run], column: usize) -> u64 {
    let ran = |run: &Run| run.counts[column].map_or(0, |count: Count| count.ran.as_nanos());
    let ran: u128 = runs.iter().map(ran).sum();
    u64::try_from(ran / runs.len().max(1) as u128).unwrap_or(u64::MAX)
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
    let scope = Scope::of(args, &online)?;
    let command = match &args.command[..] {
        [] => None,
        words => Some(Command::find(words)?),
    };
    let plan = Plan {
        command,
        watched: args.pid.iter().chain(&args.tid).copied().collect(),
        interval: args.interval,
        delay: args.delay,
    };

    let (columns, mut source): (Vec<Column>, Box<dyn Source>) = match &scope {
        Scope::Cpus { .. } => {
            let (columns, source) = of_cpus(args, events, &online, (&machine, &pmu))?;
            (columns, Box::new(source))
        }
        _ => {
            let (columns, source) = of_tasks(args, events, &scope)?;
            (columns, Box::new(source))
        }
    };
    let output = output(args)?;
    let subject = Subject {
        command: shown(args),
        scope,
        columns,
    };
    let mut report = report(args, &subject, output);
    count(
        args.repeat,
        (&plan, &subject),
        source.as_mut(),
        report.as_mut(),
    )
}

/// Events of tasks.
fn of_tasks(args: &Stat, events: Vec<Event>, scope: &Scope) -> Result<(Vec<Column>, Tasks)> {
    let device = Device::open().map_err(exit::with_help)?;
    let threads = match scope {
        Scope::Tasks { threads, .. } => threads.clone(),
        _ => Vec::new(),
    };
    let manner = Manner {
        inherit: !args.no_inherit,
        from_exec: threads.is_empty() && args.delay.is_none(),
    };
    let source = Tasks::new(device, events, (threads.clone(), args.per_thread), manner)?;
    let place = |thread: &tasks::Thread| {
        Some(Place {
            name: thread.name.clone(),
            kind: PlaceKind::Thread,
        })
    };
    let places = if args.per_thread {
        threads.iter().map(place).collect()
    } else {
        vec![None]
    };
    let column = |place: &Option<Place>, event: &Event| Column {
        place: place.clone(),
        event: event.clone(),
        counter: None,
    };
    let columns = places.iter().flat_map(|place| {
        source
            .events()
            .iter()
            .map(move |event| column(place, event))
    });
    Ok((columns.collect(), source))
}

/// The counters of all CPUs.
fn of_cpus(
    args: &Stat,
    events: Vec<Event>,
    online: &[usize],
    (machine, pmu): (&Machine, &Pmu),
) -> Result<(Vec<Column>, source::Machine)> {
    if events.iter().any(|event| event.group.is_some()) {
        return Err(Usage(
            "-a, -C: the driver reads the counters of CPUs one after the other, so that they make no group.\n\
             Write the events without the braces: all of them count all the time."
                .to_owned(),
        )
        .into());
    }
    let session = Session::open().map_err(exit::with_help)?;
    let properties = session.device().properties();
    let supply = CounterSupply {
        general: number(properties.general.number),
        // The driver tells how many, CPUID tells which.
        fixed: pmu.fixed_bitmap(),
    };
    let columns = columns(events, supply)?;
    let counter = |Column { event, counter, .. }: &Column| {
        let counter = counter.map(|id| session.counter(id, event.select_on(id)));
        counter.transpose()
    };
    let counters = columns
        .iter()
        .map(counter)
        .collect::<Result<Vec<Option<Counter>>, _>>()
        .map_err(exit::with_help)?;
    if args.explain {
        // Apart from the figures: those may be for a program to read.
        explain(&mut io::stderr(), &columns, &counters, (machine, pmu))?;
    }
    let all: Vec<usize> = match &args.cpu {
        Some(cpus) => cpus.iter().map(|cpu| cpu as usize).collect(),
        None => online.to_vec(),
    };
    let places: Vec<(Option<Place>, Option<Cpus>, usize)> = if args.per_core {
        let cores = scope::cores(&all).into_iter();
        cores
            .map(|(place, cpus)| (Some(place), Some(cpus.clone()), cpus.len()))
            .collect()
    } else {
        vec![(None, args.cpu.clone(), all.len())]
    };
    let mut source = source::Machine {
        counters,
        columns: Vec::new(),
    };
    let mut spread = Vec::new();
    for (place, cpus, number) in places {
        for (index, column) in columns.iter().enumerate() {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            source.columns.push((index, cpus.clone(), number));
            spread.push(Column {
                place: place.clone(),
                event: column.event.clone(),
                counter: column.counter,
            });
        }
    }
    Ok((spread, source))
}

/// A counter for each event that the CPU has.
fn columns(events: Vec<Event>, supply: CounterSupply) -> Result<Vec<Column>, Usage> {
    let present: Vec<Event> = events.iter().filter(|e| !e.is_absent()).cloned().collect();
    let places = schedule(&present, supply).map_err(|error| Usage(error.to_string()))?;
    let mut places = places.into_iter();
    let column = |event: Event| Column {
        place: None,
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
    repeat: u32,
    (plan, subject): (&Plan, &Subject),
    source: &mut dyn Source,
    report: &mut dyn Report,
) -> Result<u8> {
    let mut runs = Vec::new();
    for _ in 0..repeat {
        let run = measure::measure(plan, source, report)?;
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
        |(column, count): (&Column, &Option<Count>)| !column.event.is_absent() && count.is_none();
    let has_spoiled = |run: &Run| subject.columns.iter().zip(&run.counts).any(is_spoiled);
    if runs.iter().any(has_spoiled) {
        let message = match subject.scope {
            Scope::Cpus { .. } => perfmon::Cause::Untrusted,
            _ => perfmon::Cause::Missed,
        };
        complain(format_args!(
            "{message}\n{}",
            message.help().unwrap_or_default()
        ));
        return Ok(exit::NO_COUNT);
    }
    if subject
        .columns
        .iter()
        .any(|column| column.event.is_absent())
    {
        return Ok(exit::NO_COUNT);
    }
    let mut codes = runs
        .iter()
        .filter_map(|run| run.ending)
        .map(Ending::exit_code);
    Ok(codes.rfind(|code| *code != 0).unwrap_or(0))
}

/// Refuses what the driver can't do, and what has no meaning, with the reason.
fn refuse_the_impossible(args: &Stat) -> Result<(), Usage> {
    let of_cpus = args.all_cpus || args.cpu.is_some();
    let of_tasks = !args.pid.is_empty() || !args.tid.is_empty();
    let refused = [
        (
            args.detailed && of_cpus,
            "-d: the driver knows the cache events of a CPU for events of tasks only: leave out -a and -C.",
        ),
        (
            args.cpu.is_some() && args.all_cpus,
            "-a means all CPUs, -C some of them: give only one of the two.",
        ),
        (
            args.command.is_empty() && !of_cpus && !of_tasks,
            "there is nothing to run.\n\
             Give a command (`pmctl stat -- make`), or count a process (`pmctl stat -p PID`), or the whole system until \
             Ctrl-C: `pmctl stat -a`.",
        ),
        (
            args.command.is_empty() && args.repeat > 1,
            "-r: there is nothing to run more than once. Give a command: `pmctl stat -r 5 -- make`.",
        ),
        (
            args.per_core && !of_cpus,
            "--per-core: a task has no core of its own. Count the whole system: `pmctl stat -a --per-core`.",
        ),
        (
            args.per_thread && !of_tasks,
            "--per-thread: which threads a command will have is not known. Give a process that runs: \
             `pmctl stat -p PID --per-thread`.",
        ),
        (
            args.explain && !of_cpus,
            "--explain: the driver chooses the counters of a task, and switches them with it. With -a they are yours: \
             `pmctl stat -a --explain`.",
        ),
    ];
    match refused.into_iter().find(|(applies, _)| *applies) {
        Some((_, reason)) => Err(Usage(reason.to_owned())),
        None => Ok(()),
    }
}

/// The events that are asked for, or the usual ones.
fn wanted(args: &Stat, pmu: &Pmu) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    for text in &args.events {
        // The groups of each text have numbers of their own.
        let first = events.len();
        let found = events::events_or_absent(text, pmu);
        for event in found.map_err(|error| Usage(error.to_string()))? {
            let group = event.group.map(|group| first + group);
            events.push(Event { group, ..event });
        }
    }
    if args.events.is_empty() {
        events = events::default_events(pmu);
    }
    if args.detailed {
        events.extend(DETAILS.map(|(label, number)| Event::of_cache(label, number)));
    }
    Ok(events)
}

/// Events of -d: the cache in bits 7:0, loads in 15:8, and in 23:16 accesses or misses.
const DETAILS: [(&str, u32); 4] = [
    ("L1-dcache-loads", 0),
    ("L1-dcache-load-misses", 0x1_0000),
    ("LLC-loads", 2),
    ("LLC-load-misses", 0x1_0002),
];

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
            scope: Scope::Cpus {
                number: 2,
                only: None,
            },
            columns: columns(events),
        }
    }

    pub(super) fn run(counts: &[Option<u64>]) -> Run {
        let ran = Duration::from_secs(3);
        let count = |value: &Option<u64>| value.map(|value| Count { value, ran });
        Run {
            elapsed: Duration::from_micros(1_500_000),
            user: Duration::from_millis(1200),
            system: Duration::from_millis(300),
            counts: counts.iter().map(count).collect(),
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
