// SPDX-License-Identifier: GPL-2.0-only
//! The exclusion of Linux perf: a reservation of the registers, or place-holders.

use super::reservation::Reservation;
use crate::sys::ffi;

/// The means that keeps Linux perf off the counters, until it is dropped.
pub(super) enum PerfExclusion {
    /// The module has reserved the registers.
    Registers(#[allow(dead_code, reason = "ends when dropped")] Reservation),
    /// Place-holder events of perf occupy the counters.
    PlaceHolders(#[allow(dead_code, reason = "ends when dropped")] PlaceHolderHold),
}

/// The reservation of the counters by place-holders, as long as the value exists.
///
/// # Invariants
///
/// A kernel thread may call the function until [`PlaceHolders`](super::PlaceHolders) is dropped.
pub(super) struct PlaceHolderHold(unsafe extern "C" fn());

impl PlaceHolderHold {
    /// Reserves the counters by the place-holders that all CPUs have. A kernel thread calls `end_if_unused` after the
    /// result has been dropped.
    ///
    /// # Safety
    ///
    /// A kernel thread may call `end_if_unused` until [`PlaceHolders`](super::PlaceHolders) is dropped.
    pub(super) unsafe fn new(end_if_unused: unsafe extern "C" fn()) -> Self {
        // INVARIANT: The caller promises that a kernel thread may call the function.
        Self(end_if_unused)
    }
}

impl Drop for PlaceHolderHold {
    fn drop(&mut self) {
        // SAFETY: The function requires a callback that a kernel thread may call until `PlaceHolders::drop` has waited
        // for the call: that is the type invariant.
        unsafe { ffi::perfmon_place_holder_end_soon(Some(self.0)) };
    }
}
