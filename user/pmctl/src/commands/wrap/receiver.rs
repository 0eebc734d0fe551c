// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread that receives filtered calls.
//!
//! Until a call is received, a signal with a handler ends the wait of its caller: the call fails with EINTR, or is
//! restarted with `SA_RESTART`, endlessly if a signal always comes first. So calls are received at once, by a thread that
//! does nothing else and runs before programs do, however long the answer to another call takes.
//!
//! The thread stays on the CPU of the last caller. A call from that CPU is safe: the thread runs in the caller's place, and
//! has received the call before the caller can handle a signal. If the caller is on another CPU, a signal may come first.
//!
//! A thread on each CPU would be no better: the kernel wakes all these threads, and may give the
//! call to a thread on another CPU. That thread must then wait for the filter's mutex, which the
//! caller holds at that moment.

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

/// The queue of received calls.
pub(super) struct CallQueue {
    queue: mpsc::Receiver<Result<Request, Errno>>,
    /// The socket from which a byte is read for each queued call.
    bell: UnixStream,
    /// Number of calls that a signal has ended before they were received.
    ///
    /// ATOMICS: relaxed, since it is only read for a message.
    interrupted_calls: Arc<AtomicU64>,
    /// The thread that receives calls.
    thread: Pid,
    /// The CPU that the thread is pinned to, if it is.
    cpu: Option<usize>,
}

impl CallQueue {
    /// Starts a thread that receives calls.
    pub(super) fn start(listener: &Arc<Listener>) -> Result<Self> {
        let (bell, ringer) =
            UnixStream::pair().context("can't create the sockets that announce system calls")?;
        let (sender, queue) = mpsc::channel();
        let interrupted_calls = Arc::new(AtomicU64::new(0));
        let (listener, counter) = (Arc::clone(listener), Arc::clone(&interrupted_calls));
        let (id_sender, thread_id) = mpsc::channel();
        let receive = move || {
            // Fails only if the thread that waits for the ID has ended.
            let _ = id_sender.send(gettid());
            // On failure a call is merely more likely to be interrupted, which is reported.
            let _ = raise_priority();
            receive_calls(&listener, (&sender, &ringer), &counter);
        };
        let result = thread::Builder::new().spawn(receive);
        result.context("can't start the thread that receives system calls")?;
        Ok(Self {
            queue,
            bell,
            interrupted_calls,
            thread: thread_id
                .recv()
                .context("the thread that receives system calls has ended at once")?,
            cpu: None,
        })
    }

    /// Returns the next call, once there is [something to read](AsFd); `None` if no further call will come.
    pub(super) fn next(&mut self) -> Result<Option<Request>> {
        let result = self.bell.read(&mut [0]);
        if result.context("can't read from the socket of received system calls")? == 0 {
            return Ok(None);
        }
        let received = self
            .queue
            .recv()
            .context("no system call was queued (a fault of pmctl)")?;
        received
            .map(Some)
            .context("can't receive system calls (seccomp_unotify)")
    }

    /// Pins the receiving thread to the CPU of a caller that has its answer. Before the answer this CPU must not become
    /// busy, because the kernel would then wake the caller on another CPU.
    pub(super) fn stay_with_caller(&mut self, caller: Tid) {
        let cpu = caller.cpu();
        if cpu.is_some() && cpu != self.cpu {
            // Fails on a CPU that this process must not run on.
            self.cpu = cpu.filter(|cpu| pin_to_cpu(self.thread, *cpu).is_ok());
        }
    }

    /// Returns the number of calls that a signal has ended before they were received.
    pub(super) fn interrupted_calls(&self) -> u64 {
        self.interrupted_calls.load(Ordering::Relaxed)
    }
}

impl AsFd for CallQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// Receives calls until no process with the filter is left.
fn receive_calls(
    listener: &Listener,
    (sender, mut ringer): (&mpsc::Sender<Result<Request, Errno>>, &UnixStream),
    interrupted_calls: &AtomicU64,
) {
    loop {
        let received = match listener.receive() {
            Ok(Some(request)) => Ok(request),
            Ok(None) if is_filter_unused(listener) => return,
            Ok(None) => {
                interrupted_calls.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            // pmctl was stopped and continued.
            Err(Errno::EINTR) => continue,
            Err(errno) => Err(errno),
        };
        let is_over = received.is_err();
        let was_sent = sender.send(received).is_ok() && ringer.write_all(&[0]).is_ok();
        if is_over || !was_sent {
            return;
        }
    }
}

/// Returns whether no process with the filter is left.
fn is_filter_unused(listener: &Listener) -> bool {
    let mut poll_fds = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
    let polled_now = poll(&mut poll_fds, PollTimeout::ZERO);
    polled_now.is_ok()
        && poll_fds[0]
            .revents()
            .is_some_and(|events| events.contains(PollFlags::POLLHUP))
}

/// Lets a thread run on one CPU only.
fn pin_to_cpu(thread: Pid, cpu: usize) -> Result<(), Errno> {
    let mut cpu_set = CpuSet::new();
    cpu_set.set(cpu)?;
    sched_setaffinity(thread, &cpu_set)
}

/// Lets the calling thread run as soon as a call arrives: gives it a real-time priority, or, if that is not permitted, a
/// short time slice.
fn raise_priority() -> Result<(), Errno> {
    become_real_time().or_else(|_| shorten_slice())
}

fn become_real_time() -> Result<(), Errno> {
    /// The highest priority, so that a real-time program on this CPU does not delay callers on other CPUs. The thread runs
    /// for moments only, and its children do not inherit the priority.
    static PRIORITY: libc::c_int = 99;
    const POLICY: libc::c_int = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: sched_setscheduler(2) reads a `struct sched_param`, which is an `int`, from a pointer to a static. With
    // PID 0 it changes the calling thread only.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, POLICY, &raw const PRIORITY) };
    Errno::result(result).map(drop)
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
    /// The shortest slice that the kernel accepts, in nanoseconds.
    const MIN_SLICE: u64 = 100_000;
    let mut attributes = SchedulingAttributes::default();
    let (size, address) = (size_of::<SchedulingAttributes>(), &raw mut attributes);
    // SAFETY: sched_getattr(2) writes at most `size` bytes, the size of `attributes`, which `address` points to.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, address, size, 0) };
    Errno::result(result)?;
    attributes.runtime = MIN_SLICE;
    // SAFETY: sched_setattr(2) reads as many bytes as the member `size` says, which sched_getattr(2) has set to no more
    // than the size of `attributes`.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    Errno::result(result).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_where_it_is_put() {
        let thread = thread::spawn(|| {
            let own_thread = Tid(gettid().as_raw());
            let cpu = own_thread.cpu().expect("the thread runs");
            pin_to_cpu(gettid(), cpu)?;
            Ok::<_, Errno>((Some(cpu), own_thread.cpu()))
        });
        let places = thread.join().expect("it does not panic");
        assert!(places.is_ok_and(|(before, now)| before == now));
    }

    #[test]
    fn a_thread_can_run_first() {
        // The call succeeds with or without privileges: it sets a real-time priority, or else a
        // short time slice. Only the new thread is changed.
        thread::spawn(raise_priority)
            .join()
            .expect("it does not panic")
            .expect("each thread may have a shorter slice");
    }
}
