// SPDX-License-Identifier: MIT OR Apache-2.0
//! The checks of `pmctl doctor`, a function for each.

use std::mem::discriminant;

use perfmon::event::OwnerKind;
use perfmon::{Attempt, Cause, Error};
use perfmon_core::logic::cpuid::NoPmu;

use super::refuted;
use super::trial::{LOOP_ROUNDS, Trial};
use super::{Check, CheckedFacts, Finding, kernels};
use crate::system::pmu::architecture;
use crate::system::processes::{self, Process};
use crate::system::text::count;

/// All checks, what others depend on first.
pub(super) const ALL_CHECKS: &[Check] = &[
    Check {
        name: "PMU",
        look: pmu,
    },
    Check {
        name: "module",
        look: module,
    },
    Check {
        name: "next kernel",
        look: next_kernel,
    },
    Check {
        name: "device",
        look: device,
    },
    Check {
        name: "access",
        look: access,
    },
    Check {
        name: "policy",
        look: policy,
    },
    Check {
        name: "lockdown",
        look: lockdown,
    },
    Check {
        name: "NMI watchdog",
        look: nmi_watchdog,
    },
    Check {
        name: "perf users",
        look: perf_users,
    },
    Check {
        name: "KVM",
        look: kvm,
    },
    Check {
        name: "rdpmc",
        look: rdpmc,
    },
    Check {
        name: "programs",
        look: programs,
    },
    Check {
        name: "whole system",
        look: whole_system,
    },
    Check {
        name: "samples",
        look: samples,
    },
    Check {
        name: "names",
        look: names,
    },
];

const DEVICE_NODE: &str = "/dev/perfmon";
const NMI_WATCHDOG_FILE: &str = "/proc/sys/kernel/nmi_watchdog";
const NOT_TRIED: &str = "not tried: this is a recording";

impl CheckedFacts<'_> {
    /// Why the whole system can't be counted, if it can't.
    fn cause(&self) -> Option<Cause> {
        let error = self.trials.counter.error();
        error.map(|error| error.cause.clone())
    }

    /// Returns whether a counter can be had. A kernel with `CONFIG_HARDLOCKUP_DETECTOR_BUDDY` has a watchdog
    /// that needs none.
    fn can_count(&self) -> bool {
        matches!(self.trials.counter, Trial::Did(_)) || self.trials.event.is_counted()
    }

    /// Returns whether the NMI watchdog holds the counters.
    fn has_watchdog(&self) -> bool {
        let text = self.machine.text(NMI_WATCHDOG_FILE);
        !self.can_count() && matches!(text, Ok(Some(text)) if text == "1")
    }

    /// A finding about the whole system: no failure if programs are counted all the same.
    fn bad_for_system(&self, found: impl Into<String>) -> Finding {
        if self.trials.event.is_counted() {
            Finding::note(found)
        } else {
            Finding::bad(found)
        }
    }

    /// The content of a file; `Err` is the finding if it can't be read.
    fn text(&self, name: &str) -> Result<Option<String>, Finding> {
        self.machine
            .text(name)
            .map_err(|error| Finding::unknown(format!("can't read {name}: {error}")))
    }

    fn has_module(&self, module: &str) -> Result<bool, Finding> {
        let modules = self.text("/proc/modules")?.unwrap_or_default();
        Ok(modules
            .lines()
            .any(|line| line.split(' ').next() == Some(module)))
    }
}

/// A check that may end early because a file can't be read.
fn either(finding: Result<Finding, Finding>) -> Finding {
    finding.unwrap_or_else(|early| early)
}

