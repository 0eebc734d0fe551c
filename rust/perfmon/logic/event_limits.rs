// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The general counters that can count an event. Some events are limited to some counters; other counters count nothing
//! for these events. Events are refused if they need an extra register that the module does not write, or a second counter.

use super::cores::{Core, ALL_COUNTERS};
use super::cpuid::Microarchitecture;
use super::event_attr::InvalidAttr;
use super::evtsel::EventSelect;
use super::extra_registers::ExtraRegister;

/// Returns the general counters, as a mask, that can count an event of Intel that is not architectural.
///
/// # Errors
///
/// [`InvalidAttr::Unsupported`] if the event needs an extra register that the module does not write.
pub(super) fn intel_counters(
    select: EventSelect,
    microarchitecture: Microarchitecture,
) -> Result<u64, InvalidAttr> {
    let core = Core::for_microarchitecture(microarchitecture);
    let extra = core.extra_register_event(select);
    if extra.is_some_and(|extra| extra.register.is_none()) {
        return Err(InvalidAttr::Unsupported);
    }
    let limit = core
        .limits
        .iter()
        .find(|(events, _)| events.contains(select));
    Ok(limit.map_or(ALL_COUNTERS, |(_, counters)| *counters))
}

/// Returns the extra registers of a core that the module writes.
pub fn extra_registers_of(
    microarchitecture: Microarchitecture,
) -> impl Iterator<Item = ExtraRegister> {
    let events = Core::for_microarchitecture(microarchitecture).extra_register_events;
    ExtraRegister::ALL.into_iter().filter(move |register| {
        let mut registers = events.iter().filter_map(|events| events.register);
        registers.any(|(other, _)| other == *register)
    })
}

/// Returns whether an event of AMD merges two counters, or needs merged counters. From Zen on, the
/// event 0xfff on an odd counter merges this counter with the counter below, which can then count
/// more than 15 events in a cycle. Retired SSE and AVX operations, the event 0x003, need this (AMD
/// PPR for family 17h, section 2.1.15.3, "Large Increment per Cycle Events"; Linux: `amd_pmu_pair`
/// in arch/x86/events/amd/core.c). The counter below may belong to another program, which would
/// miss its overflows.
pub fn needs_merged_counters(select: EventSelect, microarchitecture: Microarchitecture) -> bool {
    use Microarchitecture as M;

    matches!(
        microarchitecture,
        M::Zen1 | M::Zen2 | M::Zen4 | M::Zen5 | M::Zen6
    ) && matches!(select.event(), 0x003 | 0xfff)
}

/// Returns the general counters, as a mask, that can count an event of AMD; 0 if only counters of the northbridge can.
///
/// # Errors
///
/// [`InvalidAttr::Unsupported`] for events that several cores or two counters count together.
pub(super) fn amd_counters(
    select: EventSelect,
    microarchitecture: Microarchitecture,
) -> Result<u64, InvalidAttr> {
    use Microarchitecture as M;

    match microarchitecture {
        M::Bulldozer => Ok(family_15h_counters(select)),
        // Events of the northbridge, whose counters all cores share.
        M::AmdBeforeZen if select.event() & 0xe0 == 0xe0 => Err(InvalidAttr::Unsupported),
        _ if needs_merged_counters(select, microarchitecture) => Err(InvalidAttr::Unsupported),
        _ => Ok(ALL_COUNTERS),
    }
}

/// Returns the counters for an event of AMD family 15h, as a mask. The number of the event tells the unit of the core, and
/// the events of a unit share the same counters.
fn family_15h_counters(select: EventSelect) -> u64 {
    let unit_mask = select.unit_mask();
    let is_one_unit = unit_mask.count_ones() <= 1;
    match (select.event(), select.event() & 0xf0) {
        // Floating point.
        (0x000, _) if unit_mask & 0xf0 != 0 && unit_mask & 0x0f != 0 => 0x08,
        (0x004, _) if !is_one_unit => 0x08,
        (0x003 | 0x00b | 0x00d, _) => 0x08,
        (_, 0x00 | 0x10) => 0x38,
        // Load and store, the data cache, execution.
        (0x023 | 0x043 | 0x045 | 0x046 | 0x054 | 0x055, _) => 0x07,
        (0x02d, _) => 0x08,
        (0x02e, _) => 0x09,
        (0x031, _) => {
            if is_one_unit {
                0x07
            } else {
                0
            }
        }
        (0x1c0, _) => 0x38,
        (_, 0x20..=0x50 | 0xc0) => 0x3f,
        // The cache unit, the instruction cache and decoding.
        (0x08f | 0x187 | 0x188, _) => 0x01,
        (0x0db..=0x0df | 0x1d6 | 0x1d8, _) => 0x3f,
        (_, 0x60..=0x90 | 0xd0) => 0x07,
        // The northbridge has counters of its own.
        _ => 0,
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_event_limits))]
mod tests {
    use super::*;
    use InvalidAttr::Unsupported;
    use Microarchitecture as M;

