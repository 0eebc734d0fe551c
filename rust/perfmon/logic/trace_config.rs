// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The config of a trace: the rules for `struct perfmon_config`, and the assignment of counters to events.

use super::branch_records::BranchRecords;
use super::core_kinds::{CoreKind, CoreKinds};
use super::counter::{counter_bits, each_counter, highest, CounterId, GENERAL_COUNTERS};
use super::cpuid::Capabilities;
use super::evtsel::EventSelect;
use super::reassign::find_moves;
use super::trace_events::{Definition, Encoding, EventId};
use super::values::MiscEvent;
use crate::abi;

/// The largest number of events in a trace.
pub const MAX_EVENTS: usize = abi::PERFMON_MAX_EVENTS as usize;

/// The rule that a config breaks: `EINVAL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidConfig {
    /// The first event is `PERFMON_EVENT_ID_NONE`.
    NoEvent,
    /// An entry after the first `PERFMON_EVENT_ID_NONE` is not zero.
    AfterTheEnd,
    /// A flag is undefined.
    Flag,
    /// An event is undefined, or these CPUs can't count it.
    Event,
    /// An event occurs twice.
    Twice,
    /// The config needs more counters than the CPUs have, or two events need the same counter.
    TooMany,
    /// A rate is larger than the counter's range, or an event without a counter has a rate.
    Rate,
    /// An event that is not sampled requests branch records, or the CPUs can't record branches in the event's modes.
    LastBranch,
    /// Events in different modes request branch records, but a CPU has one filter for all branches.
    LastBranchModes,
    /// An event follows the timebase, but the first event has no rate, or not all CPUs that count the event count the
    /// first event.
    Timebase,
}

/// The counters that can count an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterChoice {
    /// One of these general counters.
    General(u64),
    /// This counter only.
    Only(CounterId),
    /// No counter: the event is a value, which has a register of its own.
    Value(MiscEvent),
}

impl CounterChoice {
    /// Returns the bits of the counters, which are 0 for a value.
    const fn bits(self) -> u64 {
        match self {
            Self::General(counters) => counters,
            Self::Only(counter) => counter.bit(),
            Self::Value(_) => 0,
        }
    }
}

/// The occasions on which records of an event are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventRole {
    /// One record each time that this number of events has been counted.
    Sampled(u32),
    /// One record with the sum, when the trace stops.
    Counted,
    /// One record with each sample of the first event, the timebase.
    FollowsTimebase,
}

/// One event of a [`Config`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigEvent {
    /// The id of the event in its records.
    pub id: EventId,
    /// The event select, with the modes.
    pub select: EventSelect,
    /// The kind of core that counts the event; `None` for all CPUs.
    pub kind: Option<CoreKind>,
    /// The counters that can count the event.
    pub counters: CounterChoice,
    /// The occasions on which records are written.
    pub role: EventRole,
    /// Samples are PC records instead of TICK records.
    pub pc: bool,
    /// Samples are followed by a LAST_BRANCH record.
    pub last_branch: bool,
}

impl ConfigEvent {
    /// Returns whether the CPUs of a kind count the event.
    #[must_use]
    pub fn counts_on(&self, kind: CoreKind) -> bool {
        self.kind.is_none_or(|own| own == kind)
    }
}

/// A config that these CPUs can record.
///
/// # Invariants
///
/// - There are enough counters: with all counters free, [`Self::assign`] has one for each event.
/// - All events with `last_branch` are sampled, and have the same modes.
/// - Only [`Self::EMPTY`] has no event.
#[derive(Clone, Copy)]
pub struct Config {
    events: [Option<ConfigEvent>; MAX_EVENTS],
}

/// Returns the largest rate of an event: the largest number of events that its counter can be loaded for, or 0 for a value.
fn max_rate(cpus: &Capabilities, counters: CounterChoice) -> u64 {
    let width = match counters {
        CounterChoice::General(_) => cpus.general_width,
        CounterChoice::Only(_) => cpus.fixed_width,
        CounterChoice::Value(_) => return 0,
    };
    let range = (1 << width.min(63)) - 1;
    if cpus.full_width_writes {
        range
    } else {
        range.min(1 << 31)
    }
}

impl Config {
    /// The config without events.
    pub const EMPTY: Self = Self {
        events: [None; MAX_EVENTS],
    };

