// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rings into which the driver writes samples and records of tasks.

use std::os::fd::{AsFd, BorrowedFd};

use ahash::AHashMap;
use anyhow::Result;
use perfmon::event::Event;
use perfmon::sampler::{RawRecord, Sampler};
use perfmon::{Cause, Error};
use perfmon_core::logic::perf_event::PERF_RECORD_LOST;

use super::polled::Polled;
use crate::system::exit;

/// The pages of a ring without -m.
pub(super) const DEFAULT_PAGES: usize = 64;
/// The pages of a ring for samples with stacks, which need two pages each, and for precise samples, of which many come
/// in a short time.
pub(super) const LARGE_RECORD_PAGES: usize = 512;
/// The pages of a ring for merged samples, of which tens of thousands come at once.
pub(super) const MERGED_PAGES: usize = 2048;
/// The pages of the smallest ring that is tried if the limit of locked memory is too low for [`DEFAULT_PAGES`] or
/// [`LARGE_RECORD_PAGES`].
pub(super) const MIN_PAGES: usize = 4;

/// A record as it stands in a ring.
pub(super) enum RingRecord<'a> {
    /// A record in a ring of the driver.
    Driver(RawRecord<'a>),
    /// A record in a ring of Linux's PMUs.
    Linux(&'a [u8]),
}

impl RingRecord<'_> {
    /// Appends the bytes of the record to `bytes`.
    pub(super) fn copy_to(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Driver(record) => record.copy_to(bytes),
            Self::Linux(record) => bytes.extend_from_slice(record),
        }
    }
}

/// A ring of the driver's events.
pub(super) struct Ring {
    pub(super) sampler: Sampler,
    polled: Polled,
    /// Number of records that the driver has reported as lost in this ring.
    pub(super) lost: u64,
}

impl Ring {
    pub(super) fn new(sampler: Sampler) -> Self {
        Self {
            sampler,
            polled: Polled::default(),
            lost: 0,
        }
    }

    /// Returns the descriptor to poll; `None` if all tasks have ended.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.polled
            .descriptor(self.sampler.events().map(AsFd::as_fd))
    }

    pub(super) fn skip_ended(&mut self) {
        self.polled
            .skip_ended(self.sampler.events().map(AsFd::as_fd));
    }

    /// Calls `handle` for each record since the last call.
    pub(super) fn drain(&mut self, mut handle: impl FnMut(RawRecord<'_>)) -> Result<()> {
        let records = self.sampler.records();
        for record in records.raw() {
            let record = record.map_err(exit::with_help)?;
            // Word 2 is the number of lost records.
            if record.kind() == PERF_RECORD_LOST && record.size() > 2 {
                self.lost = self.lost.saturating_add(record.word(2));
            }
            handle(record);
        }
        Ok(())
    }
}

/// The ring of a CPU, with its sampled events.
pub(super) struct SampleRing {
    pub(super) cpu: u32,
    /// The ring. Its first events are the sampled ones, and the dummies follow.
    pub(super) ring: Ring,
    /// The index in the plan of each sampled event, by the kernel's ID of the event.
    pub(super) event_indices: AHashMap<u64, usize>,
    /// Number of samples that were lost while the ring was paused to be read.
    pub(super) lost_in_pauses: u64,
}

impl SampleRing {
    /// Returns the sampled events.
    pub(super) fn sampled_events(&self) -> impl Iterator<Item = &Event> {
        self.ring.sampler.events().take(self.event_indices.len())
    }

    /// Moves the processor's buffered samples to the ring. Otherwise a later round could find
    /// samples that are older than those of this round.
    pub(super) fn fetch_hardware_samples(&self) {
        for event in self.sampled_events() {
            // Only the side effect of reading is needed. Missed events are reported at the end.
            let _ = event.read();
        }
    }

    /// Returns the number of lost samples; `None` if events were missed, so that the number is not known.
    pub(super) fn lost_samples(&self) -> Result<Option<u64>> {
        match self.sampled_events().map(Event::lost_samples).sum() {
            Err(Error {
                cause: Cause::Missed,
                ..
            }) => Ok(None),
            Err(error) => Err(exit::with_help(error)),
            Ok(lost) => Ok(Some(lost)),
        }
    }
}
