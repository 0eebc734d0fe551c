// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! What a trace records: the rules for `struct perfmon_config`, and which counters its events get.

use super::counter::{each, CounterId};
use super::cpuid::Capabilities;
use super::events::{Event, EventId};
use super::evtsel::EventSelect;
use crate::abi;

/// The most events of one trace.
pub const MAX_EVENTS: usize = abi::PERFMON_MAX_EVENTS as usize;

/// Why a config is refused. All are `EINVAL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no event.
    NoEvent,
    /// There is something after the first `PERFMON_EVENT_ID_NONE`.
    AfterTheEnd,
    /// A flag that does not exist.
    Flag,
    /// An event that these CPUs don't have.
    Event,
    /// An event for the second time.
    Twice,
    /// More events than there are counters for them.
    TooMany,
    /// A rate larger than the counter.
    Rate,
    /// Branch records where there are none, or of an event that does not tick.
    LastBranch,
    /// Branch records of events in different modes: a CPU has one filter for them.
    LastBranchModes,
    /// A timebase without a rate.
    Timebase,
}

/// Where an event is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In any general counter.
    General,
    /// In this counter.
    Only(CounterId),
}

/// When records of an event are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Each time that as many events have been counted.
    Ticks(u32),
    /// At the end.
    Tallies,
    /// Whenever the first event ticks.
    Depends,
}

/// One event of a [`Config`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its name in the records.
    pub id: EventId,
    /// What is counted, and in which modes.
    pub select: EventSelect,
    /// Where.
    pub place: Place,
    /// When it is recorded.
    pub role: Role,
    /// Its ticks are PC records.
    pub pc: bool,
    /// Its ticks are followed by a LAST_BRANCH record.
    pub last_branch: bool,
}

/// A config that can be recorded on these CPUs.
///
/// # Invariants
///
/// No two events need the same fixed-function counter, and no more need a general one than there are. All
/// with `last_branch` tick, and have the same modes. Only [`Self::EMPTY`] has no event.
#[derive(Clone, Copy)]
pub struct Config {
    events: [Option<Recorded>; MAX_EVENTS],
}

/// The largest rate of an event that is counted at `place`: what a counter can be loaded with.
fn largest_rate(c: &Capabilities, place: Place) -> u64 {
    let width = match place {
        Place::General => c.general_width,
        Place::Only(_) => c.fixed_width,
    };
    let all = (1 << width.min(63)) - 1;
    if c.full_width_writes {
        all
    } else {
        all.min(1 << 31)
    }
}

impl Config {
    /// Records nothing.
    pub const EMPTY: Self = Self {
        events: [None; MAX_EVENTS],
    };

    /// What `raw` asks for, of CPUs that all have `cpus`; `defined` knows the events that the program has defined.
    ///
    /// # Errors
    ///
    /// [`Refused`] tells which rule it breaks.
    pub fn new(
        raw: &abi::perfmon_config,
        cpus: &Capabilities,
        defined: impl Fn(EventId) -> Option<EventSelect>,
    ) -> Result<Self, Refused> {
        let mut this = Self::EMPTY;
        this.set(raw, cpus, defined).map(|()| this)
    }

    /// Becomes what [`Self::new`] returns, in place: where stacks are small, a config belongs on the heap.
    ///
    /// # Errors
    ///
    /// As [`Self::new`]; it is empty then.
    pub fn set(
        &mut self,
        raw: &abi::perfmon_config,
        cpus: &Capabilities,
        defined: impl Fn(EventId) -> Option<EventSelect>,
    ) -> Result<(), Refused> {
        let result = self.fill(raw, cpus, defined);
        if result.is_err() {
            *self = Self::EMPTY;
        }
        result
    }

