// SPDX-License-Identifier: GPL-2.0-only
//! The samplers of events whose windows are open on a CPU.

use super::{entries::EntryIndexCell, scratch::Scratch, word::Word};
use crate::{
    logic::counter::{CounterId, MAX_COUNTERS},
    ring::CHAIN_WORDS,
};

/// The samplers of events whose windows are open on a CPU. All bits zero: nothing is sampled.
///
/// Context switches, with interrupts off, change an entry while its counter is stopped. The overflow handler and the
/// timer read it.
pub(crate) struct ActiveSamplers {
    /// The counters whose overflows become samples of events.
    pub(crate) counters: Word,
    /// Not 0 while sampling is suspended, because it took too much of the CPU's time: the time at which the suspension
    /// began, in cycles of the time-stamp counter, with bit 0 set.
    pub(crate) suspended: Word,
    /// The counters whose THROTTLE record has been written, and whose UNTHROTTLE record has not.
    throttled: Word,
    /// The sampler of each counter, by [`CounterId::index`].
    pub(super) by_counter: [ActiveSampler; MAX_COUNTERS],
    /// Memory for the call chain of a sample, for the overflow handler.
    pub(crate) chain: Scratch<CHAIN_WORDS>,
    /// Memory for the call chain of a sample that a task or another interrupt writes, with interrupts off.
    pub(crate) chain_outside_nmi: Scratch<CHAIN_WORDS>,
}

/// The sampler of a counter, with the task, the times and the counts of its samples.
pub(super) struct ActiveSampler {
    /// The address of the [`Sampler`](crate::ring::Sampler).
    pub(super) sampler: Word,
    /// The address of the task; 0 for an event of a CPU or of a cgroup.
    pub(super) task: Word,
    /// The time of the last sample, in cycles of the time-stamp counter.
    pub(super) time: Word,
    /// The next period of an event with a frequency, computed from the processor's last samples (PEBS); 0 if the period
    /// stays.
    pub(super) next_period: Word,
    /// The first member of the list of counts that samples show, if samples show counts.
    pub(super) first_count_entry: EntryIndexCell,
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
    /// Returns a number that distinguishes the present suspension from earlier ones: the lower half
    /// of the time at which it began, with bit 0 set. Returns 0 if sampling is not suspended.
    pub(crate) fn suspension(&self) -> u32 {
        self.suspended.get() as u32
    }

    /// Notes that the THROTTLE record of a counter (if `throttled`) or its UNTHROTTLE record will be written. Returns
    /// false if the record has already been noted: an NMI that interrupts this function may note it first.
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
