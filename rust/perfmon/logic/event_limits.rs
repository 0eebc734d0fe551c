// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Events that only some general counters can count; on others they count nothing.
//!
//! The tables have what Linux perf 7.3 heeds (`arch/x86/events`).

use super::cpuid::Microarchitecture;
use super::event_attr::InvalidAttr;
use super::evtsel::EventSelect;

/// The counters of an event without limits.
pub(super) const ALL: u64 = u64::MAX;

/// Instead of counters: the event counts what a further register selects (offcore responses, loads of some latency,
/// the front end), which the module does not have.
const EXTRA_REGISTER: u64 = 0;

/// Returns the general counters that can count an event of Intel that is not architectural.
pub(super) fn intel(select: EventSelect, cpus: Microarchitecture) -> Result<u64, InvalidAttr> {
    match limit(limits(cpus), select) {
        None => Ok(ALL),
        Some(EXTRA_REGISTER) => Err(InvalidAttr::Unsupported),
        Some(counters) => Ok(counters),
    }
}

/// Returns the general counters that can count an event of AMD.
pub(super) fn amd(select: EventSelect, cpus: Microarchitecture) -> Result<u64, InvalidAttr> {
    use Microarchitecture as M;

    match cpus {
        M::Bulldozer => Ok(bulldozer(select)),
        // Events of the northbridge, which has one set of counters for all cores.
        M::AmdBeforeZen if select.event() & 0xe0 == 0xe0 => Err(InvalidAttr::Unsupported),
        // Retired SSE and AVX operations: for more than 15 in a cycle two counters must be merged.
        M::Zen1 | M::Zen2 | M::Zen4 if select.event() == 0x003 => Err(InvalidAttr::Unsupported),
        _ => Ok(ALL),
    }
}

/// A limit on the events with these numbers and unit masks.
struct Limit {
    first: u8,
    last: u8,
    unit_mask: Option<u8>,
    counters: u64,
}

/// Limits the event numbers `first` to `last`.
const fn range(first: u8, last: u8, counters: u64) -> Limit {
    Limit {
        first,
        last,
        unit_mask: None,
        counters,
    }
}

/// Limits an event number.
const fn event(number: u8, counters: u64) -> Limit {
    range(number, number, counters)
}

/// Limits an event number with a unit mask, in the order of the register.
const fn unit(mask_and_number: u16, counters: u64) -> Limit {
    Limit {
        unit_mask: Some((mask_and_number >> 8) as u8),
        ..event(mask_and_number as u8, counters)
    }
}

/// Returns the counters of the first limit that applies.
fn limit(limits: &[Limit], select: EventSelect) -> Option<u64> {
    let applies = |limit: &&Limit| {
        (limit.first..=limit.last).contains(&(select.event() as u8))
            && limit
                .unit_mask
                .is_none_or(|mask| mask == select.unit_mask())
    };
    limits.iter().find(applies).map(|limit| limit.counters)
}

/// The limits of a processor of Intel.
const fn limits(cpus: Microarchitecture) -> &'static [Limit] {
    use Microarchitecture as M;

    match cpus {
        M::Core2 => CORE_2,
        M::Nehalem => NEHALEM,
        M::Westmere => WESTMERE,
        M::SandyBridge => SANDY_BRIDGE,
        M::IvyBridge => IVY_BRIDGE,
        M::Haswell => HASWELL,
        M::Skylake => SKYLAKE,
        M::IceLake => ICE_LAKE,
        M::GoldenCove => GOLDEN_COVE,
        _ => UNKNOWN,
    }
}

/// What is an event with an extra register on some processor may be one here; and nearly all events with limits are
/// limited to the first four counters.
const UNKNOWN: &[Limit] = &[
    range(0x2a, 0x2b, EXTRA_REGISTER),
    event(0xb7, EXTRA_REGISTER),
    event(0xbb, EXTRA_REGISTER),
    event(0xc6, EXTRA_REGISTER),
    event(0xcd, EXTRA_REGISTER),
    unit(0x40ad, EXTRA_REGISTER),
    unit(0x04c2, EXTRA_REGISTER),
    range(0, 0xff, 0xf),
];

const CORE_2: &[Limit] = &[
    event(0x10, 0x1),
    range(0x11, 0x13, 0x2),
    event(0x14, 0x1),
    event(0x18, 0x1),
    event(0x19, 0x2),
    event(0xa1, 0x1),
    event(0xc9, 0x1),
    event(0xcb, 0x1),
];

