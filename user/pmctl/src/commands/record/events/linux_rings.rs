// SPDX-License-Identifier: MIT OR Apache-2.0
//! The open events of Linux's PMUs, and their rings, one for each CPU. Their records have the form and the clock of the
//! driver's records.

use std::iter;
use std::mem;
use std::os::fd::BorrowedFd;

use ahash::AHashMap;
use anyhow::{Context, Result, anyhow};
use nix::errno::Errno;
use perfmon_core::logic::perf_event::{PERF_RECORD_SAMPLE, PERF_RECORD_THROTTLE};
use zerocopy::IntoBytes;

use super::linux_event::{Activation, LinuxEvent, READ_WORDS, SampleForm};
use super::linux_refusal::{RefusedCall, forbidden_message};
use super::plan::SamplingPlan;
use super::polled::Polled;
use super::sampled_tasks::SampledTasks;
use crate::commands::record::perf_ring::{ALL_TASKS, PerfRing, RingError};
use crate::events::cpus::Cpus;
use crate::events::perf_event;
use crate::recording::perfdata::SampleParts;
use crate::system::exit::Usage;

/// The rings of all CPUs.
#[derive(Default)]
pub(super) struct LinuxRings {
    rings: Vec<LinuxRing>,
    /// The names of the events.
    labels: Vec<String>,
    /// For each event, the period if Linux writes the samples without their period.
    unwritten_periods: Vec<Option<u64>>,
    /// The index of the period among the words of a sample.
    period_index: usize,
    /// The index in the plan of the first event.
    first_index: usize,
    /// Sampling begins with the command's exec.
    begins_at_exec: bool,
    /// The events belong to tasks, and not to CPUs.
    is_of_tasks: bool,
}

/// The ring of a CPU.
struct LinuxRing {
    cpu: u32,
    ring: PerfRing,
    polled: Polled,
    /// The index in the plan of each event, by the kernel's ID of the event.
    event_indices: AHashMap<u64, usize>,
    /// Linux has stopped an event for a while, since it made too many samples.
    is_throttled: bool,
}

/// The reason why the events can't be opened.
pub(super) enum Refusal {
    /// The user has no right to sample these tasks, or to sample them in these modes. The text is
    /// the message.
    Forbidden(String),
    /// The user may not lock that much memory.
    MemoryLimit,
    /// Any other reason.
    Other(anyhow::Error),
}

/// The numbers that read(2) of an event returns.
struct EventState {
    count: u64,
    /// The time in which the event was enabled, in nanoseconds.
    enabled: u64,
    /// The time in which the event was on its PMU, in nanoseconds.
    running: u64,
    /// The number of lost samples.
    lost: u64,
}

impl LinuxRings {
    /// Opens the events of a plan, with `pages` pages for the records of each CPU.
    pub(super) fn open(
        plan: &SamplingPlan,
        tasks: &SampledTasks,
        pages: usize,
    ) -> Result<Self, Refusal> {
        if let Some(event) = plan
            .linux_events
            .iter()
            .find(|event| is_on_other_cpus(event, tasks))
        {
            return Err(Refusal::Other(no_common_cpu(event)));
        }
        let form = plan.form();
        let begins_at_exec =
            matches!(tasks, SampledTasks::Command { .. }) && plan.manner.begins_at_exec;
        let activation = Activation {
            inherit: plan.manner.inherit && tasks.are_selected(),
            on_exec: begins_at_exec,
        };
        let numbers = tasks.numbers();
        let first_index = plan.events.len();
        let mut rings = Vec::new();
        for cpu in tasks.cpus() {
            let mut ring: Option<PerfRing> = None;
            let mut indices = Vec::new();
            for (index, event) in plan.linux_events.iter().enumerate() {
                let opened = open_event(
                    event,
                    (form, activation),
                    (&numbers, *cpu),
                    (&mut ring, pages),
                )?;
                indices.extend(iter::repeat_n(first_index + index, opened));
            }
            let Some(ring) = ring else {
                continue;
            };
            let ids = ring.events().map(perf_event::id);
            let ids: Vec<u64> = ids.collect::<Result<_, _>>().map_err(Refusal::from_errno)?;
            rings.push(LinuxRing {
                cpu: *cpu,
                ring,
                polled: Polled::default(),
                event_indices: ids.into_iter().zip(indices).collect(),
                is_throttled: false,
            });
        }
        Ok(Self {
            rings,
            labels: plan
                .linux_events
                .iter()
                .map(|event| event.event.label.clone())
                .collect(),
            unwritten_periods: plan
                .linux_events
                .iter()
                .map(LinuxEvent::unwritten_period)
                .collect(),
            period_index: period_index(form.parts),
            first_index,
            begins_at_exec,
            is_of_tasks: tasks.are_selected(),
        })
    }

