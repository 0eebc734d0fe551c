// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recording by a trace of the whole machine, for `--timebase` and `--rotate`.
//!
//! A trace has the addresses that the CPUs execute, but no tasks. [`task_log`] records which task runs where;
//! [`stream`] adds the tasks to the samples, and writes [perf's file](crate::recording::perfdata) meanwhile.

mod collect;
mod convert;
mod counted;
mod plan;
mod run;
mod scope;
mod sideband;
mod stream;
mod task_log;
mod tasks;

use std::collections::BTreeMap;
use std::mem;

use anyhow::{Context, Result};
use perfmon::Session;
use perfmon::trace::Flags;
use perfmon_core::abi;

use collect::{Collected, ReadyTrace};
use plan::{TracePlan, TracedEvent, WantedEvents};
use scope::KeptRecords;
use stream::{EndedTrace, TraceStream};
use task_log::TaskLog;

use super::destination::Destination;
use super::host::describe_host;
use super::opening::Opening;
use super::summary::{RecordingSummary, summarize};
use super::watch::report_ending;
use crate::args::{RecordTarget, TraceOptions};
use crate::recording::perfdata::{Body, Finished, Loss, Notes, Record, Stamp};
use crate::recording::procfs;
use crate::recording::unwind::CutChains;
use crate::system::child::WaitingCommand;
use crate::system::exit::{self, Usage};
use crate::system::signals::BlockedSignals;

/// Records, and returns the exit code.
pub(super) fn record(options: &TraceOptions) -> Result<u8> {
    let common = &options.common;
    let Opening {
        pmu,
        online,
        command,
        ..
    } = Opening::new(common)?;
    let watched = common.target.first_process();
    if let Some(pid) = watched.filter(|pid| !procfs::is_alive(*pid)) {
        return Err(Usage(format!("-p: there is no process {pid}.")).into());
    }
    let wanted_events = WantedEvents::new(&options.events, &pmu)?;
    let session = Session::open().map_err(exit::with_help)?;
    let plan = TracePlan::new(options, wanted_events, &pmu, &session)?;
    // Opened before the recording, so that a file that can't be written is reported now.
    let destination = Destination::open(&common.output)?;
    let write_error = || format!("can't write {}", destination.name());

    let signals = BlockedSignals::hold()?;
    let waiting = command
        .as_ref()
        .map(|command| WaitingCommand::fork(command, signals.previous_mask()))
        .transpose()?;
    // With -p, a command only determines how long the recording lasts.
    let process = watched.or(waiting.as_ref().map(WaitingCommand::pid));
    let device = session.device();
    // Opened before the buffers: perf's rings count against the same memory limit, and buffers may become smaller.
    let mut log = TaskLog::begin(&online, process, device);
    let ready = ReadyTrace::new(&session, &plan.config, common.pages)?;
    sideband::visit_cpus(&online)?;
    let scope = KeptRecords::new(common, process, log.knows_tasks());
    let host = describe_host(online.len())?;
    let sink = destination.begin(plan.describe(options.branches), &host);
    let mut stream = TraceStream::new(&plan, scope, sink.with_context(write_error)?);
    let run = run::record_until_end(options, ready, (&signals, waiting), |chunks| {
        // The driver's records have been read already, so the log has all that happened before them.
        log.update(device);
        stream.add(&chunks, &mut log)?;
        stream.write_round(&mut log).with_context(write_error)
    })?;

    let mut ended = stream.write_rest(&mut log).with_context(write_error)?;
    let mut notes = notes(
        options,
        &plan,
        &mut ended,
        &run.collected,
        log.into_degraded_reasons(),
    );
    let last_times = mem::take(&mut ended.counts.last_sample_times);
    let lost = |loss| lost_record(loss, &last_times);
    ended
        .append(notes.losses.iter().map(lost))
        .with_context(write_error)?;
    let left_out_samples = ended.counts.left_out_samples;
    let Finished { samples, size, .. } =
        ended.finish(&host, &mut notes).with_context(write_error)?;
    let summary = RecordingSummary {
        name: destination.name(),
        samples,
        sample_name: "sample",
        size,
        left_out_samples,
        has_left_program: false,
        elapsed: run.elapsed,
        delay: None,
        cpus: host.cpus_online,
        period: Some(options.period),
        is_only_file: true,
        has_chains: false,
        cut_chains: CutChains::default(),
    };
    // A summary that can't be printed is no reason to fail: the recording is complete.
    let _ = summarize(common, &notes, &summary);

    Ok(report_ending(run.ending, notes.is_whole()))
}

