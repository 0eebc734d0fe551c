// SPDX-License-Identifier: GPL-2.0-only
//! `PERF_RECORD_READ`: the counts of a task that exits, for events with `inherit_stat` that it has inherited.

use super::{
    event::Event,
    slot::{Slot, Slots},
};
use crate::{
    cpu::on_cpu,
    logic::read_format::{EventTimes, EventValue},
};
use core::ptr::NonNull;
use kernel::{
    alloc::flags::{GFP_ATOMIC, __GFP_NOWARN},
    cpu::CpuId,
    prelude::*,
    task::Task,
};

/// A record that is yet to be written, on the CPU whose ring it goes to.
///
/// # Invariants
///
/// RCU has been held since the event had a slot. The event counts the record as one more slot, so that poll(2)
/// reports the end of all tasks only after the record was written.
struct ReadRecord {
    event: NonNull<Event>,
    cpu: CpuId,
    /// The words that read(2) would return.
    words: KVec<u64>,
}

impl ReadRecord {
    /// Returns a record with `words`, for the ring of `cpu`.
    ///
    /// # Safety
    ///
    /// The event must have a slot, and the caller must hold RCU from now on until the result is dropped.
    unsafe fn new(event: &Event, cpu: CpuId, words: KVec<u64>) -> Self {
        event.count_slot();
        // INVARIANT: The caller holds RCU while the result exists, and the event has just counted the record as a
        // slot.
        Self {
            event: NonNull::from(event),
            cpu,
            words,
        }
    }

    fn event(&self) -> &Event {
        // SAFETY: `as_ref` requires an event that is alive. An event is freed a grace period after its last slot was
        // removed. By the invariant RCU has been held since the event had a slot, so that period has not ended.
        unsafe { self.event.as_ref() }
    }
}

impl Drop for ReadRecord {
    fn drop(&mut self) {
        self.event().uncount_slot();
    }
}

/// The counts of a task that exits, to be recorded.
#[derive(Default)]
pub(super) struct ExitCounts(KVec<ReadRecord>);

impl ExitCounts {
    /// Collects the counts of slots whose windows are closed. If there is no memory for a slot's counts, the event
    /// counts one more lost record.
    ///
    /// # Safety
    ///
    /// The caller must hold RCU from now on until `self` is dropped.
    pub(super) unsafe fn collect(&mut self, slots: &Slots) {
        for slot in slots.iter().filter(|slot| slot.wants_read_record()) {
            let event = slot.event();
            // An inherited event on all CPUs has no ring.
            let Some(cpu) = event.target.cpu() else {
                continue;
            };
            if !event.sampler.has_ring() {
                continue;
            }
            if slots_in_read(slots, slot).any(|slot| slot.event().is_broken()) {
                event.sampler.lose_record();
                continue;
            }
            let push_result = read_words(slots, slot).and_then(|words| {
                // SAFETY: `ReadRecord::new` requires an event with a slot, which is `slot`, and RCU until the record is
                // dropped: the caller holds RCU until `self`, which owns the record, is dropped.
                let record = unsafe { ReadRecord::new(event, cpu, words) };
                Ok(self.0.push(record, GFP_ATOMIC | __GFP_NOWARN)?)
            });
            if push_result.is_err() {
                event.sampler.lose_record();
            }
        }
    }

    /// Writes the records. To be called by the exiting task, with interrupts on.
    pub(super) fn write(&self) {
        let task: &Task = current!();
        for record in self.0.iter() {
            let sampler = &record.event().sampler;
            let cpu = record.cpu.as_u32();
            let words = record.words.as_slice();
            let is_written = on_cpu(cpu, |_| sampler.record_counts(words, task.as_ptr(), cpu));
            if !is_written {
                sampler.lose_record();
            }
        }
    }
}

/// Returns the slots that a read(2) of the slot's event covers: its whole group, or only `slot`.
fn slots_in_read<'a>(slots: &'a Slots, slot: &'a Slot) -> impl Iterator<Item = &'a Slot> {
    let is_group = slot.event().sampler.sampling.read.is_group();
    let group = slots.group(slot.event());
    group.filter(move |member| is_group || member.is_of_event(slot.event()))
}

/// Returns the words that read(2) of the slot's event would return if no other task were counted.
fn read_words(slots: &Slots, slot: &Slot) -> Result<KVec<u64>> {
    let event = slot.event();
    let format = event.sampler.sampling.read;
    let mut words = KVec::new();
    let word_count = format.words(slots_in_read(slots, slot).count());
    words.resize(word_count, 0, GFP_ATOMIC | __GFP_NOWARN)?;
    let value = |slot: &Slot| EventValue {
        value: slot.closed_windows_count().count,
        id: slot.event().id,
        lost: slot.event().sampler.lost_samples(),
    };
    // The first slot is that of the leader, or of the event itself without PERF_FORMAT_GROUP: its times are recorded.
    let leader_slot = slots_in_read(slots, slot).next().unwrap_or(slot);
    let times = || EventTimes {
        enabled: leader_slot.enabled_time().nanoseconds(),
        running: leader_slot.closed_windows_count().time.nanoseconds(),
    };
    if format.is_group() {
        let group = slots_in_read(slots, slot).map(|slot| Some(value(slot)));
        format
            .encode_group(&mut words, group, times)
            .ok_or(EINVAL)?;
    } else {
        let mut words_of_one = [0; crate::logic::read_format::MAX_WORDS_OF_ONE];
        words.copy_from_slice(format.encode_one(&mut words_of_one, value(slot), times));
    }
    Ok(words)
}
