// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metrics of the generic events, which any CPU may have. They have perf's names where perf has such a metric.

use super::Metric;

/// Name, groups, factor, unit, formula and threshold.
type Row = (
    &'static str,
    &'static str,
    f64,
    &'static str,
    &'static str,
    &'static str,
);

const METRIC_ROWS: [Row; 14] = [
    (
        "backend_cycles_idle",
        "Stalls",
        100.0,
        "%",
        "@stalled-cycles-backend@ / cycles",
        "backend_cycles_idle > 0.2",
    ),
    (
        "branch_miss_rate",
        "Default;Branches",
        100.0,
        "%",
        "@branch-misses@ / branches",
        "branch_miss_rate > 0.05",
    ),
    (
        "branch_misses_per_1k_instructions",
        "Branches",
        1000.0,
        "per_1k_instr",
        "@branch-misses@ / instructions",
        "",
    ),
    (
        "branches_per_instruction",
        "Branches",
        1.0,
        "per_instr",
        "branches / instructions",
        "",
    ),
    (
        "cache_miss_rate",
        "Default;Cache",
        100.0,
        "%",
        "@cache-misses@ / @cache-references@",
        "cache_miss_rate > 0.3",
    ),
    (
        "cache_misses_per_1k_instructions",
        "Cache",
        1000.0,
        "per_1k_instr",
        "@cache-misses@ / instructions",
        "",
    ),
    (
        "cycles_frequency",
        "Default;Cpu",
        1e-9,
        "GHz",
        "cycles / running_time",
        "",
    ),
    (
        "cycles_per_instruction",
        "Cpu",
        1.0,
        "per_instr",
        "cycles / instructions",
        "",
    ),
    (
        "dtlb_miss_rate",
        "Tlb",
        100.0,
        "%",
        "@dTLB-load-misses@ / @dTLB-loads@",
        "dtlb_miss_rate > 0.05",
    ),
    (
        "frontend_cycles_idle",
        "Stalls",
        100.0,
        "%",
        "@stalled-cycles-frontend@ / cycles",
        "frontend_cycles_idle > 0.1",
    ),
    (
        "insn_per_cycle",
        "Default;Cpu",
        1.0,
        "",
        "instructions / cycles",
        "insn_per_cycle < 1",
    ),
    (
        "itlb_miss_rate",
        "Tlb",
        100.0,
        "%",
        "@iTLB-load-misses@ / @iTLB-loads@",
        "itlb_miss_rate > 0.05",
    ),
    (
        "l1d_miss_rate",
        "Cache",
        100.0,
        "%",
        "@L1-dcache-load-misses@ / @L1-dcache-loads@",
        "l1d_miss_rate > 0.05",
    ),
    (
        "llc_miss_rate",
        "Cache",
        100.0,
        "%",
        "@LLC-load-misses@ / @LLC-loads@",
        "llc_miss_rate > 0.05",
    ),
];

/// Returns the metrics of the generic events, sorted by name. A CPU may lack some of the events that they need.
pub fn common() -> impl Iterator<Item = Metric> {
    let metric = |(name, groups, factor, unit, formula, threshold)| Metric {
        name,
        groups,
        factor,
        unit,
        formula,
        threshold,
    };
    METRIC_ROWS.into_iter().map(metric)
}
