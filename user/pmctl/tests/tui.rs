// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report on the whole screen, at a real terminal: a pseudoterminal, whose master the test holds.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::signal::{SigHandler, Signal, kill, signal};
use nix::sys::termios::{LocalFlags, Termios, tcgetattr};
use nix::unistd::Pid;

const RECORDING: &str = "tests/recordings/callers.data";
/// Time after which pmctl counts as hanging: a hundred times as long as on an idle host.
const LIMIT: Duration = Duration::from_secs(120);
/// The sequence that switches to the alternate screen.
const ENTER: &str = "\x1b[?1049h";
/// The sequence that switches back to the main screen.
const LEAVE: &str = "\x1b[?1049l";
const SHOW_CURSOR: &str = "\x1b[?25h";

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

mod calls {
    #![allow(missing_docs, reason = "the macros' functions have none")]
    nix::ioctl_write_ptr_bad!(set_size, nix::libc::TIOCSWINSZ, nix::pty::Winsize);
    nix::ioctl_none_bad!(take_terminal, nix::libc::TIOCSCTTY);
}

/// pmctl at a terminal.
struct Session {
    child: Child,
    master: File,
    slave: OwnedFd,
    modes_before: Termios,
    /// All that pmctl has written.
    text: String,
    screen: vt100::Parser,
}

impl Session {
    fn new(arguments: &[&str]) -> Self {
        Self::with(arguments, |_| {})
    }

    fn with(arguments: &[&str], change: impl FnOnce(&mut Command)) -> Self {
        Self::with_size(size(80, 24), arguments, change)
    }

