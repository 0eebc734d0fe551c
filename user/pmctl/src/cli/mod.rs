// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line.

mod annotate;
mod call_graph;
mod diff;
mod export;
mod filter;
mod quick;
mod sampling;
mod top;
mod viewing;

use std::ffi::OsString;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::styling::Styles;
use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use annotate::{Annotate, Syntax};
pub(crate) use diff::Diff;
pub(crate) use export::{Export, Format};
pub(crate) use filter::Filter;
pub(crate) use quick::parse as parse_quickly;
pub(crate) use sampling::{DEFAULT_FILE, Frequency, Record, SwitchOutput};
pub(crate) use top::Top;
pub(crate) use viewing::{Field, Flamegraph, Key, Order, Report, Script};

use crate::exit::Usage;
use crate::machine::parse_cpus;

const AFTER_HELP: &str = "\
Begin with `pmctl doctor`, then `pmctl stat -- COMMAND`.

Exit codes of `stat` and `record`: the command's own; 128 + the signal that killed it; 126 or 127 if it can't be run; \
125 if pmctl could not count or a number can't be trusted. A mistake in the command line: 2.";

/// Count and sample what x86 CPUs do, through /dev/perfmon
#[derive(Debug, Parser)]
#[command(name = "pmctl", version, after_help = AFTER_HELP, styles = Styles::plain(), max_term_width = 80)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Parses the arguments of the program.
    pub(crate) fn parse_words(words: &[OsString]) -> Result<Self, clap::Error> {
        let cli = Self::try_parse_from(words)?;
        let changed = match &cli.command {
            Command::Record(record) => call_graph::with_mode(words, &record.command),
            _ => None,
        };
        changed.map_or(Ok(cli), Self::try_parse_from)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the CPU's counters, and the events that all CPUs may have
    Info(Look),
    /// List the events of this CPU, or of another model
    List(List),
    /// Check whether counting works here, and tell how to mend it
    Doctor(Look),
    /// Count events of a command, of processes, or of the whole system
    Stat(Stat),
    /// Sample a command or the whole system
    Record(Record),
    /// Show which programs and functions the samples are of
    Report(Report),
    /// Show live which programs and functions the samples are of
    Top(Top),
    /// Print the samples one by one
    Script(Script),
    /// Draw the samples as a flame graph
    Flamegraph(Flamegraph),
    /// Show instructions and source lines of a function, with their samples
    Annotate(Annotate),
    /// Compare two or three recordings, function by function
    Diff(Diff),
    /// Write a recording for another viewer: Firefox Profiler, pprof, Perfetto, speedscope, ...
    Export(Export),
    /// Run perf, or another program of its system call, on the driver's counters
    Wrap(Wrap),
    /// Show an event's encoding
    Encode(Encode),
    /// Show what the counters' registers hold (root only)
    Regs(Regs),
}

const LIST_HELP: &str = "\
GLOB is a part of the name, or a pattern with * and ?; upper and lower case are the same.

Names of a model are perf's: skylake, alderlake-core, amdzen4 or zen4. `pmctl list --model help` shows all.

Examples:
  pmctl list                     what this CPU counts
  pmctl list 'l2_*miss*'         names that match
  pmctl list --all offcore       also what the driver can't count, with the reason
  pmctl list --model zen4 ls_    events of another CPU
  pmctl list metrics 'tma_*'     metrics for `pmctl stat -M`
  pmctl list metricgroups        groups of them";

#[derive(Debug, Args)]
#[command(after_help = LIST_HELP, override_usage = "pmctl list [OPTIONS] [events|metrics|metricgroups] [GLOB]")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub(crate) struct List {
    /// List events and metrics with this in their names; `events`, `metrics` or `metricgroups` in front lists these only
    #[arg(value_name = "GLOB", num_args = 0..=2)]
    pub(crate) words: Vec<String>,

    /// List the events of this CPU model
    #[arg(short, long, value_name = "MODEL", conflicts_with = "replay")]
    pub(crate) model: Option<String>,

    /// List also events that the driver can't count, and outdated names
    #[arg(short, long)]
    pub(crate) all: bool,

    /// Show descriptions, too, of /usr/share/perfmon/events/MODEL/*.json
    #[arg(short, long, conflicts_with = "raw")]
    pub(crate) desc: bool,

    /// Print JSON: an array with an object for each event
    #[arg(short, long, conflicts_with = "raw")]
    pub(crate) json: bool,

    /// Print names only, one on a line
    #[arg(long, alias = "raw-dump")]
    pub(crate) raw: bool,

    #[command(flatten)]
    pub(crate) look: Look,
}

#[derive(Debug, Args)]
pub(crate) struct Encode {
    /// Events, as for `pmctl stat -e`
    pub(crate) events: String,

