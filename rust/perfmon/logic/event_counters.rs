// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The counters that can count an event.

use super::architectural_events::architectural_number;
use super::cores::{Core, ALL_COUNTERS};
use super::counter::CounterId;
use super::cpuid::{Architecture, Capabilities, Microarchitecture};
use super::event_attr::InvalidAttr;
use super::event_limits;
use super::evtsel::EventSelect;
use crate::abi;

/// The counters that can count an event: at least one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventCounters {
    /// The fixed-function counter that counts exactly this event.
    pub fixed: Option<CounterId>,
    /// The bits of the general counters that can count the event.
    pub general: u64,
}

impl EventCounters {
    /// Returns the counters for `select`, whose modes don't matter.
    ///
    /// # Errors
    ///
    /// [`InvalidAttr::NoEvent`] if no counter can count the event. [`InvalidAttr::Unsupported`] if the event needs an
    /// extra register that the module does not write, or if several cores or two counters count it together.
    pub fn new(
        select: EventSelect,
        capabilities: &Capabilities,
        microarchitecture: Microarchitecture,
    ) -> Result<Self, InvalidAttr> {
        let select = select.with_modes(false, false);
        let (fixed, allowed_counters) = match capabilities.architecture {
            Architecture::Intel => (
                fixed_counter(select, capabilities, microarchitecture),
                intel_counters(select, capabilities, microarchitecture)?,
            ),
            Architecture::AmdLegacy | Architecture::AmdCore | Architecture::AmdV2 => {
                (None, event_limits::amd_counters(select, microarchitecture)?)
            }
        };
        let this = Self {
            fixed,
            general: allowed_counters & ((1 << capabilities.general_count) - 1),
        };
        if this.bits() == 0 {
            return Err(InvalidAttr::NoEvent);
        }
        Ok(this)
    }

    /// Returns the counters for `select` if no extra register is written, as PMIO and traces do not.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::new`], and [`InvalidAttr::Unsupported`] if the event needs any extra
    /// register.
    pub fn without_extra_register(
        select: EventSelect,
        capabilities: &Capabilities,
    ) -> Result<Self, InvalidAttr> {
        let microarchitecture = capabilities.microarchitecture;
        let this = Self::new(select, capabilities, microarchitecture)?;
        let core = Core::for_microarchitecture(microarchitecture);
        if core.extra_register_event(select).is_some() {
            return Err(InvalidAttr::Unsupported);
        }
        Ok(this)
    }

    /// Returns the event's counters whose bits are set in `counters`.
    ///
    /// # Errors
    ///
    /// [`InvalidAttr::Unsupported`] if no counter of the event is in `counters`.
    pub fn only(self, counters: u64) -> Result<Self, InvalidAttr> {
        let this = Self {
            fixed: self.fixed.filter(|fixed| counters & fixed.bit() != 0),
            general: self.general & counters,
        };
        if this.bits() == 0 {
            return Err(InvalidAttr::Unsupported);
        }
        Ok(this)
    }

    /// Returns the counters that are in both sets.
    ///
    /// # Errors
    ///
    /// [`InvalidAttr::NoEvent`] if no counter is in both sets.
    pub fn intersection(self, other: Self) -> Result<Self, InvalidAttr> {
        let this = Self {
            fixed: self.fixed.filter(|_| self.fixed == other.fixed),
            general: self.general & other.general,
        };
        if this.bits() == 0 {
            return Err(InvalidAttr::NoEvent);
        }
        Ok(this)
    }

    /// Returns the bits of all these counters.
    #[must_use]
    pub const fn bits(self) -> u64 {
        match self.fixed {
            Some(counter) => self.general | counter.bit(),
            None => self.general,
        }
    }
}

/// Returns the fixed-function counter for an event. Fixed-function counters can neither detect edges nor compare with a
/// counter mask.
///
/// Intel has no event with the number 0: see [`is_fixed_event`].
fn fixed_counter(
    select: EventSelect,
    capabilities: &Capabilities,
    microarchitecture: Microarchitecture,
) -> Option<CounterId> {
    if select != EventSelect::new(select.event(), select.unit_mask()) {
        return None;
    }
    let n = match architectural_number(select) {
        Some(abi::PERFMON_ARCH_EVENT_INSTRUCTIONS_RETIRED) => 0,
        Some(abi::PERFMON_ARCH_EVENT_UNHALTED_CORE_CYCLES) => 1,
        _ if is_fixed_event(select) => select.unit_mask() - 1,
        _ => Core::for_microarchitecture(microarchitecture).fixed_counter(select)?,
    };
    CounterId::fixed(n).filter(|counter| capabilities.counters() & counter.bit() != 0)
}

