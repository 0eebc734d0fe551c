// SPDX-License-Identifier: MIT OR Apache-2.0
//! The outcome of conditions, as sentences.

use crate::comparison::Comparison;
use crate::condition::Condition;
use crate::numbers::describe_change;

/// The outcome of all conditions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// A sentence for each condition and each command for which it holds.
    pub holds: Vec<String>,
    /// The reason why a condition can't be checked; the conditions after it are not checked.
    pub unknown: Option<String>,
}

impl Verdict {
    /// Checks the conditions. `index` returns the index of the event that a condition names. `is_user_mode` returns whether
    /// the event with an index counts only user mode, where all processors have the same count.
    pub fn of(
        comparison: &Comparison<'_>,
        conditions: &[Condition],
        index: impl Fn(&str) -> Option<usize>,
        is_user_mode: impl Fn(usize) -> bool,
    ) -> Self {
        let mut verdict = Self::default();
        for condition in conditions {
            let Some(event) = index(&condition.event) else {
                continue;
            };
            let is_other_machine = comparison.other_machine().is_some();
            if condition.is_relative() && is_other_machine && !is_user_mode(event) {
                verdict.unknown = Some(format!(
                    "--fail-if '{}': `{}` can't be compared across different processors. Measure the baseline on this one, or \
                     use instructions:u.",
                    condition.text, condition.event
                ));
                return verdict;
            }
            if let Err(unknown) = verdict.check(comparison, condition, event) {
                verdict.unknown = Some(unknown);
                return verdict;
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
        for (index, command) in comparison.measured.commands.iter().enumerate() {
            let reference = comparison.reference_values(index, event);
            if condition.is_relative() && reference.is_none() && comparison.has_baseline_of(index) {
                return Err(format!(
                    "--fail-if '{text}': the baseline has no event `{}`",
                    comparison.measured.events[event]
                ));
            }
            if condition.is_met(reference, &command.values[event]) {
                self.holds.push(format!(
                    "--fail-if '{text}' holds for `{}`: {}",
                    command.command,
                    describe_change(name, reference, &command.values[event])
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::comparison::Baseline;
    use crate::document::BenchDocument;
    use crate::testing;

    fn verdict(old: BenchDocument, condition: &str) -> Verdict {
        let measured = testing::document();
        let names = ["./old 'a b'", "./new"];
        let baseline = Baseline::of_names((Path::new("old.json"), old), &names);
        let comparison = Comparison {
            measured: &measured,
            baseline: Some(&baseline),
        };
        let condition = condition.parse().expect("it is well formed");
        let index = |name: &str| {
            measured
                .index(name)
                .or_else(|| measured.index(&format!("{name}:u")))
        };
        Verdict::of(&comparison, &[condition], index, |event| event == 1)
    }

    #[test]
    fn a_sentence_has_both_means_and_the_change() {
        let mut old_document = testing::document();
        old_document.commands[1].values[1] = vec![1000; 3];
        let verdict = verdict(old_document, "instructions:u>+1%");
        let sentence = "--fail-if 'instructions:u>+1%' holds for `./new`: instructions:u went from 1,000 to 1,020, +2.00%";
        assert_eq!(verdict.holds, [sentence]);
        assert_eq!(verdict.unknown, None);
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
        let reason = verdict(old_document.clone(), "instructions:u>+1%").unknown;
        let sentence = "--fail-if 'instructions:u>+1%': old.json has none of the measured commands or functions, so \
                        nothing was compared.";
        assert_eq!(reason.as_deref(), Some(sentence));
        // A limit of the count itself needs no baseline.
        let verdict = verdict(old_document, "instructions:u>1010");
        assert_eq!((verdict.holds.len(), verdict.unknown), (1, None));
    }

    #[test]
    fn a_missing_event_is_named_with_its_modes() {
        let mut old_document = testing::document();
        "branches:u".clone_into(&mut old_document.events[1]);
        let reason = verdict(old_document, "instructions>+1%").unknown;
        let sentence = "--fail-if 'instructions>+1%': the baseline has no event `instructions:u`";
        assert_eq!(reason.as_deref(), Some(sentence));
    }

    #[test]
    fn a_condition_that_can_not_be_checked_is_unknown() {
        let mut old_document = testing::document();
        "another".clone_into(&mut old_document.machine);
        let same_machine_verdict = verdict(old_document.clone(), "instructions:u>+1%");
        assert_eq!(same_machine_verdict.unknown, None);
        let reason = verdict(old_document, "time>+1%")
            .unknown
            .unwrap_or_default();
        assert!(reason.contains("different processors"), "{reason}");
        let mut old_document = testing::document();
        "branches:u".clone_into(&mut old_document.events[1]);
        let reason = verdict(old_document, "instructions:u>+1%").unknown;
        let sentence = "--fail-if 'instructions:u>+1%': the baseline has no event `instructions:u`";
        assert_eq!(reason.as_deref(), Some(sentence));
    }
}
