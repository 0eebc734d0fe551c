// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command whose run is counted. It is forked first and executed later, so that the counters can be started in
//! between.

use std::env;
use std::ffi::{CString, OsStr, OsString, c_char};
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
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

use crate::system::signals::{self, BlockedSignals, Event};
use crate::system::{exit, files, processes};

/// Returns the path of this program, to run it as another process.
pub(crate) fn own_program() -> PathBuf {
    // Tables and profiles show the name of the file. If it was replaced, only /proc/self/exe is the same program.
    let program = env::current_exe().ok().filter(|program| program.exists());
    program.unwrap_or_else(|| "/proc/self/exe".into())
}

/// A function that runs in the forked process, and returns a number that is not negative.
pub(crate) type ChildStep = fn() -> Result<i32, Errno>;

/// The standard streams of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Streams {
    /// The command uses pmctl's streams.
    Own,
    /// The command's standard output is pmctl's standard error, since pmctl's standard output has other content.
    Error,
    /// Standard input and output of the command are /dev/null.
    None,
}

/// A command whose program was found.
#[derive(Debug)]
pub(crate) struct Command {
    /// Path of the program. It is searched before counting begins.
    path: CString,
    arguments: Vec<CString>,
    streams: Streams,
    /// A function that the forked process calls before it executes the command.
    preparation: Option<ChildStep>,
}

impl Command {
    /// Finds the program of a command, in the same way as a shell.
    ///
    /// # Errors
    /// [`CannotRun`] if there is no such program.
    pub(crate) fn find(words: &[OsString]) -> Result<Self> {
        let program = words.first().map_or(OsStr::new(""), OsString::as_os_str);
        let path = env::var_os("PATH").unwrap_or_else(|| OsString::from("/bin:/usr/bin"));
        let program_path =
            search_program(program, &path).map_err(|errno| CannotRun::new(program, errno))?;
        let string = |word: OsString| CString::new(word.into_vec());
        let arguments = words.iter().cloned().map(string).collect::<Result<_, _>>();
        Ok(Self {
            path: string(program_path.into()).context("the command contains a NUL character")?,
            arguments: arguments.context("the command contains a NUL character")?,
            streams: Streams::Own,
            preparation: None,
        })
    }

    /// Sets the standard streams of the command.
    pub(crate) fn with_streams(self, streams: Streams) -> Self {
        Self { streams, ..self }
    }

    /// Lets the forked process call a function before it executes the command. [`WaitingCommand::preparation_result`] returns
    /// the result.
    pub(crate) fn with_preparation(self, preparation: ChildStep) -> Self {
        Self {
            preparation: Some(preparation),
            ..self
        }
    }
}

/// Returns the path of a program. A name with a slash is a path. The program must be executable: this is checked before
/// anything is written, so that a misspelled command does not replace an earlier recording.
fn search_program(program: &OsStr, path: &OsStr) -> Result<PathBuf, Errno> {
    if program.as_bytes().contains(&b'/') {
        if Path::new(program).is_dir() {
            return Err(Errno::EACCES);
        }
        return access(program, AccessFlags::X_OK).map(|()| program.into());
    }
    let mut reason = Errno::ENOENT;
    for folder in env::split_paths(path) {
        // An empty entry is the current folder. The result must have a slash, so that execvp(3) does not search again.
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

/// Error of a command that can't be run.
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

    /// Returns the exit code that a shell would set `$?` to after this error.
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

/// A forked process that waits for [`release`](Self::release) to execute the command.
pub(crate) struct WaitingCommand<'a> {
    command: &'a Command,
    pid: Pid,
    gate: Gate,
    /// The pipe that receives the result of the preparation and, if the command can't be executed, the error.
    report: File,
}

/// The end of a command: its exit, or the signal that killed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The command exited with this code.
    Exit(i32),
    /// The command was killed by the signal with this number. [`Signal`] can't be used, since it lacks real-time signals.
    Killed(i32),
}

impl Ending {
    /// Returns the exit code that a shell would set `$?` to after this ending.
    pub(crate) fn exit_code(self) -> u8 {
        let code = match self {
            Self::Exit(code) => code,
            Self::Killed(signal) => 128 + signal,
        };
        u8::try_from(code).unwrap_or(u8::MAX)
    }

    /// Returns the message about a killed command; `None` after an exit or SIGINT, for which a shell prints none either.
    pub(crate) fn in_words(self) -> Option<String> {
        match self {
            Self::Exit(_) | Self::Killed(libc::SIGINT) => None,
            Self::Killed(signal) => {
                Some(format!("the command was killed by {}", signal_name(signal)))
            }
        }
    }
}

