// SPDX-License-Identifier: GPL-2.0-only
//! The samples that the processor takes on a CPU ([`crate::logic::pebs`]): for which counters, and where it writes them.
//! [`crate::pmu`] has the registers.

use super::{PerCpu, Word, SLOW_PEBS};
use crate::{
    cpu::{timestamp, tsc_khz, ThisCpu},
    logic::{
        counter::{each, CounterId},
        pebs::{BasicRecord, DsWord, FullRecord, PebsBuffer, PebsFormat, PebsRecord},
    },
    ring::PreciseSamples,
};
use core::{ptr, slice};

/// The samples that the processor takes on a CPU. All bits zero: none.
pub(crate) struct PebsState {
    /// The counters whose overflows become records of the processor. They are not among the
    /// [`PerCpu::active_mask`], since their overflows are not ours.
    pub(crate) armed: Word,
    /// The armed counters whose next sample comes some events late, because a counter can't be loaded for so few.
    /// Later samples stay late until the counter is loaded once more.
    pub(crate) late_counters: Word,
    /// Not 0 while the buffer is being read: an NMI leaves it alone.
    pub(crate) is_reading: Word,
    /// The address of the DS area while the processor has it, or 0.
    ds_area: Word,
    start: Word,
    threshold: Word,
    /// The values before, of the registers `IA32_DS_AREA`, `MSR_PEBS_DATA_CFG` and `IA32_PEBS_ENABLE`.
    pub(crate) saved: [Word; 3],
}

impl PebsState {
    /// Returns whether the processor has the DS area.
    pub(crate) fn has_ds_area(&self) -> bool {
        self.ds_area.get() != 0
    }

    /// Makes `area` the DS area, and `buffer` the buffer.
    ///
    /// # Safety
    ///
    /// Both must be this CPU's alone until [`Self::end`].
    pub(crate) unsafe fn begin(&self, area: u64, buffer: &PebsBuffer) {
        self.ds_area.set(area);
        self.start.set(buffer.start);
        self.threshold.set(buffer.threshold);
        self.late_counters.set(0);
        self.set_ds_word(DsWord::BASE, buffer.start);
        self.set_ds_word(DsWord::INDEX, buffer.start);
        self.set_ds_word(DsWord::MAXIMUM, buffer.maximum);
        self.set_ds_word(DsWord::THRESHOLD, buffer.threshold);
    }

    /// Ends [`Self::begin`]. The processor does not use it any more.
    pub(crate) fn end(&self) {
        self.ds_area.set(0);
    }

    /// Makes the next record cause an interrupt.
    pub(crate) fn interrupt_on_next(&self, format: PebsFormat) {
        let next = self.start.get().wrapping_add(format.record_size());
        self.set_ds_word(DsWord::THRESHOLD, next);
    }

    /// Ends [`Self::interrupt_on_next`].
    pub(crate) fn interrupt_at_threshold(&self) {
        self.set_ds_word(DsWord::THRESHOLD, self.threshold.get());
    }

    /// Writes a word of the DS area, if there is one.
    pub(crate) fn set_ds_word(&self, word: DsWord, value: u64) {
        if let Some(at) = self.address(word) {
            // SAFETY: The area is there, and this CPU's. The processor reads it.
            unsafe { at.write_volatile(value) };
        }
    }

    /// Reads a word of the DS area; 0 if there is none.
    fn ds_word(&self, word: DsWord) -> u64 {
        match self.address(word) {
            // SAFETY: The area is there, and this CPU's. The processor writes it.
            Some(at) => unsafe { at.read_volatile() },
            None => 0,
        }
    }

    fn address(&self, word: DsWord) -> Option<*mut u64> {
        let area = self.ds_area.get();
        let at = (area as usize).wrapping_add(word.offset());
        (area != 0).then_some(ptr::with_exposed_provenance_mut(at))
    }

    /// Returns whether there is no room for one more record: some may be missing, and what they counted.
    fn is_full(&self, format: PebsFormat) -> bool {
        let next = self
            .ds_word(DsWord::INDEX)
            .wrapping_add(format.record_size());
        next > self.ds_word(DsWord::MAXIMUM)
    }

