// SPDX-License-Identifier: GPL-2.0-only
//! The reservation that keeps Linux perf and this module apart.

use crate::{
    logic::{cpuid::Capabilities, msr::Msr, regs::Registers},
    sys::ffi,
};
use kernel::prelude::*;

/// The reservation of all general counters.
///
/// perf reserves all of them with its first hardware event, and so does the module. There is no reservation of
/// fixed-function counters: the owner of the general ones owns those too.
///
/// # Invariants
///
/// The first `counters` counters and `selects` event selects of `registers` are reserved for us.
pub(crate) struct Reservation {
    registers: Registers,
    counters: u8,
    selects: u8,
}

impl Reservation {
    /// Reserves all general counters.
    ///
    /// # Errors
    ///
    /// A register that is not free.
    pub(crate) fn new(capabilities: &Capabilities) -> Result<Self, Msr> {
        // INVARIANT: Nothing is reserved yet; each register is counted as soon as it is. On an error, dropping
        // `this` releases as many.
        let mut this = Self {
            registers: Registers::new(capabilities),
            counters: 0,
            selects: 0,
        };
        for n in 0..capabilities.general {
            let (counter, select) = (this.registers.counter_msr(n), this.registers.select_msr(n));
            // SAFETY: The function has no preconditions.
            if !unsafe { ffi::perfmon_reserve_counter(counter.number()) } {
                return Err(counter);
            }
            this.counters += 1;
            // SAFETY: The function has no preconditions.
            if !unsafe { ffi::perfmon_reserve_select(select.number()) } {
                return Err(select);
            }
            this.selects += 1;
        }
        Ok(this)
    }
}

impl Reservation {
    /// Returns whether a reservation keeps Linux perf off the counters.
    ///
    /// perf reserves the registers by the numbers that it uses. From version 6 on these are others than ours, and a kernel
    /// that does not know them reserves them for all that ask.
    pub(crate) fn excludes_perf(capabilities: &Capabilities) -> bool {
        if !capabilities.has_aliases() {
            return true;
        }
        let select = Registers::new(capabilities).perf_select_msr(0).number();
        // SAFETY: The function has no preconditions.
        if !unsafe { ffi::perfmon_reserve_select(select) } {
            // perf has it.
            return true;
        }
        // SAFETY: The function has no preconditions.
        let again = unsafe { ffi::perfmon_reserve_select(select) };
        // SAFETY: The register is reserved for us.
        unsafe { ffi::perfmon_release_select(select) };
        !again
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        for n in 0..self.selects {
            // SAFETY: By the type invariant the register is reserved for us.
            unsafe { ffi::perfmon_release_select(self.registers.select_msr(n).number()) };
        }
        for n in 0..self.counters {
            // SAFETY: By the type invariant the register is reserved for us.
            unsafe { ffi::perfmon_release_counter(self.registers.counter_msr(n).number()) };
        }
    }
}
