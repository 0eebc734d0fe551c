// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command whose run is counted: it is forked first and executed later, so that the counters can start
//! in between.

use std::env;
use std::ffi::{CString, OsStr, OsString, c_char};
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::ptr;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::sys::stat::Mode;
use nix::unistd::{AccessFlags, ForkResult, Pid, access, fork, pipe2};

use crate::{system::exit, system::files, system::signals};

/// Returns the file of this program, to run it once more.
pub(crate) fn own_program() -> PathBuf {
    // Tables and profiles show the file's name. The other path is right even if the file was replaced.
    let program = env::current_exe().ok().filter(|program| program.exists());
    program.unwrap_or_else(|| "/proc/self/exe".into())
}

/// A step in the forked process, whose result is a number that is not negative.
pub(crate) type ChildStep = fn() -> Result<i32, Errno>;

/// Standard streams of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Streams {
    /// The command reads and writes those of pmctl.
    Own,
    /// The command writes to standard error in place of standard output, which is needed for something else.
    Error,
    /// The command reads nothing, and what it writes to standard output is thrown away.
    None,
}

/// A command that was found.
#[derive(Debug)]
pub(crate) struct Command {
    /// Path of its program, so that the search is not counted.
    path: CString,
    arguments: Vec<CString>,
    streams: Streams,
    /// The last step before it is executed.
    preparation: Option<ChildStep>,
}

impl Command {
    /// Finds the program of a command as a shell does.
    ///
    /// # Errors
    /// [`CannotRun`] if there is none.
    pub(crate) fn find(words: &[OsString]) -> Result<Self> {
        let program = words.first().map_or(OsStr::new(""), OsString::as_os_str);
        let path = env::var_os("PATH").unwrap_or_else(|| OsString::from("/bin:/usr/bin"));
        let found = search(program, &path).map_err(|errno| CannotRun::new(program, errno))?;
        let string = |word: OsString| CString::new(word.into_vec());
        let arguments = words.iter().cloned().map(string).collect::<Result<_, _>>();
        Ok(Self {
            path: string(found.into()).context("the command holds a NUL character")?,
            arguments: arguments.context("the command holds a NUL character")?,
            streams: Streams::Own,
            preparation: None,
        })
    }

    /// Gives the command other standard streams.
    pub(crate) fn with(self, streams: Streams) -> Self {
        Self { streams, ..self }
    }

    /// Lets the forked process do something before it executes the command; [`Waiting::prepared`] gives the result.
    pub(crate) fn prepared(self, preparation: ChildStep) -> Self {
        Self {
            preparation: Some(preparation),
            ..self
        }
    }
}

/// Returns the path of a program; a name with a slash is one. That it can be executed is seen here, before
/// anything is written: a recording of `./no/such`, made twice, would cost the one before.
fn search(program: &OsStr, path: &OsStr) -> Result<PathBuf, Errno> {
    if program.as_bytes().contains(&b'/') {
        if Path::new(program).is_dir() {
            return Err(Errno::EACCES);
        }
        return access(program, AccessFlags::X_OK).map(|()| program.into());
    }
    let mut reason = Errno::ENOENT;
    for folder in env::split_paths(path) {
        // An empty one is the current folder, and must not become a name without a slash.
        let candidate = Path::new(".").join(folder).join(program);
        if program.is_empty() || !candidate.is_file() {
            continue;
        }
        match access(&candidate, AccessFlags::X_OK) {
            Ok(()) => return Ok(candidate),
            Err(errno) => reason = errno,
        }
    }
    Err(reason)
}

/// A command that can't be run, and the reason.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CannotRun {
    program: OsString,
    errno: Errno,
}

impl CannotRun {
    fn new(program: &OsStr, errno: Errno) -> Self {
        Self {
            program: program.to_owned(),
            errno,
        }
    }

    /// Returns the exit code that a shell would have in `$?`.
    pub(crate) fn exit_code(&self) -> u8 {
        if self.errno == Errno::ENOENT {
            exit::NOT_FOUND
        } else {
            exit::NOT_EXECUTABLE
        }
    }
}

impl fmt::Display for CannotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "can't run `{}`: {}",
            self.program.to_string_lossy(),
            self.errno.desc()
        )
    }
}

impl std::error::Error for CannotRun {}

/// A forked process that waits to execute a command.
pub(crate) struct Waiting<'a> {
    command: &'a Command,
    pid: Pid,
    gate: Gate,
    /// Gets the error if the command can't be executed.
    failure: File,
}

/// End of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Exited with this code.
    Exit(i32),
    /// Killed by the signal of this number, which may be a real-time one: [`Signal`] has none of these.
    Killed(i32),
}

