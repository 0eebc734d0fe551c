// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events that have no counters at the same time: with `-r` the command runs once for each part of them.

use std::fmt;

use anyhow::Result;
use perfmon::spec::EventSpec;
use perfmon::{Device, Pmu};

use crate::args::Stat;
use crate::events::schedule::{CounterSupply, schedule};
use crate::system::exit::{self, Usage};

/// The counters are too few for all events.
#[derive(Debug)]
pub(super) struct TooMany {
    text: String,
    /// The command line has a mistake: no machine state could change it.
    is_usage: bool,
}

impl TooMany {
    /// Wraps the driver's error where tasks are counted. No usage error: other programs may hold the counters.
    pub(super) fn of_tasks(error: &anyhow::Error) -> Self {
        Self {
            text: error.to_string(),
            is_usage: false,
        }
    }

    /// A conflict that no other program has a part in.
    pub(super) fn of_cpus(error: &impl ToString) -> Self {
        Self {
            text: error.to_string(),
            is_usage: true,
        }
    }

    fn plain(self) -> anyhow::Error {
        if self.is_usage {
            Usage(self.text).into()
        } else {
            anyhow::Error::msg(self.text)
        }
    }
}

impl fmt::Display for TooMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for TooMany {}

/// Returns the events of -e for each run: all in one, unless the user allows several and all take them.
pub(super) fn of(args: &Stat, events: Vec<EventSpec>, pmu: &Pmu) -> Result<Vec<Vec<EventSpec>>> {
    if args.multiplex || !matches!(args.repeat, Some(1..)) {
        return Ok(vec![events]);
    }
    let supply = supply(args, pmu)?;
    match turns(&events, supply) {
        Some(turns) => {
            require_one_run(args, "-e", &turns, supply)?;
            Ok(turns)
        }
        // The driver says what is wrong.
        None => Ok(vec![events]),
    }
}

/// Names the ways to count all `events` first, if `error` is that they are too many and there are such ways.
pub(super) fn with_advice(
    error: anyhow::Error,
    args: &Stat,
    (events, pmu): (&[EventSpec], &Pmu),
) -> anyhow::Error {
    let TooMany { text, is_usage } = match error.downcast() {
        Ok(too_many) => too_many,
        Err(error) => return error,
    };
    let once = args.repeat.is_some() || args.interval.is_some() || args.command.is_empty();
    let supply = supply(args, pmu).ok();
    let runs = supply.and_then(|supply| turns(events, supply));
    // If an event gets no counter even alone, neither way counts all.
    let Some(runs) = runs.filter(|runs| runs.len() > 1) else {
        return TooMany { text, is_usage }.plain();
    };
    let again = (!once).then(|| repeated(runs.len()));
    let ways: Vec<String> = again
        .into_iter()
        .chain(multiplexed(args).map(str::to_owned))
        .collect();
    let text = match text.split_once('\n') {
        Some((what, advice)) if !ways.is_empty() => {
            format!("{what}\n{}\n{advice}", ways.join("\n"))
        }
        _ => text,
    };
    TooMany { text, is_usage }.plain()
}

/// Returns an error as it is told where a command has to run as it is.
pub(super) fn plain(error: anyhow::Error) -> anyhow::Error {
    match error.downcast() {
        Ok(too_many) => TooMany::plain(too_many),
        Err(error) => error,
    }
}

/// Returns the advice to let a command run so often.
pub(super) fn repeated(runs: usize) -> String {
    format!(
        "If the command can be run again and does the same each time, `-r 1` runs it {runs} times, each time for a \
         part of the events."
    )
}

/// Returns the advice to let events take turns, if they are of tasks and do not yet.
fn multiplexed(args: &Stat) -> Option<&'static str> {
    let may = !args.multiplex && !args.all_cpus && args.cpu.is_none() && !args.has_cgroups();
    may.then_some("`--multiplex` lets the events take turns, and estimates their counts.")
}

