// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events with their rings, one ring for each CPU.
//!
//! A dummy writes to the same ring what tasks are called and what they map. Where that is overwritten, or there is none,
//! it has a ring of its own.

use std::os::fd::{AsFd, BorrowedFd};

use ahash::AHashMap;
use anyhow::{Result, anyhow};
use perfmon::event::{Builder, Event};
use perfmon::sampler::{RawRecord, Sampler};
use perfmon::{Cause, Device, Error};

use super::plan::{SampledTasks, SamplingManner, SamplingPlan};
use super::precision;
use crate::events::rights::{explained_of_samples, of_all_programs};
use crate::system::exit::{self, Usage};

/// The pages of a ring, if the user does not say, and the fewest that are taken instead where that is more than they may
/// pin.
const DEFAULT_PAGES: usize = 64;
/// The pages of a ring for samples with stacks, which need two pages each, and for precise samples, which come fast.
const LARGE_RECORD_PAGES: usize = 512;
const MIN_PAGES: usize = 4;

/// The pages of a dummy's ring.
const DUMMY_PAGES: usize = 32;

/// The records of tasks beside their samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskRecords {
    None,
    /// Names, beginnings and ends.
    Names,
    /// Names and mappings.
    Mappings,
}

/// The rings of all CPUs.
pub(super) struct Samplers {
    rings: Vec<SampleRing>,
    /// The rings of dummies.
    dummies: Vec<Ring>,
    /// The rings of samples are overwritten.
    overwrite: bool,
    /// Number of events in the plan.
    events: usize,
    /// The samples begin with the command's exec.
    from_exec: bool,
    /// The processor takes samples itself, and keeps them until they are asked for.
    precise: bool,
}

/// A ring, and how many records the driver has told to be lost there.
struct Ring {
    sampler: Sampler,
    lost: u64,
}

impl Ring {
    const fn new(sampler: Sampler) -> Self {
        Self { sampler, lost: 0 }
    }

    /// Calls `take` for each record since the last call.
    fn drain(&mut self, mut take: impl FnMut(RawRecord<'_>)) -> Result<()> {
        /// `PERF_RECORD_LOST`: the event, and how many.
        const LOST: u32 = 2;
        let records = self.sampler.records();
        for record in records.raw() {
            let record = record.map_err(exit::with_help)?;
            if record.kind() == LOST && record.size() > 2 {
                self.lost = self.lost.saturating_add(record.word(2));
            }
            take(record);
        }
        Ok(())
    }
}

/// The ring of a CPU.
struct SampleRing {
    cpu: u32,
    /// The ring of the sampled events and then the dummies.
    ring: Ring,
    /// The event of the plan by the kernel's number, of each sampled event.
    numbers: AHashMap<u64, usize>,
    /// Samples that were lost while it was paused to be read.
    paused: u64,
}

impl SampleRing {
    /// Returns the sampled events.
    fn sampled(&self) -> impl Iterator<Item = &Event> {
        self.ring.sampler.events().take(self.numbers.len())
    }

    /// Moves the processor's buffered samples to the ring, so that samples of a later round are later.
    fn fetch_hardware_samples(&self) {
        for event in self.sampled() {
            // Missed events are reported at the end.
            let _ = event.read();
        }
    }

