// SPDX-License-Identifier: MIT OR Apache-2.0
//! Snapshots of the booted machine, in the user's cache. Restoring one takes a quarter of the time of a boot.
//!
//! A snapshot is a directory with the machine's memory, which each run maps privately, and the rest
//! of its state. The directory's name is a hash of everything that the snapshot depends on. A
//! snapshot is made under another name and renamed at the end, so that each snapshot with a final
//! name is complete.

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
use nix::fcntl::{Flock, FlockArg};
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::signal::Signal;
use nix::unistd::{Uid, mkdtemp};

use super::monitor::EndedBySignal;
use super::qemu::{
    KERNEL_COMMAND_LINE, MACHINE_OPTIONS, MEMORY_FILE, Memory, Qemu, VirtualMachine, qemu_cpu_name,
};
use super::start_watch::StartWatch;
use super::wire::{Channel, Message};
use crate::system::signals::{BlockedSignals, Event};

/// Number of snapshots that are kept; those that were used least recently are removed.
const MAX_SNAPSHOTS: usize = 4;
/// Name of the file with the state of the machine besides its memory.
const STATE_FILE: &str = "state";

/// A machine that was started, or the signal that came before the start.
pub(super) enum MachineStart {
    /// A machine that boots.
    Booting(Qemu, UnixStream),
    /// A machine that was restored from the snapshot in this directory.
    Restored(Qemu, UnixStream, PathBuf),
    /// A signal came before a machine was started.
    Stopped(Signal),
}

/// Starts a machine from a snapshot. Makes the snapshot if there is none, and boots the machine if that fails.
pub(super) fn start(
    machine: &VirtualMachine<'_>,
    signals: &BlockedSignals,
) -> Result<MachineStart> {
    let directory = if machine.args.no_snapshot {
        None
    } else {
        snapshot_directory(machine)
    };
    if let Some(directory) = directory {
        if !directory.join(STATE_FILE).exists() {
            if let Some(signal) = make_snapshot(machine, &directory, signals) {
                return Ok(MachineStart::Stopped(signal));
            }
        }
        match restore(machine, &directory, signals) {
            Ok(Some((qemu, socket))) => return Ok(MachineStart::Restored(qemu, socket, directory)),
            Ok(None) => remove_snapshot(&directory),
            Err(error) => {
                if let Some(EndedBySignal(signal)) = error.downcast_ref() {
                    return Ok(MachineStart::Stopped(*signal));
                }
                // The cause may be outside of the snapshot, such as a limit of the caller, so the snapshot stays.
            }
        }
    }
    let (qemu, socket) = Qemu::start(machine, &Memory::New)?;
    Ok(MachineStart::Booting(qemu, socket))
}

/// Removes a snapshot whose machine did not answer, and boots a machine instead.
pub(super) fn boot_instead(
    machine: &VirtualMachine<'_>,
    directory: &Path,
) -> Result<(Qemu, UnixStream)> {
    remove_snapshot(directory);
    Qemu::start(machine, &Memory::New)
}

/// Removes a snapshot that can't be used.
fn remove_snapshot(directory: &Path) {
    let _ = fs::remove_dir_all(directory);
}

/// Restores a machine from a snapshot; `None` if QEMU finds that the snapshot is damaged. QEMU does not check the
/// memory.
///
/// # Errors
/// QEMU can't be started, or a signal came.
fn restore(
    machine: &VirtualMachine<'_>,
    directory: &Path,
    signals: &BlockedSignals,
) -> Result<Option<(Qemu, UnixStream)>> {
    let memory = fs::metadata(directory.join(MEMORY_FILE)).map_or(0, |facts| facts.len());
    if memory != u64::from(machine.args.memory) << 20 {
        return Ok(None);
    }
    // Marks the snapshot as used, for `remove_old_snapshots`.
    File::open(directory)?.set_modified(SystemTime::now())?;
    let (mut qemu, socket) = Qemu::start(machine, &Memory::Saved(directory))?;
    let mut monitor = qemu.monitor(signals)?;
    match monitor.restore(&state_uri(directory)) {
        Ok(()) => Ok(Some((qemu, socket))),
        Err(error) if error.is::<EndedBySignal>() => Err(error),
        Err(_) => Ok(None),
    }
}

/// The directory of a snapshot that is not complete.
struct IncompleteSnapshot {
    path: PathBuf,
    /// Tells other runs that the directory is in use. `None` on a file system without locks.
    _lock: Option<Flock<File>>,
}

impl IncompleteSnapshot {
    /// Makes the directory. Its name has a random part, because programs in two PID namespaces, which may share the cache,
    /// can have the same PID.
    fn new(directory: &Path) -> Result<Self> {
        if let Some(cache) = directory.parent() {
            fs::create_dir_all(cache)?;
        }
        let path = mkdtemp(&directory.with_extension("XXXXXX"))?;
        let lock = try_lock(&path);
        Ok(Self { path, _lock: lock })
    }
}

/// Locks a directory by flock(2); `None` if another process has locked it.
fn try_lock(directory: &Path) -> Option<Flock<File>> {
    let file = File::open(directory).ok()?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).ok()
}

/// Makes a snapshot and gives it its final name. Ignores failures. Returns the signal that interrupted it, if any.
fn make_snapshot(
    machine: &VirtualMachine<'_>,
    directory: &Path,
    signals: &BlockedSignals,
) -> Option<Signal> {
    let incomplete = IncompleteSnapshot::new(directory).ok()?;
    let result = boot_and_save(machine, &incomplete.path, signals);
    let result = result.or_else(|error| match error.downcast_ref() {
        Some(EndedBySignal(signal)) => Ok(Some(*signal)),
        None => Err(error),
    });
    let is_saved = matches!(result, Ok(None));
    // The name may exist already, if another run has made the snapshot at the same time.
    if is_saved && fs::rename(&incomplete.path, directory).is_ok() {
        if let Some(cache) = directory.parent() {
            remove_old_snapshots(cache);
        }
    } else {
        let _ = fs::remove_dir_all(&incomplete.path);
    }
    result.ok().flatten()
}

