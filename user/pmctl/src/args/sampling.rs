// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `record`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::call_graph::{CallGraph, CallGraphMode, Callers, KernelCallers};
use super::stat::{parse_interval, parse_pid, parse_tid};
use super::words::ParserWithWords;
use crate::events::cpus::Cpus;
use crate::recording::perfdata::BranchKinds;
use crate::system::exit::Usage;

/// The default period. It is a prime number, so that few loops are in step with it.
pub(crate) const DEFAULT_PERIOD: u32 = 1_000_003;

/// The default file of a recording.
pub(crate) const DEFAULT_FILE: &str = "perf.data";

const RECORD_HELP: &str = "\
A sample is taken every N events (-c). It shows which program was running and in which function; with -g also the \
callers. Events are written as for `pmctl stat`. With `:pp` a sample has the exact instruction (Intel's PEBS); \
with `:P` it has that where the CPU and the other options allow it. Samples go to the file as they come: a recording that was killed \
can be read up to that moment.

All users may sample their own programs; without CAP_PERFMON in user mode only, unless kernel.perf_event_paranoid is below 2. \
-a, -C, -G, --timebase and --rotate sample programs of all users: this needs root, CAP_PERFMON, or from Linux 7.3 on \
kernel.perf_event_paranoid at 0 or below.

The default period is a prime number, so that few loops are in step with it. To make sure, compare with another period.

Examples:
  pmctl record -- make                       where `make` spends its cycles
  pmctl record -c 10007 -- ls                more samples, of a short command
  pmctl record -g -F 999 -- make             call chains, 999 per second
  pmctl record --call-graph dwarf -F 99 -- ls
                                             of programs without frame pointers
  pmctl record -a --duration 10              the whole system
  pmctl record -p 1234                       a process that is running already
  pmctl record -p 1234 -- sleep 5            the same, while a command runs
  pmctl record -G system.slice/ssh.service   a service, or a container
  pmctl record -a --all-cgroups -- sleep 10  all, each sample with its cgroup
  pmctl record -e branches:u -- ls           another event
  pmctl record -e cycles -e cpu/branch-misses,period=1009/ -- ls
                                             each with a period of its own
  pmctl record -e instructions:upp -c 1009 -- ls
                                             the exact instruction (PEBS)
  pmctl record -e ibs_op// -- ls             the same on AMD, by Linux (IBS)
  pmctl record -e page-faults -c 1 -- ls     a software event: each page fault
  pmctl record -d -W -e mem_inst_retired.all_loads:pp -- ls
                                             which data, and how long it took
  pmctl record -b -- gzip file               with the last branches
  pmctl record -a --overwrite --switch-output
                                             a flight recorder (kill -USR2)
  pmctl record -o - -- make | perf script -i -
                                             perf shows them as they come
  pmctl record --timebase cycles --count branches,instructions -- ls
                                             count others from sample to sample
  pmctl record -a --timebase cycles --count energy-pkg,temperature -- make
                                             where energy goes

See the recording with `pmctl report`, `script` or `flamegraph`. It is a perf.data file, which `perf report` and other \
tools read, too.

Exit codes are those of `pmctl stat`; 125 also if a sample was lost or could not be written.";

