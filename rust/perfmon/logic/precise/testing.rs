// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Processors and events for the tests of this folder.

use super::super::core_kinds::CoreKinds;
use super::super::cpuid::{
    Capabilities,
    Microarchitecture::{IceLake, Skylake},
};
use super::super::event_attr::{
    InvalidAttr, PerfEventAttr, PERF_SAMPLE_IP, PERF_SAMPLE_TID, PERF_SAMPLE_TIME, PERF_TYPE_RAW,
};
use super::super::event_config::EventConfig;
use super::super::pebs::PebsFormat;

/// A processor with records of format 3.
pub(super) const SKYLAKE: Capabilities = Capabilities {
    microarchitecture: Skylake,
    general_count: 8,
    general_width: 48,
    fixed: 0b111,
    fixed_width: 48,
    arch_events: 0x7f,
    pebs: Some(PebsFormat::Three),
    ..Capabilities::NONE
};
/// A processor with records of format 4.
pub(super) const ICE_LAKE: Capabilities = Capabilities {
    microarchitecture: IceLake,
    pebs: Some(PebsFormat::Four),
    ..SKYLAKE
};

/// Level 1 of `precise_ip`. Twice this value is level 2, and so on.
pub(super) const PRECISE_LEVEL: u64 = PerfEventAttr::PRECISE_LEVEL;
/// The flag of an event that counts in user mode only.
pub(super) const USER: u64 = PerfEventAttr::EXCLUDE_KERNEL;

/// Precise samples of instructions in user mode, at level 2.
pub(super) const INSTRUCTIONS: PerfEventAttr = PerfEventAttr {
    type_: PERF_TYPE_RAW,
    config: 0xc0,
    sample_period: 1009,
    sample_type: PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
    flags: 2 * PRECISE_LEVEL | USER,
    ..PerfEventAttr::ZERO
};

/// Returns the event of an attribute on CPUs of one kind.
pub(super) fn new_config(
    attr: &PerfEventAttr,
    cpus: &Capabilities,
) -> Result<EventConfig, InvalidAttr> {
    EventConfig::new(attr, cpus, &CoreKinds::one(cpus))
}

/// Returns the counters that an event can have on [`SKYLAKE`], as a mask.
pub(super) fn counters_in_format_three(attr: PerfEventAttr) -> Result<u64, InvalidAttr> {
    new_config(&attr, &SKYLAKE).map(|config| config.counters())
}

/// Returns the counters that an event can have on [`ICE_LAKE`], as a mask.
pub(super) fn counters_in_format_four(attr: PerfEventAttr) -> Result<u64, InvalidAttr> {
    new_config(&attr, &ICE_LAKE).map(|config| config.counters())
}
