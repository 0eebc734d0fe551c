// SPDX-License-Identifier: MIT OR Apache-2.0
//! The conditions of --fail-if.

use perfmon::Modes;
use perfmon_compare::comparison::{Baseline, Comparison};
use perfmon_compare::condition::{Condition, TIME};
use perfmon_compare::document::BenchDocument;
use perfmon_compare::verdict::{Outcome, Verdict};

use crate::args::Bench;
use crate::events::modes;
use crate::system::exit::{self, Usage};
use crate::system::stdio::complain;

/// Fails if a condition of --fail-if is about an event that is not counted.
pub(super) fn check_conditions_are_counted(args: &Bench, labels: &[String]) -> Result<(), Usage> {
    let labels = labels
        .iter()
        .map(|label| &label[..])
        .filter(|label| *label != TIME);
    let counted_names: Vec<&str> = [TIME].into_iter().chain(labels).collect();
    let is_not_counted = |condition: &&Condition| !counted_names.contains(&&condition.event[..]);
    match args.fail_if.iter().find(is_not_counted) {
        None => Ok(()),
        Some(Condition { text, event, .. }) => Err(Usage(format!(
            "--fail-if '{text}': `{event}` is not counted, only {}. Add it with -e.",
            counted_names.join(", ")
        ))),
    }
}

/// Warns if the baseline is of another command than the measured one.
fn warn_of_other_command(baseline: &Baseline, measured: &BenchDocument) {
    if let Some(old) = baseline.other_command(measured) {
        complain(format_args!(
            "the baseline {} is of another command, `{old}`; this is `{}`. If these can't be compared, make a baseline \
             of this command with --save.",
            baseline.file.display(),
            measured.commands[0].command
        ));
    }
}

/// Reports which conditions hold, and returns the exit code.
pub(super) fn check_conditions(args: &Bench, comparison: &Comparison<'_>) -> u8 {
    let measured = comparison.measured;
    if let Some(baseline) = comparison.baseline {
        warn_of_other_command(baseline, measured);
    }
    if let Some(warning) = comparison.machine_warning() {
        complain(warning);
    }
    // If this user may not count the kernel, the event has been limited to user mode, and its name says so.
    let index = |name: &str| {
        let event = measured.index(name);
        event.or_else(|| measured.index(&modes::with_modifier(name, Modes::User)))
    };
    let verdict = Verdict::of(comparison, &args.fail_if, index);
    for sentence in verdict.holds.iter().chain(&verdict.unknown) {
        complain(sentence);
    }
    match verdict.outcome() {
        Outcome::Passed => 0,
        Outcome::Failed => exit::FAILURE,
        Outcome::Unknown => exit::NO_COUNT,
    }
}
