// SPDX-License-Identifier: GPL-2.0-only
//! What keeps Linux perf and this module apart.

use crate::{
    ffi,
    logic::regs::{Msr, Registers},
    pmu::Model,
};
use kernel::prelude::*;

/// The reservation of all general counters, by which Linux perf keeps off.
///
/// perf takes all of them with its first hardware event, or none, so we do the same. It knows no
/// reservation of the fixed-function counters: whoever has the general ones has those too.
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
    /// Takes all, or else says which register is not free.
    pub(crate) fn new(model: &Model) -> Result<Self, Msr> {
        // INVARIANT: Nothing is reserved yet, and what is, is counted at once. On an error, dropping
        // `this` gives back as many.
        let mut this = Self {
            registers: model.registers,
            counters: 0,
            selects: 0,
        };
        for n in 0..model.capabilities.general {
            let (counter, select) = (this.registers.counter_msr(n), this.registers.select_msr(n));
            // SAFETY: Always callable.
            if !unsafe { ffi::perfmon_reserve_counter(counter.number()) } {
                return Err(counter);
            }
            this.counters += 1;
            // SAFETY: Always callable.
            if !unsafe { ffi::perfmon_reserve_select(select.number()) } {
                return Err(select);
            }
            this.selects += 1;
        }
        Ok(this)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        for n in 0..self.selects {
            // SAFETY: By the type invariant it is ours.
            unsafe { ffi::perfmon_release_select(self.registers.select_msr(n).number()) };
        }
        for n in 0..self.counters {
            // SAFETY: By the type invariant it is ours.
            unsafe { ffi::perfmon_release_counter(self.registers.counter_msr(n).number()) };
        }
    }
}
