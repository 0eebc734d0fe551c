// SPDX-License-Identifier: GPL-2.0-only
//! `PERF_RECORD_READ`: when a task ends that has inherited an event with `inherit_stat`, its count is recorded.

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

/// A record to be written: by the CPU whose ring it goes to.
///
/// # Invariants
///
/// RCU is held since the event had a slot, and the event counts this as one more slot: poll(2) reports the end of all
/// tasks after the record, and not before.
struct ReadRecord {
    event: NonNull<Event>,
    cpu: CpuId,
    /// The words that a read(2) would return.
    words: KVec<u64>,
}

impl ReadRecord {
    /// Returns a record with these words.
    ///
    /// # Safety
    ///
    /// The event has a slot, and the caller holds RCU for as long as the result exists.
    unsafe fn new(event: &Event, cpu: CpuId, words: KVec<u64>) -> Self {
        event.begin_slot();
        // INVARIANT: The caller holds RCU, and the event has just counted the record as a slot.
        Self {
            event: NonNull::from(event),
            cpu,
            words,
        }
    }

    fn event(&self) -> &Event {
        // SAFETY: RCU has been held since the event had a slot, and events are freed by RCU.
        unsafe { self.event.as_ref() }
    }
}

impl Drop for ReadRecord {
    fn drop(&mut self) {
        self.event().end_slot();
    }
}

/// The counts of a task that ends.
#[derive(Default)]
pub(super) struct ExitCounts(KVec<ReadRecord>);

impl ExitCounts {
    /// Notes the counts of slots whose windows are closed. Those for which there is no memory are lost.
    ///
    /// # Safety
    ///
    /// The caller holds RCU for as long as this exists.
    pub(super) unsafe fn note(&mut self, slots: &Slots) {
        for slot in slots.iter().filter(|slot| slot.wants_read_record()) {
            let event = slot.event();
            // An inherited event without a CPU has no ring.
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
            let noted = read_words(slots, slot).and_then(|words| {
                // SAFETY: The event has this slot, and the caller of `note` holds RCU as long as `self` exists.
                let record = unsafe { ReadRecord::new(event, cpu, words) };
                Ok(self.0.push(record, GFP_ATOMIC | __GFP_NOWARN)?)
            });
            if noted.is_err() {
                event.sampler.lose_record();
            }
        }
    }

    /// Writes the records. For the task that they are of, with interrupts on.
    pub(super) fn write(&self) {
        let task: &Task = current!();
        for record in self.0.iter() {
            let sampler = &record.event().sampler;
            let cpu = record.cpu.as_u32();
            let words = record.words.as_slice();
            let done = on_cpu(cpu, |_| sampler.record_counts(words, task.as_ptr(), cpu));
            if !done {
                sampler.lose_record();
            }
        }
    }
}

/// Returns the slots whose counts a read(2) of the slot's event returns: those of its group, or only this.
fn slots_in_read<'a>(slots: &'a Slots, slot: &'a Slot) -> impl Iterator<Item = &'a Slot> {
    let is_group = slot.event().sampler.sampling.read.is_group();
    let group = slots.group(slot.event());
    group.filter(move |member| is_group || member.is_of_event(slot.event()))
}

/// Returns what a read(2) of the slot's event would return, if there were the task's slots only.
fn read_words(slots: &Slots, slot: &Slot) -> Result<KVec<u64>> {
    let event = slot.event();
    let format = event.sampler.sampling.read;
    let mut words = KVec::new();
    let size = format.words(slots_in_read(slots, slot).count());
    words.resize(size, 0, GFP_ATOMIC | __GFP_NOWARN)?;
    let value = |slot: &Slot| EventValue {
        value: slot.counted().count,
        id: slot.event().id,
        lost: slot.event().sampler.lost(),
    };
    // The time of the leader; of the event itself without a group.
    let first = slots_in_read(slots, slot).next().unwrap_or(slot);
    let times = || EventTimes {
        enabled: first.enabled_time().nanoseconds(),
        running: first.counted().time.nanoseconds(),
    };
    if format.is_group() {
        let group = slots_in_read(slots, slot).map(|slot| Some(value(slot)));
        format
            .encode_group(&mut words, group, times)
            .ok_or(EINVAL)?;
    } else {
        let mut one = [0; crate::logic::read_format::MAX_WORDS_OF_ONE];
        words.copy_from_slice(format.encode_one(&mut one, value(slot), times));
    }
    Ok(words)
}
