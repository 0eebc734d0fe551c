// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of the kernel, its module and its device.

use perfmon::Cause;

use super::super::facts::{CheckedFacts, DEVICE_NODE};
use super::super::finding::{Finding, finding_or_early};
use super::super::{kernels, missing_pmu};

pub(super) fn check_module(facts: &CheckedFacts<'_>) -> Finding {
    finding_or_early(facts.is_module_loaded("perfmon").map(|loaded| {
        if loaded {
            return Finding::good("perfmon is loaded");
        }
        if facts.pmu.capabilities().is_err() || missing_pmu::is_pmu_missing(facts) {
            return Finding::unknown("perfmon is not loaded: it does not load without a PMU");
        }
        let not_loaded = "perfmon is not loaded";
        let (text, load) = match kernels::running_release(facts.machine) {
            None => (not_loaded.to_owned(), "`insmod perfmon.ko".to_owned()),
            Some(release) if kernels::is_module_installed(facts.machine, &release) => {
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
pub(super) fn check_next_kernel(facts: &CheckedFacts<'_>) -> Finding {
    let machine = facts.machine;
    let Some(running) = kernels::running_release(machine) else {
        return Finding::unknown("the release of this kernel is not known");
    };
    if !kernels::is_module_installed(machine, &running) {
        return Finding::unknown("not checked: modprobe finds no module for this kernel");
    }
    let newer = kernels::releases_newer_than(machine, &running);
    match newer
        .iter()
        .rfind(|release| !kernels::is_module_installed(machine, release))
    {
        None => Finding::good("no newer kernel without the module is installed"),
        Some(release) => Finding::note(format!(
            "Linux {release} is installed and has no module: after it is booted, nothing can be counted"
        ))
        .fix(format!("{}.", install_hint(release))),
    }
}

pub(super) fn check_device(facts: &CheckedFacts<'_>) -> Finding {
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

pub(super) fn check_lockdown(facts: &CheckedFacts<'_>) -> Finding {
    finding_or_early(facts.read_text("/sys/kernel/security/lockdown").and_then(|text| {
        if facts.system_failure_cause() == Some(Cause::LockedDown) {
            return Ok(Finding::bad("it forbids counting").fix("Boot without lockdown=confidentiality."));
        }
        // The file lists the modes, with the current one in brackets: `none [integrity] confidentiality`.
        let mode = text.as_deref().and_then(|text| text.split(['[', ']']).nth(1)).unwrap_or("none");
        Ok(match mode {
            "none" => Finding::good("the kernel is not locked down"),
            "integrity" if facts.is_module_loaded("perfmon")? => {
                Finding::good("the mode is integrity, which allows counting")
            }
            "integrity" => Finding::note("the mode is integrity: it loads only modules with a trusted signature")
                .fix("Sign perfmon.ko with a key that the machine trusts (mokutil), or turn secure boot off."),
            mode => Finding::bad(format!("the mode is {mode}, which forbids counting"))
                .fix("Boot without lockdown=confidentiality."),
        })
    }))
}
