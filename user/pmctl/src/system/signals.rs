// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits for signals, with a time limit and together with descriptors.

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

/// A guard that blocks signals while it exists, so that they can be read instead of taking effect.
pub(crate) struct BlockedSignals {
    queue: SignalFd,
    /// The mask before signals were blocked. Commands must inherit this mask, and not pmctl's.
    previous_mask: SigSet,
}

/// Result of [`BlockedSignals::wait`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The time to wait is over, or this process was stopped and continued.
    Nothing,
    /// A child ended or changed its state.
    Child,
    /// A descriptor that is waited for is readable, or was hung up.
    Other,
    /// SIGUSR2, if it is blocked by [`BlockedSignals::hold_with`]: a new file is to begin.
    Switch,
    /// SIGWINCH, if it is blocked by [`BlockedSignals::hold_with`]: the terminal has another size.
    Resized,
    /// A signal that asks pmctl to end. With `by_terminal`, the terminal has sent the signal, to pmctl and to the
    /// command; otherwise another process has sent it to pmctl.
    End { signal: Signal, by_terminal: bool },
}

impl BlockedSignals {
    /// Blocks the signals of [`Event`], except SIGUSR2 and SIGWINCH.
    pub(crate) fn hold() -> Result<Self> {
        Self::hold_all(SigSet::empty())
    }

    /// Blocks the signals of [`Self::hold`] and one more: SIGUSR2 or SIGWINCH.
    pub(crate) fn hold_with(signal: Signal) -> Result<Self> {
        Self::hold_all(signal.into())
    }

    /// Blocks the usual signals and those of `mask`.
    fn hold_all(mut mask: SigSet) -> Result<Self> {
        mask.add(Signal::SIGCHLD);
        for signal in END_SIGNALS {
            mask.add(signal);
        }
        // The kernel sends SIGHUP when the terminal is hung up. nohup(1) makes pmctl ignore SIGHUP. An ignored signal that is
        // blocked is read nevertheless, so it must not be blocked.
        if !is_ignored(Signal::SIGHUP) {
            mask.add(Signal::SIGHUP);
        }
        let mut previous_mask = SigSet::empty();
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(&mask), Some(&mut previous_mask))
            .context("can't block signals")?;
        let queue = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
            .context("can't make a signal descriptor")?;
        Ok(Self {
            queue,
            previous_mask,
        })
    }

    /// Returns the signal mask before signals were blocked.
    pub(crate) fn previous_mask(&self) -> &SigSet {
        &self.previous_mask
    }

    /// Waits until a signal comes, `other_fd` is readable, or `limit` is over.
    pub(crate) fn wait(
        &self,
        limit: Option<Duration>,
        other_fd: Option<BorrowedFd<'_>>,
    ) -> Result<Event> {
        // Rounded up to milliseconds, the unit of poll(2), so that it does not return too early.
        let timeout = limit.map_or(PollTimeout::NONE, |limit| {
            PollTimeout::try_from(limit.as_micros().div_ceil(1000)).unwrap_or(PollTimeout::MAX)
        });
        let poll_fd = |descriptor| PollFd::new(descriptor, PollFlags::POLLIN);
        let queue = self.queue.as_fd();
        // An array and not a vector: the number of instructions to allocate one varies, and they may be counted.
        let mut poll_fds = [poll_fd(queue), poll_fd(other_fd.unwrap_or(queue))];
        let number = if other_fd.is_some() { 2 } else { 1 };
        match poll(&mut poll_fds[..number], timeout) {
            // SIGCONT interrupts poll(2), although it is not blocked and has no handler.
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno).context("can't wait for signals"),
        }
        let events = poll_fds[1].revents();
        let is_ready =
            events.is_some_and(|events| events.intersects(PollFlags::POLLIN | PollFlags::POLLHUP));
        // Signals come first, since the descriptor may be readable all the time.
        match self.next()? {
            Event::Nothing if other_fd.is_some() && is_ready => Ok(Event::Other),
            event => Ok(event),
        }
    }

    /// Waits until a signal comes, one of `other_fds` is readable, or `limit` is over. Descriptors of processes that have
    /// ended are removed from `other_fds`.
    pub(crate) fn wait_for_any(
        &self,
        limit: Duration,
        other_fds: &mut Vec<BorrowedFd<'_>>,
    ) -> Result<Event> {
        let timeout = PollTimeout::try_from(limit.as_micros().div_ceil(1000));
        let descriptors = [self.queue.as_fd()]
            .into_iter()
            .chain(other_fds.iter().copied());
        let mut poll_fds: Vec<PollFd<'_>> = descriptors
            .map(|descriptor| PollFd::new(descriptor, PollFlags::POLLIN))
            .collect();
        match poll(&mut poll_fds, timeout.unwrap_or(PollTimeout::MAX)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno).context("can't wait for signals"),
        }
        let events = poll_fds.iter().skip(1);
        let events: Vec<PollFlags> = events.filter_map(PollFd::revents).collect();
        let mut has_ended = events.iter().map(|e| e.contains(PollFlags::POLLHUP));
        other_fds.retain(|_| !has_ended.next().unwrap_or(false));
        match self.next()? {
            Event::Nothing if events.iter().any(|e| e.contains(PollFlags::POLLIN)) => {
                Ok(Event::Other)
            }
            event => Ok(event),
        }
    }

    /// Discards the pending signals.
    pub(crate) fn discard_pending(&self) {
        while self.next().is_ok_and(|event| event != Event::Nothing) {}
    }

    /// Returns the next pending signal, or [`Event::Nothing`].
    pub(crate) fn next(&self) -> Result<Event> {
        let Some(info) = self.queue.read_signal().context("can't read signals")? else {
            return Ok(Event::Nothing);
        };
        let number = i32::try_from(info.ssi_signo)
            .context("a pending signal has a number that does not exist")?;
        Ok(
            match Signal::try_from(number)
                .context("a pending signal has a number that does not exist")?
            {
                Signal::SIGCHLD => Event::Child,
                Signal::SIGUSR2 => Event::Switch,
                Signal::SIGWINCH => Event::Resized,
                // A code above 0 means that the kernel has sent it, for the terminal, to the whole process group.
                signal => Event::End {
                    signal,
                    by_terminal: info.ssi_code > 0,
                },
            },
        )
    }
}