impl Ending {
    /// Returns the exit code that a shell would have in `$?`.
    pub(crate) fn exit_code(self) -> u8 {
        let code = match self {
            Self::Exit(code) => code,
            Self::Killed(signal) => 128 + signal,
        };
        u8::try_from(code).unwrap_or(u8::MAX)
    }

    /// Returns what a shell would print; `None` after an exit or SIGINT.
    pub(crate) fn in_words(self) -> Option<String> {
        match self {
            Self::Exit(_) | Self::Killed(libc::SIGINT) => None,
            Self::Killed(signal) => Some(format!("the command was killed by {}", name_of(signal))),
        }
    }
}

/// Returns the name of a signal; `signal 40` of a real-time one, whose names differ from one C library to the other.
pub(crate) fn name_of(signal: i32) -> String {
    Signal::try_from(signal).map_or_else(
        |_| format!("signal {signal}"),
        |signal| signal.as_str().to_owned(),
    )
}

/// Reaps a child that has ended: this one, or any. `None` if none has and `options` has `WNOHANG`. Not nix's function,
/// which takes a child that a real-time signal has killed away and gives an error in place of its end.
pub(crate) fn reap(child: Option<Pid>, options: i32) -> Result<Option<(Pid, Ending)>, Errno> {
    let child = child.map_or(-1, Pid::as_raw);
    let mut status = 0;
    loop {
        // SAFETY: It writes to the number only, which outlives the call.
        let ended = Errno::result(unsafe { libc::waitpid(child, &raw mut status, options) })?;
        let ending = if libc::WIFSIGNALED(status) {
            Ending::Killed(libc::WTERMSIG(status))
        } else {
            Ending::Exit(libc::WEXITSTATUS(status))
        };
        // A child that asks to be traced by its parent is told of when it stops, too.
        if ended == 0 || !libc::WIFSTOPPED(status) {
            return Ok((ended != 0).then_some((Pid::from_raw(ended), ending)));
        }
    }
}

impl<'a> Waiting<'a> {
    /// Forks; the child gets the signal mask `mask` back before it becomes the command. When this returns,
    /// it has nothing left to do but that.
    pub(crate) fn fork(command: &'a Command, mask: &SigSet) -> Result<Self> {
        let (gate, mut shut) = gate()?;
        let (failure, report) = pipe()?;
        // SAFETY: pmctl has one thread, so that the child finds no lock held by a thread that it has not:
        // it may allocate and call whatever it likes. It leaves `run` by exec or exit only.
        match unsafe { fork() }.context("can't fork")? {
            ForkResult::Child => {
                // Else the child would hold the gate shut itself when the parent is gone.
                drop(gate);
                run(command, mask, &mut shut, report)
            }
            ForkResult::Parent { child: pid } => {
                // Else the child's end would never be seen, whatever happens to it.
                drop((shut, report));
                let gate = gate.wait().context("the forked process died")?;
                Ok(Self {
                    command,
                    pid,
                    gate,
                    failure,
                })
            }
        }
    }

    /// Returns the process number, which the command keeps.
    pub(crate) fn pid(&self) -> u32 {
        self.pid.as_raw().unsigned_abs()
    }

    /// Returns the result of the command's [preparation](Command::prepared).
    pub(crate) fn prepared(&mut self) -> Result<i32, Errno> {
        let mut answer = [0; 4];
        // It died without an answer.
        if self.failure.read_exact(&mut answer).is_err() {
            return Err(Errno::ECHILD);
        }
        match i32::from_ne_bytes(answer) {
            errno if errno < 0 => Err(Errno::from_raw(-errno)),
            number => Ok(number),
        }
    }

    /// Executes the command.
    ///
    /// # Errors
    /// [`CannotRun`]; the process is gone then.
    pub(crate) fn release(mut self) -> Result<Running> {
        self.gate.open().context("the forked process died")?;
        let mut errno = [0; 4];
        // A successful exec closes the other end.
        if self.failure.read(&mut errno)? < errno.len() {
            return Ok(Running {
                pid: self.pid,
                _remains: (self.gate, self.failure),
            });
        }
        reap(Some(self.pid), 0)?;
        let errno = Errno::from_raw(i32::from_ne_bytes(errno));
        let program = OsStr::from_bytes(self.command.arguments[0].to_bytes());
        Err(CannotRun::new(program, errno).into())
    }
}

/// The parent's side of the place where the child waits: inside of a single system call, which also tells that it
/// waits. If it told so with one call and waited with another, what it executes in between would be counted or not by
/// chance.
///
/// The call is a write of one byte more than a pipe holds. So when there is a byte to read, the child is in the call,
/// and it stays there until the pipe is emptied.
#[derive(Debug)]
struct Gate {
    pipe: File,
    content: Vec<u8>,
}

