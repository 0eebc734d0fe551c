// SPDX-License-Identifier: MIT OR Apache-2.0
//! Splits events that are too many for the counters: with `-r` the command runs once for each part of them.

use std::fmt;

use anyhow::Result;
use perfmon::spec::EventSpec;
use perfmon::{Device, Pmu};

use crate::args::Stat;
use crate::events::schedule::{CounterSupply, are_of_one_group, schedule};
use crate::system::exit::{self, Usage};

/// The counters are too few for all events.
#[derive(Debug)]
pub(in crate::commands::stat) struct TooManyEvents {
    text: String,
    /// The error is a mistake in the command line: the counters are too few even if no other
    /// program uses a counter.
    is_usage: bool,
}

impl TooManyEvents {
    /// Wraps the driver's error for events of tasks. This is not a usage error: other programs may hold the counters.
    pub(in crate::commands::stat) fn from_driver(error: &anyhow::Error) -> Self {
        Self {
            text: error.to_string(),
            is_usage: false,
        }
    }

    /// Wraps a conflict between the events themselves, which exists even if no other program uses
    /// counters.
    pub(in crate::commands::stat) fn between_events(error: &impl ToString) -> Self {
        Self {
            text: error.to_string(),
            is_usage: true,
        }
    }

    fn into_error(self) -> anyhow::Error {
        if self.is_usage {
            Usage(self.text).into()
        } else {
            anyhow::Error::msg(self.text)
        }
    }
}

impl fmt::Display for TooManyEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for TooManyEvents {}

/// Returns the events of -e for each run: all in one run, unless -r allows several and the counters are too few.
pub(in crate::commands::stat) fn events_by_run(
    args: &Stat,
    events: Vec<EventSpec>,
    pmu: &Pmu,
) -> Result<Vec<Vec<EventSpec>>> {
    if args.multiplex || !matches!(args.repeat, Some(1..)) {
        return Ok(vec![events]);
    }
    let supply = free_supply(args, pmu)?;
    match split_into_runs(&events, supply) {
        Some(runs) => {
            require_one_run(args, "-e", &runs, supply)?;
            Ok(runs)
        }
        // The driver's error will say what is wrong.
        None => Ok(vec![events]),
    }
}

/// Adds advice to an error [`TooManyEvents`]: the options that count all `events`, if there are any.
pub(in crate::commands::stat) fn with_advice(
    error: anyhow::Error,
    args: &Stat,
    (events, pmu): (&[EventSpec], &Pmu),
) -> anyhow::Error {
    let TooManyEvents { text, is_usage } = match error.downcast() {
        Ok(too_many) => too_many,
        Err(error) => return error,
    };
    let excludes_repeat =
        args.repeat.is_some() || args.interval.is_some() || args.command.is_empty();
    let supply = free_supply(args, pmu).ok();
    let runs = supply.and_then(|supply| split_into_runs(events, supply));
    // If an event gets no counter even by itself, neither -r nor --multiplex helps.
    let Some(runs) = runs.filter(|runs| runs.len() > 1) else {
        return TooManyEvents { text, is_usage }.into_error();
    };
    let repeat = (!excludes_repeat).then(|| repeat_advice(runs.len()));
    let ways: Vec<String> = repeat
        .into_iter()
        .chain(multiplex_advice(args).map(str::to_owned))
        .collect();
    let text = match text.split_once('\n') {
        Some((what, advice)) if !ways.is_empty() => {
            format!("{what}\n{}\n{advice}", ways.join("\n"))
        }
        _ => text,
    };
    TooManyEvents { text, is_usage }.into_error()
}

/// Returns the error without advice, for commands that don't have the options of `stat`.
pub(in crate::commands::stat) fn without_advice(error: anyhow::Error) -> anyhow::Error {
    match error.downcast() {
        Ok(too_many) => TooManyEvents::into_error(too_many),
        Err(error) => error,
    }
}

/// Returns the advice to run the command `runs` times.
pub(in crate::commands::stat) fn repeat_advice(runs: usize) -> String {
    format!(
        "If the command can be run again and does the same each time, `-r 1` runs it {runs} times, each time for a \
         part of the events."
    )
}

/// Returns the advice to let events take turns; `None` if they can't, or if they do already.
fn multiplex_advice(args: &Stat) -> Option<&'static str> {
    let can_multiplex = !args.multiplex && !args.has_cgroups();
    can_multiplex.then_some("`--multiplex` lets the events take turns, and estimates their counts.")
}

/// Refuses events that need several runs, if the options allow only one.
pub(in crate::commands::stat) fn require_one_run(
    args: &Stat,
    option: &str,
    runs: &[Vec<EventSpec>],
    supply: CounterSupply,
) -> Result<(), Usage> {
    if runs.len() < 2 || args.multiplex {
        return Ok(());
    }
    let multiplex_hint =
        multiplex_advice(args).map_or_else(String::new, |advice| format!(" {advice}"));
    let problem = format!(
        "{option}: {} events need {} runs, since only {} general and {} fixed counters are free",
        runs.iter().map(Vec::len).sum::<usize>(),
        runs.len(),
        supply.general_free(),
        supply.fixed.count_ones()
    );
    if args.interval.is_some() || args.command.is_empty() {
        let reason = if args.interval.is_some() {
            "an interval can't be counted again"
        } else {
            "a process that runs already can't be run again"
        };
        return Err(Usage(format!(
            "{problem}; {reason}.\nChoose fewer of them, or give a command that can be run {} times.{multiplex_hint}",
            runs.len()
        )));
    }
    match args.repeat {
        None => Err(Usage(format!(
            "{problem}.\n{}{multiplex_hint} Or choose fewer of them.",
            repeat_advice(runs.len())
        ))),
        Some(0) => Err(Usage(format!(
            "{problem}; -r 0 shows each run.\nGive a number to -r, or choose fewer of them.{multiplex_hint}"
        ))),
        Some(_) => Ok(()),
    }
}

