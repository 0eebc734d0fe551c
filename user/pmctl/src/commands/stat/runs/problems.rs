// SPDX-License-Identifier: MIT OR Apache-2.0
//! The problems of counts and of the command: messages, and the exit code.

use super::run::{Run, StoppedRun};
use crate::commands::stat::column::Column;
use crate::commands::stat::scope::Scope;
use crate::commands::stat::sources::source::{Reasons, Uncounted};
use crate::commands::stat::subject::Subject;
use crate::system::child::Ending;
use crate::system::exit;
use crate::system::stdio::complain;

/// Reports problems of the counts or of the command, and returns the exit code.
pub(in crate::commands::stat) fn report_problems(
    subject: &Subject,
    runs: &[Run],
    stopped: Option<StoppedRun>,
) -> u8 {
    if let Some(stopped) = &stopped {
        complain(stopped);
    }
    let ending = match &stopped {
        Some(stopped) => stopped.ending,
        None => runs.last().and_then(|run| run.ending),
    };
    if let Some(words) = ending.and_then(Ending::in_words) {
        complain(words);
    }
    for reason in missing_reasons(subject, runs) {
        report_missing_counts(reason, &subject.scope);
    }
    let stopped_code = stopped.map_or(0, |stopped| stopped.exit_code());
    worse_exit_code(exit_code(subject, runs), stopped_code)
}

/// The message for a task that has executed a program that must not be counted: the events stopped
/// at that exec.
pub(crate) const UNCOUNTED_PROGRAM_REASON: &str = "\
the command executed a program that has more rights than its caller (setuid, setgid, capabilities of its file), or \
that the caller may not read: this program is not counted.\n\
Start pmctl with the rights of the program (as root for a program of root's), or count whole CPUs with -a.";

/// The message for an event that never had a counter.
const NO_TURN_REASON: &str = "\
the run ended before each event had its turn (--multiplex): turns change at each tick of the kernel, mostly every 4 \
ms.\n\
Count something that takes longer, or fewer events; `-r 1` without --multiplex counts them in several runs.";

/// The message for an event of another kind of core than those on which the tasks ran.
const NO_CORE_REASON: &str = "\
no task ran on a core that has the event: on a hybrid processor a raw event is one of the big cores only, and \
`cpu_atom/.../` one of the small cores.\n\
`pmctl info` shows the kinds of cores; `taskset -c CPUS COMMAND` runs a command on certain ones.";

/// The message for an event of one of Linux's PMUs that had no counter.
const NO_PMU_COUNTER_REASON: &str = "\
Linux had no counter left for an event of a PMU: its events are too many, or others have the counters.\n\
Count fewer at a time; `--multiplex` lets them take turns, and estimates their counts.";

/// The message for an event whose number has fallen.
const LEVEL_REASON: &str = "\
the number of an event of one of Linux's PMUs fell from one interval to the next: it is a level, such as a temperature, \
and no number that grows.\n\
Leave the event out: there is nothing to count.";

/// Reports why counts are missing; `None` means that they can't be trusted.
fn report_missing_counts(reason: Option<Uncounted>, scope: &Scope) {
    match reason {
        Some(Uncounted::LeftProgram) => complain(UNCOUNTED_PROGRAM_REASON),
        Some(Uncounted::NoTurn) => complain(NO_TURN_REASON),
        Some(Uncounted::NoCore) => complain(NO_CORE_REASON),
        Some(Uncounted::NoPmuCounter) => complain(NO_PMU_COUNTER_REASON),
        Some(Uncounted::Level) => complain(LEVEL_REASON),
        // `measure_run` has reported it already.
        Some(Uncounted::NotStarted) => {}
        None => {
            let message = match scope {
                Scope::Cpus { .. } => perfmon::Cause::Untrusted,
                _ => perfmon::Cause::Missed,
            };
            complain(format_args!(
                "{message}\n{}",
                message.help().unwrap_or_default()
            ));
        }
    }
}

/// Returns the different reasons for missing counts of events that the CPU has; `None` for counts that can't be trusted.
fn missing_reasons(subject: &Subject, runs: &[Run]) -> Reasons {
    let mut reasons = Reasons::new();
    for (column, reason) in runs.iter().flat_map(Run::missing_counts) {
        if !subject.columns[column].event.is_absent() && !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    reasons
}

/// Returns the exit code of runs: `NO_COUNT` if a count is missing, otherwise the exit code of the
/// last run that failed.
pub(in crate::commands::stat) fn exit_code(subject: &Subject, runs: &[Run]) -> u8 {
    let is_absent = |column: &Column| column.event.is_absent();
    if !missing_reasons(subject, runs).is_empty() || subject.columns.iter().any(is_absent) {
        return exit::NO_COUNT;
    }
    let mut codes = runs
        .iter()
        .filter_map(|run| run.ending)
        .map(Ending::exit_code);
    codes.rfind(|code| *code != 0).unwrap_or(0)
}

/// Combines the exit codes of earlier and later runs: the later one counts unless it is 0, but `NO_COUNT` of the
/// earlier runs stays.
pub(in crate::commands::stat) const fn worse_exit_code(earlier: u8, later: u8) -> u8 {
    match (earlier, later) {
        (exit::NO_COUNT, _) | (_, 0) => earlier,
        _ => later,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::stat::testing::{run, subject};

    #[test]
    fn each_reason_for_missing_counts_is_reported_once() {
        let subject = subject("instructions,cycles,branches,cache-misses");
        let run = || Run {
            uncounted: vec![
                Some(Uncounted::LeftProgram),
                Some(Uncounted::NoPmuCounter),
                None,
                None,
            ],
            ..run(&[None, None, Some(1), None])
        };
        let expected = [Some(Uncounted::LeftProgram), Some(Uncounted::NoPmuCounter)];
        // Another message reports cache-misses, which the CPU lacks.
        assert_eq!(missing_reasons(&subject, &[run(), run()]), expected);
        assert_eq!(exit_code(&subject, &[run()]), exit::NO_COUNT);
    }

    #[test]
    fn the_exit_code_of_many_runs_is_the_last_that_is_not_0() {
        assert_eq!(worse_exit_code(7, 0), 7);
        assert_eq!(worse_exit_code(7, 3), 3);
        assert_eq!(worse_exit_code(0, 3), 3);
        assert_eq!(worse_exit_code(exit::NO_COUNT, 3), exit::NO_COUNT);
    }
}
