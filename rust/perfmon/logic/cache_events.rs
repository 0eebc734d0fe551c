// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! `PERF_TYPE_HW_CACHE`: events of caches, of translation look-aside buffers and of branch prediction, with the
//! encodings of Linux perf 7.3 (`arch/x86/events`).
//!
//! Intel has no events of the last level of caches and of NUMA nodes here but on Core 2: Linux counts them as
//! offcore responses, which are selected by a further register. Other processors have no table, and so no event.

use super::cpuid::Microarchitecture;
use super::event_attr::InvalidAttr;
use super::evtsel::EventSelect;

/// The events of one cache: accesses and misses of reads, the same of writes, the same of prefetches. Bits 15:8
/// are the unit mask, bits 7:0 the event number.
type Row = [u16; 6];

/// The caches in the order of `enum perf_hw_cache_id`: L1D, L1I, LL, DTLB, ITLB, BPU, NODE.
type Table = [Row; 7];

/// These processors can't count it.
const NONE: u16 = 0;
/// No processor could: nothing writes to a cache of instructions.
const WRONG: u16 = u16::MAX;

const NO_EVENTS: Row = [NONE; 6];

/// Returns a row of reads only, where nothing else makes sense.
const fn reads(accesses: u16, misses: u16) -> Row {
    [accesses, misses, WRONG, WRONG, WRONG, WRONG]
}

/// Returns a row of a cache of instructions.
const fn fetches(accesses: u16, misses: u16) -> Row {
    [accesses, misses, WRONG, WRONG, NONE, NONE]
}

/// Returns a row without prefetches.
const fn reads_and_writes(reads: [u16; 2], writes: [u16; 2]) -> Row {
    [reads[0], reads[1], writes[0], writes[1], NONE, NONE]
}

/// Returns the event select of the event with this `config`, without modes.
///
/// Bits 7:0 are the cache, bits 15:8 the operation, bits 23:16 the result. Linux ignores bits 31:24.
///
/// # Errors
///
/// [`InvalidAttr::Invalid`] if one of them is undefined or they don't go together, [`InvalidAttr::NoEvent`] if these
/// CPUs lack the event.
pub fn cache_event(config: u32, cpus: Microarchitecture) -> Result<EventSelect, InvalidAttr> {
    let [cache, operation, result, _] = config.to_le_bytes().map(usize::from);
    if cache >= 7 || operation >= 3 || result >= 2 {
        return Err(InvalidAttr::Invalid);
    }
    let table = table(cpus).ok_or(InvalidAttr::NoEvent)?;
    match table[cache][operation * 2 + result] {
        NONE => Err(InvalidAttr::NoEvent),
        WRONG => Err(InvalidAttr::Invalid),
        event => Ok(EventSelect::new(event & 0xff, (event >> 8) as u8)),
    }
}

const fn table(cpus: Microarchitecture) -> Option<&'static Table> {
    use Microarchitecture as M;

    Some(match cpus {
        M::Core2 => &CORE_2,
        M::Nehalem => &NEHALEM,
        M::Westmere => &WESTMERE,
        M::SandyBridge => &SANDY_BRIDGE,
        M::IvyBridge => &IVY_BRIDGE,
        M::Haswell => &HASWELL,
        M::Skylake => &SKYLAKE,
        M::IceLake => &ICE_LAKE,
        M::GoldenCove => &GOLDEN_COVE,
        M::AmdBeforeZen | M::Bulldozer => &AMD_BEFORE_ZEN,
        M::Zen1 | M::Zen2 | M::Zen4 => &ZEN,
        M::Unknown => return None,
    })
}

const CORE_2: Table = [
    [0x0f40, 0x0140, 0x0f41, 0x0141, 0x104e, NONE],
    fetches(0x0080, 0x0081),
    reads_and_writes([0x4f29, 0x4129], [0x4f2a, 0x412a]),
    reads_and_writes([0x0f40, 0x0208], [0x0f41, 0x0808]),
    reads(0x00c0, 0x1282),
    reads(0x00c4, 0x00c5),
    NO_EVENTS,
];

