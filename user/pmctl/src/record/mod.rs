// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl record`: samples while a command runs.
//!
//! The driver records where the CPUs are, and knows nothing of tasks. [`story`] finds out what the tasks did
//! meanwhile; [`stream`] puts both together and writes [perf's file](crate::perfdata) while it is recorded.

mod clock;
mod collect;
mod convert;
mod plan;
mod processes;
mod ring;
mod run;
mod scope;
mod sideband;
mod story;
mod stream;
mod symbols;
mod target;
mod tasks;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::time::Duration;
use std::{env, mem};

use anyhow::{Context, Result};
use nix::sys::utsname::uname;
use perfmon::Session;
use perfmon::trace::Flags;
use perfmon_core::abi;

use collect::{Collected, Ready};
use plan::Plan;
use scope::Scope;
use story::Story;
use stream::{Ended, Stream};
use target::Target;

use crate::child::{Command, Ending, Waiting};
use crate::cli::Record as Args;
use crate::exit::{self, Usage};
use crate::machine::Machine;
use crate::perfdata::{self, Body, Finished, Host, Loss, Notes, Record, Stamp};
use crate::pmu::Pmu;
use crate::signals::Signals;
use crate::stdio::complain;
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
    if let Some(pid) = args.pid.filter(|pid| !processes::is_alive(*pid)) {
        return Err(Usage(format!("-p: there is no process {pid}.")).into());
    }
    let session = Session::open().map_err(exit::with_help)?;
    let plan = Plan::new(args, &pmu, &session)?;
    // Before the work: whoever can't write learns it now.
    let target = Target::open(&args.output)?;
    let cannot_write = || format!("can't write {}", target.name());

    let signals = Signals::hold()?;
    let waiting = command
        .as_ref()
        .map(|command| Waiting::fork(command, signals.mask_before()))
        .transpose()?;
    let process = waiting.as_ref().map(Waiting::pid).or(args.pid);
    let device = session.device();
    // Before the buffers, whose size can be less: perf's rings count against the same limit.
    let mut story = Story::begin(&online, process, device);
    let ready = Ready::new(&session, &plan.config, args.pages)?;
    sideband::visit(&online)?;
    let scope = Scope::new(args, process, story.knows_tasks());
    let file = target.begin().with_context(cannot_write)?;
    let stream = Stream::new(&plan, scope, args.branches, file);
    let mut stream = stream.with_context(cannot_write)?;
    let run = run::run(args, ready, (&signals, waiting), |chunks| {
        // The driver's records first: so all that happened before them is told.
        story.watch(device);
        stream.take(&chunks, &mut story)?;
        stream.write(&mut story).with_context(cannot_write)
    })?;

    let mut ended = stream.end(&mut story).with_context(cannot_write)?;
    let mut notes = notes(args, &plan, &mut ended, &run.collected, story.degraded());
    let last = mem::take(&mut ended.counted.last);
    let lost = |loss| lost_record(loss, &last);
    ended
        .append(notes.losses.iter().map(lost))
        .with_context(cannot_write)?;
    let others = ended.counted.others;
    let host = host(online.len())?;
    let Finished {
        samples,
        size,
        output,
    } = ended.finish(&host, &mut notes).with_context(cannot_write)?;
    target.end(output).with_context(cannot_write)?;
    let written = Written {
        name: target.name(),
        samples,
        size,
        others,
        elapsed: run.elapsed,
        flags: run
            .collected
            .flags
            .values()
            .copied()
            .fold(Flags::default(), union),
    };
    // The recording is whole without it.
    let _ = summarize(args, &host, &notes, &written);

    if let Some(words) = run.ending.and_then(Ending::in_words) {
        complain(words);
    }
    if !notes.is_whole() {
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
            args.frequency.is_some(),
            "-F: the driver makes a sample each so many events, and knows no frequency.\n\
             Give the number with -c: how often the event happens in a second, divided by the samples wanted.",
        ),
        (
            args.call_graph.is_some(),
            "-g: the driver records where a CPU is, and not who called: there are no call chains yet.\n\
             `pmctl record -b` records the last branches; `perf record -g` records call chains.",
        ),
        (
            args.command.is_empty() && !args.all_cpus && args.cpu.is_none() && args.pid.is_none(),
            "there is nothing to run.\n\
             Give a command (`pmctl record -- make`) or a process (-p PID), or record the machine until Ctrl-C (-a).",
        ),
    ];
    match refused.into_iter().find(|(applies, _)| *applies) {
        Some((_, reason)) => Err(Usage(reason.to_owned())),
        None => Ok(()),
    }
}

/// What is to be said of a recording, once it has ended.
fn notes(
    args: &Args,
    plan: &Plan,
    ended: &mut Ended<'_>,
    collected: &Collected,
    degraded: Vec<String>,
) -> Notes {
    let ids = plan.events.iter().map(|event| event.id);
    Notes {
        version: Notes::VERSION,
        scope: ended.scope.in_words(args),
        totals: ids.map(|id| ended.counted.totals.on_all(id)).collect(),
        degraded,
        losses: losses(&collected.flags, &ended.counted.lost),
        gaps: collected.gaps,
        // It is known when the file is finished.
        cut: None,
        symbols: mem::take(&mut ended.symbols),
    }
}

