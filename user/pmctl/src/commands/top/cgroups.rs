// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl top --cgroups`: a live table of what the tasks of each cgroup execute.

use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use perfmon::event::Cgroup;
use perfmon::spec;
use perfmon::{Device, Pmu};

use super::text::ENTRIES_ADVICE;
use crate::args::Top;
use crate::commands::serve::containers::{CgroupLimit, Containers, Labels};
use crate::commands::serve::open_events::UncountedReason;
use crate::events::cgroups::Pattern;
use crate::system::exit::{self, Usage};
use crate::system::files::allow_many_files;
use crate::system::screen::Screen;
use crate::system::table::{Align, Table, hidden_rows_line};
use crate::system::text::{count, thousands};

/// The events, in the order of the columns.
const EVENTS: &str = "instructions,cycles";

/// The largest number of cgroups that are counted.
const LIMIT: CgroupLimit = CgroupLimit {
    max_count: 1000,
    advice: "Match fewer with --cgroups=GLOBS.",
};

/// The escape sequence that clears a terminal, and moves the cursor to its first line.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// The counts of a cgroup; `None` for an event that is not counted in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CgroupCounts {
    instructions: Option<u64>,
    cycles: Option<u64>,
}

impl CgroupCounts {
    /// Returns the counts since `before`. A count that is smaller than in `before` has restarted from 0.
    fn since(self, before: Self) -> Self {
        let grown = |now: Option<u64>, before: Option<u64>| {
            now.map(|now| now.checked_sub(before.unwrap_or(0)).unwrap_or(now))
        };
        Self {
            instructions: grown(self.instructions, before.instructions),
            cycles: grown(self.cycles, before.cycles),
        }
    }

    /// Returns whether something was counted, or could not be counted.
    fn is_shown(self) -> bool {
        self.instructions != Some(0) || self.cycles != Some(0)
    }

    /// Returns whether something was counted.
    fn has_events(self) -> bool {
        self.instructions.is_some_and(|number| number > 0)
            || self.cycles.is_some_and(|number| number > 0)
    }

    /// Returns whether all events were counted.
    fn is_complete(self) -> bool {
        self.instructions.is_some() && self.cycles.is_some()
    }

    /// Returns the instructions per cycle; `None` if a count is missing, or if there were no cycles.
    fn ratio(self) -> Option<f64> {
        let cycles = self.cycles.filter(|cycles| *cycles > 0)?;
        Some(self.instructions? as f64 / cycles as f64)
    }
}

/// Shows tables, and returns the exit code after the last one.
pub(super) fn top(args: &Top, globs: &str) -> Result<u8> {
    // Each cgroup needs a descriptor, and so does each of its events.
    allow_many_files();
    let device = Device::open().map_err(exit::with_help)?;
    let events = spec::parse_without_groups(EVENTS, &Pmu::of_this_cpu().with_counters_of(&device));
    let events = events.map_err(|error| Usage(error.to_string()))?;
    let patterns = Pattern::list("--cgroups", globs)?;
    let mut cgroups = Containers::open(device, events, (patterns, LIMIT))?;
    let mut previous_counts = read_counts(&mut cgroups)?;
    let mut interval_begin = Instant::now();
    let clears_screen = !args.stdio && io::stdout().is_terminal();
    let mut output = Screen::open(false)?;
    let mut tables = 0;
    while args.iterations.is_none_or(|most| tables < most) {
        thread::sleep(args.delay);
        let counts = read_counts(&mut cgroups)?;
        let seconds = interval_begin.elapsed().as_secs_f64();
        interval_begin = Instant::now();
        let mut rows: Vec<(&String, CgroupCounts)> = counts
            .iter()
            .map(|(inode, (name, counts))| {
                let previous = previous_counts.get(inode);
                let previous = previous.map(|(_, counts)| *counts).unwrap_or_default();
                (name, counts.since(previous))
            })
            .filter(|(_, counts)| counts.is_shown())
            .collect();
        rows.sort_by(|(a_name, a), (b_name, b)| {
            b.cycles.cmp(&a.cycles).then_with(|| a_name.cmp(b_name))
        });
        if clears_screen {
            write!(output, "{CLEAR}")?;
        }
        let total = count(counts.len() as u64, "cgroup");
        let count_rows = |is_counted: fn(CgroupCounts) -> bool| {
            rows.iter()
                .filter(|(_, counts)| is_counted(*counts))
                .count()
        };
        let with_events = count_rows(CgroupCounts::has_events);
        write!(output, "{seconds:.1} s, {total}, {with_events} with events")?;
        match count_rows(|counts| !counts.is_complete()) {
            0 if counts.is_empty() => writeln!(
                output,
                ": no name with up to {} levels matches `{globs}` (names are as in /proc/PID/cgroup after `0::`)",
                Cgroup::MAX_LEVELS
            )?,
            0 => writeln!(output)?,
            incomplete => writeln!(
                output,
                ", {incomplete} not counted: {}",
                reason_in_words(cgroups.first_uncounted_reason())
            )?,
        }
        write_table(&rows, args.entries, &mut output)?;
        output.flush()?;
        previous_counts = counts;
        tables += 1;
    }
    Ok(0)
}

