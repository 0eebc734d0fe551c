// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl record`: samples while a command runs.
//!
//! [`rings`] is the usual way. The modules beside it record with a trace of the whole machine, for `--timebase`
//! and `--rotate`: a trace says where the CPUs are, and knows nothing of tasks. [`task_log`] finds out what the tasks did
//! meanwhile; [`stream`] puts both together and writes [perf's file](crate::recording::perfdata) while it is recorded.

mod clock;
mod collect;
mod convert;
mod host;
mod local_time;
mod plan;
mod ring;
mod rings;
mod run;
mod scope;
mod sideband;
mod stream;
mod target;
mod task_log;
mod tasks;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::mem;
use std::time::Duration;

use anyhow::{Context, Result};
use perfmon::trace::Flags;
use perfmon::{Pmu, Session};
use perfmon_core::abi;

use collect::{Collected, Ready};
use host::host;
use plan::{Plan, Planned};
pub(crate) use rings::OWN_COMMAND;
use scope::Scope;
use stream::{Ended, Stream};
use target::Target;
pub(crate) use target::keep_old;
use task_log::TaskLog;

use crate::args::{DEFAULT_FILE, Record as Args, SwitchOutput};
use crate::recording::perfdata::{self, Body, Finished, Loss, Notes, Record, Stamp};
use crate::recording::procfs;
use crate::recording::unwind::Cuts;
use crate::system::child::{Command, Ending, Waiting};
use crate::system::exit::{self, Usage};
use crate::system::machine::Machine;
use crate::system::screen::Colors;
use crate::system::signals::Signals;
use crate::system::stdio::complain;
use crate::system::text::{count, thousands};

/// Records, and returns the exit code.
pub(crate) fn record(args: &Args) -> Result<u8> {
    refuse_the_impossible(args)?;
    if !args.needs_trace() {
        return rings::record(args);
    }
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
        words => Some(Command::find(words)?.with(args.streams())),
    };
    let watched = args.pid.first().copied();
    if let Some(pid) = watched.filter(|pid| !procfs::is_alive(*pid)) {
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
    let process = waiting.as_ref().map(Waiting::pid).or(watched);
    let device = session.device();
    // Before the buffers, whose size can be less: perf's rings count against the same limit.
    let mut log = TaskLog::begin(&online, process, device);
    let ready = Ready::new(&session, &plan.config, args.pages)?;
    sideband::visit(&online)?;
    let scope = Scope::new(args, process, log.knows_tasks());
    let host = host(online.len())?;
    let sink = target.begin(plan.describe(args.branches), &host);
    let mut stream = Stream::new(&plan, scope, sink.with_context(cannot_write)?);
    let run = run::run(args, ready, (&signals, waiting), |chunks| {
        // The driver's records first: so all that happened before them is told.
        log.watch(device);
        stream.take(&chunks, &mut log)?;
        stream.write(&mut log).with_context(cannot_write)
    })?;

    let mut ended = stream.end(&mut log).with_context(cannot_write)?;
    let mut notes = notes(args, &plan, &mut ended, &run.collected, log.degraded());
    let last = mem::take(&mut ended.counted.last);
    let lost = |loss| lost_record(loss, &last);
    ended
        .append(notes.losses.iter().map(lost))
        .with_context(cannot_write)?;
    let others = ended.counted.others;
    let Finished { samples, size, .. } =
        ended.finish(&host, &mut notes).with_context(cannot_write)?;
    let written = Written {
        name: target.name(),
        samples,
        size,
        others,
        has_left: false,
        elapsed: run.elapsed,
        delay: None,
        cpus: host.cpus_online,
        period: Some(args.period),
        is_all: true,
        cuts: Cuts::default(),
    };
    // The recording is whole without it.
    let _ = summarize(args, &notes, &written);

    if let Some(words) = run.ending.and_then(Ending::in_words) {
        complain(words);
    }
    if !notes.is_whole() {
        return Ok(exit::NO_COUNT);
    }
    Ok(run.ending.map_or(0, Ending::exit_code))
}