/// The child's side of a [`Gate`].
struct ChildGate {
    pipe: File,
    content: Vec<u8>,
}

fn gate() -> Result<(Gate, ChildGate)> {
    let (read, write) = pipe()?;
    // The kernel rounds up to a page, and writes page by page: a byte that is read makes no room.
    let size = fcntl(&write, FcntlArg::F_SETPIPE_SZ(1)).context("can't make a small pipe")?;
    let size = usize::try_from(size).context("a pipe has no size")?;
    let gate = Gate {
        pipe: read,
        content: vec![0; size - 1],
    };
    Ok((
        gate,
        ChildGate {
            pipe: write,
            content: vec![0; size + 1],
        },
    ))
}

impl Gate {
    /// Waits until the child waits.
    fn wait(mut self) -> io::Result<Self> {
        self.pipe.read_exact(&mut [0])?;
        Ok(self)
    }

    /// Lets the child continue.
    fn open(&mut self) -> io::Result<()> {
        self.pipe.read_exact(&mut self.content)
    }
}

impl ChildGate {
    /// Waits until the parent opens the gate.
    fn pass(&mut self) -> io::Result<()> {
        self.pipe.write_all(&self.content)
    }
}

/// A running command.
#[derive(Debug)]
pub(crate) struct Running {
    pid: Pid,
    /// Freed with the process and not before: freeing takes a varying number of instructions, which may be counted.
    _remains: (Gate, File),
}

impl Running {
    /// Returns how it ended, if it has.
    pub(crate) fn ending(&self) -> Result<Option<Ending>> {
        let ended = reap(Some(self.pid), libc::WNOHANG).context("the command was lost")?;
        Ok(ended.map(|(_, ending)| ending))
    }

    /// Sends a signal to the command; nothing happens if it has ended.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = kill(self.pid, signal);
    }
}

fn pipe() -> Result<(File, File)> {
    let (read, write): (OwnedFd, OwnedFd) = pipe2(OFlag::O_CLOEXEC).context("can't make a pipe")?;
    Ok((read.into(), write.into()))
}

/// Runs in the child: prepares, waits for the parent, executes the command.
fn run(command: &Command, mask: &SigSet, gate: &mut ChildGate, mut report: File) -> ! {
    // All of it before the gate: what comes after must not depend on the command.
    let pointers = command.arguments.iter().map(|argument| argument.as_ptr());
    let arguments: Vec<*const c_char> = pointers.chain([ptr::null()]).collect();
    let ready = restore_signals(mask)
        .and_then(|()| files::restore_limit())
        .and_then(|()| redirect(command.streams));
    if let Some(preparation) = command.preparation {
        let answer = preparation().unwrap_or_else(|errno| -(errno as i32));
        let _ = report.write_all(&answer.to_ne_bytes());
    }
    // It fails, or SIGPIPE ends the process, if the parent is gone or gave up.
    if gate.pass().is_ok() {
        let errno = match ready {
            Ok(()) => {
                // SAFETY: The path and each argument are strings that end with a NUL and outlive the call, for
                // `command` does; the array of the arguments ends with a null pointer.
                unsafe { libc::execvp(command.path.as_ptr(), arguments.as_ptr()) };
                // With a slash in the path, this was no search. It differs from execve(2) only in that a
                // script without `#!` runs.
                Errno::last()
            }
            Err(errno) => errno,
        };
        let _ = report.write_all(&(errno as i32).to_ne_bytes());
    }
    // SAFETY: It ends the process. Not `std::process::exit`: what the parent left to be done at its exit,
    // as to flush its output, is not the child's to do.
    unsafe { libc::_exit(0) }
}

/// Restores the signals for the command.
fn restore_signals(mask: &SigSet) -> Result<(), Errno> {
    signals::restore_defaults()?;
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(mask), None)
}