/// What is missing, by CPU.
fn losses(flags: &BTreeMap<u32, Flags>, lost: &BTreeMap<u32, u64>) -> Vec<Loss> {
    /// A CPU that was never online has nothing to lose.
    const NOTHING: u32 = abi::PERFMON_BUFFER_FLAG_NOT_TRACED;
    /// What happened meanwhile is in the counts.
    const COUNTED: u32 = abi::PERFMON_BUFFER_FLAG_THROTTLED;
    let loss = |(cpu, flags): (&u32, &Flags)| {
        let bits = flags.bits() & !NOTHING;
        (bits != 0).then(|| Loss {
            cpu: *cpu,
            reason: flags.to_string(),
            samples: lost.get(cpu).copied().unwrap_or(0),
            counted: bits & !COUNTED == 0,
        })
    };
    flags.iter().filter_map(loss).collect()
}

fn union(a: Flags, b: Flags) -> Flags {
    Flags::from_bits(a.bits() | b.bits())
}

/// The record by which perf tells its users that something is missing, behind the CPU's last sample.
fn lost_record(loss: &Loss, last: &BTreeMap<u32, u64>) -> Record {
    Record {
        stamp: Stamp {
            time: last.get(&loss.cpu).copied().unwrap_or(0),
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

/// What there is now.
struct Written {
    /// Of the file.
    name: String,
    /// What happened to any CPU's buffer.
    flags: Flags,
    samples: u64,
    /// In bytes.
    size: u64,
    /// Samples that are not there because they are of others.
    others: u64,
    elapsed: Duration,
}

/// Tells the user what there is now, and what is missing.
fn summarize(args: &Args, host: &Host, notes: &Notes, written: &Written) -> io::Result<()> {
    let mut output = io::stderr().lock();
    let known: u64 = notes.losses.iter().map(|loss| loss.samples).sum();
    let lost = if notes.counted_all() && notes.cut.is_none() {
        thousands(known)
    } else {
        "an unknown number".to_owned()
    };
    write!(
        output,
        "pmctl: {}: {}, {lost} lost, in {:.2} s on {}, {} KiB",
        written.name,
        count(written.samples, "sample"),
        written.elapsed.as_secs_f64(),
        count(host.cpus_online, "CPU"),
        thousands(written.size.div_ceil(1024)),
    )?;
    if written.others > 0 {
        write!(
            output,
            "; {} of other programs left out (-a keeps them)",
            thousands(written.others)
        )?;
    }
    writeln!(output)?;
    perfdata::warn(notes, &mut output)?;
    for line in advice(written.flags, args.rotate) {
        writeln!(output, "{line}")?;
    }
    if written.samples == 0 && notes.is_whole() {
        writeln!(
            output,
            "No event happened {} times: give a smaller number with -c.",
            thousands(args.period.into())
        )?;
    }
    Ok(())
}

/// What to do about what is missing.
fn advice(flags: Flags, rotates: bool) -> Vec<&'static str> {
    let table = [
        (
            flags.is_full(),
            "A buffer was full: give larger ones (-m), or a larger number with -c.",
        ),
        (
            flags.is_full() && !rotates,
            "With --rotate a buffer that gets full loses a moment instead of the rest.",
        ),
        (
            flags.is_throttled(),
            "There were too many samples in a second: give a larger number with -c.",
        ),
        (
            flags.is_lost(),
            "Something else changed the PMU's registers: the kernel's log may say what.",
        ),
        (
            flags.is_offline(),
            "A CPU went offline: what it did until then is in the file.",
        ),
    ];
    let applies = table.into_iter().filter(|(applies, _)| *applies);
    applies.map(|(_, line)| line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_throttled_is_counted() {
        let losses = |bits: u32, samples| {
            let flags = BTreeMap::from([(3, Flags::from_bits(bits))]);
            losses(&flags, &BTreeMap::from([(3, samples)]))
        };
        let (full, throttled) = (1, 2);
        let (offline, not_traced) = (4, 8);
        let (lost, unknown) = (abi::PERFMON_BUFFER_FLAG_LOST, 1 << 20);
        assert!(losses(0, 0).is_empty() && losses(not_traced, 0).is_empty());
        for (bits, counted) in [
            (throttled, true),
            (full, false),
            (full | throttled, false),
            (offline, false),
            (lost, false),
            (unknown, false),
        ] {
            let losses = losses(bits, 7);
            assert_eq!(
                (losses[0].samples, losses[0].counted),
                (7, counted),
                "{bits}"
            );
        }
    }

    #[test]
    fn advice_is_about_what_happened() {
        let advice = |bits, rotates| advice(Flags::from_bits(bits), rotates).join(" ");
        assert_eq!(advice(0, false), "");
        assert!(advice(1, false).contains("-m") && advice(1, false).contains("--rotate"));
        assert!(!advice(1, true).contains("--rotate"));
        assert!(advice(2, false).contains("-c") && !advice(2, false).contains("-m"));
        let offline = advice(4, false);
        assert!(offline.contains("offline") && !offline.contains("-m") && !offline.contains("-c"));
    }

    #[test]
    fn what_is_lost_is_behind_the_cpus_last_sample() {
        let loss = Loss {
            cpu: 1,
            ..Loss::default()
        };
        let record = lost_record(&loss, &BTreeMap::from([(0, 9), (1, 5)]));
        assert_eq!((record.stamp.time, record.stamp.cpu), (5, 1));
        assert_eq!(record.body, Body::Lost(1));
    }
}
