// SPDX-License-Identifier: GPL-2.0-only
//! The processor's samples (PEBS) on a CPU: the counters that are sampled, and the buffer. [`crate::logic::pebs`] has
//! the layouts, [`crate::pmu`] the registers.

use super::word::Word;
use crate::logic::{
    counter::CounterId,
    pebs::{DsWord, PebsBuffer, PebsFormat, PebsRecord, RecordGroups, RecordLayout},
    precise::MIN_RECORDS,
};
use core::{ptr, slice};

/// The state of the processor's samples (PEBS) on a CPU. All bits zero: nothing is sampled.
pub(crate) struct PebsState {
    /// The counters whose overflows become records of the processor. They are not in
    /// [`PerCpu::active_mask`](super::PerCpu::active_mask), since the handler does not serve their overflows.
    pub(crate) armed_counters: Word,
    /// The armed counters of which each record causes an interrupt, for one of the reasons of
    /// [`needs_interrupt_per_record`](crate::ring::Sampler::needs_interrupt_per_record).
    pub(crate) counters_with_interrupt_per_record: Word,
    /// The armed counters whose samples have the access to memory.
    pub(super) counters_with_access: Word,
    /// The armed counters whose samples have registers, or call chains, which begin with registers of the record.
    pub(super) counters_with_registers: Word,
    /// The armed counters whose samples have the branches of the records.
    pub(crate) counters_with_branches: Word,
    /// The armed counters of loads with a threshold, if the format [enables them
    /// separately](PebsFormat::enables_load_latency).
    pub(super) counters_with_load_threshold: Word,
    /// The armed counters with an overdue sample: fewer events were left to the sample than the smallest number that the
    /// counter can be loaded for. All later samples are overdue, too, until the counter is loaded once more.
    pub(crate) overdue_counters: Word,
    /// Not 0 while a task, or an interrupt other than an NMI, reads the buffer: an NMI then does not read it. The
    /// counters that count in kernel mode are paused all that time.
    pub(crate) is_reading: Word,
    /// The address of the DS area while the processor uses it; otherwise 0.
    ds_area: Word,
    /// The address of the buffer's first record.
    pub(super) start: Word,
    /// The address of the end of the buffer's memory.
    end: Word,
    /// The [`RecordGroups`] of the records, if the groups can be selected.
    groups: Word,
    /// The tick (jiffies) in which a counter that needed the group of accesses or registers was last disarmed.
    pub(super) groups_needed_at: Word,
    /// The address that the processor's position in the buffer reaches before it interrupts, unless a sample is overdue.
    threshold: Word,
    /// The address that takes the place of [`Self::threshold`] while a sample is overdue.
    overdue_threshold: Word,
    /// The largest value of [`Self::threshold`].
    max_threshold: Word,
    /// The values that `IA32_DS_AREA`, `MSR_PEBS_DATA_CFG` and `IA32_PEBS_ENABLE` had before the first window was
    /// opened.
    pub(crate) saved: [Word; 3],
}

impl PebsState {
    /// Returns whether the processor uses the DS area.
    pub(crate) fn has_ds_area(&self) -> bool {
        self.ds_area.get() != 0
    }

    /// Sets up the DS area at the address `area` for the buffer between the addresses `start` and `end`, and for
    /// records that have only the basic group.
    ///
    /// # Safety
    ///
    /// `area` must be the address of a DS area. Only this CPU may use the area and the buffer, until
    /// [`Self::tear_down_ds_area`].
    pub(crate) unsafe fn set_up_ds_area(
        &self,
        area: u64,
        (start, end): (u64, u64),
        format: PebsFormat,
    ) {
        self.ds_area.set(area);
        self.start.set(start);
        self.end.set(end);
        self.overdue_counters.set(0);
        self.set_ds_word(DsWord::BASE, start);
        self.set_groups(RecordGroups::NONE, format);
    }

    /// Sets the layout of the buffer, which must be empty, to the layout of records with these
    /// groups.
    pub(crate) fn set_groups(&self, groups: RecordGroups, format: PebsFormat) {
        self.groups.set(groups.bits());
        let record_size = self.layout(format).record_size();
        let buffer = PebsBuffer::new(self.start.get(), self.end.get(), record_size);
        self.threshold.set(buffer.threshold);
        self.overdue_threshold.set(buffer.threshold);
        self.max_threshold.set(buffer.threshold);
        self.set_ds_word(DsWord::INDEX, buffer.start);
        self.set_ds_word(DsWord::MAXIMUM, buffer.maximum);
        self.choose_threshold();
    }

    /// Returns the groups of the records, if the groups can be selected.
    pub(crate) fn groups(&self) -> RecordGroups {
        RecordGroups::from_bits(self.groups.get())
    }

    /// Returns the groups that the records should have in the tick `now`: the groups that the armed
    /// counters need. If an event that needs more groups was switched out a moment ago, its groups
    /// are kept, so that an event that is switched in and out with its task does not change the
    /// layout each time. The group of branches is not kept, since with branches an interrupt serves
    /// only a twentieth of the records.
    pub(crate) fn kept_groups(&self, now: u64) -> RecordGroups {
        /// Number of ticks after which groups that no armed counter needs are dropped.
        const KEPT_TICKS: u64 = 100;

        if now.wrapping_sub(self.groups_needed_at.get()) < KEPT_TICKS {
            return self.groups_without_unused_branches();
        }
        let access = RecordGroups::ACCESS.filter(self.counters_with_access.get() != 0);
        let registers = RecordGroups::REGISTERS.filter(self.counters_with_registers.get() != 0);
        let branches = RecordGroups::BRANCHES.filter(self.counters_with_branches.get() != 0);
        access.union(registers).union(branches)
    }

