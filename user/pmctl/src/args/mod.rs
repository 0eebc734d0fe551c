// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line.

mod annotate;
mod bench;
mod call_graph;
mod diff;
mod export;
mod filter;
pub(crate) mod hints;
mod quick;
mod recorder;
mod sampling;
mod serve;
mod sort_keys;
mod stat;
mod top;
mod typed;
pub(crate) mod usage;
mod viewing;
mod vm;
mod words;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::styling::Styles;
use clap::{Args, Parser, Subcommand};

pub(crate) use annotate::{Annotate, Syntax};
pub(crate) use bench::{Bench, BenchFormat};
pub(crate) use call_graph::{CallGraph, Callers, KernelCallers};
pub(crate) use diff::Diff;
pub(crate) use export::{Export, Format};
pub(crate) use filter::Choice;
pub(crate) use quick::parse as parse_quickly;
pub(crate) use recorder::{
    CommonOptions, DefaultSamples, EventOptions, Rate, RecordTarget, Recorder, TraceEvents,
    TraceOptions,
};
pub(crate) use sampling::{DEFAULT_FILE, DEFAULT_PERIOD, Frequency, Record, SwitchOutput};
pub(crate) use serve::Serve;
pub(crate) use sort_keys::{Key, KeyNeed, SortWord};
pub(crate) use stat::{Json, Stat};
pub(crate) use top::Top;
pub(crate) use viewing::{Field, Flamegraph, Graph, Order, Report, Script};
pub(crate) use vm::{Vm, VmCpu};

const AFTER_HELP: &str = "\
Begin with `pmctl doctor`, then `pmctl stat -- COMMAND`.

Exit codes of `stat` and `record`: the command's own; 128 + the signal that killed it; 126 or 127 if it can't be run; \
125 if pmctl could not count, a number can't be trusted or a sample was lost. A mistake in the command line: 2.";

/// Count and sample what x86 CPUs do, through /dev/perfmon
#[derive(Debug, Parser)]
#[command(name = "pmctl", version, after_help = AFTER_HELP, styles = Styles::plain(), max_term_width = 80)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Parses the arguments of the program, the first of which is the program's name.
    pub(crate) fn parse_words(words: &[OsString]) -> Result<Self, clap::Error> {
        let cli = Self::try_parse_from(words)?;
        let changed_words = match &cli.command {
            Command::Record(record) => call_graph::with_mode_as_option(words, &record.command),
            _ => None,
        };
        changed_words.map_or(Ok(cli), Self::try_parse_from)
    }
}

impl Vm {
    /// Returns the command of pmctl that runs in the virtual machine; `None` with --run.
    ///
    /// # Errors
    /// `clap`'s error if the arguments of that command are wrong.
    pub(crate) fn command(&self) -> Result<Option<Command>, clap::Error> {
        if self.run {
            return Ok(None);
        }
        let words = std::iter::once(OsString::from("pmctl")).chain(self.words.iter().cloned());
        let words: Vec<OsString> = words.collect();
        Cli::parse_words(&words).map(|cli| Some(cli.command))
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the CPU's counters, and the events that all CPUs may have
    Info(ReplayOption),
    /// List the events of this CPU, or of another model
    List(List),
    /// Check whether counting works here, and tell how to mend it
    Doctor(ReplayOption),
    /// Count events of a command, of processes, or of the whole system
    Stat(Stat),
    /// Compare commands by any counter, over several runs
    Bench(Bench),
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
    /// Serve counters for Prometheus, and profiles, over HTTP
    Serve(Serve),
    /// Run perf, or another program that opens perf events, on the driver's counters
    Wrap(Wrap),
    /// Run stat, record, bench or wrap in a virtual machine with a PMU, on this machine's files
    Vm(Vm),
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
  pmctl list --all offcore       also what can't be counted, and why
  pmctl list --model zen4 ls_    events of another CPU
  pmctl list metrics 'tma_*'     metrics for `pmctl stat -M`
  pmctl list metricgroups        groups of them
  pmctl list pmus                events of Linux's other PMUs: memory, power";

#[derive(Debug, Args)]
#[command(after_help = LIST_HELP, override_usage = "pmctl list [OPTIONS] [events|metrics|metricgroups|pmus] [GLOB]")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub(crate) struct List {
    /// List events and metrics with this in their names; `events`, `metrics`, `metricgroups` or `pmus` in front lists these only
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

    /// Print JSON: an array with an object for each event and metric, or with the names of metric groups
    #[arg(short, long, conflicts_with = "raw")]
    pub(crate) json: bool,

    /// Print names only, one on a line
    #[arg(long, alias = "raw-dump")]
    pub(crate) raw: bool,

    #[command(flatten)]
    pub(crate) machine: ReplayOption,
}

#[derive(Debug, Args)]
pub(crate) struct Encode {
    /// Events, as for `pmctl stat -e`
    #[arg(required = true)]
    pub(crate) events: Vec<String>,