/// A signal whose inherited action pmctl replaces.
struct ReplacedSignal {
    signal: Signal,
    action: SigHandler,
    /// pmctl was started with the signal ignored. Otherwise it had the default action, as exec keeps no handler.
    was_ignored: AtomicBool,
}

/// The signals whose actions pmctl replaces.
static REPLACED_SIGNALS: [ReplacedSignal; 2] = [
    // A write beyond the limit of a file's size (`ulimit -f`) is to fail with EFBIG instead of killing pmctl.
    ReplacedSignal {
        signal: Signal::SIGXFSZ,
        action: SigHandler::SigIgn,
        was_ignored: AtomicBool::new(false),
    },
    // While SIGCHLD is ignored, as by some daemons and by `trap "" CHLD`, the kernel reaps children itself and sends no
    // signal: the end of the command would not be noticed, and another process could get its PID.
    ReplacedSignal {
        signal: Signal::SIGCHLD,
        action: SigHandler::SigDfl,
        was_ignored: AtomicBool::new(false),
    },
];

/// The signals that ask pmctl to end, which it reads even if they are ignored, as SIGINT and SIGQUIT are in the
/// background of a shell script. pmctl passes them on to the command.
const END_SIGNALS: [Signal; 3] = [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];

/// Replaces the actions of signals that pmctl has inherited.
pub(crate) fn replace_inherited() {
    for replaced in &REPLACED_SIGNALS {
        // SAFETY: A handler must be safe to run at any time. `action` is no handler: no code of this process runs.
        let previous = unsafe { signal(replaced.signal, replaced.action) };
        let was_ignored = matches!(previous, Ok(SigHandler::SigIgn));
        replaced.was_ignored.store(was_ignored, Ordering::Relaxed);
    }
}

/// Restores the inherited actions of signals, since a command would inherit pmctl's actions through
/// exec. Sets the default action for SIGPIPE, which Rust's runtime ignores, and for
/// [`END_SIGNALS`], so that these signals end the command.
pub(crate) fn restore_inherited() -> Result<(), Errno> {
    // SAFETY: A handler must be safe to run at any time. `SigDfl` is no handler: no code of this process runs.
    unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) }?;
    for end_signal in END_SIGNALS {
        // SAFETY: A handler must be safe to run at any time. `SigDfl` is no handler: no code of this process runs.
        unsafe { signal(end_signal, SigHandler::SigDfl) }?;
    }
    for replaced in &REPLACED_SIGNALS {
        let action = if replaced.was_ignored.load(Ordering::Relaxed) {
            SigHandler::SigIgn
        } else {
            SigHandler::SigDfl
        };
        // SAFETY: A handler must be safe to run at any time. `action` is no handler: no code of this process runs.
        unsafe { signal(replaced.signal, action) }?;
    }
    Ok(())
}