    fn counters_of_intel(microarchitecture: M, bits: u64) -> Result<u64, InvalidAttr> {
        intel_counters(EventSelect::from_bits(bits), microarchitecture)
    }

    fn counters_of_amd(microarchitecture: M, bits: u64) -> Result<u64, InvalidAttr> {
        amd_counters(EventSelect::from_bits(bits), microarchitecture)
    }

    #[test]
    fn cores_have_registers() {
        let registers = |core| {
            extra_registers_of(core).fold(0, |registers, register| registers | register.bit())
        };
        assert_eq!(registers(Microarchitecture::Skylake), 0b00_1111);
        assert_eq!(registers(Microarchitecture::Haswell), 0b00_0011);
        assert_eq!(registers(Microarchitecture::Skymont), 0b11_0111);
        assert_eq!(registers(Microarchitecture::PantherCove), 0b00_1000);
        assert_eq!(registers(Microarchitecture::Nehalem), 0);
        assert_eq!(registers(Microarchitecture::Zen4), 0);
    }

    #[test]
    fn limited_events_of_intel() {
        assert_eq!(counters_of_intel(M::Skylake, 0x81d0), Ok(0xf));
        assert_eq!(counters_of_intel(M::Skylake, 0x0151), Ok(ALL_COUNTERS));
        assert_eq!(counters_of_intel(M::IceLake, 0x0151), Ok(0xf));
        assert_eq!(counters_of_intel(M::IceLake, 0x0002), Ok(ALL_COUNTERS));
        assert_eq!(counters_of_intel(M::GoldenCove, 0x4e2e), Ok(ALL_COUNTERS));
        assert_eq!(counters_of_intel(M::GoldenCove, 0x4e2d), Ok(0xf));
        assert_eq!(counters_of_intel(M::Haswell, 0x0148), Ok(0x4));
        assert_eq!(counters_of_intel(M::Haswell, 0x0248), Ok(ALL_COUNTERS));
        assert_eq!(counters_of_intel(M::Core2, 0x00cb), Ok(0x1));
        assert_eq!(counters_of_intel(M::LionCove, 0x10a4), Ok(0x8));
        assert_eq!(counters_of_intel(M::LionCove, 0x0151), Ok(ALL_COUNTERS));
        assert_eq!(counters_of_intel(M::LionCove, 0x87d0), Ok(ALL_COUNTERS));
        assert_eq!(counters_of_intel(M::LionCove, 0x81d0), Ok(0xf));
        assert_eq!(counters_of_intel(M::PantherCove, 0x0148), Ok(0xf));
        assert_eq!(counters_of_intel(M::Skymont, 0x81d0), Ok(ALL_COUNTERS));
        assert_eq!(counters_of_intel(M::ArcticWolf, 0x0275), Ok(0x2));
        assert_eq!(counters_of_intel(M::Unknown, 0x0251), Ok(0xf));
        // INST_RETIRED.PREC_DIST
        assert_eq!(counters_of_intel(M::Skylake, 0x01c0), Ok(0x2));
        assert_eq!(counters_of_intel(M::IceLake, 0x01c0), Ok(ALL_COUNTERS));
        // Modes and the counter mask don't matter.
        assert_eq!(counters_of_intel(M::Haswell, 0x0103_0148), Ok(0x4));
    }

    #[test]
    fn first_matching_limit_applies() {
        assert_eq!(counters_of_intel(M::IceLake, 0x04a3), Ok(ALL_COUNTERS));
        assert_eq!(counters_of_intel(M::IceLake, 0x02a3), Ok(0xf));
        assert_eq!(counters_of_intel(M::GoldenCove, 0x02cd), Ok(0x1));
    }

    #[test]
    fn limit_may_match_some_bits_of_the_unit_mask() {
        assert_eq!(counters_of_intel(M::Broadwell, 0x08a3), Ok(0x4));
        assert_eq!(counters_of_intel(M::Broadwell, 0x0ca3), Ok(0x4));
        assert_eq!(counters_of_intel(M::Broadwell, 0x04a3), Ok(ALL_COUNTERS));
        assert_eq!(counters_of_intel(M::Haswell, 0x09a3), Ok(ALL_COUNTERS));
    }