#[derive(Debug, Args)]
#[command(after_help = RECORD_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub(crate) struct Record {
    /// Sample by these events, separated by commas; may be repeated [default: cycles, precise if possible]
    #[arg(short = 'e', long = "event", value_name = "EVENTS")]
    pub(crate) events: Vec<String>,

    /// Take a sample every N events [default: 1000003; of page faults, switches and migrations: 1]
    #[arg(short = 'c', long, value_name = "N", value_parser = parse_period, conflicts_with = "frequency")]
    pub(crate) period: Option<u32>,

    /// Take about HZ samples per second instead of one every N events; `max`: as many as the module allows
    #[arg(short = 'F', long = "freq", value_name = "HZ", value_parser = parse_frequency)]
    pub(crate) frequency: Option<Frequency>,

    /// Record call chains, by frame pointers
    #[arg(short = 'g')]
    pub(crate) chains: bool,

    /// Record call chains by frame pointers (fp, as -g), or for programs without them by copies of the stack (dwarf, or
    /// dwarf,BYTES [8192]) or the calls that the CPU records (lbr)
    #[arg(long, value_name = "MODE", hide_possible_values = true, value_parser = ParserWithWords { parse: CallGraphMode::parse, known: &["fp", "dwarf", "lbr"] })]
    pub(crate) call_graph: Option<CallGraphMode>,

    /// Record call chains of programs only; with -g
    #[arg(long, conflicts_with = "kernel_callchains")]
    pub(crate) user_callchains: bool,

    /// Record call chains of the kernel only; with -g
    #[arg(long)]
    pub(crate) kernel_callchains: bool,

    /// Sample user mode only, as `:u` after each event
    #[arg(long, conflicts_with = "all_kernel")]
    pub(crate) all_user: bool,

    /// Sample the kernel only, as `:k` after each event
    #[arg(long)]
    pub(crate) all_kernel: bool,

    /// Sample all programs. Without a command, stop at Ctrl-C
    #[arg(short, long)]
    pub(crate) all_cpus: bool,

    /// Sample all programs on these CPUs, as 0-2,5
    #[arg(short = 'C', long, value_name = "CPUS", value_parser = Cpus::parse)]
    pub(crate) cpu: Option<Cpus>,

    /// Sample these processes, separated by commas, and the children that they start. Without a command, stop when they
    /// have ended or at Ctrl-C
    #[arg(short, long, value_name = "PID", value_delimiter = ',', value_parser = parse_pid, conflicts_with_all = ["all_cpus", "cpu"])]
    pub(crate) pid: Vec<u32>,

    /// Sample these threads, separated by commas, and what they start. Without a command, stop when they have ended or at
    /// Ctrl-C
    #[arg(short, long, value_name = "TID", value_delimiter = ',', value_parser = parse_tid, conflicts_with_all = ["all_cpus", "cpu"])]
    pub(crate) tid: Vec<u32>,

    /// Sample only the tasks of these cgroups, separated by commas, on all CPUs or on those of -C: one for each event of -e,
    /// in the same order, or one for all events
    #[arg(short = 'G', long, value_name = "CGROUPS", conflicts_with_all = ["pid", "tid", "no_inherit"])]
    pub(crate) cgroup: Vec<String>,

    /// Record the cgroup of each sample, for `pmctl report --sort cgroup`
    #[arg(long)]
    pub(crate) all_cgroups: bool,

    /// Don't sample what the command or the tasks create
    #[arg(short = 'i', long, conflicts_with_all = ["all_cpus", "cpu"])]
    pub(crate) no_inherit: bool,

    /// Record the last branches before each sample
    #[arg(short, long, alias = "branch-any")]
    pub(crate) branches: bool,

    /// Record the last branches of these kinds only, separated by commas: `any`, `any_call`, `any_ret`, `ind_call`,
    /// `ind_jmp`, `cond`, `call`, and modes `u`, `k`; `no_flags,no_cycles` leaves out predictions and cycles
    #[arg(short = 'j', long = "branch-filter", value_name = "KINDS", value_parser = BranchKinds::parse)]
    pub(crate) branch_filter: Option<BranchKinds>,

    /// Record the address of the data that each sample reads or writes, and where it came from; with precise events, as
    /// -e NAME:pp
    #[arg(short, long)]
    pub(crate) data: bool,

    /// Record the latency of the memory access of each sample, in cycles; with precise events, as -e NAME:pp
    #[arg(short = 'W', long)]
    pub(crate) weight: bool,

    /// Sample by this event only, and count those of --count, by a trace of the whole machine
    #[arg(
        long,
        value_name = "EVENT",
        requires = "count",
        conflicts_with = "events"
    )]
    pub(crate) timebase: Option<String>,

    /// Count these events from sample to sample, or read values, as energy-pkg and temperature; may be repeated
    #[arg(long, value_name = "EVENTS", requires = "timebase")]
    pub(crate) count: Vec<String>,

    /// Size of each CPU's ring in pages of 4 KiB, or as 1M (B, K, M, G); rounded up to a power of 2 of pages [default: 64, with
    /// stacks or precise samples 512, of a trace 1024, or fewer if the memory limit is lower]
    #[arg(short = 'm', long, alias = "mmap-pages", value_name = "PAGES", value_parser = parse_pages)]
    pub(crate) pages: Option<u32>,

    /// Trace the whole machine, and replace the buffers when one is nearly full: only the moment of the exchange is lost, not
    /// all that follows
    #[arg(long)]
    pub(crate) rotate: bool,

    /// Begin to sample MS milliseconds after the start
    #[arg(short = 'D', long, value_name = "MS", value_parser = parse_interval)]
    pub(crate) delay: Option<Duration>,

    /// Stop recording when its records have SIZE, as 100M (B, K, M, G); a command goes on
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_size: Option<u64>,

    /// Stop recording after SECS seconds; a command goes on
    #[arg(long, value_name = "SECS", value_parser = parse_seconds)]
    pub(crate) duration: Option<Duration>,

    /// Write the recording to FILE; - is standard output, as a stream for `-i -`
    #[arg(short, long, value_name = "FILE", default_value = DEFAULT_FILE)]
    pub(crate) output: PathBuf,

    /// Keep the newest samples only, as many as the rings have room for; write them at the end, or as --switch-output says
    #[arg(long)]
    pub(crate) overwrite: bool,

    /// Begin a new file, FILE.<time>, at SIGUSR2 (signal), after a time (10m: s, m, h, d) or with a size (100M: B, K, M, G)
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "signal", value_parser = parse_switch_output)]
    pub(crate) switch_output: Option<SwitchOutput>,

    /// Keep the last N files of --switch-output
    #[arg(long, value_name = "N", requires = "switch_output", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) switch_max_files: Option<u32>,

    /// Print no summary
    #[arg(short, long)]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) ignored: IgnoredPerfOptions,

    /// Sample instructions by default, since cycles of an emulated machine say nothing: `pmctl vm` adds this option
    #[arg(long, hide = true)]
    pub(crate) emulated: bool,

    /// Command to run, with its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