/// Returns whether an event select of Intel has the number that Linux and the event lists use for the event of a
/// fixed-function counter: event 0, with a unit mask of n for fixed-function counter n - 1.
#[must_use]
pub const fn is_fixed_event(select: EventSelect) -> bool {
    matches!(
        select.stopped(),
        0x0100 | 0x0200 | 0x0300 | 0x0400 | 0x0500 | 0x0600 | 0x0700
    )
}

/// Returns the general counters that can count an event of Intel, as a mask.
fn intel_counters(
    select: EventSelect,
    capabilities: &Capabilities,
    microarchitecture: Microarchitecture,
) -> Result<u64, InvalidAttr> {
    if select.event() == 0 {
        return Ok(0);
    }
    if let Some(number) = architectural_number(select) {
        let is_present = capabilities.arch_events >> number & 1 != 0;
        return Ok(if is_present { ALL_COUNTERS } else { 0 });
    }
    event_limits::intel_counters(select, microarchitecture)
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(
    CONFIG_KUNIT = "y",
    kernel::macros::kunit_tests(perfmon_event_counters)
)]
mod tests {
    use super::*;
    use InvalidAttr::{NoEvent, Unsupported};
    use Microarchitecture as M;

    const INTEL: Capabilities = Capabilities {
        general_count: 8,
        fixed: 0b1111,
        arch_events: 0xff,
        ..Capabilities::NONE
    };
    const AMD: Capabilities = Capabilities {
        architecture: Architecture::AmdCore,
        general_count: 6,
        ..Capabilities::NONE
    };

    /// Returns the number of the fixed-function counter, and the general counters.
    fn counters_of(
        cpu: &Capabilities,
        microarchitecture: M,
        bits: u64,
    ) -> Result<(Option<usize>, u64), InvalidAttr> {
        let select = EventSelect::from_bits(bits);
        let counters = EventCounters::new(select, cpu, microarchitecture)?;
        Ok((counters.fixed.map(|c| c.index() - 32), counters.general))
    }

    #[test]
    fn fixed_counters_count_their_events() {
        assert_eq!(counters_of(&INTEL, M::Unknown, 0xc0), Ok((Some(0), 0xff)));
        assert_eq!(
            counters_of(&INTEL, M::Skylake, 0x3003c),
            Ok((Some(1), 0xff))
        );
        assert_eq!(counters_of(&INTEL, M::Skylake, 0x0300), Ok((Some(2), 0)));
        assert_eq!(counters_of(&INTEL, M::Skylake, 0x0400), Ok((Some(3), 0)));
        assert_eq!(counters_of(&INTEL, M::Skylake, 0x01a4), Ok((None, 0xff)));
        assert_eq!(counters_of(&AMD, M::Zen4, 0xc0), Ok((None, 0x3f)));
        // Fixed-function counters can't count edges, or compare with a counter mask.
        assert_eq!(counters_of(&INTEL, M::Skylake, 0x400c0), Ok((None, 0xff)));
        assert_eq!(
            counters_of(&INTEL, M::Skylake, 0x0100_00c0),
            Ok((None, 0xff))
        );
        assert_eq!(
            counters_of(&INTEL, M::Skylake, 0x0080_003c),
            Ok((None, 0xff))
        );
    }

    #[test]
    fn reference_cycles_are_an_event_from_golden_cove_on() {
        assert_eq!(counters_of(&INTEL, M::Skylake, 0x013c), Ok((None, 0xff)));
        assert_eq!(
            counters_of(&INTEL, M::GoldenCove, 0x013c),
            Ok((Some(2), 0xff))
        );
        assert_eq!(
            counters_of(&INTEL, M::Gracemont, 0x013c),
            Ok((Some(2), 0xff))
        );
    }