/// Returns why events are not counted, in words.
const fn reason_in_words(uncounted_reason: Option<UncountedReason>) -> &'static str {
    match uncounted_reason {
        Some(UncountedReason::NoFreeCounter) => {
            "no counter is free (`pmctl doctor` names the programs that have them)"
        }
        Some(UncountedReason::UnsupportedEvent | UncountedReason::OfflineCpu) => {
            "the CPU lacks an event"
        }
        Some(UncountedReason::PartialCount) => "tasks ran on CPUs that do not count all events",
        None => "counts were lost, since something else changed the registers; they begin again",
    }
}

/// Reads the names and the counts of all cgroups, by inode: a later cgroup of the same name has another inode. An event
/// without a counter has no count.
fn read_counts(cgroups: &mut Containers) -> Result<HashMap<u64, (String, CgroupCounts)>> {
    let counts = cgroups.read().context("can't read the counts")?;
    let mut numbers: HashMap<u64, CgroupCounts> = HashMap::new();
    for count in counts {
        let cgroup_counts = numbers.entry(count.labels.inode).or_default();
        match count.event {
            0 => cgroup_counts.instructions = Some(count.value),
            _ => cgroup_counts.cycles = Some(count.value),
        }
    }
    let with_counts = |labels: &Labels| {
        let counts = numbers.get(&labels.inode).copied().unwrap_or_default();
        (labels.inode, (labels.id.clone(), counts))
    };
    Ok(cgroups.labels().map(with_counts).collect())
}

/// Writes a table of the first rows.
fn write_table(
    rows: &[(&String, CgroupCounts)],
    entries: usize,
    output: &mut Screen,
) -> io::Result<()> {
    let mut table = Table::new(&[
        ("instructions", Align::Right),
        ("cycles", Align::Right),
        ("IPC", Align::Right),
        ("cgroup", Align::Left),
    ]);
    for (name, counts) in rows.iter().take(entries) {
        let per_cycle = counts.ratio();
        let number = |count: Option<u64>| count.map_or("<not counted>".to_owned(), thousands);
        let cells = [
            number(counts.instructions),
            number(counts.cycles),
            per_cycle.map_or("-".to_owned(), |ipc| format!("{ipc:.2}")),
            (*name).clone(),
        ];
        table.add_row(&cells, anstyle::Style::new());
    }
    table.write(None, output.colors.heading, output)?;
    let rest = rows.len().saturating_sub(entries);
    if rest > 0 {
        writeln!(output, "{}", hidden_rows_line(rest, ENTRIES_ADVICE))?;
    }
    writeln!(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_the_counts_since_the_previous_table() {
        let counts = |instructions, cycles| CgroupCounts {
            instructions: Some(instructions),
            cycles: Some(cycles),
        };
        assert_eq!(counts(5, 9).since(counts(3, 4)), counts(2, 5));
        assert_eq!(counts(5, 9).since(counts(6, 10)), counts(5, 9));
        assert_eq!(counts(6, 4).ratio(), Some(1.5));
        assert_eq!(counts(6, 0).ratio(), None);
    }

    #[test]
    fn an_event_that_is_not_counted_has_no_number() {
        let uncounted = CgroupCounts {
            instructions: Some(0),
            cycles: None,
        };
        assert!(uncounted.is_shown() && !uncounted.has_events());
        assert!(CgroupCounts::default().is_shown() && !CgroupCounts::default().is_complete());
        assert_eq!(uncounted.since(uncounted), uncounted);
        assert_eq!(uncounted.ratio(), None);
        assert!(
            !CgroupCounts {
                cycles: Some(0),
                ..uncounted
            }
            .is_shown()
        );
    }
}
