// SPDX-License-Identifier: MIT OR Apache-2.0
//! pmctl as the first process of the virtual machine: sets up the system, runs one command on the host's files, and
//! relays the command's streams.

mod command;
mod files;
mod module;
mod relay;
mod system;

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::reboot::{RebootMode, reboot};
use nix::unistd::{Pid, getpid};

use super::qemu::PORT_NAME;
use super::task::GuestTask;
use super::wire::{Channel, Message};
use crate::system::text::error_text;

/// The argument of the first process, from the kernel's command line.
const GUEST_ARGUMENT: &str = "vm-guest";

/// Returns whether this is the first process of the virtual machine. `words` are its arguments.
pub(crate) fn is_guest(words: &[OsString]) -> bool {
    words.get(1).is_some_and(|word| word == GUEST_ARGUMENT) && getpid() == Pid::from_raw(1)
}

/// Runs the guest's side until the machine ends. Returns only if the machine can't be ended.
pub(crate) fn guest() -> ExitCode {
    if let Err(error) = boot() {
        // Standard error goes to the kernel's log, which the host shows if the machine ends without an answer.
        eprintln!("pmctl: {}", error_text(&error));
    }
    let Err(errno) = reboot(RebootMode::RB_AUTOBOOT);
    eprintln!("pmctl: can't end the machine: {errno}");
    ExitCode::FAILURE
}

/// Sets up the system, and runs the host's command. Sends an error of the command to the host.
fn boot() -> Result<()> {
    system::set_up()?;
    module::load()?;
    let mut channel = open_port()?;
    if let Err(error) = run_host_command(&mut channel) {
        channel.send(&Message::Failed(error_text(&error)))?;
        relay::flush(&mut channel)?;
    }
    Ok(())
}

/// Runs the command that the host names.
fn run_host_command(channel: &mut Channel<File>) -> Result<()> {
    channel.send(&Message::Ready)?;
    let task = receive_task(channel)?;
    system::mount_host_files(&task)?;
    let start_time = match task.clock {
        Some(time) => time,
        None => ask_time(channel)?,
    };
    system::set_clock(start_time)?;
    let stamps_before = files::stamps(&task);
    let running = command::start(&task)?;
    let outcome = relay::run(channel, running)?;
    files::send_changed(channel, &task, &stamps_before)?;
    channel.send(&Message::Ended(outcome))?;
    relay::flush(channel)?;
    // The host ends the machine.
    let end: Result<Infallible> = wait_for_end(channel);
    end.map(drop)
}

fn receive_task(channel: &mut Channel<File>) -> Result<GuestTask> {
    match next_message(channel).context("the host has sent no command")? {
        Message::Start(task) => Ok(task),
        _ => bail!("the host's first message is not a command"),
    }
}

/// Asks the host for its time since 1970.
fn ask_time(channel: &mut Channel<File>) -> Result<Duration> {
    channel.send(&Message::AskTime)?;
    relay::flush(channel)?;
    loop {
        // Other messages, such as a new size of the terminal, may come before.
        if let Message::Time(time) = next_message(channel)? {
            return Ok(time);
        }
    }
}

/// Waits until the host ends the machine.
fn wait_for_end(channel: &mut Channel<File>) -> Result<Infallible> {
    loop {
        next_message(channel)?;
    }
}

/// Waits for a message from the host.
fn next_message(channel: &mut Channel<File>) -> Result<Message> {
    loop {
        if let Some(message) = channel.receive()? {
            return Ok(message);
        }
        relay::wait_for_input(channel)?;
    }
}

/// Waits until the port to the host exists and the host has connected, and opens the port.
fn open_port() -> Result<Channel<File>> {
    let path = loop {
        match find_port()? {
            Some(path) => break path,
            // The kernel detects its devices while the first process runs.
            None => thread::sleep(Duration::from_millis(1)),
        }
    };
    let mut options = File::options();
    options
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK);
    let port = options
        .open(&path)
        .with_context(|| format!("can't open {}", path.display()))?;
    loop {
        let mut poll_fds = [PollFd::new(
            std::os::fd::AsFd::as_fd(&port),
            PollFlags::POLLIN,
        )];
        poll(&mut poll_fds, PollTimeout::ZERO).context("can't wait for the host")?;
        match poll_fds[0].revents() {
            // The kernel has not noticed yet that the host has connected.
            Some(events) if events.contains(PollFlags::POLLHUP) => {
                thread::sleep(Duration::from_millis(1));
            }
            _ => return Ok(Channel::new(port)),
        }
    }
}

/// Returns the path of the port to the host; `None` if the kernel has not detected it yet.
fn find_port() -> Result<Option<PathBuf>> {
    let Ok(ports) = fs::read_dir("/sys/class/virtio-ports") else {
        return Ok(None);
    };
    for port in ports {
        let port = port.context("can't list the virtual machine's ports")?;
        let name = fs::read_to_string(port.path().join("name")).unwrap_or_default();
        if name.trim_end() == PORT_NAME {
            return Ok(Some(PathBuf::from("/dev").join(port.file_name())));
        }
    }
    Ok(None)
}