const NEHALEM: Table = [
    [0x010b, 0x0151, 0x020b, 0x0251, 0x014e, 0x024e],
    fetches(0x0380, 0x0280),
    NO_EVENTS,
    reads_and_writes([0x0f40, 0x0108], [0x0f41, 0x010c]),
    reads(0x01c0, 0x20c8),
    reads(0x00c4, 0x03e8),
    NO_EVENTS,
];

const WESTMERE: Table = [
    [0x010b, 0x0151, 0x020b, 0x0251, 0x014e, 0x024e],
    fetches(0x0380, 0x0280),
    NO_EVENTS,
    reads_and_writes([0x010b, 0x0108], [0x020b, 0x010c]),
    reads(0x01c0, 0x0185),
    reads(0x00c4, 0x03e8),
    NO_EVENTS,
];

const SANDY_BRIDGE: Table = [
    [0xf1d0, 0x0151, 0xf2d0, 0x0851, NONE, 0x024e],
    fetches(NONE, 0x0280),
    NO_EVENTS,
    reads_and_writes([0x81d0, 0x0108], [0x82d0, 0x0149]),
    reads(0x1085, 0x0185),
    reads(0x00c4, 0x00c5),
    NO_EVENTS,
];

const IVY_BRIDGE: Table = {
    let mut table = SANDY_BRIDGE;
    table[3] = reads_and_writes([0x81d0, 0x8108], [0x82d0, 0x0149]);
    table
};

const HASWELL: Table = [
    reads_and_writes([0x81d0, 0x0151], [0x82d0, NONE]),
    fetches(NONE, 0x0280),
    NO_EVENTS,
    reads_and_writes([0x81d0, 0x0108], [0x82d0, 0x0149]),
    reads(0x6085, 0x0185),
    reads(0x00c4, 0x00c5),
    NO_EVENTS,
];

const SKYLAKE: Table = [
    reads_and_writes([0x81d0, 0x0151], [0x82d0, NONE]),
    fetches(NONE, 0x0283),
    NO_EVENTS,
    reads_and_writes([0x81d0, 0x0e08], [0x82d0, 0x0e49]),
    reads(0x2085, 0x0e85),
    reads(0x00c4, 0x00c5),
    NO_EVENTS,
];

const ICE_LAKE: Table = {
    let mut table = SKYLAKE;
    table[4] = reads(WRONG, 0x0e85);
    table
};

const GOLDEN_COVE: Table = [
    reads_and_writes([0x81d0, 0xe124], [0x82d0, NONE]),
    fetches(NONE, 0xe424),
    NO_EVENTS,
    reads_and_writes([0x81d0, 0x0e12], [0x82d0, 0x0e13]),
    reads(WRONG, 0x0e11),
    reads(0x04c4, 0x04c5),
    NO_EVENTS,
];

const AMD_BEFORE_ZEN: Table = [
    [0x0040, 0x0141, NONE, NONE, 0x0267, 0x0167],
    [0x0080, 0x0081, WRONG, WRONG, 0x014b, NONE],
    reads_and_writes([0x037d, 0x037e], [0x017f, NONE]),
    reads_and_writes([0x0040, 0x0746], [NONE, NONE]),
    reads(0x0080, 0x0385),
    reads(0x00c2, 0x00c3),
    reads(0xb8e9, 0x98e9),
];

const ZEN: Table = [
    [0x0040, 0xc860, NONE, NONE, 0xff5a, NONE],
    fetches(0x0080, 0x0081),
    NO_EVENTS,
    reads_and_writes([0xff45, 0xf045], [NONE, NONE]),
    reads(0x0084, 0xff85),
    reads(0x00c2, 0x00c3),
    reads(NONE, NONE),
];

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_cache_events))]
mod tests {
    use super::*;
    use InvalidAttr::{Invalid, NoEvent};
    use Microarchitecture as M;