    /// Checks `raw` and returns it as a config of CPUs that all have the capabilities `cpus`, and are of these `kinds`.
    /// `find_definition` looks up the events that programs have defined.
    ///
    /// # Errors
    ///
    /// The first rule that `raw` breaks.
    pub fn new(
        raw: &abi::perfmon_config,
        cpus: &Capabilities,
        kinds: &CoreKinds,
        find_definition: impl Fn(EventId) -> Option<Definition>,
    ) -> Result<Self, InvalidConfig> {
        let mut this = Self::EMPTY;
        this.set(raw, cpus, kinds, find_definition).map(|()| this)
    }

    /// Makes this the checked config of `raw`, as [`Self::new`] does. Works in place, since a config is too large for
    /// the kernel's stack.
    ///
    /// # Errors
    ///
    /// The first rule that `raw` breaks; the config is then empty.
    pub fn set(
        &mut self,
        raw: &abi::perfmon_config,
        cpus: &Capabilities,
        kinds: &CoreKinds,
        find_definition: impl Fn(EventId) -> Option<Definition>,
    ) -> Result<(), InvalidConfig> {
        let result = self.fill_events(raw, cpus, kinds, find_definition);
        if result.is_err() {
            *self = Self::EMPTY;
        }
        result
    }

    /// Makes this the checked config of `raw`, as [`Self::set`] does. On errors, a part of the events is left in the config.
    fn fill_events(
        &mut self,
        raw: &abi::perfmon_config,
        cpus: &Capabilities,
        kinds: &CoreKinds,
        find_definition: impl Fn(EventId) -> Option<Definition>,
    ) -> Result<(), InvalidConfig> {
        let count = count_events(raw)?;
        *self = Self::EMPTY;
        for (n, ((&id, &rate), &flags)) in rows(raw).take(count).enumerate() {
            if raw.events[..n].contains(&id) {
                return Err(InvalidConfig::Twice);
            }
            let timebase_rate = (n != 0).then_some(raw.rate[0]);
            let event = check_event(
                EventId(id),
                rate,
                flags,
                timebase_rate,
                cpus,
                kinds,
                &find_definition,
            )?;
            self.events[n] = Some(event);
        }
        // The first event may have the flag as well: it is the timebase itself.
        if raw.flags[0] & abi::PERFMON_CONFIG_FLAG_TIMEBASE0 != 0 && raw.rate[0] == 0 {
            return Err(InvalidConfig::Timebase);
        }
        self.check_together()?;
        // INVARIANT: Counters, roles and modes were just checked.
        Ok(())
    }

    /// Checks the rules for all events together: the number of counters, the kind of core of the timebase, and the modes
    /// of branches. To be called after each event was checked by itself.
    fn check_together(&self) -> Result<(), InvalidConfig> {
        if self.assign(u64::MAX).is_none() {
            return Err(InvalidConfig::TooMany);
        }
        let timebase_kind = self.events().next().and_then(|timebase| timebase.kind);
        let is_off_timebase =
            |e: &ConfigEvent| e.role == EventRole::FollowsTimebase && e.kind != timebase_kind;
        if timebase_kind.is_some() && self.events().any(is_off_timebase) {
            return Err(InvalidConfig::Timebase);
        }
        let mut branches = self.events().filter(|e| e.last_branch);
        if let Some(first) = branches.next() {
            let modes = |e: &ConfigEvent| (e.select.is_user(), e.select.is_kernel());
            if branches.any(|e| modes(e) != modes(first)) {
                return Err(InvalidConfig::LastBranchModes);
            }
        }
        Ok(())
    }

    /// Returns the events, in the order of `struct perfmon_config`.
    pub fn events(&self) -> impl Iterator<Item = &ConfigEvent> {
        self.events.iter().flatten()
    }

    /// Returns whether any event is counted in kernel mode.
    #[must_use]
    pub fn has_kernel(&self) -> bool {
        self.events().any(|e| e.select.is_kernel())
    }

    /// Returns the set of the values for whose role `matches` is true.
    pub fn values(&self, matches: impl Fn(EventRole) -> bool) -> u16 {
        self.events()
            .filter_map(|e| match e.counters {
                CounterChoice::Value(value) if matches(e.role) => Some(value.bit()),
                _ => None,
            })
            .fold(0, |set, bit| set | bit)
    }

