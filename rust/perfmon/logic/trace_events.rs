// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The events of the trace interface: event ids, and the hardware's encodings of the events.

use super::core_kinds::CoreKind;
use super::cores::Core;
use super::counter::{CounterId, InvalidCounter};
use super::cpuid::{Architecture, Capabilities, Microarchitecture};
use super::event_attr::{PERF_COUNT_HW_CACHE_MISSES, PERF_COUNT_HW_CACHE_REFERENCES};
use super::event_counters::is_fixed_event;
use super::evtsel::EventSelect;
use super::values::MiscEvent;
use crate::abi;

/// An event id: a group, and a number within the group. The id 0 means no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventId(pub u16);

/// A program's definition of an event of `PERFMON_GROUP_MODEL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The encoding: [`Encoding::General`] or [`Encoding::Fixed`].
    pub encoding: Encoding,
    /// The kind of core that counts the event; `None` for all CPUs.
    pub kind: Option<CoreKind>,
}

impl Definition {
    /// Defines an event of all CPUs, which any general counter can count.
    #[must_use]
    pub const fn on_all(select: EventSelect) -> Self {
        Self {
            encoding: Encoding::General(select),
            kind: None,
        }
    }

    /// Defines an event of one kind of core, whose CPUs have `capabilities`: any general counter of these CPUs, or the
    /// fixed-function counter whose event it is.
    ///
    /// # Errors
    ///
    /// [`InvalidCounter::Number`] if these CPUs lack the fixed-function counter.
    pub fn on_kind(
        select: EventSelect,
        kind: CoreKind,
        capabilities: &Capabilities,
    ) -> Result<Self, InvalidCounter> {
        let select = select.with_modes(false, false);
        let encoding = if is_fixed_event(select) {
            let counter = CounterId::fixed(select.unit_mask() - 1)
                .filter(|counter| capabilities.counters() & counter.bit() != 0);
            Encoding::Fixed(counter.ok_or(InvalidCounter::Number)?)
        } else {
            Encoding::General(select)
        };
        Ok(Self {
            encoding,
            kind: Some(kind),
        })
    }
}

/// The hardware's encoding of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Any general counter, with this event select, which has no modes.
    General(EventSelect),
    /// This fixed-function counter only.
    Fixed(CounterId),
    /// No counter: the event has a register of its own.
    Value(MiscEvent),
}

impl EventId {
    /// No event.
    pub const NONE: Self = Self(abi::PERFMON_EVENT_ID_NONE as u16);

    /// Returns the group, one of `PERFMON_GROUP_*`.
    #[must_use]
    pub const fn group(self) -> u32 {
        (self.0 >> 10) as u32
    }

    /// Returns the number within the group: 0 to `PERFMON_MAX_EVENT`.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0 as u32 & abi::PERFMON_MAX_EVENT
    }

    /// Returns whether `PERFMON_DEFINE_EVENT` can define the event.
    #[must_use]
    pub const fn is_definable(self) -> bool {
        self.group() == abi::PERFMON_GROUP_MODEL
    }

    /// Returns the encoding of the event on CPUs that all have `capabilities`; `None` if these CPUs can't count it.
    /// `find_definition` looks up the events that programs have defined.
    pub fn encoding(
        self,
        capabilities: &Capabilities,
        find_definition: impl FnOnce(Self) -> Option<Definition>,
    ) -> Option<Encoding> {
        match self.group() {
            abi::PERFMON_GROUP_ARCH => {
                architectural_select(self.number(), capabilities).map(Encoding::General)
            }
            abi::PERFMON_GROUP_FIXED => {
                let n = self.number().checked_sub(1)?.try_into().ok()?;
                let counter = CounterId::fixed(n)?;
                let is_listed = self.number() <= abi::PERFMON_FIXED_EVENT_TOPDOWN_RETIRING;
                let is_present = capabilities.fixed >> n & 1 != 0;
                (is_listed && is_present).then_some(Encoding::Fixed(counter))
            }
            abi::PERFMON_GROUP_MODEL => find_definition(self).map(|definition| definition.encoding),
            abi::PERFMON_GROUP_MISC => MiscEvent::new(self.number())
                .filter(|value| capabilities.values & value.bit() != 0)
                .map(Encoding::Value),
            _ => None,
        }
    }
}

