// SPDX-License-Identifier: MIT OR Apache-2.0
//! The conditions of --fail-if, for recordings in which every single event was recorded.

use perfmon_compare::condition::{Condition, Limit, NS, TIME};

use super::comparison::{Comparison, RecordingShare};
use crate::args::Key;
use crate::commands::diff::events::without_precision;
use crate::commands::diff::text::{RECORDING_NAMES, change};
use crate::system::exit::{self, Usage};
use crate::system::stdio::complain;
use crate::system::text::{printable, thousands};

/// Reports which conditions hold, and returns the exit code. If a condition holds, it determines
/// the exit code, even if other conditions can't be checked.
///
/// # Errors
/// A condition is about a name that no recording has.
pub(super) fn check_conditions(
    conditions: &[Condition],
    comparisons: &[Comparison],
    keys: &[Key],
) -> Result<u8, Usage> {
    let (mut holds, mut is_unknown) = (false, false);
    for condition in conditions {
        let name = &condition.event;
        let matches = comparisons
            .iter()
            .filter_map(|comparison| Some((comparison, counts(comparison, name, keys)?)));
        let matches: Vec<_> = matches.collect();
        if matches.is_empty() {
            return Err(Usage(format!(
                "--fail-if '{}': the recordings have neither an event nor a function `{}`. Functions are found by the key \
                 `symbol` of --sort.",
                condition.text,
                printable(name)
            )));
        }
        for (comparison, counts) in matches {
            if !comparison.is_exact {
                complain(format_args!(
                    "--fail-if '{}': the counts are estimates from samples, so a difference may be chance. Record each \
                     instruction, as `pmctl vm -- record -c 1` does.",
                    condition.text
                ));
                is_unknown = true;
                continue;
            }
            let condition = with_limit_in_events(condition);
            let before = counts[0].events;
            for (after, recording) in counts.iter().zip(RECORDING_NAMES).skip(1) {
                if condition.is_met(Some(&[before]), &[after.events]) {
                    complain(format_args!(
                        "--fail-if '{}': `{}` has {} events in {recording}, and {} in A ({})",
                        condition.text,
                        printable(name),
                        thousands(after.events),
                        thousands(before),
                        change(before, after.events)
                    ));
                    holds = true;
                }
            }
        }
    }
    Ok(match (holds, is_unknown) {
        (true, _) => exit::FAILURE,
        (false, true) => exit::NO_COUNT,
        (false, false) => 0,
    })
}

/// Returns the condition with a limit in events. The parser takes a limit of `time` for seconds, but here `time` is the
/// name of a function.
fn with_limit_in_events(condition: &Condition) -> Condition {
    let limit = match condition.limit {
        Limit::Mean(nanoseconds) if condition.event == TIME => Limit::Mean(nanoseconds / NS),
        limit => limit,
    };
    Condition {
        limit,
        ..condition.clone()
    }
}

/// Returns the counts of the event with this name, or of the functions with this name; `None` if there is neither.
fn counts(comparison: &Comparison, name: &str, keys: &[Key]) -> Option<Vec<RecordingShare>> {
    if without_precision(&comparison.event.name) == without_precision(name) {
        return Some(comparison.recording_totals.clone());
    }
    let symbol = keys.iter().position(|key| *key == Key::Symbol)?;
    let rows = comparison.rows.iter();
    let mut rows = rows.filter(|row| function_name(&row.cells[symbol]) == name);
    let mut sums = rows.next()?.shares.clone();
    for row in rows {
        for (sum, share) in sums.iter_mut().zip(&row.shares) {
            sum.events = sum.events.saturating_add(share.events);
        }
    }
    Some(sums)
}

/// Returns the name in a cell of the key `symbol`, which begins with the mode: `main` in `[.] main`.
fn function_name(cell: &str) -> &str {
    match cell.split_once("] ") {
        Some((mode, name)) if mode.starts_with('[') => name,
        _ => cell,
    }
}

#[cfg(test)]
mod tests {
    use super::super::comparison::tests::compared_by_symbol;
    use super::*;

    fn code(condition: &str, before: &[(&str, u64)], after: &[(&str, u64)]) -> Option<u8> {
        let comparison = compared_by_symbol(before, after, Some(1));
        let condition = condition.parse().expect("it is well formed");
        check_conditions(&[condition], &[comparison], &[Key::Symbol]).ok()
    }

    #[test]
    fn conditions_are_about_events_and_functions() {
        let before = [("[.] main", 1000), ("[.] other", 1000)];
        let after = [("[.] main", 1011), ("[.] other", 1000)];
        assert_eq!(code("main>+1%", &before, &after), Some(1));
        assert_eq!(code("main>+1%", &after, &before), Some(0));
        // Here `time` is the name of a function, and not the duration of a run in seconds.
        let time = [("[.] time", 1000)];
        assert_eq!(code("time>999999", &time, &time), Some(1));
        assert_eq!(code("time>1000000", &time, &time), Some(0));
        assert_eq!(code("other>+0%", &before, &after), Some(0));
        assert_eq!(code("cycles>+0.5%", &before, &after), Some(1));
        assert_eq!(code("cycles>+0.6%", &before, &after), Some(0));
        assert_eq!(code("main>1010000", &before, &after), Some(1));
        assert_eq!(code("missing>+1%", &before, &after), None);
    }

    #[test]
    fn a_new_function_has_grown() {
        let (before, after) = ([("[.] old", 5)], [("[.] old", 5), ("[.] new", 1)]);
        assert_eq!(code("new>+1000%", &before, &after), Some(1));
        assert_eq!(code("new<-50%", &after, &before), Some(1));
    }

    #[test]
    fn estimates_are_not_judged() {
        let rows = [("[.] main", 1000)];
        let comparison = compared_by_symbol(&rows, &rows, Some(1000));
        let condition = "main>+1%".parse().expect("it is well formed");
        let code = check_conditions(&[condition], &[comparison], &[Key::Symbol]);
        assert_eq!(code.ok(), Some(exit::NO_COUNT));
    }

    #[test]
    fn estimates_hide_no_condition_that_holds() {
        let (before, after) = ([("[.] main", 1000)], [("[.] main", 1011)]);
        let exact = || compared_by_symbol(&before, &after, Some(1));
        let estimates = || compared_by_symbol(&before, &after, Some(1000));
        for comparisons in [[exact(), estimates()], [estimates(), exact()]] {
            let condition = "main>+1%".parse().expect("it is well formed");
            let code = check_conditions(&[condition], &comparisons, &[Key::Symbol]);
            assert_eq!(code.ok(), Some(exit::FAILURE));
        }
    }
}
