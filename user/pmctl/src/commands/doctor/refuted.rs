// SPDX-License-Identifier: MIT OR Apache-2.0
//! A PMU that CPUID tells of and that is not there. On AMD's processors CPUID can't deny the oldest counters: a
//! hypervisor without a PMU lets them be written, and they stay 0. Linux tries them when it starts.

use super::CheckedFacts;

/// The reason why such a machine can't count.
pub(super) const REFUTED_REASON: &str =
    "CPUID tells of counters, but Linux has found that they do not count";

/// Returns whether Linux has found no PMU where CPUID tells of one.
pub(super) fn is_refuted(facts: &CheckedFacts<'_>) -> bool {
    const KERNEL_PMUS: &str = "/sys/bus/event_source/devices";
    let has = |name: &str| {
        facts
            .machine
            .path(&format!("{KERNEL_PMUS}/{name}"))
            .exists()
    };
    let is_told = facts.pmu.capabilities().is_ok() && facts.hypervisor.is_some();
    // Without `software` the list itself is missing.
    is_told
        && !facts.trials.event.is_counted()
        && has("software")
        && !has("cpu")
        && !has("cpu_core")
}
