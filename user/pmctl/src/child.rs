// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command whose run is counted: it is forked first and executed later, so that the counters can start
//! in between.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::libc;
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, kill, signal, sigprocmask};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, execvp, fork, pipe2};

/// A process that waits to become the command.
pub(crate) struct Waiting {
    pid: Pid,
    /// Closed without a byte, it ends the process.
    go: File,
    /// Nothing comes if the command runs, else why it can't be run.
    failure: File,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With this exit code.
    Exit(i32),
    /// By this signal.
    Killed(Signal),
}

impl Ending {
    /// What a shell's `$?` would be.
    pub(crate) fn exit_code(self) -> u8 {
        let code = match self {
            Self::Exit(code) => code,
            Self::Killed(signal) => 128 + signal as i32,
        };
        u8::try_from(code).unwrap_or(u8::MAX)
    }
}

impl Waiting {
    /// Forks; the child gets the signal mask `mask` back before it becomes the command.
    pub(crate) fn fork(command: &[OsString], mask: &SigSet) -> Result<Self> {
        let command: Vec<CString> = command
            .iter()
            .map(|word| CString::new(word.clone().into_vec()))
            .collect::<Result<_, _>>()
            .context("the command holds a NUL character")?;
        let (wait, go) = pipe()?;
        let (failure, report) = pipe()?;
        // SAFETY: pmctl has one thread, so that the child finds no lock held by a thread that it has not:
        // it may allocate and call whatever it likes. It leaves `run` by exec or exit only.
        match unsafe { fork() }.context("can't fork")? {
            ForkResult::Child => {
                // Else the parent's end of it would never be seen.
                drop(go);
                run(&command, mask, wait, report)
            }
            ForkResult::Parent { child } => Ok(Self {
                pid: child,
                go,
                failure,
            }),
        }
    }

    /// Lets it become the command.
    ///
    /// # Errors
    /// Why the command can't be run; the process is gone then.
    pub(crate) fn release(mut self) -> Result<Running, Errno> {
        let io = |error: std::io::Error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
        self.go.write_all(&[1]).map_err(io)?;
        let mut errno = [0; 4];
        // A successful exec closes the other end.
        if self.failure.read(&mut errno).map_err(io)? < errno.len() {
            return Ok(Running { pid: self.pid });
        }
        waitpid(self.pid, None)?;
        Err(Errno::from_raw(i32::from_ne_bytes(errno)))
    }
}

/// The command, while it runs.
#[derive(Debug)]
pub(crate) struct Running {
    pid: Pid,
}

impl Running {
    /// How it ended, if it has.
    pub(crate) fn ending(&self) -> Result<Option<Ending>> {
        Ok(
            match waitpid(self.pid, Some(WaitPidFlag::WNOHANG)).context("the command was lost")? {
                WaitStatus::Exited(_, code) => Some(Ending::Exit(code)),
                WaitStatus::Signaled(_, signal, _) => Some(Ending::Killed(signal)),
                _ => None,
            },
        )
    }

    /// Hands a signal on. If it is gone already there is nobody to tell.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = kill(self.pid, signal);
    }
}

fn pipe() -> Result<(File, File)> {
    let (read, write): (OwnedFd, OwnedFd) = pipe2(OFlag::O_CLOEXEC).context("can't make a pipe")?;
    Ok((read.into(), write.into()))
}

/// The child's part: gets ready, waits for the byte, becomes the command.
fn run(command: &[CString], mask: &SigSet, mut wait: File, mut report: File) -> ! {
    // What can be done before the counters start is not counted.
    let ready = restore_signals(mask);
    // Without the byte, the parent is gone or gave up.
    if wait.read_exact(&mut [0]).is_ok() {
        let Err(errno) = ready.and_then(|()| execvp(&command[0], command));
        let _ = report.write_all(&(errno as i32).to_ne_bytes());
    }
    // SAFETY: It ends the process. Not `std::process::exit`: what the parent left to be done at its exit,
    // as to flush its output, is not the child's to do.
    unsafe { libc::_exit(0) }
}

/// Gives the signals back the meaning that a command expects.
fn restore_signals(mask: &SigSet) -> Result<(), Errno> {
    // SAFETY: The default action runs no code of this process. Rust ignores SIGPIPE from its start on, and
    // exec would hand that down.
    unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) }?;
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(mask), None)
}
