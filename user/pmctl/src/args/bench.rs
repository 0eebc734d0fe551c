// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `pmctl bench`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use perfmon_compare::condition::Condition;

const BENCH_HELP: &str = "\
Each COMMAND is one argument, split into words as a shell does; --shell gives it to `sh -c` instead. After -- stands one \
command with its arguments. Commands read nothing; their standard output is thrown away, their standard error is shown.

The commands run in turns, so that a change of the machine, such as its clock rate, affects all of them. `exact` says that a count was the same in all \
runs. Otherwise the spread is the standard deviation, and each change is followed by its interval: 95% of the changes that \
runs as different as these would show (bootstrap). A change is marked `may be none` if its interval contains 0.

A CONDITION is EVENT>LIMIT or EVENT<LIMIT, also of `time`. With % the limit is a change from the first command, or from \
the baseline: 'instructions:u>+1%'. Without it, it is of the mean: 'instructions:u>5000000', or seconds: 'time>0.5'. It \
holds if the whole interval lies beyond the limit; then the exit code is 1. If a count varies, it needs three runs on each side.

Examples:
  pmctl bench './old input' './new input'
  pmctl bench -e instructions:u,cycles -r 30 'gzip -1 -kf a' 'gzip -9 -kf a'
  pmctl bench --save before.json -- ./program
  pmctl bench --baseline before.json --fail-if 'instructions:u>+1%' -- ./program
  pmctl bench --export markdown ./a ./b >>\"$GITHUB_STEP_SUMMARY\"
  pmctl bench --suite main.json new.json --fail-if 'instructions:u>+1%'
  pmctl bench --suite v1.json v2.json v3.json --export html >suite.html";

/// Options of `pmctl bench`.
#[derive(Debug, Args)]
#[command(after_help = BENCH_HELP, override_usage = "pmctl bench [OPTIONS] COMMAND...|-- WORD...\n       pmctl bench [OPTIONS] --suite FILE...")]
pub(crate) struct Bench {
    /// Count these events, as for `pmctl stat`, except those of the kernel and energy [default: instructions:u and, where the CPU has them, cycles,branches,branch-misses; in `pmctl vm` instructions:u,branches:u]
    #[arg(short, long = "event", value_name = "EVENTS")]
    pub(crate) events: Vec<String>,

    /// Run each command N times
    #[arg(short, long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000_000), allow_negative_numbers = true)]
    pub(crate) repeat: u32,

    /// Run each command N times before, without counting
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    pub(crate) warmup: u32,

    /// Run this with `sh -c` before each run, without counting
    #[arg(long, value_name = "COMMAND")]
    pub(crate) prepare: Option<OsString>,

    /// Run each COMMAND with `sh -c`; the shell is counted, too
    #[arg(long, conflicts_with = "command")]
    pub(crate) shell: bool,

    /// Go on when a command fails
    #[arg(short, long)]
    pub(crate) ignore_failure: bool,

    /// Write all numbers to FILE, for --baseline: the JSON of --export. The file of --baseline is not overwritten if a CONDITION holds
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,

    /// Compare with FILE of --save, in place of the first command
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,

    /// Exit with 1 if this holds; may be given several times
    #[arg(long, value_name = "CONDITION")]
    pub(crate) fail_if: Vec<Condition>,

    /// Show the numbers of FILE, which `--save` of pmctl or of a suite in Rust or Python wrote, in place of running commands. With several files, the oldest first, changes are from the first one
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["commands", "command", "repeat", "warmup", "prepare", "shell", "ignore_failure", "save"])]
    pub(crate) suite: Vec<PathBuf>,

    /// Print the numbers in this format, in place of the table; html and svg are for --suite
    #[arg(long, value_name = "FORMAT")]
    pub(crate) export: Option<BenchFormat>,

    /// Leave out what an emulated machine says nothing about: `pmctl vm` adds this option
    #[arg(long, hide = true)]
    pub(crate) emulated: bool,

    /// Commands to compare, each as one argument
    #[arg(
        value_name = "COMMAND",
        required_unless_present_any = ["command", "suite"],
        conflicts_with = "command"
    )]
    pub(crate) commands: Vec<OsString>,

    /// After --: one command, and its arguments
    #[arg(last = true, value_name = "WORD")]
    pub(crate) command: Vec<OsString>,
}

/// A format of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchFormat {
    Json,
    Csv,
    Markdown,
    /// A page with plots.
    Html,
    /// A plot of the changes of the first event.
    Svg,
}