    /// Returns an event with branch records, if there is one. All events with branch records have the same modes.
    #[must_use]
    pub fn last_branch(&self) -> Option<&ConfigEvent> {
        self.events().find(|e| e.last_branch)
    }

    /// Assigns one of the counters of the mask `free` to each event: an event of a fixed-function
    /// counter gets that counter, an event of all CPUs the lowest general counter, and an event of
    /// one kind of core the highest general counter that can count it. General counters are
    /// numbered from 0 on each kind, so an event of one kind leaves the counters that more kinds
    /// have to other events, if it can. If none of the counters that can count an event is free,
    /// earlier events move to other counters that can count them.
    ///
    /// The result has a counter for each of [`Self::events`], in their order, and `None` for a
    /// value. The whole result is `None` if no assignment of the counters in `free` has a counter
    /// for each event.
    #[must_use]
    pub fn assign(&self, free: u64) -> Option<[Option<CounterId>; MAX_EVENTS]> {
        let mut available_counters = free;
        let mut assigned_counters = [None; MAX_EVENTS];
        for (n, event) in self.events().enumerate() {
            if matches!(event.counters, CounterChoice::Value(_)) {
                continue;
            }
            let wanted_counters = event.counters.bits() & free;
            let available_here = wanted_counters & available_counters;
            let available_counter = match event.kind {
                None => each_counter(available_here).next(),
                Some(_) => highest(available_here),
            };
            let counter = if let Some(counter) = available_counter {
                counter
            } else {
                let targets_of =
                    |counter| self.counters_of_user(&assigned_counters, counter) & free;
                let moves = find_moves(wanted_counters, available_counters, targets_of)?;
                for (from, to) in moves.each() {
                    let mut places = assigned_counters.iter_mut();
                    if let Some(place) = places.find(|place| **place == Some(from)) {
                        *place = Some(to);
                    }
                    available_counters = available_counters & !to.bit() | from.bit();
                }
                moves.freed_counter()
            };
            available_counters &= !counter.bit();
            assigned_counters[n] = Some(counter);
        }
        Some(assigned_counters)
    }

    /// Returns the counters that can count the event to which `counter` is assigned, as a mask.
    fn counters_of_user(
        &self,
        assigned_counters: &[Option<CounterId>; MAX_EVENTS],
        counter: CounterId,
    ) -> u64 {
        let mut pairs = self.events().zip(assigned_counters);
        let user = pairs.find(|(_, assigned)| **assigned == Some(counter));
        user.map_or(0, |(event, _)| event.counters.bits())
    }
}

/// Returns the id, the rate and the flags of each event of a config.
fn rows(raw: &abi::perfmon_config) -> impl Iterator<Item = ((&u16, &u32), &u32)> {
    raw.events.iter().zip(&raw.rate).zip(&raw.flags)
}

/// Returns the number of events.
///
/// # Errors
///
/// [`InvalidConfig::NoEvent`] if there is no event, [`InvalidConfig::AfterTheEnd`] if an entry after the last event is not
/// zero.
fn count_events(raw: &abi::perfmon_config) -> Result<usize, InvalidConfig> {
    let none_id = EventId::NONE.0;
    let count = raw.events.iter().take_while(|&&id| id != none_id).count();
    if count == 0 {
        return Err(InvalidConfig::NoEvent);
    }
    let is_set = |((&id, &rate), &flags)| id != none_id || rate != 0 || flags != 0;
    if rows(raw).skip(count).any(is_set) {
        return Err(InvalidConfig::AfterTheEnd);
    }
    Ok(count)
}

