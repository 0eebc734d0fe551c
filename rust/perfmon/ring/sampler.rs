// SPDX-License-Identifier: GPL-2.0-only
//! An event that writes records: what it writes, and where. Samples are in [`super::sample`], records of tasks in
//! [`super::records`].
//!
//! Nothing of this sleeps, allocates or takes a lock.

use super::{alarm::OverflowNotifier, EventState, Record, Ring};
use crate::{
    logic::{
        event_attr::{
            PERF_SAMPLE_CPU, PERF_SAMPLE_ID, PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_STREAM_ID,
            PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
        },
        event_config::EventConfig,
        sample_format::Header,
        sampling::{Clock, Sampling, Trigger},
    },
    sys::ffi,
};
use core::{
    ptr,
    sync::atomic::{
        AtomicPtr, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};
use kernel::{bindings, prelude::*};

/// `PERF_RECORD_*` that are written here.
mod kind {
    pub(super) const LOST: u32 = 2;
    pub(super) const THROTTLE: u32 = 5;
    pub(super) const UNTHROTTLE: u32 = 6;
}

/// An event that writes samples and other records into a ring.
///
/// # Invariants
///
/// `ring` is null or points to a ring; it is freed by RCU after the pointer has changed.
pub(crate) struct Sampler {
    /// The event's id.
    pub(super) id: u64,
    pub(crate) sampling: Sampling,
    /// The event does not count in kernel mode: samples show nothing of it.
    pub(super) is_user_only: bool,
    /// The PID namespace of the opener of the event, with a reference; null if it is the first one.
    namespace: *mut ffi::pid_namespace,
    /// The period or the frequency of samples, as [`Sampling::trigger`] says; 0 without samples.
    ///
    /// ATOMICS: relaxed. The call that changes it makes the CPUs look at it again.
    period_or_frequency: AtomicU64,
    /// ATOMICS: released when the ring is ready, and acquired by its writers.
    ring: AtomicPtr<Ring>,
    /// The state of the event: enabled, disabled or closed.
    pub(crate) state: EventState,
    pub(crate) notifier: OverflowNotifier,
    /// The samples that were lost.
    ///
    /// ATOMICS: relaxed additions by any CPU.
    lost: AtomicU64,
}

// SAFETY: The namespace is a counted reference; the rest are atomic words.
unsafe impl Send for Sampler {}
// SAFETY: The namespace does not change; the rest are atomic words.
unsafe impl Sync for Sampler {}

/// When and where a record is written, and by which task.
pub(super) struct Moment {
    /// The task's process, and above it the thread.
    ids: u64,
    /// The time in nanoseconds.
    time: u64,
    cpu: u32,
}

impl Sampler {
    /// Returns the sampler of the event `id`, which the current task opens. The event is disabled, and there is no
    /// ring yet.
    /// `on_last_sample` is called in an interrupt on the CPU where the event has been disabled by its last sample.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub(crate) fn new(
        id: u64,
        config: &EventConfig,
        on_last_sample: unsafe extern "C" fn(),
    ) -> Result<Self> {
        let sampling = config.sampling;
        let period_or_frequency = match sampling.trigger {
            Trigger::Never => 0,
            Trigger::Period(number) | Trigger::Frequency(number) => number,
        };
        Ok(Self {
            state: EventState::new(),
            notifier: OverflowNotifier::new(
                sampling.trigger.is_sampled().then_some(on_last_sample),
            )?,
            id,
            sampling,
            is_user_only: !config.select.is_kernel(),
            // SAFETY: The function has no preconditions; `drop` gives the reference back.
            namespace: unsafe { ffi::perfmon_pid_namespace_get() },
            period_or_frequency: AtomicU64::new(period_or_frequency),
            ring: AtomicPtr::new(ptr::null_mut()),
            lost: AtomicU64::new(0),
        })
    }

    /// Returns whether the event is sampled.
    pub(crate) fn is_sampled(&self) -> bool {
        self.sampling.trigger.is_sampled()
    }

    /// Returns the event's id.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns the namespace; null if it is the first one.
    pub(super) fn namespace(&self) -> *mut ffi::pid_namespace {
        self.namespace
    }

    /// Returns the period or the frequency of samples, as [`Sampling::trigger`] says; 0 without samples.
    #[inline(always)]
    pub(crate) fn period_or_frequency(&self) -> u64 {
        self.period_or_frequency.load(Relaxed)
    }

    /// Changes the period or the frequency.
    pub(crate) fn set_period_or_frequency(&self, number: u64) {
        self.period_or_frequency.store(number, Relaxed);
    }

    /// Returns how many samples were lost.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// Writes to another ring from now on, or to none.
    ///
    /// # Safety
    ///
    /// The ring must live until it has been replaced here and RCU has waited for all readers.
    pub(crate) unsafe fn set_ring(&self, ring: Option<&Ring>) {
        // INVARIANT: The caller keeps the ring until RCU has waited after its replacement.
        let ring = ring.map_or(ptr::null(), ptr::from_ref);
        self.ring.store(ring.cast_mut(), Release);
    }

    /// Returns the ring.
    #[inline(always)]
    pub(super) fn ring(&self) -> Option<&Ring> {
        // SAFETY: A ring is freed by RCU after the pointer has changed, and all callers have interrupts off, so RCU
        // waits for them.
        unsafe { self.ring.load(Acquire).as_ref() }
    }

    /// Returns whether there is a ring to write to.
    pub(crate) fn has_ring(&self) -> bool {
        !self.ring.load(Relaxed).is_null()
    }

    /// Returns the ids of a task, the time and the CPU, for a record; `task` is null for the current one.
    #[inline(always)]
    pub(super) fn moment_of(&self, task: *mut bindings::task_struct, cpu: u32) -> Moment {
        let format = self.sampling.format;
        Moment {
            ids: if format.has(PERF_SAMPLE_TID) {
                self.ids(task)
            } else {
                0
            },
            time: if format.has(PERF_SAMPLE_TIME) {
                self.time()
            } else {
                0
            },
            cpu,
        }
    }

    /// Returns the numbers of a task, null for the current one: the process, and above it the thread.
    #[inline(always)]
    pub(crate) fn ids(&self, task: *mut bindings::task_struct) -> u64 {
        // SAFETY: The task is null or alive; the namespace is null or a reference.
        unsafe { ffi::perfmon_task_ids(task, self.namespace) }
    }

    /// Returns the time.
    #[inline(always)]
    pub(super) fn time(&self) -> u64 {
        let clock = match self.sampling.clock {
            Clock::Local => -1,
            Clock::Monotonic => bindings::CLOCK_MONOTONIC as c_int,
            Clock::MonotonicRaw => bindings::CLOCK_MONOTONIC_RAW as c_int,
        };
        // SAFETY: The function has no preconditions.
        unsafe { ffi::perfmon_clock(clock) }
    }

    /// Notes that samples were not taken. Without a ring that is mapped there are none to be lost.
    #[cold]
    pub(crate) fn lose(&self, samples: u64) {
        if let Some(ring) = self.ring().filter(|ring| !ring.has_ended()) {
            self.lost.fetch_add(samples, Relaxed);
            ring.lose(samples);
        }
    }

    /// Writes a LOST record. Returns whether there was room. If not, no other record may be written: it would stand
    /// before the LOST record.
    #[cold]
    #[inline(never)]
    pub(super) fn write_lost(&self, ring: &Ring, moment: &Moment) -> bool {
        let words = 3 + self.sampling.format.trailer_words();
        let Some(mut record) = ring.begin(words) else {
            return false;
        };
        let header = Header {
            kind: kind::LOST,
            misc: 0,
            words,
        };
        record.put(header.word());
        record.put(self.id);
        record.put(ring.lost.0.swap(0, Relaxed));
        self.put_trailer(&mut record, moment);
        record.finish(false);
        true
    }

    /// Writes a record that samples cease for a while, or come again.
    #[cold]
    #[inline(never)]
    pub(crate) fn write_throttling(
        &self,
        task: *mut bindings::task_struct,
        cpu: u32,
        throttled: bool,
    ) {
        let kind = if throttled {
            kind::THROTTLE
        } else {
            kind::UNTHROTTLE
        };
        let time = self.time();
        let moment = self.moment_of(task, cpu);
        self.write(kind, 0, &[&[time, self.id, self.id]], &moment);
    }

    /// Notes that a record was not written that is no sample.
    #[cold]
    pub(crate) fn lose_record(&self) {
        if let Some(ring) = self.ring() {
            ring.lose(1);
        }
    }

    /// Writes a record that is no sample, with these words one after the other.
    pub(super) fn write(&self, kind: u32, misc: u16, words: &[&[u64]], moment: &Moment) {
        let Some(ring) = self.ring() else {
            return;
        };
        if ring.lost.get() != 0 && !self.write_lost(ring, moment) {
            ring.lose(1);
            return;
        }
        let count: usize = words.iter().map(|words| words.len()).sum();
        let size = 1 + count + self.sampling.format.trailer_words();
        let Some(mut record) = ring.begin(size) else {
            ring.lose(1);
            return;
        };
        let header = Header {
            kind,
            misc,
            words: size,
        };
        record.put(header.word());
        words.iter().for_each(|words| record.put_all(words));
        self.put_trailer(&mut record, moment);
        record.finish(false);
    }

    /// Writes what all records have at their end, if the event wants that.
    fn put_trailer(&self, record: &mut Record<'_>, moment: &Moment) {
        let parts = [
            (PERF_SAMPLE_TID, moment.ids),
            (PERF_SAMPLE_TIME, moment.time),
            (PERF_SAMPLE_ID, self.id),
            (PERF_SAMPLE_STREAM_ID, self.id),
            (PERF_SAMPLE_CPU, moment.cpu.into()),
            (PERF_SAMPLE_IDENTIFIER, self.id),
        ];
        for (part, word) in parts {
            if self.sampling.format.has_in_trailer(part) {
                record.put(word);
            }
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        if !self.namespace.is_null() {
            // SAFETY: `new` has got the reference.
            unsafe { ffi::perfmon_pid_namespace_put(self.namespace) };
        }
    }
}
