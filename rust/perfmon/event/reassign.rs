// SPDX-License-Identifier: GPL-2.0-only
//! Moving events to other counters, so that a new event gets a counter ([`crate::logic::reassign`]).
//!
//! Events that share a counter move together to a free counter. If no such moves make room, single
//! events move, namely the events of one counter that exclude the new event. Each of them moves to
//! a counter whose events all have the same event select as this event, to a free counter, or to a
//! counter from which other events can move in the same way.
//!
//! An event is in the list of its counter from when it is attached until it is closed. If all events of a counter are in
//! its list, they can move: first the events become users of the new counter, then their slots close their windows on the
//! old counter and open them on the new one, and then the events give the old counter up. Both counters run meanwhile, so
//! nothing is missed or counted twice.
//!
//! Two sorts of events never move: events that take turns, since their slots choose among several counters; and precise
//! events, whose samples the processor may not have delivered yet. Other programs can't open events during a move, so a
//! move is limited to [`MAX_MOVED_EVENTS`], the search for events that move alone to [`MAX_STEPS`], and the search for tasks that
//! have inherited events to [`MAX_SEARCHED_CONTEXTS`].

use super::{
    attach::{own_counters, with_each_context, with_task_contexts},
    event::Event,
    slot::{update_counters, width_of, Slots},
    table::{self, TASKS},
    target::Target,
};
use crate::{
    cpu::{possible_cpus, ThisCpu},
    logic::{
        counter::{each_counter, mask_of, CounterId, MAX_COUNTERS},
        event_config::EventConfig,
        reassign::find_moves,
    },
    ownership::Ownership,
};
use core::{
    cell::Cell,
    ptr::NonNull,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};
use kernel::{prelude::*, sync::global_lock};

/// The largest number of events that move together. If more events share a counter, none of them moves, so that a move,
/// during which other programs can't open events, is short.
const MAX_MOVED_EVENTS: usize = 16;

/// The largest number of moves of single events that depend on each other. With 2, one event moves so that a second event
/// can move to its counter, and the new event gets the counter of the second event.
const MAX_DEPTH: u8 = 2;

/// The largest number of steps in a search for single events that can move. In a step, the search compares a new event with
/// the events of a counter, or an event with each counter. A step takes up to 2000 instructions, by an estimate, so a search takes
/// about a millisecond at most, without its moves. The searches of the tests take up to 160 steps; a search that would
/// need more than the limit finds nothing.
const MAX_STEPS: u32 = 1024;

/// The largest number of tasks' contexts that are searched for inherited events. If there are more, an event that a task
/// has inherited stays, since the search lengthens the move. The number of contexts of the events' targets has the same
/// limit; on a machine with more CPUs, the limit is the number of CPUs, since a cgroup has a context for each CPU.
const MAX_SEARCHED_CONTEXTS: usize = 256;

/// Events that have the same counter and can move to another counter.
///
/// # Invariants
///
/// The events are alive: each is removed before it is freed.
#[derive(Clone, Copy)]
struct MovableEvents([Option<NonNull<Event>>; MAX_MOVED_EVENTS]);

// SAFETY: `Send` requires that any task may use and drop the value: the pointers are to events, which any task may use,
// since an `Event` is `Sync`; dropping a pointer does nothing.
unsafe impl Send for MovableEvents {}

impl MovableEvents {
    const NONE: Self = Self([None; MAX_MOVED_EVENTS]);

    /// Returns the events.
    fn each(&self) -> impl Iterator<Item = &Event> {
        self.0.iter().flatten().map(|event| {
            // SAFETY: `as_ref` requires an event that is alive: by the invariant of `MovableEvents`
            // each event in the list is alive.
            unsafe { event.as_ref() }
        })
    }

    /// Adds an event, if there is room.
    fn add(&mut self, event: &Event) {
        if let Some(entry) = self.0.iter_mut().find(|entry| entry.is_none()) {
            // INVARIANT: The event is alive: the caller has it, and `close` removes it before it is freed.
            *entry = Some(NonNull::from(event));
        }
    }

    /// Removes an event, if it is in the list.
    fn remove(&mut self, event: &Event) {
        for entry in &mut self.0 {
            if *entry == Some(NonNull::from(event)) {
                *entry = None;
            }
        }
    }

    /// Returns one event of each target.
    fn one_of_each_target(&self) -> impl Iterator<Item = &Event> {
        self.each().enumerate().filter_map(|(index, event)| {
            let is_same = |other: &Event| other.target.is_same_target(&event.target);
            (!self.each().take(index).any(is_same)).then_some(event)
        })
    }