/// Checks one event. `timebase_rate` is the rate of the first event; `None` for the first event itself.
fn check_event(
    id: EventId,
    rate: u32,
    flags: u32,
    timebase_rate: Option<u32>,
    cpus: &Capabilities,
    kinds: &CoreKinds,
    find_definition: impl Fn(EventId) -> Option<Definition>,
) -> Result<ConfigEvent, InvalidConfig> {
    let has_flag = |flag| flags & flag != 0;
    if has_flag(!abi::PERFMON_CONFIG_FLAG_MASK) {
        return Err(InvalidConfig::Flag);
    }
    let definition = find_definition(id);
    let kind = definition.and_then(|definition| definition.kind);
    let counters_of_cpus = match kind {
        None => counter_bits(cpus.general_count, 0),
        Some(kind) => kinds.counters(kind),
    };
    let general =
        counters_of_cpus & definition.map_or(GENERAL_COUNTERS, |definition| definition.general);
    let (select, counters) = match id.encoding(cpus, find_definition) {
        None => return Err(InvalidConfig::Event),
        Some(Encoding::General(select)) => (select, CounterChoice::General(general)),
        Some(Encoding::Fixed(counter)) => (EventSelect::new(0, 0), CounterChoice::Only(counter)),
        Some(Encoding::Value(value)) => (EventSelect::new(0, 0), CounterChoice::Value(value)),
    };
    let is_value = matches!(counters, CounterChoice::Value(_));
    let role = match timebase_rate {
        Some(0) if has_flag(abi::PERFMON_CONFIG_FLAG_TIMEBASE0) => {
            return Err(InvalidConfig::Timebase)
        }
        Some(_) if has_flag(abi::PERFMON_CONFIG_FLAG_TIMEBASE0) => EventRole::FollowsTimebase,
        _ if rate == 0 => EventRole::Counted,
        _ if u64::from(rate) > max_rate(cpus, counters) => return Err(InvalidConfig::Rate),
        _ => EventRole::Sampled(rate),
    };
    let is_sampled = matches!(role, EventRole::Sampled(_));
    let last_branch = has_flag(abi::PERFMON_CONFIG_FLAG_LAST_BRANCH);
    let can_record = |records: BranchRecords| {
        is_sampled && (records.has_kernel() || !has_flag(abi::PERFMON_CONFIG_FLAG_OS))
    };
    if last_branch && !cpus.last_branch.is_some_and(can_record) {
        return Err(InvalidConfig::LastBranch);
    }
    Ok(ConfigEvent {
        id,
        select: select.with_modes(
            !is_value && has_flag(abi::PERFMON_CONFIG_FLAG_USER),
            !is_value && has_flag(abi::PERFMON_CONFIG_FLAG_OS),
        ),
        kind,
        counters,
        role,
        // Only a sample has an instruction pointer. The flag of an event that is not sampled is ignored.
        pc: is_sampled && has_flag(abi::PERFMON_CONFIG_FLAG_PC),
        last_branch,
    })
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_config))]
mod tests {
    use super::super::cpuid::Microarchitecture;
    use super::*;
    use abi::{
        PERFMON_CONFIG_FLAG_LAST_BRANCH as LBR, PERFMON_CONFIG_FLAG_OS as OS,
        PERFMON_CONFIG_FLAG_PC as PC, PERFMON_CONFIG_FLAG_TIMEBASE0 as TIMEBASE0,
        PERFMON_CONFIG_FLAG_USER as USER,
    };

    const CPU: Capabilities = Capabilities {
        general_count: 2,
        general_width: 24,
        fixed: 0b111,
        fixed_width: 48,
        arch_events: 0x7f,
        full_width_writes: true,
        last_branch: Some(BranchRecords::Stack),
        ..Capabilities::NONE
    };

    const ARCH: u16 = (abi::PERFMON_GROUP_ARCH as u16) << 10;
    const FIXED: u16 = (abi::PERFMON_GROUP_FIXED as u16) << 10;

    type Rows<'a> = &'a [(u16, u32, u32)];

    fn raw_config(rows: Rows<'_>) -> abi::perfmon_config {
        let mut raw = abi::perfmon_config {
            events: [0; MAX_EVENTS],
            rate: [0; MAX_EVENTS],
            flags: [0; MAX_EVENTS],
        };
        for (n, &(id, rate, flags)) in rows.iter().enumerate() {
            raw.events[n] = id;
            raw.rate[n] = rate;
            raw.flags[n] = flags;
        }
        raw
    }

    fn config_of(cpus: &Capabilities, rows: Rows<'_>) -> Result<Config, InvalidConfig> {
        Config::new(&raw_config(rows), cpus, &CoreKinds::one(cpus), |_| None)
    }

    fn refusal(rows: Rows<'_>) -> Option<InvalidConfig> {
        config_of(&CPU, rows).err()
    }