impl Record {
    /// Returns the mode of the call chains, if they are asked for.
    pub(super) fn call_graph_mode(&self) -> Option<CallGraphMode> {
        let frame_pointers = self.chains.then_some(CallGraphMode::FramePointers);
        self.call_graph.or(frame_pointers)
    }

    /// Returns the call chains that are asked for.
    ///
    /// # Errors
    /// --kernel-callchains is given with a mode that finds only callers in programs.
    pub(super) fn call_graph(&self) -> Result<Option<CallGraph>, Usage> {
        let Some(mode) = self.call_graph_mode() else {
            return Ok(None);
        };
        let kernel = || {
            if self.user_callchains {
                KernelCallers::LeftOut
            } else {
                KernelCallers::Recorded
            }
        };
        let conflict = |mode| {
            Err(Usage(format!(
                "--kernel-callchains leaves out the callers in programs, which --call-graph={mode} finds: give one of the two."
            )))
        };
        Ok(Some(match mode {
            CallGraphMode::FramePointers => CallGraph::FramePointers(if self.user_callchains {
                Callers::Programs
            } else if self.kernel_callchains {
                Callers::Kernel
            } else {
                Callers::All
            }),
            CallGraphMode::Dwarf(_) if self.kernel_callchains => return conflict("dwarf"),
            CallGraphMode::Dwarf(stack) => CallGraph::Dwarf {
                stack,
                kernel: kernel(),
            },
            CallGraphMode::LastBranches if self.kernel_callchains => return conflict("lbr"),
            CallGraphMode::LastBranches => CallGraph::LastBranches(kernel()),
        }))
    }
}

/// Options of perf that are accepted without effect, since pmctl always does what they ask for.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub(crate) struct IgnoredPerfOptions {
    #[arg(short = 'N', long, hide = true)]
    no_buildid_cache: bool,

    #[arg(short = 'B', long, hide = true)]
    no_buildid: bool,

    #[arg(short = 'T', long, hide = true)]
    timestamp: bool,

    #[arg(short = 'P', long = "sample-period", hide = true)]
    sample_period: bool,

    #[arg(short = 'R', long, hide = true)]
    raw_samples: bool,

    #[arg(long, hide = true)]
    sample_cpu: bool,

    #[arg(long, hide = true)]
    sample_identifier: bool,

    #[arg(long, hide = true)]
    timestamp_boundary: bool,

    #[arg(long, hide = true)]
    no_buffering: bool,
}

