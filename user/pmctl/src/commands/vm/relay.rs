// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host's main loop: bytes between the caller's streams and the guest, and signals for the command.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::unistd::read;

use super::results::Results;
use super::task::{GuestEnd, Size};
use super::terminal::{self, RawTerminal};
use super::wire::{CHUNK, Channel, Message, Stream};
use crate::system::signals::{Event, Signals};
use crate::system::stdio::complain;

/// Bytes that a pipe takes without blocking when poll(2) says that it takes any: POSIX's `PIPE_BUF`.
const PIPE_BUF: usize = 4096;

/// One of the caller's streams that the guest writes to.
struct Output {
    stream: Stream,
    file: File,
    /// Bytes that are not written yet.
    pending: Vec<u8>,
    is_closed: bool,
    /// The stream takes no more, but not because its reader has gone.
    has_failed: bool,
}

/// The end of a run.
pub(super) enum RunOutcome {
    /// The command has ended.
    Ended(GuestEnd),
    /// The guest can't run it.
    Failed(String),
    /// The machine ended by itself.
    Dead,
    /// A signal came before the command ran, or a second one after the first.
    Stopped(Signal),
}

/// The caller's side.
pub(super) struct HostRelay {
    channel: Channel<UnixStream>,
    signals: Signals,
    outputs: Vec<Output>,
    terminal: Option<RawTerminal>,
    results: Results,
    input: InputState,
    has_started: bool,
    /// When a machine that has sent nothing is given up.
    deadline: Option<Instant>,
    /// Signals that have asked for the end.
    asked: Vec<Signal>,
}

/// Standard input.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InputState {
    /// More is wanted.
    Wanted,
    /// The command has not taken the last bytes yet.
    Waits,
    /// Standard input has ended, or the command has closed it.
    Over,
}

