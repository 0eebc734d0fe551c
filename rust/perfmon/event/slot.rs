// SPDX-License-Identifier: GPL-2.0-only
//! The slots of a context: the events of its task, each with its window.
//!
//! A window is the time in which a slot counts, on one CPU: it is opened and closed there with interrupts off. The
//! counter runs all the time ([`crate::pmu`]); a window takes its total at both ends.

use super::{
    calls::Calls,
    event::Event,
    page,
    sampling::{self, Phase},
};
use crate::{
    cpu::{timestamp, Cycles, ThisCpu},
    logic::{counter::CounterId, regs::Msr},
    percpu::{Base, PerCpu, UserPagePtr},
    pmu,
};
use core::{
    ops::{Deref, DerefMut},
    ptr::{self, NonNull},
};
use kernel::{alloc::Flags, bindings, cpu::CpuId, prelude::*};

/// The slots of a context. A slot comes after that of its group's leader.
pub(super) struct Slots {
    list: KVec<Slot>,
    /// The task that is counted; null if it is a CPU.
    pub(super) task: *mut bindings::task_struct,
    /// Some slots show in a page of the event that they count.
    paged: bool,
    /// Some slots have a leader.
    grouped: bool,
    /// Some slots are sampled.
    sampled: bool,
    pub(super) calls: Calls,
}

impl Slots {
    /// Returns no slots, with room for one for each counter: no task has more.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub(super) fn new(flags: Flags) -> Result<Self> {
        let capacity = pmu::common().capabilities.counters().count_ones() as usize;
        Ok(Self {
            list: KVec::with_capacity(capacity, flags)?,
            task: ptr::null_mut(),
            paged: false,
            grouped: false,
            sampled: false,
            calls: Calls::new(),
        })
    }
}

impl Deref for Slots {
    type Target = KVec<Slot>;

    #[inline(always)]
    fn deref(&self) -> &KVec<Slot> {
        &self.list
    }
}

impl DerefMut for Slots {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut KVec<Slot> {
        &mut self.list
    }
}

/// The place of an event in a context.
///
/// # Invariants
///
/// The event is alive while the slot is in a context ([`Event`]).
pub(super) struct Slot {
    event: NonNull<Event>,
    /// The counter's total at the beginning of the window.
    start: u64,
    /// The time-stamp counter at the beginning of the window.
    start_time: u64,
    /// [`Event::select`] as the register has it.
    select: u64,
    /// The register to read the counter from.
    msr: Msr,
    /// The only CPU to count on, or [`ANY_CPU`].
    cpu: u32,
    /// [`Event::changes`] when the task has executed a program that enables the event; or [`NEVER`].
    enabled_at: u32,
    counter: CounterId,
    /// The bit, by index, of the group leader's slot; 0 if it has none.
    needed: u64,
    /// The slot shows in the event's page.
    page: Option<UserPagePtr>,
    pub(super) phase: Phase,
    /// What the windows that are closed have counted, and their time.
    counted: Seen,
    /// The task has inherited the event.
    inherited: bool,
    /// The window is open.
    open: bool,
    enable_on_exec: bool,
}

/// [`Slot::cpu`]: any.
const ANY_CPU: u32 = u32::MAX;
/// [`Slot::enabled_at`]: it has not.
const NEVER: u32 = u32::MAX;

// SAFETY: A slot is used by the holder of its context. The event may be used by any task.
unsafe impl Send for Slot {}

