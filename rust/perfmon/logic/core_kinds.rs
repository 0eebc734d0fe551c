// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The kinds of cores of a machine. A hybrid processor has two or three kinds, whose raw events differ; other machines
//! have one.
//!
//! An event has an event select for each kind ([`Encodings`]). `PERF_TYPE_HARDWARE` and `PERF_TYPE_HW_CACHE` count on
//! all kinds that have the event. A raw event is an event of one kind, and does not count on the others.
//!
//! Kinds also differ in their counters. An event can have a counter if all kinds that count the event have this counter.

use super::counter::{counter_bits, InvalidCounter};
use super::cpuid::{Capabilities, Microarchitecture};
use super::event_attr::PERF_TYPE_RAW;
use super::evtsel::EventSelect;

/// The largest number of kinds: the big cores, the small cores, and the cores of the low-power
/// island.
pub const MAX_CORE_KINDS: usize = 3;

/// The number of a kind of core.
///
/// # Invariants
///
/// The number is less than [`MAX_CORE_KINDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreKind(u8);

impl CoreKind {
    /// The kind of the first CPU that was probed.
    // INVARIANT: 0 is less than `MAX_CORE_KINDS`.
    pub const FIRST: Self = Self(0);

    /// Returns the kind with a number.
    #[must_use]
    pub const fn new(number: usize) -> Option<Self> {
        if number < MAX_CORE_KINDS {
            // INVARIANT: The number was checked.
            // CAST: `MAX_CORE_KINDS` is less than 256.
            Some(Self(number as u8))
        } else {
            None
        }
    }

    /// Returns the number.
    #[must_use]
    pub const fn number(self) -> usize {
        self.0 as usize
    }

    /// Returns all kinds that a machine may have.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..).map_while(Self::new)
    }
}

/// The events and counters of a kind of core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KindCapabilities {
    microarchitecture: Microarchitecture,
    /// The [`Capabilities::general_count`] of the CPU of this kind with the fewest counters.
    general_count: u8,
    /// The [`Capabilities::all_general_count`] of the CPU of this kind with the fewest counters.
    all_general_count: u8,
    /// The [`Capabilities::fixed`] that all CPUs of this kind have.
    fixed: u16,
    /// The [`Capabilities::arch_events`] that all CPUs of this kind have.
    arch_events: u32,
    /// The [`Capabilities::select_bits`] that all CPUs of this kind have.
    select_bits: u64,
    /// The type of Linux perf's PMU for these cores, which is also the type of their raw events.
    perf_type: Option<u32>,
}

impl KindCapabilities {
    const fn new(capabilities: &Capabilities) -> Self {
        Self {
            microarchitecture: capabilities.microarchitecture,
            general_count: capabilities.general_count,
            all_general_count: capabilities.all_general_count,
            fixed: capabilities.fixed,
            arch_events: capabilities.arch_events,
            select_bits: capabilities.select_bits,
            perf_type: None,
        }
    }

    /// Keeps only the events and counters that the CPUs of `other`, which are of the same kind,
    /// have as well.
    fn intersect(&mut self, other: &Self) {
        self.general_count = self.general_count.min(other.general_count);
        self.all_general_count = self.all_general_count.min(other.all_general_count);
        self.fixed &= other.fixed;
        self.arch_events &= other.arch_events;
        self.select_bits &= other.select_bits;
    }

    /// Returns whether a CPU is of this kind, and has all its events and counters.
    fn includes(&self, cpu: &Capabilities) -> bool {
        self.microarchitecture == cpu.microarchitecture
            && self.general_count <= cpu.general_count
            && self.all_general_count <= cpu.all_general_count
            && self.fixed & !cpu.fixed == 0
            && self.arch_events & !cpu.arch_events == 0
            && self.select_bits & !cpu.select_bits == 0
    }
}

/// The kinds of cores of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreKinds([Option<KindCapabilities>; MAX_CORE_KINDS]);

