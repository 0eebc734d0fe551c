// SPDX-License-Identifier: GPL-2.0-only
//! The records of a trace. An interrupt writes a TIME record, a TICK or PC record for each event whose sample is due,
//! and the records that follow the samples.
//!
//! The work for each sample is inlined into the overflow handler; rare work is not inlined. Sums wrap, since an NMI
//! must not panic.

use super::suspend::stop_if_full;
use crate::{
    abi,
    cpu::{cr3, Regs, ThisCpu},
    logic::{
        counter::{each_counter, CounterId},
        pmu::Pmu,
    },
    percpu::{CpuTrace, DueSample, SampledCounter, RECORD_REFUSED, RECORD_WRITTEN},
    pmu::{lbr, values},
};

/// The records of one interrupt. Nothing is written before the first sample that is due.
pub(super) struct TraceSample<'a> {
    trace: &'a CpuTrace,
    regs: Regs<'a>,
    /// The time of the interrupt, in cycles of the time-stamp counter.
    now: u64,
    /// The union of [`SampledCounter::follow_mask`] of all recorded samples, the bits of counters for which further
    /// samples were due, and [`RECORD_REFUSED`] if a record did not fit.
    marks: u64,
}

impl<'a> TraceSample<'a> {
    /// Returns an empty sample, for an interrupt that came at the time `now` and interrupted `regs`.
    #[inline(always)]
    pub(super) fn new(trace: &'a CpuTrace, regs: Regs<'a>, now: u64) -> Self {
        Self {
            trace,
            regs,
            now,
            marks: 0,
        }
    }

    /// Adds the due sample of a counter. Returns the number of events to load the counter for.
    #[inline(always)]
    pub(super) fn add(
        &mut self,
        counter: CounterId,
        sampled: &SampledCounter,
        due: DueSample,
    ) -> u64 {
        let DueSample {
            period,
            recorded_total,
            events_since_sample: unrecorded,
        } = due;
        let trace = self.trace;
        if trace.sample_start.get() > trace.sample_limit.get() {
            self.marks |= RECORD_REFUSED;
            return sampled.max_load.get();
        }
        self.write(sampled);
        sampled
            .recorded_total
            .set(recorded_total.wrapping_add(period));
        self.marks |= sampled.follow_mask.get();
        let events_since_sample = unrecorded.wrapping_sub(period);
        let events_left = if events_since_sample < period {
            period.wrapping_sub(events_since_sample)
        } else {
            // The overflow came so late that the next sample is due, too.
            self.marks |= counter.bit();
            events_left_after_overrun(period, events_since_sample)
        };
        sampled.events_to_load(events_left)
    }

    /// Writes the TICK or PC record of a counter.
    #[inline(always)]
    fn write(&self, sampled: &SampledCounter) {
        let trace = self.trace;
        // SAFETY: `writer` requires a trace that is recorded, as it is if a sample is due; room, since `sample_start`
        // is at most `sample_limit`; and no other writer: only this CPU's handler writes while samples are not
        // suspended.
        let mut writer = unsafe { trace.writer(trace.next_record.get()) };
        // The record is written in parts, which makes shorter code than a structure.
        let header = sampled.sample_header();
        writer.put(header);
        if header.to_le_bytes()[0] == abi::PERFMON_RECORD_PC as u8 {
            let (aspace, pc) = trace.sample_location(self.regs);
            writer.put(aspace);
            writer.put(pc);
        }
        trace.next_record.set(writer.next_offset() as u64);
    }

    /// Writes the TIME record and the records that follow the samples, and publishes the sample. Publishes nothing if
    /// no record was written.
    #[inline(always)]
    pub(super) fn finish(self, here: ThisCpu<'_>, pmu: &Pmu) {
        let trace = self.trace;
        if self.marks & RECORD_WRITTEN == 0 {
            if self.marks != 0 {
                stop_if_full(here, pmu);
            }
            return;
        }
        // SAFETY: `writer` requires a trace that is recorded, as it is if a record was written; room, which
        // `next_record` has left for TIME; and no other writer: only this CPU's handler writes while samples are not
        // suspended.
        unsafe { trace.writer(trace.sample_start.get()) }.put(CpuTrace::time_record(self.now));
        if self.marks != RECORD_WRITTEN {
            write_followers(here, pmu, self.marks);
        }
        let end = trace.next_record.get();
        trace.set_sample_start(end);
        // SAFETY: `buffer` requires a trace that is recorded, as it is if a record was written. Its buffer is alive,
        // and only this CPU's handler writes while samples are not suspended, as `publish` requires.
        unsafe { trace.buffer().publish(end as usize) };
    }
}

/// Returns the number of events to the next sample after an overrun: `events_since_sample`, the number of events since
/// the last sample, is at least a period.
#[cold]
fn events_left_after_overrun(period: u64, events_since_sample: u64) -> u64 {
    // The period of a sampled event is not 0.
    period.wrapping_sub(events_since_sample.checked_rem(period).unwrap_or(0))
}

/// Writes the records that follow the samples: COUNT records for further samples that were due, the records of events
/// that follow the timebase, and branches.
#[inline(never)]
fn write_followers(here: ThisCpu<'_>, pmu: &Pmu, marks: u64) {
    let percpu = here.percpu();
    let trace = &percpu.trace;
    // SAFETY: `writer` requires a trace that is recorded, as it is if a record was written; room, since a sample
    // begins at `sample_limit` at most, which leaves room for all its records; and no other writer: only this CPU's
    // handler writes while samples are not suspended.
    let mut writer = unsafe { trace.writer(trace.next_record.get()) };
    for counter in each_counter(marks) {
        let sampled = percpu.sampled_counter(counter);
        let total = percpu.value(counter).total();
        let unrecorded = total.wrapping_sub(sampled.recorded_total.get());
        if unrecorded >= sampled.period.get() {
            writer.put(sampled.overrun_record(unrecorded));
        }
    }
    if marks & trace.timebase.get() != 0 {
        for counter in each_counter(trace.follower_counters.get()) {
            pmu.update(here, counter);
            let total = percpu.value(counter).total();
            writer.put(percpu.sampled_counter(counter).count_record(total));
        }
        let values = trace.values.follower_values();
        if values != 0 {
            writer = values::write_records(here, writer, values);
        }
    }
    if let Some(counter) = each_counter(marks & trace.branch_counters.get()).next() {
        let header = percpu
            .sampled_counter(counter)
            .header(abi::PERFMON_RECORD_LAST_BRANCH);
        let aspace = cr3() & trace.aspace_mask.get();
        writer = lbr::write_record(here, pmu, writer, header, aspace);
    }
    trace.next_record.set(writer.next_offset() as u64);
}
