// SPDX-License-Identifier: MIT OR Apache-2.0
//! An open event.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::unistd::Pid;

use super::group_reading::{GroupPlace, read_group};
use super::{Encoding, EventLabel};
use crate::sys::{Driver, EventCall};
use crate::{Attempt, Cause, Error};

/// An event that counts, until it is dropped. [`Builder`](super::Builder) opens it.
#[derive(Debug)]
pub struct Event {
    pub(super) driver: Arc<dyn Driver>,
    pub(super) descriptor: OwnedFd,
    pub(super) label: EventLabel,
    /// The event is sampled: reading it returns also the number of lost samples (`PERF_FORMAT_LOST`).
    pub(super) reads_lost: bool,
    /// The ID of the thread that opened the event, if the event counts that thread on all CPUs.
    pub(super) thread: Option<Pid>,
    /// The event's place in its group; `None` for an event without a group.
    pub(super) place: Option<GroupPlace>,
}

/// A count and its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reading {
    /// The count.
    pub value: u64,
    /// Time that the tasks ran while the event was enabled.
    pub enabled: Duration,
    /// The part of `enabled` in which the event was counted. It is less than `enabled` if the event takes
    /// [turns](super::Builder::rotate), or if tasks ran on cores of a hybrid processor that lack the event: the count
    /// is then too low.
    pub running: Duration,
}

impl Reading {
    /// Returns how long the event was enabled and not counted.
    #[must_use]
    pub fn uncounted(&self) -> Duration {
        self.enabled.saturating_sub(self.running)
    }

    /// Returns the count since an earlier reading; `None` if there was a time since then when the event was enabled and
    /// not counted.
    pub(super) fn count_since(&self, before: &Self) -> Option<u64> {
        let is_whole = self.uncounted() == before.uncounted();
        is_whole.then(|| self.value.wrapping_sub(before.value))
    }
}

impl Event {
    /// Returns the encoding.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.label.encoding()
    }

    /// Returns the event's name.
    #[must_use]
    pub fn label(&self) -> &EventLabel {
        &self.label
    }

    /// Starts counting.
    ///
    /// # Errors
    /// None that are specific to this call.
    pub fn enable(&self) -> Result<(), Error> {
        self.control(EventCall::Enable { group: false })
    }

    /// Stops counting. The count is kept.
    ///
    /// # Errors
    /// None that are specific to this call.
    pub fn disable(&self) -> Result<(), Error> {
        self.control(EventCall::Disable { group: false })
    }

    /// Zeroes the count, including the counts of tasks that have inherited the event.
    ///
    /// # Errors
    /// None that are specific to this call.
    pub fn reset(&self) -> Result<(), Error> {
        self.control(EventCall::Reset { group: false })
    }

    /// Returns the event's ID, by which records and readings of a group name the event
    /// (`PERF_EVENT_IOC_ID`).
    ///
    /// # Errors
    /// None that are specific to this call.
    pub fn id(&self) -> Result<u64, Error> {
        let mut id = 0;
        self.control(EventCall::Id(&mut id))?;
        Ok(id)
    }

    /// Returns the count.
    ///
    /// # Errors
    /// [`Cause::Missed`] if events were missed, so that the count would be too low.
    pub fn read(&self) -> Result<u64, Error> {
        Ok(self.read_with_times()?.value)
    }

    /// Returns the count and its times.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_with_times(&self) -> Result<Reading, Error> {
        let [value, enabled, running, _] = self.read_all()?;
        Ok(Reading {
            value,
            enabled: Duration::from_nanos(enabled),
            running: Duration::from_nanos(running),
        })
    }

    /// Returns the count between two [readings](Self::read_with_times) of this event.
    ///
    /// # Errors
    /// [`Cause::OtherCore`] if the event was not counted for a part of the time, so that the count would be too low.
    pub fn count_between(&self, before: &Reading, after: &Reading) -> Result<u64, Error> {
        after.count_since(before).ok_or_else(|| Error {
            attempt: Attempt::ReadEvent(self.label.clone()),
            cause: Cause::OtherCore,
        })
    }

    /// Returns the number of lost samples: the [ring](crate::Sampler) was full, or the interrupt came too late.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn lost_samples(&self) -> Result<u64, Error> {
        let [.., lost] = self.read_all()?;
        Ok(lost)
    }

    /// Returns the number of tasks that the event has stopped counting, because they executed a
    /// program that the event must not count: a program with more rights (setuid, setgid, file
    /// capabilities), or an unreadable program. The count is then too low.
    ///
    /// # Errors
    /// The errors of reading the descriptor's file in /proc.
    pub fn tasks_not_followed(&self) -> Result<u64, Error> {
        let tasks_not_followed = self.driver.tasks_not_followed(self.as_fd());
        tasks_not_followed
            .map_err(|errno| Error::new(Attempt::ReadEvent(self.label.clone()), errno))
    }

    /// Reads four words: the count, the times enabled and running in nanoseconds, and the number of lost samples, which
    /// is 0 if the event is not sampled.
    fn read_all(&self) -> Result<[u64; 4], Error> {
        if let Some(GroupPlace { index, length }) = self.place {
            return read_group(
                length,
                |words| self.read_words(words),
                |reading| [reading.counts[index], reading.enabled, reading.running, 0],
            );
        }
        let mut words = [0; 4];
        let number = if self.reads_lost { 4 } else { 3 };
        self.read_words(&mut words[..number])?;
        Ok(words)
    }

    /// Reads the event, and fails unless the result fills all of `words`.
    pub(super) fn read_words(&self, words: &mut [u64]) -> Result<(), Error> {
        let requested = words.len();
        match self.driver.read_event(self.as_fd(), words) {
            Ok(number) if number == requested => Ok(()),
            // A short read means that the event's task can no longer be counted, as for perf's pinned events in the
            // error state.
            Ok(_) => Err(Error {
                attempt: Attempt::ReadEvent(self.label.clone()),
                cause: Cause::Missed,
            }),
            Err(errno) => Err(Error::new(Attempt::ReadEvent(self.label.clone()), errno)),
        }
    }

    /// Executes an ioctl of the event.
    pub(super) fn control(&self, call: EventCall<'_>) -> Result<(), Error> {
        self.call(Attempt::ControlEvent(self.label.clone()), call)
    }

    pub(crate) fn call(&self, attempt: Attempt, call: EventCall<'_>) -> Result<(), Error> {
        self.driver
            .call_event(self.as_fd(), call)
            .map_err(|errno: Errno| Error::new(attempt, errno))
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_whole_if_the_event_always_had_a_counter() {
        let reading = |value, enabled, running| Reading {
            value,
            enabled: Duration::from_nanos(enabled),
            running: Duration::from_nanos(running),
        };
        // Until the first reading, the event was not counted for 20 ns.
        let before = reading(100, 50, 30);
        assert_eq!(reading(107, 90, 70).count_since(&before), Some(7));
        assert_eq!(reading(100, 90, 30).count_since(&before), None);
        assert_eq!(reading(107, 90, 69).count_since(&before), None);
    }
}
