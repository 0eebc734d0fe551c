// SPDX-License-Identifier: MIT OR Apache-2.0
//! Polls a ring by one of its events.

use std::os::fd::BorrowedFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Selects the event of a ring that is polled. Each event becomes readable when the ring does, but hangs up as soon as
/// its own tasks have ended: poll(2) would then return at once, while tasks of other events still write to the ring.
#[derive(Debug, Default)]
pub(super) struct Polled {
    /// Index of the first event that has not hung up.
    first: usize,
}

impl Polled {
    /// Returns the descriptor to poll. It is one of `events`, the events of the ring; `None` if all of them have hung
    /// up.
    pub(super) fn descriptor<'a>(
        &self,
        mut events: impl Iterator<Item = BorrowedFd<'a>>,
    ) -> Option<BorrowedFd<'a>> {
        events.nth(self.first)
    }

    /// Passes over the events that have hung up. The caller must read the ring afterwards: polling an event clears the
    /// mark that it is readable.
    pub(super) fn skip_ended<'a>(&mut self, events: impl Iterator<Item = BorrowedFd<'a>>) {
        let ended = events
            .skip(self.first)
            .take_while(|event| has_hung_up(*event));
        self.first += ended.count();
    }
}

fn has_hung_up(event: BorrowedFd<'_>) -> bool {
    let mut poll_fds = [PollFd::new(event, PollFlags::empty())];
    let result = poll(&mut poll_fds, PollTimeout::ZERO);
    let events = poll_fds[0].revents().unwrap_or(PollFlags::empty());
    result.is_ok() && events.contains(PollFlags::POLLHUP)
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, AsRawFd};

    use nix::fcntl::OFlag;
    use nix::unistd::pipe2;

    use super::*;

    #[test]
    fn the_first_event_that_has_not_ended_is_polled() {
        // With O_CLOEXEC, no child process of another test inherits an end of a pipe.
        let pipes = [(); 4].map(|()| pipe2(OFlag::O_CLOEXEC).expect("a pipe"));
        let [(a, a_end), (b, b_end), (c, c_end), (d, d_end)] = pipes;
        let events = || [&a, &b, &c, &d].map(AsFd::as_fd).into_iter();
        let mut polled = Polled::default();
        let mut polled_after_skip = || {
            polled.skip_ended(events());
            polled.descriptor(events()).map(|event| event.as_raw_fd())
        };
        assert_eq!(polled_after_skip(), Some(a.as_raw_fd()));
        // An event between others that still run.
        drop(b_end);
        assert_eq!(polled_after_skip(), Some(a.as_raw_fd()));
        drop(a_end);
        assert_eq!(polled_after_skip(), Some(c.as_raw_fd()));
        drop((c_end, d_end));
        assert_eq!(polled_after_skip(), None);
    }
}
