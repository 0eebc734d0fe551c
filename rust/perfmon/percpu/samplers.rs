// SPDX-License-Identifier: GPL-2.0-only
//! The samplers of events whose windows are open on a CPU.

use super::{EntryIndex, EntryIndexCell, PerCpu, SampledCounter, Scratch, Word};
use crate::{
    logic::counter::{CounterId, MAX_COUNTERS},
    ring::{Sampler, CHAIN_WORDS},
};
use core::ptr;
use kernel::bindings;

/// The samplers of events whose windows are open on a CPU. All bits zero: nothing is sampled.
///
/// Context switches, with interrupts off, change an entry while its counter is stopped. The overflow handler and the
/// timer read it.
pub(crate) struct ActiveSamplers {
    /// The counters whose overflows become samples of events.
    pub(crate) counters: Word,
    /// Not 0 while sampling is suspended, because it took too much of the CPU's time.
    pub(crate) suspended: Word,
    /// The counters whose THROTTLE record was written, and not yet the UNTHROTTLE record.
    throttled: Word,
    by_counter: [ActiveSampler; MAX_COUNTERS],
    /// Memory for the call chain of a sample, for the overflow handler.
    pub(crate) chain: Scratch<CHAIN_WORDS>,
    /// Memory for the call chain of a sample that a task or another interrupt writes, with interrupts off.
    pub(crate) chain_outside_nmi: Scratch<CHAIN_WORDS>,
}

/// The sampler of a counter, and what its samples need.
struct ActiveSampler {
    /// The address of the [`Sampler`].
    sampler: Word,
    /// The address of the task; 0 for an event of a CPU.
    task: Word,
    /// The time of the last sample, in cycles of the time-stamp counter.
    time: Word,
    /// The period that the last samples of the processor (PEBS) lead to, for an event with a frequency; 0 if the
    /// period stays.
    next_period: Word,
    /// The first member of the list of counts for samples, if they have counts.
    first_count_entry: EntryIndexCell,
}

/// The state of a counter that samples an event.
#[derive(Clone, Copy)]
pub(crate) struct ArmedSampler {
    /// The events from one sample to the next.
    pub(crate) period: u64,
    /// The counter's total at which the next sample is due.
    pub(crate) due_total: u64,
    /// The time of the last sample, in cycles of the time-stamp counter.
    pub(crate) time: u64,
}

impl ActiveSamplers {
    /// Notes that the THROTTLE record of a counter, or the UNTHROTTLE record, is going to be written. Returns false if it
    /// was written before. A handler that interrupts this may note the same.
    pub(crate) fn note_throttling(&self, counter: CounterId, throttled: bool) -> bool {
        loop {
            let old = self.throttled.get();
            let new = if throttled {
                old | counter.bit()
            } else {
                old & !counter.bit()
            };
            if old == new {
                return false;
            }
            if self.throttled.replace(old, new) {
                return true;
            }
        }
    }
}

impl PerCpu {
    /// Has overflows of a stopped counter become samples of `task`, or of a CPU if `task` is null. `min_load` is the
    /// smallest number of events that the counter may be loaded for. Returns the state of the counter's samples.
    ///
    /// # Safety
    ///
    /// The sampler must be alive until [`Self::disarm_sampler`].
    pub(crate) unsafe fn arm_sampler(
        &self,
        counter: CounterId,
        sampler: &Sampler,
        task: *mut bindings::task_struct,
        armed: ArmedSampler,
        min_load: u32,
    ) -> &SampledCounter {
        let sampled = self.sampled_counter(counter);
        if let Some(active) = self.samplers.by_counter.get(counter.index()) {
            active
                .sampler
                .set(ptr::from_ref(sampler).expose_provenance() as u64);
            active.task.set(task.expose_provenance() as u64);
            active.time.set(armed.time);
            active.next_period.set(0);
            self.samplers.counters.insert(counter.bit());
            sampled.arm(armed.period, armed.due_total, min_load);
        }
        sampled
    }

    /// Undoes [`Self::arm_sampler`]. The counter may keep running.
    pub(crate) fn disarm_sampler(&self, counter: CounterId) -> ArmedSampler {
        // The counter is disarmed first, so that the overflow handler takes no sample during the other steps.
        let (period, due_total) = self.sampled_counter(counter).disarm();
        self.samplers.counters.remove(counter.bit());
        self.group_counts(self.sampled_task(counter))
            .remove_counts(self.first_count_entry(counter));
        self.set_first_count_entry(counter, None);
        ArmedSampler {
            period,
            due_total,
            time: self.sample_time(counter).map_or(0, Word::get),
        }
    }

    /// Returns the sampler of a counter, if it is armed.
    #[inline(always)]
    pub(crate) fn sampler(&self, counter: CounterId) -> Option<&Sampler> {
        if self.samplers.counters.get() & counter.bit() == 0 {
            return None;
        }
        let address = self.samplers.by_counter.get(counter.index())?.sampler.get();
        // SAFETY: `as_ref` requires a pointer that is null or valid: the address was exposed from the `Sampler` that
        // `arm_sampler` was given, whose caller keeps it alive until `disarm_sampler`. The counter is still armed.
        unsafe { ptr::with_exposed_provenance::<Sampler>(address as usize).as_ref() }
    }

    /// Returns the task of a sample that is taken now; null for the current one. In the context switch, the current task
    /// may still be the previous one when the events of the next task's cgroups count.
    #[inline(always)]
    pub(crate) fn task_of_sample(
        &self,
        counter: CounterId,
        sampler: &Sampler,
    ) -> *mut bindings::task_struct {
        match sampler.hierarchy() {
            Some(hierarchy) => {
                let task = self.cgroups.of(hierarchy).task.get();
                ptr::with_exposed_provenance_mut(task as usize)
            }
            None => self.sampled_task(counter),
        }
    }

    /// Returns the task that an armed counter samples; null for an event of a CPU or of a cgroup.
    #[inline(always)]
    pub(crate) fn sampled_task(&self, counter: CounterId) -> *mut bindings::task_struct {
        let active = self.samplers.by_counter.get(counter.index());
        ptr::with_exposed_provenance_mut(active.map_or(0, |active| active.task.get()) as usize)
    }

    /// Returns the word with the time of a counter's last sample, in cycles of the time-stamp counter.
    #[inline(always)]
    pub(crate) fn sample_time(&self, counter: CounterId) -> Option<&Word> {
        self.samplers
            .by_counter
            .get(counter.index())
            .map(|active| &active.time)
    }

    /// Returns the word with the period that the last samples of the processor lead to; 0 if the period stays.
    pub(crate) fn next_period(&self, counter: CounterId) -> Option<&Word> {
        self.samplers
            .by_counter
            .get(counter.index())
            .map(|active| &active.next_period)
    }

    /// Sets the first member of the list of counts for samples of a counter, until the counter is disarmed; `None`
    /// for samples without counts.
    pub(crate) fn set_first_count_entry(&self, counter: CounterId, first: Option<EntryIndex>) {
        if let Some(active) = self.samplers.by_counter.get(counter.index()) {
            active.first_count_entry.set(first);
        }
    }

    /// Returns the first member of the list of counts for samples of a counter.
    pub(crate) fn first_count_entry(&self, counter: CounterId) -> Option<EntryIndex> {
        self.samplers
            .by_counter
            .get(counter.index())?
            .first_count_entry
            .get()
    }
}