    /// Show them for this CPU model, as of `pmctl list --model`
    #[arg(short, long, value_name = "MODEL", conflicts_with = "replay")]
    pub(crate) model: Option<String>,

    #[command(flatten)]
    pub(crate) look: Look,
}

const WRAP_HELP: &str = "\
The program and its children get events of the driver's from perf_event_open(2): hardware, cache and raw events that \
count or sample. Each has a counter of its own all the time. The rest is the kernel's, as without `pmctl wrap`: software events, \
tracepoints, events of a task that has changed its user, its groups or its capabilities, and without CAP_PERFMON events of processes that are neither \
the caller nor its descendants.

An event without a free counter fails with EBUSY, beside other events with ENOENT, in a group with EINVAL: `perf stat` \
writes <not supported> and counts the others. Samples come without records of what programs map: `perf report` has names for what ran before `perf record`, and \
addresses for what is executed later; `pmctl record` has names for all. Setuid programs run without their rights. A call fails with ENOSYS once PROGRAM has ended.

Examples:
  pmctl wrap -- perf stat -e instructions:u,cycles:u -- ls
  pmctl wrap -v -- ./program";

#[derive(Debug, Args)]
#[command(after_help = WRAP_HELP)]
pub(crate) struct Wrap {
    /// Show each call that opens an event, and its answer
    #[arg(short, long)]
    pub(crate) verbose: bool,

    /// Program to run, with its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM")]
    pub(crate) command: Vec<OsString>,
}

const REGS_HELP: &str = "\
The registers are read through /dev/cpu/*/msr, which the kernel's module msr makes: `modprobe msr`.";

#[derive(Debug, Args)]
#[command(after_help = REGS_HELP)]
pub(crate) struct Regs {
    /// Show the registers of this CPU only
    #[arg(long, value_name = "CPU")]
    pub(crate) cpu: Option<usize>,
}