/// Ends the process by the default action of a signal. If that fails, returns the exit code for the signal.
pub(crate) fn end_by(ending: Signal) -> ExitCode {
    // SAFETY: A handler must be safe to run at any time. `SigDfl` is no handler: no code of this process runs.
    let _ = unsafe { signal(ending, SigHandler::SigDfl) };
    let _ = SigSet::from(ending).thread_unblock();
    let _ = raise(ending);
    ExitCode::from(128 + u8::try_from(ending as i32).unwrap_or(0))
}

/// Returns whether this process ignores a signal.
fn is_ignored(signal: Signal) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: The pointer to the new action is null, so no action changes. sigaction(2) writes the present action to the
    // other pointer, which is that of the live local `action` of the same type.
    let result = unsafe { libc::sigaction(signal as i32, std::ptr::null(), action.as_mut_ptr()) };
    if result != 0 {
        return false;
    }
    // SAFETY: `assume_init` requires an initialized value. sigaction(2) has succeeded, so it has written `action`.
    let action = unsafe { action.assume_init() };
    action.sa_sigaction == libc::SIG_IGN
}

impl AsFd for BlockedSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // Restoring the mask can't fail, since the mask is valid.
        let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&self.previous_mask), None);
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, fork};

    use super::*;

    #[test]
    fn an_ignored_sigchld_is_replaced_and_restored() {
        // SAFETY: `fork` requires that the child of a process with several threads calls only
        // async-signal-safe functions. This child only makes system calls.
        match unsafe { fork() }.expect("a child") {
            ForkResult::Parent { child } => {
                assert_eq!(waitpid(child, None), Ok(WaitStatus::Exited(child, 0)));
            }
            ForkResult::Child => {
                // SAFETY: A handler must be safe to run at any time. `SigIgn` is no handler: no code of this process runs.
                let _ = unsafe { signal(Signal::SIGCHLD, SigHandler::SigIgn) };
                replace_inherited();
                let is_replaced = !is_ignored(Signal::SIGCHLD);
                let is_restored = restore_inherited().is_ok() && is_ignored(Signal::SIGCHLD);
                // SAFETY: _exit(2) takes an integer, accesses no memory and does not return.
                unsafe { libc::_exit(i32::from(!(is_replaced && is_restored))) }
            }
        }
    }

    #[test]
    fn a_command_does_not_inherit_that_signals_to_end_are_ignored() {
        // SAFETY: `fork` requires that the child of a process with several threads calls only
        // async-signal-safe functions. This child only makes system calls.
        match unsafe { fork() }.expect("a child") {
            ForkResult::Parent { child } => {
                assert_eq!(waitpid(child, None), Ok(WaitStatus::Exited(child, 0)));
            }
            ForkResult::Child => {
                for ignored in [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGHUP] {
                    // SAFETY: A handler must be safe to run at any time. `SigIgn` is no handler: no code of this process
                    // runs.
                    let _ = unsafe { signal(ignored, SigHandler::SigIgn) };
                }
                let is_restored = restore_inherited().is_ok();
                let ends = !is_ignored(Signal::SIGINT) && !is_ignored(Signal::SIGQUIT);
                // nohup(1) keeps its effect.
                let is_right = is_restored && ends && is_ignored(Signal::SIGHUP);
                // SAFETY: _exit(2) takes an integer, accesses no memory and does not return.
                unsafe { libc::_exit(i32::from(!is_right)) }
            }
        }
    }

    #[test]
    fn discarded_signals_do_not_end_the_process() {
        let signals = BlockedSignals::hold().expect("they can be held");
        for signal in [Signal::SIGINT, Signal::SIGTERM] {
            raise(signal).expect("it is this thread's");
        }
        signals.discard_pending();
        assert_eq!(signals.next().expect("it can be read"), Event::Nothing);
        // Dropping `signals` unblocks the signals.
        drop(signals);
    }
}
