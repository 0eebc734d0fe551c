// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command lines of `record` and of what looks at recordings.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::Cpus;

/// The recording, if no other is named.
pub(crate) const DEFAULT_FILE: &str = "perf.data";

const RECORD_HELP: &str = "\
A sample is taken each time that an event has happened -c times. It tells which program was running, and where. \
With a command or -p, samples of other programs are left out. Events are written as for `pmctl stat`.

The default period is a prime number, so that few loops are in step with it. To make sure, compare with another period.

Examples:
  pmctl record -- make                       where `make` spends its cycles
  pmctl record -c 10007 -- ls                more samples, of a short command
  pmctl record -a --duration 10              the whole system
  pmctl record -p 1234                       a process that is running already
  pmctl record -e branches:u -- ls           another event
  pmctl record -b -- gzip file               with the last branches
  pmctl record --timebase cycles --count branches,instructions -- ls
                                             count others from sample to sample

See the recording with `pmctl report`, `script` or `flamegraph`. It is a perf.data file, which `perf report` and other \
tools read, too.

Exit codes are those of `pmctl stat`; 125 also if samples were lost.";

#[derive(Debug, Args)]
#[command(after_help = RECORD_HELP)]
pub(crate) struct Record {
    /// Sample by these events, separated by commas; may be repeated [default: cycles]
    #[arg(short = 'e', long = "event", value_name = "EVENTS")]
    pub(crate) events: Vec<String>,

    /// Take a sample each time that an event has happened N times
    #[arg(short = 'c', long, value_name = "N", default_value_t = 1_000_003, value_parser = period)]
    pub(crate) period: u32,

    /// Keep the samples of all programs; without a command until Ctrl-C
    #[arg(short, long)]
    pub(crate) all_cpus: bool,

    /// Keep the samples of these CPUs, as 0-2,5, of all programs
    #[arg(short = 'C', long, value_name = "CPUS", value_parser = Cpus::parse)]
    pub(crate) cpu: Option<Cpus>,

    /// Sample a running process and the children that it starts, until it ends or Ctrl-C
    #[arg(short, long, value_name = "PID", conflicts_with_all = ["all_cpus", "cpu"])]
    pub(crate) pid: Option<u32>,

    /// Known from perf, and refused with the reason
    #[arg(short = 'F', long = "freq", value_name = "HZ", hide = true)]
    pub(crate) frequency: Option<String>,

    /// Known from perf, and refused with the reason
    #[arg(short = 'g', long, value_name = "MODE", num_args = 0..=1, require_equals = true, default_missing_value = "", hide = true)]
    pub(crate) call_graph: Option<String>,

    /// Record the last branches before each sample
    #[arg(short, long)]
    pub(crate) branches: bool,

    /// Sample by this event only, and count those of --count
    #[arg(
        long,
        value_name = "EVENT",
        requires = "count",
        conflicts_with = "events"
    )]
    pub(crate) timebase: Option<String>,

    /// Count these events from sample to sample; may be repeated
    #[arg(long, value_name = "EVENTS", requires = "timebase")]
    pub(crate) count: Vec<String>,

    /// Size of each CPU's buffer in pages of 4 KiB [default: 1024, or fewer if the memory limit is lower]
    #[arg(short = 'm', long, value_name = "PAGES", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) pages: Option<u32>,

    /// Change the buffers when one is nearly full: a moment is lost instead of the rest
    #[arg(long)]
    pub(crate) rotate: bool,

    /// Stop recording after SECS seconds; a command goes on
    #[arg(long, value_name = "SECS", value_parser = seconds)]
    pub(crate) duration: Option<Duration>,

    /// Write the recording to FILE; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = DEFAULT_FILE)]
    pub(crate) output: PathBuf,

    /// Command to run, with its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

fn period(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(period) if period > 0 => Ok(period),
        _ => Err(format!(
            "it takes a number of events, from 1 to {}",
            u32::MAX
        )),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| *seconds > 0.0);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "it takes a number of seconds above 0".to_owned())
}

