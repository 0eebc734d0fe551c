// SPDX-License-Identifier: GPL-2.0-only
//! The writer of an event's records. [`super::sample`] writes samples, and [`super::records`] writes records of tasks.
//!
//! Only `new` and `drop` sleep, allocate or take locks.

use super::{notifier::OverflowNotifier, Record, Ring};
use crate::{
    logic::{
        event_attr::{
            PERF_SAMPLE_CPU, PERF_SAMPLE_ID, PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_STREAM_ID,
            PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
        },
        event_config::EventConfig,
        event_state::EventState,
        hierarchy::Hierarchy,
        perf_event::{PERF_RECORD_LOST, PERF_RECORD_THROTTLE, PERF_RECORD_UNTHROTTLE},
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

/// The writer of an event's samples and other records.
///
/// # Invariants
///
/// `ring` is null or points to a ring, which is freed after the pointer has changed and a grace period has passed.
pub(crate) struct Sampler {
    /// The event's ID, which its records contain.
    pub(super) id: u64,
    /// The configuration of the event's records.
    pub(crate) sampling: Sampling,
    /// The event does not count in kernel mode, so samples must not show the kernel's registers and addresses.
    pub(super) is_user_only: bool,
    /// The hierarchy of the cgroup that the event counts, if it counts one.
    hierarchy: Option<Hierarchy>,
    /// The PID namespace of the event's opener, with a counted reference; null if it is the initial one.
    namespace: *mut ffi::pid_namespace,
    /// The period or the frequency of samples, as [`Sampling::trigger`] says; 0 without samples.
    ///
    /// ATOMICS: relaxed. The call that changes the number makes the CPUs load it again.
    period_or_frequency: AtomicU64,
    /// The ring to write to; null without one.
    ///
    /// ATOMICS: stored with release order when the ring is ready, and loaded with acquire order by its writers.
    ring: AtomicPtr<Ring>,
    /// The state of the event: enabled, disabled or closed.
    pub(crate) state: EventState,
    pub(crate) notifier: OverflowNotifier,
    /// The number of samples that were lost.
    ///
    /// ATOMICS: relaxed additions by any CPU.
    lost_samples: AtomicU64,
}

// SAFETY: `Send` requires that any task may use and drop the value: any task may drop the namespace's counted
// reference, and the other fields are immutable, atomic, or have locks of their own.
unsafe impl Send for Sampler {}
// SAFETY: `Sync` requires that several tasks may use the value at once: its fields are immutable, atomic, or have locks
// of their own.
unsafe impl Sync for Sampler {}

/// The task, time and CPU of a record.
pub(super) struct RecordOrigin {
    /// The task's PID, with its TID in the upper half.
    ids: u64,
    /// The time in nanoseconds.
    time: u64,
    cpu: u32,
}

impl Sampler {
    /// Returns the sampler of a new event with the ID `id`, which the current task opens.
    /// `hierarchy` is the hierarchy of the event's cgroup, if the event counts a cgroup. The event
    /// is disabled, and has no ring. When the limit of samples has disabled the event, an interrupt
    /// on the CPU of the last sample calls `on_last_sample`.
    ///
    /// # Errors
    ///
    /// ENOMEM if there is no memory.
    pub(crate) fn new(
        id: u64,
        config: &EventConfig,
        hierarchy: Option<Hierarchy>,
        on_last_sample: unsafe extern "C" fn(),
    ) -> Result<Self> {
        let sampling = config.sampling;
        let period_or_frequency = match sampling.trigger {
            Trigger::Never => 0,
            Trigger::Period(number) | Trigger::Frequency(number) => number,
        };
        Ok(Self {
            state: EventState::disabled(),
            notifier: OverflowNotifier::new(
                sampling.trigger.is_sampled().then_some(on_last_sample),
            )?,
            id,
            sampling,
            is_user_only: !config.select.is_kernel(),
            hierarchy,
            // SAFETY: The function requires task context, which the call that opens the event has. `drop` puts the
            // reference that the function returns.
            namespace: unsafe { ffi::perfmon_pid_namespace_get() },
            period_or_frequency: AtomicU64::new(period_or_frequency),
            ring: AtomicPtr::new(ptr::null_mut()),
            lost_samples: AtomicU64::new(0),
        })
    }

    /// Returns whether the event is sampled.
    pub(crate) fn is_sampled(&self) -> bool {
        self.sampling.trigger.is_sampled()
    }

    /// Returns the hierarchy of the cgroup that the event counts; `None` if it counts a task or a CPU.
    #[inline(always)]
    pub(crate) fn hierarchy(&self) -> Option<Hierarchy> {
        self.hierarchy
    }

    /// Returns the event's ID.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns the PID namespace of the event's opener; null if it is the initial one.
    pub(super) fn namespace(&self) -> *mut ffi::pid_namespace {
        self.namespace
    }

    /// Returns the period or the frequency of samples, as [`Sampling::trigger`] says; 0 without samples.
    #[inline(always)]
    pub(crate) fn period_or_frequency(&self) -> u64 {
        self.period_or_frequency.load(Relaxed)
    }

    /// Returns the present trigger of samples: [`Sampling::trigger`] with the number that PERF_EVENT_IOC_PERIOD has set.
    pub(crate) fn trigger(&self) -> Trigger {
        let trigger = self.sampling.trigger;
        trigger
            .with_number(self.period_or_frequency())
            .unwrap_or(trigger)
    }

    /// Returns the time between two samples of an event with a frequency, in TSC cycles. `khz` is the frequency of the TSC
    /// in kHz.
    pub(crate) fn interval(&self, khz: u32) -> u64 {
        let hertz = u64::from(khz).wrapping_mul(1000);
        hertz
            .checked_div(self.period_or_frequency())
            .unwrap_or(hertz)
    }

    /// Sets the period or the frequency. The caller makes the CPUs load it.
    pub(crate) fn set_period_or_frequency(&self, number: u64) {
        self.period_or_frequency.store(number, Relaxed);
    }

    /// Returns the number of samples that were lost.
    pub(crate) fn lost_samples(&self) -> u64 {
        self.lost_samples.load(Relaxed)
    }

    /// Sets the ring that records are written to from now on; `None` for no ring.
    ///
    /// # Safety
    ///
    /// The ring must live until another call has replaced it and a grace period has passed.
    pub(crate) unsafe fn set_ring(&self, ring: Option<&Ring>) {
        // INVARIANT: The caller keeps the ring until a grace period has passed after its replacement.
        let ring = ring.map_or(ptr::null(), ptr::from_ref);
        self.ring.store(ring.cast_mut(), Release);
    }

    /// Returns the ring to write to. To be called with interrupts off.
    #[inline(always)]
    pub(super) fn ring(&self) -> Option<&Ring> {
        // SAFETY: `as_ref` requires a pointer that is null or valid: by the invariant a ring is freed a grace period
        // after the pointer has changed. All callers have interrupts off as long as they use the ring, so the grace
        // period waits for them.
        unsafe { self.ring.load(Acquire).as_ref() }
    }

    /// Returns whether there is a ring to write to.
    pub(crate) fn has_ring(&self) -> bool {
        !self.ring.load(Relaxed).is_null()
    }

    /// Returns the IDs of a task, the time and the CPU, for a record; `task` is null for the current one.
    #[inline(always)]
    pub(super) fn origin_of(&self, task: *mut bindings::task_struct, cpu: u32) -> RecordOrigin {
        let format = self.sampling.format;
        RecordOrigin {
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

    /// Returns the PID of a task in the opener's namespace, with its TID in the upper half. `task` is null for the current
    /// task.
    #[inline(always)]
    pub(crate) fn ids(&self, task: *mut bindings::task_struct) -> u64 {
        // SAFETY: The function requires a task that is null or alive, and a namespace that is null
        // or alive: all callers pass the current task, the task that is sampled or switched to,
        // another task that a tracepoint names, or null; `Event::new` passes the event's target, to
        // which `target` has a reference. `self` has a reference to the namespace.
        unsafe { ffi::perfmon_task_ids(task, self.namespace) }
    }

    /// Returns the present time of the event's clock, in nanoseconds.
    #[inline(always)]
    pub(super) fn time(&self) -> u64 {
        let clock = match self.sampling.clock {
            Clock::Local => -1,
            Clock::Monotonic => bindings::CLOCK_MONOTONIC as c_int,
            Clock::MonotonicRaw => bindings::CLOCK_MONOTONIC_RAW as c_int,
        };
        // SAFETY: `perfmon_clock()` has no preconditions: it may be called in NMIs, and takes any number.
        unsafe { ffi::perfmon_clock(clock) }
    }

    /// Counts samples as lost. Does nothing if the event has no ring, or a ring whose last mapping was removed: no program
    /// could have read the samples then.
    #[cold]
    pub(crate) fn lose_samples(&self, samples: u64) {
        if let Some(ring) = self.ring().filter(|ring| !ring.has_ended()) {
            self.lost_samples.fetch_add(samples, Relaxed);
            ring.lose_records(samples);
        }
    }

    /// Writes a LOST record. Returns whether there was room. If there was no room, the caller must
    /// write no other record, since such a record would precede the LOST record.
    #[cold]
    #[inline(never)]
    pub(super) fn write_lost(&self, ring: &Ring, origin: &RecordOrigin) -> bool {
        let words = 3 + self.sampling.format.trailer_words();
        let Some(mut record) = ring.begin_record(words) else {
            return false;
        };
        let header = Header {
            kind: PERF_RECORD_LOST,
            misc: 0,
            words,
        };
        record.write_word(header.word());
        record.write_word(self.id);
        record.write_word(ring.lost_records.0.swap(0, Relaxed));
        self.put_trailer(&mut record, origin);
        record.finish(0);
        true
    }

    /// Writes a THROTTLE record if `throttled` is true, or else an UNTHROTTLE record.
    #[cold]
    #[inline(never)]
    pub(crate) fn write_throttling(
        &self,
        task: *mut bindings::task_struct,
        cpu: u32,
        throttled: bool,
    ) {
        let kind = if throttled {
            PERF_RECORD_THROTTLE
        } else {
            PERF_RECORD_UNTHROTTLE
        };
        let time = self.time();
        let origin = self.origin_of(task, cpu);
        self.write_record(kind, 0, &[&[time, self.id, self.id]], &origin);
    }

    /// Counts a lost record that is not a sample.
    #[cold]
    pub(crate) fn lose_record(&self) {
        if let Some(ring) = self.ring() {
            ring.lose_records(1);
        }
    }

    /// Writes a record that is not a sample, or counts it as lost. `words` are the record's words
    /// between header and trailer, in one or more pieces.
    pub(super) fn write_record(
        &self,
        kind: u32,
        misc: u16,
        words: &[&[u64]],
        origin: &RecordOrigin,
    ) {
        let Some(ring) = self.ring() else {
            return;
        };
        if ring.lost_records.get() != 0 && !self.write_lost(ring, origin) {
            ring.lose_records(1);
            return;
        }
        let count: usize = words.iter().map(|words| words.len()).sum();
        let size = 1 + count + self.sampling.format.trailer_words();
        let Some(mut record) = ring.begin_record(size) else {
            ring.lose_records(1);
            return;
        };
        let header = Header {
            kind,
            misc,
            words: size,
        };
        record.write_word(header.word());
        words.iter().for_each(|words| record.write_words(words));
        self.put_trailer(&mut record, origin);
        record.finish(0);
    }

    /// Writes the trailer of a record that is not a sample, if the event wants trailers (`sample_id_all`).
    fn put_trailer(&self, record: &mut Record<'_>, origin: &RecordOrigin) {
        let parts = [
            (PERF_SAMPLE_TID, origin.ids),
            (PERF_SAMPLE_TIME, origin.time),
            (PERF_SAMPLE_ID, self.id),
            (PERF_SAMPLE_STREAM_ID, self.id),
            (PERF_SAMPLE_CPU, origin.cpu.into()),
            (PERF_SAMPLE_IDENTIFIER, self.id),
        ];
        for (part, word) in parts {
            if self.sampling.format.has_in_trailer(part) {
                record.write_word(word);
            }
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        if !self.namespace.is_null() {
            // SAFETY: The function requires a reference of `perfmon_pid_namespace_get()`: `new` got it, and only `drop`
            // puts it.
            unsafe { ffi::perfmon_pid_namespace_put(self.namespace) };
        }
    }
}
