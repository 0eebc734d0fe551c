// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Turns: the choice of the events that have a counter now, if there are too few counters for all events.
//!
//! The rules are those of Linux perf. The groups of a task or a CPU stand in a row. From the first group on, each group
//! gets counters for all its events, until a group needs more counters than are free. That group and all later groups
//! wait, except groups whose events can share the counters of events that have a turn. A turn lasts from one tick to the
//! next; then the first group goes to the end of the row, and the choice is made again. A group also waits if an event of
//! the groups before it needs another value in an [extra register](super::extra_registers).

use super::core_kinds::{CoreKind, Encodings, MAX_CORE_KINDS};
use super::counter::{counter_bits, each_counter, highest, CounterId, MAX_COUNTERS, MAX_GENERAL};
use super::evtsel::EventSelect;
use super::extra_registers::{ExtraValue, RegisterValues};
use super::sharing::Demand;

/// An event in a row. Events of a row that do not take turns keep their counter. The events of a group are next to each
/// other, the leader first.
pub trait Member {
    /// Returns whether the event takes turns.
    fn takes_turns(&self) -> bool;

    /// Returns the counters that the event may have, as a mask; 0 if it needs no counter.
    fn counters(&self) -> u64;

    /// Returns the demand of the event on a counter. The demand is the same on all general
    /// counters. An event that takes turns is not sampled.
    fn demand_on(&self, counter: CounterId) -> Demand;

    /// Returns the extra register that the event needs, with its value; `None` if it needs none.
    fn extra(&self) -> Option<ExtraValue>;

    /// Returns the index of the group's leader, which is less than the event's index; `None` if the event is the
    /// leader.
    fn leader(&self) -> Option<usize>;

    /// Returns the counter that the event has, or had last.
    fn counter(&self) -> CounterId;

    /// Returns whether the event has a turn.
    fn has_turn(&self) -> bool;

    /// Begins or continues a turn. The event has this counter during the turn.
    fn begin_turn(&mut self, counter: CounterId);

    /// Ends the event's turn, if it has one.
    fn end_turn(&mut self);
}

/// Gives turns to groups, from the group of the member `first` on, until a group does not fit. In a group, the members
/// for which `is_counting` is true get a turn; if it is false for the leader, no member does. Returns whether all groups
/// fit.
///
/// A second call for the same row moves no event to another counter: events move at ticks only.
pub fn give_turns<M: Member>(
    members: &mut [M],
    first: usize,
    is_counting: impl Fn(&[M], usize) -> bool,
) -> bool {
    for member in members.iter_mut().filter(|member| member.takes_turns()) {
        member.end_turn();
    }
    let mut assignment = TurnAssignment::new(members);
    assignment.record_fixed_members(&is_counting);
    // The demands of the groups that have a turn, once a group does not fit.
    let mut demands: Option<DemandSummary> = None;
    for leader in indices_from(assignment.members.len(), first) {
        let is_counting =
            |members: &[M], index| is_counting(members, leader) && is_counting(members, index);
        let may_fit =
            |demands: &DemandSummary| demands.may_be_shared_by(assignment.members, leader);
        if !assignment.is_leader(leader) || !demands.as_ref().is_none_or(may_fit) {
            continue;
        }
        if !assignment.assign_group(leader, is_counting) {
            // Later groups can't have the free counters, since this group has waited longer.
            assignment.free = 0;
            demands.get_or_insert_with(|| DemandSummary::new(&assignment));
        }
    }
    demands.is_none()
}

/// A summary of the demands on counters when no counter is free. A thousand groups may wait: most of them are compared
/// only with this summary, and not with each demand.
struct DemandSummary {
    /// For each kind of core, the [`select_bit`] of each event select on a general counter; all bits if a general counter
    /// has members but none that this kind counts.
    select_bits: [u64; MAX_CORE_KINDS],
    /// The fixed-function counters that have members.
    fixed: u64,
}

