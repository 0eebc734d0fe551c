// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The events of the trace interface: what an event id stands for.

use super::counter::CounterId;
use super::cpuid::{Architecture, Capabilities};
use super::evtsel::EventSelect;
use crate::abi;

/// An event id: a group and a number within it; 0 is no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventId(pub u16);

/// What an id stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Any general counter can count it; the modes are to be added.
    General(EventSelect),
    /// This fixed-function counter counts it, and nothing else.
    Fixed(CounterId),
}

impl EventId {
    /// No event.
    pub const NONE: Self = Self(abi::PERFMON_EVENT_ID_NONE as u16);

    /// One of the `PERFMON_GROUP_*`.
    #[must_use]
    pub const fn group(self) -> u32 {
        (self.0 >> 10) as u32
    }

    /// The number within the group: 0 to `PERFMON_MAX_EVENT`.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0 as u32 & abi::PERFMON_MAX_EVENT
    }

    /// Whether its meaning is made by `PERFMON_DEFINE_EVENT`.
    #[must_use]
    pub const fn is_definable(self) -> bool {
        self.group() == abi::PERFMON_GROUP_MODEL
    }

    /// What it stands for, on CPUs that all have `capabilities`; `defined` knows those that programs
    /// have defined. `None` if it stands for nothing there.
    pub fn event(
        self,
        capabilities: &Capabilities,
        defined: impl FnOnce(Self) -> Option<EventSelect>,
    ) -> Option<Event> {
        match self.group() {
            abi::PERFMON_GROUP_ARCH => {
                architectural(self.number(), capabilities).map(Event::General)
            }
            abi::PERFMON_GROUP_FIXED => {
                let n = self.number().checked_sub(1)?.try_into().ok()?;
                let counter = CounterId::fixed(n)?;
                let known = self.number() <= abi::PERFMON_FIXED_EVENT_TOPDOWN_SLOTS;
                let there = capabilities.fixed >> n & 1 != 0;
                (known && there).then_some(Event::Fixed(counter))
            }
            abi::PERFMON_GROUP_MODEL => defined(self).map(Event::General),
            // PERFMON_GROUP_MISC: no CPU has any.
            _ => None,
        }
    }
}

/// The architectural events by their bit in CPUID leaf 0AH, EBX (Intel SDM, volume 3B, table 21-1),
/// and what stands for them on AMD (the Processor Programming References, "Core Performance Counter
/// Events"): it has no event for reference cycles, and its cores see their own cache of level 2, which
/// Linux perf, too, takes for the last one.
const ARCHITECTURAL: [(EventSelect, Option<EventSelect>); 8] = [
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

/// The architectural event that `select` would count, by its number, if the CPUs say that one of them
/// does not have it.
///
/// The other fields of an event select don't make another event of it. AMD has no such events.
#[must_use]
pub fn missing(select: EventSelect, capabilities: &Capabilities) -> Option<u32> {
    const EVENT: u64 = 0xffff | EventSelect::UNIT_MASK_2;

    if capabilities.architecture != Architecture::Intel {
        return None;
    }
    let event = select.stopped() & EVENT;
    (0..)
        .zip(&ARCHITECTURAL)
        .find(|(number, (intel, _))| {
            intel.stopped() == event && capabilities.arch_events >> number & 1 == 0
        })
        .map(|(number, _)| number)
}

fn architectural(number: u32, capabilities: &Capabilities) -> Option<EventSelect> {
    let &(intel, amd) = ARCHITECTURAL.get(number as usize)?;
    if capabilities.arch_events >> number & 1 == 0 {
        return None;
    }
    match capabilities.architecture {
        Architecture::Intel => Some(intel),
        Architecture::AmdLegacy | Architecture::AmdCore | Architecture::AmdV2 => amd,
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_events))]
mod tests {
    use super::*;