/// Returns the name of a signal. For real-time signals, whose names depend on the C library, it is like `signal 40`.
pub(crate) fn signal_name(signal: i32) -> String {
    Signal::try_from(signal).map_or_else(
        |_| format!("signal {signal}"),
        |signal| signal.as_str().to_owned(),
    )
}

/// Reaps a child that has ended: the given child, or any child. Returns `None` if no child has
/// ended and `options` includes `WNOHANG`. nix's function is not used, since for a child that was
/// killed by a real-time signal it returns an error although it has reaped the child.
pub(crate) fn reap(child: Option<Pid>, options: i32) -> Result<Option<(Pid, Ending)>, Errno> {
    let child = child.map_or(-1, Pid::as_raw);
    let mut status = 0;
    loop {
        // SAFETY: waitpid(2) writes an integer to the pointer, which is that of the live local `status`.
        let pid = Errno::result(unsafe { libc::waitpid(child, &raw mut status, options) })?;
        let ending = if libc::WIFSIGNALED(status) {
            Ending::Killed(libc::WTERMSIG(status))
        } else {
            Ending::Exit(libc::WEXITSTATUS(status))
        };
        // waitpid(2) also returns when a child stops that is traced by this process. It has not ended then.
        if pid == 0 || !libc::WIFSTOPPED(status) {
            return Ok((pid != 0).then_some((Pid::from_raw(pid), ending)));
        }
    }
}

impl<'a> WaitingCommand<'a> {
    /// Forks a process that will execute the command, with the signal mask `mask`. When this returns, the process has
    /// prepared everything and waits.
    pub(crate) fn fork(command: &'a Command, mask: &SigSet) -> Result<Self> {
        let (gate, mut child_gate) = make_gate()?;
        let (report, child_report) = make_pipe()?;
        // SAFETY: `fork` requires that the child of a process with several threads calls only async-signal-safe functions,
        // since another thread could hold a lock. pmctl has one thread here, so the child may call any function: `wrap`
        // starts its receiver only after the fork, and the other callers start no thread. The child does not return into the
        // code of the parent: `run_child` ends by exec or exit.
        match unsafe { fork() }.context("can't fork")? {
            ForkResult::Child => {
                // The child's gate ends when the parent dies, but only if the child does not hold this end of the pipe
                // open.
                drop(gate);
                run_child(command, mask, &mut child_gate, child_report)
            }
            ForkResult::Parent { child: pid } => {
                // The parent notices the end of the child only if it does not hold these ends of the pipes open.
                drop((child_gate, child_report));
                let gate = gate
                    .wait_for_child_at_gate()
                    .context("the forked process died before it executed the command")?;
                Ok(Self {
                    command,
                    pid,
                    gate,
                    report,
                })
            }
        }
    }

    /// Returns the number of the process, which the command will have too.
    pub(crate) fn pid(&self) -> u32 {
        self.pid.as_raw().unsigned_abs()
    }

