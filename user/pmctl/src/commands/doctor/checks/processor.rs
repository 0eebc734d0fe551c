// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of the processor.

use perfmon_core::logic::cpuid::NoPmu;

use super::super::facts::CheckedFacts;
use super::super::finding::{Finding, finding_or_early};
use super::super::missing_pmu;
use crate::events::errata;
use crate::system::core_kinds;
use crate::system::pmu::{architecture_name, unused_counters_reason};

pub(super) fn check_pmu(facts: &CheckedFacts<'_>) -> Finding {
    let (reason, fix) = match facts.pmu.capabilities() {
        Ok(_) if missing_pmu::is_pmu_missing(facts) => (missing_pmu::MISSING_PMU_REASON, None),
        Ok(capabilities) if !facts.pmu.core_kinds().is_empty() => {
            let kinds = facts.pmu.core_kinds().iter();
            let kinds: Vec<String> = kinds.map(core_kinds::describe_counters).collect();
            return Finding::good(format!(
                "{}; {}",
                architecture_name(capabilities),
                kinds.join("; ")
            ));
        }
        Ok(capabilities) => {
            let fixed = match facts.pmu.fixed_counters().count() {
                0 => "no fixed counters".to_owned(),
                number => format!(
                    "{number} fixed counters of {} bits",
                    capabilities.fixed_width
                ),
            };
            let unused = unused_counters_reason(&facts.pmu)
                .map_or_else(String::new, |reason| format!(". {reason}"));
            return Finding::good(format!(
                "{}: {} general counters of {} bits, {fixed}{unused}",
                architecture_name(capabilities),
                capabilities.general_count,
                capabilities.general_width,
            ));
        }
        Err(reason @ NoPmu::Vendor) => (reason.reason(), Some("Use another machine.")),
        Err(reason) => (reason.reason(), None),
    };
    let (hypervisor_note, machine_fix) = match facts.hypervisor {
        Some(hypervisor) => (
            format!("; this is a virtual machine of {}", hypervisor.name),
            hypervisor.fix,
        ),
        None => (
            String::new(),
            "Look for a setting of the firmware (BIOS) that enables the PMU.",
        ),
    };
    let fix = fix.unwrap_or(machine_fix);
    Finding::bad(format!("{reason}{hypervisor_note}")).fix(format!(
        "{fix} `pmctl vm` counts in a virtual machine that has a PMU."
    ))
}

/// Warns of an erratum that makes counts wrong.
pub(super) fn check_errata(facts: &CheckedFacts<'_>) -> Finding {
    const SMT_FILE: &str = "/sys/devices/system/cpu/smt/active";
    let Some(erratum) = errata::find(&facts.pmu) else {
        return Finding::good("none is known that makes counts wrong on this processor");
    };
    let name = erratum.name;
    finding_or_early(facts.read_text(SMT_FILE).map(|is_active| {
        // In a virtual machine, the sibling hyperthread may belong to another machine.
        let is_alone = facts.hypervisor.is_none() && is_active.as_deref() == Some("0");
        if erratum.needs_hyper_threading && is_alone {
            return Finding::good(format!(
                "{name} has no effect, since Hyper-Threading is off"
            ));
        }
        Finding::note(format!("{name}: {}", erratum.consequence)).fix(erratum.fix)
    }))
}
