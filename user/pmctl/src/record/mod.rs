// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl record`: samples while a command runs.
//!
//! The driver records where the CPUs are, and knows nothing of tasks. [`story`] finds out what the tasks did
//! meanwhile; [`convert`] puts both together; the file is [perf's](crate::perfdata). Everything is kept in memory
//! until the end.

mod clock;
mod collect;
mod convert;
mod plan;
mod processes;
mod ring;
mod run;
mod sideband;
mod story;
mod symbols;
mod tasks;

use std::collections::{BTreeMap, HashSet};
use std::env;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::utsname::uname;
use perfmon::Session;
use perfmon::trace::Flags;

use collect::{Collected, Ready};
use convert::Converted;
use plan::Plan;
use story::{Story, Told};

use crate::child::{Command, Ending, Waiting};
use crate::cli::{Cpus, Record as Args};
use crate::exit::{self, Usage};
use crate::machine::Machine;
use crate::perfdata::{self, Body, Host, Loss, Notes, Record, Recording, Stamp};
use crate::pmu::Pmu;
use crate::signals::Signals;
use crate::text::{count, thousands};

/// Records, and gives the exit code.
pub(crate) fn record(args: &Args) -> Result<u8> {
    refuse_the_impossible(args)?;
    let machine = Machine::here();
    let pmu = Pmu::from_cpuid(machine.cpuid());
    let online = machine.online_cpus()?;
    if let Some(cpus) = &args.cpu {
        cpus.require_online(&online)?;
    }
    let online: Vec<u32> = online
        .into_iter()
        .map(u32::try_from)
        .collect::<Result<_, _>>()?;
    let command = match &args.command[..] {
        [] => None,
        words => Some(Command::find(words)?),
    };
    let session = Session::open().map_err(exit::with_help)?;
    let plan = Plan::new(args, &pmu, &session)?;
    // Before the work: whoever can't write learns it now.
    let file = open(&args.output)?;

    let signals = Signals::hold()?;
    let waiting = command
        .as_ref()
        .map(|command| Waiting::fork(command, signals.mask_before()))
        .transpose()?;
    let child = waiting.as_ref().map(Waiting::pid);
    let ready = Ready::new(&session, &plan.config, args.pages)?;
    let device = session.device();
    let mut story = Story::begin(&online, child, device);
    sideband::visit(&online)?;
    let run = run::run(args, ready, (&signals, waiting), || story.watch(device))?;

    let told = story.end();
    let converted = convert::convert(&run.collected.chunks, &plan, &told.clock, &told.attribution)?;
    let scope = Scope::new(args, child, &told);
    let (recording, dropped) = assemble(
        args,
        (&plan, &scope, online.len()),
        &run.collected,
        (told, converted),
    )?;
    file.set_len(0)?;
    let mut output = BufWriter::new(file);
    perfdata::write(&recording, &mut output)?;
    output.flush()?;
    summarize(args, &recording, (run.elapsed, dropped))?;

    if !recording.notes.is_whole() {
        return Ok(exit::NO_COUNT);
    }
    Ok(run.ending.map_or(0, Ending::exit_code))
}

fn refuse_the_impossible(args: &Args) -> Result<(), Usage> {
    let refused = [
        (
            args.cpu.is_some() && args.all_cpus,
            "-a is all CPUs and -C some of them: give one of the two.",
        ),
        (
            args.command.is_empty() && !args.all_cpus && args.cpu.is_none(),
            "there is nothing to run.\n\
             Give a command (`pmctl record -- make`), or record the machine until Ctrl-C: `pmctl record -a`.",
        ),
    ];
    match refused.into_iter().find(|(applies, _)| *applies) {
        Some((_, reason)) => Err(Usage(reason.to_owned())),
        None => Ok(()),
    }
}

/// The file to write, if it can be written; what is in it stays until there is something better.
fn open(path: &Path) -> Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(false);
    options
        .open(path)
        .with_context(|| format!("can't write {}", path.display()))
}

/// Which samples are kept.
enum Scope<'a> {
    All,
    Cpus(&'a Cpus),
    /// Those of these processes.
    Family(HashSet<u32>),
}

impl<'a> Scope<'a> {
    fn new(args: &'a Args, child: Option<u32>, told: &Told) -> Self {
        match (&args.cpu, child) {
            (Some(cpus), _) => Self::Cpus(cpus),
            (None, Some(child)) if !args.all_cpus && told.knows_tasks() => {
                Self::Family(tasks::descendants(child, &told.records))
            }
            _ => Self::All,
        }
    }

    fn keeps_sample(&self, stamp: &Stamp) -> bool {
        match self {
            Self::All => true,
            Self::Cpus(cpus) => cpus.iter().any(|cpu| cpu == stamp.cpu),
            Self::Family(pids) => pids.contains(&stamp.task.pid),
        }
    }