    #[test]
    fn each_rule_refuses_its_config() {
        use super::InvalidConfig as R;
        let cases: [(Rows<'_>, R); 17] = [
            (&[], R::NoEvent),
            (&[(0, 0, 0), (ARCH, 0, USER)], R::NoEvent),
            (
                &[(ARCH, 0, USER), (0, 0, 0), (ARCH + 1, 0, USER)],
                R::AfterTheEnd,
            ),
            (&[(ARCH, 0, USER), (0, 1, 0)], R::AfterTheEnd),
            (&[(ARCH, 0, USER), (0, 0, 0), (0, 0, USER)], R::AfterTheEnd),
            (&[(ARCH, 0, USER | 0x20)], R::Flag),
            (&[(ARCH + 7, 0, USER)], R::Event),
            (&[(1, 0, USER)], R::Event),
            (&[(ARCH, 0, USER), (ARCH, 9, USER)], R::Twice),
            (
                &[(ARCH, 0, USER), (ARCH + 1, 0, USER), (ARCH + 2, 0, USER)],
                R::TooMany,
            ),
            (&[(ARCH, 0x100_0000, USER)], R::Rate),
            (&[(ARCH, 0, USER | LBR)], R::LastBranch),
            (
                &[(ARCH, 9, USER), (ARCH + 1, 9, USER | LBR | TIMEBASE0)],
                R::LastBranch,
            ),
            (
                &[(ARCH, 9, USER | LBR), (ARCH + 1, 9, OS | LBR)],
                R::LastBranchModes,
            ),
            (&[(ARCH, 0, USER | TIMEBASE0)], R::Timebase),
            (
                &[(ARCH, 0, USER), (ARCH + 1, 9, USER | TIMEBASE0)],
                R::Timebase,
            ),
            ((&[(ARCH, 9, 1 << 31)]), R::Flag),
        ];
        for (rows, expected) in cases {
            assert_eq!(refusal(rows), Some(expected));
        }
    }

    #[test]
    fn refused_config_is_empty() {
        let mut config = Config::EMPTY;
        let valid_config = raw_config(&[(ARCH, 9, USER), (ARCH + 1, 9, USER)]);
        let config_with_duplicate = raw_config(&[(ARCH, 9, USER), (ARCH, 9, USER)]);
        let kinds = CoreKinds::one(&CPU);
        assert!(config.set(&valid_config, &CPU, &kinds, |_| None).is_ok());
        assert_eq!(config.events().count(), 2);
        assert_eq!(
            config.set(&config_with_duplicate, &CPU, &kinds, |_| None),
            Err(InvalidConfig::Twice)
        );
        assert_eq!(config.events().count(), 0);
    }

    #[test]
    fn branch_records_need_hardware() {
        let rows: Rows<'_> = &[(FIXED + 1, 9, USER | LBR)];
        assert_eq!(refusal(rows), None);
        let without_branches = Capabilities {
            last_branch: None,
            ..CPU
        };
        assert_eq!(
            config_of(&without_branches, rows).err(),
            Some(InvalidConfig::LastBranch)
        );
        let unfrozen = Capabilities {
            last_branch: Some(BranchRecords::Amd {
                depth: 16,
                address_bits: 48,
                freezes: false,
            }),
            ..CPU
        };
        assert_eq!(config_of(&unfrozen, rows).err(), None);
        let kernel_rows: Rows<'_> = &[(FIXED + 1, 9, USER | OS | LBR)];
        assert_eq!(
            config_of(&unfrozen, kernel_rows).err(),
            Some(InvalidConfig::LastBranch)
        );
    }

    #[test]
    fn values_take_no_counter_and_no_rate() {
        const MISC: u16 = (abi::PERFMON_GROUP_MISC as u16) << 10;
        const ENERGY: u16 = MISC + 32;
        const APERF: u16 = ENERGY + 8;

        let cpus = Capabilities {
            values: 1 << 8 | 1 << 0,
            ..CPU
        };
        let refusal = |rows| config_of(&cpus, rows).err();
        assert_eq!(refusal(&[(ENERGY, 0, 0), (APERF, 0, USER)]), None);
        assert_eq!(refusal(&[(ENERGY + 1, 0, 0)]), Some(InvalidConfig::Event));
        assert_eq!(refusal(&[(MISC, 0, 0)]), Some(InvalidConfig::Event));
        assert_eq!(refusal(&[(ENERGY, 1, 0)]), Some(InvalidConfig::Rate));
        // A value can't be the timebase.
        assert_eq!(
            refusal(&[(ENERGY, 0, 0), (ARCH, 0, USER | TIMEBASE0)]),
            Some(InvalidConfig::Timebase)
        );
        assert_eq!(
            refusal(&[(ENERGY, 1, TIMEBASE0)]),
            Some(InvalidConfig::Rate)
        );
        assert_eq!(
            refusal(&[(ARCH, 9, USER), (ENERGY, 0, LBR | TIMEBASE0)]),
            Some(InvalidConfig::LastBranch)
        );
        let rows: Rows<'_> = &[
            (ARCH, 9, USER),
            (ENERGY, 7, OS | TIMEBASE0),
            (ARCH + 1, 0, USER),
            (APERF, 0, USER | OS | PC),
        ];
        assert!(config_of(&cpus, rows).is_ok_and(|config| {
            let assigned = config
                .assign(0b11)
                .map(|all| all.map(|id| id.map(CounterId::index)));
            assigned.is_some_and(|all| all[..4] == [Some(0), None, Some(1), None])
                && config.values(|role| role == EventRole::FollowsTimebase) == 1
                && config.values(|_| true) == 1 << 8 | 1
                && !config.has_kernel()
        }));
    }

