// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events with their rings, one ring for each CPU.

use std::os::fd::{AsFd, BorrowedFd};

use ahash::AHashMap;
use anyhow::{Result, anyhow};
use perfmon::event::{Builder, Event};
use perfmon::sampler::{RawRecord, Sampler};
use perfmon::{Cause, Device, Error};

use super::plan::{SampledTasks, SamplingManner, SamplingPlan};
use crate::events::rights::{explained_of_samples, of_all_programs};
use crate::system::exit::{self, Usage};

/// The pages of a ring, if the user does not say, and the fewest that are taken instead where that is more than they may
/// pin.
const DEFAULT_PAGES: usize = 64;
/// The same for samples with stacks, of which a page has one half.
const STACK_PAGES: usize = 512;
const LEAST_PAGES: usize = 4;

/// The rings of all CPUs.
pub(super) struct Samplers {
    rings: Vec<SampleRing>,
    /// Number of events in the plan.
    events: usize,
    /// The samples begin with the command's exec.
    from_exec: bool,
}

/// The ring of a CPU.
struct SampleRing {
    cpu: u32,
    sampler: Sampler,
    /// The event of the plan by the kernel's number.
    numbers: AHashMap<u64, usize>,
    /// Samples that were lost while it was paused to be read.
    paused: u64,
}

impl Samplers {
    /// Opens all events. If the user may not sample the kernel, those without a mode are of user mode.
    pub(super) fn open(
        plan: &mut SamplingPlan,
        tasks: &SampledTasks,
        device: &Device,
        (pages, with_tasks): (Option<u32>, bool),
    ) -> Result<Self> {
        let wanted = pages.map(|pages| (pages as usize).next_power_of_two());
        let default = if plan.parts().user {
            STACK_PAGES
        } else {
            DEFAULT_PAGES
        };
        let mut size = wanted.unwrap_or(default);
        loop {
            let error = match Self::try_open(plan, tasks, device, (size, with_tasks)) {
                Ok(rings) => {
                    return Ok(Self {
                        rings,
                        events: plan.events.len(),
                        from_exec: matches!(tasks, SampledTasks::Command { .. })
                            && plan.manner.from_exec,
                    });
                }
                Err(error) => error,
            };
            match &error.cause {
                Cause::MemoryLimit if wanted.is_none() && size > LEAST_PAGES => size /= 2,
                Cause::Forbidden if tasks.are_some() && plan.without_kernel() => {}
                Cause::Forbidden if !tasks.are_some() => {
                    return Err(anyhow!("{}", of_all_programs("sample")));
                }
                Cause::Forbidden => {
                    let is_own = matches!(tasks, SampledTasks::Command { .. });
                    let tid = tasks.tids().first().filter(|_| !is_own);
                    return Err(explained_of_samples(error, tid.copied()));
                }
                Cause::NoSuchEvent => {
                    let refused = plan.above_limit(device);
                    return Err(refused.map_or_else(|| exit::with_help(error), Into::into));
                }
                _ => return Err(exit::with_help(error)),
            }
        }
    }

    fn try_open(
        plan: &SamplingPlan,
        tasks: &SampledTasks,
        device: &Device,
        (pages, with_tasks): (usize, bool),
    ) -> Result<Vec<SampleRing>, Error> {
        let mut rings = Vec::new();
        for cpu in tasks.cpus() {
            let here = |builder: Builder, is_first| {
                let builder = builder.cpu(*cpu).pages(pages);
                // One event tells what happens to tasks.
                if is_first && with_tasks {
                    builder.tasks()
                } else {
                    builder
                }
            };
            let mut sampler: Option<Sampler> = None;
            let mut numbers = Vec::new();
            for task in targets(tasks, plan.manner) {
                for index in 0..plan.events.len() {
                    let Some(builder) = plan.builder(index) else {
                        continue;
                    };
                    let builder = here(task(builder), index == 0);
                    let opened = match &mut sampler {
                        None => builder.sample_on(device).map(|new| {
                            sampler = Some(new);
                        }),
                        Some(sampler) => sampler.add_on(&builder, device).map(drop),
                    };
                    match opened {
                        Ok(()) => numbers.push(index),
                        // A thread of several that has ended meanwhile.
                        Err(error)
                            if error.cause == Cause::NoSuchTask && tasks.tids().len() > 1 => {}
                        Err(error) => return Err(error),
                    }
                }
            }
            let Some(sampler) = sampler else {
                continue;
            };
            let mut ids = AHashMap::new();
            for (event, number) in sampler.events().zip(numbers) {
                ids.insert(event.id()?, number);
            }
            rings.push(SampleRing {
                cpu: *cpu,
                sampler,
                numbers: ids,
                paused: 0,
            });
        }
        Ok(rings)
    }

    /// Begins, unless the command's exec does.
    pub(super) fn start(&self) -> Result<()> {
        if self.rings.is_empty() {
            return Err(Usage("no task is left to sample.".to_owned()).into());
        }
        if self.from_exec {
            return Ok(());
        }
        self.each(Sampler::enable)
    }