    /// Returns the groups of the records without the branches, unless an armed counter needs them.
    pub(crate) fn groups_without_unused_branches(&self) -> RecordGroups {
        let is_unused = self.counters_with_branches.get() == 0;
        self.groups()
            .without(RecordGroups::BRANCHES.filter(is_unused))
    }

    /// Returns the layout of the records.
    pub(super) fn layout(&self, format: PebsFormat) -> RecordLayout {
        format.layout(self.groups())
    }

    /// Returns the value of `IA32_PEBS_ENABLE` for the armed counters.
    pub(crate) fn enabled_counters(&self) -> u64 {
        /// The number of the bit that enables loads with a threshold on general counter 0.
        const LOAD_LATENCY: u32 = 32;

        self.armed_counters.get() | self.counters_with_load_threshold.get() << LOAD_LATENCY
    }

    /// Notes that the processor no longer uses the DS area that [`Self::set_up_ds_area`] has set
    /// up.
    pub(crate) fn tear_down_ds_area(&self) {
        self.ds_area.set(0);
    }

    /// Makes the processor interrupt when the buffer has `records` records (while a sample is overdue:
    /// `overdue_records`), and at the latest when the buffer is nearly full.
    pub(crate) fn set_thresholds(&self, records: u64, overdue_records: u64, format: PebsFormat) {
        let address_after = |records: u64| {
            let size = records.saturating_mul(self.layout(format).record_size());
            let address = self.start.get().saturating_add(size);
            address.min(self.max_threshold.get())
        };
        self.threshold.set(address_after(records));
        self.overdue_threshold.set(address_after(overdue_records));
        self.choose_threshold();
    }

    /// Adds a counter to [`Self::overdue_counters`].
    pub(crate) fn mark_overdue(&self, counter: CounterId) {
        self.overdue_counters.insert(counter.bit());
        self.choose_threshold();
    }

    /// Removes a counter from [`Self::overdue_counters`].
    pub(crate) fn unmark_overdue(&self, counter: CounterId) {
        self.overdue_counters.remove(counter.bit());
        self.choose_threshold();
    }

    /// Writes the threshold to the DS area: [`Self::overdue_threshold`] if a sample is overdue, otherwise
    /// [`Self::threshold`].
    fn choose_threshold(&self) {
        let threshold = if self.overdue_counters.get() == 0 {
            &self.threshold
        } else {
            &self.overdue_threshold
        };
        self.set_ds_word(DsWord::THRESHOLD, threshold.get());
    }

    /// Returns whether the buffer has room for fewer than [`MIN_RECORDS`] records. The buffer is so
    /// small if it is only a part of a page.
    pub(crate) fn is_small(&self, format: PebsFormat) -> bool {
        let size = self.max_threshold.get().wrapping_sub(self.start.get());
        size < MIN_RECORDS.wrapping_mul(self.layout(format).record_size())
    }

    /// Writes a word of the DS area, if the processor uses the area.
    pub(crate) fn set_ds_word(&self, word: DsWord, value: u64) {
        if let Some(at) = self.ds_word_address(word) {
            // SAFETY: The write requires a valid word: the address is within the DS area, which
            // only this CPU uses until `tear_down_ds_area`, as the caller of `set_up_ds_area` has
            // promised. The write is volatile, since the processor reads the word.
            unsafe { at.write_volatile(value) };
        }
    }

    /// Empties the buffer: forgets the records in it.
    pub(crate) fn empty_buffer(&self) {
        self.set_ds_word(DsWord::INDEX, self.start.get());
    }

    /// Returns a word of the DS area; 0 while the processor does not use the area.
    fn ds_word(&self, word: DsWord) -> u64 {
        match self.ds_word_address(word) {
            // SAFETY: The read requires a valid word: the address is within the DS area, which only
            // this CPU uses until `tear_down_ds_area`, as the caller of `set_up_ds_area` has
            // promised. The read is volatile, since the processor writes the word.
            Some(at) => unsafe { at.read_volatile() },
            None => 0,
        }
    }

    fn ds_word_address(&self, word: DsWord) -> Option<*mut u64> {
        let area = self.ds_area.get();
        let at = (area as usize).wrapping_add(word.offset());
        (area != 0).then_some(ptr::with_exposed_provenance_mut(at))
    }

    /// Returns whether the buffer has no room for one more record, so that records, and the events that they stand
    /// for, may be missing.
    pub(super) fn is_full(&self, format: PebsFormat) -> bool {
        let next = self
            .ds_word(DsWord::INDEX)
            .wrapping_add(self.layout(format).record_size());
        next > self.ds_word(DsWord::MAXIMUM)
    }

    /// Returns the records in the buffer.
    ///
    /// # Safety
    ///
    /// `R` must be the type of the records that the processor writes, and the result must be dropped before the
    /// buffer is emptied.
    pub(super) unsafe fn records<R: PebsRecord>(&self) -> &[R] {
        let start = self.start.get();
        let bytes = self.ds_word(DsWord::INDEX).wrapping_sub(start);
        let count = (bytes as usize).checked_div(size_of::<R>()).unwrap_or(0);
        if count == 0 {
            return &[];
        }
        let first = ptr::with_exposed_provenance::<R>(start as usize);
        // SAFETY: `from_raw_parts` requires `count` aligned values that are not written while the slice is used: the
        // caller promises that `R` is the type of the records, which consist of words, and the buffer is aligned for
        // words. The processor has written `count` records from `start` on, and appends only after them until the
        // buffer is emptied, before which the caller drops the slice.
        unsafe { slice::from_raw_parts(first, count) }
    }
}
