// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl vm`: commands of the host in a virtual machine with a PMU, on the host's files.
//!
//! ```text
//!   caller's streams, terminal, signals
//!        │
//!   pmctl vm (relay) ── socket ── QEMU ── serial port ── pmctl (first process)
//!                                  │                          │ pipes or a terminal
//!   the host's files ───── 9p, read-only ── overlay ──── the command, as the caller's user
//!   files of --write ───── 9p ────────────────────────────┘
//! ```
//!
//! pmctl is on both sides: [`relay`] on the host, [`guest`] in the machine. They exchange the messages of [`wire`].

mod environment;
mod guest;
mod image;
mod monitor;
mod qemu;
mod relay;
mod results;
mod shared;
mod snapshot;
mod start_watch;
mod task;
mod terminal;
mod wire;

use std::env;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::error::ErrorKind;
use nix::sys::signal::Signal;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Gid, getegid, geteuid, getgroups, gethostname};

use crate::args::{Command, Record, Stat, Vm};
use crate::system::exit::{self, Usage};
use crate::system::signals::{self, BlockedSignals};
use crate::system::stdio::complain;
pub(crate) use guest::{guest, is_guest};
use image::Image;
use qemu::VirtualMachine;
use relay::{HostRelay, RunOutcome};
use results::ResultFiles;
use shared::SharedFolders;
use snapshot::MachineStart;
use start_watch::StartWatch;
use task::{GuestEnd, GuestTask};
use wire::Message;

/// Runs a command in the virtual machine, and returns its exit code.
pub(crate) fn vm(args: &Vm) -> Result<u8> {
    let command = requested_command(args)?;
    let image = Image::find(args.image.as_deref())?;
    let is_terminal = [
        io::stdin().is_terminal(),
        io::stdout().is_terminal(),
        io::stderr().is_terminal(),
    ];
    let shared_folders = SharedFolders::find(&args.write)?;
    let results = ResultFiles::new(args, command.as_ref());
    let machine = VirtualMachine {
        image: &image,
        args,
        shared: &shared_folders,
    };
    let signals = BlockedSignals::hold_with(Signal::SIGWINCH)?;
    let (mut qemu, socket, snapshot) = match snapshot::start(&machine, &signals)? {
        MachineStart::Booting(qemu, socket) => (qemu, socket, None),
        MachineStart::Restored(qemu, socket, snapshot) => (qemu, socket, Some(snapshot)),
        MachineStart::Stopped(signal) => return Ok(end_by_signal(signal)),
    };
    let mut relay = HostRelay::new(socket, signals, is_terminal, results)?;
    let start_message = Message::Start(guest_task(args, &relay, &shared_folders, is_terminal)?);
    let mut outcome = relay.run(
        &start_message,
        StartWatch::new(qemu.id(), snapshot.is_some()),
    );
    if let Some(snapshot) = snapshot.filter(|_| relay.has_never_started(&outcome)) {
        let (booted_qemu, socket) = snapshot::boot_instead(&machine, &snapshot)?;
        qemu = booted_qemu;
        relay.connect(socket)?;
        outcome = relay.run(&start_message, StartWatch::new(qemu.id(), false));
    }
    let has_lost_output = relay.has_lost_output();
    // Dropping the relay restores the caller's terminal, before messages are written.
    drop(relay);
    match outcome? {
        RunOutcome::Ended(ended) => {
            print_advice(args, ended);
            let is_incomplete = has_lost_output && ended.code == 0;
            Ok(if is_incomplete {
                exit::NO_COUNT
            } else {
                ended.code
            })
        }
        RunOutcome::Failed(reason) => bail!("the virtual machine can't run the command: {reason}"),
        RunOutcome::Dead => bail!(
            "the virtual machine ended before the command did. Its last messages:\n{}",
            qemu.failure_log()
        ),
        RunOutcome::Stopped(signal) => {
            drop(qemu);
            Ok(end_by_signal(signal))
        }
    }
}

/// Ends pmctl by a signal. If that fails, returns the exit code for the signal.
fn end_by_signal(signal: Signal) -> u8 {
    let _ = signals::end_by(signal);
    128 + u8::try_from(signal as i32).unwrap_or(0)
}

