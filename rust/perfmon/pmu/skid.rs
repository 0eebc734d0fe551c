// SPDX-License-Identifier: GPL-2.0-only
//! The skid: the time from an overflow to its PMI.

use kernel::{
    bindings,
    time::{Msecs, NSEC_PER_MSEC},
};

/// The longest time from an overflow to its PMI, in milliseconds: far more than any skid.
pub(super) const MAX_SKID: Msecs = 10;

/// [`MAX_SKID`] in ticks (jiffies), rounded up. A constant can't be computed by
/// `msecs_to_jiffies()`.
pub(super) const SKID_TICKS: u64 =
    (MAX_SKID as u64 * NSEC_PER_MSEC as u64).div_ceil(bindings::TICK_NSEC as u64);
