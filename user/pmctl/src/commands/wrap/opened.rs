// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver's events that each thread has opened: `prctl(2)` enables and disables those of the calling thread.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use perfmon::sys::{Driver, EventCall};

use super::target::{ThreadId, Tid};

/// The thread that has opened each event, by the event's ID.
#[derive(Debug, Default)]
pub(super) struct OpenedEvents {
    threads: HashMap<u64, ThreadId>,
    /// The number of events above which closed ones are removed.
    limit: usize,
}

/// The smallest [`OpenedEvents::limit`] that is used.
const MIN_LIMIT: usize = 1024;

impl OpenedEvents {
    /// Adds an event that a thread has opened.
    pub(super) fn add(&mut self, driver: &dyn Driver, thread: Tid, event: impl AsFd) {
        let (Some(thread), Ok(id)) = (thread.identity(), event_id(driver, event)) else {
            return;
        };
        // Removes closed events before the new one is added: the thread does not have the
        // descriptor of the new event yet, so the new event would be taken for closed.
        if self.threads.len() >= self.limit.max(MIN_LIMIT) {
            self.remove_closed(driver);
            self.limit = 2 * self.threads.len();
        }
        self.threads.insert(id, thread);
    }

    /// Removes the events that their threads no longer have.
    fn remove_closed(&mut self, driver: &dyn Driver) {
        let mut events_of_threads = HashMap::new();
        self.threads.retain(|id, thread| {
            let open_events = || thread.event_ids(driver);
            let events = events_of_threads.entry(*thread);
            events.or_insert_with(open_events).contains(id)
        });
    }

    /// Returns copies of the descriptors of events that a thread has opened, and still has.
    pub(super) fn events_of(&self, driver: &dyn Driver, thread: Tid) -> Vec<OwnedFd> {
        let Some(caller) = thread.identity() else {
            return Vec::new();
        };
        let is_own = |event: &OwnedFd| {
            event_id(driver, event).is_ok_and(|id| self.threads.get(&id) == Some(&caller))
        };
        thread.driver_events().filter(is_own).collect()
    }
}

impl ThreadId {
    /// Returns the IDs of the driver's events that the thread has; none if it has ended.
    fn event_ids(self, driver: &dyn Driver) -> HashSet<u64> {
        let events = self.is_alive().then(|| self.tid().driver_events());
        let ids = events
            .into_iter()
            .flatten()
            .flat_map(|event| event_id(driver, event));
        ids.collect()
    }
}

/// Returns the ID that the driver has given to an event.
fn event_id(driver: &dyn Driver, event: impl AsFd) -> Result<u64, Errno> {
    let mut id = 0;
    driver.call_event(event.as_fd(), EventCall::Id(&mut id))?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::BorrowedFd;
    use std::sync::atomic::{AtomicU64, Ordering};

    use perfmon::sys::Call;

    use super::*;

    /// A driver whose events have the IDs 0, 1, ... in the order in which they are asked for.
    #[derive(Debug, Default)]
    struct Numbering(AtomicU64);

    // SAFETY: `Driver` requires that the descriptors that `open_event` returns are events of the kernel. This driver has
    // the trait's `open_event`, which returns an error and no descriptor.
    unsafe impl Driver for Numbering {
        fn call(&self, _: Call<'_>) -> Result<(), Errno> {
            Err(Errno::ENOTTY)
        }

        fn call_event(&self, _: BorrowedFd<'_>, call: EventCall<'_>) -> Result<(), Errno> {
            if let EventCall::Id(id) = call {
                *id = self.0.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        }
    }

    #[test]
    fn events_that_a_living_thread_has_closed_are_removed() {
        let driver = Numbering::default();
        let thread = Tid(nix::unistd::gettid().as_raw());
        let file = File::open("/dev/null").expect("it can be opened");
        let mut opened = OpenedEvents::default();
        for _ in 0..MIN_LIMIT {
            opened.add(&driver, thread, &file);
        }
        assert_eq!(opened.threads.len(), MIN_LIMIT);
        // The thread has none of these events.
        opened.add(&driver, thread, &file);
        assert_eq!(opened.threads.len(), 1);
    }
}
