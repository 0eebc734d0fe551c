// SPDX-License-Identifier: GPL-2.0-only
//! The samples of a counter: when a sample is due, and for how many events the counter is loaded.

use super::Word;
use crate::{
    abi,
    logic::trace_config::{ConfigEvent, EventRole},
};
use core::sync::atomic::{compiler_fence, Ordering::SeqCst};

/// The state of one counter's samples, if the counter is sampled. The samples become records of a
/// trace or of an event.
pub(crate) struct SampledCounter {
    /// The header of the TICK or PC records in the lower half, and the smallest number of events that the counter may
    /// be loaded for in the upper half.
    header_and_min_load: Word,
    /// The events from one sample to the next; `u64::MAX` if the counter is not sampled.
    pub(crate) period: Word,
    /// The counter's total up to which its events have been recorded.
    pub(crate) recorded_total: Word,
    /// The largest number of events that the counter may be loaded for.
    pub(crate) max_load: Word,
    /// The marks that a sample of the counter sets. For a trace: [`RECORD_WRITTEN`], and the counter's bit if other
    /// records follow the sample. For an event: [`TO_RING`].
    pub(crate) follow_mask: Word,
}

/// A sample that is due, with the values of the counter that it depends on.
pub(crate) struct DueSample {
    /// The value of [`SampledCounter::period`].
    pub(crate) period: u64,
    /// The value of [`SampledCounter::recorded_total`].
    pub(crate) recorded_total: u64,
    /// The number of events since the last sample: the period or more.
    pub(crate) events_since_sample: u64,
}

/// Flag in the marks of a trace's sample, whose other bits are counters: a record was written.
pub(crate) const RECORD_WRITTEN: u64 = 1 << 63;
/// Flag in the marks of a trace's sample, whose other bits are counters: a record could not be written.
pub(crate) const RECORD_REFUSED: u64 = 1 << 62;
/// Flag in [`SampledCounter::follow_mask`]: the samples are an event's, and go to its ring.
const TO_RING: u64 = 1 << 61;

impl SampledCounter {
    /// Ends the samples of the counter. The counter still overflows every `max_load` events, so that its value can be
    /// extended to 64 bits.
    pub(crate) fn set_unsampled(&self, max_load: u64) {
        self.period.set(u64::MAX);
        self.recorded_total.set(0);
        self.max_load.set(max_load);
    }

    /// Begins to take samples for an event's ring, one every `period` events. The next sample is due at the counter's
    /// total `due_total`. The counter is loaded for `min_load` events at least.
    pub(super) fn arm(&self, period: u64, due_total: u64, min_load: u32) {
        self.header_and_min_load.set(u64::from(min_load) << 32);
        self.recorded_total.set(due_total.wrapping_sub(period));
        self.follow_mask.set(TO_RING);
        self.period.set(period);
    }

    /// Ends the samples that [`Self::arm`] began. Returns the period, and the total at which the next sample would be
    /// due.
    pub(super) fn disarm(&self) -> (u64, u64) {
        let period = self.period.get();
        self.period.set(u64::MAX);
        compiler_fence(SeqCst);
        let due_total = self.recorded_total.get().wrapping_add(period);
        self.recorded_total.set(0);
        (period, due_total)
    }

    /// Returns whether the samples are an event's, not a trace's.
    #[inline(always)]
    pub(crate) fn is_of_event(&self) -> bool {
        self.follow_mask.get() & TO_RING != 0
    }

    /// Returns the sample that is due at the total `total`. If no sample is due, returns the number
    /// of events to the next sample as an error.
    #[inline(always)]
    pub(crate) fn due_sample(&self, total: u64) -> Result<DueSample, u64> {
        let (period, recorded_total) = (self.period.get(), self.recorded_total.get());
        let events_since_sample = total.wrapping_sub(recorded_total);
        if events_since_sample < period {
            return Err(period.wrapping_sub(events_since_sample));
        }
        Ok(DueSample {
            period,
            recorded_total,
            events_since_sample,
        })
    }