    /// Returns whether these are all of the `event_count` events of their counter, and their slots can be found.
    fn can_move(&self, event_count: usize) -> bool {
        if event_count == 0
            || self.each().count() != event_count
            || !self.each().all(can_find_slots)
        {
            return false;
        }
        let targets = self.one_of_each_target();
        let context_count: usize = targets.map(|event| event.target.context_count()).sum();
        context_count <= MAX_SEARCHED_CONTEXTS.max(possible_cpus().count())
    }

    /// Returns the counters, as a mask, to which all these events can move from `counter`. Requires
    /// that the events [can move](Self::can_move).
    fn destinations(&self, counter: CounterId) -> u64 {
        let counters = self.each().fold(u64::MAX, |counters, event| {
            counters & event.config.counters()
        });
        // Programs that read a counter with RDPMC have read its width from the page, so the width must stay the same.
        let width = width_of(counter);
        mask_of(each_counter(counters).filter(|&to| to != counter && width_of(to) == width))
    }
}

global_lock! {
    /// The events that can move, by the index of their counter.
    // SAFETY: The lock must be initialized before its first use: `init` does so, before there can be events, and only
    // code that has an event or opens one locks it.
    unsafe(uninit) static MOVABLE: SpinLock<[MovableEvents; MAX_COUNTERS]> =
        [MovableEvents::NONE; MAX_COUNTERS];
}

/// Prepares the lists.
///
/// # Safety
///
/// To be called once in the module's life, before there can be events.
pub(super) unsafe fn init() {
    // SAFETY: A lock must be initialized once, before its first use: the caller calls this once, before there can be
    // events, and only code that has an event or opens one locks `MOVABLE`.
    unsafe { MOVABLE.init() };
}

/// Lets an event that has been attached move to other counters, until [`remove`] is called.
pub(super) fn add(event: &Event) {
    let config = &event.config;
    if !config.takes_counter() || config.takes_turns || config.sampling.is_precise {
        return;
    }
    MOVABLE.lock()[event.counter().index()].add(event);
}

/// Undoes [`add`].
pub(super) fn remove(event: &Event) {
    MOVABLE.lock()[event.counter().index()].remove(event);
}

/// Returns whether all slots of the event are in the contexts of its target, or there are few contexts to search.
fn can_find_slots(event: &Event) -> bool {
    if !event.config.inherit || TASKS.entry_count() <= MAX_SEARCHED_CONTEXTS {
        return true;
    }
    let mut own_slots = 0;
    with_each_context(&event.target, |_, slots| {
        own_slots += slots.iter().filter(|slot| slot.is_of_event(event)).count();
    });
    own_slots == event.slot_count()
}

/// The room for a new event.
pub(super) struct Room {
    /// The counter that the new event may have. `None` if no moves make room, or if a counter to
    /// which events move is broken: the counter does not hold the value that is written to it.
    pub(super) counter: Option<CounterId>,
    /// Events have moved, or may have moved. This can be true even if `counter` is `None`.
    pub(super) has_moved: bool,
}

/// Makes room on a counter for a new event of `target` with `config`, by moving all events of the counter, or only the
/// events that exclude the new one.
#[cold]
#[inline(never)]
pub(super) fn make_room(ownership: &mut Ownership, target: &Target, config: &EventConfig) -> Room {
    let mut movable = MOVABLE.lock();
    let free_counters = ownership.free_counters();
    let can_move = |id: &CounterId| movable[id.index()].can_move(ownership.event_count(*id));
    let movable_counters = mask_of(each_counter(u64::MAX).filter(can_move));
    let moves = find_moves(
        config.counters() & !free_counters,
        free_counters,
        |counter| {
            if movable_counters & counter.bit() != 0 {
                movable[counter.index()].destinations(counter)
            } else {
                0
            }
        },
    );
    let Some(moves) = moves else {
        let mut search = Search {
            ownership,
            movable: &mut movable,
            movable_counters,
            steps_left: Cell::new(MAX_STEPS),
            has_moved: false,
        };
        let counter = search.make_room(SearchLevel::FIRST, target, config, config.counters());
        return Room {
            counter,
            has_moved: search.has_moved,
        };
    };
    let are_moved = moves.each().all(|(from, to)| {
        let result = move_events(ownership, &movable[from.index()], from, to);
        if result.is_ok() {
            movable.swap(from.index(), to.index());
        }
        result.is_ok()
    });
    Room {
        counter: are_moved.then_some(moves.freed_counter()),
        has_moved: true,
    }
}

