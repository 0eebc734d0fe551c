// SPDX-License-Identifier: MIT OR Apache-2.0
//! The outcome of conditions, as sentences.

use crate::comparison::Comparison;
use crate::condition::Condition;
use crate::figures::{LEAST_RUNS, side_with_too_few_runs};
use crate::numbers::describe_change;

/// The outcome of all conditions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// A sentence for each condition and each command for which it holds.
    pub holds: Vec<String>,
    /// The reason for each condition that can't be checked.
    pub unknown: Vec<String>,
}

/// The outcome of all conditions in a word, for the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No condition holds, and all were checked.
    Passed,
    /// At least one condition holds; other conditions may be unknown.
    Failed,
    /// No condition that was checked holds, and at least one could not be checked.
    Unknown,
}

impl Verdict {
    /// Returns the outcome. A condition that holds decides, even if another condition is unknown.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match (&self.holds[..], &self.unknown[..]) {
            ([], []) => Outcome::Passed,
            ([], _) => Outcome::Unknown,
            _ => Outcome::Failed,
        }
    }

    /// Checks the conditions. `index` returns the index of the event that a condition names.
    pub fn of(
        comparison: &Comparison<'_>,
        conditions: &[Condition],
        index: impl Fn(&str) -> Option<usize>,
    ) -> Self {
        let mut verdict = Self::default();
        for condition in conditions {
            let Some(event) = index(&condition.event) else {
                continue;
            };
            let is_other_machine = comparison.other_machine().is_some();
            let is_user_mode = comparison.measured.is_user_mode(event);
            if condition.is_relative() && is_other_machine && !is_user_mode {
                verdict.unknown.push(format!(
                    "--fail-if '{}': `{}` can't be compared across different processors. Measure the baseline on this one, or \
                     use instructions:u.",
                    condition.text, condition.event
                ));
            } else if let Err(unknown) = verdict.check(comparison, condition, event) {
                verdict.unknown.push(unknown);
            }
        }
        verdict
    }

    /// Adds a sentence for each command for which the condition holds. Fails with the reason if it can't be checked.
    fn check(
        &mut self,
        comparison: &Comparison<'_>,
        condition: &Condition,
        event: usize,
    ) -> Result<(), String> {
        let Condition {
            text, event: name, ..
        } = condition;
        let mut commands = 0..comparison.measured.commands.len();
        if let Some(baseline) = comparison.baseline {
            if condition.is_relative() && !commands.any(|index| comparison.has_baseline_of(index)) {
                return Err(format!(
                    "--fail-if '{text}': {} has none of the measured commands or functions, so nothing was compared.",
                    baseline.file.display()
                ));
            }
        }
        let mut undecided = None;
        for (index, command) in comparison.measured.commands.iter().enumerate() {
            let reference = comparison.reference_values(index, event);
            if condition.is_relative() && reference.is_none() && comparison.has_baseline_of(index) {
                return Err(format!(
                    "--fail-if '{text}': the baseline has no event `{}`",
                    comparison.measured.events[event]
                ));
            }
            if let Some(reason) = too_few_runs(comparison, condition, (index, event)) {
                undecided.get_or_insert(reason);
            } else if condition.is_met(reference, &command.values[event]) {
                self.holds.push(format!(
                    "--fail-if '{text}' holds for `{}`: {}",
                    command.command,
                    describe_change(name, reference, &command.values[event])
                ));
            }
        }
        undecided.map_or(Ok(()), Err)
    }
}

