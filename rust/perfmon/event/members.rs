// SPDX-License-Identifier: GPL-2.0-only
//! The events of a group.

use core::ptr::NonNull;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex, MutexGuard},
};

/// A group, which its leader and those that were opened in it refer to.
#[pin_data]
pub(super) struct Group<E> {
    #[pin]
    members: Mutex<Members<E>>,
}

/// # Invariants
///
/// The events are not freed: each leaves under the lock before that ([`leave`](super::group::leave)).
pub(super) struct Members<E> {
    /// `None` until it leads another event, and after it was closed: those that it led are alone then.
    pub(super) leader: Option<NonNull<E>>,
    /// The events that it leads, in the order in which they were opened.
    pub(super) siblings: KVec<NonNull<E>>,
}

// SAFETY: The events may be used by any task, under the lock.
unsafe impl<E: Sync> Send for Members<E> {}

impl<E> Group<E> {
    /// Returns a group of one.
    ///
    /// # Errors
    ///
    /// ENOMEM.
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