/// The level of a nested search. The search on the next level finds moves on which the moves of
/// this level depend.
#[derive(Clone, Copy)]
struct SearchLevel {
    /// The counters, as a mask, on which room is being made already: no event moves to these
    /// counters.
    forbidden: u64,
    /// The number of moves, from this level on, that may depend on each other. With 0, no event may
    /// move.
    depth: u8,
}

impl SearchLevel {
    /// The level of the new event.
    const FIRST: Self = Self {
        forbidden: 0,
        depth: MAX_DEPTH,
    };

    /// Returns the level at which events of `counter` get other counters; `None` if too many moves would depend on each
    /// other.
    fn next(self, counter: CounterId) -> Option<Self> {
        Some(Self {
            forbidden: self.forbidden | counter.bit(),
            depth: self.depth.checked_sub(1)?,
        })
    }
}

/// A search for single events that can move.
struct Search<'a> {
    ownership: &'a mut Ownership,
    /// The events that can move, by the index of their counter.
    movable: &'a mut [MovableEvents; MAX_COUNTERS],
    /// The counters, as a mask, whose events [can move](MovableEvents::can_move).
    movable_counters: u64,
    /// The number of steps that the search may still take.
    steps_left: Cell<u32>,
    /// Events have moved.
    has_moved: bool,
}

impl Search<'_> {
    /// Makes room on one of `counters` for an event of `target` with `config`, by moving the events
    /// that exclude it. Returns the counter; `None` if room can be made on none of `counters`, or
    /// not within [`MAX_STEPS`] steps.
    #[inline(never)]
    fn make_room(
        &mut self,
        level: SearchLevel,
        target: &Target,
        config: &EventConfig,
        counters: u64,
    ) -> Option<CounterId> {
        let can_make_room =
            |&counter: &CounterId| self.can_make_room_on(counter, level, target, config);
        let counter = each_counter(counters & !level.forbidden).find(can_make_room)?;
        let next = level.next(counter)?;
        if level.depth == MAX_DEPTH {
            // The moves repeat a part of the search that has found them. The moves must not end
            // halfway because the search has taken most of the steps.
            self.steps_left.set(MAX_STEPS);
        }
        let excluding = excluding_events(&self.movable[counter.index()], target, config, counter);
        for event in excluding.each() {
            // An event that has just moved may have taken the counter that `can_make_room` found for this event.
            let to = match self.new_counter(next, event, counter) {
                Some(to) => to,
                None if can_be_mixed(event) => {
                    let counters = counters_like(counter, event);
                    self.make_room(next, &event.target, &event.config, counters)?
                }
                None => return None,
            };
            self.move_event(event, counter, to).ok()?;
        }
        admits(self.ownership, target, config, counter).then_some(counter)
    }

    /// Returns whether each event that excludes a new event of `target` with `config` from the
    /// counter can move to another counter.
    fn can_make_room_on(
        &self,
        counter: CounterId,
        level: SearchLevel,
        target: &Target,
        config: &EventConfig,
    ) -> bool {
        let Some(next) = level.next(counter) else {
            return false;
        };
        if self.movable_counters & counter.bit() == 0 || !self.take_step() {
            return false;
        }
        let events = &self.movable[counter.index()];
        excluding_events(events, target, config, counter)
            .each()
            .all(|event| {
                let can_make_room =
                    |to| self.can_make_room_on(to, next, &event.target, &event.config);
                let counters = counters_like(counter, event) & !next.forbidden;
                self.new_counter(next, event, counter).is_some()
                    || can_be_mixed(event) && each_counter(counters).any(can_make_room)
            })
    }

    /// Returns a counter to which a single event of counter `from` can move: a counter whose events all have the same
    /// event select, or a free one.
    fn new_counter(&self, level: SearchLevel, event: &Event, from: CounterId) -> Option<CounterId> {
        if !self.take_step() {
            return None;
        }
        let counters = counters_like(from, event) & !level.forbidden;
        each_counter(counters)
            .find(|&to| self.ownership.admits_anywhere(&event.config, to))
            .or_else(|| each_counter(counters & self.ownership.free_counters()).next())
    }

    /// Takes one of the steps that the search may still take. Returns false if no step is left.
    fn take_step(&self) -> bool {
        let steps_left = self.steps_left.get().checked_sub(1);
        self.steps_left.set(steps_left.unwrap_or(0));
        steps_left.is_some()
    }

    /// Moves one event of counter `from` to the counter `to`, which is free or admits it.
    ///
    /// # Errors
    ///
    /// EIO if `to` does not hold the value that is written to it. Then the event has not moved.
    fn move_event(&mut self, event: &Event, from: CounterId, to: CounterId) -> Result {
        let mut only_event = MovableEvents::NONE;
        only_event.add(event);
        move_events(self.ownership, &only_event, from, to)?;
        self.has_moved = true;
        self.movable[from.index()].remove(event);
        self.movable[to.index()].add(event);
        for counter in [from, to] {
            let event_count = self.ownership.event_count(counter);
            if self.movable[counter.index()].can_move(event_count) {
                self.movable_counters |= counter.bit();
            } else {
                self.movable_counters &= !counter.bit();
            }
        }
        Ok(())
    }
}