    /// Returns the result of the command's [preparation](Command::with_preparation).
    pub(crate) fn preparation_result(&mut self) -> Result<i32, Errno> {
        let mut answer = [0; 4];
        // The child has ended without an answer.
        if self.report.read_exact(&mut answer).is_err() {
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
    /// [`CannotRun`], after the process has ended.
    pub(crate) fn release(mut self) -> Result<RunningCommand> {
        self.gate
            .open()
            .context("the forked process died before it executed the command")?;
        let mut errno = [0; 4];
        // A successful exec closes the other end without a report.
        if self.report.read(&mut errno)? < errno.len() {
            return Ok(RunningCommand {
                pid: self.pid,
                _kept: (self.gate, self.report),
            });
        }
        reap(Some(self.pid), 0)?;
        let errno = Errno::from_raw(i32::from_ne_bytes(errno));
        let program = OsStr::from_bytes(self.command.arguments[0].to_bytes());
        Err(CannotRun::new(program, errno).into())
    }
}

/// The parent's side of the gate, at which the child waits. One system call of the child tells the
/// parent that the child waits, and also makes the child wait. With two calls, the instructions
/// between them would be counted in some runs and not in others.
///
/// The call is a write of one byte more than a pipe holds. When there is a byte to read, the child is in the call, and it
/// stays there until the pipe is emptied.
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

/// Makes both sides of a gate.
fn make_gate() -> Result<(Gate, ChildGate)> {
    let (read, write) = make_pipe()?;
    // The kernel rounds the size up to a page, and writes page by page: reading one byte makes no room for another.
    let size = fcntl(&write, FcntlArg::F_SETPIPE_SZ(1)).context("can't set the size of a pipe")?;
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
    /// Waits until the child waits at the gate.
    fn wait_for_child_at_gate(mut self) -> io::Result<Self> {
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
pub(crate) struct RunningCommand {
    pid: Pid,
    /// Objects that are kept until this is dropped. Freeing them takes a varying number of
    /// instructions, which may be counted.
    _kept: (Gate, File),
}

impl RunningCommand {
    /// Returns the ending of the command; `None` if it still runs.
    pub(crate) fn ending(&self) -> Result<Option<Ending>> {
        let ended_child =
            reap(Some(self.pid), libc::WNOHANG).context("can't wait for the command")?;
        Ok(ended_child.map(|(_, ending)| ending))
    }

    /// Waits until the command has ended, and hands on the signals that ask pmctl to end. For failures of pmctl: they don't
    /// end the command, and pmctl must not end before it.
    pub(crate) fn wait(&self, signals: &BlockedSignals) -> Result<Ending> {
        // Without this descriptor, SIGCHLD ends the wait.
        let process = processes::watch_process(self.pid.as_raw().unsigned_abs());
        let process = process.ok().flatten();
        loop {
            if let Some(ending) = self.ending()? {
                return Ok(ending);
            }
            let event = signals.wait(None, process.as_ref().map(AsFd::as_fd))?;
            // The terminal sends its signals to the command, too.
            if let Event::End {
                signal,
                by_terminal: false,
            } = event
            {
                self.signal(signal);
            }
        }
    }

    /// Sends a signal to the command; nothing happens if it has ended.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = kill(self.pid, signal);
    }
}

fn make_pipe() -> Result<(File, File)> {
    let (read, write): (OwnedFd, OwnedFd) = pipe2(OFlag::O_CLOEXEC).context("can't make a pipe")?;
    Ok((read.into(), write.into()))
}

/// Runs in the child: prepares everything, waits for the parent, and executes the command.
fn run_child(command: &Command, mask: &SigSet, gate: &mut ChildGate, mut report: File) -> ! {
    // These steps come before the gate, since the number of instructions after it must not depend on the command.
    let pointers = command.arguments.iter().map(|argument| argument.as_ptr());
    let arguments: Vec<*const c_char> = pointers.chain([ptr::null()]).collect();
    let setup_result = signals::restore_inherited()
        .and_then(|()| files::restore_limit())
        .and_then(|()| redirect_streams(command.streams));
    if let Some(preparation) = command.preparation {
        let answer = preparation().unwrap_or_else(|errno| -(errno as i32));
        let _ = report.write_all(&answer.to_ne_bytes());
    }
    // If the parent has ended or given up, `pass` fails, or SIGPIPE ends the process.
    if gate.pass().is_ok() {
        // A signal to the whole process group, as Ctrl-C sends it, can end this process only from
        // here on. The parent takes that for the end of the command.
        let errno = match setup_result.and_then(|()| restore_mask(mask)) {
            Ok(()) => {
                // SAFETY: execvp(3) reads strings that end with a NUL: the path and the arguments are `CString`s of
                // `command`, which is borrowed during the call. The array of pointers ends with a null pointer.
                unsafe { libc::execvp(command.path.as_ptr(), arguments.as_ptr()) };
                // The path has a slash, so execvp(3) does not search. Unlike execve(2), it also runs scripts
                // without `#!`.
                Errno::last()
            }
            Err(errno) => errno,
        };
        let _ = report.write_all(&(errno as i32).to_ne_bytes());
    }
    // SAFETY: _exit(2) takes an integer, accesses no memory and does not return. `std::process::exit` would also run what
    // the parent has registered for its exit, such as flushing its output.
    unsafe { libc::_exit(0) }
}

/// Restores the mask of signals for the command.
fn restore_mask(mask: &SigSet) -> Result<(), Errno> {
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(mask), None)
}

/// Sets up the standard streams of the command.
fn redirect_streams(streams: Streams) -> Result<(), Errno> {
    match streams {
        Streams::Own => {}
        Streams::Error => {
            // SAFETY: dup2(2) takes two integers and accesses no memory. It closes standard output, which no Rust
            // object of this forked process uses any more: the process only executes the command.
            Errno::result(unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) })?;
        }
        Streams::None => {
            let null = open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())?;
            for stream in [libc::STDIN_FILENO, libc::STDOUT_FILENO] {
                // SAFETY: dup2(2) takes two integers and accesses no memory. It closes a standard stream, which no Rust
                // object of this forked process uses any more: the process only executes the command.
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
    fn a_name_with_a_slash_is_not_searched() {
        let result_of = |path| search_program(OsStr::new(path), OsStr::new("/bin"));
        assert_eq!(result_of("/bin/sh"), Ok(PathBuf::from("/bin/sh")));
        assert_eq!(result_of("./sh"), Err(Errno::ENOENT));
        assert_eq!(result_of("/dev/null"), Err(Errno::EACCES));
    }

    #[test]
    fn the_first_executable_file_is_found() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        for (name, mode) in [("plain", 0o644), ("program", 0o755)] {
            fs::create_dir(folder.path().join(name)).expect("it is new");
            let file = folder.path().join(name).join("tool");
            fs::write(&file, "").expect("it is ours");
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("it is ours");
        }
        let search_path =
            env::join_paths([folder.path().join("plain"), folder.path().join("program")]);
        let program = search_program(OsStr::new("tool"), &search_path.expect("no colon in it"));
        assert_eq!(program, Ok(folder.path().join("program/tool")));
        // Root may not execute a file without any x bit either.
        let plain_folder = folder.path().join("plain");
        assert_eq!(
            search_program(OsStr::new("tool"), plain_folder.as_os_str()),
            Err(Errno::EACCES)
        );
        assert_eq!(
            search_program(OsStr::new("none"), plain_folder.as_os_str()),
            Err(Errno::ENOENT)
        );
        assert_eq!(
            search_program(OsStr::new(""), plain_folder.as_os_str()),
            Err(Errno::ENOENT)
        );
    }

    #[test]
    fn a_gate_holds_until_it_is_opened() {
        let (gate, mut child_gate) = make_gate().expect("a pipe can be made");
        let child = std::thread::spawn(move || child_gate.pass());
        let mut gate = gate.wait_for_child_at_gate().expect("the thread writes");
        // Without the gate, the thread finishes within this time.
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!child.is_finished());
        gate.open().expect("the thread still writes");
        child
            .join()
            .expect("it does not panic")
            .expect("the gate was opened");
    }