    /// As [`Self::set`], but leaves what it has done when it fails.
    fn fill(
        &mut self,
        raw: &abi::perfmon_config,
        cpus: &Capabilities,
        defined: impl Fn(EventId) -> Option<EventSelect>,
    ) -> Result<(), Refused> {
        let rows = || raw.events.iter().zip(&raw.rate).zip(&raw.flags);
        let none = EventId::NONE.0;
        let count = raw.events.iter().take_while(|&&id| id != none).count();
        if count == 0 {
            return Err(Refused::NoEvent);
        }
        if rows()
            .skip(count)
            .any(|((&id, &rate), &flags)| id != none || rate != 0 || flags != 0)
        {
            return Err(Refused::AfterTheEnd);
        }

        *self = Self::EMPTY;
        for (n, ((&id, &rate), &flags)) in rows().take(count).enumerate() {
            if raw.events[..n].contains(&id) {
                return Err(Refused::Twice);
            }
            let timebase = (n != 0).then_some(raw.rate[0]);
            let event = recorded(EventId(id), rate, flags, timebase, cpus, &defined)?;
            self.events[n] = Some(event);
        }
        // The first event may say of itself that it is the timebase.
        if raw.flags[0] & abi::PERFMON_CONFIG_FLAG_TIMEBASE0 != 0 && raw.rate[0] == 0 {
            return Err(Refused::Timebase);
        }
        let general = self.events().filter(|e| e.place == Place::General).count();
        if general > usize::from(cpus.general) {
            return Err(Refused::TooMany);
        }
        let mut branches = self.events().filter(|e| e.last_branch);
        if let Some(first) = branches.next() {
            let modes = |e: &Recorded| (e.select.is_user(), e.select.is_kernel());
            if branches.any(|e| modes(e) != modes(first)) {
                return Err(Refused::LastBranchModes);
            }
        }
        // INVARIANT: All of it was just checked; a fixed-function counter has one id, and no id was there
        // twice.
        Ok(())
    }

    /// The events, in their order.
    pub fn events(&self) -> impl Iterator<Item = &Recorded> {
        self.events.iter().flatten()
    }

    /// Whether something that the kernel does is counted.
    #[must_use]
    pub fn has_kernel(&self) -> bool {
        self.events().any(|e| e.select.is_kernel())
    }

    /// The event whose modes filter the branch records, if there are to be such.
    #[must_use]
    pub fn last_branch(&self) -> Option<&Recorded> {
        self.events().find(|e| e.last_branch)
    }

    /// Gives each event a counter: fixed-function ones theirs, the others the lowest of the `free` general
    /// ones. `free` has the bits of the counters that can be had.
    ///
    /// The result is in the order of [`Self::events`]; `None` if there are not enough.
    #[must_use]
    pub fn assign(&self, free: u64) -> Option<[Option<CounterId>; MAX_EVENTS]> {
        let mut left = free;
        let mut assigned = [None; MAX_EVENTS];
        // Fixed-function counters have the higher bits: the lowest is a general one if there is any.
        for (event, to) in self.events().zip(&mut assigned) {
            let counter = match event.place {
                Place::Only(counter) => counter,
                Place::General => each(left & GENERAL).next()?,
            };
            if left & counter.bit() == 0 {
                return None;
            }
            left &= !counter.bit();
            *to = Some(counter);
        }
        Some(assigned)
    }
}

/// The bits of all general counters.
const GENERAL: u64 = (1 << abi::NPMC) - 1;

/// One event; `timebase` is the rate of the first one, for the others.
fn recorded(
    id: EventId,
    rate: u32,
    flags: u32,
    timebase: Option<u32>,
    cpus: &Capabilities,
    defined: impl Fn(EventId) -> Option<EventSelect>,
) -> Result<Recorded, Refused> {
    let has = |flag| flags & flag != 0;
    if has(!abi::PERFMON_CONFIG_FLAG_MASK) {
        return Err(Refused::Flag);
    }
    let (select, place) = match id.event(cpus, defined) {
        None => return Err(Refused::Event),
        Some(Event::General(select)) => (select, Place::General),
        Some(Event::Fixed(counter)) => (EventSelect::new(0, 0), Place::Only(counter)),
    };
    let role = match timebase {
        Some(0) if has(abi::PERFMON_CONFIG_FLAG_TIMEBASE0) => return Err(Refused::Timebase),
        Some(_) if has(abi::PERFMON_CONFIG_FLAG_TIMEBASE0) => Role::Depends,
        _ if rate == 0 => Role::Tallies,
        _ if u64::from(rate) > largest_rate(cpus, place) => return Err(Refused::Rate),
        _ => Role::Ticks(rate),
    };
    let ticks = matches!(role, Role::Ticks(_));
    let last_branch = has(abi::PERFMON_CONFIG_FLAG_LAST_BRANCH);
    if last_branch && !(ticks && cpus.last_branch) {
        return Err(Refused::LastBranch);
    }
    Ok(Recorded {
        id,
        select: select.modes(
            has(abi::PERFMON_CONFIG_FLAG_USER),
            has(abi::PERFMON_CONFIG_FLAG_OS),
        ),
        place,
        role,
        // Nothing but a tick has a place.
        pc: ticks && has(abi::PERFMON_CONFIG_FLAG_PC),
        last_branch,
    })
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_config))]
mod tests {
    use super::*;
    use abi::{
        PERFMON_CONFIG_FLAG_LAST_BRANCH as LBR, PERFMON_CONFIG_FLAG_OS as OS,
        PERFMON_CONFIG_FLAG_PC as PC, PERFMON_CONFIG_FLAG_TIMEBASE0 as TIMEBASE0,
        PERFMON_CONFIG_FLAG_USER as USER,
    };

