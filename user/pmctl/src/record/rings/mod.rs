// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recording by rings: each CPU has one, which the kernel writes samples to while pmctl streams them to the file.
//!
//! Samples name their task, so only what is mapped where is left to find out: [`maps`]. [`stream`] puts both in the
//! order of time.

mod maps;
mod plan;
mod run;
mod samplers;
mod stream;

use std::mem;
use std::time::Duration;

use anyhow::{Context, Result};
use perfmon::{Device, Pmu};

use self::maps::Maps;
use self::plan::{Plan, Tasks};
use self::samplers::Samplers;
use self::stream::Stream;
use super::target::Target;
use super::{Written, host, processes, summarize};
use crate::child::{Command, Ending, Waiting};
use crate::cli::Record as Args;
use crate::exit;
use crate::machine::Machine;
use crate::perfdata::{Finished, Loss, Notes};
use crate::signals::Signals;
use crate::stat::threads::threads;
use crate::stdio::complain;

/// Records, and returns the exit code.
pub(super) fn record(args: &Args) -> Result<u8> {
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
        words => Some(Command::find(words)?.redirected(args.output.as_os_str() == "-")),
    };
    // Before the events: what there is not can't be sampled.
    threads(&args.pid, &args.tid)?;
    let mut plan = Plan::new(args, &pmu)?;
    let device = Device::open().map_err(exit::with_help)?;
    // Before the work: whoever can't write learns it now.
    let target = Target::open(&args.output)?;
    let cannot_write = || format!("can't write {}", target.name());

    let signals = Signals::hold()?;
    let waiting = command
        .as_ref()
        .map(|command| Waiting::fork(command, signals.mask_before()))
        .transpose()?;
    let tasks = Tasks::new(args, waiting.as_ref().map(Waiting::pid), &online)?;
    // Before the samples: what they need to be understood comes first.
    let mut maps = Maps::open(&tasks, &online);
    let mut samplers = Samplers::open(&mut plan, &tasks, &device, (args.pages, maps.are_ours()))?;
    maps.begin(&tasks, plan.has_kernel());
    let host = host(online.len())?;
    let sink = target
        .begin(plan.describe(), &host)
        .with_context(cannot_write)?;
    let stream = Stream::new(&plan, sink);
    let (mut stream, run) = run::run(
        args,
        (&mut samplers, &tasks),
        (&signals, waiting),
        stream,
        &mut maps,
    )?;

    let lost = samplers.lost()?;
    let (symbols, build_ids) = stream.end().with_context(cannot_write)?;
    let mut notes = Notes {
        version: Notes::VERSION,
        scope: tasks.in_words(args),
        totals: samplers.totals()?,
        degraded: [mem::take(&mut plan.degraded), maps.degraded()].concat(),
        losses: lost.into_iter().map(loss).collect(),
        tasks_only: tasks.are_some(),
        symbols,
        ..Notes::default()
    };
    let Finished { samples, size, .. } = stream
        .finish(&host, &build_ids, &mut notes)
        .with_context(cannot_write)?;
    let written = Written {
        name: target.name(),
        samples,
        size,
        others: 0,
        elapsed: run.elapsed,
        period: plan.smallest_period(),
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

/// How a recording ended.
struct Run {
    elapsed: Duration,
    /// End of the command; `None` without one.
    ending: Option<Ending>,
}

/// Describes the lost samples of a CPU.
fn loss((cpu, samples): (u32, u64)) -> Loss {
    Loss {
        cpu,
        reason: "ring full".to_owned(),
        samples,
        counted: true,
    }
}

/// Returns whether one of these processes or threads lives.
fn is_one_alive(tids: &[u32]) -> bool {
    tids.iter().any(|tid| processes::is_alive(*tid))
}
