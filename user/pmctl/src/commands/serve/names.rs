// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names of metrics: those of `node_exporter`'s perf collector, where it has one for the event.

use perfmon::Modes;
use perfmon::event::Encoding;
use perfmon::spec::EventSpec;

/// The metric for all events that `node_exporter` has no name for.
pub(super) const FALLBACK_METRIC: &str = "perfmon_events";

/// perf's number of a hardware event, `node_exporter`'s metric, and the help text.
const HARDWARE_METRICS: [(u32, &str, &str); 7] = [
    (0, "node_perf_cpucycles", "Number of CPU cycles"),
    (1, "node_perf_instructions", "Number of CPU instructions"),
    (2, "node_perf_cache_refs", "Number of cache references"),
    (3, "node_perf_cache_misses", "Number of cache misses"),
    (
        4,
        "node_perf_branch_instructions",
        "Number of CPU branch instructions",
    ),
    (5, "node_perf_branch_misses", "Number of CPU branch misses"),
    (
        9,
        "node_perf_ref_cpucycles",
        "Number of CPU cycles at the rate of the time-stamp counter",
    ),
];

/// perf's number of a cache event, `node_exporter`'s metric, and the help text. `node_exporter` has `hits` in names of
/// metrics that count all accesses, also those that miss.
const CACHE_METRICS: [(u32, &str, &str); 12] = [
    (
        0x0_0000,
        "node_perf_cache_l1d_read_hits",
        "Number of L1 data cache reads",
    ),
    (
        0x1_0000,
        "node_perf_cache_l1d_read_misses",
        "Number of L1 data cache read misses",
    ),
    (
        0x0_0100,
        "node_perf_cache_l1d_write_hits",
        "Number of L1 data cache writes",
    ),
    (
        0x1_0001,
        "node_perf_cache_l1_instr_read_misses",
        "Number of L1 instruction cache read misses",
    ),
    (
        0x0_0002,
        "node_perf_cache_ll_read_hits",
        "Number of last level cache reads",
    ),
    (
        0x1_0002,
        "node_perf_cache_ll_read_misses",
        "Number of last level cache read misses",
    ),
    (
        0x0_0102,
        "node_perf_cache_ll_write_hits",
        "Number of last level cache writes",
    ),
    (
        0x1_0102,
        "node_perf_cache_ll_write_misses",
        "Number of last level cache write misses",
    ),
    (
        0x0_0004,
        "node_perf_cache_tlb_instr_read_hits",
        "Number of instruction TLB reads",
    ),
    (
        0x1_0004,
        "node_perf_cache_tlb_instr_read_misses",
        "Number of instruction TLB read misses",
    ),
    (
        0x0_0005,
        "node_perf_cache_bpu_read_hits",
        "Number of branch predictor reads",
    ),
    (
        0x1_0005,
        "node_perf_cache_bpu_read_misses",
        "Number of branch predictor read misses",
    ),
];

/// Returns the metric of an event, and its help text. `node_exporter` counts user mode and the kernel together, on all
/// kinds of cores. So an event of one mode, or of one kind of core, gets the fallback metric.
pub(super) fn metric_of(event: &EventSpec) -> (&'static str, &'static str) {
    let (table, number): (&[(u32, &str, &str)], _) = match event.encoding {
        Some(Encoding::Hardware(number)) => (&HARDWARE_METRICS, number),
        Some(Encoding::Cache(number)) => (&CACHE_METRICS, number),
        _ => (&[], 0),
    };
    let entry = table.iter().find(|(known, ..)| *known == number);
    match entry.filter(|_| event.modes == Modes::Both && event.core_type.is_none()) {
        Some((_, name, help)) => (name, help),
        None => (FALLBACK_METRIC, "Number of events, by their names in -e"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::pmu::testing;
    use perfmon::spec;

    fn name(text: &str) -> &'static str {
        let events = spec::parse(text, &testing::intel()).expect("the CPU has it");
        metric_of(&events[0]).0
    }

    #[test]
    fn names_are_those_of_node_exporter() {
        let expected = [
            ("instructions", "node_perf_instructions"),
            ("cycles", "node_perf_cpucycles"),
            ("ref-cycles", "node_perf_ref_cpucycles"),
            ("branches", "node_perf_branch_instructions"),
            ("branch-misses", "node_perf_branch_misses"),
            ("cache-references", "node_perf_cache_refs"),
        ];
        for (event, expected) in expected {
            assert_eq!(name(event), expected, "{event}");
        }
        // Instruction TLB, reads, misses: <linux/perf_event.h>.
        let encoding = Some(Encoding::Cache(4 | 1 << 16));
        let event = EventSpec::absent("iTLB-load-misses", "");
        let event = EventSpec { encoding, ..event };
        assert_eq!(metric_of(&event).0, "node_perf_cache_tlb_instr_read_misses");
    }

    #[test]
    fn an_event_of_one_mode_has_the_fallback_metric() {
        assert_eq!(name("instructions:u"), FALLBACK_METRIC);
        assert_eq!(name("instructions:uk"), "node_perf_instructions");
        assert_eq!(name("r01c2"), FALLBACK_METRIC);
    }
}
