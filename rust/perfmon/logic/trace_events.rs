// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The events of the trace interface: event ids, and the hardware's encodings of the events.

use super::architectural_events::architectural_select;
use super::core_kinds::CoreKind;
use super::counter::{CounterId, GENERAL_COUNTERS};
use super::cpuid::Capabilities;
use super::event_attr::InvalidAttr;
use super::event_counters::EventCounters;
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
    /// The bits of the general counters of the CPUs that can count the event.
    pub general: u64,
    /// The kind of core that counts the event; `None` for all CPUs.
    pub kind: Option<CoreKind>,
}

impl Definition {
    /// Defines an event of all CPUs, which any general counter can count.
    #[must_use]
    pub const fn on_all(select: EventSelect) -> Self {
        Self {
            encoding: Encoding::General(select),
            general: GENERAL_COUNTERS,
            kind: None,
        }
    }

    /// Defines an event of one kind of core, whose CPUs have `capabilities`: the general counters of these CPUs that
    /// can count the event or, if there is none, the fixed-function counter whose event it is. `kind` is `None` if all
    /// CPUs are of this kind.
    ///
    /// # Errors
    ///
    /// [`InvalidAttr::NoEvent`] if no counter of these CPUs can count the event. [`InvalidAttr::Unsupported`] if the
    /// event needs an extra register, or if several cores or two counters count it together.
    pub fn on_kind(
        select: EventSelect,
        kind: Option<CoreKind>,
        capabilities: &Capabilities,
    ) -> Result<Self, InvalidAttr> {
        let select = select.with_modes(false, false);
        let counters = EventCounters::without_extra_register(select, capabilities)?;
        let encoding = match counters.fixed {
            Some(counter) if counters.general == 0 => Encoding::Fixed(counter),
            _ => Encoding::General(select),
        };
        Ok(Self {
            encoding,
            general: counters.general,
            kind,
        })
    }
}

/// The hardware's encoding of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// A general counter, with this event select, which has no modes.
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

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_events))]
mod tests {
    use super::super::cpuid::{Architecture, Microarchitecture};
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
        let kind = Some(CoreKind::FIRST);
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
        // The CPUs lack fixed-function counter 2, and general counters have no event 0.
        for event_0 in [EventSelect::new(0, 3), EventSelect::new(0, 0)] {
            assert_eq!(definition(event_0, &INTEL), Err(InvalidAttr::NoEvent));
        }
        let on_all = Definition::on_all(loads);
        assert_eq!((on_all.kind, on_all.general), (None, GENERAL_COUNTERS));
    }

    #[test]
    fn definitions_have_the_counters_of_the_event() {
        let golden_cove = Capabilities {
            microarchitecture: Microarchitecture::GoldenCove,
            ..INTEL
        };
        let general = |event, unit_mask| {
            let select = EventSelect::new(event, unit_mask);
            let definition = Definition::on_kind(select, None, &golden_cove);
            definition.map(|definition| definition.general)
        };
        assert_eq!(general(0xd0, 0x81), Ok(0xf));
        assert_eq!(general(0xce, 0x01), Ok(0x1));
        assert_eq!(general(0xc4, 0x00), Ok(0xff));
        assert_eq!(general(0x2a, 0x01), Err(InvalidAttr::Unsupported));
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