    /// Returns whether no event is open.
    pub(super) fn is_empty(&self) -> bool {
        self.rings.is_empty()
    }

    /// Enables the events, unless the command's exec does.
    pub(super) fn start(&self) -> Result<()> {
        if self.begins_at_exec {
            return Ok(());
        }
        self.for_each_event(perf_event::enable)
    }

    /// Disables the events.
    pub(super) fn stop(&self) -> Result<()> {
        self.for_each_event(perf_event::disable)
    }

    fn for_each_event(&self, call: fn(BorrowedFd<'_>) -> nix::Result<()>) -> Result<()> {
        let mut events = self.rings.iter().flat_map(|ring| ring.ring.events());
        events
            .try_for_each(call)
            .context("can't start or stop an event of Linux's")
    }

    /// Returns a descriptor of each ring, except those whose tasks have all ended.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.rings
            .iter()
            .filter_map(|LinuxRing { ring, polled, .. }| polled.descriptor(ring.events()))
    }

    /// Replaces the descriptors of events that have hung up by those of other events of the same rings.
    pub(super) fn skip_ended(&mut self) {
        for LinuxRing { ring, polled, .. } in &mut self.rings {
            polled.skip_ended(ring.events());
        }
    }

    /// Calls `handle` for the bytes of each record since the last call. The map has the index in the plan of each
    /// event, by the kernel's ID of the event.
    pub(super) fn drain(&mut self, mut handle: impl FnMut(&[u8], &AHashMap<u64, usize>)) {
        for ring in &mut self.rings {
            let LinuxRing {
                ring,
                event_indices,
                is_throttled,
                ..
            } = ring;
            ring.drain_raw(|bytes| {
                *is_throttled |= bytes.starts_with(&PERF_RECORD_THROTTLE.to_ne_bytes());
                let event_index = sampled_event_id(bytes)
                    .and_then(|id| event_indices.get(&id))
                    .and_then(|index| index.checked_sub(self.first_index));
                let period = event_index
                    .and_then(|index| self.unwritten_periods.get(index).copied().flatten());
                match period {
                    None => handle(bytes, event_indices),
                    // The sample is dropped if a call chain of thousands of addresses leaves no
                    // room for the period.
                    Some(period) => with_period(bytes, self.period_index, period)
                        .into_iter()
                        .for_each(|sample| handle(&sample, event_indices)),
                }
            });
        }
    }

    /// Returns how many samples each CPU has lost.
    pub(super) fn lost_by_cpu(&self) -> Result<Vec<(u32, u64)>> {
        let mut lost_by_cpu = Vec::new();
        for ring in &self.rings {
            let states = ring.states()?;
            lost_by_cpu.push((ring.cpu, states.iter().map(|(_, state)| state.lost).sum()));
        }
        Ok(lost_by_cpu)
    }

    /// Returns the CPUs on which Linux has throttled an event since the last call.
    pub(super) fn take_throttled(&mut self) -> Vec<u32> {
        let was_throttled =
            |ring: &mut LinuxRing| mem::take(&mut ring.is_throttled).then_some(ring.cpu);
        self.rings.iter_mut().filter_map(was_throttled).collect()
    }

    /// Adds the count of each event to the totals of the plan's events.
    pub(super) fn add_totals(&self, totals: &mut [u64]) -> Result<()> {
        for ring in &self.rings {
            for (index, state) in ring.states()? {
                if let Some(total) = totals.get_mut(index) {
                    *total = total.saturating_add(state.count);
                }
            }
        }
        Ok(())
    }

    /// Returns a message for each event that Linux has not sampled all the time.
    pub(super) fn degraded_reasons(&self) -> Result<Vec<String>> {
        let mut times = vec![SampledTimes::default(); self.labels.len()];
        for ring in &self.rings {
            let mut enabled = vec![0_u64; self.labels.len()];
            for (index, state) in ring.states()? {
                let index = index - self.first_index;
                enabled[index] = enabled[index].saturating_add(state.enabled);
                times[index].running = times[index].running.saturating_add(state.running);
            }
            for (times, enabled) in times.iter_mut().zip(enabled) {
                times.add_enabled_time(enabled, self.is_of_tasks);
            }
        }
        let labels = self.labels.iter().zip(times);
        let incomplete = labels.filter(|(_, times)| times.is_incomplete());
        let reason = |(label, times): (&String, SampledTimes)| {
            format!(
                "Linux has sampled {label} for {:.1}% of the time, since another event had its PMU; `pmctl record` does \
                 not scale its numbers",
                times.percent()
            )
        };
        Ok(incomplete.map(reason).collect())
    }
}

