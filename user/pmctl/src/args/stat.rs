// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `pmctl stat`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::events::cpus::Cpus;

const EVENTS_HELP: &str = "\
Events:
  instructions, cycles, ...    a name; `pmctl list` shows those of this CPU
  L1-dcache-load-misses, ...   of a cache, as far as the CPU's table goes
  INST_RETIRED.ANY, ...        the vendor's name, as the CPU's model has it
  r1c0                         raw: unit mask 0x01, event 0xc0
  cpu/event=0xc0,umask=0x01/   the same by fields; also cmask=, inv, edge, name=
  cpu_atom/cycles/             on one kind of core of a hybrid processor only
  fixed0                       a fixed-function counter
  {a,b}                        a group: counted together, read at one moment
With a modifier: :u counts user mode only, :k the kernel only; with -a, :PMC0 or
:FIXED0 count on this counter.

Examples:
  pmctl stat -- make                         instructions, cycles, branches, ...
  pmctl stat -e cycles:u,instructions:u ls   events of your choice
  pmctl stat -p 1234                         a process that is running already
  pmctl stat -a -I 1000                      the whole system, each second
  pmctl stat --for-each-cgroup 'system.slice/*' sleep 10
                                             each service";

// Each option except --td-level must have the default value of its type as its default, since
// module `quick` begins with these values.
#[derive(Debug, Default, Args)]
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

    /// Count events without a modifier in user mode only
    #[arg(long, conflicts_with = "all_kernel")]
    pub(crate) all_user: bool,

    /// Count events without a modifier in the kernel only
    #[arg(long)]
    pub(crate) all_kernel: bool,

    /// Count these processes, separated by commas. Without a command, stop when they have ended
    #[arg(short, long, value_name = "PID", value_delimiter = ',', value_parser = parse_pid, conflicts_with_all = ["all_cpus", "cpu", "tid"])]
    pub(crate) pid: Vec<u32>,

    /// Count these threads, separated by commas. Without a command, stop when they have ended
    #[arg(short, long, value_name = "TID", value_delimiter = ',', value_parser = parse_tid, conflicts_with_all = ["all_cpus", "cpu"])]
    pub(crate) tid: Vec<u32>,

    /// Count the whole system. Without a command, stop at Ctrl-C
    #[arg(short, long)]
    pub(crate) all_cpus: bool,

    /// Count all that runs on these CPUs, as 0-2,5. Without a command, stop at Ctrl-C
    #[arg(short = 'C', long, value_name = "CPUS", value_parser = Cpus::parse)]
    pub(crate) cpu: Option<Cpus>,

    /// Count only in these cgroups, separated by commas: one for each event of -e, in the same order, or one
    /// for all events
    #[arg(short = 'G', long, value_name = "CGROUPS", conflicts_with_all = ["pid", "tid", "no_inherit", "no_aggr", "per_core", "per_socket", "per_thread", "explain", "null"])]
    pub(crate) cgroup: Vec<String>,

    /// Count each event in each of these cgroups, separated by commas; `*` stands for any text and `?` for one byte, both within
    /// a level of a name, `**` for any number of levels
    #[arg(long, value_name = "CGROUPS", conflicts_with_all = ["cgroup", "pid", "tid", "no_inherit", "no_aggr", "per_core", "per_socket", "per_thread", "explain", "null"])]
    pub(crate) for_each_cgroup: Vec<String>,

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
    #[arg(short = 'D', long, value_name = "MS", value_parser = parse_delay, allow_negative_numbers = true)]
    pub(crate) delay: Option<Duration>,

    /// End after MS milliseconds; a command gets SIGTERM
    #[arg(long, value_name = "MS", value_parser = parse_interval)]
    pub(crate) timeout: Option<Duration>,

    /// Count the first and the last level of the data cache, too
    #[arg(short, long)]
    pub(crate) detailed: bool,

    /// Run the command N times, and show the mean and its standard error. If there are too few counters, run it more often,
    /// so that each event is counted N times. With 0, run until Ctrl-C, and show each run
    #[arg(short, long, value_name = "N", value_parser = parse_repeat, allow_negative_numbers = true)]
    pub(crate) repeat: Option<u32>,

    /// If the counters are too few, let the events take turns, and estimate their counts; each is followed by the share of
    /// the time in which it was counted
    #[arg(long)]
    pub(crate) multiplex: bool,

    /// Write what is in memory to the disks before each run, as sync(1)
    #[arg(short = 'S', long)]
    pub(crate) sync: bool,

    /// Print the counts every MS milliseconds
    #[arg(short = 'I', long, alias = "interval-print", value_name = "MS", value_parser = parse_interval, conflicts_with = "repeat")]
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
    #[arg(short = 'x', long, value_name = "SEP", value_parser = parse_separator, conflicts_with = "json")]
    pub(crate) field_separator: Option<u8>,

    /// Print JSON: an object for each event with perf's keys; `--json=v1`: one object with all numbers
    #[arg(short, long, alias = "json-output", value_name = "KIND", hide_possible_values = true, num_args = 0..=1, require_equals = true, default_missing_value = "perf")]
    pub(crate) json: Option<Json>,

    /// Write the counts to FILE instead of standard error; - is standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Write the counts also to FILE, for --report: the object of --json=v1
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,

    /// Show the counts of FILE, of --record or --json=v1, in any form
    #[arg(long, value_name = "FILE", conflicts_with_all = ["record", "events", "metrics", "topdown", "td_level", "null", "all_user", "all_kernel", "detailed", "multiplex", "pid", "tid", "cgroup", "for_each_cgroup", "all_cpus", "cpu", "no_inherit", "no_aggr", "per_core", "per_socket", "per_thread", "repeat", "sync", "interval", "interval_count", "delay", "timeout", "explain", "command"])]
    pub(crate) report: Option<PathBuf>,

    /// Append to the FILE of -o instead of replacing it
    #[arg(long, requires = "output")]
    pub(crate) append: bool,

    /// Write the counts to this descriptor, after what is there
    #[arg(long, value_name = "FD", conflicts_with = "output")]
    pub(crate) log_fd: Option<u32>,

    /// Hide events whose count is 0
    #[arg(long)]
    pub(crate) hide_zero_events: bool,

    /// Show numbers without commas
    #[arg(long)]
    pub(crate) no_big_num: bool,

    /// Accepted from users of perf, without effect
    #[arg(short = 'B', long, aliases = ["scale", "no-scale"], hide = true)]
    pub(crate) big_num: bool,

    /// Don't print counts
    #[arg(short, long, conflicts_with_all = ["json", "field_separator", "output"])]
    pub(crate) quiet: bool,

    /// With -a or -C, show what is written to each counter, and what the driver and the registers hold
    #[arg(long)]
    pub(crate) explain: bool,

    /// Command to run, with its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// A kind of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Json {
    Perf,
    V1,
}