impl DemandSummary {
    fn new<M: Member>(assignment: &TurnAssignment<'_, M>) -> Self {
        let mut demands = Self {
            select_bits: [0; MAX_CORE_KINDS],
            fixed: 0,
        };
        for counter in each_counter(!CounterId::NONE.bit()) {
            let members = assignment.members_of(counter);
            if members.count == 0 {
                continue;
            }
            if counter.bit() & GENERAL == 0 {
                demands.fixed |= counter.bit();
                continue;
            }
            for kind in CoreKind::all() {
                let select = assignment.select_on(counter, members, kind);
                demands.select_bits[kind.number()] |= select.map_or(u64::MAX, select_bit);
            }
        }
        demands
    }

    /// Returns whether the member with this index may fit: it needs no counter, or may be able to
    /// share a counter. Returns false only if the member certainly does not fit.
    fn may_be_shared_by<M: Member>(&self, members: &[M], index: usize) -> bool {
        let Some(member) = members.get(index) else {
            return false;
        };
        let counters = member.counters();
        let first_general = || each_counter(counters & GENERAL).next();
        counters == 0
            || counters & self.fixed != 0
            || first_general()
                .is_some_and(|counter| self.may_have(&member.demand_on(counter).encodings))
    }

    /// Returns whether, for each kind of core with an event select in `encodings`, a general
    /// counter may have a member with the same event select, or may have no member that the kind
    /// counts.
    fn may_have(&self, encodings: &Encodings) -> bool {
        CoreKind::all().all(|kind| {
            let select = encodings.for_kind(kind);
            select.is_none_or(|select| self.select_bits[kind.number()] & select_bit(select) != 0)
        })
    }
}

/// The general counters.
const GENERAL: u64 = counter_bits(MAX_GENERAL as u8, 0);

/// Returns one of 64 bits, by an event select: equal event selects have the same bit.
fn select_bit(select: EventSelect) -> u64 {
    1 << ((select.event() ^ u16::from(select.unit_mask())) % 64)
}

/// Returns whether the group of `leader` fits if it is the first group of the row. Ends the turns of all members.
pub fn group_fits<M: Member>(members: &mut [M], leader: usize) -> bool {
    for member in members.iter_mut().filter(|member| member.takes_turns()) {
        member.end_turn();
    }
    TurnAssignment::new(members).assign_group(leader, |_, _| true)
}

/// Returns a member that takes turns, and a counter that it can have in addition, so that a new member gets one of the
/// counters `wanted_counters`. The member found may have one of these counters, or a counter to which members of these
/// counters can move. `free_counters` returns the counters that a member could have and that no event has.
pub fn find_member_to_widen<M: Member>(
    members: &[M],
    wanted_counters: u64,
    free_counters: impl Fn(&M) -> u64,
) -> Option<(&M, CounterId)> {
    let mut reached_counters = wanted_counters;
    loop {
        let reached_before = reached_counters;
        let members = members.iter().filter(|member| member.takes_turns());
        for member in members.filter(|member| member.counters() & reached_before != 0) {
            if let Some(counter) = highest(free_counters(member)) {
                return Some((member, counter));
            }
            reached_counters |= member.counters();
        }
        if reached_counters == reached_before {
            return None;
        }
    }
}

/// Returns the index of the member with which the row begins at the next tick: the member after the leader of the
/// first group that had a turn.
pub fn next_first<M: Member>(members: &[M], first: usize) -> usize {
    let had_turn = |index: &usize| {
        let member = members.get(*index);
        member.is_some_and(|it| it.takes_turns() && it.leader().is_none() && it.has_turn())
    };
    indices_from(members.len(), first)
        .find(had_turn)
        .map_or(first, |index| index + 1)
}

/// Returns the indices of `count` members, from `first` to the end and then from 0.
fn indices_from(count: usize, first: usize) -> impl Iterator<Item = usize> {
    let first = if first < count { first } else { 0 };
    (first..count).chain(0..first)
}