    /// Starts pmctl at a terminal that reports the size `window`. The test's own screen has 80 columns and 24 rows.
    fn with_size(window: Winsize, arguments: &[&str], change: impl FnOnce(&mut Command)) -> Self {
        // A child that another test starts before FD_CLOEXEC is set would inherit this terminal.
        static STARTS: Mutex<()> = Mutex::new(());
        let start_lock = STARTS.lock();
        let OpenptyResult { master, slave } = openpty(&window, None).expect("a terminal is made");
        fcntl(&master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).expect("it is open");
        fcntl(&slave, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).expect("it is open");
        let modes_before = tcgetattr(&slave).expect("it is a terminal");
        let end = || Stdio::from(slave.try_clone().expect("it is open"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_pmctl"));
        command
            .args(arguments)
            .env("TERM", "xterm")
            .env_remove("NO_COLOR")
            .env_remove("COLUMNS")
            .env_remove("LINES")
            .stdin(end())
            .stdout(end())
            .stderr(end());
        // SAFETY: `pre_exec` requires a closure that is safe between fork and exec, where only
        // async-signal-safe code may run: this closure makes three system calls, setsid(2),
        // ioctl(2) and sigaction(2), and allocates nothing. `signal` requires a handler that is
        // safe to run, and the default action is none. `take_terminal` requires the argument that
        // TIOCSCTTY takes: none.
        unsafe {
            command.pre_exec(|| {
                nix::unistd::setsid()?;
                calls::take_terminal(0)?;
                // The tests may be run by nohup(1).
                signal(Signal::SIGHUP, SigHandler::SigDfl)?;
                Ok(())
            });
        }
        change(&mut command);
        let child = command.spawn().expect("it was built");
        drop(start_lock);
        fcntl(&master, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("it is open");
        Self {
            child,
            master: master.into(),
            slave,
            modes_before,
            text: String::new(),
            screen: vt100::Parser::new(24, 80, 0),
        }
    }

    /// Reads one part of the output that has arrived, and returns whether there was any.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 1 << 12];
        match self.master.read(&mut bytes) {
            Ok(number) => {
                self.text += &String::from_utf8_lossy(&bytes[..number]);
                self.screen.process(&bytes[..number]);
                number > 0
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(10));
                false
            }
            // The other end is closed.
            Err(_) => false,
        }
    }

    /// Waits until the output contains `text`.
    fn wait_for(&mut self, text: &str) -> &mut Self {
        let start = Instant::now();
        while !self.text.contains(text) {
            assert!(start.elapsed() < LIMIT, "no `{text}` in {:?}", self.text);
            self.read();
        }
        self
    }

    /// Waits until the screen shows `text`.
    fn wait_for_screen(&mut self, text: &str) -> &mut Self {
        let start = Instant::now();
        while !self.screen.screen().contents().contains(text) {
            let screen = self.screen.screen().contents();
            assert!(start.elapsed() < LIMIT, "no `{text}` on\n{screen}");
            self.read();
        }
        self
    }

    /// Types `keys` at the terminal.
    fn send_keys(&mut self, keys: &str) -> &mut Self {
        self.master.write_all(keys.as_bytes()).expect("it is read");
        self
    }

    fn send_signal(&mut self, signal: Signal) -> &mut Self {
        let pid = i32::try_from(self.child.id()).expect("an ID of a process");
        kill(Pid::from_raw(pid), signal).expect("it is ours");
        self
    }

    fn is_raw(&self) -> bool {
        let modes = tcgetattr(self.slave.as_fd()).expect("it is a terminal");
        !modes.local_flags.contains(LocalFlags::ICANON)
    }

    /// Waits until pmctl ends, and returns its status.
    fn wait_for_end(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                while self.read() {}
                return status;
            }
            assert!(start.elapsed() < LIMIT, "it does not end: {:?}", self.text);
            self.read();
        }
    }

    /// Checks that the terminal has its modes from before, its main screen and its cursor. The kernel may deliver the
    /// last output after the end of pmctl.
    fn assert_restored(&mut self) {
        let modes = tcgetattr(self.slave.as_fd()).expect("it is a terminal");
        assert_eq!(modes, self.modes_before);
        self.wait_for(LEAVE).wait_for(SHOW_CURSOR);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn report() -> Session {
    let mut session = Session::new(&["report", "-i", RECORDING]);
    session
        .wait_for(ENTER)
        .wait_for_screen("[.] outer")
        .wait_for_screen(" q  quit");
    assert!(session.is_raw());
    session
}

#[test]
fn keys_work_and_q_leaves_the_terminal_as_it_was() {
    let mut session = report();
    session
        .send_keys("E")
        .wait_for_screen("__libc_start_call_main");
    session.send_keys("/outer").wait_for_screen("/outer_ ");
    session.send_keys("\r").wait_for_screen("[outer]  q  quit");
    let message = "pmctl_origins is not on this machine";
    session.send_keys("a").wait_for_screen(message);
    session.send_keys("h").wait_for_screen("Press any key");
    session.send_keys("xq");
    assert_eq!(session.wait_for_end().code(), Some(0));
    session.assert_restored();
}

#[test]
fn a_box_has_characters_of_the_locale() {
    let locales = [
        ("C", "en_US.UTF-8", "+ Keys -"),
        ("", "C", "+ Keys -"),
        ("", "", "+ Keys -"),
        ("", "en_US.utf8", "\u{250c} Keys \u{2500}"),
        ("C.UTF-8", "C", "\u{250c} Keys \u{2500}"),
    ];
    for (all, lang, top) in locales {
        let mut session = Session::with(&["report", "-i", RECORDING], |command| {
            let command = command.env_remove("LC_CTYPE");
            command.env("LC_ALL", all).env("LANG", lang);
        });
        session
            .wait_for_screen(" q  quit")
            .send_keys("h")
            .wait_for_screen(top);
        session.send_keys("xq");
        assert_eq!(session.wait_for_end().code(), Some(0));
    }
}

#[test]
fn a_new_size_is_drawn() {
    let mut session = report();
    session.screen.set_size(6, 30);
    let window = size(30, 6);
    // SAFETY: TIOCSWINSZ requires a pointer to a `struct winsize`, which it reads: `window` is one, and lives until the
    // call returns.
    unsafe { calls::set_size(std::os::fd::AsRawFd::as_raw_fd(&session.master), &window) }
        .expect("set");
    session.wait_for_screen("\n\n q  quit   /  search   h  help");
    session.send_keys("\x03");
    assert_eq!(session.wait_for_end().code(), Some(0));
    session.assert_restored();
}

#[test]
fn a_terminal_that_does_not_know_its_size_has_that_of_the_environment_or_the_usual_one() {
    let arguments = ["report", "-i", RECORDING];
    for (columns, lines, keys) in [
        ("30", "6", "\n\n q  quit   /  search   h  help"),
        ("30", "0", "a  annotate"),
        ("", "6", "a  annotate"),
    ] {
        let mut session = Session::with_size(size(0, 0), &arguments, |command| {
            command.env("COLUMNS", columns).env("LINES", lines);
        });
        session.wait_for_screen("pmctl_orig").wait_for_screen(keys);
        session.send_keys("q");
        assert_eq!(session.wait_for_end().code(), Some(0));
        session.assert_restored();
    }
}

#[test]
fn signals_end_pmctl_and_the_terminal_is_restored() {
    for (signal, code) in [
        (Signal::SIGTERM, 143),
        (Signal::SIGHUP, 129),
        (Signal::SIGINT, 130),
    ] {
        let mut session = report();
        assert_eq!(
            session.send_signal(signal).wait_for_end().code(),
            Some(code)
        );
        session.assert_restored();
    }
}

#[test]
fn pmctl_ends_when_the_terminal_is_gone() {
    for is_ignored in [false, true] {
        let mut session = Session::with(&["report", "-i", RECORDING], |command| {
            if is_ignored {
                // nohup(1) ignores the signal in the same way.
                // SAFETY: `pre_exec` requires a closure that is safe between fork and exec, where
                // only async-signal-safe code may run: this closure makes one system call,
                // sigaction(2), and allocates nothing. `signal` requires a handler that is safe to
                // run, and SIG_IGN is none.
                unsafe {
                    command.pre_exec(|| {
                        signal(Signal::SIGHUP, SigHandler::SigIgn)?;
                        Ok(())
                    });
                }
            }
        });
        session.wait_for_screen("[.] outer");
        session.master = File::open("/dev/null").expect("it is there");
        let status = session.wait_for_end();
        // The kernel sends SIGHUP twice, to the session's leader and to the foreground process group. The second one may
        // arrive after pmctl has restored the default action.
        let ended_as_expected =
            status.code() == Some(129) || !is_ignored && status.signal() == Some(1);
        assert!(ended_as_expected, "{status:?}, ignored: {is_ignored}");
    }
}

#[test]
fn a_report_is_text_with_options_for_text_and_on_dumb_terminals() {
    for (arguments, term) in [
        (&["--stdio", "--no-pager"][..], "xterm"),
        (&["--no-pager"], "xterm"),
        (&[], "dumb"),
    ] {
        let mut command_line = vec!["report", "-i", RECORDING];
        command_line.extend(arguments);
        let mut session = Session::with(&command_line, |command| {
            command.env("TERM", term).env("PAGER", "cat");
        });
        session.wait_for("overhead");
        assert_eq!(session.wait_for_end().code(), Some(0));
        assert!(!session.text.contains(ENTER), "{command_line:?}");
    }
}

#[test]
fn a_file_that_can_not_be_read_is_an_error_on_the_main_screen() {
    let mut session = Session::new(&["report", "-i", "Cargo.toml"]);
    session.wait_for("this is not a perf.data file");
    assert_eq!(session.wait_for_end().code(), Some(1));
    assert!(!session.text.contains(ENTER));
}