impl HostRelay {
    /// Connects the caller's streams with a machine. Those in `is_terminal` are one.
    pub(super) fn new(
        socket: UnixStream,
        signals: Signals,
        is_terminal: [bool; 3],
        results: Results,
    ) -> Result<Self> {
        let terminal = RawTerminal::of_caller();
        let mut outputs = Vec::new();
        let mut add = |stream, descriptor: BorrowedFd<'_>| -> Result<()> {
            let own = descriptor
                .try_clone_to_owned()
                .context("can't share a stream")?;
            outputs.push(Output::new(stream, own.into()));
            Ok(())
        };
        let (output, error) = (io::stdout(), io::stderr());
        if !is_terminal[1] {
            add(Stream::Output, output.as_fd())?;
        }
        if !is_terminal[2] {
            add(Stream::Error, error.as_fd())?;
        }
        match &terminal {
            Some(terminal) => add(Stream::Terminal, terminal.as_fd())?,
            None if is_terminal[1] => add(Stream::Terminal, output.as_fd())?,
            None => add(Stream::Terminal, error.as_fd())?,
        }
        Ok(Self {
            channel: channel(socket)?,
            signals,
            outputs,
            input: if is_terminal[0] && terminal.is_none() {
                InputState::Over
            } else {
                InputState::Wanted
            },
            terminal,
            results,
            has_started: false,
            deadline: None,
            asked: Vec::new(),
        })
    }

    /// Connects the streams with another machine, where the first one has started nothing.
    pub(super) fn connect(&mut self, socket: UnixStream) -> Result<()> {
        self.channel = channel(socket)?;
        Ok(())
    }

    /// Returns the size of the caller's terminal.
    pub(super) fn size(&self) -> Option<Size> {
        let terminal = |output: &&Output| output.stream == Stream::Terminal;
        terminal::size(self.outputs.iter().find(terminal)?.file.as_fd())
    }

    /// Returns whether keys go to the guest.
    pub(super) const fn has_keys(&self) -> bool {
        self.terminal.is_some()
    }

    /// Returns whether something that the command wrote did not arrive.
    pub(super) fn has_lost(&self) -> bool {
        self.results.has_failed || self.outputs.iter().any(|output| output.has_failed)
    }

    /// Returns the files that are wanted.
    pub(super) const fn results(&self) -> &Results {
        &self.results
    }

    /// Returns whether a run was over before the machine had started the command, and not because of a signal.
    pub(super) const fn has_never_started(&self, outcome: &Result<RunOutcome>) -> bool {
        !self.has_started && matches!(outcome, Ok(RunOutcome::Failed(_) | RunOutcome::Dead))
    }

    /// Sends a first message, and passes everything on until the command ends, or until the machine has sent nothing at all for
    /// so long.
    pub(super) fn run(
        &mut self,
        first: &Message,
        patience: Option<Duration>,
    ) -> Result<RunOutcome> {
        self.deadline = patience.map(|patience| Instant::now() + patience);
        let sent = self.channel.send(first);
        let mut done = sent.map(|()| None).map_err(anyhow::Error::from);
        loop {
            match done {
                Ok(None) => done = self.step(),
                Ok(Some(outcome)) => return Ok(outcome),
                Err(error) if is_end(&error) => return Ok(RunOutcome::Dead),
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits, and does what can be done.
    fn step(&mut self) -> Result<Option<RunOutcome>> {
        let has_input = self.wait()?;
        if let Some(signal) = self.take_signals()? {
            return Ok(Some(RunOutcome::Stopped(signal)));
        }
        if has_input {
            self.read_input()?;
        }
        self.channel.flush()?;
        self.write_outputs()?;
        while !self.is_blocked() {
            let Some(message) = self.channel.receive()? else {
                break;
            };
            self.deadline = None;
            if let Some(outcome) = self.handle_message(message)? {
                return Ok(Some(outcome));
            }
            self.write_outputs()?;
        }
        if self.deadline.is_some_and(|end| Instant::now() >= end) {
            return Ok(Some(RunOutcome::Failed("it sends nothing".to_owned())));
        }
        Ok(None)
    }

    /// Waits until something can be done, and returns whether standard input has something.
    fn wait(&self) -> Result<bool> {
        let mut channel = PollFlags::empty();
        if self.channel.has_outgoing() {
            channel |= PollFlags::POLLOUT;
        }
        if !self.is_blocked() {
            channel |= PollFlags::POLLIN;
        }
        let mut polled = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        // The channel's end would be told again and again, also when nothing is waited for.
        if !channel.is_empty() {
            polled.push(PollFd::new(self.channel.file.as_fd(), channel));
        }
        let blocked = self
            .outputs
            .iter()
            .filter(|output| !output.pending.is_empty());
        polled.extend(blocked.map(|output| PollFd::new(output.file.as_fd(), PollFlags::POLLOUT)));
        let input = io::stdin();
        let reads = self.has_started && self.input == InputState::Wanted;
        if reads {
            polled.push(PollFd::new(input.as_fd(), PollFlags::POLLIN));
        }
        match poll(&mut polled, self.time_left()) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno).context("can't wait for the virtual machine"),
        }
        // An end or an error is told by reading, too.
        let last = polled
            .last()
            .and_then(PollFd::revents)
            .unwrap_or(PollFlags::empty());
        Ok(reads && !last.is_empty())
    }

    /// Returns the time until the machine is given up.
    fn time_left(&self) -> PollTimeout {
        let Some(deadline) = self.deadline else {
            return PollTimeout::NONE;
        };
        let left = deadline.saturating_duration_since(Instant::now());
        // Up to the next millisecond, for poll(2) counts in them.
        PollTimeout::try_from(left.as_micros().div_ceil(1000)).unwrap_or(PollTimeout::MAX)
    }

    /// Returns whether a stream of the caller's takes no more.
    fn is_blocked(&self) -> bool {
        self.outputs.iter().any(|output| !output.pending.is_empty())
    }

    /// Passes signals on; returns one that ends the machine.
    fn take_signals(&mut self) -> Result<Option<Signal>> {
        loop {
            match self.signals.next()? {
                Event::Nothing => return Ok(None),
                Event::Resized => {
                    if let Some(size) = self.size() {
                        self.channel.send(&Message::Resize(size))?;
                    }
                }
                Event::End { signal, .. } => {
                    if !self.has_started || self.asked.contains(&signal) {
                        return Ok(Some(signal));
                    }
                    self.asked.push(signal);
                    self.channel.send(&Message::Signal(signal as i32))?;
                }
                // QEMU's end closes the socket.
                Event::Child | Event::Other | Event::Switch => {}
            }
        }
    }

    /// Reads what there is of standard input.
    fn read_input(&mut self) -> Result<()> {
        let mut bytes = vec![0; CHUNK];
        // Not by std's standard input, which reads ahead.
        match read(io::stdin(), &mut bytes) {
            Ok(0) => {
                self.input = InputState::Over;
                self.channel.send(&Message::End(Stream::Input))?;
            }
            Ok(length) => {
                bytes.truncate(length);
                self.input = InputState::Waits;
                self.channel.send(&Message::Data(Stream::Input, bytes))?;
            }
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            // A terminal that is gone, for one.
            Err(_) => {
                self.input = InputState::Over;
                self.channel.send(&Message::End(Stream::Input))?;
            }
        }
        Ok(())
    }

    /// Writes what the caller's streams take.
    fn write_outputs(&mut self) -> Result<()> {
        for output in &mut self.outputs {
            if output.write() {
                self.channel.send(&Message::Closed(output.stream))?;
            }
        }
        Ok(())
    }

    /// Does what a message says.
    fn handle_message(&mut self, message: Message) -> Result<Option<RunOutcome>> {
        match message {
            Message::Started => {
                self.has_started = true;
                if let Some(terminal) = &mut self.terminal {
                    terminal.make_raw()?;
                }
            }
            Message::Taken if self.input == InputState::Waits => self.input = InputState::Wanted,
            Message::Closed(Stream::Input) => self.input = InputState::Over,
            Message::Data(Stream::File, bytes) => self.results.add(&bytes),
            Message::Data(stream, bytes) => self.take(stream, bytes),
            Message::File(found) => self.results.begin(&found),
            Message::End(Stream::File) => self.results.finish(),
            Message::Ended(ended) => return Ok(Some(RunOutcome::Ended(ended))),
            Message::Failed(reason) => return Ok(Some(RunOutcome::Failed(reason))),
            Message::AskTime => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH);
                self.channel.send(&Message::Time(now.unwrap_or_default()))?;
                self.channel.flush()?;
            }
            Message::Ready | Message::End(_) | Message::Taken => {}
            _ => bail!("the virtual machine sends what only the host may send"),
        }
        Ok(None)
    }

    fn take(&mut self, stream: Stream, bytes: Vec<u8>) {
        let output = self
            .outputs
            .iter_mut()
            .find(|output| output.stream == stream);
        if let Some(output) = output.filter(|output| !output.is_closed) {
            output.pending.extend(bytes);
        }
    }
}