impl CoreKinds {
    /// No kind.
    pub const NONE: Self = Self([None; MAX_CORE_KINDS]);

    /// Returns the only kind of a machine whose CPUs all have these capabilities.
    #[must_use]
    pub const fn one(capabilities: &Capabilities) -> Self {
        let capabilities = KindCapabilities {
            perf_type: Some(PERF_TYPE_RAW),
            ..KindCapabilities::new(capabilities)
        };
        Self([Some(capabilities), None, None])
    }

    /// Adds a CPU. Returns its kind, or `None` if there are too many kinds.
    pub fn add(&mut self, cpu: &Capabilities) -> Option<CoreKind> {
        let new = KindCapabilities::new(cpu);
        let mut places = self.0.iter_mut().enumerate();
        let (number, place) = places.find(|(_, place)| match place {
            Some(capabilities) => capabilities.microarchitecture == new.microarchitecture,
            None => true,
        })?;
        place.get_or_insert(new).intersect(&new);
        CoreKind::new(number)
    }

    /// Returns the kind of a CPU; `None` if no CPU that was [added](Self::add) was of this kind, or the CPU lacks events
    /// or counters of its kind.
    #[must_use]
    pub fn kind_of(&self, cpu: &Capabilities) -> Option<CoreKind> {
        let mut places = self.0.iter();
        let number = places.position(|kind| kind.is_some_and(|kind| kind.includes(cpu)))?;
        CoreKind::new(number)
    }

    /// Returns the counters of the CPUs of a kind, as a mask.
    #[must_use]
    pub const fn counters(&self, kind: CoreKind) -> u64 {
        match &self.0[kind.number()] {
            Some(capabilities) => counter_bits(capabilities.general_count, capabilities.fixed),
            None => 0,
        }
    }

    /// Returns the counters that CPUs of any kind have, as a mask.
    #[must_use]
    pub fn counters_of_any(&self) -> u64 {
        self.iter()
            .fold(0, |counters, kind| counters | self.counters(kind))
    }

    /// Returns the number of general counters of the CPUs of a kind, including counters that the
    /// module does not use.
    #[must_use]
    pub const fn all_general_count(&self, kind: CoreKind) -> u8 {
        match &self.0[kind.number()] {
            Some(capabilities) => capabilities.all_general_count,
            None => 0,
        }
    }

    /// Leaves the general counter `counter` of each kind to the place-holders ([`Capabilities::without_last`]). The module
    /// uses the counters from 0 up, so it does not use the counters above either.
    pub fn leave_place_holder(&mut self, counter: u8) {
        for capabilities in self.0.iter_mut().flatten() {
            capabilities.general_count = capabilities.general_count.min(counter);
        }
    }

