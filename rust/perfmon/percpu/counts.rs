// SPDX-License-Identifier: GPL-2.0-only
//! The counts in samples (`PERF_SAMPLE_READ`), of an event or of its group.

use super::{
    CounterCell, EntryBitmap, EntryIndex, EntryIndexCell, PerCpu, Scratch, Word, MAX_ENTRIES,
};
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

/// The largest number of words of a read(2): a group of the largest size, with all parts of `PERF_FORMAT_*`.
const MAX_READ_WORDS: usize = 3 + 3 * MAX_ENTRIES;

/// The counts of events whose samples have counts, while their windows are open. All bits zero: no counts.
pub(crate) struct SampledCounts {
    task_groups: GroupCounts,
    /// The counts of the events of the CPU and of cgroups. They have their own memory, so that a program's events
    /// can't use it up.
    cpu_groups: GroupCounts,
    /// Memory for the counts of one sample, for the overflow handler.
    words: Scratch<MAX_READ_WORDS>,
}

/// The counts of groups of events, each group a linked list of members.
///
/// Context switches, with interrupts off, write the counts of a group while its sampled counters are stopped. The
/// overflow handler reads them.
pub(crate) struct GroupCounts {
    in_use: EntryBitmap,
    members: [CountedEvent; MAX_ENTRIES],
}

/// An event of a group.
struct CountedEvent {
    /// The address of the event's [`Sampler`].
    sampler: Word,
    counter: CounterCell,
    /// The event's count. While its window is open, the counter's total at the window's beginning is subtracted, so that
    /// adding the present total gives the count.
    count: Word,
    /// The event's time in cycles of the time-stamp counter. While its window is open, the time at the window's
    /// beginning is subtracted, so that adding the present time gives the event's time.
    time: Word,
    /// The time in which the event was enabled and waited, in cycles of the time-stamp counter.
    waited_time: Word,
    /// Not 0 while the event's window is open.
    is_open: Word,
    /// The next member of the group, if there is one.
    next: EntryIndexCell,
}

/// The count and the time of an event. While its window is open, the counter's total and the time at the window's
/// beginning are subtracted.
#[derive(Clone, Copy)]
pub(crate) struct CountBase {
    pub(crate) count: u64,
    pub(crate) time: u64,
    /// The time in which the event was enabled and waited.
    pub(crate) waited_time: u64,
    pub(crate) is_open: bool,
}

impl GroupCounts {
    /// Adds the count of an event to the list of its group, in front of `next`. Returns the new first element. If there
    /// is no room, removes the whole list and returns `None`.
    ///
    /// # Safety
    ///
    /// The sampler must live until [`Self::remove_counts`].
    pub(crate) unsafe fn add_count(
        &self,
        counter: CounterId,
        sampler: &Sampler,
        base: CountBase,
        next: Option<EntryIndex>,
    ) -> Option<EntryIndex> {
        let entry = self.in_use.allocate(|entry| {
            if let Some(member) = self.members.get(entry.index()) {
                let address = ptr::from_ref(sampler).expose_provenance() as u64;
                member.sampler.set(address);
                member.counter.set(Some(counter));
                member.count.set(base.count);
                member.time.set(base.time);
                member.waited_time.set(base.waited_time);
                member.is_open.set(base.is_open.into());
                member.next.set(next);
            }
        });
        if entry.is_none() {
            self.remove_counts(next);
        }
        entry
    }

    /// Removes the counts of the group whose list begins with `first`.
    pub(super) fn remove_counts(&self, first: Option<EntryIndex>) {
        let mut next = first;
        while let Some(entry) = next {
            let member = self.members.get(entry.index());
            next = member.and_then(|member| member.next.get());
            self.in_use.free(entry);
        }
    }
}

impl PerCpu {
    /// Returns the counts for samples of `task`, or for samples of the CPU and of cgroups if `task` is null.
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
            let enabled = running.plus(Cycles(member.waited_time.get()));
            EventTimes {
                enabled: enabled.nanoseconds(),
                running: running.nanoseconds(),
            }
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