fn pmu(facts: &CheckedFacts<'_>) -> Finding {
    let (reason, fix) = match facts.pmu.capabilities() {
        Ok(_) if refuted::is_refuted(facts) => (refuted::REFUTED_REASON, None),
        Ok(capabilities) => {
            let fixed = match facts.pmu.fixed().count() {
                0 => "no fixed ones".to_owned(),
                number => format!("{number} fixed ones of {} bits", capabilities.fixed_width),
            };
            return Finding::good(format!(
                "{}: {} general counters of {} bits, {fixed}",
                architecture(capabilities),
                capabilities.general,
                capabilities.general_width,
            ));
        }
        Err(reason @ NoPmu::Vendor) => (reason.reason(), Some("Use another machine.")),
        Err(reason) => (reason.reason(), None),
    };
    let (place, machine) = match facts.hypervisor {
        Some(hypervisor) => (
            format!("; this machine is run by {}", hypervisor.name),
            hypervisor.fix,
        ),
        None => (
            String::new(),
            "Look for a setting of the firmware that turns the PMU on.",
        ),
    };
    let fix = fix.unwrap_or(machine);
    Finding::bad(format!("{reason}{place}")).fix(format!(
        "{fix} `pmctl vm` counts in a virtual machine that has a PMU."
    ))
}

fn module(facts: &CheckedFacts<'_>) -> Finding {
    either(facts.has_module("perfmon").map(|loaded| {
        if loaded {
            return Finding::good("perfmon is loaded");
        }
        if facts.pmu.capabilities().is_err() || refuted::is_refuted(facts) {
            return Finding::unknown("perfmon is not loaded: without a PMU it does not load");
        }
        let not_loaded = "perfmon is not loaded";
        let (found, load) = match kernels::running(facts.machine) {
            None => (not_loaded.to_owned(), "`insmod perfmon.ko".to_owned()),
            Some(release) if kernels::has_module(facts.machine, &release) => {
                (not_loaded.to_owned(), "`modprobe perfmon".to_owned())
            }
            Some(release) => (
                format!("{not_loaded}, and modprobe finds none for Linux {release}"),
                format!("{}, or `insmod perfmon.ko", install_hint(&release)),
            ),
        };
        Finding::bad(found).fix(format!("{load}`. If it fails, `dmesg | tail` says why."))
    }))
}

/// Returns how a kernel gets the module.
fn install_hint(release: &str) -> String {
    format!(
        "Install perfmon-modules-{release} (`make deb` in perfmon's sources makes it) or perfmon-dkms"
    )
}

/// An upgrade may have brought a kernel that has no module.
fn next_kernel(facts: &CheckedFacts<'_>) -> Finding {
    let machine = facts.machine;
    let Some(running) = kernels::running(machine) else {
        return Finding::unknown("the release of this kernel is not known");
    };
    if !kernels::has_module(machine, &running) {
        return Finding::unknown("not looked at: modprobe finds no module for this kernel");
    }
    let newer = kernels::newer_than(machine, &running);
    match newer
        .iter()
        .rfind(|release| !kernels::has_module(machine, release))
    {
        None => Finding::good("no newer kernel without the module is installed"),
        Some(release) => Finding::note(format!(
            "Linux {release} is installed and has no module: when it has been booted, nothing can be counted"
        ))
        .fix(format!("{}.", install_hint(release))),
    }
}

fn device(facts: &CheckedFacts<'_>) -> Finding {
    if facts.machine.path(DEVICE_NODE).exists() {
        return Finding::good(format!("{DEVICE_NODE} is there"));
    }
    let misc = match facts.text("/proc/misc") {
        Ok(misc) => misc.unwrap_or_default(),
        Err(early) => return early,
    };
    let minor = misc.lines().find_map(|line| {
        let (minor, name) = line.trim().split_once(' ')?;
        (name.trim() == "perfmon").then_some(minor)
    });
    match minor {
        Some(minor) => Finding::bad(format!(
            "{DEVICE_NODE} is not there, although the module is loaded: nothing makes device nodes here"
        ))
        .fix(format!("`mknod -m 600 {DEVICE_NODE} c 10 {minor}`.")),
        None => Finding::unknown(format!("{DEVICE_NODE} is not there: the module makes it")),
    }
}

