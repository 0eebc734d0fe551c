// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events with their rings, one ring for each CPU.
//!
//! A dummy event, which counts nothing, writes the names and mappings of tasks to the same ring. With `--overwrite`,
//! and on CPUs without a sampled event, the dummy event has a ring of its own.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use ahash::AHashMap;
use anyhow::{Result, anyhow};
use perfmon::event::{Builder, Event};
use perfmon::sampler::{RawRecord, Sampler};
use perfmon::{Cause, Device, Error};

use super::dummies::{DUMMY_PAGES, TaskRecords, dummies};
use super::lacking::{LackingCpus, Refusals};
use super::linux_rings::{LinuxRings, Refusal};
use super::plan::{SamplingManner, SamplingPlan};
use super::precision;
use super::rings::{
    DEFAULT_PAGES, LARGE_RECORD_PAGES, MERGED_PAGES, MIN_PAGES, Ring, RingRecord, SampleRing,
};
use super::sampled_tasks::SampledTasks;
use crate::events::rights::{all_programs_advice, cgroups_forbidden, with_sampling_advice};
use crate::system::exit::{self, Usage};
use crate::system::precise;

/// The rings of all CPUs.
pub(super) struct Samplers {
    rings: Vec<SampleRing>,
    /// Rings of the dummies that have a ring of their own.
    dummies: Vec<Ring>,
    /// The events of Linux's PMUs.
    linux: LinuxRings,
    /// The rings of samples are overwritten.
    overwrite: bool,
    /// Number of events in the plan, the driver's and Linux's.
    events: usize,
    /// The manner of sampling; `begins_at_exec` is set only for a command.
    manner: SamplingManner,
    /// Samples are precise: the processor buffers them until they are fetched.
    is_precise: bool,
}

/// The rings of an attempt to open all events, and the CPUs that lack some events.
struct Opened {
    rings: Vec<SampleRing>,
    dummies: Vec<Ring>,
    lacking: LackingCpus,
}

impl Samplers {
    /// Opens all events. If the user may not sample the kernel, events without a mode are limited to user mode. Dummies are
    /// enabled at once: their records have to precede the samples.
    pub(super) fn open(
        plan: &mut SamplingPlan,
        tasks: &SampledTasks,
        device: &Device,
        (pages, records): (Option<u32>, TaskRecords),
    ) -> Result<Self> {
        let requested_pages = pages.map(|pages| (pages as usize).next_power_of_two());
        let default_pages = |plan: &SamplingPlan| {
            if plan.is_merged() {
                MERGED_PAGES
            } else if plan.parts().has_user_stack || plan.is_precise() {
                LARGE_RECORD_PAGES
            } else {
                DEFAULT_PAGES
            }
        };
        let mut ring_pages = requested_pages.unwrap_or(default_pages(plan));
        loop {
            let Opened {
                rings,
                dummies,
                lacking,
            } = match Self::try_open(plan, tasks, device, (ring_pages, records)) {
                // Samples of all CPUs are preferred to precise samples of some CPUs.
                Ok(Opened { lacking, .. })
                    if plan.turn_off_precision(|index| lacking.contains_key(&index)) =>
                {
                    ring_pages = requested_pages.unwrap_or(default_pages(plan));
                    continue;
                }
                Ok(opened) => opened,
                Err(error)
                    if error.cause == Cause::MemoryLimit
                        && requested_pages.is_none()
                        && ring_pages > MIN_PAGES =>
                {
                    ring_pages /= 2;
                    continue;
                }
                Err(error) => {
                    let was_precise = plan.is_precise();
                    change_plan_or_fail(error, plan, tasks, device)?;
                    if was_precise && !plan.is_precise() {
                        ring_pages = requested_pages.unwrap_or(default_pages(plan));
                    }
                    continue;
                }
            };
            match LinuxRings::open(plan, tasks, ring_pages) {
                Ok(linux) => {
                    plan.note_lacking_cpus(&lacking, tasks.cpus());
                    return Ok(Self {
                        rings,
                        dummies,
                        linux,
                        overwrite: plan.overwrites(),
                        events: plan.event_count(),
                        manner: SamplingManner {
                            begins_at_exec: matches!(tasks, SampledTasks::Command { .. })
                                && plan.manner.begins_at_exec,
                            ..plan.manner
                        },
                        is_precise: plan.is_precise(),
                    });
                }
                Err(Refusal::MemoryLimit)
                    if requested_pages.is_none() && ring_pages > MIN_PAGES =>
                {
                    ring_pages /= 2;
                }
                Err(Refusal::Forbidden(_)) if tasks.are_selected() && plan.limit_to_user_mode() => {
                }
                Err(refusal) => return Err(refusal.into_error()),
            }
        }
    }