/// Boots a machine and saves it in a directory. Returns a signal that ends pmctl, if one came.
fn boot_and_save(
    machine: &VirtualMachine<'_>,
    directory: &Path,
    signals: &BlockedSignals,
) -> Result<Option<Signal>> {
    let (mut qemu, socket) = Qemu::start(machine, &Memory::Shared(directory))?;
    socket.set_nonblocking(true)?;
    let mut watch = StartWatch::new(qemu.id(), false);
    let mut channel = Channel::new(socket);
    loop {
        let mut poll_fds = [signals.as_fd(), channel.file.as_fd()]
            .map(|file| PollFd::new(file, PollFlags::POLLIN));
        match poll(&mut poll_fds, watch.time_left()) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        watch.check_is_broken();
        if let Event::End { signal, .. } = signals.next()? {
            return Ok(Some(signal));
        }
        match channel.receive()? {
            Some(Message::Ready) => break,
            Some(_) => bail!("the virtual machine's first message does not say that it has booted"),
            None => {}
        }
    }
    qemu.monitor(signals)?.save(&state_uri(directory))?;
    for name in [MEMORY_FILE, STATE_FILE] {
        File::open(directory.join(name))?.sync_all()?;
    }
    Ok(None)
}

/// Returns the URI of the state's file for QEMU's monitor.
fn state_uri(directory: &Path) -> String {
    format!("file:{}", directory.join(STATE_FILE).display())
}

/// Returns the directory of the snapshot of a machine; `None` if there is no cache, if another user could have made the
/// snapshot, or if a file of the machine is missing.
fn snapshot_directory(machine: &VirtualMachine<'_>) -> Option<PathBuf> {
    let directory = cache_directory()?.join(snapshot_name(machine).ok()?);
    belongs_to(Uid::effective(), &directory).then_some(directory)
}

/// Returns whether a snapshot's directory, that of all snapshots, and the user's cache belong to this user, as far as they
/// exist. sudo(8) may keep the home directory of its caller, and the caller could give root another machine to run.
fn belongs_to(user: Uid, directory: &Path) -> bool {
    let folders = directory.ancestors().take(3);
    let mut existing = folders.filter_map(|folder| fs::symlink_metadata(folder).ok());
    existing.all(|facts| facts.uid() == user.as_raw())
}

/// Returns the directory of all snapshots; `None` if the user has no home directory.
fn cache_directory() -> Option<PathBuf> {
    let variable = |name| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")))?;
    // A relative path must be ignored, by the XDG Base Directory Specification.
    cache.is_absolute().then(|| cache.join("perfmon-vm"))
}

/// Returns the name of a machine's snapshot: a hash of the machine's files, options, sizes and number of devices.
fn snapshot_name(machine: &VirtualMachine<'_>) -> Result<String> {
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
        qemu_cpu_name(args.cpu),
        KERNEL_COMMAND_LINE,
        MACHINE_OPTIONS,
        args.cpus,
        args.memory,
        args.exact,
        shared.directories().len(),
        env!("CARGO_PKG_VERSION"),
    )
        .hash(&mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
}

/// Removes all snapshots except the last used ones, and the incomplete snapshots of runs that were interrupted.
fn remove_old_snapshots(cache: &Path) {
    let entries = fs::read_dir(cache).into_iter().flatten().flatten();
    let entries = entries.filter(|entry| match entry.path().extension() {
        None => true,
        // An incomplete snapshot is removed if it is not locked, which means that the process that made it has ended.
        Some(_) => {
            if try_lock(&entry.path()).is_some() {
                let _ = fs::remove_dir_all(entry.path());
            }
            false
        }
    });
    let snapshots_by_time =
        entries.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())));
    let mut snapshots_by_time: Vec<_> = snapshots_by_time.collect();
    snapshots_by_time.sort();
    let surplus = snapshots_by_time.len().saturating_sub(MAX_SNAPSHOTS);
    for (_, path) in snapshots_by_time.into_iter().take(surplus) {
        let _ = fs::remove_dir_all(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_of_another_user_are_not_used() {
        let cache = tempfile::tempdir().expect("a folder can be made");
        let directory = cache.path().join("perfmon-vm/0123");
        let (user, other) = (
            Uid::effective(),
            Uid::from_raw(Uid::effective().as_raw() + 1),
        );
        assert!(belongs_to(user, &directory) && !belongs_to(other, &directory));
        fs::create_dir_all(&directory).expect("it can be made");
        assert!(belongs_to(user, &directory) && !belongs_to(other, &directory));
    }

    #[test]
    fn an_incomplete_snapshot_is_removed_once_its_run_has_ended() {
        let cache = tempfile::tempdir().expect("a folder can be made");
        let directory = cache.path().join("perfmon-vm/0123");
        let incomplete = || IncompleteSnapshot::new(&directory).expect("it can be made");
        let (running, ended) = (incomplete(), incomplete());
        assert_ne!(running.path, ended.path);
        let ended_path = ended.path.clone();
        drop(ended);
        // A process with PID 1 runs here, too. But no process holds the lock, so a program of
        // another PID namespace has made the snapshot.
        let of_other_namespace = directory.with_extension("1");
        fs::create_dir(&of_other_namespace).expect("it can be made");
        remove_old_snapshots(&cache.path().join("perfmon-vm"));
        assert!(running.path.exists());
        assert!(!ended_path.exists() && !of_other_namespace.exists());
    }
}
