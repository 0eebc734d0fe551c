// SPDX-License-Identifier: GPL-2.0-only
//! Writes `PERF_RECORD_READ` records with the counts of a task's inherited events that have
//! `inherit_stat`. A record is written when its event ends for the task: when the task exits, or
//! when the task executes a program and the event has `remove_on_exec`.

use super::{
    event::Event,
    slot::{Slot, Slots},
};
use crate::{
    cpu::on_cpu,
    logic::read_format::{EventTimes, EventValue, ReadFormat, MAX_WORDS_OF_ONE},
};
use core::{ptr::NonNull, slice};
use kernel::{
    alloc::flags::{GFP_ATOMIC, __GFP_NOWARN},
    cpu::CpuId,
    prelude::*,
    task::Task,
};

/// A record that has not been written yet, for the ring of a CPU.
///
/// # Invariants
///
/// RCU has been held since the event had a slot. The event counts the record as one more slot, so that poll(2)
/// reports the end of all tasks only after the record was written.
struct ReadRecord {
    event: NonNull<Event>,
    cpu: CpuId,
    /// The index of the words that read(2) would return, in [`EndCounts::words_of_reads`].
    words_index: usize,
}

// SAFETY: `Sync` requires that several tasks may use the value at once: the pointer is to an event, which any task may
// use, since an `Event` is `Sync`; the other fields are constant.
unsafe impl Sync for ReadRecord {}

impl ReadRecord {
    /// Returns a record with the words at `words_index`, for the ring of `cpu`.
    ///
    /// # Safety
    ///
    /// The event must have a slot, and the caller must hold RCU from now on until the result is dropped.
    unsafe fn new(event: &Event, cpu: CpuId, words_index: usize) -> Self {
        event.count_slot();
        // INVARIANT: The caller holds RCU while the result exists, and the event has just counted the record as a
        // slot.
        Self {
            event: NonNull::from(event),
            cpu,
            words_index,
        }
    }

    fn event(&self) -> &Event {
        // SAFETY: `as_ref` requires an event that is alive. An event is freed a grace period after
        // its last slot was removed. By the invariant RCU has been held since the event had a slot,
        // so that grace period has not ended.
        unsafe { self.event.as_ref() }
    }
}

impl Drop for ReadRecord {
    fn drop(&mut self) {
        self.event().uncount_slot();
    }
}

/// The counts of events that end for a task. The counts have not been recorded yet.
#[derive(Default)]
pub(super) struct EndCounts {
    records: KVec<ReadRecord>,
    /// For each record, the words that read(2) would return. Records of the same group with the same format share one
    /// element.
    words_of_reads: KVec<KVec<u64>>,
}

impl EndCounts {
    /// Collects the counts of the slots for whose events `ends` returns true: these events end for
    /// the task. Must be called with all windows closed. If there is no memory for a slot's counts,
    /// or a count is not complete, the event counts one more lost record.
    ///
    /// # Safety
    ///
    /// The caller must hold RCU from now on until `self` is dropped.
    pub(super) unsafe fn collect(&mut self, slots: &Slots, ends: impl Fn(&Event) -> bool) {
        for group in slots.groups() {
            // The group's counts are collected once for each format: a group may have a thousand events.
            let mut words_of_group = [None; ReadFormat::COUNT];
            for slot in group.iter().filter(|slot| slot.wants_read_record()) {
                let event = slot.event();
                if !ends(event) {
                    continue;
                }
                // An inherited event on all CPUs has no ring.
                let Some(cpu) = event.target.cpu() else {
                    continue;
                };
                if !event.sampler.has_ring() {
                    continue;
                }
                let format = event.sampler.sampling.read;
                let words_index = match words_of_group.get_mut(format.number()) {
                    Some(words_index) if format.is_group() => {
                        *words_index.get_or_insert_with(|| self.collect_read(group, format))
                    }
                    _ => self.collect_read(slice::from_ref(slot), format),
                };
                let push_result = words_index.ok_or(ENOMEM).and_then(|words_index| {
                    // SAFETY: `ReadRecord::new` requires an event with a slot, which is `slot`, and RCU until the record
                    // is dropped: the caller holds RCU until `self`, which owns the record, is dropped.
                    let record = unsafe { ReadRecord::new(event, cpu, words_index) };
                    Ok(self.records.push(record, GFP_ATOMIC | __GFP_NOWARN)?)
                });
                if push_result.is_err() {
                    event.sampler.lose_record();
                }
            }
        }
    }