/// The architectural events by their bit in CPUID leaf 0AH, EBX (Intel SDM, volume 3B, table 21-1),
/// and their equivalents on AMD (the Processor Programming References, "Core Performance Counter
/// Events"). AMD has no event for reference cycles. AMD's cores count only accesses to their own cache of level
/// 2, whose events Linux perf also uses for the last level.
const ARCHITECTURAL_EVENTS: [(EventSelect, Option<EventSelect>); 8] = [
    (
        EventSelect::new(0x3c, 0x00),
        Some(EventSelect::new(0x76, 0x00)),
    ),
    (
        EventSelect::new(0xc0, 0x00),
        Some(EventSelect::new(0xc0, 0x00)),
    ),
    (EventSelect::new(0x3c, 0x01), None),
    (
        EventSelect::new(0x2e, 0x4f),
        Some(EventSelect::new(0x60, 0xff)),
    ),
    (
        EventSelect::new(0x2e, 0x41),
        Some(EventSelect::new(0x64, 0x09)),
    ),
    (
        EventSelect::new(0xc4, 0x00),
        Some(EventSelect::new(0xc2, 0x00)),
    ),
    (
        EventSelect::new(0xc5, 0x00),
        Some(EventSelect::new(0xc3, 0x00)),
    ),
    (EventSelect::new(0xa4, 0x01), None),
];

/// Returns the number of the architectural event that `select` counts on Intel.
///
/// Only the event number and the unit masks identify the event, not the other fields of the event select.
#[must_use]
pub fn architectural_number(select: EventSelect) -> Option<u32> {
    const EVENT_BITS: u64 = 0xffff | EventSelect::UNIT_MASK_2;

    let event = select.stopped() & EVENT_BITS;
    (0..)
        .zip(&ARCHITECTURAL_EVENTS)
        .find(|(_, (intel, _))| intel.stopped() == event)
        .map(|(number, _)| number)
}

/// Returns the number of the architectural event that `select` counts, if CPUs with these capabilities lack this event.
/// `None` on AMD, which has no architectural events.
#[must_use]
pub fn missing_event(select: EventSelect, capabilities: &Capabilities) -> Option<u32> {
    if capabilities.architecture != Architecture::Intel {
        return None;
    }
    architectural_number(select).filter(|number| capabilities.arch_events >> number & 1 == 0)
}

/// Returns whether `select` counts one of the architectural events that CPUs with these capabilities have, so that it
/// counts the same on all kinds of cores.
#[must_use]
pub fn is_architectural(select: EventSelect, capabilities: &Capabilities) -> bool {
    let same_event = |architectural: EventSelect| {
        (architectural.event(), architectural.unit_mask()) == (select.event(), select.unit_mask())
            && select.unit_mask_2() == 0
    };
    (0..ARCHITECTURAL_EVENTS.len() as u32)
        .filter_map(|number| architectural_select(number, capabilities))
        .any(same_event)
}

/// Returns the event select of an architectural event (`PERFMON_ARCH_EVENT_*`), without modes. `None` if the CPUs
/// lack the event.
#[must_use]
pub fn architectural_select(number: u32, capabilities: &Capabilities) -> Option<EventSelect> {
    let &(intel, amd) = ARCHITECTURAL_EVENTS.get(number as usize)?;
    if capabilities.arch_events >> number & 1 == 0 {
        return None;
    }
    match capabilities.architecture {
        Architecture::Intel => Some(intel),
        Architecture::AmdLegacy | Architecture::AmdCore | Architecture::AmdV2 => {
            amd_cache_event(number, capabilities.microarchitecture).or(amd)
        }
    }
}