fn refuse_the_impossible(args: &Args) -> Result<(), Usage> {
    let is_attached = !args.pid.is_empty() || !args.tid.is_empty();
    let refused = [
        (
            is_attached && !args.command.is_empty(),
            "-p and -t take no command: they record until the tasks end, or for --duration SECS.",
        ),
        (
            args.needs_trace() && args.branch_filter.is_some(),
            "-j: traces of the whole machine, which --timebase and --rotate take, have branches of all kinds: give -b.",
        ),
        (
            args.needs_trace() && (args.frequency.is_some() || args.has_chains()),
            "-F and -g: traces of the whole machine, which --timebase and --rotate take, have neither a frequency nor \
             call chains. Leave out one or the other.",
        ),
        (
            args.needs_trace()
                && (args.delay.is_some()
                    || args.max_size.is_some()
                    || args.no_inherit
                    || args.all_user
                    || args.all_kernel),
            "-D, -i, --max-size, --all-user and --all-kernel: not with --timebase or --rotate, which trace the whole \
             machine. `:u` behind an event samples user mode.",
        ),
        (
            !args.has_chains() && (args.user_callchains || args.kernel_callchains),
            "--user-callchains and --kernel-callchains choose a part of the call chains, which -g records. Add -g.",
        ),
        (
            args.needs_trace() && (args.overwrite || args.switch_output.is_some()),
            "--overwrite and --switch-output: not with --timebase or --rotate, which trace the whole machine. Leave out \
             one or the other.",
        ),
        (
            args.overwrite && matches!(args.switch_output, Some(SwitchOutput::Size(_))),
            "--overwrite: nothing is written until there is a reason, so no file gets large. Give a time or `signal` to \
             --switch-output, and the size of the rings with -m.",
        ),
        (
            args.switch_output.is_some() && args.output.as_os_str() == "-",
            "--switch-output writes files, and not to standard output. Leave `-o -` out.",
        ),
        (
            args.needs_trace() && (!args.tid.is_empty() || args.pid.len() > 1),
            "-t, and -p with several processes: not with --timebase or --rotate, which trace the whole machine.",
        ),
        (
            args.stack().is_some() && args.kernel_callchains,
            "--kernel-callchains leaves out the callers in programs, which --call-graph=dwarf finds: give one of the two.",
        ),
        (
            args.has_calls() && (args.branches || args.branch_filter.is_some()),
            "-b, -j: not with --call-graph=lbr, for which the CPU records calls only. Leave out one of the two.",
        ),
        (
            args.has_calls() && (args.all_cpus || args.cpu.is_some()),
            "--call-graph=lbr: the CPU records the calls of a task, and -a and -C sample all tasks. \
             --call-graph=dwarf copies stacks.",
        ),
        (
            args.has_calls() && args.kernel_callchains,
            "--kernel-callchains leaves out the callers in programs, which --call-graph=lbr finds: give one of the two.",
        ),
        (
            args.command.is_empty() && !args.all_cpus && args.cpu.is_none() && !is_attached,
            "there is nothing to run.\n\
             Give a command (`pmctl record -- make`), a process (-p PID) or a thread (-t TID), or record the whole system until Ctrl-C (-a).",
        ),
    ];
    match refused.into_iter().find(|(applies, _)| *applies) {
        Some((_, reason)) => Err(Usage(reason.to_owned())),
        None => Ok(()),
    }
}

/// Returns the notes of a recording that has ended.
fn notes(
    args: &Args,
    plan: &Plan,
    ended: &mut Ended<'_>,
    collected: &Collected,
    degraded: Vec<String>,
) -> Notes {
    let counted = &ended.counted;
    let total = |(index, event): (usize, &Planned)| match event.unit {
        Some(_) => counted.values.sum(index),
        None => match &args.cpu {
            Some(cpus) => {
                let each = cpus.iter().map(|cpu| counted.totals.on(event.id, cpu));
                each.fold(0, u64::saturating_add)
            }
            None => counted.totals.on_all(event.id),
        },
    };
    let totals = plan.events.iter().enumerate().map(total).collect();
    Notes {
        version: Notes::VERSION,
        scope: ended.scope.in_words(args),
        tasks_only: false,
        totals,
        degraded,
        losses: losses(&collected.flags, &ended.counted.lost(plan)),
        overwritten: false,
        rotate: args.rotate,
        gaps: collected.gaps,
        // It is known when the file is finished.
        cut: None,
        symbols: mem::take(&mut ended.symbols),
    }
}

/// Returns the losses by CPU.
fn losses(flags: &BTreeMap<u32, Flags>, lost: &BTreeMap<u32, u64>) -> Vec<Loss> {
    /// A CPU that was never online has nothing to lose.
    const NOTHING: u32 = abi::PERFMON_BUFFER_FLAG_NOT_TRACED;
    /// Events are counted meanwhile.
    const COUNTED: u32 = abi::PERFMON_BUFFER_FLAG_THROTTLED;
    let loss = |(cpu, flags): (&u32, &Flags)| {
        let bits = flags.bits() & !NOTHING;
        let samples = lost.get(cpu).copied().unwrap_or(0);
        let counted = bits & !COUNTED == 0;
        // A CPU that was throttled for less than a period has lost nothing.
        (!counted || samples > 0).then(|| Loss {
            cpu: *cpu,
            reason: flags.to_string(),
            samples,
            counted,
        })
    };
    flags.iter().filter_map(loss).collect()
}

/// Returns the record that perf shows as LOST, behind the CPU's last sample.
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

