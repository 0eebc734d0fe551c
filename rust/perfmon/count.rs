// SPDX-License-Identifier: GPL-2.0-only
//! A counter's 64-bit value on one CPU.

use crate::{
    cpu::{ThisCpu, Word},
    logic::{
        count::{advance, offset, Width},
        regs::Msr,
    },
    msr,
};

/// The 64-bit value of one counter on one CPU; [`crate::logic::count`] tells the arithmetic.
///
/// All that changes a value runs on the value's own CPU: tasks and calls from other CPUs one at a
/// time, by the arbiter's lock, and the overflow handler at any time between two of their
/// instructions. It changes `total`, and `offset` when it reloads the counter. Everybody else changes
/// `total` by a compare-and-exchange, which fails if the handler came between and found something to
/// add.
///
/// ATOMICS: `total` and `offset`, in [`Self::update`], pair with the overflow handler on the same CPU.
pub(crate) struct Count {
    /// Events since the counter was set up. Never decreases.
    total: Word,
    /// [`offset`] of the hardware counter.
    offset: Word,
    /// [`Width::mask`] of the hardware counter.
    mask: Word,
    /// The total at the last reset: what is shown is what came after.
    base: Word,
}

impl Count {
    /// Begins a new value, 0, on a stopped counter that was loaded with `width.start()`.
    pub(crate) fn begin(&self, width: Width) {
        self.mask.set(width.mask());
        self.offset.set(offset(width.start(), 0));
        self.total.set(0);
        self.base.set(0);
    }

    /// Continues the value on a counter that was loaded anew and is stopped.
    pub(crate) fn resume(&self, width: Width) {
        self.mask.set(width.mask());
        self.offset.set(offset(width.start(), self.total.get()));
    }

    /// Brings the total up to date with the hardware counter.
    #[inline(always)]
    pub(crate) fn update(&self, here: &ThisCpu, counter: Msr) {
        loop {
            let (total, offset) = (self.total.get(), self.offset.get());
            let raw = msr::read(here, counter);
            // A reload before the read would make `raw` one of the new offset. A reload after this
            // line does no harm: either it adds to the total, or what is stored is what it found.
            if self.offset.get() != offset {
                continue;
            }
            if self
                .total
                .replace(total, advance(total, offset, raw, self.mask.get()))
            {
                return;
            }
        }
    }

    /// Makes the value 0 as of the last update.
    pub(crate) fn reset(&self) {
        self.base.set(self.total.get());
    }

    /// The value as of the last update.
    #[inline(always)]
    pub(crate) fn value(&self) -> u64 {
        self.total.get().wrapping_sub(self.base.get())
    }
}