    /// Returns how many samples were lost; `None` if events were missed, so that there is no number.
    fn lost_samples(&self) -> Result<Option<u64>> {
        match self.sampled().map(Event::lost).sum() {
            Err(Error {
                cause: Cause::Missed,
                ..
            }) => Ok(None),
            Err(error) => Err(exit::with_help(error)),
            Ok(lost) => Ok(Some(lost)),
        }
    }
}

impl Samplers {
    /// Opens all events. If the user may not sample the kernel, those without a mode are of user mode. The dummies are
    /// enabled: what samples need to be understood comes before them.
    pub(super) fn open(
        plan: &mut SamplingPlan,
        tasks: &SampledTasks,
        device: &Device,
        (pages, records): (Option<u32>, TaskRecords),
    ) -> Result<Self> {
        let wanted = pages.map(|pages| (pages as usize).next_power_of_two());
        let default = if plan.parts().user || plan.is_precise() {
            LARGE_RECORD_PAGES
        } else {
            DEFAULT_PAGES
        };
        let mut size = wanted.unwrap_or(default);
        loop {
            let error = match Self::try_open(plan, tasks, device, (size, records)) {
                Ok((rings, dummies)) => {
                    return Ok(Self {
                        rings,
                        dummies,
                        overwrite: plan.overwrites(),
                        events: plan.events.len(),
                        from_exec: matches!(tasks, SampledTasks::Command { .. })
                            && plan.manner.from_exec,
                        precise: plan.is_precise(),
                    });
                }
                Err(error) => error,
            };
            match &error.cause {
                Cause::MemoryLimit if wanted.is_none() && size > MIN_PAGES => size /= 2,
                Cause::Forbidden if tasks.are_some() && plan.without_kernel() => {}
                Cause::Forbidden if !tasks.are_some() => {
                    return Err(anyhow!("{}", of_all_programs("sample")));
                }
                Cause::Forbidden => {
                    let is_own = matches!(tasks, SampledTasks::Command { .. });
                    let tid = tasks.tids().first().filter(|_| !is_own);
                    return Err(explained_of_samples(error, tid.copied()));
                }
                Cause::NotSupported if plan.without_precision() => {}
                Cause::NotSupported => {
                    let refused = precision::refused(plan.events.iter().map(|event| &event.spec));
                    return Err(
                        refused.map_or_else(|| exit::with_help(error), |text| anyhow!(text))
                    );
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
        (pages, records): (usize, TaskRecords),
    ) -> Result<(Vec<SampleRing>, Vec<Ring>), Error> {
        let open = |ring: &mut Option<Sampler>, builder: &Builder| {
            let opened = match ring {
                None => builder.sample_on(device).map(|new| *ring = Some(new)),
                Some(ring) => ring.add_on(builder, device).map(drop),
            };
            match opened {
                // A thread of several that has ended meanwhile.
                Err(error) if error.cause == Cause::NoSuchTask && tasks.tids().len() > 1 => {
                    Ok(false)
                }
                result => result.map(|()| true),
            }
        };
        let (mut rings, mut of_dummies) = (Vec::new(), Vec::new());
        for cpu in tasks.cpus() {
            let mut ring: Option<Sampler> = None;
            let mut numbers = Vec::new();
            for task in targets(tasks, plan.manner) {
                for index in 0..plan.events.len() {
                    let Some(builder) = plan.builder(index) else {
                        continue;
                    };
                    if open(&mut ring, &task(builder).cpu(*cpu).pages(pages))? {
                        numbers.push(index);
                    }
                }
            }
            let mut own_ring = None;
            for dummy in dummies(tasks, records) {
                let ring = if ring.is_some() && !plan.overwrites() {
                    &mut ring
                } else {
                    &mut own_ring
                };
                open(ring, &dummy.cpu(*cpu).pages(pages.min(DUMMY_PAGES)))?;
            }
            of_dummies.extend(own_ring.map(Ring::new));
            let Some(sampler) = ring else {
                continue;
            };
            let mut ids = AHashMap::new();
            for (event, number) in sampler.events().zip(numbers) {
                ids.insert(event.id()?, number);
            }
            rings.push(SampleRing {
                cpu: *cpu,
                ring: Ring::new(sampler),
                numbers: ids,
                paused: 0,
            });
        }
        for cpu in tasks.other_cpus() {
            let mut ring = None;
            for dummy in dummies(tasks, records) {
                open(&mut ring, &dummy.cpu(*cpu).pages(pages.min(DUMMY_PAGES)))?;
            }
            of_dummies.extend(ring.map(Ring::new));
        }
        Ok((rings, of_dummies))
    }

    /// Begins, unless the command's exec does.
    pub(super) fn start(&self) -> Result<()> {
        if self.rings.is_empty() {
            return Err(Usage("all tasks to sample have ended already. Give a process or a thread that still runs.".to_owned()).into());
        }
        if self.from_exec {
            return Ok(());
        }
        self.for_each_sampler(Sampler::enable)
    }

    /// Ends.
    pub(super) fn stop(&self) -> Result<()> {
        self.for_each_sampler(Sampler::disable)
    }

    fn for_each_sampler(&self, call: impl Fn(&Sampler) -> Result<(), Error>) -> Result<()> {
        let mut samplers = self.rings.iter().map(|ring| &ring.ring.sampler);
        samplers.try_for_each(call).map_err(exit::with_help)
    }

    /// Returns what becomes readable when a ring fills that has to be read.
    pub(super) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let rings = self.rings.iter().map(|ring| &ring.ring);
        let rings = rings.filter(|_| !self.overwrite).chain(&self.dummies);
        rings.map(|ring| ring.sampler.as_fd()).collect()
    }

    /// Calls `take` for each record since the last call, with a function that gives the event of a kernel's number.
    pub(super) fn drain(
        &mut self,
        mut take: impl FnMut(RawRecord<'_>, &AHashMap<u64, usize>),
    ) -> Result<()> {
        let none = AHashMap::new();
        self.drain_dummies(|record| take(record, &none))?;
        self.drain_samples(take)
    }

    fn drain_samples(
        &mut self,
        mut take: impl FnMut(RawRecord<'_>, &AHashMap<u64, usize>),
    ) -> Result<()> {
        for sample_ring in &mut self.rings {
            if self.precise {
                sample_ring.fetch_hardware_samples();
            }
            let SampleRing { ring, numbers, .. } = sample_ring;
            ring.drain(|record| take(record, numbers))?;
        }
        Ok(())
    }

    /// Calls `take` for each record in the rings of dummies.
    pub(super) fn drain_dummies(&mut self, mut take: impl FnMut(RawRecord<'_>)) -> Result<()> {
        let mut dummies = self.dummies.iter_mut();
        dummies.try_for_each(|ring| ring.drain(&mut take))
    }

    /// Calls `take` for each record of rings that are overwritten, since the last call: of each ring the newest first.
    pub(super) fn drain_newest(
        &mut self,
        take: impl FnMut(RawRecord<'_>, &AHashMap<u64, usize>),
    ) -> Result<()> {
        let before = self.lost_of_all()?;
        let samplers = self.rings.iter().map(|ring| &ring.ring.sampler);
        Sampler::pause_all(samplers).map_err(exit::with_help)?;
        let drained = self.drain_samples(take);
        self.for_each_sampler(Sampler::resume)?;
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
        let has_missed = |ring: &&SampleRing| ring.sampled().any(is_missed);
        let rings = self.rings.iter().filter(has_missed);
        rings.map(|ring| ring.cpu).collect()
    }

    /// Returns whether tasks go on that are not sampled any more.
    pub(super) fn have_left(&self) -> Result<bool> {
        for event in self.rings.iter().flat_map(SampleRing::sampled) {
            if event.left().map_err(exit::with_help)? > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn lost_of_all(&self) -> Result<Vec<u64>> {
        let lost = |ring: &SampleRing| Ok(ring.lost_samples()?.unwrap_or(0));
        self.rings.iter().map(lost).collect()
    }

    /// Returns the number of lost records other than samples, as far as the driver reported it.
    pub(super) fn lost_records(&self) -> Result<u64> {
        let mut lost: u64 = self.dummies.iter().map(|ring| ring.lost).sum();
        for ring in &self.rings {
            if let Some(samples) = ring.lost_samples()? {
                lost += ring.ring.lost.saturating_sub(samples);
            }
        }
        Ok(lost)
    }

    /// Returns the count of each event of the plan, without those that [`Self::missed`] tells of.
    pub(super) fn totals(&self) -> Result<Vec<u64>> {
        let mut totals = vec![0_u64; self.events];
        for ring in &self.rings {
            for event in ring.sampled() {
                let count = match event.read() {
                    Err(error) if error.cause == Cause::Missed => 0,
                    result => result.map_err(exit::with_help)?,
                };
                let number = event.id().map_err(exit::with_help)?;
                if let Some(index) = ring.numbers.get(&number) {
                    totals[*index] = totals[*index].saturating_add(count);
                }
            }
        }
        Ok(totals)
    }
}

/// Returns a dummy for each of the tasks, and for what it creates, whether or not that is sampled: threads share their
/// memory. None without records.
fn dummies(tasks: &SampledTasks, records: TaskRecords) -> Vec<Builder> {
    let dummy = || {
        // Users may have one of their own tasks.
        let dummy = Event::dummy().user().tasks();
        if records == TaskRecords::Mappings {
            dummy.mappings()
        } else {
            dummy
        }
    };
    match tasks.tids() {
        _ if records == TaskRecords::None => Vec::new(),
        [] => vec![dummy().all_tasks()],
        tids => tids.iter().map(|tid| dummy().pid(*tid).inherit()).collect(),
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
        SampledTasks::Cpus { .. } => vec![Box::new(Builder::all_tasks)],
    }
}
