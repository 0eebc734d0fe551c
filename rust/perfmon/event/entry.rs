// SPDX-License-Identifier: GPL-2.0-only
//! The entries of tables ([`super::table`]).

use super::rcu;
use core::{ptr, sync::atomic::AtomicPtr};

/// A type whose values are in a table.
pub(super) trait Entry: rcu::HasHead + Sized + 'static {
    /// The type of the object whose address is the key of an entry.
    type Key;

    /// Returns the address by which the entry is found.
    fn key(&self) -> *const Self::Key;

    /// Returns the links, which only the table uses.
    fn links(&self) -> &Links<Self>;
}

/// The links from an entry to the next ones: one for the current lists, and one for the lists that replace them when
/// the table grows.
pub(super) struct Links<T>([AtomicPtr<T>; 2]);

impl<T> Links<T> {
    /// Returns the links of an entry that is in no list.
    pub(super) fn new() -> Self {
        Self([const { AtomicPtr::new(ptr::null_mut()) }; 2])
    }

    /// Returns the link at `index` modulo 2.
    #[inline(always)]
    pub(super) fn at(&self, index: usize) -> &AtomicPtr<T> {
        &self.0[index & 1]
    }
}
