// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts the command in the guest, with its user, environment and streams.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::stat::{Mode, fchmod, umask};
use nix::sys::termios::{OutputFlags, SetArg, tcgetattr, tcsetattr};
use nix::unistd::{Gid, Pid, Uid, fchown, pipe2, setgid, setgroups, setsid, setuid};

use super::super::task::{GuestTask, TOOLS_DIRECTORY, TerminalSize};
use super::super::wire::Stream;
use crate::system::text::error_text;
use crate::{system::exit, system::signals};

nix::ioctl_write_int_bad!(take_terminal, libc::TIOCSCTTY);

/// A command, and the guest's ends of its streams, which are non-blocking.
pub(super) struct GuestProcess {
    /// The process; or the exit code and the message if it could not be started.
    pub(super) process: Result<Pid, (u8, String)>,
    pub(super) input: File,
    pub(super) outputs: Vec<(Stream, File)>,
    /// The slave of the terminal, held open so that reading the master does not end before the command does.
    pub(super) terminal: Option<OwnedFd>,
}

/// Starts the command.
pub(super) fn start(task: &GuestTask) -> Result<GuestProcess> {
    let mut command = prepare_command(task);
    let terminal = task
        .is_terminal
        .contains(&true)
        .then(|| open_terminal(task))
        .transpose()?;
    let (input, outputs) = connect_streams(&mut command, task, terminal.as_ref())?;
    let process = match command.spawn() {
        Ok(child) => Ok(Pid::from_raw(i32::try_from(child.id())?)),
        Err(error) => Err(match fs::metadata(&task.directory) {
            Ok(facts) if facts.is_dir() => not_runnable(task, &error),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                unreadable_directory(task)
            }
            _ => missing_directory(task),
        }),
    };
    Ok(GuestProcess {
        process,
        input,
        outputs,
        terminal: terminal.map(|terminal| terminal.slave),
    })
}