/// The members that have one counter.
#[derive(Clone, Copy)]
struct CounterMembers {
    /// For each kind of core, the index of the first member that this kind counts;
    /// [`Self::NO_INDEX`] if there is none. All members that a kind counts have the same event
    /// select there, so a new member that agrees with the first members agrees with all. There is
    /// one exception: members that do not take turns may have different event selects if they count
    /// a task on different CPUs. A member that takes turns may have their counter only if it agrees
    /// with each of them that counts on its CPU.
    first_on_kind: [u16; MAX_CORE_KINDS],
    /// The number of members with the counter.
    count: u16,
}

impl CounterMembers {
    /// No member.
    const NONE: Self = Self {
        first_on_kind: [Self::NO_INDEX; MAX_CORE_KINDS],
        count: 0,
    };
    /// The value that stands for no member. A row has far fewer than 2^16 members, so it is no
    /// index.
    const NO_INDEX: u16 = u16::MAX;

    /// Returns the indices of some members, which together count on the same kinds of cores as all
    /// members.
    fn representatives(self) -> impl Iterator<Item = usize> {
        let mut last = Self::NO_INDEX;
        self.first_on_kind.into_iter().filter_map(move |index| {
            let is_new = index != Self::NO_INDEX && index != last;
            last = index;
            is_new.then_some(index.into())
        })
    }

    /// Returns the index of one of the members; `None` if there is none.
    fn first(self) -> Option<usize> {
        self.representatives().next()
    }
}

/// A row to which turns are being assigned.
struct TurnAssignment<'a, M> {
    members: &'a mut [M],
    /// The members of each counter, by [`CounterId::index`].
    members_by_counter: [CounterMembers; MAX_COUNTERS],
    /// The counters that no member has, as a mask.
    free: u64,
    /// The values of the extra registers.
    registers: RegisterValues,
}

impl<'a, M: Member> TurnAssignment<'a, M> {
    /// Returns a row in which no member has a turn.
    fn new(members: &'a mut [M]) -> Self {
        Self {
            members,
            members_by_counter: [CounterMembers::NONE; MAX_COUNTERS],
            free: u64::MAX,
            registers: RegisterValues::NONE,
        }
    }

    /// Gives the extra register of a member the value that the member needs. Returns false if the register already has another
    /// value.
    fn set_register(&mut self, index: usize) -> bool {
        match self.members.get(index).and_then(Member::extra) {
            Some(extra) => self.registers.set(extra),
            None => true,
        }
    }

    /// Records the counters and the extra registers of the members that do not take turns.
    fn record_fixed_members(&mut self, is_counting: impl Fn(&[M], usize) -> bool) {
        for index in 0..self.members.len() {
            let member = self.members.get(index).filter(|it| !it.takes_turns());
            let counter = member.map(Member::counter).filter(|it| !it.is_none());
            if let Some(counter) = counter.filter(|_| is_counting(self.members, index)) {
                self.set_register(index);
                self.record_member(index, counter);
            }
        }
    }

    /// Returns whether the member takes turns, and is the leader of its group.
    fn is_leader(&self, index: usize) -> bool {
        let member = self.members.get(index);
        member.is_some_and(|member| member.takes_turns() && member.leader().is_none())
    }

    /// Returns the next member after `index` in the group of `leader`.
    fn next_in_group(&self, leader: usize, index: usize) -> Option<usize> {
        let next = index + 1;
        let next_member = self.members.get(next)?;
        (next_member.leader() == Some(leader)).then_some(next)
    }

    /// Returns the counters that a member may have.
    fn counters(&self, index: usize) -> u64 {
        self.members.get(index).map_or(0, Member::counters)
    }

