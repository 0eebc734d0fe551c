// SPDX-License-Identifier: GPL-2.0-only
//! Groups of events: a leader, and the events that were opened as its members.
//!
//! Each group has a lock of its own, so that only callers with descriptors of the same group wait for each other.

use super::{event::Event, members::Members};
use core::ptr::{self, NonNull};
use kernel::{prelude::*, sync::MutexGuard};

/// A group, locked while an event is opened in it. So one event is added at a time, and the members have the same
/// order here and in the contexts.
pub(super) struct GroupJoin<'a> {
    leader: &'a Event,
    members: MutexGuard<'a, Members<Event>>,
}

impl<'a> GroupJoin<'a> {
    /// Prepares to add an event to the group that `leader` leads.
    ///
    /// # Errors
    ///
    /// EINVAL if `leader` is itself a member of another group. ENOMEM if there is no memory.
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

    /// Adds an event, whose [`Event::joined_group`] is this group.
    pub(super) fn add(mut self, event: &Event) {
        // INVARIANT: Both events are open, and each leaves the group before it is freed. `begin` has reserved the
        // room.
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
    /// Returns the leader of the group.
    pub(super) fn leader(&self) -> &Event {
        // SAFETY: `as_ref` requires an event that is alive: the leader is the event that `lock` was
        // called with, which is borrowed, or the leader is in `members`. A leader leaves `members`
        // before it is freed, under the lock that `self` holds.
        unsafe { self.leader.as_ref() }
    }

    /// Returns all events of the group, the leader first.
    pub(super) fn events(&self) -> impl Iterator<Item = &Event> {
        let siblings = self.members.siblings.iter();
        // SAFETY: `as_ref` requires an event that is alive: an event leaves `members` before it is
        // freed, under the lock that `self` holds.
        let siblings = siblings.map(|sibling| unsafe { sibling.as_ref() });
        // `chain` is called by its path, since the trait `Init` has a method `chain`, too.
        Iterator::chain(core::iter::once(self.leader()), siblings)
    }
}

/// Locks the group of an open event.
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

/// Takes an event, which is being closed, out of its group. The events that it led then lead groups of their own.
pub(super) fn remove_event(event: &Event) {
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
    // Frees the vector after the lock has been released.
    drop(siblings);
}
