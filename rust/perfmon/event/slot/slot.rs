// SPDX-License-Identifier: GPL-2.0-only
//! A slot: an event in a context, with its window and its count there.

use super::phase::Phase;
use crate::{
    cpu::{Cycles, ThisCpu},
    event::event::Event,
    logic::{
        core_kinds::CoreKind, counter::CounterId, event_state::Changes, evtsel::EventSelect,
        msr::Msr,
    },
    percpu::{CountBase, EntryIndex, UserPagePtr},
    pmu,
};
use core::{mem::size_of, ptr::NonNull};
use kernel::cpu::CpuId;

/// An event in a context: its counter, its window, the count of its windows, and its position
/// between two samples.
///
/// # Invariants
///
/// The event is alive while the slot is in a context ([`Event`]).
pub(in crate::event) struct Slot {
    event: NonNull<Event>,
    /// The counter's total when the window was opened.
    pub(super) start_total: u64,
    /// The time when the window was opened, or when the wait began, in TSC cycles.
    pub(super) start_time: u64,
    /// The event select for [`Self::counter`], as the register's value while stopped, with
    /// [`EventSelect::EXTRA_REGISTER`] if the event needs an extra register. An event select that differs between kinds of
    /// cores is set when a window is opened ([`Self::prepare_for_kind`]).
    pub(super) select: u64,
    /// The register to read [`Self::counter`] from.
    pub(super) msr: Msr,
    /// The number of the only CPU to count on, or [`ANY_CPU`].
    cpu: u32,
    /// The number of changes of the event's state when an exec of this task enabled the slot, or [`Changes::NEVER`].
    enabled_at: Changes,
    /// The counter that the slot has. A slot that waits for its turn keeps the counter that it had last.
    pub(super) counter: CounterId,
    /// The slot has a turn, or needs no turn, so its window may open.
    pub(super) has_turn: bool,
    /// The slot has been waiting since [`Self::start_time`].
    pub(super) is_waiting: bool,
    /// The index of the slot of the group's leader.
    pub(super) leader: LeaderIndex,
    /// The page of the event, if this slot shows its window there.
    pub(super) page: Option<UserPagePtr>,
    /// The entry in the CPU's table of pages, while the page shows an open window.
    pub(super) page_entry: Option<EntryIndex>,
    /// The position of the slot between two samples.
    pub(super) phase: Phase,
    /// The suspension whose THROTTLE record was written last, as `suspension()` of the CPU's
    /// samplers returns it; 0 if there is none. If windows open and close often during a
    /// suspension, the records THROTTLE and UNTHROTTLE are written for only one of these windows.
    pub(super) recorded_suspension: u32,
    /// The count and the time of the slot's closed windows.
    closed_windows_count: EventCount,
    /// The time of the slot's waits that have ended.
    waited_time: Cycles,
    /// The slot was made for a task that inherited the event.
    is_inherited: bool,
    /// The window is open on this CPU.
    pub(super) is_open: bool,
    /// The next exec of the task enables the slot.
    enable_on_exec: bool,
}

// A context switch goes through the slots, and multiplies by their size.
const _: () = assert!(size_of::<Slot>() == 128);

/// Value of [`Slot::cpu`]: the slot counts on all CPUs.
const ANY_CPU: u32 = u32::MAX;

// SAFETY: `Send` requires that any task may use and drop the value: it has plain values, a `UserPagePtr`, which is
// `Send`, and a pointer to an event, which any task may use, since an `Event` is `Sync`.
unsafe impl Send for Slot {}

