// SPDX-License-Identifier: GPL-2.0-only
//! The effects of an overflow besides its sample: SIGIO, and the limit of samples, whose last one disables the event.

use super::EventState;
use crate::sys::wait::Wait;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use kernel::prelude::*;

/// [`OverflowNotifier::samples_left`]: there is no limit.
const UNLIMITED: u64 = 0;
/// [`OverflowNotifier::samples_left`]: the limit is used up.
const SPENT: u64 = u64::MAX;

/// The poller and the signal that overflows notify, and the limit of overflows.
pub(crate) struct OverflowNotifier {
    /// Where programs wait for records, or for the end of what is counted.
    pub(crate) wait: Wait,
    /// Not 0 if an overflow may have more to do than a sample.
    ///
    /// ATOMICS: relaxed. It never becomes 0 again.
    is_set: AtomicU64,
    /// The samples until the event is disabled; or [`UNLIMITED`] or [`SPENT`].
    ///
    /// ATOMICS: sequentially consistent, as whether the event is enabled follows from it. Counted down by one overflow
    /// handler at a time, since the event is not inherited.
    samples_left: AtomicU64,
}

impl OverflowNotifier {
    /// Returns a notifier that is not set. `ended` is called, in an interrupt on the CPU of the last overflow, when an
    /// event has been disabled; `None` for one that is not sampled.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub(super) fn new(ended: Option<unsafe extern "C" fn()>) -> Result<Self> {
        Ok(Self {
            wait: Wait::new(ended)?,
            is_set: AtomicU64::new(0),
            samples_left: AtomicU64::new(UNLIMITED),
        })
    }

    /// Makes overflows look at it from now on.
    pub(crate) fn set(&self) {
        self.is_set.store(1, Relaxed);
    }

    /// Returns whether an overflow may have more to do than a sample.
    #[inline(always)]
    pub(super) fn is_set(&self) -> bool {
        self.is_set.load(Relaxed) != 0
    }

    /// Allows `samples` more samples. With 0, an event without a limit stays so. The caller enables the event.
    pub(crate) fn allow_samples(&self, samples: u32) {
        self.set();
        let add = |left| match left {
            SPENT => Some(samples.into()),
            left => Some(left.saturating_add(samples.into()).min(SPENT - 1)),
        };
        let _ = self.samples_left.fetch_update(SeqCst, SeqCst, add);
    }

    /// Lifts the limit if it is used up.
    pub(crate) fn lift_spent_limit(&self) {
        let _ = self
            .samples_left
            .compare_exchange(SPENT, UNLIMITED, SeqCst, Relaxed);
    }

    /// Counts an overflow against the limit, if there is one. Returns whether the overflow becomes a sample.
    #[cold]
    #[inline(never)]
    pub(super) fn take_from_limit(&self, state: &EventState) -> bool {
        let count = |left| match left {
            UNLIMITED | SPENT => None,
            1 => Some(SPENT),
            left => Some(left - 1),
        };
        match self.samples_left.fetch_update(SeqCst, SeqCst, count) {
            Ok(1) => {
                self.disable(state);
                true
            }
            Ok(_) | Err(UNLIMITED) => true,
            Err(_) => false,
        }
    }

    /// Disables the event, unless another CPU allows more samples meanwhile: that enables it, and may disable it again.
    fn disable(&self, state: &EventState) {
        loop {
            let changes = state.changes();
            if self.samples_left.load(SeqCst) != SPENT || state.disable_unless_changed(changes) {
                return;
            }
        }
    }

    /// Wakes the poller and sends the signal, for an overflow that became a sample.
    #[cold]
    #[inline(never)]
    pub(super) fn notify(&self) {
        self.wait.overflow(self.samples_left.load(SeqCst) == SPENT);
    }
}
