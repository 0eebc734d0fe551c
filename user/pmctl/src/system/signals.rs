// SPDX-License-Identifier: MIT OR Apache-2.0
//! Signals as something to wait for, with a time limit.

use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, raise, signal, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Signals that are read instead of acted on, as long as this lives.
pub(crate) struct Signals {
    queue: SignalFd,
    /// The mask as it was before: a command must not inherit ours.
    before: SigSet,
}

/// Result of [`Signals::wait`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The time is over, or the process itself was stopped and continued.
    Nothing,
    /// A child ended or changed its state.
    Child,
    /// The other descriptor has something to read.
    Other,
    /// SIGUSR2, if it is held.
    Switch,
    /// SIGWINCH, if it is held: the terminal has another size.
    Resized,
    /// A signal asks for the end: from the terminal, which sent it to the command too, or from another process.
    End { signal: Signal, by_terminal: bool },
}

impl Signals {
    /// Blocks the signals.
    pub(crate) fn hold() -> Result<Self> {
        Self::hold_all(SigSet::empty())
    }

    /// Blocks one more signal, of those that have an [`Event`].
    pub(crate) fn hold_with(signal: Signal) -> Result<Self> {
        Self::hold_all(signal.into())
    }

    fn hold_all(mut mask: SigSet) -> Result<Self> {
        for signal in [
            Signal::SIGCHLD,
            Signal::SIGINT,
            Signal::SIGQUIT,
            Signal::SIGTERM,
        ] {
            mask.add(signal);
        }
        // The terminal is gone. To ignore that is what nohup(1) asks for, and a signal that is held back would be
        // seen all the same.
        if !is_ignored(Signal::SIGHUP) {
            mask.add(Signal::SIGHUP);
        }
        let mut before = SigSet::empty();
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(&mask), Some(&mut before))
            .context("can't hold signals back")?;
        let queue = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
            .context("can't make a signal descriptor")?;
        Ok(Self { queue, before })
    }

    /// Returns the signal mask as it was before.
    pub(crate) fn mask_before(&self) -> &SigSet {
        &self.before
    }

    /// Waits for a signal, until there is something to read from `other`, or until `limit` is over.
    pub(crate) fn wait(
        &self,
        limit: Option<Duration>,
        other: Option<BorrowedFd<'_>>,
    ) -> Result<Event> {
        // Up to the next millisecond, for poll(2) counts in them: it must not return too early.
        let timeout = limit.map_or(PollTimeout::NONE, |limit| {
            PollTimeout::try_from(limit.as_micros().div_ceil(1000)).unwrap_or(PollTimeout::MAX)
        });
        let readable = |descriptor| PollFd::new(descriptor, PollFlags::POLLIN);
        let queue = self.queue.as_fd();
        // No vector: how many instructions that takes depends on what else is in memory, and they may be counted.
        let mut both = [readable(queue), readable(other.unwrap_or(queue))];
        let number = if other.is_some() { 2 } else { 1 };
        match poll(&mut both[..number], timeout) {
            // SIGCONT does it, although it is not held back and has no handler.
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno).context("can't wait for signals"),
        }
        let events = both[1].revents();
        let has_data = events.is_some_and(|events| events.contains(PollFlags::POLLIN));
        // Signals first: there may always be something to read.
        match self.next()? {
            Event::Nothing if other.is_some() && has_data => Ok(Event::Other),
            event => Ok(event),
        }
    }

    /// Waits for a signal, until there is something to read from one of `others`, or until `limit` is over. Of those that
    /// have ended, nothing is waited for any more: they are removed.
    pub(crate) fn wait_for_any(
        &self,
        limit: Duration,
        others: &mut Vec<BorrowedFd<'_>>,
    ) -> Result<Event> {
        let timeout = PollTimeout::try_from(limit.as_micros().div_ceil(1000));
        let all = [self.queue.as_fd()]
            .into_iter()
            .chain(others.iter().copied());
        let mut polled: Vec<PollFd<'_>> = all
            .map(|descriptor| PollFd::new(descriptor, PollFlags::POLLIN))
            .collect();
        match poll(&mut polled, timeout.unwrap_or(PollTimeout::MAX)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno).context("can't wait for signals"),
        }
        let events = polled.iter().skip(1);
        let events: Vec<PollFlags> = events.filter_map(PollFd::revents).collect();
        let mut ended = events.iter().map(|e| e.contains(PollFlags::POLLHUP));
        others.retain(|_| !ended.next().unwrap_or(false));
        match self.next()? {
            Event::Nothing if events.iter().any(|e| e.contains(PollFlags::POLLIN)) => {
                Ok(Event::Other)
            }
            event => Ok(event),
        }
    }

    /// Discards the pending signals: their requests are done.
    pub(crate) fn forget(&self) {
        while self.next().is_ok_and(|event| event != Event::Nothing) {}
    }

    /// Takes the next signal, if there is one.
    pub(crate) fn next(&self) -> Result<Event> {
        let Some(info) = self.queue.read_signal().context("can't read signals")? else {
            return Ok(Event::Nothing);
        };
        let number = i32::try_from(info.ssi_signo).context("a signal without a number")?;
        Ok(
            match Signal::try_from(number).context("an unknown signal")? {
                Signal::SIGCHLD => Event::Child,
                Signal::SIGUSR2 => Event::Switch,
                Signal::SIGWINCH => Event::Resized,
                // A code above 0 is the kernel's: the terminal tells its whole process group.
                signal => Event::End {
                    signal,
                    by_terminal: info.ssi_code > 0,
                },
            },
        )
    }
}

