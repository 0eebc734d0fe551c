// SPDX-License-Identifier: GPL-2.0-only
//! Allocation of the elements of a per-CPU array.

use super::Word;
use core::{
    num::NonZeroU64,
    sync::atomic::{compiler_fence, Ordering::SeqCst},
};

/// A bitmap of the elements in use. All bits zero: no element is in use.
///
/// Elements are allocated and freed with interrupts off. The overflow handler may read the bitmap at any time.
pub(crate) struct EntryBitmap(Word);

/// The index of an element that is in use, and belongs to the holder of the index.
///
/// # Invariants
///
/// The number is less than [`MAX_ENTRIES`].
#[derive(Clone, Copy)]
pub(crate) struct EntryIndex(u8);

/// The number of elements of the array.
pub(crate) const MAX_ENTRIES: usize = 64;

impl EntryBitmap {
    /// Allocates an element, which `prepare` fills in before the overflow handler can find it. Returns `None` if all
    /// elements are in use.
    pub(crate) fn allocate(&self, prepare: impl FnOnce(EntryIndex)) -> Option<EntryIndex> {
        let free = !self.0.get();
        if free == 0 {
            return None;
        }
        // INVARIANT: `free` is not 0, so the number of its lowest bit is less than 64.
        let entry = EntryIndex(free.trailing_zeros() as u8);
        prepare(entry);
        compiler_fence(SeqCst);
        self.0.insert(entry.bit());
        Some(entry)
    }

    /// Frees an element.
    pub(crate) fn free(&self, entry: EntryIndex) {
        self.0.remove(entry.bit());
    }

    /// Returns whether no element is in use.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.get() == 0
    }

    /// Returns the elements that are in use.
    pub(crate) fn iter(&self) -> impl Iterator<Item = EntryIndex> {
        let mut remaining = self.0.get();
        core::iter::from_fn(move || {
            let index = NonZeroU64::new(remaining)?.trailing_zeros() as u8;
            remaining &= remaining.wrapping_sub(1);
            // INVARIANT: The number of a bit in a word of 64 bits is less than 64.
            Some(EntryIndex(index))
        })
    }
}

impl EntryIndex {
    /// Returns the index of the element.
    #[inline(always)]
    pub(crate) fn index(self) -> usize {
        self.0.into()
    }

    fn bit(self) -> u64 {
        1 << self.0
    }
}

/// An optional [`EntryIndex`]. All bits zero: no index.
pub(crate) struct EntryIndexCell(Word);

impl EntryIndexCell {
    /// Returns the stored index; `None` if none is stored.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<EntryIndex> {
        let index = (self.0.get() as u8).checked_sub(1)?;
        // INVARIANT: `set` has stored the index of an element, plus 1.
        Some(EntryIndex(index))
    }

    /// Sets the index.
    pub(crate) fn set(&self, entry: Option<EntryIndex>) {
        self.0.set(entry.map_or(0, |entry| u64::from(entry.0) + 1));
    }
}