    /// Returns the records in the buffer.
    ///
    /// # Safety
    ///
    /// `R` must be the record of the format, and the result must be dropped before the buffer is emptied.
    unsafe fn records<R: PebsRecord>(&self) -> &[R] {
        let start = self.start.get();
        let bytes = self.ds_word(DsWord::INDEX).wrapping_sub(start);
        let count = (bytes as usize).checked_div(size_of::<R>()).unwrap_or(0);
        if count == 0 {
            return &[];
        }
        let first = ptr::with_exposed_provenance::<R>(start as usize);
        // SAFETY: `R` is the record of the format, by the caller: whole words, and the buffer is aligned to words. The
        // processor has written `count` of them from `start` on, and appends only behind them. The caller drops the
        // slice before the buffer is emptied.
        unsafe { slice::from_raw_parts(first, count) }
    }
}

impl PerCpu {
    /// Makes samples of the records in the buffer, and empties it. Counters that count in kernel mode stand still, and no
    /// NMI does the same meanwhile.
    pub(crate) fn empty_pebs_buffer(&self, here: ThisCpu<'_>, format: PebsFormat) {
        if self.pebs.is_full(format) {
            self.mark_lost(self.pebs.armed.get());
        }
        match format {
            PebsFormat::Three => {
                // SAFETY: The processor writes such records, and the buffer is emptied when they have gone.
                let records = unsafe { self.pebs.records::<FullRecord>() };
                self.take_records(here, records);
            }
            PebsFormat::Four => {
                // SAFETY: The processor writes these in this format, and the buffer is emptied when they have gone.
                let records = unsafe { self.pebs.records::<BasicRecord>() };
                self.take_records(here, records);
            }
        }
        self.pebs.set_ds_word(DsWord::INDEX, self.pebs.start.get());
    }

    fn take_records<R: PebsRecord>(&self, here: ThisCpu<'_>, records: &[R]) {
        if records.is_empty() {
            return;
        }
        let armed = self.pebs.armed.get();
        let is_alone = armed & armed.wrapping_sub(1) == 0;
        for counter in each(armed) {
            let bit = counter.bit();
            let is_its = |record: &&R| record.counters() & bit != 0;
            let count = if is_alone {
                records.len()
            } else {
                records.iter().filter(is_its).count()
            } as u64;
            if count != 0 {
                self.take_samples(
                    here,
                    counter,
                    records,
                    if is_alone { 0 } else { bit },
                    count,
                );
            }
        }
    }

    /// Writes the samples of a counter, and notes what it has counted by them. While samples are suspended, they are lost.
    #[inline(always)]
    fn take_samples<R: PebsRecord>(
        &self,
        here: ThisCpu<'_>,
        counter: CounterId,
        records: &[R],
        bit: u64,
        count: u64,
    ) {
        let sampled = self.sampled(counter);
        let period = sampled.period.get();
        match self.sampler(counter) {
            Some(sampler) if self.samplers.suspended.get() != 0 => sampler.lose(count),
            Some(sampler) => sampler.write_precise(&PreciseSamples {
                records,
                counter: bit,
                count,
                task: self.sampled_task(counter),
                cpu: here.id().as_u32(),
                period,
                anchor: sampler.anchor(timestamp(), tsc_khz()),
            }),
            None => {}
        }
        let recorded = sampled.recorded.get();
        let events = count.wrapping_mul(period);
        sampled.recorded.set(recorded.wrapping_add(events));
        self.value(counter).note_reloads(count, period);
    }

    /// Notes that the processor takes the samples of a counter, or not any more.
    pub(crate) fn set_pebs(&self, counter: CounterId, armed: bool) {
        if armed {
            self.pebs.armed.insert(counter.bit());
            self.slow_path.insert(SLOW_PEBS);
            return;
        }
        self.pebs.armed.remove(counter.bit());
        self.pebs.late_counters.remove(counter.bit());
        if self.pebs.armed.get() == 0 {
            self.slow_path.remove(SLOW_PEBS);
        }
    }

    /// Returns the counters that run here, including those whose overflows become records of the processor.
    pub(crate) fn running_counters(&self) -> u64 {
        self.active_mask.get() | self.pebs.armed.get()
    }
}