    const INTEL: Capabilities = Capabilities {
        general: 8,
        fixed: 0b1011,
        arch_events: 0b0111_1111,
        ..Capabilities::NOTHING
    };
    const AMD: Capabilities = Capabilities {
        architecture: Architecture::AmdCore,
        fixed: 0,
        ..INTEL
    };

    fn id(group: u32, number: u32) -> EventId {
        EventId((group << 10 | number) as u16)
    }

    fn general(capabilities: &Capabilities, group: u32, number: u32) -> Option<u64> {
        let defined = |id: EventId| (id.number() == 5).then_some(EventSelect::new(0xd1, 0x20));
        match id(group, number).event(capabilities, defined) {
            Some(Event::General(select)) => Some(select.stopped()),
            _ => None,
        }
    }

    fn fixed(capabilities: &Capabilities, number: u32) -> Option<usize> {
        match id(abi::PERFMON_GROUP_FIXED, number).event(capabilities, |_| None) {
            Some(Event::Fixed(counter)) => Some(counter.index()),
            _ => None,
        }
    }

    #[test]
    fn architectural_events() {
        let arch = abi::PERFMON_GROUP_ARCH;
        assert_eq!(general(&INTEL, arch, 0), Some(0x003c));
        assert_eq!(general(&INTEL, arch, 3), Some(0x4f2e));
        assert_eq!(general(&INTEL, arch, 6), Some(0x00c5));
        // This CPU lacks it; there is none with this number.
        assert_eq!(general(&INTEL, arch, 7), None);
        assert_eq!(general(&INTEL, arch, 8), None);
        assert_eq!(general(&AMD, arch, 0), Some(0x0076));
        assert_eq!(general(&AMD, arch, 2), None);
        assert_eq!(general(&AMD, arch, 5), Some(0x00c2));
    }

    #[test]
    fn events_that_a_cpu_lacks() {
        let few = Capabilities {
            arch_events: 0b0110_0111,
            ..INTEL
        };
        let find = |event, mask| missing(EventSelect::new(event, mask).modes(true, false), &few);
        assert_eq!(find(0x3c, 0x00), None);
        assert_eq!(find(0x2e, 0x4f), Some(3));
        assert_eq!(find(0x2e, 0x41), Some(4));
        assert_eq!(find(0xa4, 0x01), Some(7));
        // Not architectural, so nothing is told about it.
        assert_eq!(find(0x2e, 0x4e), None);
        assert_eq!(find(0x00, 0x00), None);
        let edges = EventSelect::new(0x2e, 0x41).edge().threshold(3, true);
        assert_eq!(missing(edges, &few), Some(4));
        let other = EventSelect::from_wide_request(1 << 40 | 0x412e, EventSelect::ANY_BITS);
        assert_eq!(other.map(|select| missing(select, &few)), Ok(None));
        let amd = Capabilities {
            arch_events: 0,
            ..AMD
        };
        assert_eq!(missing(EventSelect::new(0xc0, 0), &amd), None);
    }

    #[test]
    fn fixed_events_name_their_counter() {
        assert_eq!(fixed(&INTEL, 0), None);
        assert_eq!(fixed(&INTEL, 1), Some(32));
        // The CPU has no fixed-function counter 2, but 3.
        assert_eq!(fixed(&INTEL, 3), None);
        assert_eq!(fixed(&INTEL, 4), Some(35));
        assert_eq!(fixed(&INTEL, 5), None);
        assert_eq!(fixed(&INTEL, 0x3ff), None);
        assert_eq!(fixed(&AMD, 1), None);
    }

    #[test]
    fn defined_events() {
        assert_eq!(general(&INTEL, abi::PERFMON_GROUP_MODEL, 5), Some(0x20d1));
        assert_eq!(general(&INTEL, abi::PERFMON_GROUP_MODEL, 6), None);
    }

    #[test]
    fn there_are_no_others() {
        for group in [0, 4, 5, 0x3f] {
            assert_eq!(general(&INTEL, group, 1), None);
        }
    }
}