impl Slot {
    /// Returns a slot for a new event. `leader` is the index of the slot that leads its group.
    pub(in crate::event) fn new(event: &Event, cpu: Option<CpuId>, leader: Option<usize>) -> Self {
        event.count_slot();
        // INVARIANT: The event is alive: all its slots are removed before it is freed.
        Self {
            event: NonNull::from(event),
            start_total: 0,
            start_time: 0,
            select: event.select().stopped(),
            msr: pmu::common().msrs(event.counter()).read,
            cpu: cpu.map_or(ANY_CPU, |cpu| cpu.as_u32()),
            enabled_at: Changes::NEVER,
            counter: event.counter(),
            has_turn: true,
            is_waiting: false,
            leader: leader.map_or(LeaderIndex::NONE, LeaderIndex::new),
            page: None,
            page_entry: None,
            phase: Phase::new(&event.sampler),
            recorded_suspension: 0,
            closed_windows_count: EventCount::ZERO,
            waited_time: Cycles(0),
            is_inherited: false,
            is_open: false,
            enable_on_exec: event.config.enable_on_exec,
        }
    }

    /// Returns the event.
    #[inline(always)]
    pub(in crate::event) fn event<'a>(&self) -> &'a Event {
        // SAFETY: `as_ref` requires an event that is alive: by the invariant of `Slot` the event is
        // alive while the slot is in a context, and callers hold the context as long as they use
        // the reference.
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

    /// Returns whether this slot may count at the same time as another slot of the context, which counts on `cpu`, or
    /// on all CPUs if that is `None`.
    pub(super) fn overlaps(&self, cpu: Option<CpuId>) -> bool {
        cpu.is_none_or(|cpu| self.counts_on(cpu.as_u32().into()))
    }

    /// Returns whether the event is enabled for this slot, without regard to the leader of its
    /// group.
    #[inline(always)]
    pub(super) fn is_enabled(&self) -> bool {
        self.event().state().is_enabled(self.enabled_at)
    }

    /// Returns whether the siblings in the group that the slot leads may count. From the close of
    /// the leader on they count alone: the program that closes it may be preempted before it has
    /// removed this slot.
    #[inline(always)]
    pub(super) fn lets_siblings_count(&self) -> bool {
        self.event().state().lets_siblings_count(self.enabled_at)
    }

    /// Returns the event's page, if the slot shows its window there.
    pub(in crate::event) fn page(&self) -> Option<UserPagePtr> {
        self.page
    }

    /// Returns whether the window is open.
    pub(in crate::event) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns whether the slot is enabled on this CPU: its window is open, or it waits for its turn, or for a CPU that
    /// counts the event.
    pub(super) fn is_enabled_here(&self) -> bool {
        self.is_open || self.is_waiting
    }

    /// Returns the difference of the event's count and the counter's total, while the window is open.
    pub(in crate::event) fn count_offset(&self) -> u64 {
        self.event().count().wrapping_sub(self.start_total)
    }

    /// Sets the counter's total at the beginning of the window.
    pub(in crate::event) fn set_start_total(&mut self, total: u64) {
        self.start_total = total;
    }

    /// Returns the counter that the slot has, or had last.
    pub(in crate::event) fn counter(&self) -> CounterId {
        self.counter
    }

    /// Returns the event select for the slot's counter on a kind of core, or `None` if that kind does not count the
    /// event.
    pub(super) fn event_select(&self, kind: CoreKind) -> Option<EventSelect> {
        self.event().config.select_on_kind(self.counter, kind)
    }

    /// Prepares the slot for a window on a kind of core. Returns whether that kind counts the event.
    pub(super) fn prepare_for_kind(&mut self, kind: CoreKind) -> bool {
        let select = self.event_select(kind);
        self.select = select.map_or(self.select, EventSelect::stopped);
        select.is_some()
    }

    /// Returns whether the event has moved to another counter, and the slot still has the old one. The slots of an event
    /// that takes turns choose among its counters themselves.
    pub(in crate::event) fn has_other_counter(&self) -> bool {
        let event = self.event();
        !event.config.takes_turns && self.counter != event.counter()
    }

    /// Gives the slot, whose window must be closed, the event's present counter.
    pub(in crate::event) fn update_counter(&mut self) {
        if self.has_other_counter() {
            let event = self.event();
            self.set_counter(event.counter());
            self.select = event.config.select_on(self.counter).stopped();
        }
    }

    /// Gives the slot, whose window must be closed, a counter.
    pub(super) fn set_counter(&mut self, counter: CounterId) {
        self.counter = counter;
        self.msr = pmu::common().msrs(counter).read;
    }

    /// Returns the slot for a new task that inherits the event. `leader` is the index of the group leader's slot in
    /// the new task's context.
    pub(super) fn inherited_slot(&self, leader: Option<usize>) -> Self {
        let event = self.event();
        event.count_slot();
        // INVARIANT: The event is alive, since `self` is a slot of it. The event is freed only after the new slot has been
        // removed, too.
        Self {
            event: self.event,
            start_total: 0,
            start_time: 0,
            page: None,
            page_entry: None,
            phase: Phase::new(&event.sampler),
            recorded_suspension: 0,
            closed_windows_count: EventCount::ZERO,
            waited_time: Cycles(0),
            is_inherited: true,
            is_open: false,
            is_waiting: false,
            leader: leader.map_or(LeaderIndex::NONE, LeaderIndex::new),
            ..*self
        }
    }

    /// Enables the slot at the first exec of its task, if the event was opened with `enable_on_exec`.
    pub(in crate::event) fn enable_on_exec(&mut self) {
        if self.enable_on_exec {
            self.enable_on_exec = false;
            self.event().sampler.notifier.lift_spent_limit();
            self.enabled_at = self.event().state().changes();
        }
    }

    /// Ends the slot, whose window must be closed: counts its overdue samples as lost, and subtracts it from the number
    /// of the event's slots.
    pub(super) fn end(&self) {
        debug_assert!(!self.is_open);
        self.phase.lose_overdue_samples(&self.event().sampler);
        self.event().uncount_slot();
    }

    /// Adds the count and the time of the window that closes to the count and the time of the slot
    /// and of the event. `total` is the counter's total and `now` the time, in TSC cycles.
    #[inline(always)]
    pub(super) fn add_window(&mut self, total: u64, now: u64) {
        let count = total.wrapping_sub(self.start_total);
        let time = now.wrapping_sub(self.start_time);
        self.closed_windows_count.count = self.closed_windows_count.count.wrapping_add(count);
        self.closed_windows_count.time.0 = self.closed_windows_count.time.0.wrapping_add(time);
        self.event().add_window(count, time);
    }

    /// Begins a wait for a turn, or for a CPU that counts the event. `now` is the time in TSC
    /// cycles.
    pub(super) fn begin_wait(&mut self, now: u64) {
        self.start_time = now;
        self.is_waiting = true;
    }

    /// Ends the wait, if the slot waits, and adds the time of the wait to the waited time of the
    /// slot and of the event. `now` is the time in TSC cycles.
    pub(super) fn end_wait(&mut self, now: u64) {
        if core::mem::take(&mut self.is_waiting) {
            let time = now.wrapping_sub(self.start_time);
            self.waited_time.0 = self.waited_time.0.wrapping_add(time);
            self.event().add_waited_time(time);
        }
    }

    /// Returns the count of this slot's closed windows. For an event that is not inherited, it is the event's count,
    /// since such an event has only one slot.
    pub(in crate::event) fn closed_windows_count(&self) -> EventCount {
        if self.event().config.inherit {
            self.closed_windows_count
        } else {
            EventCount::of_closed_windows(self.event())
        }
    }

    /// Returns the time in which the slot was enabled and did not count: its waits that have ended.
    pub(in crate::event) fn waited_time(&self) -> Cycles {
        if self.event().config.inherit {
            self.waited_time
        } else {
            self.event().waited_time()
        }
    }

    /// Returns the values from which the overflow handler computes the slot's count and times.
    pub(in crate::event) fn count_base(&self) -> CountBase {
        let EventCount { count, time } = self.closed_windows_count();
        let (start_total, start_time) = if self.is_open {
            (self.start_total, self.start_time)
        } else {
            (0, 0)
        };
        CountBase {
            count: count.wrapping_sub(start_total),
            time: time.0.wrapping_sub(start_time),
            waited_time: self.waited_time().0,
            is_open: self.is_open,
        }
    }

    /// Returns whether the event is sampled.
    pub(in crate::event) fn is_sampled(&self) -> bool {
        self.phase.period != 0
    }

    /// Returns whether the samples of this slot have call stacks from branch records ([`Event::records_calls`]).
    pub(in crate::event) fn records_calls(&self) -> bool {
        self.is_sampled() && self.event().records_calls()
    }

    /// Returns whether a record with the slot's count has to be written when the event ends for the task.
    pub(in crate::event) fn wants_read_record(&self) -> bool {
        self.is_inherited && self.event().sampler.sampling.read_at_exit
    }
}

/// A count, and the time in which it was counted.
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

