// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's reservation of counters, by which Linux perf and this module keep off each other's counters.

use crate::{
    logic::{counter::general_count, cpuid::Capabilities, msr::Msr, pmu::Pmu, regs::Registers},
    sys::ffi,
};
use kernel::prelude::*;

/// The reservation of all general counters.
///
/// perf reserves all general counters with its first hardware event, and so does the module with its first owner.
/// Fixed-function counters can't be reserved: they belong to the owner of the general counters.
///
/// # Invariants
///
/// The first `counters` counters and `selects` event selects of `registers` are reserved for the module.
pub(crate) struct Reservation {
    registers: Registers,
    counters: u8,
    selects: u8,
}

impl Reservation {
    /// Reserves all general counters, including counters that only some kinds of cores have.
    ///
    /// # Errors
    ///
    /// A register that perf has reserved.
    pub(crate) fn of(pmu: &Pmu) -> Result<Self, Msr> {
        Self::new(pmu.registers, general_count(pmu.all_counters()))
    }

    /// Reserves the first `count` general counters.
    ///
    /// # Errors
    ///
    /// A register that perf has reserved.
    pub(crate) fn new(registers: Registers, count: u8) -> Result<Self, Msr> {
        // INVARIANT: No register is reserved yet, and each is counted when it is reserved. On an error, dropping `this`
        // releases the registers that were counted.
        let mut this = Self {
            registers,
            counters: 0,
            selects: 0,
        };
        for n in 0..count {
            let (counter, select) = (this.registers.counter_msr(n), this.registers.select_msr(n));
            // SAFETY: The function takes any number of an MSR: it has no preconditions.
            if !unsafe { ffi::perfmon_reserve_counter(counter.number()) } {
                return Err(counter);
            }
            this.counters += 1;
            // SAFETY: The function takes any number of an MSR: it has no preconditions.
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
    /// perf reserves the registers by the numbers that it uses. From version 6 on, perf's numbers
    /// are not the numbers that the module uses. A kernel whose reservations do not know perf's
    /// numbers grants each reservation of such a number, even a second one.
    pub(crate) fn excludes_perf(capabilities: &Capabilities) -> bool {
        if !capabilities.has_aliases() {
            return true;
        }
        let select = Registers::new(capabilities).perf_select_msr(0).number();
        // SAFETY: The function takes any number of an MSR: it has no preconditions.
        if !unsafe { ffi::perfmon_reserve_select(select) } {
            // perf has reserved the register, so reservations work.
            return true;
        }
        // SAFETY: The function takes any number of an MSR: it has no preconditions.
        let is_granted_twice = unsafe { ffi::perfmon_reserve_select(select) };
        // SAFETY: The function requires a register that its caller has reserved: the first call above did that.
        unsafe { ffi::perfmon_release_select(select) };
        !is_granted_twice
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        for n in 0..self.selects {
            // SAFETY: The function requires a register that its caller has reserved: by the type invariant the first
            // `selects` event selects are.
            unsafe { ffi::perfmon_release_select(self.registers.select_msr(n).number()) };
        }
        for n in 0..self.counters {
            // SAFETY: The function requires a register that its caller has reserved: by the type invariant the first
            // `counters` counters are.
            unsafe { ffi::perfmon_release_counter(self.registers.counter_msr(n).number()) };
        }
    }
}
