// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! `PERF_TYPE_HW_CACHE`: events of caches, of translation look-aside buffers and of branch prediction, with Linux's
//! encodings. Processors without a table have no events of this type.

use super::cores::{Core, INVALID_EVENT, NO_EVENT};
use super::cpuid::Microarchitecture;
use super::event_attr::InvalidAttr;
use super::evtsel::EventSelect;

/// Returns the event select of the event with this `config`, without modes.
///
/// Bits 7:0 are the cache, bits 15:8 the operation, bits 23:16 the result. Linux ignores bits 31:24.
///
/// # Errors
///
/// [`InvalidAttr::Invalid`] if the cache, the operation or the result is undefined, or if the cache does not have the
/// operation. [`InvalidAttr::NoEvent`] if these CPUs lack the event.
pub fn cache_event(
    config: u32,
    microarchitecture: Microarchitecture,
) -> Result<EventSelect, InvalidAttr> {
    let [cache, operation, result, _] = config.to_le_bytes().map(usize::from);
    if cache >= 7 || operation >= 3 || result >= 2 {
        return Err(InvalidAttr::Invalid);
    }
    let table = Core::for_microarchitecture(microarchitecture)
        .cache_events
        .ok_or(InvalidAttr::NoEvent)?;
    match table[cache][operation * 2 + result] {
        NO_EVENT => Err(InvalidAttr::NoEvent),
        INVALID_EVENT => Err(InvalidAttr::Invalid),
        event => Ok(EventSelect::from_bits(event.into())),
    }
}

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

    fn encoding_on(microarchitecture: M, config: u32) -> Result<u64, InvalidAttr> {
        cache_event(config, microarchitecture).map(EventSelect::stopped)
    }

    #[test]
    fn encodings_of_skylake_and_zen_4() {
        assert_eq!(encoding_on(M::Skylake, L1D), Ok(0x81d0));
        assert_eq!(encoding_on(M::Skylake, L1D | MISS), Ok(0x0151));
        assert_eq!(encoding_on(M::Skylake, L1D | WRITE), Ok(0x82d0));
        assert_eq!(encoding_on(M::Skylake, L1I | MISS), Ok(0x0283));
        assert_eq!(encoding_on(M::Skylake, DTLB | WRITE | MISS), Ok(0x0e49));
        assert_eq!(encoding_on(M::Skylake, ITLB), Ok(0x2085));
        assert_eq!(encoding_on(M::Skylake, BPU | MISS), Ok(0x00c5));
        assert_eq!(encoding_on(M::Zen4, L1D | MISS), Ok(0xc860));
        assert_eq!(encoding_on(M::Zen4, L1D | PREFETCH), Ok(0xff5a));
        assert_eq!(encoding_on(M::Zen4, DTLB | MISS), Ok(0xf045));
        assert_eq!(encoding_on(M::Zen4, BPU), Ok(0x00c2));
    }

    #[test]
    fn encodings_of_other_generations() {
        assert_eq!(encoding_on(M::IceLake, L1I | MISS), Ok(0x0283));
        assert_eq!(encoding_on(M::IceLake, ITLB), Err(Invalid));
        assert_eq!(encoding_on(M::IceLake, ITLB | MISS), Ok(0x0e85));
        assert_eq!(encoding_on(M::GoldenCove, DTLB | MISS), Ok(0x0e12));
        assert_eq!(encoding_on(M::Haswell, DTLB | MISS), Ok(0x0108));
        assert_eq!(encoding_on(M::SandyBridge, DTLB | MISS), Ok(0x0108));
        assert_eq!(encoding_on(M::IvyBridge, DTLB | MISS), Ok(0x8108));
        assert_eq!(encoding_on(M::IvyBridge, DTLB | WRITE), Ok(0x82d0));
        assert_eq!(encoding_on(M::Nehalem, BPU | MISS), Ok(0x03e8));
        assert_eq!(encoding_on(M::Westmere, ITLB | MISS), Ok(0x0185));
        assert_eq!(encoding_on(M::Core2, LL | MISS), Ok(0x4129));
        assert_eq!(encoding_on(M::Bulldozer, L1I | PREFETCH), Ok(0x014b));
        assert_eq!(encoding_on(M::CougarCove, L1I | MISS), Ok(0xe424));
        assert_eq!(encoding_on(M::Gracemont, L1I), Ok(0x0380));
        assert_eq!(encoding_on(M::Darkmont, DTLB | WRITE | MISS), Ok(0x0e49));
        assert_eq!(encoding_on(M::Goldmont, DTLB | WRITE | MISS), Err(NoEvent));
        assert_eq!(encoding_on(M::Tremont, ITLB), Err(Invalid));
        assert_eq!(encoding_on(M::Bonnell, LL | WRITE | MISS), Ok(0x412a));
        // Counts how often page walks begin.
        assert_eq!(encoding_on(M::Silvermont, ITLB | MISS), Ok(0x4_0205));
    }

    #[test]
    fn missing_events_are_refused() {
        assert_eq!(encoding_on(M::Skylake, LL), Err(NoEvent));
        assert_eq!(encoding_on(M::Skylake, NODE | WRITE), Err(NoEvent));
        assert_eq!(encoding_on(M::Skylake, L1D | PREFETCH), Err(NoEvent));
        assert_eq!(encoding_on(M::Skylake, L1D | WRITE | MISS), Err(NoEvent));
        assert_eq!(encoding_on(M::Skylake, L1I), Err(NoEvent));
        assert_eq!(encoding_on(M::Zen1, LL), Err(NoEvent));
        assert_eq!(encoding_on(M::Zen1, NODE), Err(NoEvent));
        assert_eq!(encoding_on(M::Unknown, L1D), Err(NoEvent));
        assert_eq!(encoding_on(M::LionCove, LL), Err(NoEvent));
        assert_eq!(encoding_on(M::Skymont, LL | WRITE), Err(NoEvent));
        assert_eq!(encoding_on(M::GoldenCove, NODE), Err(NoEvent));
        assert_eq!(encoding_on(M::PantherCove, NODE), Err(Invalid));
    }

    #[test]
    fn undefined_combinations_are_invalid() {
        assert_eq!(encoding_on(M::Skylake, 7), Err(Invalid));
        assert_eq!(encoding_on(M::Skylake, 3 << 8), Err(Invalid));
        assert_eq!(encoding_on(M::Skylake, 2 << 16), Err(Invalid));
        assert_eq!(encoding_on(M::Unknown, 0xff), Err(Invalid));
        assert_eq!(encoding_on(M::Skylake, L1I | WRITE), Err(Invalid));
        assert_eq!(encoding_on(M::Skylake, BPU | PREFETCH), Err(Invalid));
        assert_eq!(encoding_on(M::Zen1, NODE | WRITE), Err(Invalid));
        assert_eq!(encoding_on(M::Skylake, 0xff << 24 | L1D), Ok(0x81d0));
    }
}
