// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host's main loop: relays bytes between the caller's streams and the guest, and relays signals to the command.

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

use super::results::ResultFiles;
use super::start_watch::StartWatch;
use super::task::{GuestEnd, TerminalSize};
use super::terminal::{self, RawTerminal};
use super::wire::{CHUNK_SIZE, Channel, Message, Stream};
use crate::system::signals::{BlockedSignals, Event};
use crate::system::stdio::complain;

/// Number of bytes that can be written to a pipe without blocking when poll(2) reports the pipe as writable (POSIX).
const PIPE_BUF: usize = 4096;

/// A stream of the caller that receives output of the guest.
struct CallerStream {
    stream: Stream,
    file: File,
    /// Bytes that are not written yet.
    pending: Vec<u8>,
    is_closed: bool,
    /// Writing failed, and not because the reader has closed the stream.
    has_failed: bool,
}

/// The end of a run.
pub(super) enum RunOutcome {
    /// The command has ended.
    Ended(GuestEnd),
    /// The guest can't run the command, for this reason.
    Failed(String),
    /// The machine ended without an answer.
    Dead,
    /// A signal came before the command ran, or the same signal came again after a second.
    Stopped(Signal),
}

/// The host's side of a run.
pub(super) struct HostRelay {
    channel: Channel<UnixStream>,
    signals: BlockedSignals,
    outputs: Vec<CallerStream>,
    terminal: Option<RawTerminal>,
    results: ResultFiles,
    input: InputState,
    has_started: bool,
    /// The watch of the machine, until its first message.
    watch: Option<StartWatch>,
    /// Signals that were relayed to the command.
    relayed_signals: RelayedSignals,
}

/// The signals that were relayed to the command, each with the time of the first one.
#[derive(Default)]
struct RelayedSignals(Vec<(Signal, Instant)>);

/// The effect of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reaction {
    Relay,
    Ignore,
    EndMachine,
}

impl RelayedSignals {
    /// Time in which the same signal counts as one. timeout(1) sends its signal to pmctl, and then to the process group of
    /// pmctl.
    const REPEAT_TIME: Duration = Duration::from_secs(1);

    /// Notes a signal that came at `now`, and returns what it causes.
    fn reaction_to(&mut self, signal: Signal, now: Instant) -> Reaction {
        let mut known = self.0.iter().filter(|(known, _)| *known == signal);
        match known.next() {
            None => {
                self.0.push((signal, now));
                Reaction::Relay
            }
            Some((_, first)) if now.duration_since(*first) < Self::REPEAT_TIME => Reaction::Ignore,
            Some(_) => Reaction::EndMachine,
        }
    }
}

/// State of standard input.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InputState {
    /// Standard input is to be read.
    Reading,
    /// The guest has not written the last bytes to the command yet.
    Waiting,
    /// Standard input has ended, or the command has closed it.
    Ended,
}

