// SPDX-License-Identifier: GPL-2.0-only
//! Arming and disarming the sampler of a counter, and looking up the sampler, task and times of an armed counter.

use super::{
    entries::EntryIndex, percpu::PerCpu, sampled::SampledCounter, samplers::ArmedSampler,
    word::Word,
};
use crate::{logic::counter::CounterId, ring::Sampler};
use core::ptr;
use kernel::bindings;

impl PerCpu {
    /// Arms a stopped counter: its overflows become samples of `task`; null for an event of a CPU
    /// or of a cgroup. `min_load` is the smallest number of events that the counter may be loaded
    /// for. Returns the state of the counter's samples.
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

    /// Disarms a counter that [`Self::arm_sampler`] has armed, and returns the state of its samples. The counter may
    /// keep running.
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
        // `arm_sampler` was given, whose caller keeps it alive until `disarm_sampler`. That clears the bit that was tested
        // above.
        unsafe { ptr::with_exposed_provenance::<Sampler>(address as usize).as_ref() }
    }

    /// Returns the task of a sample that is taken now; null for the current task. In the context switch, the current
    /// task may still be the previous one when the events of the next task's cgroups count.
    #[inline(always)]
    pub(crate) fn task_of_sample(
        &self,
        counter: CounterId,
        sampler: &Sampler,
    ) -> *mut bindings::task_struct {
        match sampler.hierarchy() {
            Some(hierarchy) => {
                let task = self.cgroups.get(hierarchy).task.get();
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

    /// Returns the word with the next period, computed from the processor's last samples; the word is 0 if the period
    /// stays.
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