/// Returns the reason why a condition is not decided for a command, if there are too few runs; the indices are those of the
/// command and of the event.
fn too_few_runs(
    comparison: &Comparison<'_>,
    condition: &Condition,
    (command, event): (usize, usize),
) -> Option<String> {
    let measured = comparison.measured;
    let name = &measured.commands[command].command;
    let mut sides = vec![(
        &measured.commands[command].values[event][..],
        format!("`{name}`"),
    )];
    if condition.is_relative() {
        let place = match comparison.baseline {
            Some(baseline) => baseline.file.display().to_string(),
            None => format!("`{}`", measured.commands[0].command),
        };
        // A change holds for no command without a reference.
        sides.push((comparison.reference_values(command, event)?, place));
    }
    let runs: Vec<&[u64]> = sides.iter().map(|(runs, _)| *runs).collect();
    let (runs, place) = &sides[side_with_too_few_runs(&runs, measured.repeats(event))?];
    let number = match runs.len() {
        1 => "1 run".to_owned(),
        number => format!("{number} runs"),
    };
    Some(format!(
        "--fail-if '{}': not decided for `{name}`, because {place} has only {number} of `{}`, which may differ by chance. \
         Measure it at least {LEAST_RUNS} times, as with `pmctl bench -r 10`, or use instructions:u.",
        condition.text, measured.events[event]
    ))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::comparison::Baseline;
    use crate::document::BenchDocument;
    use crate::testing;

    fn verdict(old: BenchDocument, condition: &str) -> Verdict {
        verdict_on(old, &[condition])
    }

    fn verdict_on(old: BenchDocument, conditions: &[&str]) -> Verdict {
        let measured = testing::document();
        let names = ["./old 'a b'", "./new"];
        let baseline = Baseline::of_names((Path::new("old.json"), old), &names);
        let comparison = Comparison {
            measured: &measured,
            baseline: Some(&baseline),
        };
        let parse = |condition: &&str| condition.parse().expect("it is well formed");
        let conditions: Vec<Condition> = conditions.iter().map(parse).collect();
        let index = |name: &str| {
            measured
                .index(name)
                .or_else(|| measured.index(&format!("{name}:u")))
        };
        Verdict::of(&comparison, &conditions, index)
    }

    #[test]
    fn a_sentence_has_both_means_and_the_change() {
        let mut old_document = testing::document();
        old_document.commands[1].values[1] = vec![1000; 3];
        let verdict = verdict(old_document, "instructions:u>+1%");
        let sentence = "--fail-if 'instructions:u>+1%' holds for `./new`: instructions:u went from 1,000 to 1,020, +2.00%";
        assert_eq!(verdict.holds, [sentence]);
        assert_eq!(verdict.unknown, [""; 0]);
    }

    #[test]
    fn a_new_command_has_no_change() {
        let mut old_document = testing::document();
        old_document.commands.truncate(1);
        assert_eq!(
            verdict(old_document, "instructions:u>+1%"),
            Verdict::default()
        );
    }

    #[test]
    fn a_change_is_unknown_if_the_baseline_has_none_of_the_commands() {
        let mut old_document = testing::document();
        for entry in &mut old_document.commands {
            entry.command.push_str(" --more");
        }
        let reasons = verdict(old_document.clone(), "instructions:u>+1%").unknown;
        let sentence = "--fail-if 'instructions:u>+1%': old.json has none of the measured commands or functions, so \
                        nothing was compared.";
        assert_eq!(reasons, [sentence]);
        // A condition on the count itself, and not on its change, needs no baseline.
        let verdict = verdict(old_document, "instructions:u>1010");
        assert_eq!((verdict.holds.len(), verdict.unknown.len()), (1, 0));
    }

    #[test]
    fn a_missing_event_is_named_with_its_modes() {
        let mut old_document = testing::document();
        "branches:u".clone_into(&mut old_document.events[1]);
        let reasons = verdict(old_document, "instructions>+1%").unknown;
        let sentence = "--fail-if 'instructions>+1%': the baseline has no event `instructions:u`";
        assert_eq!(reasons, [sentence]);
    }

    #[test]
    fn a_condition_that_can_not_be_checked_is_unknown() {
        let mut old_document = testing::document();
        "another".clone_into(&mut old_document.machine);
        let same_machine_verdict = verdict(old_document.clone(), "instructions:u>+1%");
        assert_eq!(same_machine_verdict.unknown, [""; 0]);
        let reasons = verdict(old_document, "time>+1%").unknown;
        assert!(reasons[0].contains("different processors"), "{reasons:?}");
        let mut old_document = testing::document();
        "branches:u".clone_into(&mut old_document.events[1]);
        let reasons = verdict(old_document, "instructions:u>+1%").unknown;
        let sentence = "--fail-if 'instructions:u>+1%': the baseline has no event `instructions:u`";
        assert_eq!(reasons, [sentence]);
    }

    #[test]
    fn too_few_runs_of_a_varying_count_decide_nothing() {
        let time_verdict = |old: &[u64], now: &[u64], condition: &str| {
            let mut documents = [testing::document(), testing::document()];
            for (document, runs) in documents.iter_mut().zip([old, now]) {
                document.commands.truncate(1);
                document.commands[0].values[0] = runs.to_vec();
            }
            let [old_document, measured] = documents;
            let names = ["./old 'a b'"];
            let baseline = Baseline::of_names((Path::new("old.json"), old_document), &names);
            let comparison = Comparison {
                measured: &measured,
                baseline: Some(&baseline),
            };
            let condition = condition.parse().expect("it is well formed");
            Verdict::of(&comparison, &[condition], |name| measured.index(name))
        };
        let verdict = time_verdict(&[1_000_000], &[1_015_000; 3], "time>+1%");
        assert_eq!(
            verdict.unknown,
            [
                "--fail-if 'time>+1%': not decided for `./old 'a b'`, because old.json has only 1 run of `time`, which may \
                 differ by chance. Measure it at least 3 times, as with `pmctl bench -r 10`, or use instructions:u."
            ]
        );
        let outcome =
            |old: &[u64], now: &[u64], condition| time_verdict(old, now, condition).outcome();
        assert_eq!(
            outcome(&[1_000_000; 3], &[1_015_000], "time>+1%"),
            Outcome::Unknown
        );
        // Nor does it pass: a gate that could never fail is none.
        assert_eq!(
            outcome(&[1_000_000], &[1_000_000], "time>+1%"),
            Outcome::Unknown
        );
        assert_eq!(
            outcome(&[1_000_000; 3], &[1_015_000; 3], "time>+1%"),
            Outcome::Failed
        );
        // A limit of the mean does not depend on the baseline.
        assert_eq!(
            outcome(&[1_000_000], &[1_015_000; 3], "time>1"),
            Outcome::Passed
        );
        assert_eq!(
            outcome(&[1_000_000; 3], &[1_015_000], "time>1"),
            Outcome::Unknown
        );
    }

    #[test]
    fn one_run_of_instructions_decides() {
        let mut old_document = testing::document();
        old_document.commands[1].values[1] = vec![1000];
        assert_eq!(
            verdict(old_document, "instructions:u>+1%").outcome(),
            Outcome::Failed
        );
    }

    #[test]
    fn a_condition_that_holds_comes_before_one_that_is_unknown() {
        let mut old_document = testing::document();
        "another".clone_into(&mut old_document.machine);
        old_document.commands[1].values[1] = vec![1000; 3];
        let (unknown, holds, passes) = ("time>+1%", "instructions:u>+1%", "instructions:u>+9%");
        for (conditions, expected) in [
            (&[passes][..], Outcome::Passed),
            (&[passes, holds], Outcome::Failed),
            (&[unknown, passes], Outcome::Unknown),
            (&[unknown, holds], Outcome::Failed),
            (&[holds, unknown], Outcome::Failed),
        ] {
            let verdict = verdict_on(old_document.clone(), conditions);
            assert_eq!(verdict.outcome(), expected, "{conditions:?}");
            assert_eq!(
                verdict.holds.len(),
                usize::from(conditions.contains(&holds))
            );
        }
    }
}
