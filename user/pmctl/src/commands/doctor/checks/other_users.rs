// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of other users of the counters.

use perfmon::Cause;
use perfmon::event::OwnerKind;

use super::super::facts::{CheckedFacts, NMI_WATCHDOG_FILE};
use super::super::finding::{Finding, finding_or_early};
use super::super::trial::{NOT_TRIED, Trial};
use crate::system::processes::{self, Process};
use crate::system::text::count;

pub(super) fn check_nmi_watchdog(facts: &CheckedFacts<'_>) -> Finding {
    finding_or_early(facts.read_text(NMI_WATCHDOG_FILE).map(|text| {
        if text.as_deref() != Some("1") {
            return Finding::good("off");
        }
        if facts.can_count() {
            let state = "on, but it holds no counter";
            if facts.trials.has_place_holder {
                return Finding::note(format!(
                    "{state}: if it was switched on while perfmon counted, it does not work"
                ))
                .fix("When perfmon does not count: `sysctl kernel.nmi_watchdog=0`, then `sysctl kernel.nmi_watchdog=1`.");
            }
            return Finding::good(state);
        }
        Finding::bad("on: it holds a counter, and so Linux's perf holds all of them")
            .fix("`sysctl kernel.nmi_watchdog=0`; for good, boot with nmi_watchdog=0.")
    }))
}

pub(super) fn check_perf_users(facts: &CheckedFacts<'_>) -> Finding {
    // The link is `anon_inode:[perf_event]`, on some kernels without brackets.
    let users = processes::find_holders(facts.machine, |target| {
        target.starts_with("anon_inode:") && target.contains("perf_event")
    });
    let names: Vec<String> = users.iter().map(Process::to_string).collect();
    let names = names.join(", ");
    let is_busy = facts.system_failure_cause() == Some(Cause::HardwareBusy);
    match (users.is_empty(), is_busy) {
        (true, false) => Finding::good("no perf event is open, as far as this user may see"),
        (false, false) if facts.trials.has_place_holder => Finding::note(format!(
            "perf events are open in {names}: while perfmon counts, those on hardware counters don't count \
             (<not counted>), and pinned ones fail"
        )),
        (true, true) if has_other_owner(facts) => {
            Finding::note("no perf event is open, but other programs use the driver's counters")
        }
        (true, true) if facts.is_blocked_by_watchdog() => {
            Finding::good("no perf event is open but the NMI watchdog's")
        }
        (true, true) => Finding::bad("a process that this user can't see holds the counters")
            .fix("Run `pmctl doctor` as root. `dmesg | tail` names the reason."),
        (false, true) => Finding::bad(format!(
            "the counters are in use, and perf events are open in {names}"
        ))
        .fix("End these programs, or let them count no hardware events."),
        (false, false) => Finding::note(format!(
            "perf events are open in {names}: one on a hardware counter takes all counters"
        )),
    }
}

/// Reports which programs have the driver's counters, and how many events share them.
pub(super) fn check_counters(facts: &CheckedFacts<'_>) -> Finding {
    const EVENT_KINDS: [OwnerKind; 3] = [OwnerKind::Tasks, OwnerKind::Cpus, OwnerKind::Events];
    let trials = &facts.trials;
    if matches!(trials.event, Trial::NotTried) {
        return Finding::unknown(NOT_TRIED);
    }
    let Some(owners) = &trials.owners else {
        return Finding::unknown("not known, since the device can't be opened");
    };
    let counters = owners.0.len() as u64;
    if counters == 0 {
        return Finding::good("all are free");
    }
    let event_owners = owners.0.iter().map(|(_, owner)| owner);
    let event_owners = event_owners.filter(|owner| EVENT_KINDS.contains(&owner.kind));
    let events: u64 = event_owners.map(|owner| u64::from(owner.users)).sum();
    let sharing = match events {
        0 => String::new(),
        events => format!(" with {}", count(events, "event")),
    };
    Finding::good(format!(
        "{} in use{sharing}: {owners}",
        count(counters, "counter")
    ))
}

/// Warns of KVM's mediated vPMU, which overwrites the counters at each entry into a guest.
pub(super) fn check_kvm(facts: &CheckedFacts<'_>) -> Finding {
    let mediated_module = ["kvm_intel", "kvm_amd"].into_iter().find(|module| {
        let file = format!("/sys/module/{module}/parameters/enable_mediated_pmu");
        matches!(facts.machine.text(&file), Ok(Some(value)) if value == "Y" || value == "1")
    });
    match mediated_module {
        None => Finding::good("no virtual machine can take the counters"),
        Some(module) => Finding::note(format!(
            "{module} has a mediated PMU: while a virtual machine runs, it spoils every count (exit code 125)"
        ))
        .fix(format!("With no virtual machine running: `modprobe -r {module}; modprobe {module} enable_mediated_pmu=0`.")),
    }
}

pub(super) fn check_rdpmc(facts: &CheckedFacts<'_>) -> Finding {
    const FILE: &str = "/sys/bus/event_source/devices/cpu/rdpmc";
    if let Err(error) = facts.machine.text(FILE) {
        if error.kind() == std::io::ErrorKind::PermissionDenied {
            return Finding::unknown("only root may read the setting; pmctl does not need it");
        }
    }
    finding_or_early(facts.read_text(FILE).map(|text| {
        match text.as_deref() {
            None => Finding::good("the kernel has no such setting here; pmctl does not need it"),
            Some("0") => {
                Finding::good("no program may read counters with rdpmc; pmctl does not need it")
            }
            Some("1") => Finding::good(
                "a program may read counters with rdpmc only while it has mapped an event",
            ),
            Some("2") => Finding::note(
                "every program may read every counter with rdpmc, including those of other users",
            )
            .fix("`echo 1 >/sys/bus/event_source/devices/cpu/rdpmc`."),
            Some(other) => Finding::note(format!(
                "the setting is {other}, which this pmctl does not know"
            )),
        }
    }))
}

/// Returns whether counters belong to another user of the driver.
fn has_other_owner(facts: &CheckedFacts<'_>) -> bool {
    let Some(owners) = &facts.trials.owners else {
        return false;
    };
    let kinds = [
        OwnerKind::Session,
        OwnerKind::Trace,
        OwnerKind::Tasks,
        OwnerKind::Cpus,
        OwnerKind::Events,
    ];
    kinds.into_iter().any(|kind| owners.contains_kind(kind))
}