/// Options of the commands that look at a machine.
#[derive(Debug, Args)]
pub(crate) struct Look {
    /// Look at another machine: FOLDER has copies of its proc/, sys/ and dev/, and the output of `cpuid -1 -r` as the
    /// file cpuid
    #[arg(long, value_name = "FOLDER")]
    pub(crate) replay: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = EVENTS_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub(crate) struct Stat {
    /// Count these events, separated by commas; may be repeated
    #[arg(short = 'e', long = "event", value_name = "EVENTS")]
    pub(crate) events: Vec<String>,

    /// Count what these metrics need, and show them: names, or groups, separated by commas; may be repeated
    #[arg(short = 'M', long, value_name = "METRICS", value_delimiter = ',')]
    pub(crate) metrics: Vec<String>,

    /// Show the metrics of -M without the counts
    #[arg(long)]
    pub(crate) metric_only: bool,

    /// Count the top-down method's first level: `-M TopdownL1`, or `-M PipelineL1` of AMD's
    #[arg(long)]
    pub(crate) topdown: bool,

    /// Count this level of --topdown
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=6), requires = "topdown")]
    pub(crate) td_level: u8,

    /// Count nothing: show the times
    #[arg(short, long, conflicts_with_all = ["events", "metrics", "topdown", "detailed", "explain"])]
    pub(crate) null: bool,

    /// Count user mode only, of events without a modifier
    #[arg(long, conflicts_with = "all_kernel")]
    pub(crate) all_user: bool,

    /// Count the kernel only, of events without a modifier
    #[arg(long)]
    pub(crate) all_kernel: bool,

    /// Count these processes, separated by commas; without a command until they end
    #[arg(short, long, value_name = "PID", value_delimiter = ',', value_parser = pid, conflicts_with_all = ["all_cpus", "cpu", "tid"])]
    pub(crate) pid: Vec<u32>,

    /// Count these threads, separated by commas; without a command until they end
    #[arg(short, long, value_name = "TID", value_delimiter = ',', value_parser = tid, conflicts_with_all = ["all_cpus", "cpu"])]
    pub(crate) tid: Vec<u32>,

    /// Count the whole system; without a command until Ctrl-C
    #[arg(short, long)]
    pub(crate) all_cpus: bool,

    /// Count all that runs on these CPUs, as 0-2,5; without a command until Ctrl-C
    #[arg(short = 'C', long, value_name = "CPUS", value_parser = Cpus::parse)]
    pub(crate) cpu: Option<Cpus>,

    /// Don't count what the command or the tasks create
    #[arg(short = 'i', long, conflicts_with_all = ["all_cpus", "cpu"])]
    pub(crate) no_inherit: bool,

    /// Show each CPU of -a or -C
    #[arg(short = 'A', long, conflicts_with_all = ["per_core", "per_socket"])]
    pub(crate) no_aggr: bool,

    /// Show each core of -a or -C
    #[arg(long, conflicts_with = "per_socket")]
    pub(crate) per_core: bool,

    /// Show each socket of -a or -C
    #[arg(long)]
    pub(crate) per_socket: bool,

    /// Show each thread of -p or -t
    #[arg(long)]
    pub(crate) per_thread: bool,

    /// Start to count MS milliseconds after the start
    #[arg(short = 'D', long, value_name = "MS", value_parser = delay, allow_negative_numbers = true)]
    pub(crate) delay: Option<Duration>,

    /// End after MS milliseconds; a command gets SIGTERM
    #[arg(long, value_name = "MS", value_parser = interval)]
    pub(crate) timeout: Option<Duration>,

    /// Count the first and the last level of the data cache, too
    #[arg(short, long)]
    pub(crate) detailed: bool,

    /// Run the command N times, or more if the counters are too few for all of -M; show the mean and its standard error;
    /// 0: until Ctrl-C, and show each run
    #[arg(short, long, value_name = "N")]
    pub(crate) repeat: Option<u32>,

    /// Write what is in memory to the disks before each run, as sync(1)
    #[arg(short = 'S', long)]
    pub(crate) sync: bool,

    /// Print the counts every MS milliseconds
    #[arg(short = 'I', long, alias = "interval-print", value_name = "MS", value_parser = interval, conflicts_with = "repeat")]
    pub(crate) interval: Option<Duration>,

    /// End after N intervals of -I; a command gets SIGTERM
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), requires = "interval")]
    pub(crate) interval_count: Option<u32>,

    /// Clear the screen before each interval of -I
    #[arg(long, requires = "interval", conflicts_with_all = ["output", "json", "field_separator"])]
    pub(crate) interval_clear: bool,

    /// With -I and -x or --json, print the totals, too
    #[arg(long, requires = "interval")]
    pub(crate) summary: bool,

    /// Print a line for each event, with perf's fields separated by SEP
    #[arg(short = 'x', long, value_name = "SEP", value_parser = separator, conflicts_with = "json")]
    pub(crate) field_separator: Option<u8>,

    /// Print JSON: `perf`, an object for each event with perf's keys, or `v1`, one object with all numbers
    #[arg(short, long, alias = "json-output", value_name = "KIND", hide_possible_values = true, num_args = 0..=1, require_equals = true, default_missing_value = "perf")]
    pub(crate) json: Option<Json>,

    /// Write the counts to FILE instead of standard error; - is standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Write the counts also to FILE, for --report: the object of --json=v1
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,

    /// Show the counts of FILE, of --record or --json=v1, in any form
    #[arg(long, value_name = "FILE", conflicts_with_all = ["record", "events", "metrics", "topdown", "null", "detailed", "pid", "tid", "all_cpus", "cpu", "repeat", "interval", "delay", "timeout", "command"])]
    pub(crate) report: Option<PathBuf>,

    /// Add to the end of FILE of -o
    #[arg(long, requires = "output")]
    pub(crate) append: bool,

    /// Write the counts to this descriptor
    #[arg(long, value_name = "FD", conflicts_with = "output")]
    pub(crate) log_fd: Option<u32>,

    /// Show no events whose count is 0
    #[arg(long)]
    pub(crate) hide_zero_events: bool,

    /// Show numbers without commas
    #[arg(long)]
    pub(crate) no_big_num: bool,

    /// What perf's users may write, and what is always so
    #[arg(short = 'B', long, aliases = ["scale", "no-scale"], hide = true)]
    pub(crate) big_num: bool,

    /// Print no counts
    #[arg(short, long, conflicts_with_all = ["json", "field_separator", "output"])]
    pub(crate) quiet: bool,

    /// With -a or -C, show what is written to each counter, and what the driver and the registers hold
    #[arg(long)]
    pub(crate) explain: bool,

    /// Command to run, with its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// The numbers of some CPUs, each once and in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cpus(Vec<u32>);