const NEHALEM: &[Limit] = &[
    unit(0x01b7, EXTRA_REGISTER),
    unit(0x100b, EXTRA_REGISTER),
    range(0x40, 0x43, 0x3),
    event(0x48, 0x3),
    event(0x4e, 0x3),
    event(0x51, 0x3),
    event(0x63, 0x3),
];

const WESTMERE: &[Limit] = &[
    unit(0x01b7, EXTRA_REGISTER),
    unit(0x01bb, EXTRA_REGISTER),
    unit(0x100b, EXTRA_REGISTER),
    event(0x51, 0x3),
    event(0x60, 0x1),
    event(0x63, 0x3),
    event(0xb3, 0x1),
];

const SANDY_BRIDGE: &[Limit] = &[
    unit(0x01b7, EXTRA_REGISTER),
    unit(0x01bb, EXTRA_REGISTER),
    unit(0x01cd, EXTRA_REGISTER),
    unit(0x04a3, 0xf),
    unit(0x05a3, 0xf),
    unit(0x02a3, 0x4),
    unit(0x06a3, 0x4),
    event(0x48, 0x4),
    unit(0x01c0, 0x2),
    event(0xcd, 0x8),
    range(0xd0, 0xd3, 0xf),
];

const IVY_BRIDGE: &[Limit] = &[
    unit(0x01b7, EXTRA_REGISTER),
    unit(0x01bb, EXTRA_REGISTER),
    unit(0x01cd, EXTRA_REGISTER),
    unit(0x0148, 0x4),
    unit(0x0279, 0xf),
    unit(0x019c, 0xf),
    unit(0x02a3, 0xf),
    unit(0x04a3, 0xf),
    unit(0x05a3, 0xf),
    unit(0x06a3, 0xf),
    unit(0x08a3, 0x4),
    unit(0x0ca3, 0x4),
    unit(0x01c0, 0x2),
    range(0xd0, 0xd3, 0xf),
];

/// With the limits of both Haswell and Broadwell.
const HASWELL: &[Limit] = &[
    unit(0x01b7, EXTRA_REGISTER),
    unit(0x01bb, EXTRA_REGISTER),
    unit(0x01cd, EXTRA_REGISTER),
    unit(0x0148, 0x4),
    unit(0x01c0, 0x2),
    event(0xcd, 0x8),
    unit(0x08a3, 0x4),
    unit(0x0ca3, 0x4),
    unit(0x04a3, 0xf),
    range(0xd0, 0xd3, 0xf),
];

const SKYLAKE: &[Limit] = &[
    unit(0x01b7, EXTRA_REGISTER),
    unit(0x01bb, EXTRA_REGISTER),
    unit(0x01cd, EXTRA_REGISTER),
    unit(0x01c6, EXTRA_REGISTER),
    unit(0x01c0, 0x2),
    range(0xd0, 0xd2, 0xf),
    event(0xcd, 0xf),
    event(0xc6, 0xf),
];

const ICE_LAKE: &[Limit] = &[
    unit(0x01b7, EXTRA_REGISTER),
    unit(0x01bb, EXTRA_REGISTER),
    unit(0x01cd, EXTRA_REGISTER),
    unit(0x01c6, EXTRA_REGISTER),
    range(0x03, 0x0a, 0xf),
    range(0x1f, 0x28, 0xf),
    event(0x32, 0xf),
    range(0x48, 0x56, 0xf),
    range(0x60, 0x8b, 0xf),
    unit(0x04a3, ALL),
    unit(0x10a3, ALL),
    unit(0x14a3, ALL),
    event(0xa3, 0xf),
    range(0xa8, 0xb0, 0xf),
    range(0xb7, 0xbd, 0xf),
    range(0xd0, 0xe6, 0xf),
    event(0xef, 0xf),
    range(0xf0, 0xf4, 0xf),
];

const GOLDEN_COVE: &[Limit] = &[
    unit(0x012a, EXTRA_REGISTER),
    unit(0x012b, EXTRA_REGISTER),
    unit(0x01cd, EXTRA_REGISTER),
    unit(0x01c6, EXTRA_REGISTER),
    unit(0x02c6, EXTRA_REGISTER),
    unit(0x03c6, EXTRA_REGISTER),
    unit(0x40ad, EXTRA_REGISTER),
    unit(0x04c2, EXTRA_REGISTER),
    event(0x2e, ALL),
    event(0x3c, ALL),
    range(0x01, 0x8f, 0xf),
    unit(0x01a3, 0xf),
    unit(0x02a3, 0xf),
    unit(0x05a3, 0xf),
    unit(0x06a3, 0xf),
    unit(0x08a3, 0xf),
    unit(0x0ca3, 0xf),
    unit(0x04a4, 0x1),
    unit(0x08a4, 0x1),
    unit(0x02cd, 0x1),
    event(0xce, 0x1),
    range(0xd0, 0xdf, 0xf),
];

