// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl vm`: commands of the host in a virtual machine with a PMU, on the host's files.
//!
//! ```text
//!   caller's streams, terminal, signals
//!        │
//!   pmctl vm (relay) ── socket ── QEMU ── serial port ── pmctl (first process)
//!                                  │                          │ pipes or a terminal
//!   the host's files ───── 9p, read-only ── overlay ──── the command, as the caller's user
//!   those of --write ───── 9p ────────────────────────────┘
//! ```
//!
//! pmctl is both sides: [`relay`] on the host, [`guest`] in the machine. They speak [`wire`]'s messages.

mod environment;
mod guest;
mod image;
mod monitor;
mod qemu;
mod relay;
mod results;
mod shared;
mod snapshot;
mod task;
mod terminal;
mod wire;

use std::env;
use std::io::{self, IsTerminal};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::error::ErrorKind;
use nix::sys::signal::Signal;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Gid, getegid, geteuid, getgroups, gethostname};

use crate::args::{Command, Record, Stat, Vm};
use crate::system::exit::{self, Usage};
use crate::system::signals::{self, Signals};
use crate::system::stdio::complain;
pub(crate) use guest::{guest, is_guest};
use image::Image;
use qemu::VirtualMachine;
use relay::{HostRelay, RunOutcome};
use results::Results;
use shared::SharedFolders;
use snapshot::Start;
use task::{GuestEnd, GuestTask};
use wire::Message;

/// The time that a machine which goes on from a snapshot may take to its first message, some hundredths of which it needs. After
/// that it boots, which has no limit.
const RESTORE_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs a command in the virtual machine, and returns its exit code.
pub(crate) fn vm(args: &Vm) -> Result<u8> {
    let command = command(args)?;
    let image = Image::find(args.image.as_deref())?;
    let is_terminal = [
        io::stdin().is_terminal(),
        io::stdout().is_terminal(),
        io::stderr().is_terminal(),
    ];
    let shared = SharedFolders::find(&args.write)?;
    let results = Results::new(args, command.as_ref());
    let machine = VirtualMachine {
        image: &image,
        args,
        shared: &shared,
    };
    let signals = Signals::hold_with(Signal::SIGWINCH)?;
    let (mut qemu, socket, snapshot) = match snapshot::start(&machine, &signals)? {
        Start::Booting(qemu, socket) => (qemu, socket, None),
        Start::Restored(qemu, socket, snapshot) => (qemu, socket, Some(snapshot)),
        Start::Stopped(signal) => return Ok(stop(signal)),
    };
    let mut relay = HostRelay::new(socket, signals, is_terminal, results)?;
    let first = Message::Start(task(args, &relay, &shared, is_terminal)?);
    let patience = snapshot.is_some().then_some(RESTORE_TIMEOUT);
    let mut outcome = relay.run(&first, patience);
    if let Some(snapshot) = snapshot.filter(|_| relay.has_never_started(&outcome)) {
        let (other, socket) = snapshot::boot_instead(&machine, &snapshot)?;
        qemu = other;
        relay.connect(socket)?;
        outcome = relay.run(&first, None);
    }
    let has_lost = relay.has_lost();
    // Messages are for a terminal that is the caller's again.
    drop(relay);
    match outcome? {
        RunOutcome::Ended(ended) => {
            advise(args, ended);
            let is_lost = has_lost && ended.code == 0;
            Ok(if is_lost { exit::NO_COUNT } else { ended.code })
        }
        RunOutcome::Failed(reason) => bail!("the virtual machine can't run the command: {reason}"),
        RunOutcome::Dead => bail!(
            "the virtual machine ended before the command did. Its last messages:\n{}",
            qemu.failure_log()
        ),
        RunOutcome::Stopped(signal) => {
            drop(qemu);
            Ok(stop(signal))
        }
    }
}

