// SPDX-License-Identifier: MIT OR Apache-2.0
//! The checks of `pmctl doctor`, a function for each.

use std::mem::discriminant;

use perfmon::event::OwnerKind;
use perfmon::{Attempt, Cause, Error};
use perfmon_core::logic::cpuid::NoPmu;

use super::missing_pmu;
use super::trial::{LOOP_ROUNDS, Trial};
use super::{Check, CheckedFacts, Finding, kernels};
use crate::events::errata;
use crate::system::core_kinds;
use crate::system::pmu::{architecture, unused_counters_reason};
use crate::system::precise;
use crate::system::processes::{self, Process};
use crate::system::text::count;

/// All checks. A check comes after those that it depends on.
pub(super) const ALL_CHECKS: &[Check] = &[
    Check {
        name: "PMU",
        run: check_pmu,
    },
    Check {
        name: "errata",
        run: check_errata,
    },
    Check {
        name: "module",
        run: check_module,
    },
    Check {
        name: "next kernel",
        run: check_next_kernel,
    },
    Check {
        name: "device",
        run: check_device,
    },
    Check {
        name: "access",
        run: check_access,
    },
    Check {
        name: "policy",
        run: check_policy,
    },
    Check {
        name: "lockdown",
        run: check_lockdown,
    },
    Check {
        name: "NMI watchdog",
        run: check_nmi_watchdog,
    },
    Check {
        name: "perf users",
        run: check_perf_users,
    },
    Check {
        name: "counters",
        run: check_counters,
    },
    Check {
        name: "KVM",
        run: check_kvm,
    },
    Check {
        name: "rdpmc",
        run: check_rdpmc,
    },
    Check {
        name: "programs",
        run: check_programs,
    },
    Check {
        name: "whole system",
        run: check_whole_system,
    },
    Check {
        name: "samples",
        run: check_samples,
    },
    Check {
        name: "precise",
        run: check_precise,
    },
    Check {
        name: "names",
        run: check_names,
    },
];

const DEVICE_NODE: &str = "/dev/perfmon";
const NMI_WATCHDOG_FILE: &str = "/proc/sys/kernel/nmi_watchdog";
const NOT_TRIED: &str = "not tried: these are the files of another machine";

impl CheckedFacts<'_> {
    /// Returns the reason why the whole system can't be counted; `None` if it can be counted.
    fn system_failure_cause(&self) -> Option<Cause> {
        let error = self.trials.counter.error();
        error.map(|error| error.cause.clone())
    }

    /// Returns whether counting has worked. The watchdog of a kernel with `CONFIG_HARDLOCKUP_DETECTOR_BUDDY` needs no
    /// counter.
    fn can_count(&self) -> bool {
        matches!(self.trials.counter, Trial::Succeeded(_)) || self.trials.event.is_counted()
    }

    /// Returns whether the NMI watchdog is on while counting fails.
    fn is_blocked_by_watchdog(&self) -> bool {
        let text = self.machine.text(NMI_WATCHDOG_FILE);
        !self.can_count() && matches!(text, Ok(Some(text)) if text == "1")
    }

    /// Returns a finding about the whole system, which is no failure if programs can be counted.
    fn bad_for_system(&self, text: impl Into<String>) -> Finding {
        if self.trials.event.is_counted() {
            Finding::note(text)
        } else {
            Finding::bad(text)
        }
    }

    /// Returns the content of a file. `Err` is the finding if it can't be read.
    fn read_text(&self, name: &str) -> Result<Option<String>, Finding> {
        self.machine
            .text(name)
            .map_err(|error| Finding::unknown(format!("can't read {name}: {error}")))
    }

    /// Returns whether the kernel has loaded a module.
    fn has_module(&self, module: &str) -> Result<bool, Finding> {
        let modules = self.read_text("/proc/modules")?.unwrap_or_default();
        Ok(modules
            .lines()
            .any(|line| line.split(' ').next() == Some(module)))
    }
}

/// Returns the finding of a check, also if the check has ended early because a file can't be read.
fn finding_or_early(finding: Result<Finding, Finding>) -> Finding {
    finding.unwrap_or_else(|early| early)
}

