// SPDX-License-Identifier: GPL-2.0-only
//! The records of a trace: at each interrupt a TIME, a TICK or PC for each event that is due, and the records that
//! follow them.
//!
//! The work of each sample is inlined into the overflow handler; rare work is kept out of line. Sums wrap, since
//! nothing in an NMI may panic.

use super::suspend::stop_if_full;
use crate::{
    abi,
    cpu::{cr3, Regs, ThisCpu},
    logic::{
        counter::{each, CounterId},
        pmu::Pmu,
    },
    percpu::{CpuTrace, Due, SampledCounter, RECORD_REFUSED, RECORD_WRITTEN},
    pmu::{lbr, values},
};

/// The records of one interrupt. Nothing is written before an event is due.
pub(super) struct TraceSample<'a> {
    trace: &'a CpuTrace,
    regs: Regs<'a>,
    /// The time of the interrupt.
    now: u64,
    /// The bits of [`SampledCounter::follow_mask`] of all recorded events, and of the counters that are overdue once
    /// more; or [`RECORD_REFUSED`].
    marks: u64,
}

impl<'a> TraceSample<'a> {
    /// Returns an empty sample of an interrupt that came at `regs`, at the time `now`.
    #[inline(always)]
    pub(super) fn new(trace: &'a CpuTrace, regs: Regs<'a>, now: u64) -> Self {
        Self {
            trace,
            regs,
            now,
            marks: 0,
        }
    }

    /// Adds a counter whose event is due. Returns the events to load the counter for.
    #[inline(always)]
    pub(super) fn add(&mut self, counter: CounterId, sampled: &SampledCounter, due: Due) -> u64 {
        let Due {
            period,
            recorded,
            since,
        } = due;
        let trace = self.trace;
        if trace.sample_start.get() > trace.sample_limit.get() {
            self.marks |= RECORD_REFUSED;
            return sampled.max_load.get();
        }
        self.write(sampled);
        sampled.recorded.set(recorded.wrapping_add(period));
        self.marks |= sampled.follow_mask.get();
        let since = since.wrapping_sub(period);
        let left = if since < period {
            period.wrapping_sub(since)
        } else {
            // The overflow came so late that the event is due again.
            self.marks |= counter.bit();
            left_of_overrun(period, since)
        };
        sampled.load_for(left)
    }

    /// Writes a TICK or PC record.
    #[inline(always)]
    fn write(&self, sampled: &SampledCounter) {
        let trace = self.trace;
        // SAFETY: Only events of a recorded trace are due, there is room (`sample_limit`), and this CPU's handler
        // is the only writer.
        let mut writer = unsafe { trace.writer(trace.next_record.get()) };
        // The record in parts, which makes shorter code than a structure.
        let header = sampled.sample_header();
        writer.put(header);
        if header.to_le_bytes()[0] == abi::PERFMON_RECORD_PC as u8 {
            let (aspace, pc) = trace.sample_location(self.regs);
            writer.put(aspace);
            writer.put(pc);
        }
        trace.next_record.set(writer.end() as u64);
    }

    /// Publishes the sample, if anything was written.
    #[inline(always)]
    pub(super) fn finish(self, here: ThisCpu<'_>, pmu: &Pmu) {
        let trace = self.trace;
        if self.marks & RECORD_WRITTEN == 0 {
            if self.marks != 0 {
                stop_if_full(here, pmu);
            }
            return;
        }
        // SAFETY: A record was written, so the trace is recorded; there is room for TIME before the first record,
        // and this CPU's handler is the only writer.
        unsafe { trace.writer(trace.sample_start.get()) }.put(CpuTrace::time(self.now));
        if self.marks != RECORD_WRITTEN {
            write_followers(here, pmu, self.marks);
        }
        let end = trace.next_record.get();
        trace.set_sample_start(end);
        // SAFETY: A record was written, so the trace is recorded; this CPU's handler is the only writer.
        unsafe { trace.buffer().publish(end as usize) };
    }
}

/// Returns the events to the next sample of an event that has counted `since`, its period or more, since the last.
#[cold]
fn left_of_overrun(period: u64, since: u64) -> u64 {
    // The period of a sampled event is not 0.
    period.wrapping_sub(since.checked_rem(period).unwrap_or(0))
}

/// Writes the records that follow those of the counters in `marks`.
#[inline(never)]
fn write_followers(here: ThisCpu<'_>, pmu: &Pmu, marks: u64) {
    let percpu = here.percpu();
    let trace = &percpu.trace;
    // SAFETY: A record was written, so the trace is recorded; there is room (`sample_limit`), and this CPU's handler
    // is the only writer.
    let mut writer = unsafe { trace.writer(trace.next_record.get()) };
    for counter in each(marks) {
        let sampled = percpu.sampled(counter);
        let total = percpu.value(counter).total();
        let since = total.wrapping_sub(sampled.recorded.get());
        if since >= sampled.period.get() {
            writer.put(sampled.overrun_count(since));
        }
    }
    if marks & trace.timebase.get() != 0 {
        for counter in each(trace.followers.get()) {
            let msr = pmu.msrs(counter).read;
            let total = percpu.value(counter).update_in_nmi(here, msr);
            writer.put(percpu.sampled(counter).count(total));
        }
        let values = trace.values.followers();
        if values != 0 {
            writer = values::write(here, writer, values);
        }
    }
    if let Some(counter) = each(marks & trace.branching.get()).next() {
        let header = percpu
            .sampled(counter)
            .header(abi::PERFMON_RECORD_LAST_BRANCH);
        let aspace = cr3() & trace.aspace_mask.get();
        writer = lbr::write_record(here, pmu, writer, header, aspace);
    }
    trace.next_record.set(writer.end() as u64);
}
