// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts the options of `record` to the options of one of the two recorders.
//!
//! Options that exclude each other are refused here, so that the recorders need not check them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use perfmon::Modes;

use super::call_graph::{CallGraph, CallGraphMode};
use super::sampling::{DEFAULT_PERIOD, Frequency, Record, SwitchOutput};
use crate::events::cpus::Cpus;
use crate::events::modes;
use crate::events::threads::TaskList;
use crate::recording::perfdata::BranchKinds;
use crate::system::child::Streams;
use crate::system::exit::Usage;

/// A recorder with its options.
#[derive(Debug)]
pub(crate) enum Recorder {
    /// Events of tasks or CPUs, with a ring for each CPU.
    Events(EventOptions),
    /// A trace of the whole machine.
    Trace(TraceOptions),
}

/// Options of both recorders.
#[derive(Debug)]
pub(crate) struct CommonOptions {
    pub(crate) target: RecordTarget,
    /// The command to run with its arguments; empty if there is none.
    pub(crate) command: Vec<OsString>,
    pub(crate) output: PathBuf,
    /// Size of each ring or buffer in pages.
    pub(crate) pages: Option<u32>,
    pub(crate) duration: Option<Duration>,
    pub(crate) quiet: bool,
}

/// The tasks or CPUs whose samples are recorded.
#[derive(Debug)]
pub(crate) enum RecordTarget {
    /// The command and the tasks that it starts.
    Command,
    /// Running processes and threads, and the tasks that they start.
    Tasks(TaskList),
    /// All programs on these CPUs.
    Cpus(Cpus),
    /// All programs.
    Machine,
}

/// Options of the recorder of events.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub(crate) struct EventOptions {
    pub(crate) common: CommonOptions,
    /// The events, as on the command line; empty for the default event.
    pub(crate) events: Vec<String>,
    pub(crate) rate: Rate,
    /// The samples that are taken if `events` is empty.
    pub(crate) default: DefaultSamples,
    /// Modes of the events without a modifier.
    pub(crate) modes: Modes,
    pub(crate) call_graph: Option<CallGraph>,
    /// The branches that samples record, besides those of [`CallGraph::LastBranches`].
    pub(crate) branches: Option<BranchKinds>,
    /// Samples have the address of their data and its source.
    pub(crate) data: bool,
    /// Samples have the latency of their memory access.
    pub(crate) weight: bool,
    /// The cgroups of -G: one for each event, in the order of the events, or one for all; empty without -G.
    pub(crate) cgroups: Vec<String>,
    /// Each sample records the cgroup of its task (`--all-cgroups`).
    pub(crate) all_cgroups: bool,
    /// Children of the sampled tasks are sampled, too.
    pub(crate) inherit: bool,
    pub(crate) delay: Option<Duration>,
    pub(crate) max_size: Option<u64>,
    /// The rings are overwritten, so that they keep the newest samples.
    pub(crate) overwrite: bool,
    pub(crate) switch_output: Option<SwitchOutput>,
    /// Number of files that `switch_output` keeps; `None` keeps all.
    pub(crate) max_files: Option<u32>,
}

/// The samples of a recording without events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DefaultSamples {
    /// Samples of cycles.
    Cycles,
    /// Samples of instructions. Cycles of an emulated machine say nothing about a processor.
    Instructions,
}

/// The sample rate of events without a rate of their own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rate {
    /// Neither -c nor -F: the period is [`DEFAULT_PERIOD`], or 1 for a software event that happens rarely.
    Default,
    Period(u32),
    Frequency(Frequency),
}

/// Options of the recorder of traces.
#[derive(Debug)]
pub(crate) struct TraceOptions {
    pub(crate) common: CommonOptions,
    pub(crate) events: TraceEvents,
    /// Period of events without a period of their own.
    pub(crate) period: u32,
    /// Samples include the last branches.
    pub(crate) branches: bool,
    /// The buffers are replaced when one is nearly full.
    pub(crate) rotate: bool,
}

/// The events of a trace, as on the command line.
#[derive(Debug)]
pub(crate) enum TraceEvents {
    /// Each event makes samples; empty for the default event.
    Sampled(Vec<String>),
    /// One event makes samples, and the others are counted at each sample.
    Timebase {
        timebase: String,
        count: Vec<String>,
    },
}

