// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl record`: samples while a command runs.
//!
//! [`events`] is the usual way, by an event of each task or CPU. [`trace`] is that of `--timebase` and `--rotate`, by a
//! trace of the whole machine.

mod clock;
mod events;
mod host;
mod local_time;
mod opening;
mod perf_ring;
mod progress;
mod sampled;
mod summary;
mod target;
mod trace;

use anyhow::Result;

pub(crate) use events::OWN_COMMAND;
pub(crate) use target::keep_old;

use crate::args::{Record as Args, SwitchOutput};
use crate::system::exit::Usage;

/// Records, and returns the exit code.
pub(crate) fn record(args: &Args) -> Result<u8> {
    refuse_the_impossible(args)?;
    if args.needs_trace() {
        trace::record(args)
    } else {
        events::record(args)
    }
}

/// Refuses options that can't be had together.
fn refuse_the_impossible(args: &Args) -> Result<(), Usage> {
    let is_attached = !args.pid.is_empty() || !args.tid.is_empty();
    let refused = [
        (
            is_attached && !args.command.is_empty(),
            "-p and -t take no command: they record until the tasks end, or for --duration SECS.",
        ),
        (
            args.needs_trace() && args.branch_filter.is_some(),
            "-j: traces of the whole machine, which --timebase and --rotate take, have branches of all kinds: give -b.",
        ),
        (
            args.needs_trace() && (args.frequency.is_some() || args.has_chains()),
            "-F and -g: traces of the whole machine, which --timebase and --rotate take, have neither a frequency nor \
             call chains. Leave out one or the other.",
        ),
        (
            args.needs_trace()
                && (args.delay.is_some()
                    || args.max_size.is_some()
                    || args.no_inherit
                    || args.all_user
                    || args.all_kernel),
            "-D, -i, --max-size, --all-user and --all-kernel: not with --timebase or --rotate, which trace the whole \
             machine. `:u` behind an event samples user mode.",
        ),
        (
            !args.has_chains() && (args.user_callchains || args.kernel_callchains),
            "--user-callchains and --kernel-callchains choose a part of the call chains, which -g records. Add -g.",
        ),
        (
            args.needs_trace() && (args.overwrite || args.switch_output.is_some()),
            "--overwrite and --switch-output: not with --timebase or --rotate, which trace the whole machine. Leave out \
             one or the other.",
        ),
        (
            args.overwrite && matches!(args.switch_output, Some(SwitchOutput::Size(_))),
            "--overwrite: nothing is written until there is a reason, so no file gets large. Give a time or `signal` to \
             --switch-output, and the size of the rings with -m.",
        ),
        (
            args.switch_output.is_some() && args.output.as_os_str() == "-",
            "--switch-output writes files, and not to standard output. Leave `-o -` out.",
        ),
        (
            args.needs_trace() && (!args.tid.is_empty() || args.pid.len() > 1),
            "-t, and -p with several processes: not with --timebase or --rotate, which trace the whole machine.",
        ),
        (
            args.stack().is_some() && args.kernel_callchains,
            "--kernel-callchains leaves out the callers in programs, which --call-graph=dwarf finds: give one of the two.",
        ),
        (
            args.has_calls() && (args.branches || args.branch_filter.is_some()),
            "-b, -j: not with --call-graph=lbr, for which the CPU records calls only. Leave out one of the two.",
        ),
        (
            args.has_calls() && (args.all_cpus || args.cpu.is_some()),
            "--call-graph=lbr: the CPU records the calls of a task, and -a and -C sample all tasks. \
             --call-graph=dwarf copies stacks.",
        ),
        (
            args.has_calls() && args.kernel_callchains,
            "--kernel-callchains leaves out the callers in programs, which --call-graph=lbr finds: give one of the two.",
        ),
        (
            args.command.is_empty() && !args.all_cpus && args.cpu.is_none() && !is_attached,
            "there is nothing to run.\n\
             Give a command (`pmctl record -- make`), a process (-p PID) or a thread (-t TID), or record the whole system until Ctrl-C (-a).",
        ),
    ];
    match refused.into_iter().find(|(applies, _)| *applies) {
        Some((_, reason)) => Err(Usage(reason.to_owned())),
        None => Ok(()),
    }
}