/// AMD family 15h: groups of events by unit of the core.
fn bulldozer(select: EventSelect) -> u64 {
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

    fn on(cpus: M, bits: u64) -> Result<u64, InvalidAttr> {
        intel(EventSelect::from_bits(bits), cpus)
    }

    fn on_amd(cpus: M, bits: u64) -> Result<u64, InvalidAttr> {
        amd(EventSelect::from_bits(bits), cpus)
    }

    #[test]
    fn events_of_intel_are_limited() {
        assert_eq!(on(M::Skylake, 0x81d0), Ok(0xf));
        assert_eq!(on(M::Skylake, 0x0151), Ok(ALL));
        assert_eq!(on(M::IceLake, 0x0151), Ok(0xf));
        assert_eq!(on(M::IceLake, 0x0002), Ok(ALL));
        assert_eq!(on(M::GoldenCove, 0x4e2e), Ok(ALL));
        assert_eq!(on(M::GoldenCove, 0x4e2d), Ok(0xf));
        assert_eq!(on(M::Haswell, 0x0148), Ok(0x4));
        assert_eq!(on(M::Haswell, 0x0248), Ok(ALL));
        assert_eq!(on(M::Core2, 0x00cb), Ok(0x1));
        assert_eq!(on(M::Unknown, 0x0251), Ok(0xf));
        // INST_RETIRED.PREC_DIST
        assert_eq!(on(M::Skylake, 0x01c0), Ok(0x2));
        assert_eq!(on(M::IceLake, 0x01c0), Ok(ALL));
        // Modes and the counter mask don't matter.
        assert_eq!(on(M::Haswell, 0x0103_0148), Ok(0x4));
    }

    #[test]
    fn the_first_limit_counts() {
        assert_eq!(on(M::IceLake, 0x04a3), Ok(ALL));
        assert_eq!(on(M::IceLake, 0x02a3), Ok(0xf));
        assert_eq!(on(M::GoldenCove, 0x02cd), Ok(0x1));
    }

    #[test]
    fn extra_registers_are_not_there() {
        assert_eq!(on(M::Skylake, 0x01b7), Err(Unsupported));
        assert_eq!(on(M::Skylake, 0x01c6), Err(Unsupported));
        assert_eq!(on(M::Skylake, 0x012a), Ok(ALL));
        assert_eq!(on(M::Haswell, 0x01c6), Ok(ALL));
        assert_eq!(on(M::GoldenCove, 0x012a), Err(Unsupported));
        assert_eq!(on(M::Core2, 0x01b7), Ok(ALL));
        assert_eq!(on(M::Unknown, 0x01cd), Err(Unsupported));
    }

    #[test]
    fn events_of_amd_are_limited() {
        assert_eq!(on_amd(M::Zen1, 0xff04), Ok(ALL));
        assert_eq!(on_amd(M::Zen1, 0xff03), Err(Unsupported));
        assert_eq!(on_amd(M::Zen4, 0x1_0000_ff03), Ok(ALL));
        assert_eq!(on_amd(M::AmdBeforeZen, 0x00c0), Ok(ALL));
        assert_eq!(on_amd(M::AmdBeforeZen, 0x07e0), Err(Unsupported));
        assert_eq!(on_amd(M::AmdBeforeZen, 0x4_0000_07e1), Err(Unsupported));
    }

    #[test]
    fn family_15h_has_groups() {
        assert_eq!(on_amd(M::Bulldozer, 0x00c0), Ok(0x3f));
        assert_eq!(on_amd(M::Bulldozer, 0x0100), Ok(0x38));
        assert_eq!(on_amd(M::Bulldozer, 0x1100), Ok(0x08));
        assert_eq!(on_amd(M::Bulldozer, 0x0304), Ok(0x08));
        assert_eq!(on_amd(M::Bulldozer, 0x0104), Ok(0x38));
        assert_eq!(on_amd(M::Bulldozer, 0x077d), Ok(0x07));
        assert_eq!(on_amd(M::Bulldozer, 0x0131), Ok(0x07));
        assert_eq!(on_amd(M::Bulldozer, 0x0331), Ok(0));
        assert_eq!(on_amd(M::Bulldozer, 0x07e0), Ok(0));
        assert_eq!(on_amd(M::Bulldozer, 0x1_0000_00d6), Ok(0x3f));
    }
}