impl Recorder {
    /// Chooses the recorder.
    ///
    /// # Errors
    /// Some of the options exclude each other.
    pub(crate) fn new(args: &Record) -> Result<Self, Usage> {
        // Only the recorder of traces has these two options.
        if args.timebase.is_some() || args.rotate {
            TraceOptions::new(args).map(Self::Trace)
        } else {
            EventOptions::new(args).map(Self::Events)
        }
    }
}

impl CommonOptions {
    fn new(args: &Record) -> Result<Self, Usage> {
        Ok(Self {
            target: RecordTarget::new(args)?,
            command: args.command.clone(),
            output: args.output.clone(),
            pages: args.pages,
            duration: args.duration,
            quiet: args.quiet,
        })
    }

    /// Returns the streams of the command. If the recording goes to standard output, the command writes to standard error.
    pub(crate) fn streams(&self) -> Streams {
        if self.is_to_standard_output() {
            Streams::Error
        } else {
            Streams::Own
        }
    }

    /// Returns whether the recording is a stream to standard output.
    pub(crate) fn is_to_standard_output(&self) -> bool {
        self.output.as_os_str() == "-"
    }

    /// Returns the target in words: for a command, its command line.
    pub(crate) fn target_in_words(&self) -> String {
        let list = |what: &str, numbers: &[u32]| {
            let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
            format!("{what} {}", numbers.join(", "))
        };
        match &self.target {
            RecordTarget::Command => {
                let words = self.command.iter().map(|word| word.to_string_lossy());
                words.collect::<Vec<_>>().join(" ")
            }
            RecordTarget::Tasks(TaskList { pids, tids }) if tids.is_empty() => {
                list("process", pids)
            }
            RecordTarget::Tasks(TaskList { tids, .. }) => list("thread", tids),
            RecordTarget::Cpus(cpus) => format!("CPU {cpus}"),
            RecordTarget::Machine => "the machine".to_owned(),
        }
    }
}

impl RecordTarget {
    fn new(args: &Record) -> Result<Self, Usage> {
        if let Some(cpus) = &args.cpu {
            return Ok(Self::Cpus(cpus.clone()));
        }
        if args.all_cpus || !args.cgroup.is_empty() {
            return Ok(Self::Machine);
        }
        if !args.pid.is_empty() || !args.tid.is_empty() {
            return Ok(Self::Tasks(TaskList {
                pids: args.pid.clone(),
                tids: args.tid.clone(),
            }));
        }
        if args.command.is_empty() {
            return Err(Usage(
                "there is nothing to record.\n\
                 Give a command (`pmctl record -- make`), a process (-p PID) or a thread (-t TID), or record the whole system until Ctrl-C (-a)."
                    .to_owned(),
            ));
        }
        Ok(Self::Command)
    }

    /// Returns the first process of -p, if there is one.
    pub(crate) fn first_process(&self) -> Option<u32> {
        match self {
            Self::Tasks(tasks) => tasks.pids.first().copied(),
            Self::Command | Self::Cpus(_) | Self::Machine => None,
        }
    }
}

impl EventOptions {
    fn new(args: &Record) -> Result<Self, Usage> {
        refuse_callers_without_chains(args)?;
        let uses_branch_records = args.call_graph_mode() == Some(CallGraphMode::LastBranches);
        refuse(&[
            (
                args.overwrite && matches!(args.switch_output, Some(SwitchOutput::Size(_))),
                "--overwrite: each file has the content of the rings, so none grows to a size. Give a time or `signal` to \
                 --switch-output, and the size of the rings with -m.",
            ),
            (
                args.switch_output.is_some() && args.output.as_os_str() == "-",
                "--switch-output writes files, and not to standard output. Leave `-o -` out.",
            ),
            (
                uses_branch_records && (args.branches || args.branch_filter.is_some()),
                "-b, -j: the CPU records calls only for --call-graph=lbr, and no other branches. Leave out one of the \
                 two.",
            ),
            (
                uses_branch_records
                    && (args.all_cpus || args.cpu.is_some() || !args.cgroup.is_empty()),
                "--call-graph=lbr: the CPU records the calls of single tasks, and -a, -C and -G sample all tasks. Use \
                 --call-graph=dwarf, which copies stacks.",
            ),
        ])?;
        let any_branches = args.branches.then_some(BranchKinds::ANY);
        Ok(Self {
            rate: match args.frequency {
                Some(frequency) => Rate::Frequency(frequency),
                None => args.period.map_or(Rate::Default, Rate::Period),
            },
            default: if args.emulated {
                DefaultSamples::Instructions
            } else {
                DefaultSamples::Cycles
            },
            modes: modes::from_options(args.all_user, args.all_kernel),
            call_graph: args.call_graph()?,
            branches: args.branch_filter.or(any_branches),
            data: args.data,
            weight: args.weight,
            cgroups: args
                .cgroup
                .iter()
                .flat_map(|names| names.split(','))
                .map(str::to_owned)
                .collect(),
            all_cgroups: args.all_cgroups,
            inherit: !args.no_inherit,
            delay: args.delay,
            max_size: args.max_size,
            overwrite: args.overwrite,
            switch_output: args.switch_output,
            max_files: args.switch_max_files,
            events: args.events.clone(),
            common: CommonOptions::new(args)?,
        })
    }

