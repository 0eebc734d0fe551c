// SPDX-License-Identifier: MIT OR Apache-2.0
//! The problems of counts and of the command: messages, and the exit code.

use super::column::Column;
use super::run::{Run, StoppedRun};
use super::scope::Scope;
use super::source::{ColumnCount, Uncounted};
use super::subject::Subject;
use crate::system::child::Ending;
use crate::system::exit;
use crate::system::stdio::complain;

/// Reports problems of the counts or of the command, and returns the exit code.
pub(super) fn report_problems(subject: &Subject, runs: &[Run], stopped: Option<StoppedRun>) -> u8 {
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
    let uncounted = runs.iter().find_map(|run| run.uncounted);
    if uncounted == Some(Uncounted::LeftProgram) {
        complain(LEFT_PROGRAM_REASON);
    } else if uncounted == Some(Uncounted::NoTurn) {
        complain(NO_TURN_REASON);
    } else if uncounted == Some(Uncounted::NoCore) {
        complain(NO_CORE_REASON);
    } else if uncounted == Some(Uncounted::NoPmuCounter) {
        complain(NO_PMU_COUNTER_REASON);
    } else if uncounted.is_none() && lacks_count(subject, runs) {
        let message = match subject.scope {
            Scope::Cpus { .. } => perfmon::Cause::Untrusted,
            _ => perfmon::Cause::Missed,
        };
        complain(format_args!(
            "{message}\n{}",
            message.help().unwrap_or_default()
        ));
    }
    let stopped_code = stopped.map_or(0, |stopped| stopped.exit_code());
    worse_exit_code(exit_code(subject, runs), stopped_code)
}

/// The message for a program that must not be counted, so that the events stopped at its exec.
pub(crate) const LEFT_PROGRAM_REASON: &str = "\
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

/// Why there is no count of an event of one of Linux's PMUs.
const NO_PMU_COUNTER_REASON: &str = "\
Linux had no counter left for an event of a PMU: its events are too many, or others have the counters.\n\
Count fewer at a time; `--multiplex` lets them take turns, and estimates their counts.";

/// Returns whether a count can't be trusted, or is absent.
fn lacks_count(subject: &Subject, runs: &[Run]) -> bool {
    let is_missing = |(column, count): (&Column, &Option<ColumnCount>)| {
        !column.event.is_absent() && count.is_none()
    };
    let has_missing = |run: &Run| subject.columns.iter().zip(&run.counts).any(is_missing);
    runs.iter().any(has_missing)
}

/// Returns the exit code of runs: `NO_COUNT` if a count is missing, otherwise that of the last run that failed.
pub(super) fn exit_code(subject: &Subject, runs: &[Run]) -> u8 {
    let is_absent = |column: &Column| column.event.is_absent();
    if lacks_count(subject, runs) || subject.columns.iter().any(is_absent) {
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
pub(super) const fn worse_exit_code(earlier: u8, later: u8) -> u8 {
    match (earlier, later) {
        (exit::NO_COUNT, _) | (_, 0) => earlier,
        _ => later,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_of_many_runs_is_the_last_that_is_not_0() {
        assert_eq!(worse_exit_code(7, 0), 7);
        assert_eq!(worse_exit_code(7, 3), 3);
        assert_eq!(worse_exit_code(0, 3), 3);
        assert_eq!(worse_exit_code(exit::NO_COUNT, 3), exit::NO_COUNT);
    }
}