/// Returns pmctl's command that is to run; `None` with --run.
fn requested_command(args: &Vm) -> Result<Option<Command>> {
    match args.command() {
        Ok(command) => command.map(refuse_useless).transpose(),
        Err(error) if error.kind() == ErrorKind::InvalidSubcommand => {
            let words: Vec<_> = args
                .words
                .iter()
                .map(|word| word.to_string_lossy())
                .collect();
            let (program, words) = (&words[0], words.join(" "));
            if let Some(rest) = words.strip_prefix("pmctl ") {
                let message = format!("leave the second `pmctl` out: `pmctl vm -- {rest}`.");
                return Err(Usage(message).into());
            }
            let message = format!(
                "pmctl has no command `{program}`. To count a program: `pmctl vm -- stat -- {words}`; to run it: \
                 `pmctl vm --run -- {words}`."
            );
            Err(Usage(message).into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Refuses commands that are of no use in the virtual machine.
fn refuse_useless(command: Command) -> Result<Command> {
    let refusal = match &command {
        Command::Vm(_) => {
            "`pmctl vm` can't run inside its own virtual machine. Run the command without it."
        }
        Command::Record(record) if record.switch_output.is_some() => {
            "--switch-output: the names of the files are not known before the end, so they can't be copied here. \
             Leave it out, or run the recording in a script (--run) and name the files with --out."
        }
        Command::Stat(Stat { pid, tid, .. }) | Command::Record(Record { pid, tid, .. })
            if !(pid.is_empty() && tid.is_empty()) =>
        {
            "-p, -t: the processes of this machine are not in the virtual machine. Give a command instead."
        }
        Command::Serve(_) => {
            "the virtual machine has no network, so a server in it can't be reached from outside. To try it: \
             pmctl vm --run -- sh -c 'pmctl serve & sleep 1; curl -s 127.0.0.1:9743/metrics'"
        }
        Command::Top(_) => {
            "`top` would show only the few processes of the virtual machine. To try it: pmctl vm --run -- sh -c \
             './program & pmctl top'"
        }
        Command::Report(_)
        | Command::Script(_)
        | Command::Flamegraph(_)
        | Command::Annotate(_)
        | Command::Diff(_)
        | Command::Export(_) => {
            "this command needs no PMU, and so no virtual machine: run it without `vm`."
        }
        _ => return Ok(command),
    };
    Err(Usage(refusal.to_owned()).into())
}

/// Returns the task for the guest: the command with its user, environment and terminal.
fn guest_task(
    args: &Vm,
    relay: &HostRelay,
    shared: &SharedFolders,
    is_terminal: [bool; 3],
) -> Result<GuestTask> {
    let directory = env::current_dir().context("can't find the working directory")?;
    // umask(2) returns the mask only when it sets a new mask.
    let mask = umask(Mode::empty());
    umask(mask);
    Ok(GuestTask {
        words: guest_words(args),
        is_pmctl: !args.run,
        directory: directory.into_os_string(),
        environment: environment::variables(args, is_terminal.contains(&true))?,
        user: geteuid().as_raw(),
        group: getegid().as_raw(),
        groups: getgroups()
            .context("can't ask for the groups")?
            .into_iter()
            .map(Gid::as_raw)
            .collect(),
        umask: mask.bits(),
        host_name: gethostname().context("can't ask for the host's name")?,
        // Files in directories of the host need the host's time.
        clock: shared.directories().is_empty().then_some(GUEST_START_TIME),
        randomize_addresses: args.aslr,
        is_terminal,
        has_keys: relay.has_keys(),
        size: relay.size(),
        files: relay.results().names(),
        shared_directories: shared.names(),
    })
}

/// The commands of pmctl that have the option --emulated.
const COMMANDS_WITH_EMULATED: [&str; 2] = ["bench", "record"];

/// Returns the words of the command in the guest.
fn guest_words(args: &Vm) -> Vec<OsString> {
    let mut words = args.words.clone();
    let has_option = |word: &OsString| COMMANDS_WITH_EMULATED.iter().any(|name| word == name);
    if !args.run && words.first().is_some_and(has_option) {
        words.insert(1, "--emulated".into());
    }
    words
}

/// The guest's time at the start of a command: the beginning of 2037. It is the same in all runs, and later than the times
/// of the host's files, so that make(1) treats the files that the command writes as newer.
const GUEST_START_TIME: Duration = Duration::from_secs(2_114_380_800);

/// Prints advice if the command lacked memory, room for files, a network or instructions.
fn print_advice(args: &Vm, ended: GuestEnd) {
    /// The exit code of a command that was killed by SIGILL.
    const SIGILL_EXIT_CODE: u8 = 128 + Signal::SIGILL as u8;
    let memory = args.memory;
    if ended.out_of_memory {
        complain(format_args!(
            "the virtual machine ran out of memory, so its kernel killed processes. It has {memory} MB; give it more \
             with --memory."
        ));
    }
    if ended.out_of_room {
        complain(format_args!(
            "the command's files filled the virtual machine's file system, which takes at most half of its memory. It has \
             {memory} MB; give it more with --memory."
        ));
    }
    if ended.asked_network && ended.code != 0 {
        complain(
            "the command tried to reach another machine or to look up a name, and the virtual machine has no network. Download what \
             it needs before, without `vm`.",
        );
    }
    if ended.code == SIGILL_EXIT_CODE {
        complain(
            "the command used an instruction that the virtual CPU does not have. It has AVX2, and not AVX-512; build the program \
             for x86-64-v3 or less.",
        );
    }
}