    /// Returns a description of what is sampled.
    pub(crate) fn scope_in_words(&self) -> String {
        if self.cgroups.is_empty() {
            return self.common.target_in_words();
        }
        let names = self.cgroups.iter().map(|name| match &name[..] {
            "" => "all",
            name => name,
        });
        let cpus = match &self.common.target {
            RecordTarget::Cpus(cpus) => format!("CPU {cpus}"),
            _ => "all CPUs".to_owned(),
        };
        let names: Vec<&str> = names.collect();
        format!("cgroup {} on {cpus}", names.join(", "))
    }

    /// Returns the kinds of branches that the CPU records.
    pub(crate) fn branch_kinds(&self) -> Option<BranchKinds> {
        match self.call_graph {
            Some(CallGraph::LastBranches(_)) => Some(BranchKinds::CALL_STACK),
            _ => self.branches,
        }
    }
}

impl TraceOptions {
    fn new(args: &Record) -> Result<Self, Usage> {
        refuse(&[
            (
                args.branch_filter.is_some(),
                "-j: traces of the whole machine, which --timebase and --rotate take, have branches of all kinds: give -b.",
            ),
            (
                args.data || args.weight,
                "-d and -W: not with --timebase or --rotate, whose samples are not precise. Leave out one or the other.",
            ),
            (
                !args.cgroup.is_empty() || args.all_cgroups,
                "-G and --all-cgroups: not with --timebase or --rotate, whose samples tell no cgroup. Leave out one or the \
                 other.",
            ),
            (
                args.frequency.is_some() || args.call_graph_mode().is_some(),
                "-F and -g: traces of the whole machine, which --timebase and --rotate take, have neither a frequency nor \
                 call chains. Leave out one or the other.",
            ),
            (
                args.delay.is_some()
                    || args.max_size.is_some()
                    || args.no_inherit
                    || args.all_user
                    || args.all_kernel,
                "-D, -i, --max-size, --all-user and --all-kernel: not with --timebase or --rotate, which trace the \
                 whole machine. Leave them out; `:u` after an event samples user mode.",
            ),
        ])?;
        refuse_callers_without_chains(args)?;
        refuse(&[
            (
                args.overwrite || args.switch_output.is_some(),
                "--overwrite and --switch-output: not with --timebase or --rotate, which trace the whole machine. Leave out \
                 one or the other.",
            ),
            (
                !args.tid.is_empty() || args.pid.len() > 1,
                "-t, and -p with several processes: --timebase and --rotate trace the whole machine and keep one \
                 process at most. Give one process to -p, or -a.",
            ),
        ])?;
        Ok(Self {
            events: match args.timebase.clone() {
                Some(timebase) => TraceEvents::Timebase {
                    timebase,
                    count: args.count.clone(),
                },
                None => TraceEvents::Sampled(args.events.clone()),
            },
            period: args.period.unwrap_or(DEFAULT_PERIOD),
            branches: args.branches,
            rotate: args.rotate,
            common: CommonOptions::new(args)?,
        })
    }
}

/// Fails if --user-callchains or --kernel-callchains is given without -g.
fn refuse_callers_without_chains(args: &Record) -> Result<(), Usage> {
    let selects_callers = args.user_callchains || args.kernel_callchains;
    refuse(&[(
        selects_callers && args.call_graph_mode().is_none(),
        "--user-callchains and --kernel-callchains choose a part of the call chains, which -g records. Add -g.",
    )])
}