    fn try_open(
        plan: &SamplingPlan,
        tasks: &SampledTasks,
        device: &Device,
        (pages, records): (usize, TaskRecords),
    ) -> Result<Opened, Error> {
        let open = |ring: &mut Option<Sampler>, builder: &Builder| {
            let opened = match ring {
                None => builder.sample_on(device).map(|new| *ring = Some(new)),
                Some(ring) => ring.add_on(builder, device).map(drop),
            };
            match opened {
                // One of several threads has ended meanwhile.
                Err(error) if error.cause == Cause::NoSuchTask && tasks.tids().len() > 1 => {
                    Ok(false)
                }
                result => result.map(|()| true),
            }
        };
        let (mut rings, mut dummy_rings) = (Vec::new(), Vec::new());
        let mut refusals = Refusals::default();
        for cpu in tasks.cpus() {
            let mut ring: Option<Sampler> = None;
            let mut indices = Vec::new();
            for set_target in target_setters(tasks, plan.manner) {
                for index in 0..plan.events.len() {
                    let Some(builder) = plan.builder(index, &set_target) else {
                        continue;
                    };
                    let opened = open(&mut ring, &builder.cpu(*cpu).pages(pages));
                    if refusals.note_result(opened, (index, *cpu))? {
                        indices.push(index);
                    }
                }
            }
            let mut own_ring = None;
            for dummy in dummies(tasks, records, plan.parts()) {
                let ring = if ring.is_some() && !plan.overwrites() {
                    &mut ring
                } else {
                    &mut own_ring
                };
                open(ring, &dummy.cpu(*cpu).pages(pages.min(DUMMY_PAGES)))?;
            }
            dummy_rings.extend(own_ring.map(Ring::new));
            let Some(sampler) = ring else {
                continue;
            };
            let mut event_indices = AHashMap::new();
            for (event, index) in sampler.events().zip(indices) {
                event_indices.insert(event.id()?, index);
            }
            rings.push(SampleRing {
                cpu: *cpu,
                ring: Ring::new(sampler),
                event_indices,
                lost_in_pauses: 0,
            });
        }
        for cpu in tasks.other_cpus() {
            let mut ring = None;
            for dummy in dummies(tasks, records, plan.parts()) {
                open(&mut ring, &dummy.cpu(*cpu).pages(pages.min(DUMMY_PAGES)))?;
            }
            dummy_rings.extend(ring.map(Ring::new));
        }
        Ok(Opened {
            rings,
            dummies: dummy_rings,
            lacking: refusals.into_lacking_cpus()?,
        })
    }

    /// Enables the events, unless the command's exec does.
    pub(super) fn start(&self) -> Result<()> {
        if self.rings.is_empty() && self.linux.is_empty() {
            let message = "all tasks to sample have ended already. Give a process or a thread that still runs.";
            return Err(Usage(message.to_owned()).into());
        }
        if self.manner.begins_at_exec {
            return Ok(());
        }
        self.linux.start()?;
        self.for_each_sampler(Sampler::enable)
    }

    /// Disables the events.
    pub(super) fn stop(&self) -> Result<()> {
        self.for_each_sampler(Sampler::disable)?;
        self.linux.stop()
    }

    fn for_each_sampler(&self, call: impl Fn(&Sampler) -> Result<(), Error>) -> Result<()> {
        let mut samplers = self.rings.iter().map(|ring| &ring.ring.sampler);
        samplers.try_for_each(call).map_err(exit::with_help)
    }

