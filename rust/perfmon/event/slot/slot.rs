// SPDX-License-Identifier: GPL-2.0-only
//! A slot: the place of an event in a context.

use super::phase::Phase;
use crate::{
    cpu::{Cycles, ThisCpu},
    event::event::Event,
    logic::{counter::CounterId, evtsel::EventSelect, msr::Msr},
    percpu::{CountBase, EntryIndex, UserPagePtr},
    pmu,
};
use core::ptr::NonNull;
use kernel::cpu::CpuId;

/// The place of an event in a context.
///
/// # Invariants
///
/// The event is alive while the slot is in a context ([`Event`]).
pub(in crate::event) struct Slot {
    event: NonNull<Event>,
    /// The counter's total at the beginning of the window.
    pub(super) start: u64,
    /// The time-stamp counter at the beginning of the window, or of the wait for it.
    pub(super) start_time: u64,
    /// [`Event::select`] as the register has it.
    pub(super) select: u64,
    /// The register to read the counter from.
    pub(super) msr: Msr,
    /// The only CPU to count on, or [`ANY_CPU`].
    cpu: u32,
    /// [`Event::changes`] when the task has executed a program that enables the event; or [`NEVER`].
    pub(super) enabled_at: u64,
    /// The counter that it has; of an event that takes turns, the last one if it waits.
    pub(super) counter: CounterId,
    /// The slot need not wait for a turn.
    pub(super) has_turn: bool,
    /// The slot has been waiting since [`Self::start_time`].
    pub(super) is_waiting: bool,
    /// The slot of the group's leader.
    pub(super) leader: LeaderIndex,
    /// The slot shows in the event's page.
    pub(super) page: Option<UserPagePtr>,
    /// Where the CPU finds the page while it shows that the window is open.
    pub(super) page_entry: Option<EntryIndex>,
    pub(super) phase: Phase,
    /// The count and the time of the windows that are closed.
    counted: EventCount,
    /// The time of the waits that have ended.
    waited: Cycles,
    /// The task has inherited the event.
    inherited: bool,
    /// The window is open.
    pub(super) open: bool,
    enable_on_exec: bool,
}

/// [`Slot::cpu`]: any.
const ANY_CPU: u32 = u32::MAX;
/// [`Slot::enabled_at`]: it has not.
const NEVER: u64 = u64::MAX;

// SAFETY: A slot is used by the holder of its context. The event may be used by any task.
unsafe impl Send for Slot {}

impl Slot {
    /// Returns the first slot of an event, in the group that the slot `leader` leads.
    pub(in crate::event) fn new(event: &Event, cpu: Option<CpuId>, leader: Option<usize>) -> Self {
        event.begin_slot();
        // INVARIANT: Events remove their slots before they are freed.
        Self {
            event: NonNull::from(event),
            start: 0,
            start_time: 0,
            select: event.select.stopped(),
            msr: pmu::common().msrs(event.counter).read,
            cpu: cpu.map_or(ANY_CPU, |cpu| cpu.as_u32()),
            enabled_at: NEVER,
            counter: event.counter,
            has_turn: true,
            is_waiting: false,
            leader: leader.map_or(LeaderIndex::NONE, LeaderIndex::at),
            page: None,
            page_entry: None,
            phase: Phase::new(&event.sampler),
            counted: EventCount::ZERO,
            waited: Cycles(0),
            inherited: false,
            open: false,
            enable_on_exec: event.config.enable_on_exec,
        }
    }

    /// Returns the event.
    #[inline(always)]
    pub(in crate::event) fn event<'a>(&self) -> &'a Event {
        // SAFETY: The event is alive while the slot is in a context, and callers use the reference no longer.
        unsafe { self.event.as_ref() }
    }

    /// Returns whether this is a slot of the event.
    #[inline(always)]
    pub(in crate::event) fn is_of_event(&self, event: &Event) -> bool {
        core::ptr::eq(self.event.as_ptr(), event)
    }

    /// Returns whether the slot counts on the CPU with this number.
    #[inline(always)]
    pub(super) fn counts_on(&self, cpu: u64) -> bool {
        self.cpu == ANY_CPU || u64::from(self.cpu) == cpu
    }