    /// Ends.
    pub(super) fn stop(&self) -> Result<()> {
        self.each(Sampler::disable)
    }

    fn each(&self, call: impl Fn(&Sampler) -> Result<(), Error>) -> Result<()> {
        let mut samplers = self.rings.iter().map(|ring| &ring.sampler);
        samplers.try_for_each(call).map_err(exit::with_help)
    }

    /// Returns what becomes readable when a ring fills.
    pub(super) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.rings.iter().map(|ring| ring.sampler.as_fd()).collect()
    }

    /// Calls `take` for each record since the last call, with a function that gives the event of a kernel's number.
    pub(super) fn drain(
        &mut self,
        mut take: impl FnMut(RawRecord<'_>, &AHashMap<u64, usize>),
    ) -> Result<()> {
        for SampleRing {
            sampler, numbers, ..
        } in &mut self.rings
        {
            let records = sampler.records();
            for record in records.raw() {
                take(record.map_err(exit::with_help)?, numbers);
            }
        }
        Ok(())
    }

    /// Calls `take` for each record of rings that are overwritten, since the last call: of each ring the newest first.
    pub(super) fn drain_newest(
        &mut self,
        take: impl FnMut(RawRecord<'_>, &AHashMap<u64, usize>),
    ) -> Result<()> {
        let before = self.lost_of_all()?;
        Sampler::pause_all(self.rings.iter().map(|ring| &ring.sampler)).map_err(exit::with_help)?;
        let drained = self.drain(take);
        self.each(Sampler::resume)?;
        // Those of the meantime are what the user has asked for.
        let now = self.lost_of_all()?;
        let paused = now
            .iter()
            .zip(before)
            .map(|(now, before)| now.saturating_sub(before));
        for (ring, lost) in self.rings.iter_mut().zip(paused) {
            ring.paused += lost;
        }
        drained
    }

    /// Returns how many samples each CPU has lost, for those that have lost some.
    pub(super) fn lost(&self) -> Result<Vec<(u32, u64)>> {
        let lost = self.lost_of_all()?;
        let of = |(ring, lost): (&SampleRing, u64)| (ring.cpu, lost.saturating_sub(ring.paused));
        let all = self.rings.iter().zip(lost).map(of);
        Ok(all.filter(|(_, lost)| *lost > 0).collect())
    }

    /// Returns the CPUs on which events were missed, so that there is no count.
    pub(super) fn missed(&self) -> Vec<u32> {
        let is_missed = |event: &Event| {
            event
                .read()
                .is_err_and(|error| error.cause == Cause::Missed)
        };
        let has_missed = |ring: &&SampleRing| ring.sampler.events().any(is_missed);
        let rings = self.rings.iter().filter(has_missed);
        rings.map(|ring| ring.cpu).collect()
    }

    /// Returns whether tasks go on that are not sampled any more.
    pub(super) fn have_left(&self) -> Result<bool> {
        for event in self.rings.iter().flat_map(|ring| ring.sampler.events()) {
            if event.left().map_err(exit::with_help)? > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn lost_of_all(&self) -> Result<Vec<u64>> {
        let lost = |ring: &SampleRing| match ring.sampler.lost() {
            Err(error) if error.cause == Cause::Missed => Ok(0),
            result => result.map_err(exit::with_help),
        };
        self.rings.iter().map(lost).collect()
    }

    /// Returns the count of each event of the plan, without those that [`Self::missed`] tells of.
    pub(super) fn totals(&self) -> Result<Vec<u64>> {
        let mut totals = vec![0_u64; self.events];
        for SampleRing {
            sampler, numbers, ..
        } in &self.rings
        {
            for event in sampler.events() {
                let count = match event.read() {
                    Err(error) if error.cause == Cause::Missed => 0,
                    result => result.map_err(exit::with_help)?,
                };
                let number = event.id().map_err(exit::with_help)?;
                if let Some(index) = numbers.get(&number) {
                    totals[*index] = totals[*index].saturating_add(count);
                }
            }
        }
        Ok(totals)
    }
}

/// Returns how events are directed to each of the tasks.
fn targets(tasks: &SampledTasks, manner: SamplingManner) -> Vec<Box<dyn Fn(Builder) -> Builder>> {
    let SamplingManner { inherit, from_exec } = manner;
    let task = move |event: Builder, tid| {
        let event = event.pid(tid);
        if inherit { event.inherit() } else { event }
    };
    let thread = |tid: u32| Box::new(move |event: Builder| task(event, tid)) as Box<_>;
    match tasks {
        SampledTasks::Command { pid, .. } => {
            let pid = *pid;
            vec![Box::new(move |event| {
                let event = task(event, pid);
                if from_exec {
                    event.enable_on_exec()
                } else {
                    event
                }
            })]
        }
        SampledTasks::Threads { tids, .. } => tids.iter().copied().map(thread).collect(),
        SampledTasks::Cpus(_) => vec![Box::new(Builder::all_tasks)],
    }
}
