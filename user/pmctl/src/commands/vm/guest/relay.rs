// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guest's main loop: relays bytes between the command and the host, and signals to the command, until the command
//! ends.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::Winsize;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::statvfs::statvfs;
use nix::unistd::Pid;

use super::super::task::{GuestEnd, TerminalSize};
use super::super::wire::{CHUNK_SIZE, Channel, Message, Stream};
use super::command::{GuestProcess, winsize};
use crate::system::child::{self, Ending};
use crate::system::signals::BlockedSignals;

nix::ioctl_write_ptr_bad!(set_size, libc::TIOCSWINSZ, Winsize);

/// State of the relay while the command runs.
struct GuestRelay<'a> {
    channel: &'a mut Channel<File>,
    signals: BlockedSignals,
    process: Pid,
    /// The writing end of the command's standard input; `None` once it is closed.
    input: Option<File>,
    /// Input that is not written to the command yet.
    pending_input: Vec<u8>,
    /// The host has no more input, so that `input` is to be closed when `pending_input` is empty.
    has_input_ended: bool,
    outputs: Vec<(Stream, File)>,
    terminal: Option<OwnedFd>,
    /// The buffer for reading output.
    chunk: Vec<u8>,
}

/// Relays the command's streams and signals until it ends.
pub(super) fn run(channel: &mut Channel<File>, running: GuestProcess) -> Result<GuestEnd> {
    // Holds SIGCHLD before the command can end.
    let signals = BlockedSignals::hold()?;
    channel.send(&Message::Started)?;
    let process = match running.process {
        Ok(process) => process,
        Err((code, message)) => {
            channel.send(&Message::Data(Stream::Error, message.into_bytes()))?;
            return Ok(GuestEnd {
                code,
                ..GuestEnd::default()
            });
        }
    };
    let mut relay = GuestRelay {
        channel,
        signals,
        process,
        input: Some(running.input),
        pending_input: Vec::new(),
        has_input_ended: false,
        outputs: running.outputs,
        terminal: running.terminal,
        chunk: vec![0; CHUNK_SIZE],
    };
    let code = loop {
        if let Some(ending) = relay.reap()? {
            break ending.exit_code();
        }
        relay.wait()?;
        while let Some(message) = relay.channel.receive().context(HOST_CLOSED)? {
            relay.handle_message(message);
        }
        relay.write_input()?;
        relay.channel.flush()?;
        if !relay.channel.is_full() {
            relay.send_outputs()?;
        }
    };
    relay.finish()?;
    Ok(GuestEnd {
        code,
        out_of_memory: has_killed_for_memory().unwrap_or(false),
        out_of_room: statvfs("/").is_ok_and(|facts| facts.blocks_available() == 0),
        asked_network: fs::read_to_string("/proc/net/snmp")
            .is_ok_and(|text| has_asked_network(&text)),
    })
}

impl GuestRelay<'_> {
    /// Waits for a message, a signal, output of the command, or room for its input.
    fn wait(&self) -> Result<()> {
        let mut events = PollFlags::POLLIN;
        if self.channel.has_outgoing() {
            events |= PollFlags::POLLOUT;
        }
        let mut poll_fds = vec![
            PollFd::new(self.channel.file.as_fd(), events),
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
        ];
        if !self.channel.is_full() {
            poll_fds.extend(
                self.outputs
                    .iter()
                    .map(|(_, file)| PollFd::new(file.as_fd(), PollFlags::POLLIN)),
            );
        }
        if let Some(input) = &self.input {
            let wanted_events = if self.pending_input.is_empty() {
                PollFlags::empty()
            } else {
                PollFlags::POLLOUT
            };
            // Without requested events, poll(2) still reports that the command has closed its input.
            poll_fds.push(PollFd::new(input.as_fd(), wanted_events));
        }
        match poll(&mut poll_fds, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno).context("can't wait for the command's streams"),
        }
    }

    /// Reaps all processes that have ended, and returns how the command ended if it is among them.
    fn reap(&mut self) -> Result<Option<Ending>> {
        while self.signals.next()? != crate::system::signals::Event::Nothing {}
        let mut ending = None;
        loop {
            match child::reap(None, libc::WNOHANG) {
                Ok(Some((pid, end))) if pid == self.process => ending = Some(end),
                Ok(Some(_)) => {}
                Ok(None) | Err(Errno::ECHILD) => return Ok(ending),
                Err(errno) => return Err(errno).context("can't wait for the command"),
            }
        }
    }

    /// Handles a message from the host.
    fn handle_message(&mut self, message: Message) {
        match message {
            Message::Data(Stream::Input, bytes) => self.pending_input.extend(bytes),
            Message::End(Stream::Input) => self.has_input_ended = true,
            Message::Closed(stream) => self.outputs.retain(|(output, _)| *output != stream),
            Message::Signal(number) => {
                if let Ok(signal) = Signal::try_from(number) {
                    // Sending the signal fails if the process group has ended already.
                    let _ = killpg(self.process, signal);
                }
            }
            Message::Resize(size) => self.resize(size),
            _ => {}
        }
    }

    /// Sets the size of the command's terminal.
    fn resize(&self, size: TerminalSize) {
        if let Some(terminal) = &self.terminal {
            let size = winsize(size);
            // SAFETY: TIOCSWINSZ reads a `winsize` from the pointer, which is that of the live local `size`.
            // A failure leaves the old size.
            let _ = unsafe { set_size(terminal.as_raw_fd(), &raw const size) };
        }
    }

    /// Writes pending input to the command, as much as it takes.
    fn write_input(&mut self) -> Result<()> {
        let Some(input) = &mut self.input else {
            return Ok(());
        };
        if is_closed(input) {
            return self.close_input();
        }
        while !self.pending_input.is_empty() {
            match input.write(&self.pending_input) {
                Ok(length) => drop(self.pending_input.drain(..length)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(_) => return self.close_input(),
            }
            if self.pending_input.is_empty() {
                self.channel.send(&Message::InputWritten)?;
            }
        }
        if self.has_input_ended {
            self.input = None;
        }
        Ok(())
    }

    /// Closes the command's input, and reports to the host that the command reads no more.
    fn close_input(&mut self) -> Result<()> {
        self.pending_input.clear();
        self.input = None;
        Ok(self.channel.send(&Message::Closed(Stream::Input))?)
    }

    /// Sends output of the command to the host, up to a chunk of each stream.
    fn send_outputs(&mut self) -> Result<()> {
        let mut ended_streams = Vec::new();
        for (stream, file) in &mut self.outputs {
            match file.read(&mut self.chunk) {
                Ok(0) => ended_streams.push(*stream),
                Ok(length) => self.channel.send_data(*stream, &self.chunk[..length])?,
                Err(error) if is_temporary(&error) => {}
                Err(error) => return Err(error).context("can't read what the command writes"),
            }
        }
        for stream in ended_streams {
            self.outputs.retain(|(output, _)| *output != stream);
            self.channel.send(&Message::End(stream))?;
        }
        Ok(())
    }

    /// Kills the processes that still run after the command, and sends the rest of the output.
    fn finish(&mut self) -> Result<()> {
        // -1 means all processes except this one.
        let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
        for (stream, file) in &mut self.outputs {
            loop {
                match file.read(&mut self.chunk) {
                    Ok(0) => break,
                    Ok(length) => self.channel.send_data(*stream, &self.chunk[..length])?,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error).context("can't read what the command wrote"),
                }
                if self.channel.is_full() {
                    flush(self.channel)?;
                }
            }
        }
        Ok(())
    }
}

