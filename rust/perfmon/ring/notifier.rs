// SPDX-License-Identifier: GPL-2.0-only
//! Effects of an overflow besides its sample: SIGIO, and the number of samples after which the
//! event is disabled.

use crate::{logic::event_state::EventState, sys::wait::Wait};
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use kernel::prelude::*;

/// Value of [`OverflowNotifier::samples_left`]: the number of samples is not limited.
const UNLIMITED: u64 = 0;
/// Value of [`OverflowNotifier::samples_left`]: all allowed samples were taken.
const SPENT: u64 = u64::MAX;

/// The pollers and the signal that overflows notify, and the limit of samples.
pub(crate) struct OverflowNotifier {
    /// The wait queue of programs that wait for records, or for the end of the counted tasks.
    pub(crate) wait: Wait,
    /// Not 0 if an overflow may have to send a signal, or to count down the limit of samples.
    ///
    /// ATOMICS: relaxed. The word never becomes 0 again.
    follows_overflows: AtomicU64,
    /// The number of samples until the event is disabled, or [`UNLIMITED`] or [`SPENT`].
    ///
    /// ATOMICS: sequentially consistent, since the event's state is changed according to this number. One overflow
    /// handler at a time counts it down, since an event with a limit is not inherited.
    samples_left: AtomicU64,
}

impl OverflowNotifier {
    /// Returns a notifier without a limit and without a signal. When the limit of samples has disabled the event, an
    /// interrupt on the CPU of the last sample calls `on_last_sample`, which is `None` for an event that is not sampled.
    ///
    /// # Errors
    ///
    /// ENOMEM if there is no memory.
    pub(super) fn new(on_last_sample: Option<unsafe extern "C" fn()>) -> Result<Self> {
        Ok(Self {
            wait: Wait::new(on_last_sample)?,
            follows_overflows: AtomicU64::new(0),
            samples_left: AtomicU64::new(UNLIMITED),
        })
    }

    /// Makes each overflow from now on count down the limit of samples, and send the signal.
    pub(crate) fn follow_overflows(&self) {
        self.follows_overflows.store(1, Relaxed);
    }

    /// Returns whether an overflow may have to send a signal, or to count down the limit of samples.
    #[inline(always)]
    pub(super) fn follows_overflows(&self) -> bool {
        self.follows_overflows.load(Relaxed) != 0
    }

    /// Allows `samples` more samples. If there was no limit, sets one, unless `samples` is 0. The caller enables the event
    /// afterwards.
    pub(crate) fn allow_samples(&self, samples: u32) {
        self.follow_overflows();
        let add = |left| match left {
            SPENT => Some(samples.into()),
            left => Some(left.saturating_add(samples.into()).min(SPENT - 1)),
        };
        let _ = self.samples_left.fetch_update(SeqCst, SeqCst, add);
    }

    /// Removes the limit if all allowed samples were taken.
    pub(crate) fn lift_spent_limit(&self) {
        let _ = self
            .samples_left
            .compare_exchange(SPENT, UNLIMITED, SeqCst, Relaxed);
    }

    /// Subtracts one sample from the limit, if there is a limit. Returns whether the overflow may
    /// become a sample.
    #[cold]
    #[inline(never)]
    pub(super) fn count_down_limit(&self, state: &EventState) -> bool {
        let take_one = |left| match left {
            UNLIMITED | SPENT => None,
            1 => Some(SPENT),
            left => Some(left - 1),
        };
        match self.samples_left.fetch_update(SeqCst, SeqCst, take_one) {
            Ok(1) => {
                self.disable_if_spent(state);
                true
            }
            Ok(_) | Err(UNLIMITED) => true,
            Err(_) => false,
        }
    }

    /// Disables the event if all allowed samples were taken. If another CPU allows more samples meanwhile, and enables the
    /// event, the event stays enabled.
    pub(crate) fn disable_if_spent(&self, state: &EventState) {
        loop {
            let changes = state.changes();
            if self.samples_left.load(SeqCst) != SPENT || state.disable_unless_changed(changes) {
                return;
            }
        }
    }

    /// Wakes the pollers and sends the signal, after an overflow that became a sample.
    #[cold]
    #[inline(never)]
    pub(super) fn notify(&self) {
        self.wait
            .signal_overflow(self.samples_left.load(SeqCst) == SPENT);
    }
}
