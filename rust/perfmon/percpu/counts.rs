// SPDX-License-Identifier: GPL-2.0-only
//! The counts that samples show (`PERF_SAMPLE_READ`): of an event, or of its group.

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

/// The most words of a read(2): of a group with all there is.
const MAX_READ_WORDS: usize = 3 + 3 * MAX_ENTRIES;

/// The counts of the groups that have an open window. All bits zero: none.
pub(crate) struct SampledCounts {
    task_groups: GroupCounts,
    /// The counts of the CPU's and cgroups' events: apart, so that a program's events can't use up the room for
    /// these.
    cpu_groups: GroupCounts,
    /// The words of the counts in a sample, in the overflow handler.
    words: Scratch<MAX_READ_WORDS>,
}

/// The counts of groups.
///
/// Switches, with interrupts off, write those of a group while its sampled counters are stopped; the overflow handler
/// reads them.
pub(crate) struct GroupCounts {
    in_use: EntryBitmap,
    members: [CountedEvent; MAX_ENTRIES],
}

/// An event of such a group.
struct CountedEvent {
    /// The address of its [`Sampler`].
    sampler: Word,
    counter: CounterCell,
    /// The count: while the window is open, less the counter's total.
    count: Word,
    /// The time in cycles of the time-stamp counter. While the window is open that counter is subtracted, so that adding
    /// it gives the time.
    time: Word,
    /// Not 0 while the window is open.
    is_open: Word,
    /// The next event in the group; none behind the last.
    next: EntryIndexCell,
}

/// The count and the time of an event; while its window is open, less the counter's total and the time-stamp counter.
#[derive(Clone, Copy)]
pub(crate) struct CountBase {
    pub(crate) count: u64,
    pub(crate) time: u64,
    pub(crate) is_open: bool,
}

impl GroupCounts {
    /// Adds the count of an event to the list of its group, in front of `next`. Returns the new first element. `None`
    /// if there is no room: then the list is gone.
    ///
    /// # Safety
    ///
    /// The sampler must live until [`Self::end`].
    pub(crate) unsafe fn begin(
        &self,
        counter: CounterId,
        sampler: &Sampler,
        base: CountBase,
        next: Option<EntryIndex>,
    ) -> Option<EntryIndex> {
        let entry = self.in_use.take(|entry| {
            if let Some(member) = self.members.get(entry.index()) {
                let address = ptr::from_ref(sampler).expose_provenance() as u64;
                member.sampler.set(address);
                member.counter.set(Some(counter));
                member.count.set(base.count);
                member.time.set(base.time);
                member.is_open.set(base.is_open.into());
                member.next.set(next);
            }
        });
        if entry.is_none() {
            self.end(next);
        }
        entry
    }

    /// Removes the counts of a group, whose list begins with `first`.
    pub(super) fn end(&self, first: Option<EntryIndex>) {
        let mut next = first;
        while let Some(entry) = next {
            let member = self.members.get(entry.index());
            next = member.and_then(|member| member.next.get());
            self.in_use.give_back(entry);
        }
    }
}

impl PerCpu {
    /// Returns the counts for samples of a task, or of the CPU and of cgroups if that is null.
    pub(crate) fn group_counts(&self, task: *const bindings::task_struct) -> &GroupCounts {
        if task.is_null() {
            &self.counts.cpu_groups
        } else {
            &self.counts.task_groups
        }
    }

    /// Returns the words of a read(2) of the group that samples of a counter show: at the moment `now`, in the overflow
    /// handler. `None` if there is no such group.
    ///
    /// # Safety
    ///
    /// To be called in this CPU's overflow handler, once until the result has gone. The counter is armed.
    #[inline(always)]
    pub(crate) unsafe fn counts_in_nmi(
        &self,
        here: ThisCpu<'_>,
        pmu: &Pmu,
        counter: CounterId,
        format: ReadFormat,
        now: u64,
    ) -> Option<&[u64]> {
        // SAFETY: The words belong to this CPU's overflow handler. The caller is that handler, and drops the result before
        // it calls this again, so no other reference exists.
        let words = unsafe { self.counts.words.words() };
        let first = self.first_count(counter)?;
        let members = &self.group_counts(self.sampled_task(counter)).members;
        let member = members.get(first.index())?;
        let times = || {
            let running = if member.is_open.get() != 0 { now } else { 0 };
            let time = Cycles(member.time.get().wrapping_add(running)).nanoseconds();
            EventTimes {
                enabled: time,
                running: time,
            }
        };
        let counters = self.running_counters();
        let mut next = Some(first);
        let mut values = core::iter::from_fn(|| {
            let member = members.get(next?.index())?;
            next = member.next.get();
            let counter = member.counter.get()?;
            // SAFETY: The group is of the counter, which is armed, so its samplers are alive.
            let sampler = unsafe {
                ptr::with_exposed_provenance::<Sampler>(member.sampler.get() as usize).as_ref()
            }?;
            let value = self.value(counter);
            let total = if member.is_open.get() == 0 {
                0
            } else if counters & counter.bit() == 0 {
                // It stands still, and may be about to be loaded.
                value.total()
            } else {
                value.update_in_nmi(here, pmu.msrs(counter).read)
            };
            Some(EventValue {
                value: member.count.get().wrapping_add(total),
                id: sampler.id(),
                lost: sampler.lost(),
            })
        });
        if format.is_group() {
            format.encode_group(words, values.map(Some), times)
        } else {
            let words = words.first_chunk_mut()?;
            Some(format.encode_one(words, values.next()?, times))
        }
    }
}