impl HostRelay {
    /// Connects the caller's streams with a machine. `is_terminal` tells which of the three standard streams are a terminal.
    pub(super) fn new(
        socket: UnixStream,
        signals: BlockedSignals,
        is_terminal: [bool; 3],
        results: ResultFiles,
    ) -> Result<Self> {
        let terminal = RawTerminal::of_caller();
        let mut outputs = Vec::new();
        let mut add = |stream, descriptor: BorrowedFd<'_>| -> Result<()> {
            let own_copy = descriptor
                .try_clone_to_owned()
                .context("can't duplicate a standard stream")?;
            outputs.push(CallerStream::new(stream, own_copy.into()));
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
            channel: open_channel(socket)?,
            signals,
            outputs,
            input: if is_terminal[0] && terminal.is_none() {
                InputState::Ended
            } else {
                InputState::Reading
            },
            terminal,
            results,
            has_started: false,
            watch: None,
            relayed_signals: RelayedSignals::default(),
        })
    }

    /// Connects the streams with another machine, after the first one did not start the command.
    pub(super) fn connect(&mut self, socket: UnixStream) -> Result<()> {
        self.channel = open_channel(socket)?;
        Ok(())
    }

    /// Returns the size of the caller's terminal.
    pub(super) fn size(&self) -> Option<TerminalSize> {
        let terminal = |output: &&CallerStream| output.stream == Stream::Terminal;
        terminal::size(self.outputs.iter().find(terminal)?.file.as_fd())
    }

    /// Returns whether the caller's keys are sent to the guest as they are typed.
    pub(super) const fn has_keys(&self) -> bool {
        self.terminal.is_some()
    }

    /// Returns whether output or a file of the command could not be written.
    pub(super) fn has_lost_output(&self) -> bool {
        self.results.has_failed || self.outputs.iter().any(|output| output.has_failed)
    }

    /// Returns the files that are copied to the host.
    pub(super) const fn results(&self) -> &ResultFiles {
        &self.results
    }

    /// Returns whether a run has failed before the machine had started the command.
    pub(super) const fn has_never_started(&self, outcome: &Result<RunOutcome>) -> bool {
        !self.has_started && matches!(outcome, Ok(RunOutcome::Failed(_) | RunOutcome::Dead))
    }

    /// Sends a first message, and relays everything until the command ends. The outcome is [`RunOutcome::Failed`] if `watch`
    /// finds that the machine is broken before it has sent a message.
    pub(super) fn run(&mut self, first: &Message, watch: StartWatch) -> Result<RunOutcome> {
        self.watch = Some(watch);
        let send_result = self.channel.send(first);
        let mut result = send_result.map(|()| None).map_err(anyhow::Error::from);
        loop {
            match result {
                Ok(None) => result = self.handle_next(),
                Ok(Some(outcome)) => return Ok(outcome),
                Err(error) if is_disconnect(&error) => return Ok(RunOutcome::Dead),
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for an event and handles it. Returns the end of the run, if it has ended.
    fn handle_next(&mut self) -> Result<Option<RunOutcome>> {
        let has_input = self.wait()?;
        if let Some(signal) = self.handle_signals()? {
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
            self.watch = None;
            if let Some(outcome) = self.handle_message(message)? {
                return Ok(Some(outcome));
            }
            self.write_outputs()?;
        }
        if self.watch.as_mut().is_some_and(StartWatch::check_is_broken) {
            return Ok(Some(RunOutcome::Failed("it does not answer".to_owned())));
        }
        Ok(None)
    }

    /// Waits until a stream, the channel or a signal can be handled. Returns whether standard input can be read.
    fn wait(&self) -> Result<bool> {
        let mut channel_events = PollFlags::empty();
        if self.channel.has_outgoing() {
            channel_events |= PollFlags::POLLOUT;
        }
        if !self.is_blocked() {
            channel_events |= PollFlags::POLLIN;
        }
        let mut poll_fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        // Without requested events, poll(2) would still report a closed channel, again and again.
        if !channel_events.is_empty() {
            poll_fds.push(PollFd::new(self.channel.file.as_fd(), channel_events));
        }
        let blocked_outputs = self
            .outputs
            .iter()
            .filter(|output| !output.pending.is_empty());
        poll_fds.extend(
            blocked_outputs.map(|output| PollFd::new(output.file.as_fd(), PollFlags::POLLOUT)),
        );
        let input = io::stdin();
        let reads_input = self.has_started && self.input == InputState::Reading;
        if reads_input {
            poll_fds.push(PollFd::new(input.as_fd(), PollFlags::POLLIN));
        }
        match poll(&mut poll_fds, self.time_left()) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno).context("can't wait for the virtual machine"),
        }
        // Reading also reports the end of the input, or an error. Standard input is the last descriptor.
        let input_events = poll_fds
            .last()
            .and_then(PollFd::revents)
            .unwrap_or(PollFlags::empty());
        Ok(reads_input && !input_events.is_empty())
    }

    /// Returns the time until the next look at a machine that has not sent a message.
    fn time_left(&self) -> PollTimeout {
        self.watch
            .as_ref()
            .map_or(PollTimeout::NONE, StartWatch::time_left)
    }

    /// Returns whether output waits because a stream of the caller is full.
    fn is_blocked(&self) -> bool {
        self.outputs.iter().any(|output| !output.pending.is_empty())
    }

    /// Relays signals to the command. Returns a signal if it has to end the machine.
    fn handle_signals(&mut self) -> Result<Option<Signal>> {
        loop {
            match self.signals.next()? {
                Event::Nothing => return Ok(None),
                Event::Resized => {
                    if let Some(size) = self.size() {
                        self.channel.send(&Message::Resize(size))?;
                    }
                }
                Event::End { signal, .. } => {
                    if !self.has_started {
                        return Ok(Some(signal));
                    }
                    match self.relayed_signals.reaction_to(signal, Instant::now()) {
                        Reaction::Relay => self.channel.send(&Message::Signal(signal as i32))?,
                        Reaction::Ignore => {}
                        Reaction::EndMachine => return Ok(Some(signal)),
                    }
                }
                // When QEMU ends, the socket is closed too, which reading the channel reports.
                Event::Child | Event::Other | Event::Switch => {}
            }
        }
    }

    /// Reads the available bytes of standard input, and sends them to the guest.
    fn read_input(&mut self) -> Result<()> {
        let mut bytes = vec![0; CHUNK_SIZE];
        // `std::io::Stdin` would read more than is sent.
        match read(io::stdin(), &mut bytes) {
            Ok(0) => {
                self.input = InputState::Ended;
                self.channel.send(&Message::End(Stream::Input))?;
            }
            Ok(length) => {
                bytes.truncate(length);
                self.input = InputState::Waiting;
                self.channel.send(&Message::Data(Stream::Input, bytes))?;
            }
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            // Reading fails, for example, if the terminal was closed.
            Err(_) => {
                self.input = InputState::Ended;
                self.channel.send(&Message::End(Stream::Input))?;
            }
        }
        Ok(())
    }

    /// Writes pending output to the caller's streams, as much as they take.
    fn write_outputs(&mut self) -> Result<()> {
        for output in &mut self.outputs {
            if output.write() {
                self.channel.send(&Message::Closed(output.stream))?;
            }
        }
        Ok(())
    }

    /// Handles a message from the guest. Returns the end of the run, if it has ended.
    fn handle_message(&mut self, message: Message) -> Result<Option<RunOutcome>> {
        match message {
            Message::Started => {
                self.has_started = true;
                if let Some(terminal) = &mut self.terminal {
                    terminal.make_raw()?;
                }
            }
            Message::InputWritten if self.input == InputState::Waiting => {
                self.input = InputState::Reading;
            }
            Message::Closed(Stream::Input) => self.input = InputState::Ended,
            Message::Data(Stream::File, bytes) => self.results.append(&bytes),
            Message::Data(stream, bytes) => self.queue_output(stream, bytes),
            Message::File(file) => self.results.begin_file(&file),
            Message::End(Stream::File) => self.results.finish_file(),
            Message::Ended(ended) => return Ok(Some(RunOutcome::Ended(ended))),
            Message::Failed(reason) => return Ok(Some(RunOutcome::Failed(reason))),
            Message::AskTime => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH);
                self.channel.send(&Message::Time(now.unwrap_or_default()))?;
                self.channel.flush()?;
            }
            Message::Ready | Message::End(_) | Message::InputWritten => {}
            _ => bail!("the virtual machine has sent a message that only the host may send"),
        }
        Ok(None)
    }

    /// Appends output of the guest to the bytes that are to be written to a stream.
    fn queue_output(&mut self, stream: Stream, bytes: Vec<u8>) {
        let is_raw = self.terminal.as_ref().is_some_and(RawTerminal::is_raw);
        queue_output(&mut self.outputs, (stream, bytes), is_raw);
    }
}

