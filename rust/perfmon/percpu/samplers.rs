// SPDX-License-Identifier: GPL-2.0-only
//! The events that are sampled on a CPU now.

use super::{EntryIndex, EntryIndexCell, PerCpu, SampledCounter, Scratch, Word};
use crate::{
    logic::counter::{CounterId, MAX_COUNTERS},
    ring::{Sampler, CHAIN_WORDS},
};
use core::ptr;
use kernel::bindings;

/// The events that are sampled on a CPU now. All bits zero: none.
///
/// Switches, with interrupts off, change an entry while its counter is stopped; the overflow handler and the timer read
/// it.
pub(crate) struct ActiveSamplers {
    /// The counters whose overflows become samples.
    pub(crate) counters: Word,
    /// Not 0 while samples would take too much of the CPU's time.
    pub(crate) suspended: Word,
    active: [ActiveSampler; MAX_COUNTERS],
    /// For a call chain, in the overflow handler.
    pub(crate) chain: Scratch<CHAIN_WORDS>,
}

struct ActiveSampler {
    /// The address of the [`Sampler`].
    sampler: Word,
    /// The address of the task; 0 for an event of a CPU.
    task: Word,
    /// The time of the last sample, in cycles of the time-stamp counter.
    time: Word,
    /// The first event whose count samples show.
    first_count: EntryIndexCell,
}

/// The state of a counter that samples an event.
#[derive(Clone, Copy)]
pub(crate) struct ArmedSampler {
    /// The events from one sample to the next.
    pub(crate) period: u64,
    /// The counter's total when the next sample is due.
    pub(crate) due: u64,
    /// The time of the last sample, in cycles of the time-stamp counter.
    pub(crate) time: u64,
}

impl PerCpu {
    /// Makes overflows of a counter, which is stopped, samples of `task`, or of a CPU if that is null. `min_load` are
    /// the fewest events that it may be loaded for. Returns the recording of the counter.
    ///
    /// # Safety
    ///
    /// The sampler must be alive until [`Self::disarm`].
    pub(crate) unsafe fn arm(
        &self,
        counter: CounterId,
        sampler: &Sampler,
        task: *mut bindings::task_struct,
        armed: ArmedSampler,
        min_load: u32,
    ) -> &SampledCounter {
        let sampled = self.sampled(counter);
        if let Some(active) = self.samplers.active.get(counter.index()) {
            active
                .sampler
                .set(ptr::from_ref(sampler).expose_provenance() as u64);
            active.task.set(task.expose_provenance() as u64);
            active.time.set(armed.time);
            self.samplers.counters.insert(counter.bit());
            sampled.arm(armed.period, armed.due, min_load);
        }
        sampled
    }

    /// Ends [`Self::arm`]. The counter may run on.
    pub(crate) fn disarm(&self, counter: CounterId) -> ArmedSampler {
        // Then the handler takes no sample any more.
        let (period, due) = self.sampled(counter).disarm();
        self.samplers.counters.remove(counter.bit());
        self.group_counts(self.sampled_task(counter))
            .end(self.first_count(counter));
        self.set_first_count(counter, None);
        ArmedSampler {
            period,
            due,
            time: self.sample_time(counter).map_or(0, Word::get),
        }
    }

    /// Returns the sampler of a counter that is armed.
    #[inline(always)]
    pub(crate) fn sampler(&self, counter: CounterId) -> Option<&Sampler> {
        if self.samplers.counters.get() & counter.bit() == 0 {
            return None;
        }
        let address = self.samplers.active.get(counter.index())?.sampler.get();
        // SAFETY: The counter is armed, and the caller of `arm` keeps the sampler alive until `disarm`.
        unsafe { ptr::with_exposed_provenance::<Sampler>(address as usize).as_ref() }
    }

    /// Returns the task of a counter that is armed; null for an event of a CPU.
    #[inline(always)]
    pub(crate) fn sampled_task(&self, counter: CounterId) -> *mut bindings::task_struct {
        let task = self.samplers.active.get(counter.index());
        ptr::with_exposed_provenance_mut(task.map_or(0, |active| active.task.get()) as usize)
    }

    /// Returns the time of the last sample of a counter, in cycles of the time-stamp counter.
    #[inline(always)]
    pub(crate) fn sample_time(&self, counter: CounterId) -> Option<&Word> {
        self.samplers
            .active
            .get(counter.index())
            .map(|active| &active.time)
    }

    /// Sets the first event of the list whose counts the samples of a counter show, from arming to disarming; `None`
    /// for no counts.
    pub(crate) fn set_first_count(&self, counter: CounterId, first: Option<EntryIndex>) {
        if let Some(active) = self.samplers.active.get(counter.index()) {
            active.first_count.set(first);
        }
    }

    /// Returns the first event of [`Self::set_first_count`].
    pub(crate) fn first_count(&self, counter: CounterId) -> Option<EntryIndex> {
        self.samplers.active.get(counter.index())?.first_count.get()
    }
}
