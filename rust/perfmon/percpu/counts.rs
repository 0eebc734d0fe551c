// SPDX-License-Identifier: GPL-2.0-only
//! The counts in samples (`PERF_SAMPLE_READ`), of an event or of its group.

use super::{
    entries::{EntryBitmap, EntryIndex, EntryIndexCell, MAX_ENTRIES},
    scratch::Scratch,
    word::{CounterCell, Word},
};
use crate::{logic::counter::CounterId, ring::Sampler};
use core::ptr;

/// The largest number of words of a read(2): a group of the largest size, with all parts of `PERF_FORMAT_*`.
const MAX_READ_WORDS: usize = 3 + 3 * MAX_ENTRIES;

/// The counts of events whose samples have counts, while their windows are open. All bits zero: no counts.
pub(crate) struct SampledCounts {
    pub(super) task_groups: GroupCounts,
    /// The counts of the events of the CPU and of cgroups. These counts have memory of their own,
    /// which the events of tasks can't use up.
    pub(super) cpu_groups: GroupCounts,
    /// Memory for the counts of one sample, as the words of a read(2), for the overflow handler.
    pub(super) words: Scratch<MAX_READ_WORDS>,
}

/// The counts of groups of events, each group a linked list of members.
///
/// Context switches, with interrupts off, write the counts of a group while its sampled counters are stopped. The
/// overflow handler reads them.
pub(crate) struct GroupCounts {
    /// The entries of `members` that are in use.
    in_use: EntryBitmap,
    pub(super) members: [CountedEvent; MAX_ENTRIES],
}

/// An event of a group.
pub(super) struct CountedEvent {
    /// The address of the event's [`Sampler`].
    pub(super) sampler: Word,
    pub(super) counter: CounterCell,
    /// The event's count. While its window is open, the counter's total at the window's beginning is subtracted, so that
    /// adding the present total gives the count.
    pub(super) count: Word,
    /// The event's time in cycles of the time-stamp counter. While its window is open, the time at the window's
    /// beginning is subtracted, so that adding the present time gives the event's time.
    pub(super) time: Word,
    /// The time in which the event was enabled and waited, in cycles of the time-stamp counter.
    pub(super) waited_time: Word,
    /// Not 0 while the event's window is open.
    pub(super) is_open: Word,
    /// The next member of the group, if there is one.
    pub(super) next: EntryIndexCell,
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