/// Ends pmctl by a signal; returns the exit code if that does not work.
fn stop(signal: Signal) -> u8 {
    let _ = signals::end_by(signal);
    128 + u8::try_from(signal as i32).unwrap_or(0)
}

/// Returns the command of pmctl's that is to run; `None` with --run.
fn command(args: &Vm) -> Result<Option<Command>> {
    match args.command() {
        Ok(command) => command.map(check).transpose(),
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
                "`{program}` is no command of pmctl's. To count it: `pmctl vm -- stat -- {words}`; to run it: \
                 `pmctl vm --run -- {words}`."
            );
            Err(Usage(message).into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Refuses commands that do nothing useful there.
fn check(command: Command) -> Result<Command> {
    let refused = match &command {
        Command::Vm(_) => {
            "`pmctl vm` can't run inside its own virtual machine. Run the command without it."
        }
        Command::Record(record) if record.switch_output.is_some() => {
            "--switch-output: the files' names are known at the end only; leave it out, or run the recording in \
             a script (--run) and name the files with --out."
        }
        Command::Stat(Stat { pid, tid, .. }) | Command::Record(Record { pid, tid, .. })
            if !(pid.is_empty() && tid.is_empty()) =>
        {
            "-p, -t: the virtual machine has processes of its own, and not those of this machine; give a command."
        }
        Command::Serve(_) => {
            "nothing outside of the virtual machine can reach a server in it, which has no network. To try it: \
             pmctl vm --run -- sh -c 'pmctl serve & sleep 1; curl -s 127.0.0.1:9743/metrics'"
        }
        Command::Top(_) => {
            "top would see the few processes of the virtual machine only. To try it: pmctl vm --run -- sh -c \
             './program & pmctl top'"
        }
        Command::Report(_)
        | Command::Script(_)
        | Command::Flamegraph(_)
        | Command::Annotate(_)
        | Command::Diff(_)
        | Command::Export(_) => {
            "the virtual machine is for what needs a PMU, as stat, record and bench: run this command without `vm`."
        }
        _ => return Ok(command),
    };
    Err(Usage(refused.to_owned()).into())
}

/// Returns the command and its surroundings, for the guest.
fn task(
    args: &Vm,
    relay: &HostRelay,
    shared: &SharedFolders,
    is_terminal: [bool; 3],
) -> Result<GuestTask> {
    let directory = env::current_dir().context("can't find the working directory")?;
    // umask(2) can be read by setting it only.
    let mask = umask(Mode::empty());
    umask(mask);
    Ok(GuestTask {
        words: args.words.clone(),
        is_pmctl: !args.run,
        directory: directory.into_os_string(),
        environment: environment::of(args, is_terminal.contains(&true))?,
        user: geteuid().as_raw(),
        group: getegid().as_raw(),
        groups: getgroups()
            .context("can't ask for the groups")?
            .into_iter()
            .map(Gid::as_raw)
            .collect(),
        umask: mask.bits(),
        host_name: gethostname().context("can't ask for the host's name")?,
        // In directories of the host's files get the host's time.
        clock: shared.directories().is_empty().then_some(GUEST_START_TIME),
        randomize: args.aslr,
        is_terminal,
        has_keys: relay.has_keys(),
        size: relay.size(),
        files: relay.results().names(),
        shared: shared.names(),
    })
}

/// The time when most commands start: the beginning of 2037. It is the same in all runs, and later than the host's files are, so
/// that make(1) takes for new what the command writes.
const GUEST_START_TIME: Duration = Duration::from_secs(2_114_380_800);

/// Prints advice on what the command may have missed.
fn advise(args: &Vm, ended: GuestEnd) {
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
            "the room for files that the command wrote is used up: half of the virtual machine's memory. It has {memory} MB; \
             give it more with --memory."
        ));
    }
    if ended.asked_network && ended.code != 0 {
        complain(
            "the command tried to reach another machine or to look up a name, and the virtual machine has no network. Fetch what \
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