    const CPU: Capabilities = Capabilities {
        general: 2,
        general_width: 24,
        fixed: 0b111,
        fixed_width: 48,
        arch_events: 0x7f,
        full_width_writes: true,
        last_branch: true,
        ..Capabilities::NOTHING
    };

    const ARCH: u16 = (abi::PERFMON_GROUP_ARCH as u16) << 10;
    const FIXED: u16 = (abi::PERFMON_GROUP_FIXED as u16) << 10;

    type Rows<'a> = &'a [(u16, u32, u32)];

    fn raw(rows: Rows<'_>) -> abi::perfmon_config {
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

    fn new(cpus: &Capabilities, rows: Rows<'_>) -> Result<Config, Refused> {
        Config::new(&raw(rows), cpus, |_| None)
    }

    fn refusal(rows: Rows<'_>) -> Option<Refused> {
        new(&CPU, rows).err()
    }

    #[test]
    fn every_rule() {
        use super::Refused as R;
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
    fn a_refused_config_is_empty() {
        let mut config = Config::EMPTY;
        let good = raw(&[(ARCH, 9, USER), (ARCH + 1, 9, USER)]);
        let bad = raw(&[(ARCH, 9, USER), (ARCH, 9, USER)]);
        assert!(config.set(&good, &CPU, |_| None).is_ok());
        assert_eq!(config.events().count(), 2);
        assert_eq!(config.set(&bad, &CPU, |_| None), Err(Refused::Twice));
        assert_eq!(config.events().count(), 0);
    }

    #[test]
    fn branch_records_want_hardware() {
        let rows: Rows<'_> = &[(FIXED + 1, 9, USER | LBR)];
        assert_eq!(refusal(rows), None);
        let without = Capabilities {
            last_branch: false,
            ..CPU
        };
        assert_eq!(new(&without, rows).err(), Some(Refused::LastBranch));
    }

    #[test]
    fn rates_are_limited_by_what_can_be_written() {
        let narrow = Capabilities {
            full_width_writes: false,
            ..CPU
        };
        let rate = |rate| new(&narrow, &[(FIXED + 1, rate, USER)]).err();
        assert_eq!(rate(1 << 31), None);
        assert_eq!(rate((1 << 31) + 1), Some(Refused::Rate));
        assert_eq!(refusal(&[(FIXED + 1, u32::MAX, USER)]), None);
        assert_eq!(refusal(&[(ARCH, 0xff_ffff, USER)]), None);
        // That of a dependent event is ignored.
        assert_eq!(
            refusal(&[(FIXED + 1, 9, USER), (ARCH, u32::MAX, TIMEBASE0)]),
            None
        );
    }

    #[test]
    fn what_is_recorded_when() {
        let config = new(
            &CPU,
            &[
                (FIXED + 2, 9, USER | OS | PC | TIMEBASE0 | LBR),
                (ARCH + 1, 7, USER | PC | TIMEBASE0),
                (FIXED + 1, 0, OS | PC),
                (ARCH, 5, 0),
            ],
        );
        let roles = [Role::Ticks(9), Role::Depends, Role::Tallies, Role::Ticks(5)];
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

    /// The counters of three events, if `free` are to be had.
    fn indices(free: u64) -> Option<[Option<usize>; 3]> {
        let rows: Rows<'_> = &[(ARCH + 1, 9, USER), (FIXED + 2, 0, USER), (ARCH, 0, USER)];
        let assigned = new(&CPU, rows).ok()?.assign(free)?;
        Some([0, 1, 2].map(|n| assigned[n].map(CounterId::index)))
    }

    #[test]
    fn events_get_the_lowest_counters_that_fit() {
        let all = 0b111 << 32;
        assert_eq!(indices(all | 0b11), Some([Some(0), Some(33), Some(1)]));
        assert_eq!(indices(all | 0b1010), Some([Some(1), Some(33), Some(3)]));
        assert_eq!(indices(all | 0b10), None);
        assert_eq!(indices(0b101 << 32 | 0b11), None);
    }
}