/// The frequency of samples that -F asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frequency {
    Hertz(u32),
    /// As many samples as the module allows.
    Max,
}

/// The condition for beginning a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SwitchOutput {
    Signal,
    /// The records of the file have this many bytes.
    Size(u64),
    Time(Duration),
}

fn parse_period(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(period) if period > 0 => Ok(period),
        _ => Err(format!(
            "it takes a number of events, from 1 to {}",
            u32::MAX
        )),
    }
}

fn parse_frequency(text: &str) -> Result<Frequency, String> {
    if text == "max" {
        return Ok(Frequency::Max);
    }
    let hertz = text.parse().ok().filter(|hertz| *hertz > 0);
    hertz
        .map(Frequency::Hertz)
        .ok_or_else(|| "it takes a number of samples per second, 1 or more, or `max`".to_owned())
}

/// A letter after a number, and the factor that it stands for.
type UnitLetter = (char, u64);
/// Units of sizes, in bytes.
const SIZE_UNITS: [UnitLetter; 4] = [('B', 1), ('K', 1 << 10), ('M', 1 << 20), ('G', 1 << 30)];
/// Units of times, in seconds.
const TIME_UNITS: [UnitLetter; 4] = [('s', 1), ('m', 60), ('h', 60 * 60), ('d', 24 * 60 * 60)];

/// Bytes of a page.
const PAGE_SIZE: u64 = 4 << 10;
/// The largest number of pages of a ring.
const MAX_RING_PAGES: u32 = 1 << 16;

/// Parses a number above 0, followed by one of `units`.
fn parse_with_unit(text: &str, units: &[UnitLetter]) -> Option<u64> {
    units.iter().find_map(|(unit, factor)| {
        let number: u64 = text.strip_suffix(*unit)?.parse().ok()?;
        number.checked_mul(*factor).filter(|number| *number > 0)
    })
}

fn parse_size(text: &str) -> Result<u64, String> {
    parse_with_unit(text, &SIZE_UNITS)
        .ok_or_else(|| "it takes a size such as 100M (B, K, M, G)".to_owned())
}

/// Parses the size of a ring into pages. The text is a number of pages, or a size with a unit. The error is a message
/// for the user.
fn parse_pages(text: &str) -> Result<u32, String> {
    let pages_of_size = || {
        parse_with_unit(text, &SIZE_UNITS)?
            .div_ceil(PAGE_SIZE)
            .checked_next_power_of_two()
    };
    let pages = text.parse().ok().or_else(pages_of_size);
    pages
        .and_then(|pages| u32::try_from(pages).ok())
        .filter(|pages| (1..=MAX_RING_PAGES).contains(pages))
        .ok_or_else(|| {
            format!(
                "it takes a number of pages of 4 KiB, 1 to {MAX_RING_PAGES}, or a size such as 512K or 1M"
            )
        })
}

fn parse_switch_output(text: &str) -> Result<SwitchOutput, String> {
    let time = |seconds| SwitchOutput::Time(Duration::from_secs(seconds));
    match text {
        "signal" => Some(SwitchOutput::Signal),
        text => parse_with_unit(text, &SIZE_UNITS)
            .map(SwitchOutput::Size)
            .or_else(|| parse_with_unit(text, &TIME_UNITS).map(time)),
    }
    .ok_or_else(|| {
        "it takes `signal`, a time such as 10m (s, m, h, d) or a size such as 100M (B, K, M, G)"
            .to_owned()
    })
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| *seconds > 0.0);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "it takes a number of seconds above 0".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_have_pages_or_a_size() {
        for (text, wanted) in [
            ("1", 1),
            ("3", 3),
            ("65536", 65536),
            ("1B", 1),
            ("4097B", 2),
            ("512K", 128),
            ("700K", 256),
            ("1M", 256),
            ("256M", 65536),
        ] {
            assert_eq!(parse_pages(text), Ok(wanted), "{text}");
        }
        for wrong in [
            "",
            "0",
            "-1",
            "65537",
            "0M",
            "1T",
            "1.5M",
            "257M",
            "16777216G",
        ] {
            assert!(parse_pages(wrong).is_err(), "{wrong}");
        }
    }
}