/// Returns the counters, as a mask, that can count the event and have the same width as its counter `from`. Programs may
/// have read that width from the event's page.
fn counters_like(from: CounterId, event: &Event) -> u64 {
    each_counter(event.config.counters())
        .filter(|&to| width_of(to) == width_of(from))
        .fold(0, |counters, to| counters | to.bit())
}

/// Returns whether the event counts in a single context, the context of its target. Only such an
/// event can share a counter with events of other targets that have other event selects.
fn can_be_mixed(event: &Event) -> bool {
    !event.config.inherit && !matches!(event.target, Target::Cgroup(..))
}

/// Returns whether a new event of `target` with `config` may have the counter, together with the events that have it now.
fn admits(
    ownership: &Ownership,
    target: &Target,
    config: &EventConfig,
    counter: CounterId,
) -> bool {
    ownership.can_admit(target.place(), config, counter)
        && own_counters(target, config).unavailable() & counter.bit() == 0
}

/// Returns the events of a counter that exclude a new event: they may count at the same time, and need another setup of
/// the counter.
fn excluding_events(
    events: &MovableEvents,
    target: &Target,
    config: &EventConfig,
    counter: CounterId,
) -> MovableEvents {
    let mut excluding = MovableEvents::NONE;
    let demand = config.demand_on(counter);
    let kind = target.place().kind;
    for event in events.each() {
        let overlaps = event.target.place().kind.overlaps(kind)
            || event.target.has_same_context(target)
            || event.config.inherit
            || config.inherit;
        if overlaps && !event.config.demand_on(counter).agrees(demand) {
            excluding.add(event);
        }
    }
    excluding
}

/// Moves `events` of counter `from` to the counter `to`, which is free or admits them.
///
/// # Errors
///
/// EIO if `to` does not hold the value that is written to it. Then no event has moved.
fn move_events(
    ownership: &mut Ownership,
    events: &MovableEvents,
    from: CounterId,
    to: CounterId,
) -> Result {
    let was_free = ownership.free_counters() & to.bit() != 0;
    for (index, event) in events.each().enumerate() {
        let place = event.target.place();
        if let Err(error) = ownership.share_counters(place, to.bit(), &event.config) {
            for event in events.each().take(index) {
                ownership.unshare_counters(event.target.place(), to.bit(), &event.config);
            }
            return Err(error);
        }
    }
    if was_free {
        ownership.copy_claimant(from, to);
    }
    for event in events.each() {
        event.set_counter(to);
    }
    // Waits for forks that have not seen the new counter, so that their children's contexts are in the table.
    drop(table::lock());
    // The number of slots that may still have the old counter. Slots that are inherited from now on get the new one.
    // ATOMICS: relaxed: each context is visited only after the call for the previous context has
    // returned.
    let slots_left = AtomicUsize::new(events.each().map(Event::slot_count).sum());
    let update_slots = |here: Option<ThisCpu<'_>>, slots: &mut Slots| {
        slots_left.fetch_sub(update_counters(here, slots), Relaxed);
    };
    for event in events.one_of_each_target() {
        with_each_context(&event.target, update_slots);
    }
    if events.each().any(|event| event.config.inherit) {
        with_task_contexts(|| slots_left.load(Relaxed) != 0, update_slots);
    }
    for event in events.each() {
        ownership.unshare_counters(event.target.place(), from.bit(), &event.config);
    }
    Ok(())
}