fn access(facts: &CheckedFacts<'_>) -> Finding {
    match facts.cause() {
        Some(cause @ Cause::AnotherWriter) => {
            let users = processes::holding(facts.machine, |target| target == DEVICE_NODE);
            let names: Vec<String> = users.iter().map(Process::to_string).collect();
            let who = if names.is_empty() {
                String::new()
            } else {
                format!(": {}", names.join(", "))
            };
            facts.bad_for_system(format!("{cause}{who}"))
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

/// `perf_allow_cpu()`: 0 and below lets everybody count every CPU. Programs of one's own need no permission.
fn policy(facts: &CheckedFacts<'_>) -> Finding {
    const FILE: &str = "/proc/sys/kernel/perf_event_paranoid";
    const OWN_PROGRAMS_ONLY: &str =
        "this user may count programs of their own in user mode, and not the whole system";
    const WHOLE_SYSTEM_FIX: &str =
        "For the whole system run as root, or `sysctl kernel.perf_event_paranoid=0`.";
    either((|| {
        let Some(text) = facts.text(FILE)? else {
            return Ok(
                Finding::bad("this kernel has no perf events (CONFIG_PERF_EVENTS)").fix(
                    "Use a kernel that has them: the module needs their reservation of counters.",
                ),
            );
        };
        let Ok(paranoid) = text.parse::<i32>() else {
            return Ok(Finding::unknown(format!("{FILE} is no number: {text}")));
        };
        let found = format!("perf_event_paranoid is {paranoid}");
        if facts.cause() == Some(Cause::Forbidden) {
            let whom = if facts.trials.event.is_counted() {
                OWN_PROGRAMS_ONLY
            } else {
                "this process may not count"
            };
            return Ok(facts.bad_for_system(format!("{found}: {whom}")).fix(format!(
                "{WHOLE_SYSTEM_FIX} If that does not help, a security module forbids it: its audit log says why."
            )));
        }
        if is_privileged(&facts.text("/proc/self/status")?.unwrap_or_default()) {
            return Ok(Finding::good(format!(
                "{found}, and this process may count all the same"
            )));
        }
        Ok(if paranoid > 0 {
            Finding::note(format!("{found}: {OWN_PROGRAMS_ONLY}")).fix(WHOLE_SYSTEM_FIX)
        } else {
            Finding::good(format!("{found}: everybody may count"))
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

fn lockdown(facts: &CheckedFacts<'_>) -> Finding {
    either(facts.text("/sys/kernel/security/lockdown").and_then(|text| {
        // As in `none [integrity] confidentiality`.
        if facts.cause() == Some(Cause::LockedDown) {
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

fn nmi_watchdog(facts: &CheckedFacts<'_>) -> Finding {
    either(facts.text(NMI_WATCHDOG_FILE).map(|text| {
        if text.as_deref() != Some("1") {
            return Finding::good("off");
        }
        if facts.can_count() {
            let found = "on, but it holds no counter";
            if facts.trials.has_place_holder {
                return Finding::note(format!(
                    "{found}: if it was switched on while perfmon counted, it watches nothing"
                ))
                .fix("When perfmon does not count: `sysctl kernel.nmi_watchdog=0`, then `sysctl kernel.nmi_watchdog=1`.");
            }
            return Finding::good(found);
        }
        Finding::bad("on: it holds a counter, and with it all of them")
            .fix("`sysctl kernel.nmi_watchdog=0`; for good, boot with nmi_watchdog=0.")
    }))
}

fn perf_users(facts: &CheckedFacts<'_>) -> Finding {
    // The kernel has written the name with and without brackets.
    let users = processes::holding(facts.machine, |target| {
        target.starts_with("anon_inode:") && target.contains("perf_event")
    });
    let names: Vec<String> = users.iter().map(Process::to_string).collect();
    let names = names.join(", ");
    let busy = facts.cause() == Some(Cause::HardwareBusy);
    match (users.is_empty(), busy) {
        (true, false) => Finding::good("no perf event is open, as far as this user may see"),
        (false, false) if facts.trials.has_place_holder => Finding::note(format!(
            "perf events are open in {names}: while perfmon counts, those that count with the hardware wait, and say so \
             (<not counted>); pinned ones are in error from then on"
        )),
        (true, true) if has_other_owner(facts) => Finding::note(format!(
            "no perf event is open, but of the driver's counters {}",
            facts.trials.owners
        )),
        (true, true) if facts.has_watchdog() => {
            Finding::good("no perf event is open but the NMI watchdog's")
        }
        (true, true) => {
            Finding::bad("the counters are taken by a process that this user can't see")
                .fix("Run `pmctl doctor` as root. `dmesg | tail` names the reason.")
        }
        (false, true) => Finding::bad(format!(
            "the counters are taken; perf events are open in {names}"
        ))
        .fix("End them, or let them count no hardware events."),
        (false, false) => Finding::note(format!(
            "perf events are open in {names}: one that counts with the hardware takes all counters"
        )),
    }
}

/// A mediated vPMU rewrites the counters at each entry into a guest, without asking.
fn kvm(facts: &CheckedFacts<'_>) -> Finding {
    let mediated = ["kvm_intel", "kvm_amd"].into_iter().find(|module| {
        let file = format!("/sys/module/{module}/parameters/enable_mediated_pmu");
        matches!(facts.machine.text(&file), Ok(Some(value)) if value == "Y" || value == "1")
    });
    match mediated {
        None => Finding::good("no virtual machine can take the counters away"),
        Some(module) => Finding::note(format!(
            "{module} has a mediated PMU: a virtual machine that runs spoils every count (exit code 125)"
        ))
        .fix(format!("With no virtual machine running: `modprobe -r {module}; modprobe {module} enable_mediated_pmu=0`.")),
    }
}

fn rdpmc(facts: &CheckedFacts<'_>) -> Finding {
    const FILE: &str = "/sys/bus/event_source/devices/cpu/rdpmc";
    if let Err(error) = facts.machine.text(FILE) {
        if error.kind() == std::io::ErrorKind::PermissionDenied {
            return Finding::unknown("only root may read the setting; pmctl does not need it");
        }
    }
    either(facts.text(FILE).map(|text| {
        match text.as_deref() {
            None => Finding::good("the kernel has no such setting here; pmctl does not need it"),
            Some("0") => {
                Finding::good("no program may read counters by itself; pmctl does not need it")
            }
            Some("1") => Finding::good(
                "a program reads counters by itself only while it has mapped an event",
            ),
            Some("2") => Finding::note(
                "every program may read every counter by itself, also those counted here",
            )
            .fix("`echo 1 >/sys/bus/event_source/devices/cpu/rdpmc`."),
            Some(other) => Finding::note(format!("an unknown setting: {other}")),
        }
    }))
}

/// Returns whether counters belong to another user of the driver.
fn has_other_owner(facts: &CheckedFacts<'_>) -> bool {
    let kinds = [
        OwnerKind::Session,
        OwnerKind::Trace,
        OwnerKind::Tasks,
        OwnerKind::Cpus,
        OwnerKind::Events,
    ];
    kinds.into_iter().any(|kind| facts.trials.owners.has(kind))
}

fn programs(facts: &CheckedFacts<'_>) -> Finding {
    if let Some(
        error @ Error {
            cause: Cause::Forbidden,
            ..
        },
    ) = facts.trials.event.error()
    {
        return Finding::bad(error.to_string())
            .fix("A security module forbids it, for the policy does not: its audit log says why.");
    }
    outcome(facts, &facts.trials.event, Finding::bad)
}

fn whole_system(facts: &CheckedFacts<'_>) -> Finding {
    outcome(facts, &facts.trials.counter, |found| {
        facts.bad_for_system(found)
    })
}

/// The finding of an attempt to count a loop.
fn outcome(
    facts: &CheckedFacts<'_>,
    trial: &Trial,
    bad: impl FnOnce(String) -> Finding,
) -> Finding {
    match trial {
        Trial::NotTried => Finding::unknown(NOT_TRIED),
        Trial::Did(instructions) if *instructions >= LOOP_ROUNDS => Finding::good(format!(
            "a loop of {LOOP_ROUNDS} rounds took {instructions} instructions"
        )),
        Trial::Did(instructions) => Finding::bad(format!(
            "a loop of {LOOP_ROUNDS} rounds gave {instructions} instructions: the counter does not count"
        ))
        .fix(
            "A hypervisor that promises a PMU and gives none is the usual reason: `pmctl info` names it.",
        ),
        Trial::Failed(error) => failed(facts, error, bad),
    }
}

/// Returns whether programs can't be counted either, for the same cause.
fn is_of_programs(facts: &CheckedFacts<'_>, error: &Error) -> bool {
    let of_programs = facts.trials.event.error();
    of_programs.is_some_and(|other| discriminant(&other.cause) == discriminant(&error.cause))
}

/// Samples of a program are anybody's, those of the whole system are not.
fn samples(facts: &CheckedFacts<'_>) -> Finding {
    let (sampled, trace) = (&facts.trials.sampled, &facts.trials.trace);
    match (sampled, trace) {
        (Trial::NotTried, _) | (_, Trial::NotTried) => Finding::unknown(NOT_TRIED),
        (Trial::Failed(error), _) if is_of_programs(facts, error) => {
            Finding::unknown("not possible, since programs can't be counted")
        }
        (Trial::Failed(error), _) => failed(facts, error, Finding::bad),
        (Trial::Did(0), _) => Finding::bad("a loop gave no sample: the counter does not interrupt")
            .fix("`pmctl info` names the hypervisor, if there is one: it has to deliver the interrupt of counters."),
        (Trial::Did(samples), Trial::Did(buffers)) => Finding::good(format!(
            "a loop gave {}; buffers can be had for {}",
            count(*samples, "sample"),
            count(*buffers, "CPU")
        )),
        (Trial::Did(samples), Trial::Failed(error)) => Finding::good(format!(
            "a loop gave {}, so programs can be sampled; the whole system can't: {}",
            count(*samples, "sample"),
            error.cause
        )),
    }
}

/// A sample is understood by what was mapped at its address.
fn names(facts: &CheckedFacts<'_>) -> Finding {
    let trials = &facts.trials;
    let untold = |reason| {
        Finding::note(format!(
            "the kernel does not tell the driver what programs map ({reason}): those that are executed while they are \
             recorded have names only if the user may use Linux's perf"
        ))
    };
    match &trials.mappings {
        Trial::NotTried => Finding::unknown(NOT_TRIED),
        Trial::Failed(error) => failed(facts, error, Finding::note),
        Trial::Did(0) if trials.has_probes => {
            untold("its probes are off").fix("`echo 1 >/sys/kernel/debug/kprobes/enabled`.")
        }
        Trial::Did(0) => untold("it has no kprobes").fix("Use a kernel with CONFIG_KPROBES."),
        Trial::Did(_) => {
            Finding::good("programs that are executed while they are recorded have names")
        }
    }
}

/// The finding of an attempt that failed.
fn failed(facts: &CheckedFacts<'_>, error: &Error, bad: impl FnOnce(String) -> Finding) -> Finding {
    match (&error.attempt, &error.cause) {
        (Attempt::Open(_) | Attempt::Properties, cause) if facts.trials.event.is_counted() => {
            Finding::note(format!("not possible: {cause}"))
        }
        (Attempt::Open(_) | Attempt::Properties, _) => {
            Finding::unknown("not tried, since the counters can't be used")
        }
        // Their own checks say more.
        (_, Cause::HardwareBusy | Cause::Forbidden | Cause::LockedDown) => {
            Finding::unknown(format!("not possible: {}", error.cause))
        }
        (_, Cause::NoFreeCounter(owners)) if owners.has(OwnerKind::Perf) => {
            Finding::unknown(format!("not possible: {}", Cause::HardwareBusy))
        }
        (_, cause) => {
            bad(error.to_string()).fix(cause.help().unwrap_or("The kernel log may say more."))
        }
    }
}