/// Returns the event of a core of AMD that replaces the architectural event `number`, an event of caches; `None` if the core
/// has no other event than [`ARCHITECTURAL_EVENTS`].
fn amd_cache_event(number: u32, microarchitecture: Microarchitecture) -> Option<EventSelect> {
    let hardware_number = match number {
        abi::PERFMON_ARCH_EVENT_LLC_REFERENCES => PERF_COUNT_HW_CACHE_REFERENCES,
        abi::PERFMON_ARCH_EVENT_LLC_MISSES => PERF_COUNT_HW_CACHE_MISSES,
        _ => return None,
    };
    Core::for_microarchitecture(microarchitecture).hardware_event(hardware_number)
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_events))]
mod tests {
    use super::*;

    const INTEL: Capabilities = Capabilities {
        general_count: 8,
        fixed: 0b1011,
        arch_events: 0b0111_1111,
        ..Capabilities::NONE
    };
    const AMD: Capabilities = Capabilities {
        architecture: Architecture::AmdCore,
        fixed: 0,
        ..INTEL
    };

    fn id(group: u32, number: u32) -> EventId {
        EventId((group << 10 | number) as u16)
    }

    fn general_encoding(capabilities: &Capabilities, group: u32, number: u32) -> Option<u64> {
        let find_definition = |id: EventId| {
            (id.number() == 5).then_some(Definition::on_all(EventSelect::new(0xd1, 0x20)))
        };
        match id(group, number).encoding(capabilities, find_definition) {
            Some(Encoding::General(select)) => Some(select.stopped()),
            _ => None,
        }
    }

    fn fixed_encoding(capabilities: &Capabilities, number: u32) -> Option<usize> {
        match id(abi::PERFMON_GROUP_FIXED, number).encoding(capabilities, |_| None) {
            Some(Encoding::Fixed(counter)) => Some(counter.index()),
            _ => None,
        }
    }

    #[test]
    fn architectural_events_have_encodings() {
        let arch_group = abi::PERFMON_GROUP_ARCH;
        assert_eq!(general_encoding(&INTEL, arch_group, 0), Some(0x003c));
        assert_eq!(general_encoding(&INTEL, arch_group, 3), Some(0x4f2e));
        assert_eq!(general_encoding(&INTEL, arch_group, 6), Some(0x00c5));
        // The CPU lacks event 7, and no event has number 8.
        assert_eq!(general_encoding(&INTEL, arch_group, 7), None);
        assert_eq!(general_encoding(&INTEL, arch_group, 8), None);
        assert_eq!(general_encoding(&AMD, arch_group, 0), Some(0x0076));
        assert_eq!(general_encoding(&AMD, arch_group, 2), None);
        assert_eq!(general_encoding(&AMD, arch_group, 5), Some(0x00c2));
    }

    #[test]
    fn cache_events_of_amd_follow_the_core() {
        let of_core = |microarchitecture, number| {
            let capabilities = Capabilities {
                microarchitecture,
                ..AMD
            };
            general_encoding(&capabilities, abi::PERFMON_GROUP_ARCH, number)
        };
        assert_eq!(of_core(Microarchitecture::Zen1, 3), Some(0xff60));
        assert_eq!(of_core(Microarchitecture::Zen1, 4), Some(0x0964));
        assert_eq!(of_core(Microarchitecture::Bulldozer, 3), Some(0x077d));
        assert_eq!(of_core(Microarchitecture::Bulldozer, 4), Some(0x077e));
    }

    #[test]
    fn missing_event_returns_lacking_architectural_events() {
        let few_events = Capabilities {
            arch_events: 0b0110_0111,
            ..INTEL
        };
        let missing = |event, mask| {
            missing_event(
                EventSelect::new(event, mask).with_modes(true, false),
                &few_events,
            )
        };
        assert_eq!(missing(0x3c, 0x00), None);
        assert_eq!(missing(0x2e, 0x4f), Some(3));
        assert_eq!(missing(0x2e, 0x41), Some(4));
        assert_eq!(missing(0xa4, 0x01), Some(7));
        // CPUID does not report events that are not architectural.
        assert_eq!(missing(0x2e, 0x4e), None);
        assert_eq!(missing(0x00, 0x00), None);
        let edge_event = EventSelect::new(0x2e, 0x41)
            .with_edge()
            .with_counter_mask(3, true);
        assert_eq!(missing_event(edge_event, &few_events), Some(4));
        let event_with_unit_mask_2 = EventSelect::from_abi(1 << 40 | 0x412e, EventSelect::ANY_BITS);
        assert_eq!(
            event_with_unit_mask_2.map(|select| missing_event(select, &few_events)),
            Ok(None)
        );
        let amd_cpu = Capabilities {
            arch_events: 0,
            ..AMD
        };
        assert_eq!(missing_event(EventSelect::new(0xc0, 0), &amd_cpu), None);
    }

