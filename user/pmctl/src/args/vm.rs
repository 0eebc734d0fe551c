// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `pmctl vm`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

const VM_HELP: &str = "\
`pmctl vm -- X` is `pmctl X` in a virtual machine that has a PMU of its own, on the files of this machine: it needs neither root \
nor KVM, a PMU or the driver. `pmctl vm --run -- X` is any command X there. The command sees the same files, under the same user and directory, and gets the same streams, \
terminal and signals; its exit code is that of `pmctl vm`.

Nothing here changes: what the command writes stays in the machine's memory and ends with it, but for the recording of \
`record`, the files of `stat -o` and `--record` and of `bench --save`, those that --out names, and what is in the \
directories that --write names. There is no network but loopback: fetch what a command \
needs before.

User counts repeat to the instruction if the program itself does: addresses are not random, the environment is HOME, PATH, \
USER, TERM and a few that are fixed, and the clock starts in 2037. Counts of the kernel vary by some percent, by more \
between a boot and a snapshot, with --exact by two to four. Compare instructions: cycles and times are those of an emulated CPU.

`record -c 1` records each instruction of user mode, so that reports have exact counts of each function and \
line, and `pmctl diff` names the function that grew.

Examples:
  pmctl vm -- stat -e instructions:u -- gzip -c FILE
  pmctl vm -- stat -e instructions:u,branches:u -r 3 -- ./program
  pmctl vm -- bench --fail-if 'instructions:u>+1%' './old input' './new input'
  pmctl vm -- record -c 1 -- ./program; pmctl report
  pmctl vm --cpu amd -- record -g -- ./program; pmctl report
  pmctl vm --run -- sh";

/// Options of `pmctl vm`.
#[derive(Debug, Args)]
#[command(after_help = VM_HELP, override_usage = "pmctl vm [OPTIONS] -- stat|record|bench|... [ARGUMENT]...\n       pmctl vm [OPTIONS] --run -- COMMAND [ARGUMENT]...")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub(crate) struct Vm {
    /// Emulate a CPU and PMU of this vendor
    #[arg(
        long,
        value_name = "VENDOR",
        default_value = "intel",
        ignore_case = true
    )]
    pub(crate) cpu: VmCpu,

    /// Give the machine N CPUs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) cpus: u32,

    /// Give the machine MB megabytes of memory
    #[arg(long, value_name = "MB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(256..=1_048_576))]
    pub(crate) memory: u32,

    /// Let time advance with the executed instructions, so that the kernel's counts vary less; slower, and with one CPU only
    #[arg(long, conflicts_with = "cpus")]
    pub(crate) exact: bool,

    /// Boot the machine instead of restoring its snapshot, which the first run saves in ~/.cache/perfmon-vm
    #[arg(long)]
    pub(crate) no_snapshot: bool,

    /// Let addresses be random, as they are on most systems
    #[arg(long)]
    pub(crate) aslr: bool,

    /// Pass the variable NAME on, or set it; may be repeated
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<OsString>,

    /// Pass all variables on
    #[arg(long)]
    pub(crate) env_all: bool,

    /// Copy FILE, which the command writes, to the same place here; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Vec<PathBuf>,

    /// Let the command change the files in DIR here; may be repeated
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) write: Vec<PathBuf>,

    /// Run COMMAND itself; pmctl and the device are there
    #[arg(long)]
    pub(crate) run: bool,

    /// Use the virtual machine in DIR [default: `$PERFMON_VM`, or that of the package perfmon-vm]
    #[arg(long, value_name = "DIR")]
    pub(crate) image: Option<PathBuf>,

    /// pmctl command, with its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    pub(crate) words: Vec<OsString>,
}

/// A vendor of processors. The virtual machine emulates a processor and a PMU of this vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VmCpu {
    Intel,
    Amd,
}
