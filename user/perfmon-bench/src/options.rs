// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of a bench target; cargo adds some of its options.

use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};
use perfmon_compare::condition::{Condition, TIME};

use crate::counting;

const HELP: &str = "\
A CONDITION is EVENT>LIMIT or EVENT<LIMIT. A limit with % is a change from the baseline: 'instructions:u>+1%', or for short \
instructions:1%. A limit without % is a count: 'instructions:u>5000'.

Examples:
  cargo bench --bench sorting -- --save-baseline main
  cargo bench --bench sorting -- --baseline main --fail-if instructions:1%
  cargo bench --bench sorting -- sort --export markdown >>\"$GITHUB_STEP_SUMMARY\"";

/// The option of a child process, which counts one benchmark for its parent process.
pub(crate) const CHILD_OPTION: &str = "--child";

/// Count the instructions of functions
#[derive(Debug, Parser)]
#[command(after_help = HELP, override_usage = "cargo bench --bench TARGET -- [OPTIONS] [NAME...]")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub(crate) struct Options {
    /// Only benchmarks with one of these in their names
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,

    /// Only benchmarks whose name is exactly NAME
    #[arg(long)]
    pub(crate) exact: bool,

    /// Leave out benchmarks with NAME in their names, or with this name if --exact is given
    #[arg(long, value_name = "NAME")]
    pub(crate) skip: Vec<String>,

    /// Print the names of the benchmarks
    #[arg(long)]
    pub(crate) list: bool,

    /// Count these events, four at most
    #[arg(
        short,
        long = "event",
        value_name = "EVENTS",
        default_value = "instructions:u,branches:u",
        value_parser = EventNames::parse
    )]
    events: Vec<EventNames>,

    /// Write the counts as the baseline NAME, or to the file NAME. A file that is also the --baseline is not changed if a CONDITION holds
    #[arg(long, value_name = "NAME")]
    pub(crate) save_baseline: Option<String>,

    /// Compare with the baseline NAME, or with the file NAME of `pmctl bench --save`
    #[arg(long, value_name = "NAME")]
    pub(crate) baseline: Option<String>,

    /// Exit with 1 if this condition holds for a benchmark; may be given several times
    #[arg(long, value_name = "CONDITION", value_parser = parse_condition)]
    pub(crate) fail_if: Vec<Condition>,

    /// Print the counts as `json` or `markdown` instead of the table, or write them to FILE beside the table
    #[arg(long, value_name = "FORMAT[=FILE]", value_parser = Export::parse)]
    pub(crate) export: Option<Export>,

    /// Give benchmarks this environment variable, NAME or NAME=VALUE; they have only a few
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,

    /// Flag that `cargo bench` passes, and `cargo test` does not
    #[arg(long, hide = true)]
    pub(crate) bench: bool,

    /// Count for the process that has started this one: `CHILD_OPTION`
    #[arg(long, hide = true)]
    pub(crate) child: bool,

    /// Call each benchmark once, without counting
    #[arg(long)]
    pub(crate) test: bool,

    /// Only ignored benchmarks, for test runners; no benchmark is ignored
    #[arg(long, hide = true)]
    pub(crate) ignored: bool,

    #[command(flatten)]
    libtest: LibtestOptions,
}

/// Options of Rust's test programs, which test runners and users pass to all targets. They have no effect here.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
struct LibtestOptions {
    #[arg(long, hide = true)]
    include_ignored: bool,
    #[arg(long, hide = true, alias = "no-capture")]
    nocapture: bool,
    #[arg(long, hide = true)]
    show_output: bool,
    #[arg(long, short, hide = true)]
    quiet: bool,
    #[arg(long, hide = true, value_name = "N")]
    test_threads: Option<String>,
    #[arg(long, hide = true, value_name = "WHEN")]
    color: Option<String>,
    /// The format of the list; only one is supported.
    #[arg(long, hide = true, value_name = "FORMAT")]
    format: Option<String>,
    #[arg(short = 'Z', hide = true, value_name = "FEATURE")]
    unstable: Vec<String>,
}

/// The names of events in one option `-e`.
#[derive(Clone, Debug)]
struct EventNames(Vec<String>);

impl EventNames {
    fn parse(text: &str) -> Result<Self, String> {
        counting::split_events(text).map(Self)
    }
}

/// The format of `--export`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchFormat {
    Json,
    Markdown,
}

/// An output of `--export`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Export {
    pub(crate) format: BenchFormat,
    /// The file; `None` means the standard output, where the export replaces the table.
    pub(crate) file: Option<PathBuf>,
}

