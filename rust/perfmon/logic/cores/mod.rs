// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Properties of cores that CPUID does not report: a table for each core, one file for each family of cores.
//!
//! The tables are from Linux 7.3 (`arch/x86/events`). `cargo xtask cores` compares each entry with Linux's source. On
//! Intel's cores Linux counts some caches, mostly the last level and NUMA nodes, as offcore responses, which an extra
//! register selects: these cache events are missing here.

mod amd;
mod atom;
mod cache;
mod core2;
mod extra;
mod golden_cove;
mod gracemont;
mod limit;
mod lion_cove;
mod memory;
mod nehalem;
mod panther_cove;
mod sandy_bridge;
mod skylake;

pub(super) use self::cache::{CacheTable, INVALID_EVENT, NO_EVENT};
pub(super) use self::extra::ExtraEvents;
pub(super) use self::limit::{Limit, ALL_COUNTERS};
pub(super) use self::memory::MemoryEvents;

use self::extra::unsupported;
use self::limit::{event_and_unit, event_number, event_range};
use super::cpuid::Microarchitecture;
use super::evtsel::EventSelect;

/// The events of a core that CPUID does not report.
#[derive(Clone, Copy)]
pub(super) struct Core {
    /// The events of Intel's cores that need an extra register: offcore responses, loads of a given latency, events of
    /// the front end, responses to snoops.
    pub(super) extra_register_events: &'static [ExtraEvents],
    /// The events of Intel's cores that only some general counters can count. The first limit with the event applies.
    pub(super) limits: &'static [Limit],
    /// The events of Intel's cores of which only some of these general counters can take precise samples (Linux:
    /// `intel_*_pebs_event_constraints` in arch/x86/events/intel/ds.c). The first limit with the event applies.
    pub(super) precise_limits: &'static [Limit],
    /// The events of Intel's cores whose precise samples tell of an access to memory. The first with the event applies.
    memory_events: &'static [&'static [MemoryEvents]],
    /// The records of precise samples tell the latency of the instruction besides that of the access.
    pub(super) has_instruction_latency: bool,
    /// The events, besides instructions and cycles, that a fixed-function counter can count: event number and unit
    /// mask as in the register, and the number of the counter.
    fixed_events: &'static [(u16, u8)],
    /// The events of `PERF_TYPE_HARDWARE`, by `PERF_COUNT_HW_*`, that are not architectural events.
    hardware_events: &'static [(u32, EventSelect)],
    /// The events of `PERF_TYPE_HW_CACHE`, if there are any.
    pub(super) cache_events: Option<&'static CacheTable>,
}

impl Core {
    /// A core without limits, and without events of its own.
    const EMPTY: Self = Self {
        extra_register_events: &[],
        limits: &[],
        precise_limits: &[],
        memory_events: &[],
        has_instruction_latency: false,
        fixed_events: &[],
        hardware_events: &[],
        cache_events: None,
    };

    /// A core whose events are not known. Each event that needs an extra register on some core may need one on this
    /// core. All other events are limited to the first four counters, as nearly all events with limits are.
    const UNKNOWN: Self = Self {
        extra_register_events: &[
            unsupported(event_range(0x2a, 0x2b)),
            unsupported(event_and_unit(0x0127)),
            unsupported(event_and_unit(0x0227)),
            unsupported(event_number(0x4f)),
            unsupported(event_number(0xb7)),
            unsupported(event_number(0xbb)),
            unsupported(event_number(0xc6)),
            unsupported(event_number(0xcd)),
            unsupported(event_and_unit(0x05d0)),
            unsupported(event_number(0xd6)),
            unsupported(event_and_unit(0x40ad)),
            unsupported(event_and_unit(0x04c2)),
        ],
        limits: &[(event_range(0, 0xff), 0xf)],
        precise_limits: &[golden_cove::INSTRUCTIONS_NOT_ON_0],
        ..Self::EMPTY
    };

    /// Returns the core of a microarchitecture.
    pub(super) const fn for_microarchitecture(microarchitecture: Microarchitecture) -> Self {
        use Microarchitecture as M;

        match microarchitecture {
            M::Unknown => Self::UNKNOWN,
            M::Core2 => core2::CORE_2,
            M::Nehalem => nehalem::NEHALEM,
            M::Westmere => nehalem::WESTMERE,
            M::SandyBridge => sandy_bridge::SANDY_BRIDGE,
            M::IvyBridge => sandy_bridge::IVY_BRIDGE,
            M::Haswell => sandy_bridge::HASWELL,
            M::Broadwell => sandy_bridge::BROADWELL,
            M::Skylake => skylake::SKYLAKE,
            M::IceLake => skylake::ICE_LAKE,
            M::GoldenCove => golden_cove::GOLDEN_COVE,
            M::RedwoodCove => golden_cove::REDWOOD_COVE,
            M::LionCove | M::CougarCove => lion_cove::LION_COVE,
            M::PantherCove | M::CoyoteCove => panther_cove::PANTHER_COVE,
            M::Bonnell => atom::BONNELL,
            M::Silvermont => atom::SILVERMONT,
            M::Goldmont => atom::GOLDMONT,
            M::GoldmontPlus => atom::GOLDMONT_PLUS,
            M::Tremont => atom::TREMONT,
            M::Gracemont => gracemont::GRACEMONT,
            M::Crestmont => gracemont::CRESTMONT,
            M::Skymont => gracemont::SKYMONT,
            M::Darkmont => gracemont::DARKMONT,
            M::ArcticWolf => gracemont::ARCTIC_WOLF,
            M::AmdBeforeZen | M::Bulldozer => amd::BEFORE_ZEN,
            M::Zen1 => amd::ZEN_1,
            M::Zen2 => amd::ZEN_2,
            M::Zen4 | M::Zen5 | M::Zen6 => amd::ZEN_4,
        }
    }

    /// Returns what is known of an event that needs an extra register.
    pub(super) fn extra_register_event(self, select: EventSelect) -> Option<&'static ExtraEvents> {
        let mut extra = self.extra_register_events.iter();
        extra.find(|events| events.contains(select))
    }

    /// Returns what the precise samples of an event tell of an access to memory, if they tell it.
    pub(super) fn memory_event(self, select: EventSelect) -> Option<&'static MemoryEvents> {
        let mut memory = self.memory_events.iter().copied().flatten();
        memory.find(|memory| memory.events.contains(select))
    }

    /// Returns the number of the fixed-function counter that counts an event, instructions and cycles excepted.
    pub(super) fn fixed_counter(self, select: EventSelect) -> Option<u8> {
        let mut fixed = self.fixed_events.iter();
        fixed
            .find(|(event, _)| u64::from(*event) == select.stopped())
            .map(|(_, counter)| *counter)
    }

    /// Returns an event of `PERF_TYPE_HARDWARE` that is not an architectural event.
    pub(super) fn hardware_event(self, number: u32) -> Option<EventSelect> {
        let mut hardware = self.hardware_events.iter();
        hardware
            .find(|(event, _)| *event == number)
            .map(|(_, select)| *select)
    }
}

/// CPU_CLK_UNHALTED.REF_TSC_P, for cores whose fixed-function counter 2 counts this event.
const REFERENCE_CYCLES: (u16, u8) = (0x013c, 2);

/// Returns the event that counts cycles in which the given event of micro-operations does not occur.
const fn cycles_without(event: u16, unit_mask: u8) -> EventSelect {
    EventSelect::new(event, unit_mask).with_counter_mask(1, true)
}