/// Appends output of the guest to the bytes that are to be written to a stream. If there is no pipe
/// for the stream, the output goes to the terminal: an example is the guest's messages when
/// standard error is the terminal. In raw mode, lines on the terminal end with a carriage return
/// and a line feed.
fn queue_output(outputs: &mut [CallerStream], (stream, bytes): (Stream, Vec<u8>), is_raw: bool) {
    let has_stream = outputs.iter().any(|output| output.stream == stream);
    let (stream, bytes) = match (has_stream, is_raw) {
        (true, _) => (stream, bytes),
        (false, false) => (Stream::Terminal, bytes),
        (false, true) => (Stream::Terminal, with_carriage_returns(&bytes)),
    };
    let mut outputs = outputs.iter_mut();
    let output = outputs.find(|output| output.stream == stream && !output.is_closed);
    if let Some(output) = output {
        output.pending.extend(bytes);
    }
}

/// Puts a carriage return in front of each line feed.
fn with_carriage_returns(bytes: &[u8]) -> Vec<u8> {
    let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    lines.join(&b"\r\n"[..])
}

impl CallerStream {
    fn new(stream: Stream, file: File) -> Self {
        Self {
            stream,
            file,
            pending: Vec::new(),
            is_closed: false,
            has_failed: false,
        }
    }

