// SPDX-License-Identifier: GPL-2.0-only
//! The records of one overflow interrupt.
//!
//! This is the path that every sample takes: it is inlined into the overflow handler, and what is rare is
//! kept out of its way. Sums wrap, since nothing in an NMI may panic.

use super::{time, Recorder};
use crate::{
    abi,
    buffer::Writer,
    count::Count,
    cpu::{self, Regs, ThisCpu},
    logic::counter::{each, CounterId},
    pmu::{lbr, Lines, Model},
};

/// What is written at one interrupt: nothing, before a counter is due.
pub(crate) struct Set<'a> {
    recorder: &'a Recorder,
    regs: Regs<'a>,
    open: Option<Open>,
    /// Whether there was no room for it.
    full: bool,
    /// Bits of the counters that have ticked.
    due: u64,
    /// Bits of those that came so late that they should have ticked again.
    behind: u64,
}

/// A set that has a TIME record.
struct Open {
    writer: Writer,
    aspace: u64,
    pc: u64,
}

impl<'a> Set<'a> {
    /// Nothing yet, of what `recorder` may find in an interrupt that came at `regs`.
    #[inline(always)]
    pub(crate) fn new(recorder: &'a Recorder, regs: Regs<'a>) -> Self {
        Self {
            recorder,
            regs,
            open: None,
            full: false,
            due: 0,
            behind: 0,
        }
    }

    /// Serves a counter of the trace that has overflowed.
    #[inline(always)]
    pub(crate) fn serve(
        &mut self,
        here: &ThisCpu,
        counter: CounterId,
        count: &Count,
        lines: &Lines,
    ) {
        let event = &self.recorder.events[counter.index()];
        let (rate, recorded) = (event.rate.get(), event.recorded.get());
        let since = count.update_in_nmi(here, lines.read).wrapping_sub(recorded);
        let mut left = rate.wrapping_sub(since);
        if since >= rate {
            left = event.longest.get();
            if let Some(open) = self.open() {
                open.tick(event.tick());
                event.recorded.set(recorded.wrapping_add(rate));
                self.due |= counter.bit();
                left = rate.wrapping_sub(since.wrapping_sub(rate));
                if since.wrapping_sub(rate) >= rate {
                    self.behind |= counter.bit();
                    left = left_of_late(rate, since);
                }
            }
        }
        count.load(here, lines.write, left.min(event.longest.get()));
    }

    /// The set, begun if it was not; `None` if nothing is to be written.
    #[inline(always)]
    fn open(&mut self) -> Option<&mut Open> {
        if self.open.is_none() {
            let recorder = self.recorder;
            if recorder.throttled.get() != 0 {
                return None;
            }
            if recorder.end.get() > recorder.last.get() {
                self.full = true;
                return None;
            }
            let interrupts = recorder.interrupts.get().wrapping_add(1);
            recorder.interrupts.set(interrupts);
            if interrupts > recorder.max_interrupts.get() {
                recorder.suspend();
                return None;
            }
            // SAFETY: The trace is recorded, there is room (`last`), and this CPU's handler is the writer.
            let mut writer = unsafe { Writer::new(recorder.buffer(), recorder.end.get() as usize) };
            writer.put(time());
            let (aspace, pc) = if recorder.reveal.get() != 0 {
                (cpu::address_space(), self.regs.ip())
            } else if self.regs.is_user() {
                (0, self.regs.ip())
            } else {
                // The interrupt came late, in the kernel.
                (0, 0)
            };
            self.open = Some(Open { writer, aspace, pc });
        }
        self.open.as_mut()
    }

    /// Lets programs see the set, if there is one.
    #[inline(always)]
    pub(crate) fn end(self, here: &ThisCpu, model: &Model) {
        let recorder = self.recorder;
        if let Some(open) = self.open {
            let end = if self.behind | self.due & recorder.followed.get() != 0 {
                open.rest(here, model, recorder, self.due, self.behind)
            } else {
                open.writer.end()
            };
            recorder.end.set(end as u64);
            // SAFETY: As where it was begun.
            unsafe { recorder.buffer().publish(end) };
        }
        if self.full {
            recorder.stop_for_good(here, model);
        }
    }
}

/// Events to the next tick of a counter that has counted `since` since the one before the last, more than
/// twice its rate.
#[cold]
fn left_of_late(rate: u64, since: u64) -> u64 {
    // The rate is not 0: it ticks.
    rate.wrapping_sub(since.checked_rem(rate).unwrap_or(0))
}

impl Open {
    /// Writes a TICK or PC record: its parts, one after the other, for it is the shorter code.
    #[inline(always)]
    fn tick(&mut self, header: u32) {
        self.writer.put(header);
        if header.to_le_bytes()[0] == abi::PERFMON_RECORD_PC as u8 {
            self.writer.put(self.aspace);
            self.writer.put(self.pc);
        }
    }

    /// Writes what comes after the ticks, and tells where that ends.
    #[inline(never)]
    fn rest(
        mut self,
        here: &ThisCpu,
        model: &Model,
        recorder: &Recorder,
        due: u64,
        behind: u64,
    ) -> usize {
        let counts = &here.slot().counts;
        for counter in each(behind) {
            let event = &recorder.events[counter.index()];
            let total = counts[counter.index()].total();
            let since = total.wrapping_sub(event.recorded.get());
            let whole = since.wrapping_sub(since.checked_rem(event.rate.get()).unwrap_or(0));
            self.writer
                .put(event.count(event.recorded.get().wrapping_add(whole)));
        }
        if due & recorder.timebase.get() != 0 {
            for counter in each(recorder.dependents.get()) {
                let total = counts[counter.index()].update_in_nmi(here, model.lines(counter).read);
                self.writer
                    .put(recorder.events[counter.index()].count(total));
            }
        }
        if let Some(counter) = each(due & recorder.branching.get()).next() {
            let header = recorder.events[counter.index()].header(abi::PERFMON_RECORD_LAST_BRANCH);
            return lbr::write(here, &recorder.lbr, self.writer, header, self.aspace).end();
        }
        self.writer.end()
    }
}
