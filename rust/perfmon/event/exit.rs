// SPDX-License-Identifier: GPL-2.0-only
//! `PERF_RECORD_READ`: when a task ends that has inherited an event with `inherit_stat`, its count is told.

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
struct Told {
    event: NonNull<Event>,
    cpu: CpuId,
    /// As from a read(2).
    words: KVec<u64>,
}

/// The counts of a task that ends.
#[derive(Default)]
pub(super) struct Counts(KVec<Told>);

impl Counts {
    /// Notes the counts of slots whose windows are closed. Those for which there is no memory are lost.
    pub(super) fn note(&mut self, slots: &Slots) {
        for slot in slots.iter().filter(|slot| slot.tells_at_exit()) {
            let event = slot.event();
            // An inherited event without a CPU has no ring.
            let Some(cpu) = event.target.cpu() else {
                continue;
            };
            if !event.sampler.has_ring() {
                continue;
            }
            if slots.group(event).any(|slot| slot.event().is_broken()) {
                event.sampler.lose_record();
                continue;
            }
            let noted = words(slots, slot).and_then(|words| {
                let event = NonNull::from(event);
                let told = Told { event, cpu, words };
                Ok(self.0.push(told, GFP_ATOMIC | __GFP_NOWARN)?)
            });
            if noted.is_err() {
                event.sampler.lose_record();
            }
        }
    }

    /// Writes the records. The caller, the task that ends, has interrupts on and RCU held since they were noted.
    pub(super) fn tell(&self) {
        let task: &Task = current!();
        for told in self.0.iter() {
            // SAFETY: The event was alive when its slot was there, and is freed by RCU, which is held.
            let sampler = unsafe { &told.event.as_ref().sampler };
            let cpu = told.cpu.as_u32();
            let words = told.words.as_slice();
            let done = on_cpu(cpu, |_| sampler.record_counts(words, task.as_ptr(), cpu));
            if !done {
                sampler.lose_record();
            }
        }
    }
}

/// Returns what a read(2) of the slot's event would return, if there were the task's slots only.
fn words(slots: &Slots, slot: &Slot) -> Result<KVec<u64>> {
    let event = slot.event();
    let format = event.sampler.sampling.read;
    let mut words = KVec::new();
    let size = format.words(slots.group(event).count());
    words.resize(size, 0, GFP_ATOMIC | __GFP_NOWARN)?;
    let value = |slot: &Slot| EventValue {
        value: slot.counted().count,
        id: slot.event().id,
        lost: slot.event().sampler.lost(),
    };
    let time = slots.group(event).next().unwrap_or(slot).counted().time;
    let times = || EventTimes {
        enabled: time.nanoseconds(),
        running: time.nanoseconds(),
    };
    if format.is_group() {
        let group = slots.group(event).map(|slot| Some(value(slot)));
        format
            .encode_group(&mut words, group, times)
            .ok_or(EINVAL)?;
    } else {
        let mut one = [0; crate::logic::read_format::MAX_WORDS_OF_ONE];
        words.copy_from_slice(format.encode_one(&mut one, value(slot), times));
    }
    Ok(words)
}