impl Export {
    fn parse(text: &str) -> Result<Self, String> {
        let (format, file) = match text.split_once('=') {
            Some((_, "")) => return Err("the name of the file is missing".to_owned()),
            Some((format, file)) => (format, Some(file.into())),
            None => (text, None),
        };
        let format = BenchFormat::from_str(format, false)
            .map_err(|_| "it takes json, markdown, json=FILE or markdown=FILE")?;
        Ok(Self { format, file })
    }
}

impl Options {
    /// Returns whether the command line selects benchmarks, and so may leave out some.
    pub(crate) fn selects_some(&self) -> bool {
        !self.names.is_empty() || !self.skip.is_empty()
    }

    /// Returns the name of the benchmark that this process counts for its parent process; `None` if
    /// this is no child process.
    pub(crate) fn name_to_count() -> Option<String> {
        let mut options = Self::try_parse().ok().filter(|options| options.child)?;
        options.names.pop()
    }

    /// Returns the names of the events.
    pub(crate) fn events(&self) -> Vec<String> {
        self.events
            .iter()
            .flat_map(|names| names.0.clone())
            .collect()
    }

    /// Returns whether the command line selects the benchmark of this name.
    pub(crate) fn selects(&self, name: &str) -> bool {
        let is_match = |pattern: &String| {
            if self.exact {
                name == pattern
            } else {
                name.contains(&**pattern)
            }
        };
        let is_named = self.names.is_empty() || self.names.iter().any(is_match);
        is_named && !self.skip.iter().any(is_match)
    }
}

/// Parses a condition, or its short form EVENT:LIMIT%, which holds if the count grows by more than LIMIT.
fn parse_condition(text: &str) -> Result<Condition, String> {
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
        assert!(parts.selects("sort/100") && parts.selects("refill") && !parts.selects("sum"));
        let exact_options = options(&["--exact", "sort"]);
        assert!(exact_options.selects("sort") && !exact_options.selects("sort/100"));
        assert!(options(&[]).selects("anything"));
    }

    #[test]
    fn skipped_benchmarks_are_left_out() {
        let skipping = options(&["sort", "--skip", "100", "--skip=slow"]);
        assert!(skipping.selects("sort/10"));
        assert!(!skipping.selects("sort/100") && !skipping.selects("slow_sort"));
        assert!(skipping.selects_some() && options(&["--skip", "x"]).selects_some());
        assert!(!options(&["--bench"]).selects_some());
        let exact = options(&["--exact", "--skip", "sort"]);
        assert!(exact.selects("sort/10") && !exact.selects("sort"));
    }

    #[test]
    fn options_of_test_programs_are_accepted() {
        let lines = [
            "--test-threads 1 --include-ignored --no-capture --show-output -q",
            "--test-threads=2 --quiet --nocapture --color=always --format terse -Z unstable-options",
        ];
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            assert!(!options(&words).selects_some(), "{line}");
        }
    }

    #[test]
    fn an_export_has_a_format_and_perhaps_a_file() {
        let export = |text| {
            let export = Export::parse(text)?;
            Ok::<_, String>((export.format, export.file))
        };
        assert_eq!(export("json"), Ok((BenchFormat::Json, None)));
        assert_eq!(
            export("markdown=a=b.md"),
            Ok((BenchFormat::Markdown, Some("a=b.md".into())))
        );
        for wrong in ["csv", "json=", "=x", ""] {
            assert!(export(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_event_may_have_commas() {
        let events = |words: &[&str]| options(words).events();
        assert_eq!(events(&[]), ["instructions:u", "branches:u"]);
        assert_eq!(
            events(&["-e", "cpu/event=0xc0,umask=1/u,branches:u", "-e", "cycles"]),
            ["cpu/event=0xc0,umask=1/u", "branches:u", "cycles"]
        );
        assert!(Options::try_parse_from(["sorting", "-e", "cycles,,"]).is_err());
    }

    #[test]
    fn a_short_condition_means_user_mode() {
        let short_condition = parse_condition("instructions:1%").expect("it is well formed");
        assert_eq!(short_condition.event, "instructions:u");
        assert_eq!(short_condition.limit, Limit::Change(0.01));
        assert!(short_condition.above);
        assert_eq!(short_condition.text, "instructions:1%");
        let event = |text: &str| parse_condition(text).map(|condition| condition.event);
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
            assert!(parse_condition(wrong).is_err(), "{wrong}");
        }
    }
}