/// Facts about the recording for its user.
struct Written {
    /// Name of the file.
    name: String,
    samples: u64,
    /// Size in bytes.
    size: u64,
    /// Samples that were left out because they are of other programs, or with -C of other CPUs.
    others: u64,
    /// Tasks went on that were not sampled any more.
    has_left: bool,
    elapsed: Duration,
    /// The delay, if it was not over when the recording ended.
    delay: Option<Duration>,
    /// CPUs of the machine.
    cpus: u32,
    /// The smallest period; `None` with frequencies.
    period: Option<u32>,
    /// There are no other files of the recording.
    is_all: bool,
    /// Call chains that could not be found out.
    cuts: Cuts,
}

/// Tells the user what there is now, what is missing, and how to look at it.
fn summarize(args: &Args, notes: &Notes, written: &Written) -> io::Result<()> {
    let mut output = anstream::stderr().lock();
    if args.quiet {
        return perfdata::warn(notes, Colors::new(true), &mut output);
    }
    write!(
        output,
        "pmctl: wrote {} to {} in {:.2} s on {}, {} KiB",
        count(written.samples, "sample"),
        written.name,
        written.elapsed.as_secs_f64(),
        count(written.cpus, "CPU"),
        thousands(written.size.div_ceil(1024)),
    )?;
    let known: u64 = notes.losses.iter().map(|loss| loss.samples).sum();
    if !notes.counted_all() || notes.cut.is_some() {
        write!(output, "; an unknown number lost")?;
    } else if !notes.is_whole() {
        write!(output, "; {} lost", thousands(known))?;
    }
    if written.others > 0 {
        let others = thousands(written.others);
        match args.cpu {
            Some(_) => write!(output, "; {others} of other CPUs left out")?,
            None => write!(
                output,
                "; {others} of other programs left out (-a keeps them)"
            )?,
        }
    }
    writeln!(output)?;
    perfdata::warn(notes, Colors::new(true), &mut output)?;
    written.cuts.write(Colors::new(true), &mut output)?;
    if let Some(delay) = written.delay {
        writeln!(
            output,
            "No sample: the recording ended before the delay of {} ms (-D) was over.",
            delay.as_millis()
        )?;
    }
    let counted = notes.totals.iter().max().filter(|_| notes.tasks_only);
    let smaller = match (written.period, written.samples, counted) {
        (Some(period), 0, Some(counted)) => period_for(*counted).filter(|new| *new < period),
        (Some(period), samples, _) => smaller_period(period, samples),
        (None, ..) => None,
    };
    let smaller = smaller.filter(|_| notes.is_whole());
    match (smaller, written.samples) {
        _ if !written.is_all || written.delay.is_some() || written.has_left => Ok(()),
        (Some(period), 0) => writeln!(output, "No sample: give a smaller period, as -c {period}."),
        (Some(period), _) => writeln!(
            output,
            "Few samples: for more, give a smaller period, as -c {period}."
        ),
        (None, 0) if notes.is_whole() => {
            writeln!(output, "No sample: the event hardly happened.")
        }
        _ => Ok(()),
    }?;
    if written.samples > 0 && args.output.as_os_str() != "-" {
        let input = match &written.name[..] {
            DEFAULT_FILE => String::new(),
            name => format!(" -i {name}"),
        };
        writeln!(output, "pmctl: see it with `pmctl report{input}`")?;
    }
    Ok(())
}

/// Returns a period that makes some samples of so many events; `None` if they are too few.
fn period_for(events: u64) -> Option<u32> {
    const WANTED: u64 = 100;
    let period = u32::try_from(events / WANTED).unwrap_or(u32::MAX);
    // Odd: few loops are in step with it.
    (period > 0).then_some(period | 1)
}

/// Returns a smaller period if this one made few samples, and a smaller one is of use.
fn smaller_period(period: u32, samples: u64) -> Option<u32> {
    const FEW: u64 = 50;
    /// Prime numbers, each a step of ten: more at once could fill the buffers. With a period below the least one, most
    /// of the time may go into the samples.
    const PERIODS: [u32; 2] = [100_003, 10_007];
    if samples >= FEW {
        return None;
    }
    PERIODS.into_iter().find(|smaller| *smaller < period)
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
        assert!(losses(throttled, 0).is_empty(), "not one sample is missing");
        assert_eq!(losses(full, 0).len(), 1);
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
    fn few_samples_call_for_a_smaller_period() {
        assert_eq!(smaller_period(1_000_003, 1), Some(100_003));
        assert_eq!(smaller_period(1_000_003, 0), Some(100_003));
        assert_eq!(smaller_period(100_000_007, 3), Some(100_003));
        assert_eq!(smaller_period(100_003, 0), Some(10_007));
        assert_eq!(smaller_period(10_007, 0), None);
        assert_eq!(smaller_period(1_000_003, 50), None);
    }

    #[test]
    fn what_was_counted_tells_the_period() {
        assert_eq!(period_for(4595), Some(45));
        assert_eq!(period_for(990_000), Some(9901));
        assert_eq!(period_for(99), None);
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