    #[test]
    fn small_cores_have_fixed_counters_for_slots() {
        let skymont = Capabilities {
            fixed: 0b111_0111,
            arch_events: 0x1f7f,
            ..INTEL
        };
        assert_eq!(
            counters_of(&skymont, M::Skymont, 0x0073),
            Ok((Some(4), 0xff))
        );
        assert_eq!(
            counters_of(&skymont, M::Darkmont, 0x02c2),
            Ok((Some(6), 0xff))
        );
        // The numbers that the event lists have for the events of these counters.
        for (event, counter) in [(0x0500, 4), (0x0600, 5), (0x0700, 6)] {
            assert_eq!(
                counters_of(&skymont, M::Skymont, event),
                Ok((Some(counter), 0))
            );
            assert_eq!(counters_of(&INTEL, M::GoldenCove, event), Err(NoEvent));
        }
        assert_eq!(counters_of(&skymont, M::Skymont, 0x0800), Err(NoEvent));
        assert_eq!(
            counters_of(&skymont, M::Gracemont, 0x0073),
            Ok((None, 0xff))
        );
        assert_eq!(counters_of(&INTEL, M::Skymont, 0x0073), Ok((None, 0xff)));
    }

    #[test]
    fn event_0_of_intel_needs_a_fixed_counter() {
        let without_fixed_2 = Capabilities {
            fixed: 0b0011,
            ..INTEL
        };
        assert_eq!(
            counters_of(&without_fixed_2, M::Skylake, 0x0300),
            Err(NoEvent)
        );
        assert_eq!(counters_of(&INTEL, M::Skylake, 0x0), Err(NoEvent));
        assert_eq!(counters_of(&INTEL, M::Skylake, 0x0500), Err(NoEvent));
        assert_eq!(counters_of(&INTEL, M::Skylake, 0x40300), Err(NoEvent));
        // AMD has an event with the number 0.
        assert_eq!(counters_of(&AMD, M::Zen1, 0x0300), Ok((None, 0x3f)));
    }

    #[test]
    fn missing_architectural_events_have_no_general_counter() {
        let lacks_branch_events = Capabilities {
            arch_events: 0b1001_1101,
            ..INTEL
        };
        assert_eq!(
            counters_of(&lacks_branch_events, M::Skylake, 0x00c0),
            Ok((Some(0), 0))
        );
        assert_eq!(
            counters_of(&lacks_branch_events, M::Skylake, 0x00c5),
            Err(NoEvent)
        );
    }

    #[test]
    fn extra_registers_may_be_unwritten() {
        let golden_cove = Capabilities {
            microarchitecture: M::GoldenCove,
            ..INTEL
        };
        let counters_of = |bits| {
            let select = EventSelect::from_bits(bits);
            EventCounters::without_extra_register(select, &golden_cove).map(EventCounters::bits)
        };
        assert_eq!(counters_of(0x3_81d0), Ok(0xf));
        assert_eq!(counters_of(0x0300), Ok(1 << 34));
        assert_eq!(counters_of(0x0500), Err(NoEvent));
        // The module writes the extra registers of these events only for events, not for PMIO and traces.
        assert_eq!(counters_of(0x3_012a), Err(Unsupported));
        assert_eq!(counters_of(0x01cd), Err(Unsupported));
    }

    #[test]
    fn limits_exclude_missing_counters() {
        assert_eq!(counters_of(&INTEL, M::Skylake, 0x81d0), Ok((None, 0xf)));
        assert_eq!(counters_of(&INTEL, M::IceLake, 0x01c0), Ok((Some(0), 0xff)));
        assert_eq!(counters_of(&INTEL, M::Haswell, 0x01cd), Err(Unsupported));
        assert_eq!(counters_of(&AMD, M::Zen1, 0x0ff03), Err(Unsupported));
        assert_eq!(counters_of(&AMD, M::Bulldozer, 0x07e0), Err(NoEvent));
        let few_counters = Capabilities {
            general_count: 2,
            ..INTEL
        };
        assert_eq!(counters_of(&few_counters, M::Haswell, 0x0148), Err(NoEvent));
        assert_eq!(
            counters_of(&few_counters, M::SandyBridge, 0x81d0),
            Ok((None, 0x3))
        );
    }
}