impl Slot {
    /// Returns the first slot of an event, in the group that the slot `leader` leads.
    pub(super) fn new(event: &Event, cpu: Option<CpuId>, leader: Option<usize>) -> Self {
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
            needed: leader.map_or(0, bit),
            page: None,
            phase: Phase::new(&event.sampler),
            counted: Seen::NOTHING,
            inherited: false,
            open: false,
            enable_on_exec: event.config.enable_on_exec,
        }
    }

    /// Returns the event.
    #[inline(always)]
    pub(super) fn event<'a>(&self) -> &'a Event {
        // SAFETY: By the type invariant. Nobody keeps the reference longer than the context.
        unsafe { self.event.as_ref() }
    }

    /// Returns whether this is a slot of the event.
    #[inline(always)]
    pub(super) fn is_of(&self, event: &Event) -> bool {
        core::ptr::eq(self.event.as_ptr(), event)
    }

    /// Returns whether the slot counts on this CPU.
    #[inline(always)]
    fn counts_on(&self, percpu: &PerCpu) -> bool {
        self.cpu == ANY_CPU || u64::from(self.cpu) == percpu.number.get()
    }

    /// Returns the page that it shows in.
    pub(super) fn page(&self) -> Option<UserPagePtr> {
        self.page
    }

    /// Returns whether the window is open.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Returns the event's count less the counter's total, while the window is open.
    pub(super) fn base(&self) -> u64 {
        self.event().count().wrapping_sub(self.start)
    }

    /// Moves the beginning of the window.
    pub(super) fn start_at(&mut self, total: u64) {
        self.start = total;
    }

    /// Returns the counter.
    pub(super) fn counter(&self) -> CounterId {
        self.counter
    }

    /// Returns the slot for a new task that inherits the event, whose group leader there has the index `leader`.
    fn inherited(&self, leader: Option<usize>) -> Self {
        let event = self.event();
        event.begin_slot();
        // INVARIANT: The event is alive.
        Self {
            event: self.event,
            start: 0,
            start_time: 0,
            page: None,
            phase: Phase::new(&event.sampler),
            counted: Seen::NOTHING,
            inherited: true,
            open: false,
            needed: leader.map_or(0, bit),
            ..*self
        }
    }

    /// Enables the slot, because the task has executed a program, if the event wants that.
    pub(super) fn enable_on_exec(&mut self) {
        if self.enable_on_exec {
            self.enable_on_exec = false;
            self.event().sampler.alarm.end_spent();
            self.enabled_at = self.event().state().changes();
        }
    }

    /// Marks that the event, if it is enabled, is not counted while the task runs where it runs.
    pub(super) fn miss(&self) {
        if self.event().state().is_enabled(self.enabled_at) && self.cpu == ANY_CPU {
            self.event().mark_broken();
        }
    }

    /// Ends the slot, whose window is closed.
    fn end(&self) {
        sampling::end(self.event(), &self.phase);
        self.event().end_slot();
    }

    /// Adds what the window has counted up to now, when the counter's total is `total`.
    #[inline(always)]
    fn add(&mut self, total: u64, now: u64) {
        let count = total.wrapping_sub(self.start);
        let time = now.wrapping_sub(self.start_time);
        self.counted.count = self.counted.count.wrapping_add(count);
        self.counted.time.0 = self.counted.time.0.wrapping_add(time);
        self.event().add(count, time);
    }

    /// Returns what the closed windows of this task have counted, of an event that others inherit; otherwise what the
    /// event has.
    pub(super) fn counted(&self) -> Seen {
        if self.event().config.inherit {
            self.counted
        } else {
            Seen::closed(self.event())
        }
    }

    /// Returns what samples need to tell the count.
    pub(super) fn sampled_base(&self) -> Base {
        let Seen { count, time } = self.counted();
        let (start, start_time) = if self.open {
            (self.start, self.start_time)
        } else {
            (0, 0)
        };
        Base {
            count: count.wrapping_sub(start),
            time: time.0.wrapping_sub(start_time),
            is_open: self.open,
        }
    }

    /// Returns whether the task's count is told when it ends: it has inherited the event.
    pub(super) fn tells_at_exit(&self) -> bool {
        self.inherited && self.event().sampler.sampling.read_at_exit
    }
}

/// The readings of counters on one CPU at one moment: each is read once.
pub(super) struct Readings {
    now: u64,
    /// The counters that were read since.
    read: u64,
}

impl Readings {
    /// Returns the time.
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// Returns that no counter was read yet, at the time `now`.
    #[inline(always)]
    pub(super) fn new(now: u64) -> Self {
        Self { now, read: 0 }
    }

    /// Returns the total of the slot's counter.
    #[inline(always)]
    fn total(&mut self, here: ThisCpu<'_>, slot: &Slot) -> u64 {
        let value = here.percpu().value(slot.counter);
        if self.read & slot.counter.bit() != 0 {
            return value.total();
        }
        self.read |= slot.counter.bit();
        match value.read(here, slot.msr) {
            Ok(total) => total,
            Err(_) => distrust(here, slot),
        }
    }

    /// Closes the windows that are open.
    #[inline(always)]
    pub(super) fn close(&mut self, here: ThisCpu<'_>, slots: &mut Slots) {
        if here.percpu().tampered.get() != 0 {
            mark_tampered(here, slots);
        }
        if slots.sampled {
            sampling::close(self, here, slots);
        } else {
            for slot in slots.iter_mut().filter(|slot| slot.open) {
                self.close_window(here, slot);
            }
        }
        if slots.paged {
            page::hide(here, slots);
        }
    }

