// SPDX-License-Identifier: MIT OR Apache-2.0
//! The answers of the device about the CPUs and their counters.

use crate::EventSelect;

/// The number and the width of one kind of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Number of counters on each CPU.
    pub number: u16,
    /// Width of the hardware counter in bits. The driver extends values to 64 bits.
    pub width: u16,
}

/// Counters of the CPUs of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Properties {
    /// The version of architectural performance monitoring (CPUID leaf 0AH); on AMD 1, or 2 with
    /// PerfMonV2.
    pub pmu_version: u16,
    /// General counters, which count any event.
    pub general: Counters,
    /// Fixed-function counters.
    pub fixed: Counters,
    /// Values that no counter of the PMU counts, such as SMIs and temperature.
    pub misc: Counters,
    /// The CPUs can record the last branches.
    pub last_branch: bool,
}

/// The size of the machine, and the driver's optional features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Info {
    /// The highest possible CPU number + 1, which is also the number of buffers of a trace.
    pub cpu_ids: u32,
    /// The [rate](crate::trace::Event::rate) of an event may be above 2^31.
    pub has_full_width_writes: bool,
    /// The driver keeps Linux's perf off the counters by a perf event on each CPU. While the module counts, perf's other events wait.
    pub has_place_holders: bool,
    /// Events can record the mappings of programs ([`Builder::mappings`](crate::event::Builder::mappings)).
    pub has_mappings: bool,
    /// The values without a counter that the CPUs have: bit n stands for event n of `PERFMON_GROUP_MISC`.
    pub misc_events: u64,
}

/// A reading of the time-stamp counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timestamp {
    /// The counter's frequency in MHz, rounded down.
    pub mhz: u32,
    /// The counter's value on the CPU that executed the call.
    pub ticks: u64,
}

/// Set-up of a counter, as [`Device::configuration`](crate::Device::configuration) returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Configuration {
    /// The event select that the counter counts.
    pub select: EventSelect,
    /// The counter runs.
    pub running: bool,
}
