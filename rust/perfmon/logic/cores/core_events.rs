// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The events of a core, and the events that several families of cores share.

use super::super::evtsel::EventSelect;
use super::cache::CacheTable;
use super::extra::ExtraEvents;
use super::limit::Limit;
use super::memory::MemoryEvents;

/// The events of a core that CPUID does not report.
#[derive(Clone, Copy)]
pub(in super::super) struct Core {
    /// The events of Intel's cores that need an extra register: offcore responses, loads of a given latency, events of
    /// the front end, responses to snoops.
    pub(in super::super) extra_register_events: &'static [ExtraEvents],
    /// The events of Intel's cores that only some general counters can count. The first limit with the event applies.
    pub(in super::super) limits: &'static [Limit],
    /// The events of Intel's cores whose precise samples only some general counters can take (Linux:
    /// `intel_*_pebs_event_constraints` in arch/x86/events/intel/ds.c). The first limit with the event applies.
    pub(in super::super) precise_limits: &'static [Limit],
    /// The events of Intel's cores whose precise samples describe an access to memory. The first entry with the event applies.
    pub(super) memory_events: &'static [&'static [MemoryEvents]],
    /// The records of precise samples have the latency of the instruction besides the latency of the access.
    pub(in super::super) has_instruction_latency: bool,
    /// The events, besides instructions and cycles, that a fixed-function counter can count: event number and unit
    /// mask as in the register, and the number of the counter.
    pub(super) fixed_events: &'static [(u16, u8)],
    /// The events of `PERF_TYPE_HARDWARE`, by `PERF_COUNT_HW_*`, that are not architectural events.
    pub(super) hardware_events: &'static [(u32, EventSelect)],
    /// The events of `PERF_TYPE_HW_CACHE`, if there are any.
    pub(in super::super) cache_events: Option<&'static CacheTable>,
}

impl Core {
    /// A core without limits, and without events of its own.
    pub(super) const EMPTY: Self = Self {
        extra_register_events: &[],
        limits: &[],
        precise_limits: &[],
        memory_events: &[],
        has_instruction_latency: false,
        fixed_events: &[],
        hardware_events: &[],
        cache_events: None,
    };

    /// Returns the entry of an event that needs an extra register; `None` if the event needs none.
    pub(in super::super) fn extra_register_event(
        self,
        select: EventSelect,
    ) -> Option<&'static ExtraEvents> {
        let mut entries = self.extra_register_events.iter();
        entries.find(|events| events.contains(select))
    }

    /// Returns the entry of an event whose precise samples describe an access to memory; `None` for other events.
    pub(in super::super) fn memory_event(
        self,
        select: EventSelect,
    ) -> Option<&'static MemoryEvents> {
        let mut entries = self.memory_events.iter().copied().flatten();
        entries.find(|entry| entry.events.contains(select))
    }

    /// Returns the number of the fixed-function counter that counts `select`. The table lacks instructions and cycles.
    pub(in super::super) fn fixed_counter(self, select: EventSelect) -> Option<u8> {
        let mut entries = self.fixed_events.iter();
        entries
            .find(|(event, _)| u64::from(*event) == select.stopped())
            .map(|(_, counter)| *counter)
    }

    /// Returns an event of `PERF_TYPE_HARDWARE` that is not an architectural event.
    pub(in super::super) fn hardware_event(self, number: u32) -> Option<EventSelect> {
        let mut entries = self.hardware_events.iter();
        entries
            .find(|(event, _)| *event == number)
            .map(|(_, select)| *select)
    }
}

/// CPU_CLK_UNHALTED.REF_TSC_P, for cores whose fixed-function counter 2 counts this event.
pub(super) const REFERENCE_CYCLES: (u16, u8) = (0x013c, 2);

/// Returns the event that counts cycles in which the given event of micro-operations does not occur.
pub(super) const fn cycles_without(event: u16, unit_mask: u8) -> EventSelect {
    EventSelect::new(event, unit_mask).with_counter_mask(1, true)
}