    /// Opens the windows of all slots that count now, none of which is open.
    #[inline(always)]
    pub(super) fn open(&mut self, here: ThisCpu<'_>, slots: &mut Slots) {
        let percpu = here.percpu();
        if percpu.tampered.get() != 0 {
            self.rearm(here, slots);
        }
        // The slots, by index, whose events are enabled.
        let mut enabled: u64 = 0;
        let mut bit: u64 = 1;
        for slot in slots.iter_mut() {
            let this = bit;
            bit = bit.wrapping_shl(1);
            if !slot.event().state().is_enabled(slot.enabled_at) {
                continue;
            }
            enabled |= this;
            if slot.needed & !enabled != 0 {
                continue;
            }
            if !slot.counts_on(percpu) {
                continue;
            }
            self.open_window(here, slot);
        }
        if slots.sampled {
            sampling::begin(here, slots, self.now);
        }
        if slots.paged {
            page::show(here, slots);
        }
    }

    /// Closes a window that is open. Returns the counter's total then.
    #[inline(always)]
    pub(super) fn close_window(&mut self, here: ThisCpu<'_>, slot: &mut Slot) -> u64 {
        slot.open = false;
        let total = self.total(here, slot);
        slot.add(total, self.now);
        total
    }

    /// Opens a window that is closed.
    #[inline(always)]
    fn open_window(&mut self, here: ThisCpu<'_>, slot: &mut Slot) {
        let value = here.percpu().value(slot.counter);
        if !value.has_select(slot.select) {
            self.select(here, slot);
        }
        slot.start = self.total(here, slot);
        slot.start_time = self.now;
        slot.open = true;
    }

    /// Makes the counter count what the slot does.
    #[cold]
    #[inline(never)]
    fn select(&mut self, here: ThisCpu<'_>, slot: &Slot) {
        self.total(here, slot);
        here.pmu().reselect(here, slot.counter, slot.event().select);
        self.read &= !slot.counter.bit();
    }

    /// Sets counters of the slots up anew that were found to hold something else than was written.
    #[cold]
    #[inline(never)]
    fn rearm(&mut self, here: ThisCpu<'_>, slots: &Slots) {
        for slot in slots.iter() {
            if here.percpu().tampered.get() & slot.counter.bit() != 0 {
                here.pmu().rearm(here, slot.counter, slot.event().select);
                self.read &= !slot.counter.bit();
            }
        }
    }
}

/// Marks that a counter holds what can't have been counted. Returns a total.
#[cold]
#[inline(never)]
fn distrust(here: ThisCpu<'_>, slot: &Slot) -> u64 {
    slot.event().mark_broken();
    here.percpu().mark_tampered(slot.counter.bit());
    here.percpu().value(slot.counter).total()
}

/// Marks the events of open windows whose counters were found to hold something else than was written.
#[cold]
#[inline(never)]
fn mark_tampered(here: ThisCpu<'_>, slots: &Slots) {
    let tampered = here.percpu().tampered.get();
    for slot in slots.iter() {
        if slot.open && tampered & slot.counter.bit() != 0 {
            slot.event().mark_broken();
        }
    }
}

/// The count of an event, and the time in which it was counted.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub(super) count: u64,
    pub(super) time: Cycles,
}

impl Seen {
    const NOTHING: Self = Self {
        count: 0,
        time: Cycles(0),
    };

    /// Returns what the windows of an event have counted that are closed.
    pub(super) fn closed(event: &Event) -> Self {
        Self {
            count: event.count(),
            time: event.time(),
        }
    }

    /// Returns what an event that is not inherited has counted up to now, where it has its slot. The window stays open.
    /// `None` if there is no count, or something else than was written was found in the counter.
    #[inline(always)]
    pub(super) fn here(here: ThisCpu<'_>, slot: &Slot, now: u64) -> Option<Self> {
        let event = slot.event();
        if event.is_broken() {
            return None;
        }
        let mut seen = Self::closed(event);
        if slot.open {
            let percpu = here.percpu();
            let total = percpu.value(slot.counter).read(here, slot.msr).ok()?;
            if percpu.tampered.get() & slot.counter.bit() != 0 {
                return None;
            }
            seen.count = seen.count.wrapping_add(total.wrapping_sub(slot.start));
            let time = now.wrapping_sub(slot.start_time);
            seen.time = Cycles(seen.time.0.wrapping_add(time));
        }
        Some(seen)
    }
}