    /// Returns whether this slot may count at the same time as another one of the context, on `cpu` only or on any.
    pub(super) fn overlaps(&self, cpu: Option<CpuId>) -> bool {
        cpu.is_none_or(|cpu| self.counts_on(cpu.as_u32().into()))
    }

    /// Returns whether the event is enabled; its group's leader may not be.
    #[inline(always)]
    pub(super) fn is_enabled(&self) -> bool {
        self.event().state().is_enabled(self.enabled_at)
    }

    /// Returns the page that it shows in.
    pub(in crate::event) fn page(&self) -> Option<UserPagePtr> {
        self.page
    }

    /// Returns whether the window is open.
    pub(in crate::event) fn is_open(&self) -> bool {
        self.open
    }

    /// Returns the event's count less the counter's total, while the window is open.
    pub(in crate::event) fn base(&self) -> u64 {
        self.event().count().wrapping_sub(self.start)
    }

    /// Moves the beginning of the window.
    pub(in crate::event) fn start_at(&mut self, total: u64) {
        self.start = total;
    }

    /// Returns the counter.
    pub(in crate::event) fn counter(&self) -> CounterId {
        self.counter
    }

    /// Returns what the counter is to count.
    pub(super) fn event_select(&self) -> EventSelect {
        self.event().config.select_on(self.counter)
    }

    /// Returns the slot for a new task that inherits the event, whose group leader there has the index `leader`.
    pub(super) fn inherited(&self, leader: Option<usize>) -> Self {
        let event = self.event();
        event.begin_slot();
        // INVARIANT: The event is alive.
        Self {
            event: self.event,
            start: 0,
            start_time: 0,
            page: None,
            page_entry: None,
            phase: Phase::new(&event.sampler),
            counted: EventCount::ZERO,
            waited: Cycles(0),
            inherited: true,
            open: false,
            is_waiting: false,
            leader: leader.map_or(LeaderIndex::NONE, LeaderIndex::at),
            ..*self
        }
    }

    /// Enables the slot, because the task has executed a program, if the event wants that.
    pub(in crate::event) fn enable_on_exec(&mut self) {
        if self.enable_on_exec {
            self.enable_on_exec = false;
            self.event().sampler.notifier.lift_spent_limit();
            self.enabled_at = self.event().state().changes();
        }
    }

    /// Ends the slot, whose window is closed.
    pub(super) fn end(&self) {
        self.phase.end(&self.event().sampler);
        self.event().end_slot();
    }

    /// Adds what the window has counted up to now, when the counter's total is `total`.
    #[inline(always)]
    pub(super) fn add(&mut self, total: u64, now: u64) {
        let count = total.wrapping_sub(self.start);
        let time = now.wrapping_sub(self.start_time);
        self.counted.count = self.counted.count.wrapping_add(count);
        self.counted.time.0 = self.counted.time.0.wrapping_add(time);
        self.event().add(count, time);
    }

    /// Begins to wait for a turn.
    pub(super) fn begin_wait(&mut self, now: u64) {
        self.start_time = now;
        self.is_waiting = true;
    }

    /// Ends the wait, if there is one.
    pub(super) fn end_wait(&mut self, now: u64) {
        if core::mem::take(&mut self.is_waiting) {
            let time = now.wrapping_sub(self.start_time);
            self.waited.0 = self.waited.0.wrapping_add(time);
            self.event().add_wait(time);
        }
    }

    /// Returns what the closed windows of this task have counted. If the event is not inherited, that is all it has.
    pub(in crate::event) fn counted(&self) -> EventCount {
        if self.event().config.inherit {
            self.counted
        } else {
            EventCount::closed(self.event())
        }
    }

    /// Returns the time in which [`Self::counted`] was enabled.
    pub(in crate::event) fn enabled_time(&self) -> Cycles {
        if self.event().config.inherit {
            self.counted.time.plus(self.waited)
        } else {
            self.event().enabled_time()
        }
    }