impl Output {
    fn new(stream: Stream, file: File) -> Self {
        Self {
            stream,
            file,
            pending: Vec::new(),
            is_closed: false,
            has_failed: false,
        }
    }

    /// Writes as much as the stream takes without blocking, and returns whether it has been closed.
    fn write(&mut self) -> bool {
        let mut done = 0;
        while done < self.pending.len() {
            let mut polled = [PollFd::new(self.file.as_fd(), PollFlags::POLLOUT)];
            if poll(&mut polled, PollTimeout::ZERO).unwrap_or(0) == 0 {
                break;
            }
            let end = self.pending.len().min(done + PIPE_BUF);
            match self.file.write(&self.pending[done..end]) {
                Ok(length) => done += length,
                Err(error)
                    if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                Err(error) => {
                    if error.kind() != ErrorKind::BrokenPipe {
                        complain(format_args!(
                            "can't pass on what the command writes: {error}"
                        ));
                        self.has_failed = true;
                    }
                    self.pending.clear();
                    self.is_closed = true;
                    return true;
                }
            }
        }
        self.pending.drain(..done);
        false
    }
}

/// Connects with a machine.
fn channel(socket: UnixStream) -> Result<Channel<UnixStream>> {
    socket.set_nonblocking(true).context("can't set a socket")?;
    Ok(Channel::new(socket))
}

/// Returns whether an error says that the machine is gone.
fn is_end(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref().map(io::Error::kind);
    matches!(
        kind,
        Some(ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
    )
}