    /// Writes as much as the stream takes without blocking. Returns whether the stream was closed.
    fn write(&mut self) -> bool {
        let mut written_bytes = 0;
        while written_bytes < self.pending.len() {
            let mut poll_fds = [PollFd::new(self.file.as_fd(), PollFlags::POLLOUT)];
            if poll(&mut poll_fds, PollTimeout::ZERO).unwrap_or(0) == 0 {
                break;
            }
            let end = self.pending.len().min(written_bytes + PIPE_BUF);
            match self.file.write(&self.pending[written_bytes..end]) {
                Ok(length) => written_bytes += length,
                Err(error)
                    if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                Err(error) => {
                    if error.kind() != ErrorKind::BrokenPipe {
                        complain(format_args!(
                            "can't write the output of the command: {error}"
                        ));
                        self.has_failed = true;
                    }
                    self.pending.clear();
                    self.is_closed = true;
                    return true;
                }
            }
        }
        self.pending.drain(..written_bytes);
        false
    }
}

/// Creates a non-blocking channel to a machine.
fn open_channel(socket: UnixStream) -> Result<Channel<UnixStream>> {
    socket
        .set_nonblocking(true)
        .context("can't make QEMU's socket non-blocking")?;
    Ok(Channel::new(socket))
}

/// Returns whether an error means that the machine has closed the connection.
fn is_disconnect(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref().map(io::Error::kind);
    matches!(
        kind,
        Some(ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_comes_twice_at_once_is_one() {
        let mut signals = RelayedSignals::default();
        let begin = Instant::now();
        let mut reaction_at = |signal, milliseconds| {
            signals.reaction_to(signal, begin + Duration::from_millis(milliseconds))
        };
        assert_eq!(reaction_at(Signal::SIGTERM, 0), Reaction::Relay);
        assert_eq!(reaction_at(Signal::SIGTERM, 999), Reaction::Ignore);
        assert_eq!(reaction_at(Signal::SIGINT, 999), Reaction::Relay);
        assert_eq!(reaction_at(Signal::SIGTERM, 1000), Reaction::EndMachine);
    }

    fn pending_of(streams: &[Stream], message: (Stream, &str), is_raw: bool) -> Vec<String> {
        let output = |stream: &Stream| {
            let file = File::open("/dev/null").expect("it can be opened");
            CallerStream::new(*stream, file)
        };
        let mut outputs: Vec<_> = streams.iter().map(output).collect();
        let (stream, text) = message;
        queue_output(&mut outputs, (stream, text.into()), is_raw);
        let text = |output: CallerStream| String::from_utf8(output.pending).expect("it is text");
        outputs.into_iter().map(text).collect()
    }

    #[test]
    fn messages_for_standard_error_go_to_the_terminal_that_it_is() {
        let message = (Stream::Error, "can't run\nit\n");
        let both = [Stream::Error, Stream::Terminal];
        assert_eq!(pending_of(&both, message, true), ["can't run\nit\n", ""]);
        let terminal = [Stream::Output, Stream::Terminal];
        assert_eq!(
            pending_of(&terminal, message, true),
            ["", "can't run\r\nit\r\n"]
        );
        assert_eq!(
            pending_of(&terminal, message, false),
            ["", "can't run\nit\n"]
        );
    }
}
