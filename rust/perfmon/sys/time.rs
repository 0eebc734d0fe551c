// SPDX-License-Identifier: GPL-2.0-only
//! The current time in ticks (jiffies). `kernel::time` only converts times to ticks.

use core::ptr;
use kernel::{
    bindings,
    time::{msecs_to_jiffies, Msecs},
};

/// Returns the current tick.
#[inline]
pub(crate) fn jiffies() -> u64 {
    // SAFETY: `read_volatile` requires an aligned, initialized variable, and no race: the kernel's variable always exists,
    // and is one word, which the kernel writes with one store.
    unsafe { ptr::read_volatile(&raw const bindings::jiffies) as u64 }
}

/// Returns the tick that is `time` from now.
pub(crate) fn jiffies_after(time: Msecs) -> u64 {
    jiffies().wrapping_add(msecs_to_jiffies(time) as u64)
}
