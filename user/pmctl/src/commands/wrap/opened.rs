// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver's events that each thread has opened: `prctl(2)` enables and disables those of the calling thread.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use perfmon::sys::{Driver, EventCall};

use super::target::{ThreadId, Tid};

/// The thread that has opened each event, by the event's ID.
#[derive(Debug, Default)]
pub(super) struct OpenedEvents {
    threads: HashMap<u64, ThreadId>,
    /// The number of events above which those of ended threads are removed.
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
        self.threads.insert(id, thread);
        if self.threads.len() > self.limit.max(MIN_LIMIT) {
            self.remove_ended();
            self.limit = 2 * self.threads.len();
        }
    }

    fn remove_ended(&mut self) {
        let mut events_alive = HashMap::new();
        self.threads.retain(|_, thread| {
            let is_alive = || thread.is_alive();
            *events_alive.entry(*thread).or_insert_with(is_alive)
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

/// Returns the ID that the driver has given to an event.
fn event_id(driver: &dyn Driver, event: impl AsFd) -> Result<u64, Errno> {
    let mut id = 0;
    driver.call_event(event.as_fd(), EventCall::Id(&mut id))?;
    Ok(id)
}