/// Connects the standard streams of the command, each to the terminal or to a pipe. Returns the guest's ends, which are
/// non-blocking: the input, and the outputs.
fn connect_streams(
    command: &mut Command,
    task: &GuestTask,
    terminal: Option<&OpenptyResult>,
) -> Result<(File, Vec<(Stream, File)>)> {
    let mut outputs = Vec::new();
    let mut input = None;
    if let Some(terminal) = terminal {
        let copy = terminal
            .master
            .try_clone()
            .context("can't duplicate the virtual machine's terminal")?;
        input = Some(File::from(copy));
        outputs.push((Stream::Terminal, File::from(terminal.master.try_clone()?)));
    }
    let slave = |terminal: &OpenptyResult| terminal.slave.try_clone().map(Stdio::from);
    match (terminal, task.is_terminal[0]) {
        (Some(terminal), true) => drop(command.stdin(slave(terminal)?)),
        _ => {
            let (read, write) = make_pipe(task)?;
            command.stdin(Stdio::from(read));
            input = Some(File::from(write));
        }
    }
    for (number, stream) in [(1, Stream::Output), (2, Stream::Error)] {
        let stdio = match (terminal, task.is_terminal[number]) {
            (Some(terminal), true) => slave(terminal)?,
            _ => {
                let (read, write) = make_pipe(task)?;
                outputs.push((stream, File::from(read)));
                Stdio::from(write)
            }
        };
        if number == 1 {
            command.stdout(stdio);
        } else {
            command.stderr(stdio);
        }
    }
    let input = input.context("the command has no standard input")?;
    for file in outputs.iter().map(|(_, file)| file).chain([&input]) {
        fcntl(file, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
            .context("can't make a pipe non-blocking")?;
    }
    Ok((input, outputs))
}

/// Returns the command without its streams, which the caller has to set.
fn prepare_command(task: &GuestTask) -> Command {
    let pmctl = Path::new(TOOLS_DIRECTORY).join("pmctl");
    let (program, words) = match task.words.split_first() {
        Some((program, words)) if !task.is_pmctl => (program.clone(), words),
        _ => (pmctl.into_os_string(), &task.words[..]),
    };
    let mut command = Command::new(program);
    command
        .args(words)
        .env_clear()
        .envs(task.environment.iter().map(|(name, value)| (name, value)));
    command.current_dir(&task.directory);
    if task.is_pmctl {
        command.arg0("pmctl");
    }
    let terminal_stream = task.is_terminal.iter().position(|is_terminal| *is_terminal);
    let groups: Vec<Gid> = task.groups.iter().copied().map(Gid::from_raw).collect();
    let (user, group) = (Uid::from_raw(task.user), Gid::from_raw(task.group));
    let mask = Mode::from_bits_truncate(task.umask);
    let prepare = move || -> io::Result<()> {
        umask(mask);
        setsid()?;
        if let Some(number) = terminal_stream {
            let number = i32::try_from(number).unwrap_or(0);
            // SAFETY: TIOCSCTTY takes an integer and no pointer, so the call accesses no memory of this process, whatever the
            // descriptor is.
            unsafe { take_terminal(number, 0) }?;
        }
        signals::restore_inherited()?;
        setgroups(&groups)?;
        setgid(group)?;
        setuid(user)?;
        Ok(())
    };
    // SAFETY: `pre_exec` requires a closure that is safe between fork and exec, where only async-signal-safe code may run if
    // the process has other threads, which could hold a lock. This process has one thread, and the closure makes system
    // calls only.
    unsafe { command.pre_exec(prepare) };
    command
}

/// Makes a pipe, and returns its ends to read and to write. The user owns it, so that the command can open it as
/// /dev/stdout.
fn make_pipe(task: &GuestTask) -> Result<(OwnedFd, OwnedFd)> {
    let ends = pipe2(OFlag::O_CLOEXEC).context("can't make a pipe")?;
    let (user, group) = (Uid::from_raw(task.user), Gid::from_raw(task.group));
    fchown(&ends.0, Some(user), Some(group)).context("can't make the user the owner of a pipe")?;
    Ok(ends)
}

/// Opens a terminal that the user owns, with the size of the caller's terminal.
fn open_terminal(task: &GuestTask) -> Result<OpenptyResult> {
    let size = task.size.unwrap_or(TerminalSize {
        rows: 24,
        columns: 80,
    });
    let terminal = openpty(Some(&winsize(size)), None).context("can't open a terminal")?;
    let owner = Some(Uid::from_raw(task.user));
    fchown(&terminal.slave, owner, None)
        .context("can't make the user the owner of the terminal")?;
    fchmod(&terminal.slave, Mode::from_bits_truncate(0o620))
        .context("can't set the permissions of the terminal")?;
    if !task.has_keys {
        // The caller's terminal is not raw, and adds carriage returns to new lines itself.
        let mut settings = tcgetattr(&terminal.slave)
            .context("can't read the settings of the virtual machine's terminal")?;
        settings.output_flags.remove(OutputFlags::OPOST);
        tcsetattr(&terminal.slave, SetArg::TCSANOW, &settings)
            .context("can't change the settings of the virtual machine's terminal")?;
    }
    Ok(terminal)
}

/// Converts a size to the kernel's structure.
pub(super) fn winsize(size: TerminalSize) -> Winsize {
    Winsize {
        ws_row: size.rows,
        ws_col: size.columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

/// Returns the exit code and the message for a working directory that the guest does not have.
fn missing_directory(task: &GuestTask) -> (u8, String) {
    let directory = task.directory.to_string_lossy();
    let message = format!(
        "pmctl: the virtual machine has no directory {directory}: /dev, /proc and /sys are its own. Run the command in another directory.\n"
    );
    (exit::NO_COUNT, message)
}

/// Returns the exit code and the message for a working directory that QEMU can't reach.
fn unreadable_directory(task: &GuestTask) -> (u8, String) {
    let directory = task.directory.to_string_lossy();
    let message = format!(
        "pmctl: the virtual machine can't reach {directory}: QEMU runs with your rights, and you may not read one of the \
         directories above it. Run the command in another directory, or have its permissions changed.\n"
    );
    (exit::NO_COUNT, message)
}

/// Returns the exit code and the message for a command that can't be run.
fn not_runnable(task: &GuestTask, error: &io::Error) -> (u8, String) {
    let program = task.words.first().cloned().unwrap_or_else(OsString::new);
    let code = if error.kind() == io::ErrorKind::NotFound {
        exit::NOT_FOUND
    } else {
        exit::NOT_EXECUTABLE
    };
    (
        code,
        format!(
            "pmctl: can't run `{}`: {}\n",
            program.to_string_lossy(),
            error_text(error)
        ),
    )
}