    /// Show them for this CPU model, as of `pmctl list --model`
    #[arg(short, long, value_name = "MODEL", conflicts_with = "replay")]
    pub(crate) model: Option<String>,

    #[command(flatten)]
    pub(crate) machine: ReplayOption,
}

const WRAP_HELP: &str = "\
When the program or one of its children calls perf_event_open(2), this driver counts and samples the hardware, cache \
and raw events. If counters are too few, events that count take turns, as with perf, unless --exact is given. The kernel \
handles the rest, as without `pmctl wrap`: software events, tracepoints, events of a task that has changed its user, its groups or its capabilities, and without CAP_PERFMON events of processes that are neither \
the caller nor its descendants.

An event without a free counter fails with EBUSY, beside other events with ENOENT, in a group with EINVAL: `perf stat` \
writes <not supported> and counts the others. Setuid programs run without their rights. Once PROGRAM has ended, perf_event_open(2) fails with ENOSYS, as do the calls that \
link BPF programs, and those that start or stop all events of a thread.

Examples:
  pmctl wrap -- perf stat -e instructions:u,cycles:u -- ls
  pmctl wrap -v -- ./program";

#[derive(Debug, Args)]
#[command(after_help = WRAP_HELP)]
pub(crate) struct Wrap {
    /// Refuse events for which no counter is free, instead of letting events take turns
    #[arg(long)]
    pub(crate) exact: bool,

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
    #[arg(long, value_name = "CPU", value_parser = parse_cpu)]
    pub(crate) cpu: Option<usize>,
}

fn parse_cpu(text: &str) -> Result<usize, String> {
    let number = text.parse();
    number.map_err(|_| "it takes the number of one CPU, from 0 on".to_owned())
}

/// Options of the commands that look at a machine.
#[derive(Debug, Args)]
pub(crate) struct ReplayOption {
    /// Look at another machine: FOLDER has copies of its proc/, sys/ and dev/, and the output of `cpuid -1 -r` as the
    /// file cpuid
    #[arg(long, value_name = "FOLDER")]
    pub(crate) replay: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_passes_claps_checks() {
        Cli::command().debug_assert();
    }

    #[test]
    fn only_the_options_that_choose_samples_are_under_their_heading() {
        let choice = Choice::augment_args(clap::Command::new("choice"));
        let ids: Vec<_> = choice.get_arguments().map(clap::Arg::get_id).collect();
        for command in Cli::command().get_subcommands() {
            for argument in command.get_arguments() {
                let is_under_heading = argument.get_help_heading() == Some("Choice of samples");
                let id = argument.get_id();
                assert!(
                    !is_under_heading || ids.contains(&id),
                    "{} {id}",
                    command.get_name()
                );
            }
        }
    }

    #[test]
    fn each_example_is_a_line_of_80_columns() {
        const COLUMNS: usize = 80;
        for command in Cli::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string);
            let help = help.unwrap_or_default();
            let mut examples = help.lines().filter(|line| line.starts_with("  "));
            let too_long = examples.find(|line| line.chars().count() > COLUMNS);
            assert_eq!(too_long, None, "{}", command.get_name());
        }
    }
}
