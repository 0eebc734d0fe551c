// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names of events: perf's, and the makers'.
//!
//! Encodings: Intel SDM, volume 3B, section 21.2.1.2 (architectural events) and table 21-2 (fixed
//! counters); AMD PPR, "Core Performance Monitor Counters". Model-specific events have no name here; their
//! numbers are given as `rUUEE` or `cpu/event=..,umask=../`.

use crate::pmu::{Pmu, Vendor};

/// An event that has a name.
#[derive(Debug)]
pub(crate) struct Named {
    /// The maker whose CPUs have it under this encoding.
    pub(crate) vendor: Vendor,
    /// perf's name, the same for all events of one meaning.
    pub(crate) meaning: Meaning,
    /// Every name, the preferred one first.
    pub(crate) names: &'static [&'static str],
    /// The event number and unit mask on a general counter; `None` if only a fixed one counts it.
    pub(crate) general: Option<(u8, u8)>,
    /// The fixed counter that counts the same thing.
    pub(crate) fixed: Option<u8>,
    /// Its bit in CPUID.0AH:EBX, which tells whether the CPU has it on general counters.
    pub(crate) architectural: Option<u8>,
}

/// Meaning of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Meaning {
    Instructions,
    Cycles,
    ReferenceCycles,
    BusCycles,
    CacheReferences,
    CacheMisses,
    Branches,
    BranchMisses,
    Slots,
}

/// An event that general counters count.
const fn general(
    vendor: Vendor,
    meaning: Meaning,
    names: &'static [&'static str],
    select: (u8, u8),
) -> Named {
    Named {
        vendor,
        meaning,
        names,
        general: Some(select),
        fixed: None,
        architectural: None,
    }
}

/// An event that only a fixed counter counts.
const fn fixed(meaning: Meaning, names: &'static [&'static str], counter: u8) -> Named {
    Named {
        vendor: Vendor::Intel,
        meaning,
        names,
        general: None,
        fixed: Some(counter),
        architectural: None,
    }
}

impl Named {
    /// Encoding on this PMU: event number and unit mask on general counters, and the fixed counter.
    pub(crate) fn on(&self, pmu: &Pmu) -> (Option<(u8, u8)>, Option<u8>) {
        let listed = self
            .architectural
            .is_none_or(|bit| pmu.has_architectural(bit));
        (
            self.general.filter(|_| listed),
            self.fixed.filter(|number| pmu.has_fixed(*number)),
        )
    }

    /// The same event, which is architectural event `bit`.
    const fn bit(self, bit: u8) -> Self {
        Self {
            architectural: Some(bit),
            ..self
        }
    }

    /// The same event, which fixed counter `counter` counts too.
    const fn or_fixed(self, counter: u8) -> Self {
        Self {
            fixed: Some(counter),
            ..self
        }
    }
}

use Meaning as M;
use Vendor::{Amd, Intel};

/// Every event that has a name.
#[rustfmt::skip]
pub(crate) const TABLE: &[Named] = &[
    general(Intel, M::Instructions, &["instructions", "INST_RETIRED.ANY_P"], (0xc0, 0x00)).bit(1).or_fixed(0),
    general(Intel, M::Cycles, &["cycles", "cpu-cycles", "CPU_CLK_UNHALTED.THREAD_P", "CPU_CLK_UNHALTED.CORE_P"], (0x3c, 0x00)).bit(0).or_fixed(1),
    general(Intel, M::BusCycles, &["bus-cycles", "CPU_CLK_UNHALTED.REF_XCLK", "CPU_CLK_UNHALTED.REF_P"], (0x3c, 0x01)).bit(2),
    general(Intel, M::CacheReferences, &["cache-references", "LONGEST_LAT_CACHE.REFERENCE"], (0x2e, 0x4f)).bit(3),
    general(Intel, M::CacheMisses, &["cache-misses", "LONGEST_LAT_CACHE.MISS"], (0x2e, 0x41)).bit(4),
    general(Intel, M::Branches, &["branches", "branch-instructions", "BR_INST_RETIRED.ALL_BRANCHES"], (0xc4, 0x00)).bit(5),
    general(Intel, M::BranchMisses, &["branch-misses", "BR_MISP_RETIRED.ALL_BRANCHES"], (0xc5, 0x00)).bit(6),
    general(Intel, M::Slots, &["slots", "TOPDOWN.SLOTS_P"], (0xa4, 0x01)).bit(7).or_fixed(3),
    fixed(M::Instructions, &["INST_RETIRED.ANY"], 0),
    fixed(M::Cycles, &["CPU_CLK_UNHALTED.THREAD", "CPU_CLK_UNHALTED.CORE"], 1),
    fixed(M::ReferenceCycles, &["ref-cycles", "CPU_CLK_UNHALTED.REF_TSC"], 2),
    fixed(M::Slots, &["TOPDOWN.SLOTS"], 3),

    general(Amd, M::Instructions, &["instructions", "ex_ret_instr"], (0xc0, 0x00)),
    general(Amd, M::Cycles, &["cycles", "cpu-cycles", "ls_not_halted_cyc"], (0x76, 0x00)),
    general(Amd, M::CacheReferences, &["cache-references"], (0x60, 0xff)),
    general(Amd, M::CacheMisses, &["cache-misses"], (0x64, 0x09)),
    general(Amd, M::Branches, &["branches", "branch-instructions", "ex_ret_brn"], (0xc2, 0x00)),
    general(Amd, M::BranchMisses, &["branch-misses", "ex_ret_brn_misp"], (0xc3, 0x00)),
];