impl Slots {
    /// Adds a slot, if there is room.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub(super) fn add(&mut self, slot: Slot) -> Result {
        self.grouped |= slot.needed != 0;
        self.sampled |= slot.is_sampled();
        if slot.records_calls() {
            self.calls.reserve()?;
        }
        self.list.push_within_capacity(slot).map_err(|_| ENOMEM)
    }

    /// Returns the slot of an event.
    #[inline(always)]
    pub(super) fn of(&self, event: &Event) -> Option<&Slot> {
        self.iter().find(|slot| slot.is_of(event))
    }

    /// Returns the slots of the event's group, the leader's first.
    #[inline(always)]
    pub(super) fn group(&self, event: &Event) -> impl Iterator<Item = &Slot> {
        let index = self.iter().position(|slot| slot.is_of(event));
        let leader = index.map(|index| match self.get(index) {
            Some(slot) if slot.needed != 0 => slot.needed.trailing_zeros() as usize,
            _ => index,
        });
        // A leader comes before those that it leads.
        let rest = leader.and_then(|leader| self.get(leader..)).unwrap_or(&[]);
        let needed = leader.map_or(0, bit);
        let mut first = true;
        rest.iter()
            .filter(move |slot| core::mem::take(&mut first) || slot.needed == needed)
    }

    /// Enables or disables an event that is not inherited, in no group and without a page. Returns whether this has its
    /// slot, so that it could be done.
    #[inline(always)]
    pub(super) fn set_enabled(&mut self, here: ThisCpu<'_>, event: &Event, enabled: bool) -> bool {
        if self.grouped || self.paged || self.sampled || here.percpu().tampered.get() != 0 {
            return false;
        }
        let Some(slot) = self.iter_mut().find(|slot| slot.is_of(event)) else {
            return false;
        };
        event.set_enabled(enabled);
        if slot.open != enabled {
            let mut readings = Readings::new(timestamp());
            if slot.open {
                readings.close_window(here, slot);
            } else if slot.counts_on(here.percpu()) {
                readings.open_window(here, slot);
            }
        }
        true
    }
}

/// Brings the sums of all events up to date, and opens the windows that should be open now.
pub(super) fn refresh(here: ThisCpu<'_>, slots: &mut Slots, now: u64) {
    let mut readings = Readings::new(now);
    readings.close(here, slots);
    if here.percpu().brought_up.get() != 0 {
        readings.open(here, slots);
    }
}

/// Returns the bit of a slot's index: there are no more slots than counters.
fn bit(index: usize) -> u64 {
    1_u64.wrapping_shl(index as u32)
}

/// Returns the counters that slots use.
pub(super) fn counters(slots: &Slots) -> u64 {
    crate::logic::counter::bits(slots.iter().map(Slot::counter))
}

/// Removes the slots of an event. The siblings that it led are alone from now on. The windows are closed.
pub(super) fn remove(slots: &mut Slots, event: &Event) {
    while let Some(index) = slots.iter().position(|slot| slot.is_of(event)) {
        if let Ok(slot) = slots.remove(index) {
            slot.end();
        }
        for slot in slots.iter_mut() {
            // Those behind it have moved by one.
            slot.needed = if slot.needed > bit(index) {
                slot.needed >> 1
            } else {
                slot.needed & !bit(index)
            };
        }
    }
}

/// Makes the event's first slot show in its page. The windows are closed.
pub(super) fn set_page(slots: &mut Slots, event: &Event, page: UserPagePtr) {
    if let Some(slot) = slots.iter_mut().find(|slot| slot.is_of(event)) {
        slot.page = Some(page);
        slots.paged = true;
    }
}

/// Removes all slots. The windows are closed.
pub(super) fn remove_all(slots: &mut Slots) {
    while let Some(slot) = slots.pop() {
        slot.end();
    }
}

/// Adds to `new`, the slots of a new task, those that it inherits of `slots`: for which `inherits` is true.
///
/// # Errors
///
/// ENOMEM if there is no room.
pub(super) fn inherit(new: &mut Slots, slots: &Slots, inherits: impl Fn(&Event) -> bool) -> Result {
    for slot in slots.iter().filter(|slot| inherits(slot.event())) {
        let led_by = slots
            .get(slot.needed.trailing_zeros() as usize)
            .map(Slot::event);
        let leader = led_by.and_then(|leader| new.iter().position(|slot| slot.is_of(leader)));
        new.add(slot.inherited(leader))?;
    }
    Ok(())
}