/// Fails if the events take several runs, and what is counted runs once.
pub(super) fn require_one_run(
    args: &Stat,
    option: &str,
    runs: &[Vec<EventSpec>],
    supply: CounterSupply,
) -> Result<(), Usage> {
    if runs.len() < 2 || args.multiplex {
        return Ok(());
    }
    let multiplexed = multiplexed(args).map_or_else(String::new, |advice| format!(" {advice}"));
    let needed = format!(
        "{option}: {} events need {} runs, for {} general and {} fixed counters are free, and pmctl shares none of them",
        runs.iter().map(Vec::len).sum::<usize>(),
        runs.len(),
        supply.general_free(),
        supply.fixed.count_ones()
    );
    if args.interval.is_some() || args.command.is_empty() {
        let what = if args.interval.is_some() {
            "an interval can't be counted again"
        } else {
            "a process that runs already can't be run again"
        };
        return Err(Usage(format!(
            "{needed}; {what}.\nChoose fewer of them, or give a command that can be run {} times.{multiplexed}",
            runs.len()
        )));
    }
    match args.repeat {
        None => Err(Usage(format!(
            "{needed}.\n{}{multiplexed} Or choose fewer of them.",
            repeated(runs.len())
        ))),
        Some(_) => Ok(()),
    }
}

/// Returns the counters that can be had.
fn supply(args: &Stat, pmu: &Pmu) -> Result<CounterSupply> {
    let device = Device::open().map_err(exit::with_help)?;
    Ok(if args.has_cpus() {
        CounterSupply::free(&device, pmu)
    } else {
        CounterSupply::free_for_tasks(&device, pmu)
    })
}

/// Returns the events of each run, in their order. `None` if an event, or a group, has no counters even alone.
fn turns(events: &[EventSpec], supply: CounterSupply) -> Option<Vec<Vec<EventSpec>>> {
    let fit = |events: &[EventSpec]| {
        let present = events.iter().filter(|event| !event.is_absent());
        schedule(&present.cloned().collect::<Vec<_>>(), supply).is_ok()
    };
    let mut turns: Vec<Vec<EventSpec>> = vec![Vec::new()];
    // Those of a group are counted together.
    let together =
        |one: &EventSpec, next: &EventSpec| one.group.is_some() && one.group == next.group;
    for events in events.chunk_by(together) {
        let last = turns.last_mut()?;
        let known = last.len();
        last.extend_from_slice(events);
        if fit(last) {
            continue;
        }
        last.truncate(known);
        if !fit(events) {
            return None;
        }
        turns.push(events.to_vec());
    }
    // The first part has no event if all are counted without a counter. That is a run, too, if there is no other.
    if turns.len() > 1 {
        turns.retain(|events| !events.is_empty());
    }
    Some(turns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::pmu::testing;
    use perfmon::spec;

    /// The names of the events in each run, with so many general counters.
    fn split(text: &str, general: u8) -> Option<Vec<String>> {
        let events = spec::parse_or_absent(text, &testing::intel()).expect("it is well formed");
        let supply = CounterSupply {
            general,
            fixed: 0b111,
            busy: 0,
        };
        let turns = turns(&events, supply)?.into_iter().map(|events| {
            let labels: Vec<&str> = events.iter().map(|event| &event.label[..]).collect();
            labels.join(",")
        });
        Some(turns.collect())
    }

    #[test]
    fn events_keep_their_order_and_groups_stay_whole() {
        let runs = |text, general| split(text, general).expect("each has a counter");
        assert_eq!(runs("r1,r2,r3,r4", 4), ["r1,r2,r3,r4"]);
        assert_eq!(runs("r1,r2,r3,r4,r5", 2), ["r1,r2", "r3,r4", "r5"]);
        // A fixed counter is for one of these only.
        assert_eq!(
            runs("r1,r2,instructions,r3", 2),
            ["r1,r2,instructions", "r3"]
        );
        assert_eq!(
            runs("r1,{r2,r3},{r4,r5},r6", 2),
            ["r1", "r2,r3", "r4,r5", "r6"]
        );
        assert_eq!(runs("r1,cache-misses,r2", 1), ["r1,cache-misses", "r2"]);
        assert_eq!(split("{r1,r2,r3}", 2), None);
        assert_eq!(split("r1,r2", 0), None);
    }

    #[test]
    fn without_events_there_is_a_run() {
        let supply = CounterSupply {
            general: 4,
            fixed: 0,
            busy: 0,
        };
        assert_eq!(turns(&[], supply).map(|turns| turns.len()), Some(1));
    }
}