    /// Collects the words that read(2) would return for these slots. Returns their index in `words_of_reads`; `None` if a
    /// count is not complete, or if there is no memory.
    fn collect_read(&mut self, slots: &[Slot], format: ReadFormat) -> Option<usize> {
        if slots.iter().any(|slot| slot.event().is_broken()) {
            return None;
        }
        let words = read_words(slots, format).ok()?;
        let index = self.words_of_reads.len();
        let push_result = self.words_of_reads.push(words, GFP_ATOMIC | __GFP_NOWARN);
        push_result.ok().map(|()| index)
    }

    /// Writes the records. To be called by the task, with interrupts on.
    ///
    /// The task is not preempted meanwhile, and waits for each call to a CPU. So each CPU is called for all its records
    /// together. The records are not sorted by CPU: `perf record -e a,b` opens `a` on all CPUs, and then `b`.
    pub(super) fn write(&self) {
        let cpus = || self.records.iter().map(|record| record.cpu.as_u32());
        let mut next_cpu = cpus().min();
        while let Some(cpu) = next_cpu {
            self.write_cpu_records(cpu);
            next_cpu = cpus().filter(|&other| other > cpu).min();
        }
    }

    /// Writes the records for the ring of a CPU. Each call to the CPU writes many records.
    fn write_cpu_records(&self, cpu: u32) {
        let task: &Task = current!();
        let records_left = |written_count| {
            let records = self.records.iter();
            records
                .filter(move |record| record.cpu.as_u32() == cpu)
                .skip(written_count)
        };
        let mut written_count = 0;
        while records_left(written_count).next().is_some() {
            let mut words = 0;
            let fits_into_call = |record: &&ReadRecord| {
                words += self.words(record).len() + EXTRA_WORDS;
                words <= MAX_WORDS_OF_CALL
            };
            let count = records_left(written_count)
                .take_while(fits_into_call)
                .count()
                .max(1);
            let are_written = on_cpu(cpu, |_| {
                for record in records_left(written_count).take(count) {
                    let sampler = &record.event().sampler;
                    sampler.record_counts(self.words(record), task.as_ptr(), cpu);
                }
            });
            if !are_written {
                for record in records_left(written_count).take(count) {
                    record.event().sampler.lose_record();
                }
            }
            written_count += count;
        }
    }

    /// Returns the words that read(2) would return, for a record.
    fn words(&self, record: &ReadRecord) -> &[u64] {
        self.words_of_reads
            .get(record.words_index)
            .map_or(&[], KVec::as_slice)
    }
}

/// The largest number of words that one call to a CPU writes, unless a single record has more. Interrupts are off on that
/// CPU during the call.
const MAX_WORDS_OF_CALL: usize = 1024;

/// The largest number of words that a record has besides the words of read(2): header, IDs, and
/// trailer.
const EXTRA_WORDS: usize = 9;

/// Returns the words that read(2) would return for these slots if no other task were counted.
fn read_words(slots: &[Slot], format: ReadFormat) -> Result<KVec<u64>> {
    // The slot whose times are recorded: the leader's slot, or the event's own slot without
    // PERF_FORMAT_GROUP.
    let first = slots.first().ok_or(EINVAL)?;
    let mut words = KVec::new();
    words.resize(format.word_count(slots.len()), 0, GFP_ATOMIC | __GFP_NOWARN)?;
    let value = |slot: &Slot| EventValue {
        value: slot.closed_windows_count().count,
        id: slot.event().id,
        lost: slot.event().sampler.lost_samples(),
    };
    let times = || {
        let running = first.closed_windows_count().time;
        EventTimes::of_parts(running.nanoseconds(), first.waited_time().nanoseconds())
    };
    if format.is_group() {
        let group = slots.iter().map(|slot| Some(value(slot)));
        format
            .encode_group(&mut words, group, times)
            .ok_or(EINVAL)?;
    } else {
        let mut words_of_one = [0; MAX_WORDS_OF_ONE];
        words.copy_from_slice(format.encode_one(&mut words_of_one, value(first), times));
    }
    Ok(words)
}
