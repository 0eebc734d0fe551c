// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command lines of `record` and of what looks at recordings.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::Cpus;

const RECORD_HELP: &str = "\
A sample says where a CPU was, and in which program. With a command, only samples of it and of what it starts are \
kept; with -a or -C those of all programs. The driver records the machine in any case.

Events are those of `pmctl stat`. The default period is a prime number, but a loop can \
still be nearly in step with it: compare with another period (-c).

Examples:
  pmctl record -- make                           where `make` spends its cycles
  pmctl record -a --duration 10                  what the machine does
  pmctl record -p 1234                           what a process does that runs already
  pmctl record -e branches:u -c 10007 ls         another event
  pmctl record -b -- gzip file                   with the last branches
  pmctl record --timebase cycles --count cache-misses,branches -- ls
                                                 at each sample the others are counted

Then `pmctl report`, `pmctl script`, `pmctl flamegraph`, or `perf report` and other tools for perf.data.

Exit codes are those of `pmctl stat`: the command's own, and 125 if records were lost.";

#[derive(Debug, Args)]
#[command(after_help = RECORD_HELP)]
pub(crate) struct Record {
    /// What makes the samples, separated by commas; may be repeated [default: cycles]
    #[arg(short = 'e', long = "event", value_name = "EVENTS")]
    pub(crate) events: Vec<String>,

    /// Make a sample each time that an event has happened N times
    #[arg(short = 'c', long, value_name = "N", default_value_t = 1_000_003, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) period: u32,

    /// Keep the samples of all programs; without a command until Ctrl-C
    #[arg(short, long)]
    pub(crate) all_cpus: bool,

    /// Keep the samples of these CPUs only, as in 0-2,5, and of all programs
    #[arg(short = 'C', long, value_name = "CPUS", value_parser = Cpus::parse)]
    pub(crate) cpu: Option<Cpus>,

    /// Keep the samples of this process and of what it starts from now on; until it ends, or Ctrl-C
    #[arg(short, long, value_name = "PID", conflicts_with_all = ["all_cpus", "cpu", "command"])]
    pub(crate) pid: Option<u32>,

    /// Known from perf, and refused with the reason
    #[arg(short = 'F', long = "freq", value_name = "HZ", hide = true)]
    pub(crate) frequency: Option<String>,

    /// Known from perf, and refused with the reason
    #[arg(short = 'g', long, value_name = "MODE", num_args = 0..=1, require_equals = true, default_missing_value = "", hide = true)]
    pub(crate) call_graph: Option<String>,

    /// Record the last branches with each sample
    #[arg(short, long)]
    pub(crate) branches: bool,

    /// The event that makes the samples, for --count
    #[arg(
        long,
        value_name = "EVENT",
        requires = "count",
        conflicts_with = "events"
    )]
    pub(crate) timebase: Option<String>,

    /// Count these events from each sample to the next; may be repeated
    #[arg(long, value_name = "EVENTS", requires = "timebase")]
    pub(crate) count: Vec<String>,

    /// The size of each CPU's buffer, in pages of 4 KiB [default: up to 1024]
    #[arg(short = 'm', long, value_name = "PAGES", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) pages: Option<u32>,

    /// When a buffer is nearly full, go on with new ones; what happens in between is not recorded
    #[arg(long)]
    pub(crate) rotate: bool,

    /// End the recording after SECS seconds; a command goes on
    #[arg(long, value_name = "SECS", value_parser = seconds)]
    pub(crate) duration: Option<Duration>,

    /// The file to write
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    pub(crate) output: PathBuf,

    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| *seconds > 0.0);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "it takes a number of seconds above 0".to_owned())
}

/// What the commands that look at a recording have in common.
#[derive(Debug, Args)]
pub(crate) struct Input {
    /// The recording
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    pub(crate) input: PathBuf,
}

const SCRIPT_HELP: &str = "\
Fields:
  comm      the name of the task            period   how often the event has happened
  pid, tid  its process and its thread      ip       the address
  cpu       the CPU                         sym      the function there, and how far behind its beginning
  time      in seconds                      dso      the file
  event     the event                       brstack  the last branches, newest first: from/to/M or P
                                                     (mispredicted or predicted)/cycles

Examples:
  pmctl script                              all samples of ./perf.data
  pmctl script -F comm,sym | sort | uniq -c";

#[derive(Debug, Args)]
#[command(after_help = SCRIPT_HELP)]
pub(crate) struct Script {
    #[command(flatten)]
    pub(crate) input: Input,

    /// What to show of each sample, in this order
    #[arg(short = 'F', long, value_name = "FIELDS", value_delimiter = ',', default_values_t = Field::DEFAULT, hide_possible_values = true)]
    pub(crate) fields: Vec<Field>,
}

/// What can be shown of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Field {
    Comm,
    Pid,
    Tid,
    Cpu,
    Time,
    Event,
    Period,
    Ip,
    Sym,
    Dso,
    Brstack,
}

impl Field {
    const DEFAULT: [Self; 8] = [
        Self::Comm,
        Self::Pid,
        Self::Cpu,
        Self::Time,
        Self::Event,
        Self::Ip,
        Self::Sym,
        Self::Brstack,
    ];
}

impl std::fmt::Display for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.to_possible_value()
            .map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}

const REPORT_HELP: &str = "\
Each event has a table of its own. The share of a row is that of its events, not of its samples.

Examples:
  pmctl report                     programs, files and functions
  pmctl report --sort symbol       functions only
  pmctl report --sort cpu,comm     what each CPU did
  pmctl report --branches          from where to where, of `pmctl record -b`";

#[derive(Debug, Args)]
#[command(after_help = REPORT_HELP)]
pub(crate) struct Report {
    #[command(flatten)]
    pub(crate) input: Input,

    /// What the rows differ in
    #[arg(short, long, value_name = "KEYS", value_delimiter = ',', default_values_t = Key::DEFAULT)]
    pub(crate) sort: Vec<Key>,

    /// Show which branches were taken, how often, and how often mispredicted
    #[arg(long)]
    pub(crate) branches: bool,

    /// Show no more than N rows of each table
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,

    /// Show no rows below PERCENT
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 0.0,
        hide_default_value = true
    )]
    pub(crate) percent_limit: f64,

    /// Cut lines off after COLUMNS characters
    #[arg(long, value_name = "COLUMNS")]
    pub(crate) width: Option<usize>,

    /// Write text, as always; for those who are used to it
    #[arg(long, hide = true)]
    pub(crate) stdio: bool,
}

/// What the rows of a report can differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Key {
    /// The name of the task
    Comm,
    /// The process
    Pid,
    /// The file
    Dso,
    /// The function
    Symbol,
    /// The CPU
    Cpu,
}

impl Key {
    const DEFAULT: [Self; 3] = [Self::Comm, Self::Dso, Self::Symbol];
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.to_possible_value()
            .map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}

const FLAMEGRAPH_HELP: &str = "\
A recording has no call chains: what stands on each other is the program, the file and the function. The picture \
opens in a browser, where a click enlarges a part of it.

Example:
  pmctl record -a --duration 10; pmctl flamegraph -o machine.svg";

#[derive(Debug, Args)]
#[command(after_help = FLAMEGRAPH_HELP)]
pub(crate) struct Flamegraph {
    #[command(flatten)]
    pub(crate) input: Input,

    /// The picture to write
    #[arg(short, long, value_name = "FILE", default_value = "flamegraph.svg")]
    pub(crate) output: PathBuf,

    /// The event to show, if several were recorded [default: the first]
    #[arg(short, long, value_name = "EVENT")]
    pub(crate) event: Option<String>,
}