    const L1D: u32 = 0;
    const L1I: u32 = 1;
    const LL: u32 = 2;
    const DTLB: u32 = 3;
    const ITLB: u32 = 4;
    const BPU: u32 = 5;
    const NODE: u32 = 6;
    const WRITE: u32 = 1 << 8;
    const PREFETCH: u32 = 2 << 8;
    const MISS: u32 = 1 << 16;

    fn on(cpus: M, config: u32) -> Result<u64, InvalidAttr> {
        cache_event(config, cpus).map(EventSelect::stopped)
    }

    #[test]
    fn events_of_the_virtual_pmus() {
        assert_eq!(on(M::Skylake, L1D), Ok(0x81d0));
        assert_eq!(on(M::Skylake, L1D | MISS), Ok(0x0151));
        assert_eq!(on(M::Skylake, L1D | WRITE), Ok(0x82d0));
        assert_eq!(on(M::Skylake, L1I | MISS), Ok(0x0283));
        assert_eq!(on(M::Skylake, DTLB | WRITE | MISS), Ok(0x0e49));
        assert_eq!(on(M::Skylake, ITLB), Ok(0x2085));
        assert_eq!(on(M::Skylake, BPU | MISS), Ok(0x00c5));
        assert_eq!(on(M::Zen4, L1D | MISS), Ok(0xc860));
        assert_eq!(on(M::Zen4, L1D | PREFETCH), Ok(0xff5a));
        assert_eq!(on(M::Zen4, DTLB | MISS), Ok(0xf045));
        assert_eq!(on(M::Zen4, BPU), Ok(0x00c2));
    }

    #[test]
    fn generations_differ() {
        assert_eq!(on(M::IceLake, L1I | MISS), Ok(0x0283));
        assert_eq!(on(M::IceLake, ITLB), Err(Invalid));
        assert_eq!(on(M::IceLake, ITLB | MISS), Ok(0x0e85));
        assert_eq!(on(M::GoldenCove, DTLB | MISS), Ok(0x0e12));
        assert_eq!(on(M::Haswell, DTLB | MISS), Ok(0x0108));
        assert_eq!(on(M::SandyBridge, DTLB | MISS), Ok(0x0108));
        assert_eq!(on(M::IvyBridge, DTLB | MISS), Ok(0x8108));
        assert_eq!(on(M::IvyBridge, DTLB | WRITE), Ok(0x82d0));
        assert_eq!(on(M::Nehalem, BPU | MISS), Ok(0x03e8));
        assert_eq!(on(M::Westmere, ITLB | MISS), Ok(0x0185));
        assert_eq!(on(M::Core2, LL | MISS), Ok(0x4129));
        assert_eq!(on(M::Bulldozer, L1I | PREFETCH), Ok(0x014b));
    }

    #[test]
    fn missing_events() {
        assert_eq!(on(M::Skylake, LL), Err(NoEvent));
        assert_eq!(on(M::Skylake, NODE | WRITE), Err(NoEvent));
        assert_eq!(on(M::Skylake, L1D | PREFETCH), Err(NoEvent));
        assert_eq!(on(M::Skylake, L1D | WRITE | MISS), Err(NoEvent));
        assert_eq!(on(M::Skylake, L1I), Err(NoEvent));
        assert_eq!(on(M::Zen1, LL), Err(NoEvent));
        assert_eq!(on(M::Zen1, NODE), Err(NoEvent));
        assert_eq!(on(M::Unknown, L1D), Err(NoEvent));
    }

    #[test]
    fn wrong_combinations() {
        assert_eq!(on(M::Skylake, 7), Err(Invalid));
        assert_eq!(on(M::Skylake, 3 << 8), Err(Invalid));
        assert_eq!(on(M::Skylake, 2 << 16), Err(Invalid));
        assert_eq!(on(M::Unknown, 0xff), Err(Invalid));
        assert_eq!(on(M::Skylake, L1I | WRITE), Err(Invalid));
        assert_eq!(on(M::Skylake, BPU | PREFETCH), Err(Invalid));
        assert_eq!(on(M::Zen1, NODE | WRITE), Err(Invalid));
        assert_eq!(on(M::Skylake, 0xff << 24 | L1D), Ok(0x81d0));
    }
}