    /// Returns the count of an event's closed windows.
    pub(in crate::event) fn of_closed_windows(event: &Event) -> Self {
        Self {
            count: event.count(),
            time: event.running_time(),
        }
    }

    /// Returns the count up to now of an event that is not inherited, on the CPU that has loaded its slot. The window
    /// stays open. Returns `None` if the count misses events, the counter was tampered with, or the event may wait: the
    /// caller then has to close the windows, which also ends a wait.
    #[inline(always)]
    pub(in crate::event) fn read_here(here: ThisCpu<'_>, slot: &Slot, now: u64) -> Option<Self> {
        if slot.event().needs_slow_read() {
            return Self::read_with_records_converted(here, slot, now);
        }
        Self::read_open_window(here, slot, now)
    }

    /// Does what [`Self::read_here`] does, for events that [need a slow read](Event::needs_slow_read): first converts the
    /// processor's records (PEBS), since the processor reloads the counter.
    #[cold]
    #[inline(never)]
    fn read_with_records_converted(here: ThisCpu<'_>, slot: &Slot, now: u64) -> Option<Self> {
        if slot.event().is_broken() || slot.event().config.may_wait() {
            return None;
        }
        here.pmu()
            .with_records_converted(here, || Self::read_open_window(here, slot, now))
    }

