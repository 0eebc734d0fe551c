// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting for the records of a ring to which several events write.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

/// The reason why [`Sampler::wait`](super::Sampler::wait) returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// Records can be read.
    Records,
    /// All tasks that the sampler's events count have ended. There may be records.
    Ended,
    /// The timeout has expired, or a signal has arrived.
    Nothing,
}

/// Waits on one event of a ring, since all events of a ring become readable together. An event
/// whose tasks have ended hangs up, which makes poll(2) return at once; the next event is then
/// waited on instead.
#[derive(Debug, Default)]
pub(super) struct Waiter {
    /// Index of the first event that has not hung up.
    first: AtomicUsize,
}

impl Waiter {
    /// Waits until the ring is readable, or all events have hung up, at most for `limit`. `event` returns the descriptor of
    /// the event with this index.
    ///
    /// # Errors
    /// The errors of ppoll(2).
    pub(super) fn wait<'a>(
        &self,
        event: impl Fn(usize) -> Option<BorrowedFd<'a>>,
        limit: Option<Duration>,
    ) -> Result<Ready, Errno> {
        let begin = Instant::now();
        loop {
            // ATOMICS: Needs no order: events stay at their index.
            let index = self.first.load(Ordering::Relaxed);
            let Some(descriptor) = event(index) else {
                return Ok(Ready::Ended);
            };
            // ppoll(2) takes nanoseconds. The milliseconds of poll(2) would end the wait before the limit.
            let timeout =
                limit.map(|limit| TimeSpec::from_duration(limit.saturating_sub(begin.elapsed())));
            let mut poll_fds = [PollFd::new(descriptor, PollFlags::POLLIN)];
            match ppoll(&mut poll_fds, timeout, None) {
                Ok(0) | Err(Errno::EINTR) => return Ok(Ready::Nothing),
                Ok(_) => {}
                Err(errno) => return Err(errno),
            }
            let events = poll_fds[0].revents().unwrap_or(PollFlags::empty());
            if events.contains(PollFlags::POLLIN) {
                return Ok(Ready::Records);
            }
            // The exchange fails if another waiting thread has already gone on to the next event.
            let _ =
                self.first
                    .compare_exchange(index, index + 1, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use nix::unistd::{pipe, read, write};

    use super::*;

    #[test]
    fn a_ring_has_ended_when_all_its_events_have_hung_up() {
        let (first, first_end) = pipe().expect("a pipe");
        let (second, second_end) = pipe().expect("a pipe");
        let waiter = Waiter::default();
        let event = |index| [first.as_fd(), second.as_fd()].get(index).copied();
        let wait = |limit| waiter.wait(event, Some(limit)).expect("it can be polled");
        let short = Duration::from_millis(20);

        assert_eq!(wait(Duration::ZERO), Ready::Nothing);
        drop(first_end);
        let begin = Instant::now();
        assert_eq!(wait(short), Ready::Nothing);
        assert!(begin.elapsed() >= short);
        write(&second_end, &[0]).expect("it can be written");
        assert_eq!(wait(Duration::from_secs(60)), Ready::Records);
        drop(second_end);
        // Records that were written before the end of the task are still in the ring.
        assert_eq!(wait(Duration::from_secs(60)), Ready::Records);
        read(&second, &mut [0]).expect("it can be read");
        assert_eq!(wait(Duration::from_secs(60)), Ready::Ended);
        assert_eq!(wait(Duration::from_secs(60)), Ready::Ended);
    }
}