/// Returns the notes of a recording that has ended.
fn notes(
    options: &TraceOptions,
    plan: &TracePlan,
    ended: &mut EndedTrace<'_>,
    collected: &Collected,
    degraded: Vec<String>,
) -> Notes {
    let counts = &ended.counts;
    let total = |(index, event): (usize, &TracedEvent)| match event.unit {
        Some(_) => counts.values.sum(index),
        None => match &options.common.target {
            RecordTarget::Cpus(cpus) => {
                let cpu_counts = cpus
                    .iter()
                    .map(|cpu| counts.totals.total_on_cpu(event.id, cpu));
                cpu_counts.fold(0, u64::saturating_add)
            }
            _ => counts.totals.total(event.id),
        },
    };
    let totals = plan.events.iter().enumerate().map(total).collect();
    let flags = recorded_flags(collected.flags.clone(), &options.common.target);
    Notes {
        version: Notes::VERSION,
        scope: ended.scope.in_words(&options.common),
        tasks_only: false,
        totals,
        degraded,
        losses: losses(&flags, &ended.counts.lost_samples(plan)),
        lost_by_perf: 0,
        overwritten: false,
        reached_max_size: false,
        rotate: options.rotate,
        gaps: collected.gaps,
        // Set when the file is finished.
        cut: None,
        symbols: mem::take(&mut ended.symbols),
    }
}

/// Returns the flags of the CPUs that are recorded. The other CPUs have buffers, too, but their losses don't matter.
fn recorded_flags(mut flags: BTreeMap<u32, Flags>, target: &RecordTarget) -> BTreeMap<u32, Flags> {
    if let RecordTarget::Cpus(cpus) = target {
        flags.retain(|cpu, _| cpus.iter().any(|recorded| recorded == *cpu));
    }
    flags
}

/// Returns the losses by CPU.
fn losses(flags: &BTreeMap<u32, Flags>, lost: &BTreeMap<u32, u64>) -> Vec<Loss> {
    /// The flag of a CPU that was never online, and so has lost nothing.
    const NEVER_ONLINE: u32 = abi::PERFMON_BUFFER_FLAG_NOT_TRACED;
    /// The flag of a CPU whose samples were throttled, while its events were still counted.
    const STILL_COUNTED: u32 = abi::PERFMON_BUFFER_FLAG_THROTTLED;
    let loss = |(cpu, flags): (&u32, &Flags)| {
        let bits = flags.bits() & !NEVER_ONLINE;
        let samples = lost.get(cpu).copied().unwrap_or(0);
        let counted = bits & !STILL_COUNTED == 0;
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

/// Returns a LOST record, with the time of the CPU's last sample. `last_times` has the times of the CPUs' last samples.
fn lost_record(loss: &Loss, last_times: &BTreeMap<u32, u64>) -> Record {
    Record {
        stamp: Stamp {
            time: last_times.get(&loss.cpu).copied().unwrap_or(0),
            cpu: loss.cpu,
            ..Stamp::default()
        },
        body: Body::Lost(loss.min_samples()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::cpus::Cpus;

    #[test]
    fn only_losses_by_throttling_are_counted() {
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
    fn losses_on_other_cpus_do_not_matter() {
        let flags = BTreeMap::from([(0, Flags::from_bits(0)), (3, Flags::from_bits(1))]);
        let losses_of = |target| losses(&recorded_flags(flags.clone(), &target), &BTreeMap::new());
        assert_eq!(losses_of(RecordTarget::Machine).len(), 1);
        assert!(losses_of(RecordTarget::Cpus(Cpus::new(vec![0]))).is_empty());
        assert_eq!(
            losses_of(RecordTarget::Cpus(Cpus::new(vec![0, 3]))).len(),
            1
        );
    }

    #[test]
    fn a_lost_record_has_the_time_of_the_cpus_last_sample() {
        let loss = Loss {
            cpu: 1,
            ..Loss::default()
        };
        let record = lost_record(&loss, &BTreeMap::from([(0, 9), (1, 5)]));
        assert_eq!((record.stamp.time, record.stamp.cpu), (5, 1));
        assert_eq!(record.body, Body::Lost(1));
    }
}
