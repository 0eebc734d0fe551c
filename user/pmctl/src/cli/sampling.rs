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
A sample is taken each time that an event has happened -c times. It tells which program was running, and where; with -g \
also who called it. Events are written as for `pmctl stat`. Samples go to the file as they come: a recording that was killed \
can be read up to that moment.

Everybody may sample their own programs; without CAP_PERFMON in user mode only, unless kernel.perf_event_paranoid is below 2. \
-a and -C, and -b, --timebase and --rotate, sample all programs: for root, or with CAP_PERFMON.

The default period is a prime number, so that few loops are in step with it. To make sure, compare with another period.

Examples:
  pmctl record -- make                       where `make` spends its cycles
  pmctl record -c 10007 -- ls                more samples, of a short command
  pmctl record -g -F 999 -- make             call chains, 999 in a second
  pmctl record -a --duration 10              the whole system
  pmctl record -p 1234                       a process that is running already
  pmctl record -e branches:u -- ls           another event
  pmctl record -e cycles -e cpu/branch-misses,period=1009/ -- ls
                                             each with a period of its own
  pmctl record -b -- gzip file               with the last branches
  pmctl record --timebase cycles --count branches,instructions -- ls
                                             count others from sample to sample

See the recording with `pmctl report`, `script` or `flamegraph`. It is a perf.data file, which `perf report` and other \
tools read, too.

Exit codes are those of `pmctl stat`; 125 also if samples were lost.";

#[derive(Debug, Args)]
#[command(after_help = RECORD_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub(crate) struct Record {
    /// Sample by these events, separated by commas; may be repeated [default: cycles]
    #[arg(short = 'e', long = "event", value_name = "EVENTS")]
    pub(crate) events: Vec<String>,

    /// Take a sample each time that an event has happened N times
    #[arg(short = 'c', long, value_name = "N", default_value_t = 1_000_003, value_parser = period)]
    pub(crate) period: u32,

    /// Take about HZ samples a second, and not one each N events
    #[arg(short = 'F', long = "freq", value_name = "HZ", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) frequency: Option<u32>,

    /// Record call chains, by frame pointers
    #[arg(short = 'g')]
    pub(crate) chains: bool,

    /// The same as -g, as perf has it
    #[arg(long, value_name = "MODE", hide = true)]
    pub(crate) call_graph: Option<String>,

    /// Sample all programs; without a command until Ctrl-C
    #[arg(short, long)]
    pub(crate) all_cpus: bool,

    /// Sample all programs on these CPUs, as 0-2,5
    #[arg(short = 'C', long, value_name = "CPUS", value_parser = Cpus::parse)]
    pub(crate) cpu: Option<Cpus>,

    /// Sample these processes, separated by commas, and the children that they start, until they end or Ctrl-C
    #[arg(short, long, value_name = "PID", value_delimiter = ',', conflicts_with_all = ["all_cpus", "cpu"])]
    pub(crate) pid: Vec<u32>,

    /// Sample these threads, separated by commas, and what they start
    #[arg(short, long, value_name = "TID", value_delimiter = ',', conflicts_with_all = ["all_cpus", "cpu"])]
    pub(crate) tid: Vec<u32>,

    /// Record the last branches before each sample, by a trace of the whole machine
    #[arg(short, long)]
    pub(crate) branches: bool,

    /// Sample by this event only, and count those of --count, by a trace of the whole machine
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

    /// Size of each CPU's ring in pages of 4 KiB [default: 64, of a trace 1024, or fewer if the memory limit is lower]
    #[arg(short = 'm', long, value_name = "PAGES", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) pages: Option<u32>,

    /// Trace the whole machine, and change the buffers when one is nearly full: a moment is lost instead of the rest
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

impl Record {
    /// Returns whether only a trace can do it.
    pub(crate) const fn needs_trace(&self) -> bool {
        self.timebase.is_some() || self.branches || self.rotate
    }

    /// Returns whether call chains are asked for.
    pub(crate) const fn has_chains(&self) -> bool {
        self.chains || self.call_graph.is_some()
    }
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
  pmctl report -g callee           who called each function
  pmctl report --children -g       what each function calls, the largest first
  pmctl report --branches          branches, of `pmctl record -b`";

#[derive(Debug, Args)]
#[command(after_help = REPORT_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
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

    /// Show under each row who called it (callee), or how it was reached from outside (caller), of `pmctl record -g`
    #[arg(short = 'g', long = "call-graph", value_name = "ORDER", num_args = 0..=1, default_missing_value = "caller", hide_possible_values = true, conflicts_with = "branches")]
    pub(crate) graph: Option<Order>,

    /// Count a sample for each function of its call chain, and sort by that; with -g caller, show what a function calls
    #[arg(long, conflicts_with = "branches")]
    pub(crate) children: bool,

    /// Known from perf: only with --children they are counted
    #[arg(long, hide = true, conflicts_with = "children")]
    pub(crate) no_children: bool,

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

/// The order of the functions of a call chain in `pmctl report -g`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    /// From outside: who calls comes first.
    Caller,
    /// From inside: who is called comes first.
    Callee,
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
Open the picture in a web browser; a click enlarges a part of it. The levels are the functions of call chains \
(`pmctl record -g`); without call chains they are program, library and function.

Examples:
  pmctl record -g -- make; pmctl flamegraph -o make.svg
  pmctl flamegraph --folded | sort -k 2       the stacks as text, for other tools";

#[derive(Debug, Args)]
#[command(after_help = FLAMEGRAPH_HELP)]
pub(crate) struct Flamegraph {
    #[command(flatten)]
    pub(crate) input: Input,

    /// Write the picture to FILE; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "flamegraph.svg")]
    pub(crate) output: PathBuf,

    /// Print the stacks as text instead, each with its event count, for other tools
    #[arg(long)]
    pub(crate) folded: bool,

    /// Draw this event [default: the first]
    #[arg(short, long, value_name = "EVENT")]
    pub(crate) event: Option<String>,
}
