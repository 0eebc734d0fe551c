// SPDX-License-Identifier: GPL-2.0-only
//! A counter's 64-bit value on one CPU.

use crate::{
    cpu::{ThisCpu, Word},
    logic::{
        evtsel::EventSelect,
        extend64::{advance, offset, Width},
        plan::Step,
        regs::{Msr, MsrCell},
    },
    msr,
    pmu::Lines,
};

/// The 64-bit value of one counter on one CPU; [`crate::logic::extend64`] tells the arithmetic.
///
/// All that changes a value runs on the value's own CPU: tasks and calls from other CPUs one at a
/// time, by the arbiter's lock, and the overflow handler at any time between two of their
/// instructions. It changes `total`, and `offset` when it reloads the counter. Everybody else changes
/// `total` by a compare-and-exchange, which fails if the handler came between and found something to
/// add; and `offset` only while the counter is not active. `base` is theirs alone.
///
/// ATOMICS: `total` and `offset`, in [`Self::update`], pair with [`Self::overflow`] on the same CPU.
pub(crate) struct Count {
    /// Events since the counter was set up. Never decreases.
    total: Word,
    /// [`offset`] of the hardware counter.
    offset: Word,
    /// Those of the hardware counter's [`Width`].
    mask: Word,
    period: Word,
    /// The total at the last reset: what is shown is what came after.
    base: Word,
    /// What is counted.
    select: Word,
    /// The bits of the counter's control register that are its own, and what they are while it runs and
    /// while it is stopped.
    control: [Word; 3],
    /// The most that can be counted between two looks: [`Width::max_step`].
    most: Word,
    /// The hardware counter, from the first setup on.
    register: MsrCell,
}

/// A step of a counter that is larger than what can have been counted: somebody else has written it.
pub(crate) struct Implausible;

impl Count {
    /// Begins a new value, 0, on a stopped counter that was loaded with `width.load_value()` and is to count
    /// what `select` says.
    pub(crate) fn begin(&self, counter: Msr, width: Width, select: EventSelect) {
        self.total.set(0);
        self.base.set(0);
        self.resume(counter, width, select);
    }

    /// As [`Self::begin`], but continues the value.
    pub(crate) fn resume(&self, counter: Msr, width: Width, select: EventSelect) {
        self.register.set(counter);
        self.select.set(select.stopped());
        self.mask.set(width.mask);
        self.most.set(width.max_step());
        self.period.set(width.period);
        self.offset
            .set(offset(width.load_value(), self.total.get()));
    }

    /// Takes note of what the steps that start and stop the counter make of its control register.
    pub(crate) fn expect(&self, start: &Step, stop: &Step) {
        let [own, running, stopped] = &self.control;
        own.set(!start.keep);
        running.set(start.value);
        stopped.set(stop.value);
    }

    /// Whether a control register that holds `now` lets an active counter count what it should. It may be
    /// stopped already: what an interrupt finds that comes before the counter is taken for inactive.
    #[inline(always)]
    pub(crate) fn is_controlled_by(&self, now: u64) -> bool {
        let [own, running, stopped] = &self.control;
        let now = now & own.get();
        now == running.get() || now == stopped.get()
    }

    /// The hardware counter, if it was ever set up.
    #[inline(always)]
    pub(crate) fn register(&self) -> Option<Msr> {
        self.register.get()
    }

    /// What is counted.
    #[inline]
    pub(crate) fn select(&self) -> EventSelect {
        EventSelect::from_bits(self.select.get())
    }

    #[inline(always)]
    fn width(&self) -> Width {
        Width {
            mask: self.mask.get(),
            period: self.period.get(),
        }
    }

    /// Brings the total up to date with the hardware counter.
    ///
    /// # Errors
    ///
    /// [`Implausible`] if the counter can't have counted so much since the last look.
    #[inline(always)]
    pub(crate) fn update(&self, here: &ThisCpu, counter: Msr) -> Result<(), Implausible> {
        loop {
            let (total, offset) = (self.total.get(), self.offset.get());
            let raw = msr::read(here, counter);
            // A reload before the read would make `raw` one of the new offset. A reload after this
            // line does no harm: either it adds to the total, or what is stored is what it found.
            if self.offset.get() != offset {
                continue;
            }
            let new = advance(total, offset, raw, self.mask.get());
            if self.total.replace(total, new) {
                let counted = new.wrapping_sub(total);
                return if counted > self.most.get() {
                    Err(Implausible)
                } else {
                    Ok(())
                };
            }
        }
    }

    /// Tells loads of the hardware counter apart: another one after each load, unless nothing was counted.
    pub(crate) fn load_id(&self) -> u64 {
        self.offset.get()
    }

    /// As [`Self::update`], for the overflow handler, which nothing interrupts; tells the total.
    #[inline(always)]
    pub(crate) fn update_in_nmi(&self, here: &ThisCpu, counter: Msr) -> u64 {
        let raw = msr::read(here, counter);
        let total = advance(self.total.get(), self.offset.get(), raw, self.mask.get());
        self.total.set(total);
        total
    }

    /// Loads the hardware counter so that it overflows after `events` more, at most the [`Self::period`] of
    /// its width. The total, `total`, is up to date; the counter is not active, or this is the overflow
    /// handler.
    #[inline(always)]
    pub(crate) fn load(&self, here: &ThisCpu, counter: Msr, events: u64, total: u64) {
        self.period.set(events);
        let width = Width {
            mask: self.mask.get(),
            period: events,
        };
        self.put(here, counter, width.load_value(), total);
    }

    /// Writes the hardware counter, whose total, `total`, is up to date.
    ///
    /// What a counter of kernel mode counts between that and this write, a few instructions once in a
    /// period, is lost.
    #[inline(always)]
    fn put(&self, here: &ThisCpu, counter: Msr, value: u64, total: u64) {
        msr::write(here, counter, value);
        self.offset.set(offset(value, total));
    }

    /// Events from loading the counter to its overflow.
    pub(crate) fn period(&self) -> u64 {
        self.period.get()
    }

    /// The total as of the last update, whatever was reset.
    #[inline(always)]
    pub(crate) fn total(&self) -> u64 {
        self.total.get()
    }

    /// Whether the hardware counter has overflowed since it was loaded.
    pub(crate) fn has_overflowed(&self, here: &ThisCpu, counter: Msr) -> bool {
        self.width().has_overflowed(msr::read(here, counter))
    }

    /// Reloads the hardware counter if it has overflowed; true if so. The total is up to date.
    ///
    /// For a counter that is not active.
    pub(crate) fn overflow(&self, here: &ThisCpu, lines: &Lines) -> bool {
        let width = self.width();
        // It is stopped, and so holds what it held when the total was brought up to date.
        let raw = self.offset.get().wrapping_add(self.total()) & width.mask;
        if !width.has_overflowed(raw) {
            return false;
        }
        self.put(here, lines.write, width.reload_value(raw), self.total());
        true
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
