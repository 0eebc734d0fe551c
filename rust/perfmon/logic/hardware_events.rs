// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! `PERF_TYPE_HARDWARE`: the events that Linux perf has for most processors, with its encodings.

use super::architectural_events::architectural_select;
use super::cores::Core;
use super::cpuid::{Architecture, Capabilities, Microarchitecture};
use super::event_attr::{
    InvalidAttr, PERF_COUNT_HW_BRANCH_INSTRUCTIONS, PERF_COUNT_HW_BRANCH_MISSES,
    PERF_COUNT_HW_BUS_CYCLES, PERF_COUNT_HW_CACHE_MISSES, PERF_COUNT_HW_CACHE_REFERENCES,
    PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_INSTRUCTIONS, PERF_COUNT_HW_REF_CPU_CYCLES,
    PERF_COUNT_HW_STALLED_CYCLES_BACKEND, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND,
};
use super::evtsel::EventSelect;
use crate::abi;

/// Returns the event select of the event with this `PERF_COUNT_HW_*`, without modes.
///
/// # Errors
///
/// [`InvalidAttr::Invalid`] if no event has the number, [`InvalidAttr::NoEvent`] if these CPUs lack the event.
pub fn hardware_event(
    number: u32,
    capabilities: &Capabilities,
    microarchitecture: Microarchitecture,
) -> Result<EventSelect, InvalidAttr> {
    if let Some(select) = Core::for_microarchitecture(microarchitecture).hardware_event(number) {
        return Ok(select);
    }
    let select = match number {
        PERF_COUNT_HW_CPU_CYCLES => {
            architectural_select(abi::PERFMON_ARCH_EVENT_UNHALTED_CORE_CYCLES, capabilities)
        }
        PERF_COUNT_HW_INSTRUCTIONS => {
            architectural_select(abi::PERFMON_ARCH_EVENT_INSTRUCTIONS_RETIRED, capabilities)
        }
        PERF_COUNT_HW_CACHE_REFERENCES => {
            architectural_select(abi::PERFMON_ARCH_EVENT_LLC_REFERENCES, capabilities)
        }
        PERF_COUNT_HW_CACHE_MISSES => {
            architectural_select(abi::PERFMON_ARCH_EVENT_LLC_MISSES, capabilities)
        }
        PERF_COUNT_HW_BRANCH_INSTRUCTIONS => {
            architectural_select(abi::PERFMON_ARCH_EVENT_BRANCHES_RETIRED, capabilities)
        }
        PERF_COUNT_HW_BRANCH_MISSES => {
            architectural_select(abi::PERFMON_ARCH_EVENT_BRANCH_MISSES_RETIRED, capabilities)
                .or_else(|| executed_branch_misses(microarchitecture))
        }
        PERF_COUNT_HW_BUS_CYCLES => architectural_select(
            abi::PERFMON_ARCH_EVENT_UNHALTED_REFERENCE_CYCLES,
            capabilities,
        ),
        PERF_COUNT_HW_STALLED_CYCLES_FRONTEND | PERF_COUNT_HW_STALLED_CYCLES_BACKEND => None,
        PERF_COUNT_HW_REF_CPU_CYCLES => reference_cycles(capabilities, microarchitecture),
        _ => return Err(InvalidAttr::Invalid),
    };
    select.ok_or(InvalidAttr::NoEvent)
}

/// Returns the event that takes the place of mispredicted branches on a Nehalem with erratum AAJ80, which lacks the
/// architectural event: BR_MISP_EXEC.ANY, which also counts branches that do not retire (Linux: `intel_nehalem_quirk()`).
fn executed_branch_misses(microarchitecture: Microarchitecture) -> Option<EventSelect> {
    (microarchitecture == Microarchitecture::Nehalem).then_some(EventSelect::new(0x89, 0x7f))
}

