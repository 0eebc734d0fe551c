// SPDX-License-Identifier: MIT OR Apache-2.0
//! The meanings of events that perf names, the same on all CPUs.

use perfmon_core::abi;
use perfmon_core::logic::event_attr as attr;

/// Meaning of an event, the same for all vendors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Meaning {
    /// Instructions that retired.
    Instructions,
    /// Cycles in which the CPU was not halted.
    Cycles,
    /// Cycles at the rate of the time-stamp counter.
    ReferenceCycles,
    /// Cycles at the rate of the bus or of the crystal.
    BusCycles,
    /// Accesses to the last level of the cache.
    CacheReferences,
    /// Accesses that missed the last level of the cache.
    CacheMisses,
    /// Branches that retired.
    Branches,
    /// Branches that retired and were mispredicted.
    BranchMisses,
    /// Issue slots of the pipeline, as Intel's top-down method counts them.
    Slots,
    /// Cycles in which the front end delivered nothing.
    StalledFrontend,
    /// Cycles in which the back end executed nothing.
    StalledBackend,
}

use Meaning as M;

/// Every meaning, with its `PERF_COUNT_HW_*` (`None` if perf has none), and with perf's names, the
/// preferred name first.
const MEANINGS: &[(Meaning, Option<u32>, &[&str])] = &[
    (
        M::Instructions,
        Some(attr::PERF_COUNT_HW_INSTRUCTIONS),
        &["instructions"],
    ),
    (
        M::Cycles,
        Some(attr::PERF_COUNT_HW_CPU_CYCLES),
        &["cycles", "cpu-cycles"],
    ),
    (
        M::ReferenceCycles,
        Some(attr::PERF_COUNT_HW_REF_CPU_CYCLES),
        &["ref-cycles"],
    ),
    (
        M::BusCycles,
        Some(attr::PERF_COUNT_HW_BUS_CYCLES),
        &["bus-cycles"],
    ),
    (
        M::CacheReferences,
        Some(attr::PERF_COUNT_HW_CACHE_REFERENCES),
        &["cache-references"],
    ),
    (
        M::CacheMisses,
        Some(attr::PERF_COUNT_HW_CACHE_MISSES),
        &["cache-misses"],
    ),
    (
        M::Branches,
        Some(attr::PERF_COUNT_HW_BRANCH_INSTRUCTIONS),
        &["branches", "branch-instructions"],
    ),
    (
        M::BranchMisses,
        Some(attr::PERF_COUNT_HW_BRANCH_MISSES),
        &["branch-misses"],
    ),
    (M::Slots, None, &["slots"]),
    (
        M::StalledFrontend,
        Some(attr::PERF_COUNT_HW_STALLED_CYCLES_FRONTEND),
        &["stalled-cycles-frontend", "idle-cycles-frontend"],
    ),
    (
        M::StalledBackend,
        Some(attr::PERF_COUNT_HW_STALLED_CYCLES_BACKEND),
        &["stalled-cycles-backend", "idle-cycles-backend"],
    ),
];

impl Meaning {
    /// Returns perf's number, `PERF_COUNT_HW_*`; `None` if perf has none.
    #[must_use]
    pub fn number(self) -> Option<u32> {
        let row = MEANINGS.iter().find(|(meaning, ..)| *meaning == self);
        row.and_then(|(_, number, _)| *number)
    }

    /// Returns perf's names, the preferred name first.
    #[must_use]
    pub fn names(self) -> &'static [&'static str] {
        let row = MEANINGS.iter().find(|(meaning, ..)| *meaning == self);
        row.map_or(&[], |(_, _, names)| *names)
    }

    /// Finds a meaning by perf's name; case does not matter.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let is_name = |known: &str| known.eq_ignore_ascii_case(name);
        let row = MEANINGS
            .iter()
            .find(|(.., names)| names.iter().any(|known| is_name(known)))?;
        Some(row.0)
    }

    /// Returns the bit in CPUID.0AH:EBX of Intel's architectural event with this meaning, if there is one.
    pub(super) fn architectural(self) -> Option<u32> {
        match self {
            M::Cycles => Some(abi::PERFMON_ARCH_EVENT_UNHALTED_CORE_CYCLES),
            M::Instructions => Some(abi::PERFMON_ARCH_EVENT_INSTRUCTIONS_RETIRED),
            M::BusCycles => Some(abi::PERFMON_ARCH_EVENT_UNHALTED_REFERENCE_CYCLES),
            M::CacheReferences => Some(abi::PERFMON_ARCH_EVENT_LLC_REFERENCES),
            M::CacheMisses => Some(abi::PERFMON_ARCH_EVENT_LLC_MISSES),
            M::Branches => Some(abi::PERFMON_ARCH_EVENT_BRANCHES_RETIRED),
            M::BranchMisses => Some(abi::PERFMON_ARCH_EVENT_BRANCH_MISSES_RETIRED),
            M::Slots => Some(abi::PERFMON_ARCH_EVENT_TOPDOWN_SLOTS),
            M::ReferenceCycles | M::StalledFrontend | M::StalledBackend => None,
        }
    }

    /// Returns perf's preferred name of a `PERF_COUNT_HW_*`.
    pub(crate) fn name_of(hardware_event: u32) -> Option<&'static str> {
        let row = MEANINGS
            .iter()
            .find(|(_, number, _)| *number == Some(hardware_event))?;
        row.2.first().copied()
    }
}