    /// Gives a turn to the members of a group for which `is_counting` is true. If there are too few
    /// counters for all these members, gives a turn to no member, and returns false.
    fn assign_group(&mut self, leader: usize, is_counting: impl Fn(&[M], usize) -> bool) -> bool {
        let (members_by_counter, free) = (self.members_by_counter, self.free);
        let used_registers = self.registers.used();
        let mut next = Some(leader);
        while let Some(index) = next {
            if is_counting(self.members, index) && !self.assign_counter(index) {
                self.registers.keep_only(used_registers);
                self.undo_group(leader, members_by_counter, free);
                return false;
            }
            next = self.next_in_group(leader, index);
        }
        true
    }

    /// Ends the turns of a group that does not fit, and undoes the moves of other members to other counters.
    fn undo_group(
        &mut self,
        leader: usize,
        members_by_counter: [CounterMembers; MAX_COUNTERS],
        free: u64,
    ) {
        (self.members_by_counter, self.free) = (members_by_counter, free);
        let mut next = Some(leader);
        while let Some(index) = next {
            if let Some(member) = self.members.get_mut(index) {
                member.end_turn();
            }
            next = self.next_in_group(leader, index);
        }
        if free == 0 {
            // Members move only if a counter is free.
            return;
        }
        // Members that share a counter have moved together, and members that do not take turns have not moved.
        let mut counters_before = [CounterId::NONE; MAX_COUNTERS];
        for counter in each_counter(!free) {
            let first = self.members_of(counter).first();
            let member = first.and_then(|first| self.members.get(first));
            if let Some(member) = member.filter(|it| it.takes_turns()) {
                counters_before[member.counter().index()] = counter;
            }
        }
        self.move_all(|counter| match counters_before[counter.index()] {
            CounterId::NONE => counter,
            before => before,
        });
    }

    /// Moves each member that has a turn from its counter to the counter that `new_counter` returns for the old one.
    fn move_all(&mut self, new_counter: impl Fn(CounterId) -> CounterId) {
        let members = self.members.iter_mut();
        for member in members.filter(|member| member.takes_turns() && member.has_turn()) {
            member.begin_turn(new_counter(member.counter()));
        }
    }

    fn members_of(&self, counter: CounterId) -> CounterMembers {
        self.members_by_counter[counter.index()]
    }

    fn begin_turn(&mut self, index: usize, counter: CounterId) {
        if let Some(member) = self.members.get_mut(index) {
            member.begin_turn(counter);
        }
    }

    /// Gives a member one of the counters that it may have, if necessary by moving other members. Returns whether the
    /// member got a counter.
    fn assign_counter(&mut self, index: usize) -> bool {
        if !self.set_register(index) {
            return false;
        }
        let counters = self.counters(index);
        let Some(last) = self.members.get(index).map(Member::counter) else {
            return false;
        };
        if counters == 0 {
            self.begin_turn(index, last);
            return true;
        }
        let can_share = |counter: &CounterId| self.can_share(index, *counter);
        let free = counters & self.free;
        // Prefers the counter that the member had last, because no register has to be written for
        // this counter.
        let counter = each_counter(counters & !self.free)
            .find(can_share)
            .or_else(|| highest(free & last.bit()))
            .or_else(|| highest(free));
        match counter {
            Some(counter) => {
                self.assign(index, counter);
                true
            }
            None => self.make_room(index),
        }
    }

    /// Returns whether a member may share a counter with the members that have the counter now. The
    /// member is not sampled, so it agrees with all members if it agrees with one of each kind of
    /// core.
    fn can_share(&self, index: usize, counter: CounterId) -> bool {
        let members = self.members_of(counter);
        let demand = |index: usize| Some(self.members.get(index)?.demand_on(counter));
        let Some(new) = demand(index).filter(|_| members.count != 0) else {
            return false;
        };
        let agrees = |other| demand(other).is_some_and(|other| new.agrees(other));
        members.representatives().all(agrees)
    }

