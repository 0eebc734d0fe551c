// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recording by rings. Each CPU has a ring. The kernel writes samples to the ring, and pmctl copies
//! them to the file meanwhile.
//!
//! Events of Linux's PMUs are sampled beside the driver's, in rings of perf's ([`linux_rings`]). Samples have the IDs
//! of their task. Mappings are recorded in the same rings, or else collected by [`maps`]. [`stream`] sorts all records
//! by time and writes them, and [`files`] begins and ends the files.

mod callers;
mod dummies;
mod files;
mod history;
mod lacking;
mod limit;
mod linux_event;
mod linux_refusal;
mod linux_rings;
mod maps;
mod memory_access;
mod plan;
mod polled;
mod precision;
mod rings;
mod run;
mod sampled_event;
mod sampled_tasks;
mod samplers;
mod stream;

use anyhow::Result;
use nix::sys::signal::Signal;
use perfmon::Device;

use self::files::Files;
use self::maps::Maps;
use self::plan::SamplingPlan;
use self::sampled_tasks::SampledTasks;
use self::samplers::Samplers;
use self::stream::RingStream;
use super::destination::Destination;
use super::host::describe_host;
use super::opening::Opening;
use super::watch::report_ending;
use crate::args::{EventOptions, RecordTarget};
use crate::events::threads::TaskList;
use crate::recording::cgroups::KnownCgroups;
use crate::system::child::WaitingCommand;
use crate::system::exit;
use crate::system::files::allow_many_files;
use crate::system::signals::BlockedSignals;

/// Records, and returns the exit code.
pub(super) fn record(options: &EventOptions) -> Result<u8> {
    let common = &options.common;
    let Opening {
        machine,
        pmu,
        online,
        command,
    } = Opening::new(common)?;
    // Each CPU has events of its own, and mapped files that are no longer at their paths are kept
    // open.
    allow_many_files();
    // Fails before any event is opened if there is no such task.
    let task_list = match &common.target {
        RecordTarget::Tasks(task_list) => task_list.clone(),
        _ => TaskList::default(),
    };
    task_list.threads()?;
    let mut plan = SamplingPlan::new(options, &machine, &pmu)?;
    plan.set_cgroups(&options.cgroups)?;
    let cgroups = if options.all_cgroups {
        KnownCgroups::find()?
    } else {
        KnownCgroups::default()
    };
    let device = Device::open().map_err(exit::with_help)?;
    plan.resolve_max_frequency(&device)?;
    let properties = device.properties();
    if let Some(branches) = plan.branches() {
        branches.check_support(&pmu, properties.last_branch)?;
    }
    // Opened before the recording, so that a file that can't be written is reported now.
    let destination = Destination::open(&common.output)?;
    let signals = match options.switch_output {
        Some(_) => BlockedSignals::hold_with(Signal::SIGUSR2)?,
        None => BlockedSignals::hold()?,
    };
    let waiting = command
        .as_ref()
        .map(|command| WaitingCommand::fork(command, signals.previous_mask()))
        .transpose()?;
    let pid = waiting.as_ref().map(WaitingCommand::pid);
    let (tasks, mut maps, mut samplers) = task_list.open_for_all(|threads| {
        let tasks = SampledTasks::new(&common.target, (pid, &threads), &online);
        // Opened before the samplers: samples need the mappings that were made before them.
        let maps = Maps::open(&tasks, &online, &device, plan.mapping_kinds());
        let ring_options = (common.pages, maps.wanted_records());
        let samplers = Samplers::open(&mut plan, &tasks, &device, ring_options)?;
        Ok((tasks, maps, samplers))
    })?;
    maps.read_initial_state(&tasks, plan.samples_kernel(), cgroups);
    let mut files = Files::new(
        options,
        destination,
        (&plan, &tasks),
        describe_host(online.len())?,
    );
    let has_history = options.overwrite || options.switch_output.is_some();
    let mut stream = RingStream::new(&plan, has_history, options.max_size);
    files.begin_first_file(&mut stream)?;
    let ending = run::record_until_end(
        options,
        (&mut samplers, &tasks),
        (&signals, waiting),
        (&mut stream, &mut files),
        &mut maps,
    )?;
    let is_whole = files.end_last_file(&mut stream, &mut samplers, &mut maps)?;

    Ok(report_ending(ending, is_whole))
}
