// SPDX-License-Identifier: GPL-2.0-only
//! The samples that the processor takes (PEBS): arming counters, and writing the samples for the records in the buffer.

use super::percpu::{PerCpu, SLOW_PEBS};
use crate::{
    cpu::{timestamp, tsc_khz, ThisCpu},
    logic::{
        counter::{each_counter, CounterId},
        pebs::{
            AccessBranchRecord, AccessRecord, AccessRegisterRecord, BasicRecord, BranchRecord,
            FullRecord, LongRecord, MergedRecord, PebsFormat, PebsRecord, RecordGroups,
            RecordLayout, RegisterBranchRecord, RegisterRecord, SingleRecord,
        },
        precise::next_period,
        sampling::Trigger,
    },
    ring::PreciseSamples,
};

impl PerCpu {
    /// Writes samples for the records in the buffer, and empties the buffer. The records of counters in
    /// [`counters_with_interrupt_per_record`](super::pebs::PebsState::counters_with_interrupt_per_record) are passed to `write_single`, after
    /// the totals of all counters are up to date. The caller must have stopped the counters that count in kernel mode,
    /// and must keep NMIs from calling this meanwhile.
    ///
    /// If `has_branches`, the branches in each record are the branches that precede its sample.
    /// Otherwise the samples show no branches.
    pub(crate) fn empty_pebs_buffer(
        &self,
        here: ThisCpu<'_>,
        format: PebsFormat,
        has_branches: bool,
        write_single: impl Fn(CounterId, SingleRecord<'_>),
    ) {
        if self.pebs.is_full(format) {
            self.mark_lost(self.pebs.armed_counters.get());
        }
        self.empty_buffer_unchecked(here, format, has_branches, write_single);
    }

    /// Does what [`Self::empty_pebs_buffer`] does for a buffer that the virtual PMU has filled with merged records.
    /// Returns whether the buffer was full: then the virtual PMU may have more records.
    pub(crate) fn empty_merged_buffer(
        &self,
        here: ThisCpu<'_>,
        write_single: impl Fn(CounterId, SingleRecord<'_>),
    ) -> bool {
        let is_full = self.pebs.is_full(PebsFormat::Merged);
        self.empty_buffer_unchecked(here, PebsFormat::Merged, false, write_single);
        is_full
    }

    /// Writes samples for the records in the buffer, and empties the buffer. Does not check whether
    /// the buffer was full.
    fn empty_buffer_unchecked<F: Fn(CounterId, SingleRecord<'_>)>(
        &self,
        here: ThisCpu<'_>,
        format: PebsFormat,
        has_branches: bool,
        write_single: F,
    ) {
        let write: unsafe fn(&Self, ThisCpu<'_>, bool, F) = match self.pebs.layout(format) {
            RecordLayout::Full => Self::write_samples_of_layout::<FullRecord, F>,
            RecordLayout::Basic => Self::write_samples_of_layout::<BasicRecord, F>,
            RecordLayout::Access => Self::write_samples_of_layout::<AccessRecord, F>,
            RecordLayout::Registers => Self::write_samples_of_layout::<RegisterRecord, F>,
            RecordLayout::AccessAndRegisters => {
                Self::write_samples_of_layout::<AccessRegisterRecord, F>
            }
            RecordLayout::Branches => Self::write_samples_of_layout::<BranchRecord, F>,
            RecordLayout::AccessAndBranches => {
                Self::write_samples_of_layout::<AccessBranchRecord, F>
            }
            RecordLayout::RegistersAndBranches => {
                Self::write_samples_of_layout::<RegisterBranchRecord, F>
            }
            RecordLayout::Long => Self::write_samples_of_layout::<LongRecord, F>,
            RecordLayout::Merged => Self::write_samples_of_layout::<MergedRecord, F>,
        };
        // SAFETY: The function requires the type of the processor's records. Each arm has the type
        // that `RecordLayout` names for the layout. Where the groups can be selected,
        // `MSR_PEBS_DATA_CFG`, which all armed counters follow, selects the groups of the layout,
        // and the buffer was empty when the register was written. If other software has changed the
        // register, the words are valid for the type all the same, and `write_samples` detects the
        // wrong groups.
        unsafe { write(self, here, has_branches, write_single) };
        self.pebs.empty_buffer();
    }

    /// Writes the samples for the records in the buffer.
    ///
    /// # Safety
    ///
    /// `R` must be the type of the records that the processor writes.
    unsafe fn write_samples_of_layout<R: PebsRecord, F: Fn(CounterId, SingleRecord<'_>)>(
        &self,
        here: ThisCpu<'_>,
        has_branches: bool,
        write_single: F,
    ) {
        // SAFETY: `records` requires the type of the processor's records, which the caller promises, and that the result is
        // dropped before the buffer is emptied: it is dropped when this function returns, which does not empty the buffer.
        let records = unsafe { self.pebs.records::<R>() };
        self.write_samples(here, records, has_branches, write_single);
    }

    /// Writes the samples of all armed counters for `records`. The samples of
    /// [`counters_with_interrupt_per_record`](super::pebs::PebsState::counters_with_interrupt_per_record)
    /// are written by `write_single`. If other software has changed the layout of the records,
    /// writes no samples, and marks that the counters may have missed events.
    fn write_samples<R: PebsRecord>(
        &self,
        here: ThisCpu<'_>,
        records: &[R],
        has_branches: bool,
        write_single: impl Fn(CounterId, SingleRecord<'_>),
    ) {
        if records.is_empty() {
            return;
        }
        let armed_counters = self.pebs.armed_counters.get();
        if !records.first().is_some_and(R::has_expected_groups) {
            return self.mark_lost(armed_counters);
        }
        let is_only_counter = armed_counters & armed_counters.wrapping_sub(1) == 0;
        for counter in each_counter(armed_counters) {
            let bit = counter.bit();
            let has_counter = |record: &&R| is_only_counter || record.counters() & bit != 0;
            let count = if is_only_counter {
                records.len()
            } else {
                records.iter().filter(has_counter).count()
            } as u64;
            let overflows = if R::IS_MERGED {
                records
                    .iter()
                    .filter(has_counter)
                    .map(R::overflows)
                    .fold(0, u64::wrapping_add)
            } else {
                count
            };
            if count != 0 {
                let bit = if is_only_counter { 0 } else { bit };
                let counts = (count, overflows);
                self.write_samples_of_counter(here, counter, (records, bit), counts, has_branches);
            }
        }
        let single_counters = armed_counters & self.pebs.counters_with_interrupt_per_record.get();
        if single_counters != 0 {
            for record in records {
                for counter in each_counter(single_counters) {
                    if is_only_counter || record.counters() & counter.bit() != 0 {
                        write_single(counter, SingleRecord::new(record, has_branches));
                    }
                }
            }
        }
    }

    /// Writes the samples of a counter for its `count` records: the records that have `bit`, or all
    /// records if `bit` is 0. Adds the events of its `overflows` overflows to its total. While
    /// sampling is suspended, the samples are lost, unless they are merged. Writes no samples of a
    /// counter in
    /// [`counters_with_interrupt_per_record`](super::pebs::PebsState::counters_with_interrupt_per_record).
    #[inline(always)]
    fn write_samples_of_counter<R: PebsRecord>(
        &self,
        here: ThisCpu<'_>,
        counter: CounterId,
        (records, bit): (&[R], u64),
        (count, overflows): (u64, u64),
        has_branches: bool,
    ) {
        let sampled = self.sampled_counter(counter);
        let period = sampled.period.get();
        // Merged samples are written also while sampling is suspended: few records stand for all executions, and a
        // missing record would make the numbers of executions wrong.
        let is_merged = R::IS_MERGED && period == PebsFormat::MERGED_PERIOD;
        let is_single = self.pebs.counters_with_interrupt_per_record.get() & counter.bit() != 0;
        match self.sampler(counter).filter(|_| !is_single) {
            Some(sampler) if self.samplers.suspended.get() != 0 && !is_merged => {
                sampler.lose_samples(overflows);
            }
            Some(sampler) => sampler.write_precise(&PreciseSamples {
                records,
                counter: bit,
                count,
                overflows,
                task: self.task_of_sample(counter, sampler),
                cpu: here.id().as_u32(),
                period,
                has_branches,
                anchor: sampler.anchor(timestamp(), tsc_khz()),
            }),
            None => {}
        }
        if let Some(last) = records.last() {
            self.compute_next_period(counter, count, last.tsc());
        }
        let recorded_total = sampled.recorded_total.get();
        let events = overflows.wrapping_mul(period);
        sampled
            .recorded_total
            .set(recorded_total.wrapping_add(events));
        self.value(counter).note_reloads(overflows, period);
    }

    /// Computes the next period of an event with a frequency from the time that the last `samples` samples took. `last`
    /// is the time of the last sample, in cycles of the time-stamp counter.
    fn compute_next_period(&self, counter: CounterId, samples: u64, last: u64) {
        let (Some(sampler), Some(time), Some(next)) = (
            self.sampler(counter),
            self.sample_time(counter),
            self.next_period(counter),
        ) else {
            return;
        };
        if let Trigger::Frequency(_) = sampler.sampling.trigger {
            let elapsed = last.wrapping_sub(time.get());
            let period = self.sampled_counter(counter).period.get();
            let interval = sampler.interval(tsc_khz());
            next.set(next_period(period, samples, elapsed, interval));
            time.set(last);
        }
    }

    /// Notes that the processor takes the samples of a counter from now on.
    pub(crate) fn arm_pebs(&self, counter: CounterId, format: PebsFormat) {
        let (pebs, bit) = (&self.pebs, counter.bit());
        if let Some(sampler) = self.sampler(counter) {
            let groups = sampler.record_groups();
            for (counters, is_member) in [
                (
                    &pebs.counters_with_interrupt_per_record,
                    sampler.needs_interrupt_per_record(),
                ),
                (&pebs.counters_with_access, groups.has(RecordGroups::ACCESS)),
                (
                    &pebs.counters_with_registers,
                    groups.has(RecordGroups::REGISTERS),
                ),
                (
                    &pebs.counters_with_branches,
                    groups.has(RecordGroups::BRANCHES),
                ),
                (
                    &pebs.counters_with_load_threshold,
                    sampler.sampling.access.has_threshold && format.enables_load_latency(),
                ),
            ] {
                if is_member {
                    counters.insert(bit);
                }
            }
        }
        pebs.armed_counters.insert(bit);
        self.slow_path.insert(SLOW_PEBS);
    }

    /// Notes that the processor takes no more samples of a counter. `now` is the current tick (jiffies).
    pub(crate) fn disarm_pebs(&self, counter: CounterId, now: u64) {
        let (pebs, bit) = (&self.pebs, counter.bit());
        if (pebs.counters_with_access.get() | pebs.counters_with_registers.get()) & bit != 0 {
            pebs.groups_needed_at.set(now);
        }
        for counters in [
            &pebs.armed_counters,
            &pebs.counters_with_interrupt_per_record,
            &pebs.counters_with_access,
            &pebs.counters_with_registers,
            &pebs.counters_with_branches,
            &pebs.counters_with_load_threshold,
        ] {
            counters.remove(bit);
        }
        pebs.unmark_overdue(counter);
        if pebs.armed_counters.get() == 0 {
            self.slow_path.remove(SLOW_PEBS);
        }
    }

    /// Returns the counters that run here, including counters whose overflows become records of the processor.
    pub(crate) fn running_counters(&self) -> u64 {
        self.active_mask.get() | self.pebs.armed_counters.get()
    }
}
