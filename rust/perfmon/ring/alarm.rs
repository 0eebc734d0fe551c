// SPDX-License-Identifier: GPL-2.0-only
//! What an overflow does besides a sample: it sends SIGIO, and the last of as many as were wanted disables the event.

use super::State;
use crate::sys::wait::Wait;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use kernel::prelude::*;

/// [`Alarm::left`]: as many samples as there are.
const UNLIMITED: u64 = 0;
/// [`Alarm::left`]: there were as many as were wanted.
const SPENT: u64 = u64::MAX;

/// The poller and the signal that overflows notify, and the limit of overflows.
pub(crate) struct Alarm {
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
    left: AtomicU64,
}

impl Alarm {
    /// Returns an alarm that is not set. `ended` is called, in an interrupt on the CPU of the last overflow, when an
    /// event has been disabled; `None` for one that is not sampled.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub(super) fn new(ended: Option<unsafe extern "C" fn()>) -> Result<Self> {
        Ok(Self {
            wait: Wait::new(ended)?,
            is_set: AtomicU64::new(0),
            left: AtomicU64::new(UNLIMITED),
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

    /// Allows so many samples more; 0 leaves an event without a limit as it is. The caller enables the event.
    pub(crate) fn allow(&self, samples: u32) {
        self.set();
        let add = |left| match left {
            SPENT => Some(samples.into()),
            left => Some(left.saturating_add(samples.into()).min(SPENT - 1)),
        };
        let _ = self.left.fetch_update(SeqCst, SeqCst, add);
    }

    /// Lifts the limit if it is used up.
    pub(crate) fn end_spent(&self) {
        let _ = self
            .left
            .compare_exchange(SPENT, UNLIMITED, SeqCst, Relaxed);
    }

    /// Takes an overflow from the limit, if there is one. Returns whether it becomes a sample.
    #[cold]
    #[inline(never)]
    pub(super) fn take_from_limit(&self, state: &State) -> bool {
        let count = |left| match left {
            UNLIMITED | SPENT => None,
            1 => Some(SPENT),
            left => Some(left - 1),
        };
        match self.left.fetch_update(SeqCst, SeqCst, count) {
            Ok(1) => {
                self.disable(state);
                true
            }
            Ok(_) | Err(UNLIMITED) => true,
            Err(_) => false,
        }
    }

    /// Disables the event, unless another CPU allows more samples meanwhile: that enables it, and may disable it again.
    fn disable(&self, state: &State) {
        loop {
            let changes = state.changes();
            if self.left.load(SeqCst) != SPENT || state.disable_unless_changed(changes) {
                return;
            }
        }
    }

    /// Wakes the poller and sends the signal, for an overflow that became a sample.
    #[cold]
    #[inline(never)]
    pub(super) fn ring(&self) {
        self.wait.overflow(self.left.load(SeqCst) == SPENT);
    }
}
