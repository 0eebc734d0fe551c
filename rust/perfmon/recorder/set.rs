// SPDX-License-Identifier: GPL-2.0-only
//! What the overflow handler writes at one interrupt: TIME, a tick of each counter that is due, and what
//! follows the ticks.
//!
//! Everything here that is done at each sample is inlined into the overflow handler, and what is rare is
//! kept out of its way. Sums wrap, since nothing in an NMI may panic.

use super::{time, Event, Recorder, REFUSED, TICKED};
use crate::{
    abi,
    buffer::Writer,
    cpu::{self, Regs, ThisCpu},
    logic::counter::{each, CounterId},
    pmu::{lbr, Model},
};

/// What is written at one interrupt: nothing, before a counter is due.
pub(crate) struct Set<'a> {
    recorder: &'a Recorder,
    regs: Regs<'a>,
    /// The time of the interrupt.
    now: u64,
    /// [`Event::mark`] of those that have ticked, and bits of those that should have done so again; or
    /// [`REFUSED`].
    marks: u64,
}

impl<'a> Set<'a> {
    /// Nothing yet, of what `recorder` may find in an interrupt that came at `regs`, at the time `now`.
    #[inline(always)]
    pub(crate) fn new(recorder: &'a Recorder, regs: Regs<'a>, now: u64) -> Self {
        Self {
            recorder,
            regs,
            now,
            marks: 0,
        }
    }

    /// Serves a counter that has overflowed, and has counted `total`: tells after how many events it is to
    /// overflow again.
    #[inline(always)]
    pub(crate) fn serve(&mut self, counter: CounterId, event: &Event, total: u64) -> u64 {
        let (rate, recorded) = (event.rate.get(), event.recorded.get());
        let since = total.wrapping_sub(recorded);
        if since < rate {
            return event.to_load(rate.wrapping_sub(since));
        }
        let recorder = self.recorder;
        if recorder.end.get() > recorder.limit.get() {
            self.marks |= REFUSED;
            return event.longest.get();
        }
        self.tick(event);
        event.recorded.set(recorded.wrapping_add(rate));
        self.marks |= event.mark.get();
        let since = since.wrapping_sub(rate);
        let left = if since < rate {
            rate.wrapping_sub(since)
        } else {
            // So late that it should have ticked again.
            self.marks |= counter.bit();
            left_of_late(rate, since)
        };
        event.to_load(left)
    }

    /// Writes a TICK or PC record.
    #[inline(always)]
    fn tick(&self, event: &Event) {
        let recorder = self.recorder;
        // SAFETY: Only what a trace records ticks, there is room (`limit`), and this CPU's handler is the
        // writer.
        let mut writer = unsafe { Writer::new(recorder.buffer(), recorder.next.get() as usize) };
        // Its parts, one after the other, for it is the shorter code.
        let header = event.tick();
        writer.put(header);
        if header.to_le_bytes()[0] == abi::PERFMON_RECORD_PC as u8 {
            let (aspace, pc) = recorder.place(self.regs);
            writer.put(aspace);
            writer.put(pc);
        }
        recorder.next.set(writer.end() as u64);
    }

    /// Lets programs see the set, if there is one.
    #[inline(always)]
    pub(crate) fn end(self, here: &ThisCpu, model: &Model) {
        let recorder = self.recorder;
        if self.marks & TICKED == 0 {
            if self.marks != 0 {
                recorder.refuse(here, model);
            }
            return;
        }
        // SAFETY: As in `tick`, where room was left for this.
        unsafe { Writer::new(recorder.buffer(), recorder.end.get() as usize) }.put(time(self.now));
        if self.marks != TICKED {
            follow(here, model, self.marks);
        }
        let end = recorder.next.get();
        recorder.end_at(end);
        // SAFETY: As above.
        unsafe { recorder.buffer().publish(end as usize) };
    }
}

/// Events to the next tick of a counter that has counted `since` since the last, its rate or more.
#[cold]
fn left_of_late(rate: u64, since: u64) -> u64 {
    // The rate is not 0: it ticks.
    rate.wrapping_sub(since.checked_rem(rate).unwrap_or(0))
}

/// Writes what comes after the ticks of the counters `ticked`.
#[inline(never)]
fn follow(here: &ThisCpu, model: &Model, ticked: u64) {
    let slot = here.slot();
    let recorder = &slot.recorder;
    // SAFETY: As in `Set::tick`.
    let mut writer = unsafe { Writer::new(recorder.buffer(), recorder.next.get() as usize) };
    for counter in each(ticked) {
        let event = slot.event(counter);
        let since = slot
            .count(counter)
            .total()
            .wrapping_sub(event.recorded.get());
        if since >= event.rate.get() {
            writer.put(event.surplus(since));
        }
    }
    if ticked & recorder.timebase.get() != 0 {
        for counter in each(recorder.dependents.get()) {
            let total = slot
                .count(counter)
                .update_in_nmi(here, model.lines(counter).read);
            writer.put(slot.event(counter).count(total));
        }
    }
    if let Some(counter) = each(ticked & recorder.branching.get()).next() {
        let header = slot.event(counter).header(abi::PERFMON_RECORD_LAST_BRANCH);
        let aspace = cpu::cr3() & recorder.aspace.get();
        writer = lbr::write(here, model, writer, header, aspace);
    }
    recorder.next.set(writer.end() as u64);
}