    #[test]
    fn child_continues_if_the_gate_is_dropped() {
        let (gate, mut child_gate) = make_gate().expect("a pipe can be made");
        drop(gate);
        assert!(child_gate.pass().is_err());
    }

    #[test]
    fn a_folder_is_no_program() {
        assert_eq!(
            search_program(OsStr::new("bin"), OsStr::new("/usr")),
            Err(Errno::ENOENT)
        );
        assert_eq!(
            search_program(OsStr::new("/"), OsStr::new("")),
            Err(Errno::EACCES)
        );
    }

    #[test]
    fn the_message_names_the_signal() {
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
    fn any_signal_can_be_the_ending() {
        for (script, ending) in [
            ("exit 7", Ending::Exit(7)),
            ("kill -9 $$", Ending::Killed(9)),
            ("kill -40 $$", Ending::Killed(40)),
        ] {
            let mut shell = std::process::Command::new("sh");
            // The child is reaped below, and not by its handle.
            let shell = shell.args(["-c", script]).spawn();
            let number = shell.map(|child| child.id()).expect("it is there");
            let pid = Pid::from_raw(i32::try_from(number).expect("it is a small number"));
            assert_eq!(reap(Some(pid), 0), Ok(Some((pid, ending))), "{script}");
        }
    }

    #[test]
    fn a_stopped_child_has_not_ended() {
        let mut shell = std::process::Command::new("sh");
        let request_ptrace = || {
            // SAFETY: PTRACE_TRACEME ignores the other arguments and accesses no memory. From then on, exec stops the process.
            let result = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
            Errno::result(result).map(drop).map_err(io::Error::from)
        };
        // SAFETY: `pre_exec` requires a closure that is safe between fork and exec, where only
        // async-signal-safe code may run: this closure makes one system call, and neither allocates
        // memory nor takes locks.
        unsafe { std::os::unix::process::CommandExt::pre_exec(&mut shell, request_ptrace) };
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
    fn exit_codes_are_those_of_a_shell() {
        assert_eq!(Ending::Exit(7).exit_code(), 7);
        assert_eq!(Ending::Killed(libc::SIGKILL).exit_code(), 137);
        assert_eq!(Ending::Killed(40).exit_code(), 168);
        let exit_code = |errno| CannotRun::new(OsStr::new("x"), errno).exit_code();
        assert_eq!(
            (exit_code(Errno::ENOENT), exit_code(Errno::EACCES)),
            (127, 126)
        );
    }
}