/// Set if SIGXFSZ was not ignored when pmctl was started.
static OWN_FILE_LIMIT: AtomicBool = AtomicBool::new(false);

/// Lets a write beyond the limit of a file's size (`ulimit -f`) fail with EFBIG, as one to a full disk fails, instead
/// of killing pmctl.
pub(crate) fn ignore_file_limit() {
    // SAFETY: To ignore a signal runs no code of this process.
    let before = unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) };
    let is_default = matches!(before, Ok(SigHandler::SigDfl));
    OWN_FILE_LIMIT.store(is_default, Ordering::Relaxed);
}

/// Gives SIGXFSZ and SIGPIPE back the meaning that a command expects: pmctl and Rust ignore them, and exec would hand
/// that down.
pub(crate) fn restore_defaults() -> Result<(), Errno> {
    // SAFETY: The default action runs no code of this process.
    unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) }?;
    if OWN_FILE_LIMIT.load(Ordering::Relaxed) {
        // SAFETY: As of SIGPIPE: no code of this process runs.
        unsafe { signal(Signal::SIGXFSZ, SigHandler::SigDfl) }?;
    }
    Ok(())
}

/// Ends the process by a signal, as if it had never been ignored. Returns the exit code if that does not work.
pub(crate) fn end_by(ending: Signal) -> ExitCode {
    // SAFETY: The default action runs no code of this process.
    let _ = unsafe { signal(ending, SigHandler::SigDfl) };
    let _ = SigSet::from(ending).thread_unblock();
    let _ = raise(ending);
    ExitCode::from(128 + u8::try_from(ending as i32).unwrap_or(0))
}

/// Returns whether this process ignores a signal.
fn is_ignored(signal: Signal) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: Without a new action it changes nothing, and writes the present one to memory of this type.
    let result = unsafe { libc::sigaction(signal as i32, std::ptr::null(), action.as_mut_ptr()) };
    if result != 0 {
        return false;
    }
    // SAFETY: It succeeded, so that the action is written.
    let action = unsafe { action.assume_init() };
    action.sa_sigaction == libc::SIG_IGN
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // It worked with a mask of ours; it can't fail with the one from before.
        let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&self.before), None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_does_not_end_the_process() {
        let signals = Signals::hold().expect("they can be held");
        for signal in [Signal::SIGINT, Signal::SIGTERM] {
            raise(signal).expect("it is this thread's");
        }
        signals.forget();
        assert_eq!(signals.next().expect("it can be read"), Event::Nothing);
        // Now they have their actions again.
        drop(signals);
    }
}