    /// Returns what samples need to show the count.
    pub(in crate::event) fn count_base(&self) -> CountBase {
        let EventCount { count, time } = self.counted();
        let (start, start_time) = if self.open {
            (self.start, self.start_time)
        } else {
            (0, 0)
        };
        CountBase {
            count: count.wrapping_sub(start),
            time: time.0.wrapping_sub(start_time),
            is_open: self.open,
        }
    }

    /// Returns whether the event is sampled.
    pub(in crate::event) fn is_sampled(&self) -> bool {
        self.phase.period != 0
    }

    /// Returns whether the branches of samples are calls that have not returned ([`Event::records_calls`]).
    pub(in crate::event) fn records_calls(&self) -> bool {
        self.is_sampled() && self.event().records_calls()
    }

    /// Returns whether a record of the count is wanted when the task ends.
    pub(in crate::event) fn wants_read_record(&self) -> bool {
        self.inherited && self.event().sampler.sampling.read_at_exit
    }
}

/// The count of an event, and the time in which it was counted.
#[derive(Clone, Copy)]
pub(in crate::event) struct EventCount {
    pub(in crate::event) count: u64,
    pub(in crate::event) time: Cycles,
}

impl EventCount {
    const ZERO: Self = Self {
        count: 0,
        time: Cycles(0),
    };

    /// Returns what the windows of an event have counted that are closed.
    pub(in crate::event) fn closed(event: &Event) -> Self {
        Self {
            count: event.count(),
            time: event.time(),
        }
    }

    /// Returns what an event that is not inherited has counted up to now, where it has its slot. The window stays
    /// open. `None` if there is no count, the counter was tampered with, or the event takes turns: its waits have to
    /// be known, too, so its windows are to be closed.
    #[inline(always)]
    pub(in crate::event) fn read_here(here: ThisCpu<'_>, slot: &Slot, now: u64) -> Option<Self> {
        if slot.event().needs_slow_read() {
            return Self::read_slowly(here, slot, now);
        }
        Self::read_usual(here, slot, now)
    }

    /// As [`Self::read_here`], of an event that the processor samples: after its samples have been taken.
    #[cold]
    #[inline(never)]
    fn read_slowly(here: ThisCpu<'_>, slot: &Slot, now: u64) -> Option<Self> {
        if slot.event().is_broken() || slot.event().config.takes_turns {
            return None;
        }
        here.pmu()
            .with_samples_taken(here, || Self::read_usual(here, slot, now))
    }

    #[inline(always)]
    fn read_usual(here: ThisCpu<'_>, slot: &Slot, now: u64) -> Option<Self> {
        let mut count = Self::closed(slot.event());
        if slot.open {
            if !slot.counter.is_none() {
                let percpu = here.percpu();
                let total = percpu.value(slot.counter).read(here, slot.msr).ok()?;
                if pmu::may_be_tampered(here) && pmu::tampered(here) & slot.counter.bit() != 0 {
                    return None;
                }
                count.count = count.count.wrapping_add(total.wrapping_sub(slot.start));
            }
            let time = now.wrapping_sub(slot.start_time);
            count.time = Cycles(count.time.0.wrapping_add(time));
        }
        Some(count)
    }
}

/// The index of the group leader's slot, in the same context; or none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct LeaderIndex(u32);

impl LeaderIndex {
    /// The slot has no leader, or leads itself.
    pub(super) const NONE: Self = Self(u32::MAX);

    /// Returns the leader at an index.
    pub(super) fn at(index: usize) -> Self {
        // There are far fewer slots.
        Self(index as u32)
    }

    /// Returns the index.
    #[inline(always)]
    pub(super) fn index(self) -> Option<usize> {
        (self != Self::NONE).then_some(self.0 as usize)
    }

    /// Returns the leader when the slot at `removed` has gone, and those behind it have moved by one.
    pub(super) fn after_removal(self, removed: usize) -> Self {
        match self.index() {
            Some(index) if index > removed => Self::at(index - 1),
            Some(index) if index == removed => Self::NONE,
            _ => self,
        }
    }
}
