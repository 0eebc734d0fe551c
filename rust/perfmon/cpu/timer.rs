// SPDX-License-Identifier: GPL-2.0-only
//! A timer for each CPU, usually with the period of the kernel's tick.
//!
//! `kernel::time::hrtimer` has no timer in per-CPU memory that is started with interrupts off by code that owns
//! no handle to it.

use super::ThisCpu;
use crate::sys::ffi;
use core::num::NonZeroU64;

/// The function that the timers of all CPUs call.
pub(crate) trait Tick {
    /// Runs on the timer's CPU with interrupts off. Returns the nanoseconds to the next tick, or `None` to stop.
    fn tick(here: ThisCpu<'_>) -> Option<NonZeroU64>;
}

/// Prepares the timers of all CPUs, and starts none.
///
/// # Safety
///
/// To be called once in the module's life, after the areas ([`super::PercpuAreas`]) have been allocated. Every timer
/// must be stopped before the areas are freed.
pub(crate) unsafe fn init<T: Tick>() {
    /// # Safety
    ///
    /// Must be called with interrupts off.
    unsafe extern "C" fn tick<T: Tick>() -> u64 {
        // SAFETY: `assume` requires that the caller does not leave the CPU while the token lives: the kernel calls this
        // function with interrupts off, as `# Safety` demands, until it has returned.
        T::tick(unsafe { ThisCpu::assume() }).map_or(0, NonZeroU64::get)
    }

    // SAFETY: perfmon_timers_init() must not be called while a timer runs: the caller calls this once, and timers are
    // started afterwards. `tick` gets called with interrupts off, as it requires.
    unsafe { ffi::perfmon_timers_init(Some(tick::<T>)) };
}

/// Returns the period of the kernel's tick in nanoseconds.
pub(crate) fn period_ns() -> u64 {
    // SAFETY: perfmon_tick_ns() has no precondition: it returns a constant.
    unsafe { ffi::perfmon_tick_ns() }
}

/// Starts or restarts this CPU's timer: its next tick is in `ns` nanoseconds.
pub(crate) fn start(_here: ThisCpu<'_>, ns: u64) {
    // SAFETY: perfmon_timer_start() requires timers that are set up, and a caller that stays on the
    // CPU. `_here` proves that the caller stays; and the module sets the timers up when it is
    // loaded, before it counts on any CPU.
    unsafe { ffi::perfmon_timer_start(ns) };
}

/// Stops this CPU's timer, which does not tick after this has returned.
pub(crate) fn stop(_here: ThisCpu<'_>) {
    // SAFETY: perfmon_timer_stop() requires timers that are set up, and a caller that stays on the
    // CPU. `_here` proves that the caller stays; and the module sets the timers up when it is
    // loaded, before it counts on any CPU.
    unsafe { ffi::perfmon_timer_stop() };
}