    /// Returns the kinds.
    pub fn iter(&self) -> impl Iterator<Item = CoreKind> + '_ {
        let present = |kind: &CoreKind| self.0[kind.number()].is_some();
        CoreKind::all().filter(present)
    }

    /// Returns whether there are several kinds.
    #[must_use]
    pub const fn are_several(&self) -> bool {
        self.0[1].is_some()
    }

    /// Sets the type of the raw events of each kind to the type that Linux perf has for these
    /// cores, which `perf_type_of` returns. `PERF_TYPE_RAW` is the type of the big cores; without
    /// perf, it is the type of the first kind.
    pub fn set_types(&mut self, perf_type_of: impl Fn(CoreKind) -> Option<u32>) {
        for kind in CoreKind::all() {
            // If perf does not know the kinds, its only PMU belongs to the first kind.
            let perf_type =
                perf_type_of(kind).filter(|perf_type| self.with_type(*perf_type).is_none());
            if let Some(capabilities) = &mut self.0[kind.number()] {
                capabilities.perf_type = perf_type;
            }
        }
        if let (None, [Some(first), ..]) = (self.with_type(PERF_TYPE_RAW), &mut self.0) {
            first.perf_type = Some(PERF_TYPE_RAW);
        }
    }

    /// Returns the kind whose raw events have this type.
    #[must_use]
    pub fn with_type(&self, perf_type: u32) -> Option<CoreKind> {
        let number = self.0.iter().position(|capabilities| {
            capabilities.is_some_and(|capabilities| capabilities.perf_type == Some(perf_type))
        })?;
        CoreKind::new(number)
    }

    /// Returns the type of the raw events of a kind. Programs name the kind by this type. `None` if
    /// Linux perf does not know the kind.
    #[must_use]
    pub const fn type_of(&self, kind: CoreKind) -> Option<u32> {
        match &self.0[kind.number()] {
            Some(capabilities) => capabilities.perf_type,
            None => None,
        }
    }

    /// Returns the kind of core that a program names by its type, to count on the CPUs of this kind only. `None` for 0,
    /// which names all CPUs.
    ///
    /// # Errors
    ///
    /// [`InvalidCounter::Kind`] if no kind has this type.
    pub fn kind_of_type(&self, perf_type: u32) -> Result<Option<CoreKind>, InvalidCounter> {
        if perf_type == 0 {
            return Ok(None);
        }
        let kind = self.with_type(perf_type).ok_or(InvalidCounter::Kind)?;
        Ok(Some(kind))
    }

    /// Returns the capabilities of the CPUs of a kind, or `common` for `None`.
    #[must_use]
    pub fn capabilities_of(&self, kind: Option<CoreKind>, common: &Capabilities) -> Capabilities {
        kind.map_or(*common, |kind| self.capabilities(kind, common))
    }

    /// Returns the capabilities of the CPUs of a kind: the events and counters of this kind, and everything else from
    /// `common`.
    #[must_use]
    pub fn capabilities(&self, kind: CoreKind, common: &Capabilities) -> Capabilities {
        match &self.0[kind.number()] {
            Some(capabilities) => Capabilities {
                microarchitecture: capabilities.microarchitecture,
                general_count: capabilities.general_count,
                all_general_count: capabilities.all_general_count,
                fixed: capabilities.fixed,
                arch_events: capabilities.arch_events,
                select_bits: capabilities.select_bits,
                ..*common
            },
            None => Capabilities::NONE,
        }
    }
}

/// The event selects by which the kinds of cores count an event. A kind without an event select does not count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encodings([Option<EventSelect>; MAX_CORE_KINDS]);

impl Encodings {
    /// No kind counts the event.
    pub const NONE: Self = Self([None; MAX_CORE_KINDS]);

    /// Returns the encodings of an event that each kind counts with the same event select.
    #[must_use]
    pub const fn same(select: EventSelect) -> Self {
        Self([Some(select); MAX_CORE_KINDS])
    }

    /// Sets the event select for a kind.
    pub const fn set(&mut self, kind: CoreKind, select: EventSelect) {
        self.0[kind.number()] = Some(select);
    }

    /// Returns the event select for a kind, or `None` if the kind does not count the event.
    #[inline(always)]
    #[must_use]
    pub const fn for_kind(&self, kind: CoreKind) -> Option<EventSelect> {
        self.0[kind.number()]
    }

    /// Returns the event select for a kind, or a select that counts nothing if the kind does not count the event.
    #[must_use]
    pub const fn select_or_empty(&self, kind: CoreKind) -> EventSelect {
        match self.for_kind(kind) {
            Some(select) => select,
            None => EventSelect::new(0, 0),
        }
    }

    /// Returns the event select of the first kind that counts the event.
    #[must_use]
    pub fn first(&self) -> Option<EventSelect> {
        self.0.iter().flatten().next().copied()
    }

    /// Returns the encodings with each event select changed by `f`.
    #[must_use]
    pub fn map(self, f: impl Fn(EventSelect) -> EventSelect) -> Self {
        Self(self.0.map(|select| select.map(&f)))
    }

