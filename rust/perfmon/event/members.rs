// SPDX-License-Identifier: GPL-2.0-only
//! The members of a group of events, under the group's lock.

use core::ptr::NonNull;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex, MutexGuard},
};

/// A group of events. The leader and each member hold a reference.
#[pin_data]
pub(super) struct Group<E> {
    #[pin]
    members: Mutex<Members<E>>,
}

/// The events of a group.
///
/// # Invariants
///
/// The events are alive: each is removed, under the lock, before it is freed
/// ([`remove_event`](super::group::remove_event)).
pub(super) struct Members<E> {
    /// The leader; `None` as long as the group has no other event, and after the leader was closed.
    pub(super) leader: Option<NonNull<E>>,
    /// The events other than the leader, in the order in which they were opened.
    pub(super) siblings: KVec<NonNull<E>>,
}

// SAFETY: `Send` requires that any task may use and drop the value: its pointers are to events that are alive by the
// type invariant, and any task may use an `E`, since it is `Sync`.
unsafe impl<E: Sync> Send for Members<E> {}

impl<E> Group<E> {
    /// Returns a new group, without leader and members.
    ///
    /// # Errors
    ///
    /// ENOMEM if there is no memory.
    pub(super) fn new() -> Result<Arc<Self>> {
        let members = Members {
            leader: None,
            siblings: KVec::new(),
        };
        Arc::pin_init(
            pin_init!(Self {
                members <- new_mutex!(members),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Locks the members.
    pub(super) fn lock(&self) -> MutexGuard<'_, Members<E>> {
        self.members.lock()
    }
}
