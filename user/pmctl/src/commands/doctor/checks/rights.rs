// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of the user's rights.

use perfmon::Cause;

use super::super::facts::{CheckedFacts, DEVICE_NODE};
use super::super::finding::{Finding, finding_or_early};
use super::super::kernels;
use super::super::trial::{NOT_TRIED, Trial};
use crate::system::node_rights;
use crate::system::processes::{self, Process};

pub(super) fn check_access(facts: &CheckedFacts<'_>) -> Finding {
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
        Some(cause @ (Cause::NodeForbidden | Cause::Version(_))) => {
            let rights = node_rights::explain(&facts.machine.path(DEVICE_NODE));
            match rights.filter(|_| cause == Cause::NodeForbidden) {
                Some((node, advice)) => {
                    facts.bad_for_system(format!("{cause}. {node}")).fix(advice)
                }
                None => facts
                    .bad_for_system(cause.to_string())
                    .fix(cause.help().unwrap_or_default()),
            }
        }
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

/// Checks `perf_event_paranoid`. With 0 or less, all users may count every CPU (`perf_allow_cpu()`), except on Linux 7.2.
/// Counting one's own programs needs no permission.
pub(super) fn check_policy(facts: &CheckedFacts<'_>) -> Finding {
    const FILE: &str = "/proc/sys/kernel/perf_event_paranoid";
    const OWN_PROGRAMS_ONLY: &str =
        "this user may count their own programs, but not the whole system";
    let needs_capability = kernels::always_needs_capability(facts.machine);
    let whole_system_fix = if needs_capability {
        "For the whole system run as root or with CAP_PERFMON: on Linux 7.2 no value of perf_event_paranoid allows it."
    } else {
        "For the whole system run as root or with CAP_PERFMON, or `sysctl kernel.perf_event_paranoid=0`."
    };
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
            let consequence = if facts.trials.event.has_counted() {
                OWN_PROGRAMS_ONLY
            } else {
                "this process may not count"
            };
            return Ok(facts.bad_for_system(format!("{state}: {consequence}")).fix(format!(
                "{whole_system_fix} If that is so already, a security module forbids it: its audit log has the reason."
            )));
        }
        if is_privileged(&facts.read_text("/proc/self/status")?.unwrap_or_default()) {
            return Ok(Finding::good(format!(
                "{state}, and this process may still count, by its capabilities"
            )));
        }
        Ok(if paranoid > 0 || needs_capability {
            Finding::note(format!("{state}: {OWN_PROGRAMS_ONLY}")).fix(whole_system_fix)
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
