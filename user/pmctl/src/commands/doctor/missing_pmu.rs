// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recognizes a PMU that CPUID reports although it does not exist. On AMD processors, CPUID can't report that the
//! oldest counters are missing. If a hypervisor does not emulate these counters, they ignore writes and stay 0, which
//! Linux notices when it tests them at boot.

use super::facts::CheckedFacts;

/// The reason why there is no PMU, although CPUID reports one.
pub(super) const MISSING_PMU_REASON: &str =
    "CPUID reports counters, but Linux has found that they do not count";

/// Returns whether Linux has found no PMU, although CPUID reports one.
pub(super) fn is_pmu_missing(facts: &CheckedFacts<'_>) -> bool {
    const KERNEL_PMUS: &str = "/sys/bus/event_source/devices";
    let has_pmu = |name: &str| {
        facts
            .machine
            .path(&format!("{KERNEL_PMUS}/{name}"))
            .exists()
    };
    let is_reported = facts.pmu.capabilities().is_ok() && facts.hypervisor.is_some();
    // If even `software` is missing, the whole list is missing, and says nothing about the PMU.
    is_reported
        && !facts.trials.event.has_counted()
        && has_pmu("software")
        && !has_pmu("cpu")
        && !has_pmu("cpu_core")
}