/// Returns the kernel's ID of the event of a sample; `None` for other records.
fn sampled_event_id(record: &[u8]) -> Option<u64> {
    record
        .starts_with(&PERF_RECORD_SAMPLE.to_ne_bytes())
        .then_some(())?;
    let id = record.get(8..16)?;
    Some(u64::from_ne_bytes(id.try_into().ok()?))
}

/// Returns the index of the word of a sample that has the period, if samples have these parts.
fn period_index(parts: SampleParts) -> usize {
    // The header, the identifier, the instruction's address, the task, the time, the data's address, and the CPU.
    6 + usize::from(parts.has_data_address)
}

/// Returns a sample with its period inserted as the word with this index; `None` if the sample is too short, or gets too
/// long for a record.
fn with_period(sample: &[u8], index: usize, period: u64) -> Option<Vec<u8>> {
    let (front, rest) = sample.split_at_checked(8 * index)?;
    let mut bytes = [front, &period.to_ne_bytes(), rest].concat();
    let size = u16::try_from(bytes.len()).ok()?;
    // The size is the last part of the header.
    bytes.get_mut(6..8)?.copy_from_slice(&size.to_ne_bytes());
    Some(bytes)
}

/// The times in which an event was enabled and in which it was sampled, in nanoseconds, over all rings.
#[derive(Clone, Copy, Debug, Default)]
struct SampledTimes {
    enabled: u64,
    running: u64,
}

impl SampledTimes {
    /// Adds the time that the events of a ring were enabled. The events of CPUs add up.
    ///
    /// An event of a task counts as enabled whenever the task runs, and as running only while the task runs on the
    /// ring's CPU. So the running times of all rings add up to the enabled time of a single ring.
    fn add_enabled_time(&mut self, enabled: u64, is_of_tasks: bool) {
        self.enabled = if is_of_tasks {
            self.enabled.max(enabled)
        } else {
            self.enabled.saturating_add(enabled)
        };
    }

    /// Returns whether the events did not run for a part of the enabled time. A small difference does not count: the
    /// times of several events are read one after the other.
    const fn is_incomplete(self) -> bool {
        self.running < self.enabled - self.enabled / 50
    }

    fn percent(self) -> f64 {
        self.running as f64 * 100.0 / self.enabled as f64
    }
}

impl LinuxRing {
    /// Reads the events, and returns their states with their indices in the plan.
    fn states(&self) -> Result<Vec<(usize, EventState)>> {
        let mut states = Vec::new();
        for event in self.ring.events() {
            let words = perf_event::read_words::<READ_WORDS>(event);
            let words = words.context("can't read an event of Linux's")?;
            // The event is not pinned, so it can't be in the error state.
            let [count, enabled, running, lost] =
                words.context("an event of Linux's has no count")?;
            let id = perf_event::id(event).context("can't read an event of Linux's")?;
            if let Some(index) = self.event_indices.get(&id) {
                let state = EventState {
                    count,
                    enabled,
                    running,
                    lost,
                };
                states.push((*index, state));
            }
        }
        Ok(states)
    }
}

/// Opens an event for each of the tasks on a CPU, if Linux reads the event's PMU on this CPU. Returns how many were
/// opened.
fn open_event(
    event: &LinuxEvent,
    (form, activation): (SampleForm, Activation),
    (tasks, cpu): (&[i32], u32),
    (ring, pages): (&mut Option<PerfRing>, usize),
) -> Result<usize, Refusal> {
    let mut opened = 0;
    for encoding in &event.event.encodings {
        let is_there = |cpus: &Cpus| cpus.iter().any(|there| there == cpu);
        if !encoding.cpus.as_ref().is_none_or(is_there) {
            continue;
        }
        let attr = event.attr_to_open(encoding, form, activation);
        for task in tasks {
            let result = PerfRing::open_or_add(ring, attr.as_bytes(), (*task, cpu), pages);
            let call = RefusedCall {
                event,
                attr,
                task: *task,
                cpu,
            };
            match result {
                Ok(()) => opened += 1,
                // One of several threads has ended meanwhile.
                Err(RingError::Event(Errno::ESRCH)) if tasks.len() > 1 => {}
                Err(RingError::Event(Errno::EACCES)) => {
                    let message = forbidden_message(event, tasks != [ALL_TASKS]);
                    return Err(Refusal::Forbidden(message));
                }
                Err(RingError::Mapping(Errno::EPERM)) => return Err(Refusal::MemoryLimit),
                Err(error) => {
                    return Err(Refusal::Other(anyhow!(call.message(error.into()))));
                }
            }
        }
    }
    Ok(opened)
}