    /// Returns whether all of these kinds count the event, with the same event select.
    #[must_use]
    pub fn are_same_on(&self, kinds: &CoreKinds) -> bool {
        let first = self.first();
        kinds.iter().all(|kind| self.for_kind(kind) == first)
    }

    /// Returns whether all of these kinds count the event.
    #[must_use]
    pub fn are_on_all(&self, kinds: &CoreKinds) -> bool {
        kinds.iter().all(|kind| self.for_kind(kind).is_some())
    }

    /// Returns whether a kind counts both events.
    #[must_use]
    pub fn have_common_kind(&self, other: &Self) -> bool {
        let mut pairs = self.0.iter().zip(&other.0);
        pairs.any(|(a, b)| a.is_some() && b.is_some())
    }

    /// Returns whether each kind that counts both events counts them with the same event select.
    #[must_use]
    pub fn agree(&self, other: &Self) -> bool {
        let mut pairs = self.0.iter().zip(&other.0);
        pairs.all(|(a, b)| a.is_none() || b.is_none() || a == b)
    }

    /// Returns whether the same kinds count both events.
    #[must_use]
    pub fn are_on_same_kinds(&self, other: &Self) -> bool {
        let mut pairs = self.0.iter().zip(&other.0);
        pairs.all(|(a, b)| a.is_some() == b.is_some())
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_core_kinds))]
mod tests {
    use super::*;
    use Microarchitecture as M;

    const BIG: Capabilities = Capabilities {
        microarchitecture: M::LionCove,
        general_count: 8,
        all_general_count: 10,
        fixed: 0b1111,
        arch_events: 0xff,
        ..Capabilities::NONE
    };
    const SMALL: Capabilities = Capabilities {
        microarchitecture: M::Skymont,
        general_count: 6,
        all_general_count: 6,
        fixed: 0b111_0111,
        arch_events: 0x7f,
        select_bits: EventSelect::COMMON_BITS | EventSelect::UNIT_MASK_2,
        ..Capabilities::NONE
    };
    const LOW_POWER: Capabilities = Capabilities {
        microarchitecture: M::Crestmont,
        ..SMALL
    };
    /// perf's numbers of the PMUs of the small cores and of the low-power island.
    const ATOM: u32 = 10;
    const LOWPOWER: u32 = 11;

    fn hybrid() -> CoreKinds {
        let mut kinds = CoreKinds::NONE;
        for cpu in [BIG, SMALL, BIG, LOW_POWER] {
            kinds.add(&cpu);
        }
        kinds
    }

    fn kinds_as_digits(kinds: impl Iterator<Item = CoreKind>) -> usize {
        kinds.fold(0, |numbers, kind| numbers * 10 + kind.number() + 1)
    }

    #[test]
    fn cpus_of_one_microarchitecture_are_of_one_kind() {
        let mut kinds = CoreKinds::NONE;
        assert_eq!(kinds.add(&BIG).map(CoreKind::number), Some(0));
        assert_eq!(kinds.add(&BIG).map(CoreKind::number), Some(0));
        assert!(!kinds.are_several());
        assert_eq!(kinds.add(&SMALL).map(CoreKind::number), Some(1));
        assert!(kinds.are_several());
        assert_eq!(kinds.add(&LOW_POWER).map(CoreKind::number), Some(2));
        let other = Capabilities {
            microarchitecture: M::Unknown,
            ..BIG
        };
        assert_eq!(kinds.add(&other), None);
        assert_eq!(kinds_as_digits(kinds.iter()), 123);
        assert_eq!(kinds_as_digits(CoreKinds::one(&BIG).iter()), 1);
        assert_eq!(kinds.kind_of(&LOW_POWER).map(CoreKind::number), Some(2));
        assert_eq!(kinds.kind_of(&other), None);
    }

