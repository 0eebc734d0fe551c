// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line, of which cargo gives a part.

use std::path::{Path, PathBuf};

use clap::{Parser, ValueEnum};
use perfmon_compare::condition::{Condition, TIME};

const HELP: &str = "\
A CONDITION is EVENT>LIMIT or EVENT<LIMIT. With % the limit is a change from the baseline: 'instructions:u>+1%', or for short \
instructions:1%. Without it, it is of the count: 'instructions:u>5000'.

Examples:
  cargo bench --bench sorting -- --save-baseline main
  cargo bench --bench sorting -- --baseline main --fail-if instructions:1%
  cargo bench --bench sorting -- sort --export markdown >>\"$GITHUB_STEP_SUMMARY\"";

/// Count the instructions of functions
#[derive(Debug, Parser)]
#[command(after_help = HELP, override_usage = "cargo bench --bench TARGET -- [OPTIONS] [NAME...]")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub(crate) struct Options {
    /// Only benchmarks with one of these in their names
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,

    /// Only benchmarks that are called exactly so
    #[arg(long)]
    pub(crate) exact: bool,

    /// Print the names of the benchmarks
    #[arg(long)]
    pub(crate) list: bool,

    /// Count these events, four at most
    #[arg(
        short,
        long = "event",
        value_name = "EVENTS",
        value_delimiter = ',',
        default_value = "instructions:u,branches:u"
    )]
    pub(crate) events: Vec<String>,

    /// Write the numbers as the baseline NAME, or to the file of this path. The baseline itself stays when a CONDITION holds
    #[arg(long, value_name = "NAME")]
    pub(crate) save_baseline: Option<String>,

    /// Compare with the baseline NAME, or with the file of this path, as of `pmctl bench --save`
    #[arg(long, value_name = "NAME")]
    pub(crate) baseline: Option<String>,

    /// Exit with 1 if this holds for a benchmark; may be given several times
    #[arg(long, value_name = "CONDITION", value_parser = condition)]
    pub(crate) fail_if: Vec<Condition>,

    /// Print the numbers in this format, in place of the table
    #[arg(long, value_name = "FORMAT")]
    pub(crate) export: Option<BenchFormat>,

    /// Flag that `cargo bench` gives, and `cargo test` does not
    #[arg(long, hide = true)]
    pub(crate) bench: bool,

    /// Call each benchmark once, without counting
    #[arg(long)]
    pub(crate) test: bool,

    /// Flag that test runners give
    #[arg(long, hide = true)]
    pub(crate) nocapture: bool,

    /// Form of the list that test runners ask for: there is one
    #[arg(long, hide = true, value_name = "FORMAT")]
    pub(crate) format: Option<String>,

    /// Only ignored benchmarks, for test runners: there are none
    #[arg(long, hide = true)]
    pub(crate) ignored: bool,
}

/// A format of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchFormat {
    Json,
    Markdown,
}

impl Options {
    /// Returns whether a benchmark of this name is wanted.
    pub(crate) fn wants(&self, name: &str) -> bool {
        let is_wanted = |wanted: &String| {
            if self.exact {
                name == wanted
            } else {
                name.contains(&**wanted)
            }
        };
        self.names.is_empty() || self.names.iter().any(is_wanted)
    }
}

/// Parses a condition, or the short form EVENT:LIMIT% for a count that grows.
fn condition(text: &str) -> Result<Condition, String> {
    if text.contains(['<', '>']) {
        return text.parse();
    }
    let (event, limit) = text
        .rsplit_once(':')
        .filter(|(_, limit)| limit.ends_with('%'))
        .ok_or("it takes EVENT>LIMIT, EVENT<LIMIT or EVENT:LIMIT%, as in instructions:1%")?;
    let event = match event {
        TIME => return Err("times are not measured".to_owned()),
        event if event.contains(':') => event.to_owned(),
        event => format!("{event}:u"),
    };
    let mut condition: Condition = format!("{event}>+{limit}").parse()?;
    text.clone_into(&mut condition.text);
    Ok(condition)
}

/// Returns the file of a baseline: below `folder`, unless the name is a path.
pub(crate) fn file_of(folder: &Path, name: &str) -> PathBuf {
    if name.contains('/') || Path::new(name).extension().is_some_and(|end| end == "json") {
        PathBuf::from(name)
    } else {
        folder.join(format!("{name}.json"))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use perfmon_compare::condition::Limit;

    use super::*;

    fn options(arguments: &[&str]) -> Options {
        let words = ["sorting"].iter().chain(arguments);
        Options::try_parse_from(words).expect("it is well formed")
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Options::command().debug_assert();
    }

    #[test]
    fn names_are_parts_or_exact() {
        let parts = options(&["--bench", "sort", "fill"]);
        assert!(parts.wants("sort/100") && parts.wants("refill") && !parts.wants("sum"));
        let exact = options(&["--exact", "sort"]);
        assert!(exact.wants("sort") && !exact.wants("sort/100"));
        assert!(options(&[]).wants("anything"));
    }

    #[test]
    fn a_short_condition_is_of_user_mode() {
        let short = condition("instructions:1%").expect("it is well formed");
        assert_eq!(short.event, "instructions:u");
        assert_eq!(short.limit, Limit::Change(0.01));
        assert!(short.above);
        assert_eq!(short.text, "instructions:1%");
        let event = |text: &str| condition(text).map(|condition| condition.event);
        assert_eq!(event("branches:u:0%").as_deref(), Ok("branches:u"));
        assert_eq!(
            event("instructions:u>5000").as_deref(),
            Ok("instructions:u")
        );
        for wrong in [
            "instructions",
            "instructions:u",
            "instructions:x%",
            "time:1%",
        ] {
            assert!(condition(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_baseline_is_a_name_or_a_path() {
        let folder = Path::new("target/perfmon/sorting");
        let file = |name| file_of(folder, name).display().to_string();
        assert_eq!(file("main"), "target/perfmon/sorting/main.json");
        assert_eq!(file("v1.2"), "target/perfmon/sorting/v1.2.json");
        assert_eq!(file("main.json"), "main.json");
        assert_eq!(file("/tmp/main"), "/tmp/main");
    }
}