/// Fails with the first message whose condition is true.
fn refuse(reasons: &[(bool, &str)]) -> Result<(), Usage> {
    match reasons.iter().find(|(applies, _)| *applies) {
        Some((_, reason)) => Err(Usage((*reason).to_owned())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::call_graph::{Callers, KernelCallers};
    use crate::args::{Cli, Command};

    fn recorder(options: &str) -> Result<Recorder, Usage> {
        let words = format!("pmctl record {options}");
        let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        let cli = Cli::parse_words(&words).expect("the words are options");
        let Command::Record(args) = cli.command else {
            panic!("{options}");
        };
        Recorder::new(&args)
    }

    fn events(options: &str) -> EventOptions {
        match recorder(options) {
            Ok(Recorder::Events(events)) => events,
            other => panic!("{options}: {other:?}"),
        }
    }

    #[test]
    fn a_timebase_and_rotation_need_a_trace() {
        let trace = |options| matches!(recorder(options), Ok(Recorder::Trace(_)));
        assert!(trace("--timebase cycles --count branches true"));
        assert!(trace("--rotate -b -p 1"));
        assert!(!trace("-b -p 1"));
    }

    #[test]
    fn call_graphs_have_the_callers_that_are_asked_for() {
        let graph = |options: &str| events(&format!("{options} true")).call_graph;
        assert_eq!(graph("-c 9"), None);
        assert_eq!(graph("-g"), Some(CallGraph::FramePointers(Callers::All)));
        assert_eq!(
            graph("-g --kernel-callchains"),
            Some(CallGraph::FramePointers(Callers::Kernel))
        );
        let dwarf = |kernel| CallGraph::Dwarf { stack: 64, kernel };
        assert_eq!(graph("-g dwarf,64"), Some(dwarf(KernelCallers::Recorded)));
        assert_eq!(
            graph("--call-graph dwarf,64 --user-callchains"),
            Some(dwarf(KernelCallers::LeftOut))
        );
        assert_eq!(
            graph("--call-graph lbr"),
            Some(CallGraph::LastBranches(KernelCallers::Recorded))
        );
    }

    #[test]
    fn a_command_beside_tasks_is_not_the_target() {
        let common_options = events("-p 1 true").common;
        assert!(matches!(common_options.target, RecordTarget::Tasks(_)));
        assert_eq!(common_options.command, ["true"]);
    }

    #[test]
    fn cgroups_are_of_all_cpus_or_of_some() {
        let all = events("-G a,,b/c -G d");
        assert_eq!(all.cgroups, ["a", "", "b/c", "d"]);
        assert!(matches!(all.common.target, RecordTarget::Machine));
        assert_eq!(all.scope_in_words(), "cgroup a, all, b/c, d on all CPUs");
        let some = events("-G a -C 1 true");
        assert!(matches!(some.common.target, RecordTarget::Cpus(_)));
        assert_eq!(some.scope_in_words(), "cgroup a on CPU 1");
        assert_eq!(events("true").scope_in_words(), "true");
    }

    #[test]
    fn call_stacks_replace_branches() {
        let kinds = |options: &str| events(&format!("{options} true")).branch_kinds();
        assert_eq!(kinds("-g"), None);
        assert_eq!(kinds("-b"), Some(BranchKinds::ANY));
        assert_eq!(kinds("--call-graph lbr"), Some(BranchKinds::CALL_STACK));
    }

    #[test]
    fn options_that_exclude_each_other_are_refused_by_name() {
        for (options, named) in [
            ("-c 9", "nothing to record"),
            ("--rotate -j any true", "-j:"),
            ("--rotate -d true", "-d and -W:"),
            ("--timebase cycles --count branches -W true", "-d and -W:"),
            ("--rotate -G a true", "-G and --all-cgroups:"),
            ("--rotate --all-cgroups true", "-G and --all-cgroups:"),
            ("--rotate -g true", "-F and -g"),
            ("--rotate -D 5 true", "-D, -i"),
            ("--rotate --user-callchains true", "Add -g"),
            ("--rotate --overwrite true", "--overwrite and"),
            ("--rotate -t 1", "-t, and -p"),
            ("--user-callchains true", "Add -g"),
            ("--overwrite --switch-output=1M true", "--overwrite:"),
            ("--switch-output -o - true", "Leave `-o -` out"),
            ("--call-graph lbr -b true", "-b, -j"),
            ("--call-graph lbr -a true", "--call-graph=lbr:"),
            ("--call-graph lbr -G a true", "--call-graph=lbr:"),
            (
                "--call-graph lbr --kernel-callchains true",
                "--call-graph=lbr finds",
            ),
            (
                "--call-graph dwarf --kernel-callchains true",
                "--call-graph=dwarf finds",
            ),
        ] {
            match recorder(options) {
                Err(Usage(text)) => assert!(text.contains(named), "{options}: {text}"),
                Ok(recorder) => panic!("{options}: {recorder:?}"),
            }
        }
    }
}