/// Returns the event of cycles at the rate of the time-stamp counter.
fn reference_cycles(
    capabilities: &Capabilities,
    microarchitecture: Microarchitecture,
) -> Option<EventSelect> {
    /// Linux's encoding of the event that only fixed-function counter 2 counts.
    const FIXED_2: EventSelect = EventSelect::new(0x00, 0x03);

    const REFERENCE_CYCLES: u32 = abi::PERFMON_ARCH_EVENT_UNHALTED_REFERENCE_CYCLES;

    match capabilities.architecture {
        // On cores whose fixed-function counter 2 can't count the architectural event, that event counts cycles of
        // another clock.
        Architecture::Intel => architectural_select(REFERENCE_CYCLES, capabilities)
            .filter(|select| {
                Core::for_microarchitecture(microarchitecture)
                    .fixed_counter(*select)
                    .is_some()
            })
            .or(Some(FIXED_2)),
        Architecture::AmdLegacy | Architecture::AmdCore | Architecture::AmdV2 => None,
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(
    CONFIG_KUNIT = "y",
    kernel::macros::kunit_tests(perfmon_hardware_events)
)]
mod tests {
    use super::*;
    use InvalidAttr::{Invalid, NoEvent};
    use Microarchitecture as M;

    const INTEL: Capabilities = Capabilities {
        general_count: 8,
        fixed: 0b111,
        arch_events: 0x7f,
        ..Capabilities::NONE
    };
    const AMD: Capabilities = Capabilities {
        architecture: Architecture::AmdCore,
        general_count: 6,
        arch_events: 0x7b,
        ..Capabilities::NONE
    };

    /// Returns whether events 0 to 6 of these CPUs have the encodings `first`, and events 7 to 9 the encodings `last`.
    /// The encoding 0 stands for a missing event.
    fn have_encodings(
        capabilities: &Capabilities,
        microarchitecture: M,
        first: [u64; 7],
        last: [u64; 3],
    ) -> bool {
        (0..)
            .zip(first.into_iter().chain(last))
            .all(|(number, bits)| {
                let encoding = hardware_event(number, capabilities, microarchitecture)
                    .map(EventSelect::stopped);
                encoding == if bits == 0 { Err(NoEvent) } else { Ok(bits) }
            })
    }

    #[test]
    fn encodings_of_intel() {
        let have_encodings = |microarchitecture, last: [u64; 3]| {
            let common_encodings = [0x3c, 0xc0, 0x4f2e, 0x412e, 0xc4, 0xc5, 0x013c];
            have_encodings(&INTEL, microarchitecture, common_encodings, last)
        };
        assert!(have_encodings(M::Skylake, [0, 0, 0x0300]));
        assert!(have_encodings(M::Unknown, [0, 0, 0x0300]));
        assert!(have_encodings(M::GoldenCove, [0, 0, 0x013c]));
        assert!(have_encodings(M::Crestmont, [0, 0, 0x013c]));
        assert!(have_encodings(M::Tremont, [0, 0, 0x0300]));
        assert!(have_encodings(
            M::Nehalem,
            [0x0180_010e, 0x0180_3fb1, 0x0300]
        ));
        assert!(have_encodings(
            M::SandyBridge,
            [0x0180_010e, 0x0180_01b1, 0x0300]
        ));
        assert!(have_encodings(M::IvyBridge, [0x0180_010e, 0, 0x0300]));
    }

    #[test]
    fn encodings_of_amd() {
        let zen_encodings = [0x76, 0xc0, 0xff60, 0x0964, 0xc2, 0xc3, 0];
        assert!(have_encodings(
            &AMD,
            M::Zen1,
            zen_encodings,
            [0x0287, 0x0187, 0]
        ));
        assert!(have_encodings(&AMD, M::Zen2, zen_encodings, [0x00a9, 0, 0]));
        assert!(have_encodings(
            &AMD,
            M::Zen4,
            zen_encodings,
            [0x00a9, 0, 0x1_0000_0120]
        ));
        assert!(have_encodings(
            &AMD,
            M::Zen6,
            zen_encodings,
            [0x00a9, 0, 0x1_0000_0120]
        ));
        let old_encodings = [0x76, 0xc0, 0x077d, 0x077e, 0xc2, 0xc3, 0];
        assert!(have_encodings(
            &AMD,
            M::AmdBeforeZen,
            old_encodings,
            [0xd0, 0xd1, 0]
        ));
        assert!(have_encodings(
            &AMD,
            M::Bulldozer,
            old_encodings,
            [0xd0, 0xd1, 0]
        ));
    }

    #[test]
    fn missing_events_are_refused() {
        let few_events = Capabilities {
            arch_events: 0b001_1111,
            ..INTEL
        };
        let refusal_of = |number| hardware_event(number, &few_events, M::Skylake).err();
        assert_eq!(refusal_of(PERF_COUNT_HW_CPU_CYCLES), None);
        assert_eq!(refusal_of(PERF_COUNT_HW_BRANCH_MISSES), Some(NoEvent));
        assert_eq!(
            hardware_event(PERF_COUNT_HW_BRANCH_MISSES, &few_events, M::Nehalem),
            Ok(EventSelect::new(0x89, 0x7f))
        );
        assert_eq!(refusal_of(10), Some(Invalid));
        // Without architectural events, reference cycles have the encoding of fixed-function counter 2.
        let no_events = Capabilities {
            arch_events: 0,
            ..INTEL
        };
        let reference_cycles =
            hardware_event(PERF_COUNT_HW_REF_CPU_CYCLES, &no_events, M::GoldenCove);
        assert_eq!(reference_cycles.map(EventSelect::stopped), Ok(0x0300));
        assert_eq!(refusal_of(u32::MAX), Some(Invalid));
    }
}
