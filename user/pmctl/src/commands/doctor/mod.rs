// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl doctor`: checks whether counting works on this machine, and says what to do if not.

mod checks;
mod facts;
mod finding;
mod kernels;
mod missing_pmu;
mod trial;

use std::io::Write;

use anyhow::Result;

use facts::CheckedFacts;
use finding::Verdict;
use trial::Trials;

use crate::system::core_kinds;
use crate::system::exit;
use crate::system::hypervisor::Hypervisor;
use crate::system::machine::Machine;
use crate::system::text::{self, count};

/// The text in front of advice.
const FIX_PREFIX: &str = "fix: ";

/// Width of a finding's text in columns.
const FINDING_WIDTH: usize = 58;

/// Runs all checks, and writes their findings. Returns the exit code, which is 0 if counting works.
pub(crate) fn doctor(machine: &Machine, output: &mut dyn Write) -> Result<u8> {
    let facts = CheckedFacts {
        machine,
        pmu: core_kinds::pmu_with_kinds(machine),
        hypervisor: Hypervisor::find(machine.cpuid()),
        trials: if machine.is_this_machine() {
            Trials::run()
        } else {
            Trials::none()
        },
    };
    let mut problems = 0u64;
    for check in checks::ALL_CHECKS {
        let finding = (check.run)(&facts);
        problems += u64::from(finding.verdict == Verdict::Bad);
        let label = finding.verdict.label();
        let mut lines = text::wrap(&finding.text, FINDING_WIDTH);
        if let Some(fix) = finding.fix {
            let fix = text::wrap(&fix, FINDING_WIDTH - FIX_PREFIX.len());
            lines.extend(fix.into_iter().enumerate().map(|(index, line)| {
                let prefix = if index == 0 { FIX_PREFIX } else { "" };
                format!("{prefix:width$}{line}", width = FIX_PREFIX.len())
            }));
        }
        for (index, line) in lines.iter().enumerate() {
            let (label, name) = if index == 0 {
                (label, check.name)
            } else {
                ("", "")
            };
            writeln!(output, "{label:<5} {name:<13} {line}")?;
        }
    }
    if problems == 0 {
        writeln!(output, "\n{}", conclusion_without_problem(&facts.trials))?;
        return Ok(0);
    }
    let conclusion = if facts.trials.event.has_counted() {
        "Counting programs works here, but not everything else"
    } else {
        "Counting does not work here"
    };
    let advice = if problems == 1 {
        ""
    } else {
        " Fix the first one first."
    };
    writeln!(
        output,
        "\n{conclusion}: {}.{advice}",
        count(problems, "problem")
    )?;
    if !facts.trials.event.has_counted() {
        writeln!(
            output,
            "Without a fix, `pmctl vm -- stat -- COMMAND` counts in a virtual machine."
        )?;
    }
    Ok(exit::FAILURE)
}

/// Returns the conclusion if no check has found a problem. A user may have the right to count programs only.
fn conclusion_without_problem(trials: &Trials) -> &'static str {
    if !trials.event.has_counted() || trials.counter.has_counted() {
        "The checks found no problem."
    } else if trials.sampling.error().is_none() {
        "Counting and sampling your own programs works: `pmctl stat -- COMMAND`,\n`pmctl record -- COMMAND`. What keeps this user from the whole system (`pmctl stat -a`,\n`pmctl record -a`) is in the notes."
    } else {
        "Counting your own programs works: `pmctl stat -- COMMAND`. What keeps this user from\ncounting the whole system (`pmctl stat -a`) and from sampling is in the notes."
    }
}

#[cfg(test)]
mod tests {
    use perfmon::Device;

    use super::trial::{LOOP_ROUNDS, Trial};
    use super::*;

    #[test]
    fn the_conclusion_names_sampling_only_if_it_fails() {
        let refused = || {
            let opened = Device::open_path("/nonexistent");
            Trial::Failed(opened.expect_err("it does not exist"))
        };
        let conclusion = |counter, sampling| {
            conclusion_without_problem(&Trials {
                event: Trial::Succeeded(LOOP_ROUNDS),
                counter,
                sampling,
                ..Trials::none()
            })
        };
        let both = conclusion(refused(), Trial::Succeeded(9));
        assert!(both.starts_with("Counting and sampling your own programs works:"));
        assert!(!both.contains("from sampling"), "{both}");
        let counting = conclusion(refused(), refused());
        assert!(counting.starts_with("Counting your own programs works:"));
        assert!(counting.contains("from sampling"), "{counting}");
        let everything = conclusion(Trial::Succeeded(LOOP_ROUNDS), Trial::Succeeded(9));
        assert_eq!(everything, "The checks found no problem.");
    }
}