/// Returns whether Linux reads the event only on CPUs that are not sampled.
fn is_on_other_cpus(event: &LinuxEvent, tasks: &SampledTasks) -> bool {
    let sampled = Cpus::new(tasks.cpus().to_vec());
    let cpus = event.event.cpus();
    cpus.is_some_and(|cpus| cpus.intersection(&sampled).len() == 0)
}

fn no_common_cpu(event: &LinuxEvent) -> anyhow::Error {
    let cpus = event.event.cpus();
    let cpus = cpus.map_or_else(String::new, |cpus| cpus.to_string());
    Usage(format!(
        "-C: {} is sampled on CPU {cpus} only, for all others. Write `-C {cpus}`, or -a.",
        event.event.label
    ))
    .into()
}

impl Refusal {
    fn from_errno(errno: Errno) -> Self {
        Self::Other(anyhow!(
            "can't sample an event of Linux's: {}",
            errno.desc()
        ))
    }

    /// Returns the error to report.
    pub(super) fn into_error(self) -> anyhow::Error {
        match self {
            Self::Forbidden(message) => anyhow!(message),
            Self::MemoryLimit => anyhow!(
                "this user may not lock that much memory for the rings of Linux's events (ulimit -l, \
                 kernel.perf_event_mlock_kb). Give smaller rings with -m."
            ),
            Self::Other(error) => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::perfdata::{Body, decode_record, identifier};

    #[test]
    fn a_sample_without_period_gets_that_of_its_event() {
        for has_data_address in [false, true] {
            let parts = SampleParts {
                has_data_address,
                has_cgroup: true,
                ..SampleParts::default()
            };
            let size: u64 = if has_data_address { 64 } else { 56 };
            let header = u64::from(PERF_RECORD_SAMPLE) | size << 48;
            // The identifier, the address, the task, and the time.
            let front = [header, identifier(1), 0x40_1000, 5 << 32 | 4, 900];
            let data_address = has_data_address.then_some(0x7000);
            // The CPU and the cgroup.
            let words = front.into_iter().chain(data_address).chain([3, 12]);
            let bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
            assert_eq!(sampled_event_id(&bytes), Some(identifier(1)));

            let sample = with_period(&bytes, period_index(parts), 10).expect("there is room");
            let (record, length) = decode_record(&sample, parts).expect("it is a record");
            assert_eq!(length, bytes.len() + 8);
            let record = record.expect("it is of a known type");
            let Body::Sample(sample) = record.body else {
                panic!("it is a sample");
            };
            assert_eq!(
                (sample.period, sample.cgroup, sample.ip),
                (10, 12, 0x40_1000)
            );
            assert_eq!((record.stamp.time, record.stamp.cpu), (900, 3));
        }
        assert_eq!(with_period(&[0; 40], 6, 10), None);
        assert_eq!(with_period(&vec![0; 65_528], 6, 10), None);
    }

    #[test]
    fn time_on_other_cpus_is_not_missing() {
        let times = |rings: &[(u64, u64)], is_of_tasks| {
            let mut times = SampledTimes::default();
            for (enabled, running) in rings {
                times.running += running;
                times.add_enabled_time(*enabled, is_of_tasks);
            }
            times
        };
        // A task ran for 1000 ns, on two CPUs one after the other.
        assert!(!times(&[(1000, 300), (1000, 695)], true).is_incomplete());
        assert!(times(&[(1000, 300), (1000, 300)], true).is_incomplete());
        // Two CPUs, of which one had another event for a while.
        assert!(!times(&[(1000, 1000), (1000, 1000)], false).is_incomplete());
        let half = times(&[(1000, 1000), (1000, 0)], false);
        assert!(half.is_incomplete() && (half.percent() - 50.0).abs() < 1e-9);
    }
}