    /// Returns the number of events up to `total` that were not recorded yet.
    #[inline(always)]
    pub(crate) fn unrecorded_events(&self, total: u64) -> u64 {
        total.wrapping_sub(self.recorded_total.get())
    }

    /// Returns the number of events up to `total` that were not recorded yet, and marks them as recorded.
    pub(crate) fn take_unrecorded(&self, total: u64) -> u64 {
        let unrecorded = self.unrecorded_events(total);
        self.recorded_total.set(total);
        unrecorded
    }

    /// Prepares to record an event of a trace. The counter may be loaded for `min_load` to
    /// `max_load` events. `follow_mask` is the new value of [`Self::follow_mask`].
    pub(crate) fn prepare_for_trace(
        &self,
        event: &ConfigEvent,
        min_load: u32,
        max_load: u64,
        follow_mask: u64,
    ) {
        let kind = if event.pc {
            abi::PERFMON_RECORD_PC
        } else {
            abi::PERFMON_RECORD_TICK
        };
        let period = match event.role {
            EventRole::Sampled(rate) => rate.into(),
            EventRole::Counted | EventRole::FollowsTimebase => u64::MAX,
        };
        let header: u32 = zerocopy::transmute!(header(kind, event.id.0));
        self.header_and_min_load
            .set(u64::from(min_load) << 32 | u64::from(header));
        self.period.set(period);
        self.recorded_total.set(0);
        self.max_load.set(max_load);
        self.follow_mask.set(follow_mask);
    }

    /// Returns the number of events to load the counter for, if `events_left` events are left to
    /// its next sample. If the counter can't be loaded for so few events, the sample comes some
    /// events late.
    #[inline(always)]
    pub(crate) fn events_to_load(&self, events_left: u64) -> u64 {
        events_left
            .min(self.max_load.get())
            .max(self.header_and_min_load.get() >> 32)
    }

    /// Returns the number of events to load the counter for at the beginning of a period.
    pub(crate) fn events_to_load_for_period(&self) -> u64 {
        self.events_to_load(self.period.get())
    }

    /// Returns the header of the TICK or PC records, as an integer.
    #[inline(always)]
    pub(crate) fn sample_header(&self) -> u32 {
        self.header_and_min_load.get() as u32
    }

    /// Returns the header of a record of `kind` (`PERFMON_RECORD_*`) for the event of this counter.
    pub(crate) fn header(&self, kind: u32) -> abi::perfmon_record_header {
        let sample: abi::perfmon_record_header = zerocopy::transmute!(self.sample_header());
        header(kind, sample.event)
    }

    /// Returns a COUNT record that stands for samples that are missing because the overflow came too late: it has the
    /// number of events in the whole periods of `events_since_sample`.
    #[cold]
    pub(crate) fn overrun_record(&self, events_since_sample: u64) -> abi::perfmon_count_record {
        // The period of a sampled counter is not 0.
        let events_after_periods = events_since_sample
            .checked_rem(self.period.get())
            .unwrap_or(0);
        let events_in_periods = events_since_sample.wrapping_sub(events_after_periods);
        self.count_record(self.recorded_total.get().wrapping_add(events_in_periods))
    }

    /// Returns a COUNT record with the number of events up to `total` that were not recorded yet, and marks them as
    /// recorded.
    pub(crate) fn count_record(&self, total: u64) -> abi::perfmon_count_record {
        abi::perfmon_count_record {
            header: self.header(abi::PERFMON_RECORD_COUNT),
            count: self.take_unrecorded(total),
        }
    }
}

/// Returns the header of a record of `kind` (`PERFMON_RECORD_*`) for the event with the number `event`.
#[inline(always)]
pub(super) fn header(kind: u32, event: u16) -> abi::perfmon_record_header {
    abi::perfmon_record_header {
        type_: kind as u8,
        reserved_flags: 0,
        event,
    }
}