    /// Returns the event select that a counter has on a kind of core; `None` if the kind counts no
    /// member that has the counter.
    fn select_on(
        &self,
        counter: CounterId,
        members: CounterMembers,
        kind: CoreKind,
    ) -> Option<EventSelect> {
        let first = members.first_on_kind[kind.number()];
        let member = self.members.get(usize::from(first))?;
        member.demand_on(counter).encodings.for_kind(kind)
    }

    /// Returns the members that have this counter: those that have a turn, and those that don't take turns.
    fn members_with(&self, counter: CounterId) -> impl Iterator<Item = &M> {
        let members = self.members.iter();
        members.filter(move |it| it.counter() == counter && (it.has_turn() || !it.takes_turns()))
    }

    /// Returns the counters that all members of a counter may have, so that they could move there together.
    fn common_counters(&self, counter: CounterId) -> u64 {
        let members = self.members_of(counter);
        match (members.count, members.first()) {
            (0, _) | (_, None) => 0,
            (1, Some(first)) => self.counters(first),
            // Members that do not take turns stay.
            _ => self.members_with(counter).fold(u64::MAX, |counters, it| {
                counters & if it.takes_turns() { it.counters() } else { 0 }
            }),
        }
    }

    /// Gives a member a counter that is free, or whose members it agrees with.
    fn assign(&mut self, index: usize, counter: CounterId) {
        self.record_member(index, counter);
        self.begin_turn(index, counter);
    }

    /// Records that a member has a counter.
    fn record_member(&mut self, index: usize, counter: CounterId) {
        let entry = &mut self.members_by_counter[counter.index()];
        entry.count += 1;
        self.free &= !counter.bit();
        if !entry.first_on_kind.contains(&CounterMembers::NO_INDEX) {
            return;
        }
        let Some(member) = self.members.get(index) else {
            return;
        };
        let encodings = member.demand_on(counter).encodings;
        for (kind, first) in CoreKind::all().zip(&mut entry.first_on_kind) {
            if *first == CounterMembers::NO_INDEX && encodings.for_kind(kind).is_some() {
                // CAST: The index fits, since a row has far fewer than 2^16 members.
                *first = index as u16;
            }
        }
    }

    /// Gives a member a counter by a chain of moves: the member gets the counter of other members,
    /// these get the counter of further members, and so on. The last members of the chain get a
    /// free counter. The members that share a counter move together. Returns whether there is such
    /// a chain.
    fn make_room(&mut self, index: usize) -> bool {
        if self.free == 0 {
            return false;
        }
        // For each counter, the counter whose member would move to it.
        let mut moves_from = [CounterId::NONE; MAX_COUNTERS];
        let mut reached_counters = self.counters(index);
        let mut frontier = reached_counters;
        while frontier != 0 {
            let mut next = 0;
            for counter in each_counter(frontier) {
                let new_counters = self.common_counters(counter) & !reached_counters;
                for to in each_counter(new_counters) {
                    moves_from[to.index()] = counter;
                }
                if let Some(free) = highest(new_counters & self.free) {
                    let counter = self.move_members(free, &moves_from);
                    self.assign(index, counter);
                    return true;
                }
                reached_counters |= new_counters;
                next |= new_counters;
            }
            frontier = next;
        }
        false
    }

    /// Moves members along a chain that ends at the counter `free`. Returns the counter at the beginning of the chain,
    /// which no member has after this.
    fn move_members(
        &mut self,
        free: CounterId,
        moves_from: &[CounterId; MAX_COUNTERS],
    ) -> CounterId {
        self.free &= !free.bit();
        let mut to = free;
        loop {
            let counter = moves_from[to.index()];
            if counter.is_none() {
                return to;
            }
            let entry = self.members_of(counter);
            self.members_by_counter[to.index()] = entry;
            self.members_by_counter[counter.index()] = CounterMembers::NONE;
            match entry.first() {
                Some(first) if entry.count == 1 => self.begin_turn(first, to),
                _ => self.move_all(|other| if other == counter { to } else { other }),
            }
            to = counter;
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
mod tests;
