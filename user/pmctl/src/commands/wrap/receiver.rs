// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread that takes filtered calls.
//!
//! The kernel lets a signal with a handler end the wait of a caller until its call is taken: the call fails with EINTR, or
//! with `SA_RESTART` begins anew, for ever if the next signal always comes before. So calls are taken at once, by a thread
//! that does nothing else and runs before programs do, whatever the answer to another call takes.
//!
//! It stays on the CPU of the last caller. A call from there is safe: the thread runs in the caller's place, and has taken
//! the call before the caller can see a signal. Between two CPUs a signal may come first.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::{Pid, gettid};

use super::listener::{Listener, Request};
use super::target::Tid;

/// Calls that have been taken.
pub(super) struct CallQueue {
    queue: mpsc::Receiver<Result<Request, Errno>>,
    /// Holds a byte for each queued call.
    bell: UnixStream,
    /// ATOMICS: relaxed. A number that is read for a message.
    interrupted: Arc<AtomicU64>,
    /// The thread that takes them, and the CPU that it is to stay on.
    thread: Pid,
    place: Option<usize>,
}

impl CallQueue {
    /// Takes calls from now on, in a thread of its own.
    pub(super) fn of(listener: &Arc<Listener>) -> Result<Self> {
        let (bell, ringer) = UnixStream::pair().context("can't make a pair of sockets")?;
        let (sender, queue) = mpsc::channel();
        let interrupted = Arc::new(AtomicU64::new(0));
        let (listener, counter) = (Arc::clone(listener), Arc::clone(&interrupted));
        let (teller, told) = mpsc::channel();
        let take = move || {
            // It fails only if the thread that waits for it has gone.
            let _ = teller.send(gettid());
            // On failure a call is merely more likely to be interrupted, which is reported.
            let _ = raise_priority();
            receive_calls(&listener, (&sender, &ringer), &counter);
        };
        let started = thread::Builder::new().spawn(take);
        started.context("can't start a thread")?;
        Ok(Self {
            queue,
            bell,
            interrupted,
            thread: told.recv().context("a thread has ended at once")?,
            place: None,
        })
    }

    /// Returns the next call, once there is [something to read](AsFd); `None` if none will come any more.
    pub(super) fn next(&mut self) -> Result<Option<Request>> {
        let rung = self.bell.read(&mut [0]);
        if rung.context("can't read from a socket")? == 0 {
            return Ok(None);
        }
        let taken = self.queue.recv().context("a byte without a system call")?;
        taken.map(Some).context("can't take system calls")
    }

    /// Lets calls be taken on the CPU of a caller that has its answer. Not before that: the caller would be woken elsewhere
    /// if its CPU were busy.
    pub(super) fn stay_with_caller(&mut self, caller: Tid) {
        let cpu = caller.cpu();
        if cpu.is_some() && cpu != self.place {
            // It may be one that this process must not run on.
            self.place = cpu.filter(|cpu| pin_to_cpu(self.thread, *cpu).is_ok());
        }
    }

    /// Returns how many calls a signal has ended before they were taken.
    pub(super) fn interrupted(&self) -> u64 {
        self.interrupted.load(Ordering::Relaxed)
    }
}

impl AsFd for CallQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// Takes calls until no process is left that the filter is for.
fn receive_calls(
    listener: &Listener,
    (sender, mut ringer): (&mpsc::Sender<Result<Request, Errno>>, &UnixStream),
    interrupted: &AtomicU64,
) {
    loop {
        let taken = match listener.receive() {
            Ok(Some(request)) => Ok(request),
            Ok(None) if has_ended(listener) => return,
            Ok(None) => {
                interrupted.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            // pmctl was stopped and continued.
            Err(Errno::EINTR) => continue,
            Err(errno) => Err(errno),
        };
        let is_over = taken.is_err();
        let sent = sender.send(taken).is_ok() && ringer.write_all(&[0]).is_ok();
        if is_over || !sent {
            return;
        }
    }
}

/// Returns whether no process is left.
fn has_ended(listener: &Listener) -> bool {
    let mut polled = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
    let polled_now = poll(&mut polled, PollTimeout::ZERO);
    polled_now.is_ok()
        && polled[0]
            .revents()
            .is_some_and(|events| events.contains(PollFlags::POLLHUP))
}

/// Lets a thread run on a CPU only.
fn pin_to_cpu(thread: Pid, cpu: usize) -> Result<(), Errno> {
    let mut only = CpuSet::new();
    only.set(cpu)?;
    sched_setaffinity(thread, &only)
}

/// Lets the calling thread run as soon as it has something to do: before all programs, or without the right to that by a
/// time slice that is shorter than theirs.
fn raise_priority() -> Result<(), Errno> {
    become_real_time().or_else(|_| shorten_slice())
}

fn become_real_time() -> Result<(), Errno> {
    /// The highest one: a real-time program that has the CPU must not hold up a caller on another. The thread runs for
    /// moments only, and what it creates does not inherit the priority.
    static PRIORITY: libc::c_int = 99;
    const POLICY: libc::c_int = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: The kernel reads a number, which is never freed, and changes the calling thread only.
    let set =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, POLICY, &raw const PRIORITY) };
    Errno::result(set).map(drop)
}

/// `struct sched_attr` of the first version.
#[repr(C)]
#[derive(Default)]
struct SchedulingAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// The slice of a thread that is not a real-time one, in nanoseconds, from Linux 6.12 on.
    runtime: u64,
    deadline: u64,
    period: u64,
}

fn shorten_slice() -> Result<(), Errno> {
    /// The shortest one that the kernel takes.
    const MIN_SLICE: u64 = 100_000;
    let mut attributes = SchedulingAttributes::default();
    let (size, address) = (size_of::<SchedulingAttributes>(), &raw mut attributes);
    // SAFETY: The kernel writes as many bytes as `size` says, which are those of `attributes`: it is borrowed for writing.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, address, size, 0) };
    Errno::result(got)?;
    attributes.runtime = MIN_SLICE;
    // SAFETY: The kernel reads as many bytes as the member `size` says, which it has set to no more than there are.
    let set = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    Errno::result(set).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_where_it_is_put() {
        let thread = thread::spawn(|| {
            let own = Tid(gettid().as_raw());
            let cpu = own.cpu().expect("the thread runs");
            pin_to_cpu(gettid(), cpu)?;
            Ok::<_, Errno>((Some(cpu), own.cpu()))
        });
        let places = thread.join().expect("it does not panic");
        assert!(places.is_ok_and(|(before, now)| before == now));
    }

    #[test]
    fn a_thread_can_run_first() {
        // With rights or without: the thread is one of the test's own.
        thread::spawn(raise_priority)
            .join()
            .expect("it does not panic")
            .expect("each thread may have a shorter slice");
    }
}