    /// Returns the count of the event's closed windows, plus the count of the slot's window if that
    /// window is open. Returns `None` if the counter was tampered with.
    #[inline(always)]
    fn read_open_window(here: ThisCpu<'_>, slot: &Slot, now: u64) -> Option<Self> {
        let mut count = Self::of_closed_windows(slot.event());
        if slot.is_open {
            if !slot.counter.is_none() {
                let percpu = here.percpu();
                let total = percpu.value(slot.counter).read_total(here, slot.msr).ok()?;
                if pmu::may_be_tampered(here)
                    && pmu::tampered_counters(here) & slot.counter.bit() != 0
                {
                    return None;
                }
                count.count = count
                    .count
                    .wrapping_add(total.wrapping_sub(slot.start_total));
            }
            let time = now.wrapping_sub(slot.start_time);
            count.time = Cycles(count.time.0.wrapping_add(time));
        }
        Some(count)
    }
}

/// The index of the group leader's slot in the same context, if there is one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct LeaderIndex(u32);

impl LeaderIndex {
    /// The slot has no leader: it is in no group, or leads one.
    pub(super) const NONE: Self = Self(u32::MAX);

    /// Returns the leader whose slot is at `index`.
    pub(super) fn new(index: usize) -> Self {
        // CAST: A context has at most `MAX_SLOTS`, 1024.
        Self(index as u32)
    }

    /// Returns the index of the slot; `None` for no slot.
    #[inline(always)]
    pub(super) fn index(self) -> Option<usize> {
        (self != Self::NONE).then_some(self.0 as usize)
    }

    /// Returns the leader's new index after a slot was inserted at `inserted`, and the slots from there on moved by one.
    pub(super) fn after_insertion(self, inserted: usize) -> Self {
        match self.index() {
            Some(index) if index >= inserted => Self::new(index + 1),
            _ => self,
        }
    }
}