    /// Whether a record that is no sample is about something that samples may be of.
    fn keeps(&self, record: &Record) -> bool {
        let Self::Family(pids) = self else {
            return true;
        };
        match &record.body {
            Body::Map(map) => map.kernel || pids.contains(&map.task.pid),
            Body::Comm { task, .. } | Body::Exit { task, .. } => pids.contains(&task.pid),
            Body::Fork { child, .. } => pids.contains(&child.pid),
            _ => true,
        }
    }

    fn in_words(&self, args: &Args) -> String {
        match self {
            Self::All => "the machine".to_owned(),
            Self::Cpus(cpus) => format!("CPU {cpus}"),
            Self::Family(_) => {
                let words = args.command.iter().map(|word| word.to_string_lossy());
                words.collect::<Vec<_>>().join(" ")
            }
        }
    }
}

/// The recording, and how many samples were left out because they are of others.
fn assemble(
    args: &Args,
    (plan, scope, cpus): (&Plan, &Scope<'_>, usize),
    collected: &Collected,
    (told, converted): (Told, Converted),
) -> Result<(Recording, usize)> {
    let Converted {
        mut samples,
        totals,
        lost,
    } = converted;
    let all = samples.len();
    samples.retain(|sample| scope.keeps_sample(&sample.stamp));
    let dropped = all - samples.len();

    let losses = losses(&collected.flags, &lost);
    let end = samples.iter().map(|sample| sample.stamp.time).max();
    let mut records = told.records;
    records.retain(|record| scope.keeps(record));
    records.append(&mut samples);
    records.extend(
        losses
            .iter()
            .map(|loss| lost_record(loss, end.unwrap_or(0))),
    );
    // What a sample needs to be understood comes before it if both have the same time: the sort is stable.
    records.sort_by_key(|record| record.stamp.time);

    let (symbols, build_ids) = symbols::look_up(&records);
    let recording = Recording {
        events: plan.describe(args.branches),
        records,
        host: host(cpus)?,
        build_ids,
        notes: Notes {
            version: Notes::VERSION,
            scope: scope.in_words(args),
            totals,
            degraded: told.degraded,
            losses,
            gaps: collected.gaps,
            symbols,
        },
    };
    Ok((recording, dropped))
}

/// What is missing, by CPU.
fn losses(flags: &BTreeMap<u32, Flags>, lost: &BTreeMap<u32, u64>) -> Vec<Loss> {
    let loss = |(cpu, flags): (&u32, &Flags)| {
        let samples = lost.get(cpu).copied().unwrap_or(0);
        // A CPU that was never online has nothing to lose.
        let incomplete = flags.is_full() || flags.is_throttled() || flags.is_offline();
        incomplete.then(|| Loss {
            cpu: *cpu,
            reason: flags.to_string(),
            samples,
        })
    };
    flags.iter().filter_map(loss).collect()
}

/// The record by which perf tells its users that something is missing.
fn lost_record(loss: &Loss, time: u64) -> Record {
    Record {
        stamp: Stamp {
            time,
            cpu: loss.cpu,
            ..Stamp::default()
        },
        body: Body::Lost(loss.least()),
    }
}

fn host(online: usize) -> Result<Host> {
    let names = uname().context("can't ask for the kernel's release")?;
    let text = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
    let possible = fs::read_to_string("/sys/devices/system/cpu/possible").ok();
    let possible = possible.and_then(|list| crate::machine::parse_cpus(list.trim()));
    let online = u32::try_from(online)?;
    Ok(Host {
        name: text(names.nodename()),
        release: text(names.release()),
        architecture: text(names.machine()),
        cpus_possible: possible.map_or(Ok(online), |cpus| u32::try_from(cpus.len()))?,
        cpus_online: online,
        command_line: env::args_os().map(|word| text(&word)).collect(),
    })
}

/// What there is now, and what is missing, for the user.
fn summarize(
    args: &Args,
    recording: &Recording,
    (elapsed, dropped): (Duration, usize),
) -> Result<()> {
    let mut output = io::stderr().lock();
    let samples = recording.samples().count() as u64;
    let lost: u64 = recording.notes.losses.iter().map(Loss::least).sum();
    let size = fs::metadata(&args.output).map_or(0, |file| file.len());
    write!(
        output,
        "pmctl: {}: {} {}, {} lost, in {:.2} s on {}, {} KiB",
        args.output.display(),
        thousands(samples),
        if samples == 1 { "sample" } else { "samples" },
        thousands(lost),
        elapsed.as_secs_f64(),
        count(recording.host.cpus_online, "CPU"),
        thousands(size.div_ceil(1024)),
    )?;
    if dropped > 0 {
        write!(
            output,
            "; {} of other programs left out (-a keeps them)",
            thousands(dropped as u64)
        )?;
    }
    writeln!(output)?;
    perfdata::warn(&recording.notes, &mut output)?;
    if !recording.notes.is_whole() {
        writeln!(
            output,
            "Record less often (-c with a larger number), or with larger buffers (-m)."
        )?;
        if !args.rotate {
            writeln!(
                output,
                "With --rotate a buffer that gets full loses a moment instead of the rest."
            )?;
        }
    }
    Ok(())
}