    #[test]
    fn rates_are_limited_by_the_bits_that_writes_set() {
        let without_full_writes = Capabilities {
            full_width_writes: false,
            ..CPU
        };
        let refusal_of_rate =
            |rate| config_of(&without_full_writes, &[(FIXED + 1, rate, USER)]).err();
        assert_eq!(refusal_of_rate(1 << 31), None);
        assert_eq!(refusal_of_rate((1 << 31) + 1), Some(InvalidConfig::Rate));
        assert_eq!(refusal(&[(FIXED + 1, u32::MAX, USER)]), None);
        assert_eq!(refusal(&[(ARCH, 0xff_ffff, USER)]), None);
        // The rate of an event that follows the timebase is ignored.
        assert_eq!(
            refusal(&[(FIXED + 1, 9, USER), (ARCH, u32::MAX, TIMEBASE0)]),
            None
        );
    }

    #[test]
    fn roles_follow_from_flags_and_rates() {
        let config = config_of(
            &CPU,
            &[
                (FIXED + 2, 9, USER | OS | PC | TIMEBASE0 | LBR),
                (ARCH + 1, 7, USER | PC | TIMEBASE0),
                (FIXED + 1, 0, OS | PC),
                (ARCH, 5, 0),
            ],
        );
        let roles = [
            EventRole::Sampled(9),
            EventRole::FollowsTimebase,
            EventRole::Counted,
            EventRole::Sampled(5),
        ];
        assert!(config.is_ok_and(|config| {
            config.events().map(|e| e.role).eq(roles)
                && config
                    .events()
                    .map(|e| e.pc)
                    .eq([true, false, false, false])
                && config.last_branch().map(|e| e.id) == Some(EventId(FIXED + 2))
                && config.has_kernel()
        }));
    }

    /// A hybrid processor: small cores, whose counters all CPUs have, and big cores with more.
    const SMALL: Capabilities = Capabilities {
        microarchitecture: Microarchitecture::Skymont,
        ..CPU
    };
    const BIG: Capabilities = Capabilities {
        microarchitecture: Microarchitecture::LionCove,
        general_count: 4,
        fixed: 0b1111,
        ..CPU
    };
    const MODEL: u16 = (abi::PERFMON_GROUP_MODEL as u16) << 10;

    /// Returns the config on this processor. Events with numbers below 10 are defined on the big cores, and those from 30
    /// on are the event of fixed-function counter 3 there. Other numbers are defined on the small cores.
    fn config_of_kinds(rows: Rows<'_>) -> Result<Config, InvalidConfig> {
        let mut kinds = CoreKinds::NONE;
        let (big, small) = (kinds.add(&BIG), kinds.add(&SMALL));
        let definition = |id: EventId| match (id.group(), id.number()) {
            (abi::PERFMON_GROUP_MODEL, 0..10) => {
                Definition::on_kind(EventSelect::new(0xd0, 0x81), big, &BIG).ok()
            }
            (abi::PERFMON_GROUP_MODEL, 30..) => {
                Definition::on_kind(EventSelect::new(0, 4), big, &BIG).ok()
            }
            (abi::PERFMON_GROUP_MODEL, _) => {
                Definition::on_kind(EventSelect::new(0xd0, 0x81), small, &SMALL).ok()
            }
            _ => None,
        };
        Config::new(
            &raw_config(rows),
            &BIG.intersection(SMALL),
            &kinds,
            definition,
        )
    }

