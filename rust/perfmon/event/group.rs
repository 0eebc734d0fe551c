// SPDX-License-Identifier: GPL-2.0-only
//! Groups of events: a leader, and those that were opened with it.
//!
//! Each group has a lock of its own: all callers that wait for it have descriptors of the same group.

use super::{event::Event, members::Members};
use core::ptr::{self, NonNull};
use kernel::{prelude::*, sync::MutexGuard};

/// A group that an event is being opened in. It is one event at a time, so the members have the same order here and
/// in the contexts.
pub(super) struct GroupJoin<'a> {
    leader: &'a Event,
    members: MutexGuard<'a, Members<Event>>,
}

impl<'a> GroupJoin<'a> {
    /// Prepares to add an event to the group that `leader` leads.
    ///
    /// # Errors
    ///
    /// EINVAL if `leader` is itself a member of another group. ENOMEM.
    pub(super) fn begin(leader: &'a Event) -> Result<Self> {
        if let Some(group) = &leader.joined_group {
            if group.lock().leader.is_some() {
                return Err(EINVAL);
            }
        }
        let mut members = leader.own_group.lock();
        members.siblings.reserve(1, GFP_KERNEL_ACCOUNT)?;
        Ok(Self { leader, members })
    }

    /// Adds the event, which was made with [`Event::joined_group`] being this group.
    pub(super) fn add(mut self, event: &Event) {
        // INVARIANT: Both are open: they leave when they are closed. Room has been reserved.
        self.members.leader = Some(NonNull::from(self.leader));
        let _ = self
            .members
            .siblings
            .push_within_capacity(NonNull::from(event));
    }
}

/// The group of an event, locked.
pub(super) struct LockedGroup<'a> {
    leader: NonNull<Event>,
    members: MutexGuard<'a, Members<Event>>,
}

impl LockedGroup<'_> {
    /// Returns the leader.
    pub(super) fn leader(&self) -> &Event {
        // SAFETY: It is the event that `lock` was called with, which is open, or a member, which can't leave as long as the
        // lock is held.
        unsafe { self.leader.as_ref() }
    }

    /// Returns all events, the leader first.
    pub(super) fn events(&self) -> impl Iterator<Item = &Event> {
        let siblings = self.members.siblings.iter();
        // SAFETY: A member is not freed before it leaves, under the lock, which is held.
        let siblings = siblings.map(|sibling| unsafe { sibling.as_ref() });
        // Not as a method: the trait `Init` has one of this name.
        Iterator::chain(core::iter::once(self.leader()), siblings)
    }
}

/// Locks the group of an event that is open.
pub(super) fn lock(event: &Event) -> LockedGroup<'_> {
    if let Some(group) = &event.joined_group {
        let members = group.lock();
        if let Some(leader) = members.leader {
            return LockedGroup { leader, members };
        }
    }
    LockedGroup {
        leader: NonNull::from(event),
        members: event.own_group.lock(),
    }
}

/// Takes an event, which is closed, out of its group. Those that it led are alone from now on.
pub(super) fn leave(event: &Event) {
    if let Some(group) = &event.joined_group {
        let mut members = group.lock();
        members
            .siblings
            .retain(|sibling| !ptr::eq(sibling.as_ptr(), event));
    }
    let siblings = {
        let mut members = event.own_group.lock();
        members.leader = None;
        core::mem::take(&mut members.siblings)
    };
    // Freed without the lock.
    drop(siblings);
}