    /// Returns a descriptor of each ring that has to be read before it is full, except the rings whose tasks have all ended.
    pub(super) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let rings = self.rings.iter().map(|ring| &ring.ring);
        let rings = rings.filter(|_| !self.overwrite).chain(&self.dummies);
        let descriptors = rings.filter_map(Ring::descriptor);
        descriptors.chain(self.linux.descriptors()).collect()
    }

    /// Replaces the descriptors of events that have hung up by those of other events of the same rings. The caller must
    /// read all rings afterwards.
    pub(super) fn skip_ended(&mut self) {
        let rings = self.rings.iter_mut().map(|ring| &mut ring.ring);
        rings.chain(&mut self.dummies).for_each(Ring::skip_ended);
        self.linux.skip_ended();
    }

    /// Calls `handle` for each record since the last call. The map has the index in the plan of
    /// each event, by the kernel's ID of the event.
    pub(super) fn drain(
        &mut self,
        mut handle: impl FnMut(RingRecord<'_>, &AHashMap<u64, usize>),
    ) -> Result<()> {
        let no_indices = AHashMap::new();
        self.drain_dummies(|record| handle(RingRecord::Driver(record), &no_indices))?;
        self.drain_samples(|record, indices| handle(RingRecord::Driver(record), indices))?;
        self.linux
            .drain(|bytes, indices| handle(RingRecord::Linux(bytes), indices));
        Ok(())
    }

    fn drain_samples(
        &mut self,
        mut handle: impl FnMut(RawRecord<'_>, &AHashMap<u64, usize>),
    ) -> Result<()> {
        for sample_ring in &mut self.rings {
            if self.is_precise {
                sample_ring.fetch_hardware_samples();
            }
            let SampleRing {
                ring,
                event_indices,
                ..
            } = sample_ring;
            ring.drain(|record| handle(record, event_indices))?;
        }
        Ok(())
    }

    /// Calls `handle` for each record in the rings of dummies.
    pub(super) fn drain_dummies(&mut self, mut handle: impl FnMut(RawRecord<'_>)) -> Result<()> {
        let mut dummies = self.dummies.iter_mut();
        dummies.try_for_each(|ring| ring.drain(&mut handle))
    }

    /// Calls `handle` for each record since the last call, for rings that are overwritten. The newest record of a ring comes
    /// first.
    pub(super) fn drain_newest(
        &mut self,
        handle: impl FnMut(RawRecord<'_>, &AHashMap<u64, usize>),
    ) -> Result<()> {
        let lost_before = self.lost_by_ring()?;
        let samplers = self.rings.iter().map(|ring| &ring.ring.sampler);
        Sampler::pause_all(samplers).map_err(exit::with_help)?;
        let drained = self.drain_samples(handle);
        self.for_each_sampler(Sampler::resume)?;
        // Samples that were lost in the pause are not reported: the pause is part of what --overwrite does.
        let lost_after = self.lost_by_ring()?;
        let lost_in_pause = lost_after
            .iter()
            .zip(lost_before)
            .map(|(after, before)| after.saturating_sub(before));
        for (ring, lost) in self.rings.iter_mut().zip(lost_in_pause) {
            ring.lost_in_pauses += lost;
        }
        drained
    }

    /// Returns how many samples each CPU has lost. CPUs without losses are left out.
    pub(super) fn lost_by_cpu(&self) -> Result<BTreeMap<u32, u64>> {
        let lost = self.lost_by_ring()?;
        let cpu_and_lost =
            |(ring, lost): (&SampleRing, u64)| (ring.cpu, lost.saturating_sub(ring.lost_in_pauses));
        let lost_samples = self.rings.iter().zip(lost).map(cpu_and_lost);
        let mut by_cpu = BTreeMap::new();
        for (cpu, lost) in lost_samples.chain(self.linux.lost_by_cpu()?) {
            *by_cpu.entry(cpu).or_default() += lost;
        }
        by_cpu.retain(|_, lost| *lost > 0);
        Ok(by_cpu)
    }

    /// Returns the CPUs on which Linux has throttled an event of its PMUs since the last call.
    pub(super) fn take_throttled_by_linux(&mut self) -> Vec<u32> {
        self.linux.take_throttled()
    }

    /// Returns the reasons why there are fewer samples than there should be.
    pub(super) fn degraded_reasons(&self) -> Result<Vec<String>> {
        self.linux.degraded_reasons()
    }

    /// Returns the CPUs on which events were missed, so that there is no count.
    pub(super) fn cpus_with_missed_events(&self) -> Vec<u32> {
        let is_missed = |event: &Event| {
            event
                .read()
                .is_err_and(|error| error.cause == Cause::Missed)
        };
        let has_missed = |ring: &&SampleRing| ring.sampled_events().any(is_missed);
        let rings = self.rings.iter().filter(has_missed);
        rings.map(|ring| ring.cpu).collect()
    }

    /// Returns whether a task has executed a program that must not be sampled. The driver reports
    /// this for its sampled events and for the dummies. Linux's events leave such a task without a
    /// report, so the dummies report for them.
    ///
    /// The dummies are asked only if the sampled events are inherited. Dummies follow created tasks
    /// in any case, and would otherwise report tasks that are not sampled.
    pub(super) fn have_left_program(&self) -> Result<bool> {
        let dummies = self.dummies.iter().filter(|_| self.manner.inherit);
        let dummies = dummies.flat_map(|ring| ring.sampler.events());
        let sampled = self.rings.iter().flat_map(SampleRing::sampled_events);
        for event in sampled.chain(dummies) {
            if event.tasks_not_followed().map_err(exit::with_help)? > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn lost_by_ring(&self) -> Result<Vec<u64>> {
        let lost = |ring: &SampleRing| Ok(ring.lost_samples()?.unwrap_or(0));
        self.rings.iter().map(lost).collect()
    }

    /// Returns the number of lost records other than samples, by the driver's reports.
    pub(super) fn lost_records(&self) -> Result<u64> {
        let mut lost: u64 = self.dummies.iter().map(|ring| ring.lost).sum();
        for ring in &self.rings {
            if let Some(samples) = ring.lost_samples()? {
                lost += ring.ring.lost.saturating_sub(samples);
            }
        }
        Ok(lost)
    }

    /// Returns the count of each event of the plan. Events that were missed on a CPU count as 0 there.
    pub(super) fn totals(&self) -> Result<Vec<u64>> {
        let mut totals = vec![0_u64; self.events];
        for ring in &self.rings {
            for event in ring.sampled_events() {
                let count = match event.read() {
                    Err(error) if error.cause == Cause::Missed => 0,
                    result => result.map_err(exit::with_help)?,
                };
                let id = event.id().map_err(exit::with_help)?;
                if let Some(index) = ring.event_indices.get(&id) {
                    totals[*index] = totals[*index].saturating_add(count);
                }
            }
        }
        self.linux.add_totals(&mut totals)?;
        Ok(totals)
    }
}

/// Reduces the plan so that another attempt may succeed, if the driver's refusal allows for that.
///
/// # Errors
/// The refusal, with advice.
fn change_plan_or_fail(
    error: Error,
    plan: &mut SamplingPlan,
    tasks: &SampledTasks,
    device: &Device,
) -> Result<()> {
    match &error.cause {
        Cause::Forbidden if tasks.are_selected() && plan.limit_to_user_mode() => Ok(()),
        Cause::Forbidden if plan.has_cgroups() => Err(cgroups_forbidden("sample")),
        Cause::Forbidden if !tasks.are_selected() => {
            Err(anyhow!("{}", all_programs_advice("sample")))
        }
        Cause::Forbidden => {
            let is_own = matches!(tasks, SampledTasks::Command { .. });
            let tid = tasks.tids().first().filter(|_| !is_own);
            Err(with_sampling_advice(error, tid.copied()))
        }
        Cause::NotSupported if plan.turn_off_precision(|_| true) => Ok(()),
        Cause::NotSupported if plan.leave_out_data_source() => Ok(()),
        Cause::NotSupported => {
            let supported = || precise::supported_by(device).ok().flatten();
            let options = plan.excluding_options();
            let refused = precision::refusal_message(
                plan.rates(),
                (&options, plan.memory_options()),
                supported,
            );
            Err(refused.map_or_else(|| exit::with_help(error), |text| anyhow!(text)))
        }
        Cause::NoSuchEvent | Cause::FrequencyTooHigh(_) => {
            let refused = plan.above_limit_error(device);
            Err(refused.map_or_else(|| exit::with_help(error), Into::into))
        }
        _ => Err(exit::with_help(error)),
    }
}

/// Returns for each of the tasks a function that makes the task the target of an event.
fn target_setters(
    tasks: &SampledTasks,
    manner: SamplingManner,
) -> Vec<Box<dyn Fn(Builder) -> Builder>> {
    let SamplingManner {
        inherit,
        begins_at_exec,
    } = manner;
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
                if begins_at_exec {
                    event.enable_on_exec()
                } else {
                    event
                }
            })]
        }
        SampledTasks::Threads { tids, .. } => tids.iter().copied().map(thread).collect(),
        SampledTasks::Cpus { .. } => vec![Box::new(Builder::all_tasks)],
    }
}
