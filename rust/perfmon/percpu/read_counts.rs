// SPDX-License-Identifier: GPL-2.0-only
//! Reading the counts for a sample.

use super::{counts::GroupCounts, percpu::PerCpu};
use crate::{
    cpu::{Cycles, ThisCpu},
    logic::{
        counter::CounterId,
        pmu::Pmu,
        read_format::{EventTimes, EventValue, ReadFormat},
    },
    ring::Sampler,
};
use core::ptr;
use kernel::bindings;

impl PerCpu {
    /// Returns the counts of the groups whose samples are of `task`, or of the CPU and of cgroups if `task` is null.
    pub(crate) fn group_counts(&self, task: *const bindings::task_struct) -> &GroupCounts {
        if task.is_null() {
            &self.counts.cpu_groups
        } else {
            &self.counts.task_groups
        }
    }

    /// Returns the counts for a sample of `counter` at the time `now`, as the words of a read(2) in `format`. Returns
    /// `None` if no counts were noted for the counter, or if a counter holds a value that it can't have counted.
    ///
    /// # Safety
    ///
    /// To be called in this CPU's overflow handler, while the counter is armed, and not again before the result is
    /// dropped.
    #[inline(always)]
    pub(crate) unsafe fn counts_in_nmi(
        &self,
        here: ThisCpu<'_>,
        pmu: &Pmu,
        counter: CounterId,
        format: ReadFormat,
        now: u64,
    ) -> Option<&[u64]> {
        // SAFETY: `words` must be called by the handler that owns the words, on their CPU, and not again before the result
        // is dropped: the caller promises that it is this CPU's overflow handler, and that it drops the result first.
        let words = unsafe { self.counts.words.words() };
        let first = self.first_count_entry(counter)?;
        let members = &self.group_counts(self.sampled_task(counter)).members;
        let member = members.get(first.index())?;
        let times = || {
            let cycles_to_add = if member.is_open.get() != 0 { now } else { 0 };
            let running = Cycles(member.time.get().wrapping_add(cycles_to_add));
            let waited = Cycles(member.waited_time.get());
            EventTimes::of_parts(running.nanoseconds(), waited.nanoseconds())
        };
        let running_counters = self.running_counters();
        let mut next = Some(first);
        let mut values = core::iter::from_fn(|| {
            let member = members.get(next?.index())?;
            next = member.next.get();
            let counter = member.counter.get()?;
            // SAFETY: `as_ref` requires a pointer that is null or valid: the address was exposed from a `Sampler` that
            // `add_count` was given, whose caller keeps it alive until the counts are removed. The counter is armed,
            // and its counts are removed when it is disarmed.
            let sampler = unsafe {
                ptr::with_exposed_provenance::<Sampler>(member.sampler.get() as usize).as_ref()
            }?;
            let value = self.value(counter);
            let total = if member.is_open.get() == 0 {
                Ok(0)
            } else if running_counters & counter.bit() == 0 {
                // The counter is stopped, and may be about to be loaded: its total is up to date.
                Ok(value.total())
            } else {
                value.read_total(here, pmu.msrs(counter).read)
            };
            Some(total.ok().map(|total| EventValue {
                value: member.count.get().wrapping_add(total),
                id: sampler.id(),
                lost: sampler.lost_samples(),
            }))
        });
        if format.is_group() {
            format.encode_group(words, values, times)
        } else {
            let words = words.first_chunk_mut()?;
            Some(format.encode_one(words, values.next()??, times))
        }
    }
}