impl Stat {
    /// Returns whether events are counted in cgroups.
    pub(crate) fn has_cgroups(&self) -> bool {
        !self.cgroup.is_empty() || !self.for_each_cgroup.is_empty()
    }

    /// Returns whether all programs on some CPUs are counted, and not only tasks or cgroups.
    pub(crate) fn has_cpus(&self) -> bool {
        (self.all_cpus || self.cpu.is_some()) && !self.has_cgroups()
    }

    /// Returns whether events are counted for tasks: a command, processes or threads.
    pub(crate) fn has_tasks(&self) -> bool {
        !self.has_cpus() && !self.has_cgroups()
    }

    /// Returns the option that chooses the metrics, as the user has typed it.
    pub(crate) fn metrics_option(&self) -> &'static str {
        if self.topdown && self.metrics.is_empty() {
            "--topdown"
        } else {
            "-M"
        }
    }

    /// Returns an option that splits counts by place, or by run if each count takes several runs; `None` without one.
    pub(crate) fn splitting_option(&self, runs_per_count: usize) -> Option<&'static str> {
        let options = [
            (self.no_aggr, "-A"),
            (self.per_core, "--per-core"),
            (self.per_socket, "--per-socket"),
            (self.per_thread, "--per-thread"),
            (runs_per_count > 1, self.metrics_option()),
        ];
        let given = options.iter().find(|(is_given, _)| *is_given)?;
        Some(given.1)
    }

    /// Returns the delay of -D, if it is not 0.
    pub(crate) fn delay(&self) -> Option<Duration> {
        self.delay.filter(|delay| !delay.is_zero())
    }
}

/// Parses a number of milliseconds above 0. The error is a message for the user.
pub(super) fn parse_interval(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(ms) if ms > 0 => Ok(Duration::from_millis(ms)),
        _ => Err("it takes a number of milliseconds, 1 or more".to_owned()),
    }
}

fn parse_delay(text: &str) -> Result<Duration, String> {
    match text.parse::<i64>() {
        Ok(-1) => Err(
            "to start without counting needs perf's --control; give a number of milliseconds"
                .to_owned(),
        ),
        Ok(ms) if ms >= 0 => Ok(Duration::from_millis(ms.unsigned_abs())),
        _ => Err("it takes a number of milliseconds".to_owned()),
    }
}

fn parse_repeat(text: &str) -> Result<u32, String> {
    let number = text.parse();
    number.map_err(|_| "it takes a number of runs, or 0 for runs until Ctrl-C".to_owned())
}

pub(super) fn parse_pid(text: &str) -> Result<u32, String> {
    parse_task_number("processes", "`pgrep NAME` finds that of a program", text)
}

pub(super) fn parse_tid(text: &str) -> Result<u32, String> {
    parse_task_number("threads", "`ps -eL` lists them as LWP", text)
}

/// Parses the number of a process or thread. The error is a message for the user, with this advice.
fn parse_task_number(what: &str, advice: &str, text: &str) -> Result<u32, String> {
    let advice = || format!("it takes numbers of {what}, separated by commas; {advice}");
    text.parse().map_err(|_| advice())
}

fn parse_separator(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        br"\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && *byte != b'"' && !byte.is_ascii_alphanumeric() => Ok(*byte),
        _ => Err(r"it takes one character, such as `,` or `;` or `\t`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

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
    fn separators_are_single_characters() {
        assert_eq!(parse_separator(","), Ok(b','));
        assert_eq!(parse_separator(r"\t"), Ok(b'\t'));
        for bad in ["", ",,", "\"", "a", "0", "é"] {
            assert!(parse_separator(bad).is_err(), "{bad}");
        }
    }
}