    #[test]
    fn a_kind_has_what_all_of_its_cpus_have() {
        let lacks_an_event = Capabilities {
            arch_events: 0x3f,
            ..BIG
        };
        let mut kinds = CoreKinds::one(&BIG);
        assert_eq!(kinds.kind_of(&lacks_an_event), None);
        kinds.add(&lacks_an_event);
        assert_eq!(kinds.kind_of(&lacks_an_event), Some(CoreKind::FIRST));
        assert_eq!(kinds.kind_of(&BIG), Some(CoreKind::FIRST));
        let common = Capabilities {
            general_count: 6,
            ..Capabilities::NONE
        };
        let capabilities = kinds.capabilities(CoreKind::FIRST, &common);
        assert_eq!(capabilities.microarchitecture, M::LionCove);
        assert_eq!(
            (capabilities.general_count, capabilities.arch_events),
            (8, 0x3f)
        );
    }

    /// Returns the counters of the three kinds.
    fn counters(kinds: &CoreKinds) -> [Option<u64>; 3] {
        [0, 1, 2].map(|number| Some(kinds.counters(CoreKind::new(number)?)))
    }

    #[test]
    fn each_kind_has_counters_of_its_own() {
        let mut kinds = hybrid();
        let all = [0xf_0000_00ff, 0x77_0000_003f, 0x77_0000_003f];
        assert_eq!(counters(&kinds), all.map(Some));
        assert_eq!(kinds.counters_of_any(), 0x7f_0000_00ff);
        let number_of_all = |kinds: &CoreKinds| kinds.all_general_count(CoreKind::FIRST);
        assert_eq!(number_of_all(&kinds), 10);
        // Another big core has fewer.
        let lacks_counters = Capabilities {
            general_count: 7,
            all_general_count: 8,
            fixed: 0b111,
            ..BIG
        };
        assert_eq!(kinds.kind_of(&lacks_counters), None);
        kinds.add(&lacks_counters);
        assert_eq!(kinds.kind_of(&lacks_counters), Some(CoreKind::FIRST));
        assert_eq!(kinds.counters(CoreKind::FIRST), 0x7_0000_007f);
        assert_eq!(number_of_all(&kinds), 8);
        for lacks_one in [
            Capabilities {
                general_count: 6,
                ..BIG
            },
            Capabilities {
                all_general_count: 7,
                ..BIG
            },
            Capabilities {
                fixed: 0b1011,
                ..BIG
            },
        ] {
            assert_eq!(kinds.kind_of(&lacks_one), None);
        }
        assert_eq!(counters(&CoreKinds::NONE), [Some(0); 3]);
        assert_eq!(CoreKinds::NONE.counters_of_any(), 0);
    }

    #[test]
    fn each_kind_leaves_a_counter_to_the_place_holder() {
        let mut kinds = hybrid();
        // The last counter that all kinds have.
        kinds.leave_place_holder(5);
        let left = [0xf_0000_001f, 0x77_0000_001f, 0x77_0000_001f];
        assert_eq!(counters(&kinds), left.map(Some));
        assert_eq!(kinds.all_general_count(CoreKind::FIRST), 10);
        // A counter that the module does not use anyway.
        let mut kinds = hybrid();
        kinds.leave_place_holder(9);
        assert_eq!(kinds, hybrid());
    }

