// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver's events that each thread has opened: `prctl(2)` enables and disables those of the calling thread.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use perfmon::sys::{Driver, EventCall};

use super::target::{ThreadId, Tid};

/// Events by their ids, and the threads that have opened them.
#[derive(Debug, Default)]
pub(super) struct OpenedEvents {
    threads: HashMap<u64, ThreadId>,
    /// With more events than this, those of threads that have ended are forgotten.
    limit: usize,
}

/// Up to this number of events, ended threads are not searched for.
const MIN_LIMIT: usize = 1024;

impl OpenedEvents {
    /// Notes that a thread gets an event.
    pub(super) fn note(&mut self, driver: &dyn Driver, thread: Tid, event: impl AsFd) {
        let (Some(thread), Ok(id)) = (thread.id(), id(driver, event)) else {
            return;
        };
        self.threads.insert(id, thread);
        if self.threads.len() > self.limit.max(MIN_LIMIT) {
            self.forget_ended();
            self.limit = 2 * self.threads.len();
        }
    }

    fn forget_ended(&mut self) {
        let mut alive = HashMap::new();
        self.threads.retain(|_, thread| {
            let lives = || thread.target().id() == Some(*thread);
            *alive.entry(*thread).or_insert_with(lives)
        });
    }

    /// Returns copies of the descriptors of events that a thread has opened, and still has.
    pub(super) fn of(&self, driver: &dyn Driver, thread: Tid) -> Vec<OwnedFd> {
        let Some(caller) = thread.id() else {
            return Vec::new();
        };
        let is_its = |event: &OwnedFd| {
            id(driver, event).is_ok_and(|id| self.threads.get(&id) == Some(&caller))
        };
        let events = thread.events().into_iter();
        events.filter(is_its).collect()
    }
}

/// Returns the number that the driver gives an event.
fn id(driver: &dyn Driver, event: impl AsFd) -> Result<u64, Errno> {
    let mut id = 0;
    driver.call_event(event.as_fd(), EventCall::Id(&mut id))?;
    Ok(id)
}