/// Default events, as far as the CPU has them.
pub(crate) const DEFAULT: &[&str] = &["instructions", "cycles", "branches", "branch-misses"];

/// The event of this name; upper and lower case are the same.
pub(crate) fn find(vendor: Vendor, name: &str) -> Option<&'static Named> {
    of(vendor).find(|event| {
        event
            .names
            .iter()
            .any(|known| known.eq_ignore_ascii_case(name))
    })
}

/// Names that perf knows besides, by their beginnings, and why they can't be counted here.
const OF_PERF_ONLY: &[(&[&str], &str)] = &[
    (
        &[
            "task-clock",
            "cpu-clock",
            "page-faults",
            "faults",
            "minor-faults",
            "major-faults",
            "context-switches",
            "cs",
            "cpu-migrations",
            "migrations",
            "alignment-faults",
            "emulation-faults",
            "cgroup-switches",
            "bpf-output",
            "dummy",
            "duration_time",
            "user_time",
            "system_time",
        ],
        "It is counted by the kernel, not by the CPU's counters: `perf stat` shows it.",
    ),
    (
        &[
            "l1-dcache-",
            "l1-icache-",
            "llc-",
            "dtlb-",
            "itlb-",
            "branch-loads",
            "branch-load-misses",
            "node-",
            "stalled-cycles-",
        ],
        "perf looks it up for each CPU model, and pmctl knows no models. Take its number from the CPU's manual: \
         `rUUEE`, or `cpu/event=..,umask=../`.",
    ),
];

/// Returns why an event of perf can't be counted here; `None` for any other name.
pub(crate) fn of_perf_only(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    // A `-` at the end stands for more.
    let matches = |known: &&str| name == *known || known.ends_with('-') && name.starts_with(known);
    let found = OF_PERF_ONLY
        .iter()
        .find(|(names, _)| names.iter().any(matches));
    found.map(|(_, reason)| *reason)
}

/// The names that are most like `name`, the likeliest first; none if none is like it.
pub(crate) fn nearest(vendor: Vendor, name: &str) -> Vec<&'static str> {
    /// Below it, names have nothing in common to the eye.
    const ALIKE: f64 = 0.75;
    const SHOWN: usize = 3;
    let name = name.to_ascii_lowercase();
    let mut alike: Vec<(f64, &str)> = of(vendor)
        .flat_map(|event| event.names)
        .map(|known| (likeness(&name, &known.to_ascii_lowercase()), *known))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .collect();
    alike.sort_by(|a, b| b.0.total_cmp(&a.0));
    alike
        .into_iter()
        .map(|(_, known)| known)
        .take(SHOWN)
        .collect()
}

/// Returns how alike two names are, from 0 to 1; a typing mistake and a missing end cost little.
fn likeness(typed: &str, known: &str) -> f64 {
    if typed.len() >= 3 && known.starts_with(typed) {
        return 1.0;
    }
    strsim::normalized_damerau_levenshtein(typed, known)
}

/// The events that this maker's CPUs may have.
pub(crate) fn of(vendor: Vendor) -> impl Iterator<Item = &'static Named> {
    TABLE.iter().filter(move |event| event.vendor == vendor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_one_event() {
        for vendor in [Intel, Amd] {
            let mut names: Vec<String> = of(vendor)
                .flat_map(|event| event.names)
                .map(|n| n.to_ascii_lowercase())
                .collect();
            let all = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), all, "a name of {vendor:?} stands twice");
        }
    }

    #[test]
    fn case_does_not_matter() {
        let event = find(Intel, "inst_retired.any_p").expect("it is Intel's");
        assert_eq!(event.names[0], "instructions");
        assert!(find(Amd, "INST_RETIRED.ANY_P").is_none(), "it is not AMD's");
    }

    #[test]
    fn slips_find_what_was_meant() {
        assert_eq!(nearest(Intel, "instrucions")[0], "instructions");
        assert_eq!(nearest(Intel, "branchmisses")[0], "branch-misses");
        assert_eq!(nearest(Intel, "inst_ret")[0], "INST_RETIRED.ANY_P");
        assert!(nearest(Intel, "zzzzzz").is_empty());
    }

    #[test]
    fn the_default_events_exist_for_every_maker() {
        for vendor in [Intel, Amd] {
            assert!(DEFAULT.iter().all(|name| find(vendor, name).is_some()));
        }
    }
}