    #[test]
    fn fixed_events_have_their_counter() {
        assert_eq!(fixed_encoding(&INTEL, 0), None);
        assert_eq!(fixed_encoding(&INTEL, 1), Some(32));
        // The CPU lacks fixed-function counter 2, and has counter 3.
        assert_eq!(fixed_encoding(&INTEL, 3), None);
        assert_eq!(fixed_encoding(&INTEL, 4), Some(35));
        assert_eq!(fixed_encoding(&INTEL, 5), None);
        assert_eq!(fixed_encoding(&INTEL, 0x3ff), None);
        let skymont = Capabilities {
            fixed: 0b1111_0111,
            ..INTEL
        };
        assert_eq!(fixed_encoding(&skymont, 4), None);
        assert_eq!(fixed_encoding(&skymont, 5), Some(36));
        assert_eq!(fixed_encoding(&skymont, 7), Some(38));
        assert_eq!(fixed_encoding(&skymont, 8), None);
        assert_eq!(fixed_encoding(&AMD, 1), None);
    }

    #[test]
    fn defined_events_have_their_select() {
        assert_eq!(
            general_encoding(&INTEL, abi::PERFMON_GROUP_MODEL, 5),
            Some(0x20d1)
        );
        assert_eq!(general_encoding(&INTEL, abi::PERFMON_GROUP_MODEL, 6), None);
    }

    #[test]
    fn kinds_have_definitions_of_their_own() {
        let kind = CoreKind::FIRST;
        let definition = |select: EventSelect, capabilities: &Capabilities| {
            let definition = Definition::on_kind(select, kind, capabilities);
            definition.map(|definition| match definition.encoding {
                Encoding::General(select) => (Some(select.stopped()), None),
                Encoding::Fixed(counter) => (None, Some(counter.index())),
                Encoding::Value(_) => (None, None),
            })
        };
        let loads = EventSelect::new(0xd0, 0x81);
        assert_eq!(definition(loads, &INTEL), Ok((Some(0x81d0), None)));
        let with_modes = loads.with_modes(true, true);
        assert_eq!(definition(with_modes, &INTEL), Ok((Some(0x81d0), None)));
        assert_eq!(
            definition(EventSelect::new(0, 4), &INTEL),
            Ok((None, Some(35)))
        );
        // The CPUs lack fixed-function counter 2.
        assert_eq!(
            definition(EventSelect::new(0, 3), &INTEL),
            Err(InvalidCounter::Number)
        );
        assert_eq!(Definition::on_all(loads).kind, None);
    }

    #[test]
    fn values_need_no_counter() {
        let with_values = Capabilities {
            values: 1 << 3 | 1 << 9,
            ..INTEL
        };
        let value_index = |capabilities, number| match id(abi::PERFMON_GROUP_MISC, number)
            .encoding(capabilities, |_| None)
        {
            Some(Encoding::Value(value)) => Some(value.index()),
            _ => None,
        };
        assert_eq!(value_index(&with_values, 35), Some(3));
        assert_eq!(value_index(&with_values, 41), Some(9));
        assert_eq!(value_index(&with_values, 32), None);
        assert_eq!(value_index(&with_values, 42), None);
        assert_eq!(value_index(&with_values, 3), None);
        assert_eq!(value_index(&INTEL, 35), None);
    }

    #[test]
    fn other_groups_have_no_events() {
        for group in [0, 5, 0x3f] {
            assert_eq!(general_encoding(&INTEL, group, 1), None);
        }
    }
}