/// Options of the commands that read a recording.
#[derive(Debug, Args)]
pub(crate) struct Input {
    /// Read the recording in FILE; - is standard input
    #[arg(short, long, value_name = "FILE", default_value = DEFAULT_FILE)]
    pub(crate) input: PathBuf,
}

/// Options of the commands that print much.
#[derive(Debug, Args)]
pub(crate) struct View {
    /// Don't use a pager ($PAGER or less) on a terminal
    #[arg(long)]
    pub(crate) no_pager: bool,
}

const SCRIPT_HELP: &str = "\
Fields:
  comm     name of the task          period    events since the last sample
  pid      process                   ip        address
  tid      thread                    sym       function + offset
  cpu      CPU                       dso       program or library
  time     in seconds                brstack   last branches, newest first:
  event    event                               from/to/M or P (mispredicted
                                               or predicted)/cycles

Examples:
  pmctl script                              all samples of ./perf.data
  pmctl script -F comm,sym | sort | uniq -c";

#[derive(Debug, Args)]
#[command(after_help = SCRIPT_HELP)]
pub(crate) struct Script {
    #[command(flatten)]
    pub(crate) input: Input,

    /// Print these fields of each sample, separated by commas
    #[arg(
        short = 'F',
        long,
        value_name = "FIELDS",
        value_delimiter = ',',
        default_value = "comm,pid,cpu,time,event,ip,sym,brstack",
        hide_possible_values = true
    )]
    pub(crate) fields: Vec<Field>,

    #[command(flatten)]
    pub(crate) view: View,
}

/// A field of a sample.
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

const REPORT_HELP: &str = "\
Keys:
  comm     name of the task          symbol    function
  pid      process                   cpu       CPU
  dso      program or library

Each event has a table. The overhead of a row is its part of the event count of all samples in the table. On a \
terminal the report has colors (not with NO_COLOR=1) and a pager.

Examples:
  pmctl report                     by program, library and function
  pmctl report --sort symbol       by function
  pmctl report --sort cpu,comm     what each CPU did
  pmctl report --branches          branches, of `pmctl record -b`";

#[derive(Debug, Args)]
#[command(after_help = REPORT_HELP)]
pub(crate) struct Report {
    #[command(flatten)]
    pub(crate) input: Input,

    /// Group samples by these keys, separated by commas
    #[arg(
        short,
        long,
        value_name = "KEYS",
        value_delimiter = ',',
        default_value = "comm,dso,symbol",
        hide_possible_values = true
    )]
    pub(crate) sort: Vec<Key>,

    /// Show the branches of `pmctl record -b`: from where to where, how often, how often mispredicted
    #[arg(long)]
    pub(crate) branches: bool,

    /// Show the first N rows of each table
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,

    /// Show rows with an overhead of at least PERCENT
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 0.0,
        hide_default_value = true
    )]
    pub(crate) percent_limit: f64,

    /// Cut lines after COLUMNS characters
    #[arg(long, value_name = "COLUMNS")]
    pub(crate) width: Option<usize>,

    #[command(flatten)]
    pub(crate) view: View,

    /// Known from perf: the report is text always
    #[arg(long, hide = true)]
    pub(crate) stdio: bool,
}

/// A key of `pmctl report --sort`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Key {
    Comm,
    Pid,
    Dso,
    Symbol,
    Cpu,
}

const FLAMEGRAPH_HELP: &str = "\
Open the picture in a web browser; a click enlarges a part of it. Recordings have no call chains: the levels are \
program, library and function.

Example:
  pmctl record -a --duration 10; pmctl flamegraph -o machine.svg";

#[derive(Debug, Args)]
#[command(after_help = FLAMEGRAPH_HELP)]
pub(crate) struct Flamegraph {
    #[command(flatten)]
    pub(crate) input: Input,

    /// Write the picture to FILE; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "flamegraph.svg")]
    pub(crate) output: PathBuf,

    /// Draw this event [default: the first]
    #[arg(short, long, value_name = "EVENT")]
    pub(crate) event: Option<String>,
}