/// Sets up the standard streams.
fn redirect(streams: Streams) -> Result<(), Errno> {
    match streams {
        Streams::Own => {}
        Streams::Error => {
            // SAFETY: It takes two numbers and no memory. Standard output belongs to this process, which becomes the
            // command, and nothing is left to be written to it.
            Errno::result(unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) })?;
        }
        Streams::None => {
            let null = open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())?;
            for stream in [libc::STDIN_FILENO, libc::STDOUT_FILENO] {
                // SAFETY: It takes two numbers and no memory. Both streams belong to this process, which becomes the
                // command.
                Errno::result(unsafe { libc::dup2(null.as_raw_fd(), stream) })?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_path_is_not_searched() {
        let found = |path| search(OsStr::new(path), OsStr::new("/bin"));
        assert_eq!(found("/bin/sh"), Ok(PathBuf::from("/bin/sh")));
        assert_eq!(found("./sh"), Err(Errno::ENOENT));
        assert_eq!(found("/dev/null"), Err(Errno::EACCES));
    }

    #[test]
    fn the_first_that_can_be_executed_is_taken() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        for (name, mode) in [("plain", 0o644), ("program", 0o755)] {
            fs::create_dir(folder.path().join(name)).expect("it is new");
            let file = folder.path().join(name).join("tool");
            fs::write(&file, "").expect("it is ours");
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("it is ours");
        }
        let both = env::join_paths([folder.path().join("plain"), folder.path().join("program")]);
        let found = search(OsStr::new("tool"), &both.expect("no colon in it"));
        assert_eq!(found, Ok(folder.path().join("program/tool")));
        // Without any x bit, root may not execute it either.
        let plain = folder.path().join("plain");
        assert_eq!(
            search(OsStr::new("tool"), plain.as_os_str()),
            Err(Errno::EACCES)
        );
        assert_eq!(
            search(OsStr::new("none"), plain.as_os_str()),
            Err(Errno::ENOENT)
        );
        assert_eq!(
            search(OsStr::new(""), plain.as_os_str()),
            Err(Errno::ENOENT)
        );
    }

    #[test]
    fn a_gate_holds_until_it_is_opened() {
        let (gate, mut shut) = gate().expect("a pipe can be made");
        let child = std::thread::spawn(move || shut.pass());
        let mut gate = gate.wait().expect("the thread writes");
        // A thread that has left the call can't have been held.
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!child.is_finished());
        gate.open().expect("the thread still writes");
        child
            .join()
            .expect("it does not panic")
            .expect("the gate was opened");
    }

    #[test]
    fn a_gate_that_is_gone_holds_nobody() {
        let (gate, mut shut) = gate().expect("a pipe can be made");
        drop(gate);
        assert!(shut.pass().is_err());
    }

    #[test]
    fn a_folder_is_no_program() {
        assert_eq!(
            search(OsStr::new("bin"), OsStr::new("/usr")),
            Err(Errno::ENOENT)
        );
        assert_eq!(search(OsStr::new("/"), OsStr::new("")), Err(Errno::EACCES));
    }

    #[test]
    fn who_was_killed_is_told_by_the_signal() {
        let words = |ending: Ending| ending.in_words();
        assert_eq!(words(Ending::Exit(1)), None);
        assert_eq!(words(Ending::Killed(libc::SIGINT)), None);
        let crash = words(Ending::Killed(libc::SIGSEGV));
        assert_eq!(crash.as_deref(), Some("the command was killed by SIGSEGV"));
        let real_time = words(Ending::Killed(40));
        assert_eq!(
            real_time.as_deref(),
            Some("the command was killed by signal 40")
        );
    }

    #[test]
    fn any_signal_is_an_end() {
        for (script, ending) in [
            ("exit 7", Ending::Exit(7)),
            ("kill -9 $$", Ending::Killed(9)),
            ("kill -40 $$", Ending::Killed(40)),
        ] {
            let mut shell = std::process::Command::new("sh");
            // Reaped below, and not by its handle.
            let shell = shell.args(["-c", script]).spawn();
            let number = shell.map(|child| child.id()).expect("it is there");
            let pid = Pid::from_raw(i32::try_from(number).expect("it is a small number"));
            assert_eq!(reap(Some(pid), 0), Ok(Some((pid, ending))), "{script}");
        }
    }

    #[test]
    fn a_stop_is_no_end() {
        let mut shell = std::process::Command::new("sh");
        let trace = || {
            // SAFETY: It asks to be traced by the parent, and takes no memory. From then on, exec stops it.
            let asked = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
            Errno::result(asked).map(drop).map_err(io::Error::from)
        };
        // SAFETY: The closure makes a system call and allocates nothing.
        unsafe { std::os::unix::process::CommandExt::pre_exec(&mut shell, trace) };
        let number = shell.spawn().map(|child| child.id()).expect("it is there");
        let pid = Pid::from_raw(i32::try_from(number).expect("it is a small number"));
        for _ in 0..20 {
            assert_eq!(reap(Some(pid), libc::WNOHANG), Ok(None));
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        kill(pid, Signal::SIGKILL).expect("it is stopped");
        assert_eq!(reap(Some(pid), 0), Ok(Some((pid, Ending::Killed(9)))));
    }

    #[test]
    fn exit_codes_are_a_shells() {
        assert_eq!(Ending::Exit(7).exit_code(), 7);
        assert_eq!(Ending::Killed(libc::SIGKILL).exit_code(), 137);
        assert_eq!(Ending::Killed(40).exit_code(), 168);
        let cannot = |errno| CannotRun::new(OsStr::new("x"), errno).exit_code();
        assert_eq!((cannot(Errno::ENOENT), cannot(Errno::EACCES)), (127, 126));
    }
}
