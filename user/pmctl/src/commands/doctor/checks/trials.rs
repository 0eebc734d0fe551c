// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of the attempts to count and to sample.

use std::mem::discriminant;

use perfmon::event::OwnerKind;
use perfmon::{Attempt, Cause, Error};

use super::super::facts::CheckedFacts;
use super::super::finding::Finding;
use super::super::trial::{LOOP_ROUNDS, NOT_TRIED, Trial};
use crate::system::precise;
use crate::system::text::count;

pub(super) fn check_programs(facts: &CheckedFacts<'_>) -> Finding {
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

pub(super) fn check_whole_system(facts: &CheckedFacts<'_>) -> Finding {
    loop_finding(facts, &facts.trials.counter, |text| {
        facts.bad_for_system(text)
    })
}

/// Returns the finding of an attempt to count a loop. `bad` converts the text about a failed attempt to a finding.
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
    let program_error = facts.trials.event.error();
    program_error.is_some_and(|other| discriminant(&other.cause) == discriminant(&error.cause))
}

/// Checks samples of a program, and of the whole system, for which users need a privilege.
pub(super) fn check_samples(facts: &CheckedFacts<'_>) -> Finding {
    let (sampling, trace) = (&facts.trials.sampling, &facts.trials.trace);
    match (sampling, trace) {
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
pub(super) fn check_precise(facts: &CheckedFacts<'_>) -> Finding {
    const IMPRECISE_FIX: &str = "Sample without `:p`: addresses are then some instructions too late (skid). `pmctl vm -- record -c 1` \
                           records each instruction.";
    let (trials, pmu) = (&facts.trials, &facts.pmu);
    let not_possible =
        |reason: &str| Finding::note(format!("not possible: {reason}")).fix(IMPRECISE_FIX);
    if pmu.capabilities().is_err() {
        return Finding::unknown("not possible without a PMU");
    }
    if let Some(reason) = precise::missing_reason(facts.machine.cpuid(), pmu) {
        return not_possible(&reason);
    }
    if matches!(trials.event, Trial::NotTried) {
        return Finding::unknown(NOT_TRIED);
    }
    let samples = match &trials.precise_support {
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
        // The driver supports precise samples, so the only remaining reason is KVM.
        Trial::Failed(Error {
            cause: Cause::NotSupported,
            ..
        }) => Finding::note(format!(
            "there is {samples}, but kvm_intel is loaded: the driver takes no precise samples then, since they might go to a \
             virtual machine"
        ))
        .fix("With no virtual machine running: `modprobe -r kvm_intel`. Or sample without `:p`."),
        Trial::Failed(error) if is_failure_of_programs(facts, error) => {
            Finding::unknown("not possible, since programs can't be counted")
        }
        Trial::Failed(error) => failure_finding(facts, error, Finding::note),
    }
}

/// Checks whether the driver records mappings, without which samples have no names.
pub(super) fn check_names(facts: &CheckedFacts<'_>) -> Finding {
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

/// Returns the finding of an attempt that failed. `bad` converts the text to a finding, for an error that no other
/// check reports.
fn failure_finding(
    facts: &CheckedFacts<'_>,
    error: &Error,
    bad: impl FnOnce(String) -> Finding,
) -> Finding {
    match (&error.attempt, &error.cause) {
        (Attempt::Open(_) | Attempt::Properties, cause) if facts.trials.event.has_counted() => {
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

    use super::super::super::finding::Verdict;
    use super::super::super::trial::Trials;
    use super::*;
    use crate::system::core_kinds;
    use crate::system::machine::Machine;
    use crate::system::precise::PreciseSamples;

    #[test]
    fn precise_samples_are_possible_or_there_is_a_reason() {
        // The processor is a Coffee Lake, whose PEBS format CPUID does not report.
        let machine = Machine::recorded(Path::new("tests/trees/tsx")).expect("it is there");
        let find = |precise_support, precise| {
            let facts = CheckedFacts {
                machine: &machine,
                pmu: core_kinds::pmu_with_kinds(&machine),
                hypervisor: None,
                trials: Trials {
                    event: Trial::Succeeded(LOOP_ROUNDS),
                    precise_support,
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
                "kvm_intel is loaded",
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