fn check_pmu(facts: &CheckedFacts<'_>) -> Finding {
    let (reason, fix) = match facts.pmu.capabilities() {
        Ok(_) if missing_pmu::is_pmu_missing(facts) => (missing_pmu::MISSING_PMU_REASON, None),
        Ok(capabilities) if !facts.pmu.core_kinds().is_empty() => {
            let kinds = facts.pmu.core_kinds().iter();
            let kinds: Vec<String> = kinds.map(core_kinds::describe_counters).collect();
            return Finding::good(format!(
                "{}; {}",
                architecture(capabilities),
                kinds.join("; ")
            ));
        }
        Ok(capabilities) => {
            let fixed = match facts.pmu.fixed_counters().count() {
                0 => "no fixed ones".to_owned(),
                number => format!("{number} fixed ones of {} bits", capabilities.fixed_width),
            };
            let unused = unused_counters_reason(&facts.pmu)
                .map_or_else(String::new, |reason| format!(". {reason}"));
            return Finding::good(format!(
                "{}: {} general counters of {} bits, {fixed}{unused}",
                architecture(capabilities),
                capabilities.general,
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
fn check_errata(facts: &CheckedFacts<'_>) -> Finding {
    const SMT_FILE: &str = "/sys/devices/system/cpu/smt/active";
    let Some(erratum) = errata::of(&facts.pmu) else {
        return Finding::good("none is known that makes counts wrong on this processor");
    };
    let name = erratum.name;
    finding_or_early(facts.read_text(SMT_FILE).map(|is_active| {
        // In a virtual machine, the other thread may be another machine's.
        let is_alone = facts.hypervisor.is_none() && is_active.as_deref() == Some("0");
        if erratum.needs_siblings && is_alone {
            return Finding::good(format!(
                "{name} has no effect, since Hyper-Threading is off"
            ));
        }
        Finding::note(format!("{name}: {}", erratum.consequence)).fix(erratum.fix)
    }))
}

fn check_module(facts: &CheckedFacts<'_>) -> Finding {
    finding_or_early(facts.has_module("perfmon").map(|loaded| {
        if loaded {
            return Finding::good("perfmon is loaded");
        }
        if facts.pmu.capabilities().is_err() || missing_pmu::is_pmu_missing(facts) {
            return Finding::unknown("perfmon is not loaded: it does not load without a PMU");
        }
        let not_loaded = "perfmon is not loaded";
        let (text, load) = match kernels::running_release(facts.machine) {
            None => (not_loaded.to_owned(), "`insmod perfmon.ko".to_owned()),
            Some(release) if kernels::has_module(facts.machine, &release) => {
                (not_loaded.to_owned(), "`modprobe perfmon".to_owned())
            }
            Some(release) => (
                format!("{not_loaded}, and modprobe finds none for Linux {release}"),
                format!("{}, or `insmod perfmon.ko", install_hint(&release)),
            ),
        };
        Finding::bad(text).fix(format!("{load}`. If it fails, `dmesg | tail` says why."))
    }))
}

/// Returns the advice to install the module for a kernel.
fn install_hint(release: &str) -> String {
    format!(
        "Install perfmon-modules-{release} (`make deb` in perfmon's sources makes it) or perfmon-dkms"
    )
}

/// Warns of a newer kernel without the module, which an upgrade may have installed.
fn check_next_kernel(facts: &CheckedFacts<'_>) -> Finding {
    let machine = facts.machine;
    let Some(running) = kernels::running_release(machine) else {
        return Finding::unknown("the release of this kernel is not known");
    };
    if !kernels::has_module(machine, &running) {
        return Finding::unknown("not checked: modprobe finds no module for this kernel");
    }
    let newer = kernels::newer_than(machine, &running);
    match newer
        .iter()
        .rfind(|release| !kernels::has_module(machine, release))
    {
        None => Finding::good("no newer kernel without the module is installed"),
        Some(release) => Finding::note(format!(
            "Linux {release} is installed and has no module: after it is booted, nothing can be counted"
        ))
        .fix(format!("{}.", install_hint(release))),
    }
}

fn check_device(facts: &CheckedFacts<'_>) -> Finding {
    if facts.machine.path(DEVICE_NODE).exists() {
        return Finding::good(format!("{DEVICE_NODE} exists"));
    }
    let misc = match facts.read_text("/proc/misc") {
        Ok(misc) => misc.unwrap_or_default(),
        Err(early) => return early,
    };
    let minor = misc.lines().find_map(|line| {
        let (minor, name) = line.trim().split_once(' ')?;
        (name.trim() == "perfmon").then_some(minor)
    });
    match minor {
        Some(minor) => Finding::bad(format!(
            "{DEVICE_NODE} does not exist, although the module is loaded: no program makes device nodes here"
        ))
        .fix(format!("`mknod -m 600 {DEVICE_NODE} c 10 {minor}`.")),
        None => Finding::unknown(format!(
            "{DEVICE_NODE} does not exist: the module makes it"
        )),
    }
}

fn check_access(facts: &CheckedFacts<'_>) -> Finding {
    match facts.system_failure_cause() {
        Some(cause @ Cause::AnotherWriter) => {
            let users = processes::find_holders(facts.machine, |target| target == DEVICE_NODE);
            let names: Vec<String> = users.iter().map(Process::to_string).collect();
            let writers = if names.is_empty() {
                String::new()
            } else {
                format!(": {}", names.join(", "))
            };
            facts.bad_for_system(format!("{cause}{writers}"))
                .fix("Only one program at a time can count or sample the whole machine: end it, or wait. \
                      `pmctl stat -- COMMAND` need not wait while counters are free.")
        }
        Some(cause @ (Cause::NodeForbidden | Cause::Version(_))) => facts
            .bad_for_system(cause.to_string())
            .fix(cause.help().unwrap_or_default()),
        Some(Cause::UnknownCommand) => Finding::bad(format!("{DEVICE_NODE} is not perfmon's"))
            .fix(format!("`rm {DEVICE_NODE}`, then load the module again.")),
        Some(Cause::Absent) => Finding::unknown("there is no device to open"),
        None if !facts.machine.path(DEVICE_NODE).exists() => {
            Finding::unknown("there is no device to open")
        }
        None if matches!(facts.trials.counter, Trial::NotTried) => Finding::unknown(NOT_TRIED),
        _ => Finding::good("it can be opened for counting"),
    }
}

/// Checks `perf_event_paranoid`. With 0 or less, all users may count every CPU (`perf_allow_cpu()`). Counting one's own
/// programs needs no permission.
fn check_policy(facts: &CheckedFacts<'_>) -> Finding {
    const FILE: &str = "/proc/sys/kernel/perf_event_paranoid";
    const OWN_PROGRAMS_ONLY: &str =
        "this user may count programs of their own in user mode, and not the whole system";
    const WHOLE_SYSTEM_FIX: &str =
        "For the whole system run as root, or `sysctl kernel.perf_event_paranoid=0`.";
    finding_or_early((|| {
        let Some(text) = facts.read_text(FILE)? else {
            return Ok(
                Finding::bad("this kernel has no perf events (CONFIG_PERF_EVENTS)").fix(
                    "Use a kernel that has them: the module needs their reservation of counters.",
                ),
            );
        };
        let Ok(paranoid) = text.parse::<i32>() else {
            return Ok(Finding::unknown(format!(
                "{FILE} has no number, but `{text}`"
            )));
        };
        let state = format!("perf_event_paranoid is {paranoid}");
        if facts.system_failure_cause() == Some(Cause::Forbidden) {
            let consequence = if facts.trials.event.is_counted() {
                OWN_PROGRAMS_ONLY
            } else {
                "this process may not count"
            };
            return Ok(facts.bad_for_system(format!("{state}: {consequence}")).fix(format!(
                "{WHOLE_SYSTEM_FIX} If that does not help, a security module forbids it: its audit log has the reason."
            )));
        }
        if is_privileged(&facts.read_text("/proc/self/status")?.unwrap_or_default()) {
            return Ok(Finding::good(format!(
                "{state}, and this process may still count, by its capabilities"
            )));
        }
        Ok(if paranoid > 0 {
            Finding::note(format!("{state}: {OWN_PROGRAMS_ONLY}")).fix(WHOLE_SYSTEM_FIX)
        } else {
            Finding::good(format!("{state}: all users may count"))
        })
    })())
}

/// Returns whether /proc/self/status has `CAP_PERFMON` or `CAP_SYS_ADMIN`.
fn is_privileged(status: &str) -> bool {
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    const CAP_PERFMON: u64 = 1 << 38;
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    effective.is_some_and(|mask| mask & (CAP_SYS_ADMIN | CAP_PERFMON) != 0)
}

fn check_lockdown(facts: &CheckedFacts<'_>) -> Finding {
    finding_or_early(facts.read_text("/sys/kernel/security/lockdown").and_then(|text| {
        // The file has the modes with the current one in brackets: `none [integrity] confidentiality`.
        if facts.system_failure_cause() == Some(Cause::LockedDown) {
            return Ok(Finding::bad("it forbids counting").fix("Boot without lockdown=confidentiality."));
        }
        let mode = text.as_deref().and_then(|text| text.split(['[', ']']).nth(1)).unwrap_or("none");
        Ok(match mode {
            "none" => Finding::good("the kernel is not locked down"),
            "integrity" if facts.has_module("perfmon")? => {
                Finding::good("the mode is integrity, which allows counting")
            }
            "integrity" => Finding::note("the mode is integrity: it loads only modules with a trusted signature")
                .fix("Sign perfmon.ko with a key that the machine trusts (mokutil), or turn secure boot off."),
            mode => Finding::bad(format!("the mode is {mode}, which forbids counting"))
                .fix("Boot without lockdown=confidentiality."),
        })
    }))
}

fn check_nmi_watchdog(facts: &CheckedFacts<'_>) -> Finding {
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

fn check_perf_users(facts: &CheckedFacts<'_>) -> Finding {
    // Kernels write the name with brackets or without.
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

/// Says which programs have the driver's counters, and how many events share them.
fn check_counters(facts: &CheckedFacts<'_>) -> Finding {
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
    let of_events = owners.0.iter().map(|(_, owner)| owner);
    let of_events = of_events.filter(|owner| EVENT_KINDS.contains(&owner.kind));
    let events: u64 = of_events.map(|owner| u64::from(owner.users)).sum();
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
fn check_kvm(facts: &CheckedFacts<'_>) -> Finding {
    let mediated = ["kvm_intel", "kvm_amd"].into_iter().find(|module| {
        let file = format!("/sys/module/{module}/parameters/enable_mediated_pmu");
        matches!(facts.machine.text(&file), Ok(Some(value)) if value == "Y" || value == "1")
    });
    match mediated {
        None => Finding::good("no virtual machine can take the counters"),
        Some(module) => Finding::note(format!(
            "{module} has a mediated PMU: while a virtual machine runs, it spoils every count (exit code 125)"
        ))
        .fix(format!("With no virtual machine running: `modprobe -r {module}; modprobe {module} enable_mediated_pmu=0`.")),
    }
}

fn check_rdpmc(facts: &CheckedFacts<'_>) -> Finding {
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

fn check_programs(facts: &CheckedFacts<'_>) -> Finding {
    if let Some(
        error @ Error {
            cause: Cause::Forbidden,
            ..
        },
    ) = facts.trials.event.error()
    {
        return Finding::bad(error.to_string()).fix(
            "The policy allows it, so a security module forbids it: its audit log has the reason.",
        );
    }
    loop_finding(facts, &facts.trials.event, Finding::bad)
}

fn check_whole_system(facts: &CheckedFacts<'_>) -> Finding {
    loop_finding(facts, &facts.trials.counter, |text| {
        facts.bad_for_system(text)
    })
}

/// Returns the finding of an attempt to count a loop.
fn loop_finding(
    facts: &CheckedFacts<'_>,
    trial: &Trial,
    bad: impl FnOnce(String) -> Finding,
) -> Finding {
    match trial {
        Trial::NotTried => Finding::unknown(NOT_TRIED),
        Trial::Succeeded(instructions) if *instructions >= LOOP_ROUNDS => Finding::good(format!(
            "a loop of {LOOP_ROUNDS} rounds took {instructions} instructions"
        )),
        Trial::Succeeded(instructions) => Finding::bad(format!(
            "for a loop of {LOOP_ROUNDS} rounds, {instructions} instructions were counted: the counter does not work"
        ))
        .fix(
            "The usual reason is a hypervisor that reports a PMU and does not emulate it: `pmctl info` names the hypervisor.",
        ),
        Trial::Failed(error) => failure_finding(facts, error, bad),
    }
}

/// Returns whether counting a program failed for the same cause as `error`.
fn is_failure_of_programs(facts: &CheckedFacts<'_>, error: &Error) -> bool {
    let of_programs = facts.trials.event.error();
    of_programs.is_some_and(|other| discriminant(&other.cause) == discriminant(&error.cause))
}

/// Checks samples of a program, and of the whole system, for which users need a privilege.
fn check_samples(facts: &CheckedFacts<'_>) -> Finding {
    let (sampled, trace) = (&facts.trials.sampled, &facts.trials.trace);
    match (sampled, trace) {
        (Trial::NotTried, _) | (_, Trial::NotTried) => Finding::unknown(NOT_TRIED),
        (Trial::Failed(error), _) if is_failure_of_programs(facts, error) => {
            Finding::unknown("not possible, since programs can't be counted")
        }
        (Trial::Failed(error), _) => failure_finding(facts, error, Finding::bad),
        (Trial::Succeeded(0), _) => Finding::bad("no sample was taken of a loop: the counter does not interrupt")
        .fix("If there is a hypervisor, it has to deliver the counters' interrupts: `pmctl info` names it."),
        (Trial::Succeeded(samples), Trial::Succeeded(buffers)) => Finding::good(format!(
            "took {} of a loop; buffers for {} can be allocated",
            count(*samples, "sample"),
            count(*buffers, "CPU")
        )),
        (Trial::Succeeded(samples), Trial::Failed(error)) => Finding::good(format!(
            "took {} of a loop, so programs can be sampled; the whole system can't: {}",
            count(*samples, "sample"),
            error.cause
        )),
    }
}

/// Checks precise samples, which not all processors have.
fn check_precise(facts: &CheckedFacts<'_>) -> Finding {
    const WITHOUT: &str = "Sample without `:p`; the addresses are then some instructions late. `pmctl vm -- record -c 1` \
                           records each instruction.";
    let (trials, pmu) = (&facts.trials, &facts.pmu);
    let not_possible = |reason: &str| Finding::note(format!("not possible: {reason}")).fix(WITHOUT);
    if pmu.capabilities().is_err() {
        return Finding::unknown("not possible without a PMU");
    }
    if let Some(reason) = precise::reason_for_none(facts.machine.cpuid(), pmu) {
        return not_possible(&reason);
    }
    if matches!(trials.event, Trial::NotTried) {
        return Finding::unknown(NOT_TRIED);
    }
    let samples = match &trials.supported_precise {
        None => return Finding::unknown("not tried, since the device can't be opened"),
        Some(Err(error)) => return Finding::unknown(format!("not tried: {}", error.cause)),
        Some(Ok(None)) => return not_possible(precise::NO_KNOWN_FORMAT),
        Some(Ok(Some(samples))) => samples.describe(pmu),
    };
    match &trials.precise {
        Trial::NotTried => Finding::unknown(NOT_TRIED),
        Trial::Succeeded(0) => {
            not_possible(&format!("no sample was taken of a loop, although there is {samples}"))
        }
        Trial::Succeeded(number) => Finding::good(format!(
            "took {} of a loop: {samples}",
            count(*number, "precise sample")
        )),
        // The driver supports the event: only KVM is left as a reason.
        Trial::Failed(Error {
            cause: Cause::NotSupported,
            ..
        }) => Finding::note(format!(
            "there is {samples}, but the driver takes no precise samples while KVM may run virtual machines"
        ))
        .fix("With no virtual machine running: `modprobe -r kvm_intel`. Or sample without `:p`."),
        Trial::Failed(error) if is_failure_of_programs(facts, error) => {
            Finding::unknown("not possible, since programs can't be counted")
        }
        Trial::Failed(error) => failure_finding(facts, error, Finding::note),
    }
}

/// Checks whether the driver records mappings, without which samples have no names.
fn check_names(facts: &CheckedFacts<'_>) -> Finding {
    let trials = &facts.trials;
    let not_reported = |reason| {
        Finding::note(format!(
            "the driver can't record what programs map ({reason}): programs that are executed during a recording \
             have names only if this user may use Linux's perf"
        ))
    };
    match &trials.mappings {
        Trial::NotTried => Finding::unknown(NOT_TRIED),
        Trial::Failed(error) => failure_finding(facts, error, Finding::note),
        Trial::Succeeded(0) if trials.has_probes => {
            not_reported("kprobes are disabled").fix("`echo 1 >/sys/kernel/debug/kprobes/enabled`.")
        }
        Trial::Succeeded(0) => {
            not_reported("the kernel has no kprobes").fix("Use a kernel with CONFIG_KPROBES.")
        }
        Trial::Succeeded(_) => {
            Finding::good("programs that are executed during a recording have names")
        }
    }
}

/// Returns the finding of an attempt that failed.
fn failure_finding(
    facts: &CheckedFacts<'_>,
    error: &Error,
    bad: impl FnOnce(String) -> Finding,
) -> Finding {
    match (&error.attempt, &error.cause) {
        (Attempt::Open(_) | Attempt::Properties, cause) if facts.trials.event.is_counted() => {
            Finding::note(format!("not possible: {cause}"))
        }
        (Attempt::Open(_) | Attempt::Properties, _) => {
            Finding::unknown("not tried, since the counters can't be used")
        }
        // These causes have checks of their own, which say more.
        (_, Cause::HardwareBusy | Cause::Forbidden | Cause::LockedDown) => {
            Finding::unknown(format!("not possible: {}", error.cause))
        }
        (_, Cause::NoFreeCounter(owners)) if owners.contains_kind(OwnerKind::Perf) => {
            Finding::unknown(format!("not possible: {}", Cause::HardwareBusy))
        }
        (_, cause) => bad(error.to_string()).fix(
            cause
                .help()
                .unwrap_or("The kernel's log (`dmesg`) may say more."),
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use perfmon::Device;
    use perfmon_core::logic::pebs::PebsFormat;

    use super::super::Verdict;
    use super::super::trial::Trials;
    use super::*;
    use crate::system::machine::Machine;
    use crate::system::precise::PreciseSamples;

    #[test]
    fn precise_samples_are_possible_or_there_is_a_reason() {
        // The processor is a Coffee Lake, of which CPUID does not tell the format.
        let machine = Machine::recorded(Path::new("tests/trees/tsx")).expect("it is there");
        let find = |supported_precise, precise| {
            let facts = CheckedFacts {
                machine: &machine,
                pmu: core_kinds::pmu_with_kinds(&machine),
                hypervisor: None,
                trials: Trials {
                    event: Trial::Succeeded(LOOP_ROUNDS),
                    supported_precise,
                    precise,
                    ..Trials::none()
                },
            };
            check_precise(&facts)
        };
        let error = |cause| {
            let opened = Device::open_path("/nonexistent");
            let mut error = opened.expect_err("it does not exist");
            error.cause = cause;
            error
        };
        let supported = || {
            Some(Ok(Some(PreciseSamples {
                format: PebsFormat::Three,
                has_cycles: false,
            })))
        };
        let refused = Trial::Failed(error(Cause::NotSupported));
        for (finding, verdict, text) in [
            (
                find(supported(), Trial::Succeeded(9)),
                Verdict::Good,
                "took 9 precise samples of a loop: PEBS format 3,",
            ),
            (
                find(supported(), refused),
                Verdict::Note,
                "KVM may run virtual machines",
            ),
            (
                find(supported(), Trial::Succeeded(0)),
                Verdict::Note,
                "no sample was taken",
            ),
            (
                find(Some(Ok(None)), Trial::NotTried),
                Verdict::Note,
                "no PEBS of formats 3 to 6",
            ),
            (
                find(Some(Err(error(Cause::LockedDown))), Trial::NotTried),
                Verdict::Unknown,
                "not tried: ",
            ),
            (
                find(None, Trial::NotTried),
                Verdict::Unknown,
                "the device can't be opened",
            ),
        ] {
            assert_eq!(finding.verdict, verdict, "{finding:?}");
            assert!(finding.text.contains(text), "{finding:?}");
            let has_fix = finding.fix.is_some();
            assert_eq!(has_fix, verdict == Verdict::Note, "{finding:?}");
        }
    }
}