/// Returns the counters that are free for the tasks, CPUs or cgroups that the options count.
pub(in crate::commands::stat) fn free_supply(args: &Stat, pmu: &Pmu) -> Result<CounterSupply> {
    let device = Device::open().map_err(exit::with_help)?;
    Ok(if args.has_tasks() {
        CounterSupply::free_for_tasks(&device, pmu)
    } else {
        CounterSupply::free(&device, pmu)
    })
}

/// Splits the events into runs, in their order; without events there is one run. Returns `None` if an event or a group does
/// not fit even by itself.
fn split_into_runs(events: &[EventSpec], supply: CounterSupply) -> Option<Vec<Vec<EventSpec>>> {
    let fits = |events: &[EventSpec]| {
        let present = events.iter().filter(|event| !event.is_absent());
        schedule(&present.cloned().collect::<Vec<_>>(), supply).is_ok()
    };
    let mut runs: Vec<Vec<EventSpec>> = vec![Vec::new()];
    for events in events.chunk_by(are_of_one_group) {
        let last = runs.last_mut()?;
        let previous_length = last.len();
        last.extend_from_slice(events);
        if fits(last) {
            continue;
        }
        last.truncate(previous_length);
        if !fits(events) {
            return None;
        }
        runs.push(events.to_vec());
    }
    Some(runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use crate::system::pmu::testing;
    use clap::Parser;
    use perfmon::spec;

    /// Returns the names of the events in each run, with `general` general counters.
    fn run_labels(text: &str, general: u8) -> Option<Vec<String>> {
        run_labels_on(&testing::intel(), text, general)
    }

    fn run_labels_on(pmu: &Pmu, text: &str, general: u8) -> Option<Vec<String>> {
        let events = spec::parse_or_absent(text, pmu).expect("it is well formed");
        let supply = CounterSupply {
            general,
            fixed: 0b111,
            busy: 0,
        };
        let runs = split_into_runs(&events, supply)?.into_iter().map(|events| {
            let labels: Vec<&str> = events.iter().map(|event| &event.label[..]).collect();
            labels.join(",")
        });
        Some(runs.collect())
    }

    #[test]
    fn events_keep_their_order_and_groups_stay_whole() {
        let runs = |text, general| run_labels(text, general).expect("each has a counter");
        assert_eq!(runs("r1,r2,r3,r4", 4), ["r1,r2,r3,r4"]);
        assert_eq!(runs("r1,r2,r3,r4,r5", 2), ["r1,r2", "r3,r4", "r5"]);
        // Only `instructions` has a fixed counter.
        assert_eq!(
            runs("r1,r2,instructions,r3", 2),
            ["r1,r2,instructions", "r3"]
        );
        assert_eq!(
            runs("r1,{r2,r3},{r4,r5},r6", 2),
            ["r1", "r2,r3", "r4,r5", "r6"]
        );
        assert_eq!(runs("r1,cache-misses,r2", 1), ["r1,cache-misses", "r2"]);
        assert_eq!(run_labels("{r1,r2,r3}", 2), None);
        assert_eq!(run_labels("r1,r2", 0), None);
    }

    #[test]
    fn raw_events_get_only_counters_that_count_them() {
        let model = spec::models::model("alderlake-core").expect("it is there");
        // Golden Cove counts events from 0xd0 to 0xdf on four counters.
        let runs = run_labels_on(
            &Pmu::of_model(model),
            "r1d1,r2d1,r1c4,r3d1,r4d1,r5d1,r1d2",
            8,
        );
        let expected = ["r1d1,r2d1,r1c4,r3d1,r4d1", "r5d1,r1d2"];
        assert_eq!(runs.expect("each has a counter"), expected);
    }

    #[test]
    fn only_a_number_of_runs_allows_several_runs() {
        let required = |repeat: &[&str]| {
            let words = [&["pmctl", "stat"], repeat, &["true"]].concat();
            let cli = Cli::try_parse_from(words).expect("it is well formed");
            let Command::Stat(args) = cli.command else {
                panic!("it is no stat");
            };
            let events = spec::parse("r1", &testing::intel()).expect("it is well formed");
            let supply = CounterSupply {
                general: 1,
                fixed: 0,
                busy: 0,
            };
            let runs = [events.clone(), events];
            let option = args.metrics_option();
            require_one_run(&args, option, &runs, supply).map_err(|error| error.to_string())
        };
        assert_eq!(required(&["-r", "1"]), Ok(()));
        let message = required(&[]).expect_err("it needs -r");
        assert!(message.contains("`-r 1` runs it 2 times"), "{message}");
        for (options, beginning) in [
            (&["--topdown"][..], "--topdown: 2 events need 2 runs"),
            (&["--topdown", "-M", "ipc"], "-M: 2 events"),
        ] {
            let message = required(options).expect_err("it needs -r");
            assert!(message.starts_with(beginning), "{message}");
        }
        let message = required(&["-r", "0"]).expect_err("each run has all events");
        assert!(message.contains("Give a number to -r"), "{message}");
    }

    #[test]
    fn without_events_there_is_a_run() {
        let supply = CounterSupply {
            general: 4,
            fixed: 0,
            busy: 0,
        };
        assert_eq!(split_into_runs(&[], supply).map(|runs| runs.len()), Some(1));
    }
}