    #[test]
    fn events_with_extra_registers_may_be_limited() {
        assert_eq!(counters_of_intel(M::Skylake, 0x01b7), Ok(ALL_COUNTERS));
        assert_eq!(counters_of_intel(M::Skylake, 0x01c6), Ok(0xf));
        assert_eq!(counters_of_intel(M::IceLake, 0x01bb), Ok(0xf));
        assert_eq!(counters_of_intel(M::GoldenCove, 0x012a), Ok(0xf));
        assert_eq!(counters_of_intel(M::Goldmont, 0x02b7), Ok(ALL_COUNTERS));
        assert_eq!(counters_of_intel(M::Crestmont, 0x0127), Ok(ALL_COUNTERS));
    }

    #[test]
    fn events_with_extra_registers_that_are_not_written_are_refused() {
        assert_eq!(counters_of_intel(M::Nehalem, 0x01b7), Err(Unsupported));
        assert_eq!(counters_of_intel(M::Westmere, 0x01bb), Err(Unsupported));
        assert_eq!(counters_of_intel(M::Silvermont, 0x02b7), Err(Unsupported));
        assert_eq!(counters_of_intel(M::Nehalem, 0x01bb), Ok(ALL_COUNTERS));
        assert_eq!(counters_of_intel(M::Core2, 0x01b7), Ok(ALL_COUNTERS));
        assert_eq!(counters_of_intel(M::Unknown, 0x01cd), Err(Unsupported));
        assert_eq!(counters_of_intel(M::Haswell, 0x01cd), Err(Unsupported));
        assert_eq!(counters_of_intel(M::PantherCove, 0x824f), Ok(ALL_COUNTERS));
        assert_eq!(counters_of_intel(M::PantherCove, 0x024f), Err(Unsupported));
        assert_eq!(counters_of_intel(M::ArcticWolf, 0x08b7), Err(Unsupported));
        assert_eq!(counters_of_intel(M::ArcticWolf, 0x05d0), Err(Unsupported));
    }

    #[test]
    fn limited_events_of_amd() {
        assert_eq!(counters_of_amd(M::Zen1, 0xff04), Ok(ALL_COUNTERS));
        assert_eq!(counters_of_amd(M::Zen1, 0xff03), Err(Unsupported));
        assert_eq!(counters_of_amd(M::Zen6, 0xff03), Err(Unsupported));
        assert_eq!(counters_of_amd(M::Zen4, 0x1_0000_ff03), Ok(ALL_COUNTERS));
        assert_eq!(counters_of_amd(M::Zen2, 0xf_0000_00ff), Err(Unsupported));
        assert_eq!(counters_of_amd(M::Zen2, 0x7_0000_00ff), Ok(ALL_COUNTERS));
        assert_eq!(
            counters_of_amd(M::AmdBeforeZen, 0xf_0000_0103),
            Ok(ALL_COUNTERS)
        );
        assert_eq!(counters_of_amd(M::AmdBeforeZen, 0x00c0), Ok(ALL_COUNTERS));
        assert_eq!(counters_of_amd(M::AmdBeforeZen, 0x07e0), Err(Unsupported));
        assert_eq!(
            counters_of_amd(M::AmdBeforeZen, 0x4_0000_07e1),
            Err(Unsupported)
        );
    }

    #[test]
    fn limits_of_family_15h() {
        assert_eq!(counters_of_amd(M::Bulldozer, 0x00c0), Ok(0x3f));
        assert_eq!(counters_of_amd(M::Bulldozer, 0x0100), Ok(0x38));
        assert_eq!(counters_of_amd(M::Bulldozer, 0x1100), Ok(0x08));
        assert_eq!(counters_of_amd(M::Bulldozer, 0x0304), Ok(0x08));
        assert_eq!(counters_of_amd(M::Bulldozer, 0x0104), Ok(0x38));
        assert_eq!(counters_of_amd(M::Bulldozer, 0x077d), Ok(0x07));
        assert_eq!(counters_of_amd(M::Bulldozer, 0x0131), Ok(0x07));
        assert_eq!(counters_of_amd(M::Bulldozer, 0x0331), Ok(0));
        assert_eq!(counters_of_amd(M::Bulldozer, 0x07e0), Ok(0));
        assert_eq!(counters_of_amd(M::Bulldozer, 0x1_0000_00d6), Ok(0x3f));
    }
}