    /// Returns the indices of the counters that the first four events get.
    fn assigned_on_kinds(rows: Rows<'_>, free: u64) -> Option<[Option<usize>; 4]> {
        let assigned = config_of_kinds(rows).ok()?.assign(free)?;
        Some([0, 1, 2, 3].map(|n| assigned[n].map(CounterId::index)))
    }

    #[test]
    fn events_of_one_kind_get_its_counters() {
        let big_and_common: Rows<'_> = &[
            (MODEL, 0, USER),
            (ARCH, 0, USER),
            (MODEL + 1, 0, USER),
            (ARCH + 1, 0, USER),
        ];
        assert_eq!(
            assigned_on_kinds(big_and_common, u64::MAX),
            Some([Some(3), Some(0), Some(2), Some(1)])
        );
        let small_and_fixed: Rows<'_> = &[
            (MODEL + 10, 0, USER),
            (MODEL + 11, 0, USER),
            (MODEL + 1, 0, USER),
            (MODEL + 30, 0, USER),
        ];
        assert_eq!(
            assigned_on_kinds(small_and_fixed, u64::MAX),
            Some([Some(1), Some(0), Some(3), Some(35)])
        );
        // The counters that only big cores have are taken.
        assert_eq!(assigned_on_kinds(small_and_fixed, !0xc), None);
        assert!(config_of_kinds(big_and_common).is_ok_and(|config| {
            let big = config.events().map(|e| e.counts_on(CoreKind::FIRST));
            let small = CoreKind::new(1);
            let on_small = config.events().map(|e| small.map(|kind| e.counts_on(kind)));
            big.eq([true; 4]) && on_small.eq([false, true, false, true].map(Some))
        }));
    }

    #[test]
    fn kinds_have_as_many_events_as_counters() {
        let refusal = |rows: Rows<'_>| config_of_kinds(rows).err();
        let small = |n| (MODEL + 10 + n, 0, USER);
        assert_eq!(refusal(&[small(0), small(1)]), None);
        assert_eq!(
            refusal(&[small(0), small(1), small(2)]),
            Some(InvalidConfig::TooMany)
        );
        assert_eq!(
            refusal(&[small(0), small(1), (ARCH, 0, USER)]),
            Some(InvalidConfig::TooMany)
        );
        let big = |n| (MODEL + n, 0, USER);
        assert_eq!(refusal(&[big(0), big(1), big(2), big(3)]), None);
        assert_eq!(
            refusal(&[big(0), big(1), big(2), big(3), big(4)]),
            Some(InvalidConfig::TooMany)
        );
        // The two events have one counter.
        assert_eq!(
            refusal(&[(MODEL + 30, 0, USER), (MODEL + 31, 0, USER)]),
            Some(InvalidConfig::TooMany)
        );
    }

    /// A hybrid processor whose big cores limit some events to a part of their counters.
    const GOLDEN_COVE: Capabilities = Capabilities {
        microarchitecture: Microarchitecture::GoldenCove,
        general_count: 8,
        ..CPU
    };
    const GRACEMONT: Capabilities = Capabilities {
        microarchitecture: Microarchitecture::Gracemont,
        general_count: 6,
        ..CPU
    };

    /// Returns the indices of the counters that get the events of these event selects, which count on the big cores, and
    /// then `common_events` architectural events of all CPUs.
    fn assigned_on_golden_cove(
        selects: &[EventSelect],
        common_events: u16,
    ) -> Option<[Option<usize>; 9]> {
        let mut kinds = CoreKinds::NONE;
        let (big, _) = (kinds.add(&GOLDEN_COVE)?, kinds.add(&GRACEMONT)?);
        let definition = |id: EventId| {
            let select = selects.get(id.number() as usize)?;
            let is_defined = id.group() == abi::PERFMON_GROUP_MODEL;
            let definition = Definition::on_kind(*select, Some(big), &GOLDEN_COVE).ok()?;
            is_defined.then_some(definition)
        };
        let mut raw = raw_config(&[]);
        let defined_ids = (MODEL..).take(selects.len());
        let ids = defined_ids.chain((ARCH..).take(common_events.into()));
        for (place, id) in raw.events.iter_mut().zip(ids) {
            *place = id;
        }
        let common = GOLDEN_COVE.intersection(GRACEMONT);
        let config = Config::new(&raw, &common, &kinds, definition).ok()?;
        let assigned = config.assign(u64::MAX)?;
        Some([0, 1, 2, 3, 4, 5, 6, 7, 8].map(|n| assigned[n].map(CounterId::index)))
    }

    #[test]
    fn events_of_one_kind_get_counters_that_can_count_them() {
        let loads = EventSelect::new(0xd0, 0x81);
        let first_counters = |selects: &[EventSelect], common_events| {
            assigned_on_golden_cove(selects, common_events)
                .map(|all| [all[0], all[1], all[2], all[3]])
        };
        assert_eq!(
            first_counters(&[loads], 0),
            Some([Some(3), None, None, None])
        );
        // The events can use counters 0 to 3 only: four events fit, and five do not.
        assert_eq!(
            first_counters(&[loads; 4], 0),
            Some([Some(3), Some(2), Some(1), Some(0)])
        );
        assert_eq!(first_counters(&[loads; 5], 0), None);
        // Stores can use counter 0 only, which three loads leave free.
        let stores = EventSelect::new(0xce, 0x01);
        assert_eq!(
            first_counters(&[loads, loads, loads, stores], 0),
            Some([Some(3), Some(2), Some(1), Some(0)])
        );
        assert_eq!(
            first_counters(&[loads, loads, loads, loads, stores], 0),
            None
        );
        assert_eq!(first_counters(&[stores, stores], 0), None);
    }

    #[test]
    fn events_move_for_those_with_fewer_counters() {
        let loads = EventSelect::new(0xd0, 0x81);
        let branches = EventSelect::new(0xc4, 0x00);
        let indices = assigned_on_golden_cove(&[branches, branches, loads, loads], 4);
        let mut used = 0_u64;
        for index in indices.iter().flatten().flatten() {
            used |= 1 << index;
        }
        // All eight events have a counter of their own.
        assert_eq!(used, 0xff);
        assert!(indices.is_some_and(|all| {
            let is_below = |index: Option<usize>, end| index.is_some_and(|index| index < end);
            let events_of_all = &all[4..8];
            is_below(all[2], 4)
                && is_below(all[3], 4)
                && events_of_all.iter().all(|index| is_below(*index, 6))
        }));
        // Stores can use counter 0 only. The event of branches takes the highest counter, so
        // counter 0 is free.
        let store_last = [branches, EventSelect::new(0xce, 0x01)];
        assert_eq!(
            assigned_on_golden_cove(&store_last, 0).map(|all| [all[0], all[1]]),
            Some([Some(7), Some(0)])
        );
    }

    #[test]
    fn events_follow_a_timebase_of_their_kind() {
        let refusal = |rows: Rows<'_>| config_of_kinds(rows).err();
        let follow = USER | TIMEBASE0;
        assert_eq!(refusal(&[(ARCH, 9, USER), (MODEL, 0, follow)]), None);
        assert_eq!(refusal(&[(MODEL, 9, USER), (MODEL + 1, 0, follow)]), None);
        assert_eq!(refusal(&[(MODEL, 9, USER), (ARCH, 0, USER)]), None);
        for follower in [ARCH, MODEL + 10] {
            assert_eq!(
                refusal(&[(MODEL, 9, USER), (follower, 0, follow)]),
                Some(InvalidConfig::Timebase)
            );
        }
    }

    /// Returns the indices of the counters that three events get if the counters of `free` are available.
    fn assigned_indices(free: u64) -> Option<[Option<usize>; 3]> {
        let rows: Rows<'_> = &[(ARCH + 1, 9, USER), (FIXED + 2, 0, USER), (ARCH, 0, USER)];
        let cpu = Capabilities {
            general_count: 4,
            ..CPU
        };
        let assigned = config_of(&cpu, rows).ok()?.assign(free)?;
        Some([0, 1, 2].map(|n| assigned[n].map(CounterId::index)))
    }

    #[test]
    fn events_get_the_lowest_free_counters() {
        let all = 0b111 << 32;
        assert_eq!(
            assigned_indices(all | 0b11),
            Some([Some(0), Some(33), Some(1)])
        );
        assert_eq!(
            assigned_indices(all | 0b1010),
            Some([Some(1), Some(33), Some(3)])
        );
        assert_eq!(assigned_indices(all | 0b10), None);
        assert_eq!(assigned_indices(0b101 << 32 | 0b11), None);
    }
}