impl Cpus {
    /// The CPUs of these numbers.
    pub(crate) fn new(mut numbers: Vec<u32>) -> Self {
        numbers.sort_unstable();
        numbers.dedup();
        Self(numbers)
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let known = parse_cpus(text).ok_or("it takes numbers of CPUs, as 0-2,5")?;
        let numbers = known.into_iter().map(u32::try_from);
        let numbers: Vec<u32> = numbers
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())?;
        Ok(Self::new(numbers))
    }

    /// Returns how many CPUs there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// Fails unless all of them are online.
    pub(crate) fn require_online(&self, online: &[usize]) -> Result<(), Usage> {
        match self.iter().find(|cpu| !online.contains(&(*cpu as usize))) {
            None => Ok(()),
            Some(cpu) => Err(Usage(format!(
                "-C: CPU {cpu} is not online; /sys/devices/system/cpu/online lists those that are."
            ))),
        }
    }

    /// Returns the numbers that follow each other as ranges.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        self.0
            .chunk_by(|first, second| first + 1 == *second)
            .map(|chunk| {
                let end = chunk[chunk.len() - 1] + 1;
                chunk[0]..end
            })
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges: Vec<String> = self
            .ranges()
            .map(|range| match range.len() {
                1 => range.start.to_string(),
                _ => format!("{}-{}", range.start, range.end - 1),
            })
            .collect();
        f.write_str(&ranges.join(","))
    }
}

/// A kind of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Json {
    Perf,
    V1,
}

const EVENTS_HELP: &str = "\
Events:
  instructions, cycles, ...    a name; `pmctl list` shows those of this CPU
  L1-dcache-load-misses, ...   of a cache, as far as the CPU's table goes
  INST_RETIRED.ANY, ...        the vendor's name, as the CPU's model has it
  r1c0                         raw: unit mask 0x01, event 0xc0
  cpu/event=0xc0,umask=0x01/   the same by fields; also cmask=, inv, edge, name=
  fixed0                       a fixed-function counter
  {a,b}                        a group: counted together, read at one moment
With a modifier: :u counts user mode only, :k the kernel only; with -a, :PMC0 or
:FIXED0 count on this counter.

Examples:
  pmctl stat -- make                         instructions, cycles, branches, ...
  pmctl stat -e cycles:u,instructions:u ls   events of your choice
  pmctl stat -p 1234                         a process that is running already
  pmctl stat -a -I 1000                      the whole system, each second";

fn interval(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(ms) if ms > 0 => Ok(Duration::from_millis(ms)),
        _ => Err("it takes a number of milliseconds, 1 or more".to_owned()),
    }
}

fn delay(text: &str) -> Result<Duration, String> {
    match text.parse::<i64>() {
        Ok(-1) => Err(
            "to start without counting needs perf's --control; give a number of milliseconds"
                .to_owned(),
        ),
        Ok(ms) if ms >= 0 => Ok(Duration::from_millis(ms.unsigned_abs())),
        _ => Err("it takes a number of milliseconds".to_owned()),
    }
}

fn pid(text: &str) -> Result<u32, String> {
    number_of("processes", "`pgrep NAME` finds that of a program", text)
}

fn tid(text: &str) -> Result<u32, String> {
    number_of("threads", "`ps -eL` lists them as LWP", text)
}

fn number_of(what: &str, advice: &str, text: &str) -> Result<u32, String> {
    let advice = || format!("it takes numbers of {what}, separated by commas; {advice}");
    text.parse().map_err(|_| advice())
}

fn separator(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        br"\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && *byte != b'"' && !byte.is_ascii_alphanumeric() => Ok(*byte),
        _ => Err(r"it takes one character, as `,` or `;` or `\t`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_after_the_command_are_the_commands() {
        let cli = Cli::try_parse_from(["pmctl", "stat", "-a", "ls", "-a", "--json"])
            .expect("it is well formed");
        let Command::Stat(stat) = cli.command else {
            panic!("it is stat")
        };
        assert_eq!(stat.command, ["ls", "-a", "--json"]);
        assert_eq!(stat.json, None);
    }

    #[test]
    fn a_value_may_follow_its_option_at_once() {
        let cli = Cli::try_parse_from(["pmctl", "stat", "-x,", "-I100", "-ecycles", "--", "true"])
            .expect("it is well formed");
        let Command::Stat(stat) = cli.command else {
            panic!("it is stat")
        };
        assert_eq!(stat.field_separator, Some(b','));
        assert_eq!(stat.interval, Some(Duration::from_millis(100)));
        assert_eq!(stat.command, ["true"]);
    }

    #[test]
    fn cpus_are_in_order_and_together() {
        let cpus = Cpus::parse("5,0-2,1,7").expect("it is well formed");
        assert_eq!(cpus.to_string(), "0-2,5,7");
        assert_eq!(cpus.len(), 5);
        assert_eq!(cpus.ranges().collect::<Vec<_>>(), [0..3, 5..6, 7..8]);
        for bad in ["", "a", "1-", "2-1", "4294967296"] {
            assert!(Cpus::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn separators_are_single_characters() {
        assert_eq!(separator(","), Ok(b','));
        assert_eq!(separator(r"\t"), Ok(b'\t'));
        for bad in ["", ",,", "\"", "a", "0", "é"] {
            assert!(separator(bad).is_err(), "{bad}");
        }
    }
}
