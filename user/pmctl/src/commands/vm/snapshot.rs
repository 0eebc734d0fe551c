// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the booted machine, kept in the caller's cache: to restore it takes a quarter of the time of a boot.
//!
//! A snapshot is a directory with the machine's memory, which each run maps privately, and the rest of its state. Its
//! name is made of all that it depends on. It is made beside its place and renamed, so that one that exists is whole.

use std::env;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Result, bail};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;

use super::qemu::{MEMORY, Memory, Qemu, VirtualMachine};
use super::wire::{Channel, Message};
use crate::system::signals::{Event, Signals};

/// Snapshots that are kept; the ones that were used least recently go.
const MAX_SNAPSHOTS: usize = 4;
/// Name of the file with the state of the machine besides its memory.
const STATE_FILE: &str = "state";

/// A machine that was started, or the signal that came before.
pub(super) enum Start {
    /// A machine that boots.
    Booting(Qemu, UnixStream),
    /// A machine that goes on from the snapshot in this directory.
    Restored(Qemu, UnixStream, PathBuf),
    Stopped(Signal),
}

/// Starts a machine from a snapshot, which is made before if there is none; without one where it can't be had.
pub(super) fn start(machine: &VirtualMachine<'_>, signals: &Signals) -> Result<Start> {
    let directory = if machine.args.no_snapshot {
        None
    } else {
        directory(machine)
    };
    if let Some(directory) = directory {
        if !directory.join(STATE_FILE).exists() {
            if let Some(signal) = prepare(machine, &directory, signals) {
                return Ok(Start::Stopped(signal));
            }
        }
        match restore(machine, &directory) {
            Ok(Some((qemu, socket))) => return Ok(Start::Restored(qemu, socket, directory)),
            Ok(None) => remove(&directory),
            // A limit of the caller's, for one, which says nothing of the snapshot.
            Err(_) => {}
        }
    }
    let (qemu, socket) = Qemu::start(machine, &Memory::New)?;
    Ok(Start::Booting(qemu, socket))
}

/// Starts a machine in place of one that did nothing after it went on from a snapshot, which goes.
pub(super) fn boot_instead(
    machine: &VirtualMachine<'_>,
    directory: &Path,
) -> Result<(Qemu, UnixStream)> {
    remove(directory);
    Qemu::start(machine, &Memory::New)
}

/// Removes a damaged snapshot.
fn remove(directory: &Path) {
    let _ = fs::remove_dir_all(directory);
}

/// Lets a machine go on from a snapshot; `None` if QEMU sees that it is damaged. It does not look at the memory.
///
/// # Errors
/// QEMU can't be started.
fn restore(machine: &VirtualMachine<'_>, directory: &Path) -> Result<Option<(Qemu, UnixStream)>> {
    let memory = fs::metadata(directory.join(MEMORY)).map_or(0, |facts| facts.len());
    if memory != u64::from(machine.args.memory) << 20 {
        return Ok(None);
    }
    // For `remove_old`.
    File::open(directory)?.set_modified(SystemTime::now())?;
    let (mut qemu, socket) = Qemu::start(machine, &Memory::Saved(directory))?;
    let is_whole = qemu.monitor()?.restore(&uri(directory)).is_ok();
    Ok(is_whole.then_some((qemu, socket)))
}

/// Makes a snapshot, if it can be made. Returns a signal that asks for the end.
fn prepare(machine: &VirtualMachine<'_>, directory: &Path, signals: &Signals) -> Option<Signal> {
    let beside = directory.with_extension(std::process::id().to_string());
    let made = make(machine, &beside, signals);
    let is_made = matches!(made, Ok(None));
    // Another run may have made it meanwhile.
    if is_made && fs::rename(&beside, directory).is_ok() {
        if let Some(cache) = directory.parent() {
            remove_old(cache);
        }
    } else {
        let _ = fs::remove_dir_all(&beside);
    }
    made.ok().flatten()
}

/// Boots a machine and saves it. Returns a signal that asks for the end.
fn make(
    machine: &VirtualMachine<'_>,
    directory: &Path,
    signals: &Signals,
) -> Result<Option<Signal>> {
    fs::create_dir_all(directory)?;
    let (mut qemu, socket) = Qemu::start(machine, &Memory::Shared(directory))?;
    socket.set_nonblocking(true)?;
    let mut channel = Channel::new(socket);
    loop {
        let mut polled = [signals.as_fd(), channel.file.as_fd()]
            .map(|file| PollFd::new(file, PollFlags::POLLIN));
        match poll(&mut polled, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        if let Event::End { signal, .. } = signals.next()? {
            return Ok(Some(signal));
        }
        match channel.receive()? {
            Some(Message::Ready) => break,
            Some(_) => bail!("the virtual machine is not ready"),
            None => {}
        }
    }
    qemu.monitor()?.save(&uri(directory))?;
    for name in [MEMORY, STATE_FILE] {
        File::open(directory.join(name))?.sync_all()?;
    }
    Ok(None)
}

fn uri(directory: &Path) -> String {
    format!("file:{}", directory.join(STATE_FILE).display())
}

/// Returns the directory of the snapshot of a machine; `None` if there is no place for it.
fn directory(machine: &VirtualMachine<'_>) -> Option<PathBuf> {
    Some(cache()?.join(name(machine).ok()?))
}

/// Returns the place of all snapshots; `None` if the caller has no home.
fn cache() -> Option<PathBuf> {
    let set = |name| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    // A relative one is to be ignored, says the XDG Base Directory Specification.
    cache.is_absolute().then(|| cache.join("perfmon-vm"))
}

/// Returns the name of the snapshot: a hash of the machine's parts, of its size, and of the number of its devices.
fn name(machine: &VirtualMachine<'_>) -> Result<String> {
    let VirtualMachine {
        image,
        args,
        shared,
    } = machine;
    let mut hasher = DefaultHasher::new();
    for part in [&image.qemu, &image.firmware, &image.kernel, &image.initrd] {
        let path = fs::canonicalize(part)?;
        let facts = fs::metadata(&path)?;
        (
            path,
            facts.len(),
            facts.mtime(),
            facts.mtime_nsec(),
            facts.ino(),
        )
            .hash(&mut hasher);
    }
    (
        args.cpu as u8,
        args.cpus,
        args.memory,
        args.exact,
        shared.directories().len(),
        env!("CARGO_PKG_VERSION"),
    )
        .hash(&mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
}

/// Removes all but the snapshots that were used last, and what interrupted runs have left.
fn remove_old(cache: &Path) {
    let entries = fs::read_dir(cache).into_iter().flatten().flatten();
    let entries = entries.filter(|entry| match entry.path().extension() {
        None => true,
        // One that is being made, or was when its process ended.
        Some(pid) => {
            if !Path::new("/proc").join(pid).exists() {
                let _ = fs::remove_dir_all(entry.path());
            }
            false
        }
    });
    let dated =
        entries.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())));
    let mut dated: Vec<_> = dated.collect();
    dated.sort();
    let surplus = dated.len().saturating_sub(MAX_SNAPSHOTS);
    for (_, path) in dated.into_iter().take(surplus) {
        let _ = fs::remove_dir_all(path);
    }
}
