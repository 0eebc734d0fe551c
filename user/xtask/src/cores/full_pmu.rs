// SPDX-License-Identifier: MIT OR Apache-2.0
//! A PMU that has every capability, and the precise samples that the module reads on it.

use perfmon_core::logic::cpuid::{Architecture, Capabilities, Microarchitecture};
use perfmon_core::logic::event_attr::{PERF_SAMPLE_IP, PERF_TYPE_RAW, PerfEventAttr};
use perfmon_core::logic::pebs::PebsFormat;

/// The number of general counters that are compared. No core limits an event to counters with
/// higher numbers.
pub(super) const GENERAL_COUNTERS: u8 = 8;

/// The number of bits of all counters.
const COUNTER_WIDTH: u8 = 48;

/// Cores whose precise samples the module reads, with the format of their records.
const PRECISE_CORES: [(Microarchitecture, PebsFormat); 13] = [
    (Microarchitecture::Skylake, PebsFormat::Three),
    (Microarchitecture::IceLake, PebsFormat::Four),
    (Microarchitecture::GoldenCove, PebsFormat::Four),
    (Microarchitecture::RedwoodCove, PebsFormat::Four),
    (Microarchitecture::LionCove, PebsFormat::Five),
    (Microarchitecture::CougarCove, PebsFormat::Five),
    (Microarchitecture::Goldmont, PebsFormat::Three),
    (Microarchitecture::GoldmontPlus, PebsFormat::Three),
    (Microarchitecture::Tremont, PebsFormat::Four),
    (Microarchitecture::Gracemont, PebsFormat::Four),
    (Microarchitecture::Crestmont, PebsFormat::Four),
    (Microarchitecture::Skymont, PebsFormat::Five),
    (Microarchitecture::Darkmont, PebsFormat::Five),
];

/// Returns the capabilities of a PMU that has every capability.
pub(super) fn capabilities(architecture: Architecture) -> Capabilities {
    Capabilities {
        architecture,
        general_count: GENERAL_COUNTERS,
        general_width: COUNTER_WIDTH,
        fixed: u16::MAX,
        fixed_width: COUNTER_WIDTH,
        arch_events: 0xff,
        ..Capabilities::NONE
    }
}

/// Returns the format of a core's precise samples, if the module reads them.
pub(super) fn precise_format(core: Microarchitecture) -> Option<PebsFormat> {
    let mut cores = PRECISE_CORES.iter();
    cores
        .find(|(known, _)| *known == core)
        .map(|(_, format)| *format)
}

/// Returns the attributes of precise samples of an event.
pub(super) fn precise_attr(event: u64) -> PerfEventAttr {
    PerfEventAttr {
        type_: PERF_TYPE_RAW,
        config: event,
        sample_period: 10007,
        sample_type: PERF_SAMPLE_IP,
        flags: PerfEventAttr::PRECISE_LEVEL,
        ..PerfEventAttr::ZERO
    }
}