    #[test]
    fn raw_events_have_the_types_of_perf() {
        let mut kinds = hybrid();
        kinds.set_types(|kind| [Some(PERF_TYPE_RAW), Some(ATOM), Some(LOWPOWER)][kind.number()]);
        let number =
            |kinds: &CoreKinds, perf_type| kinds.with_type(perf_type).map(CoreKind::number);
        assert_eq!(number(&kinds, PERF_TYPE_RAW), Some(0));
        assert_eq!(number(&kinds, ATOM), Some(1));
        assert_eq!(number(&kinds, LOWPOWER), Some(2));
        assert_eq!(number(&kinds, 12), None);
        // The first CPU may be a small one.
        let mut kinds = hybrid();
        kinds.set_types(|kind| [Some(ATOM), Some(PERF_TYPE_RAW), None][kind.number()]);
        assert_eq!(number(&kinds, PERF_TYPE_RAW), Some(1));
        assert_eq!(number(&kinds, ATOM), Some(0));
        // Linux perf knows no kinds, or does not run.
        for perf_type in [Some(PERF_TYPE_RAW), None] {
            let mut kinds = hybrid();
            kinds.set_types(|_| perf_type);
            assert_eq!(number(&kinds, PERF_TYPE_RAW), Some(0));
            assert_eq!(
                kinds.0[1].and_then(|capabilities| capabilities.perf_type),
                None
            );
        }
    }

    #[test]
    fn programs_name_kinds_by_their_types() {
        let mut kinds = hybrid();
        kinds.set_types(|kind| [Some(PERF_TYPE_RAW), Some(ATOM), None][kind.number()]);
        let named = |kinds: &CoreKinds, perf_type| {
            let kind = kinds.kind_of_type(perf_type);
            kind.map(|kind| kind.map(CoreKind::number))
        };
        assert_eq!(named(&kinds, 0), Ok(None));
        assert_eq!(named(&kinds, PERF_TYPE_RAW), Ok(Some(0)));
        assert_eq!(named(&kinds, ATOM), Ok(Some(1)));
        assert_eq!(named(&kinds, LOWPOWER), Err(InvalidCounter::Kind));
        let types = [0, 1, 2].map(|number| CoreKind::new(number).map(|kind| kinds.type_of(kind)));
        assert_eq!(
            types,
            [Some(Some(PERF_TYPE_RAW)), Some(Some(ATOM)), Some(None)]
        );
        // A machine with one kind of core
        let one = CoreKinds::one(&BIG);
        assert_eq!(named(&one, 0), Ok(None));
        assert_eq!(named(&one, PERF_TYPE_RAW), Ok(Some(0)));
        assert_eq!(named(&one, ATOM), Err(InvalidCounter::Kind));
        let common = BIG.intersection(SMALL);
        assert_eq!(kinds.capabilities_of(None, &common), common);
        let big = kinds.capabilities_of(Some(CoreKind::FIRST), &common);
        assert_eq!((big.general_count, big.fixed), (8, 0b1111));
    }

    #[test]
    fn encodings_say_where_an_event_counts() {
        let (kinds, select) = (hybrid(), EventSelect::new(0xd0, 0x81));
        let small = CoreKind::new(1);
        assert!(Encodings::same(select).are_same_on(&kinds));
        let mut encodings = Encodings::NONE;
        assert_eq!(encodings.first(), None);
        assert!(!encodings.are_on_all(&kinds));
        if let Some(small) = small {
            encodings.set(small, select);
            assert_eq!(encodings.for_kind(small), Some(select));
            assert_eq!(encodings.select_or_empty(small), select);
        }
        assert_eq!(encodings.first(), Some(select));
        assert_eq!(encodings.for_kind(CoreKind::FIRST), None);
        assert!(encodings.select_or_empty(CoreKind::FIRST).is_modes_only());
        assert!(!encodings.are_on_all(&kinds));
        assert!(!encodings.are_on_same_kinds(&Encodings::same(select)));
        for kind in kinds.iter() {
            encodings.set(kind, EventSelect::new(0xc0, kind.number() as u8));
        }
        assert!(encodings.are_on_all(&kinds) && !encodings.are_same_on(&kinds));
        assert!(encodings.are_on_same_kinds(&Encodings::same(select)));
        let same = encodings.map(|_| select);
        assert!(same.are_same_on(&kinds));
        // One kind uses the first event select only.
        assert!(encodings.are_same_on(&CoreKinds::one(&BIG)));
    }
}