/// The context of errors of the channel.
const HOST_CLOSED: &str = "the host has closed the connection";

/// Sends all messages that are queued.
pub(super) fn flush(channel: &mut Channel<File>) -> Result<()> {
    loop {
        channel.flush().context(HOST_CLOSED)?;
        if !channel.has_outgoing() {
            return Ok(());
        }
        let mut poll_fds = [PollFd::new(channel.file.as_fd(), PollFlags::POLLOUT)];
        match poll(&mut poll_fds, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno).context("can't wait for the host"),
        }
    }
}

/// Waits until the channel has bytes to read.
pub(super) fn wait_for_input(channel: &Channel<File>) -> Result<()> {
    let mut poll_fds = [PollFd::new(channel.file.as_fd(), PollFlags::POLLIN)];
    match poll(&mut poll_fds, PollTimeout::NONE) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(errno) => Err(errno).context("can't wait for the host"),
    }
}

/// Returns whether all readers of a pipe have closed it.
fn is_closed(input: &File) -> bool {
    let mut poll_fds = [PollFd::new(input.as_fd(), PollFlags::empty())];
    let result = poll(&mut poll_fds, PollTimeout::ZERO);
    result.is_ok_and(|_| {
        poll_fds[0]
            .revents()
            .is_some_and(|events| events.contains(PollFlags::POLLERR))
    })
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock)
}

/// Returns whether the kernel has killed a process because it ran out of memory, by the kernel's log.
fn has_killed_for_memory() -> Result<bool> {
    let mut options = File::options();
    options.read(true).custom_flags(libc::O_NONBLOCK);
    let mut log = options
        .open("/dev/kmsg")
        .context("can't read the kernel's log")?;
    let mut message = vec![0; 8192];
    loop {
        match log.read(&mut message) {
            Ok(0) => return Ok(false),
            Ok(length)
                if String::from_utf8_lossy(&message[..length])
                    .contains("Out of memory: Killed process") =>
            {
                return Ok(true);
            }
            // The next message was overwritten before it was read.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error).context("can't read the kernel's log"),
            Ok(_) => {}
        }
    }
}

/// Returns whether a packet could not be sent to another machine, or was sent by UDP to a loopback port where no program
/// listens, as name resolvers often do. `text` is the content of /proc/net/snmp.
fn has_asked_network(text: &str) -> bool {
    let count = |protocol: &str, name: &str| {
        let is_of_protocol = |line: &&str| line.starts_with(protocol);
        let mut lines = text
            .lines()
            .filter(is_of_protocol)
            .map(str::split_whitespace);
        let (names, values) = (lines.next()?, lines.next()?);
        let (_, value) = names.zip(values).find(|(known, _)| *known == name)?;
        value.parse::<u64>().ok()
    };
    [("Ip:", "OutNoRoutes"), ("Udp:", "NoPorts")]
        .into_iter()
        .any(|(protocol, name)| count(protocol, name).is_some_and(|count| count > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(no_routes: u32, no_ports: u32) -> String {
        format!(
            "Ip: Forwarding DefaultTTL OutDiscards OutNoRoutes ReasmTimeout\nIp: 2 64 7 {no_routes} 8\n\
             Tcp: RtoMin OutRsts\nTcp: 200 9\n\
             Udp: InDatagrams NoPorts InErrors\nUdp: 5 {no_ports} 6\n\
             UdpLite: InDatagrams NoPorts InErrors\nUdpLite: 1 2 3\n"
        )
    }

    #[test]
    fn packets_without_a_route_are_recognized() {
        assert!(!has_asked_network(&counts(0, 0)));
        assert!(has_asked_network(&counts(1, 0)));
        assert!(has_asked_network(&counts(0, 4)));
        assert!(!has_asked_network(""));
        assert!(!has_asked_network("Ip: OutNoRoutes\n"));
    }
}
