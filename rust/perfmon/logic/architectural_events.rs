// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The architectural events of Intel, and AMD's events with the same meaning.

use super::cores::Core;
use super::cpuid::{Architecture, Capabilities, Microarchitecture};
use super::event_attr::{PERF_COUNT_HW_CACHE_MISSES, PERF_COUNT_HW_CACHE_REFERENCES};
use super::evtsel::EventSelect;
use crate::abi;

/// The architectural events by their bit in CPUID leaf 0AH, EBX (Intel SDM, volume 3B, table 21-1),
/// and their equivalents on AMD (the Processor Programming References, "Core Performance Counter
/// Events"). AMD has no event for reference cycles. AMD's cores count only accesses to their own
/// cache of level 2. Linux perf uses the events of this cache for the last level, too.
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

/// Returns whether `select` counts one of the architectural events that CPUs with these
/// capabilities have, so that `select` counts the same on all kinds of cores.
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

/// Returns the event that replaces the architectural event `number`, an event of caches, on a core
/// of AMD; `None` if the core has the event of [`ARCHITECTURAL_EVENTS`].
fn amd_cache_event(number: u32, microarchitecture: Microarchitecture) -> Option<EventSelect> {
    let hardware_number = match number {
        abi::PERFMON_ARCH_EVENT_LLC_REFERENCES => PERF_COUNT_HW_CACHE_REFERENCES,
        abi::PERFMON_ARCH_EVENT_LLC_MISSES => PERF_COUNT_HW_CACHE_MISSES,
        _ => return None,
    };
    Core::for_microarchitecture(microarchitecture).hardware_event(hardware_number)
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(
    CONFIG_KUNIT = "y",
    kernel::macros::kunit_tests(perfmon_architectural_events)
)]
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
}
