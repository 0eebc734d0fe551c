// SPDX-License-Identifier: GPL-2.0-only
//! The allocation of the elements of a per-CPU array.

use super::Word;
use core::{
    num::NonZeroU64,
    sync::atomic::{compiler_fence, Ordering::SeqCst},
};

/// A bitmap of the elements in use. All bits zero: none.
///
/// Elements are taken and given back with interrupts off. The overflow handler may read the bitmap at any time.
pub(crate) struct EntryBitmap(Word);

/// The index of an element that is in use. Nothing else takes the element meanwhile.
///
/// # Invariants
///
/// The number is less than [`MAX_ENTRIES`].
#[derive(Clone, Copy)]
pub(crate) struct EntryIndex(u8);

/// The most elements that can be in use.
pub(crate) const MAX_ENTRIES: usize = 64;

impl EntryBitmap {
    /// Takes an element; `None` if all are in use. `prepare` fills it in before the overflow handler can find it.
    pub(crate) fn take(&self, prepare: impl FnOnce(EntryIndex)) -> Option<EntryIndex> {
        let free = !self.0.get();
        if free == 0 {
            return None;
        }
        // INVARIANT: A word that is not 0 has fewer than 64 zeros below its lowest bit.
        let entry = EntryIndex(free.trailing_zeros() as u8);
        prepare(entry);
        compiler_fence(SeqCst);
        self.0.insert(entry.bit());
        Some(entry)
    }

    /// Gives an element back.
    pub(crate) fn give_back(&self, entry: EntryIndex) {
        self.0.remove(entry.bit());
    }

    /// Returns whether none is in use.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.get() == 0
    }

    /// Returns the elements that are in use.
    pub(crate) fn all(&self) -> impl Iterator<Item = EntryIndex> {
        let mut left = self.0.get();
        core::iter::from_fn(move || {
            let index = NonZeroU64::new(left)?.trailing_zeros() as u8;
            left &= left.wrapping_sub(1);
            // INVARIANT: The number of a word's bit.
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

/// The index of an element, or none. All bits zero is none.
pub(crate) struct EntryIndexCell(Word);

impl EntryIndexCell {
    /// Returns the index.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<EntryIndex> {
        let index = (self.0.get() as u8).checked_sub(1)?;
        // INVARIANT: `set` has stored the index of an element.
        Some(EntryIndex(index))
    }

    /// Sets the index.
    pub(crate) fn set(&self, entry: Option<EntryIndex>) {
        self.0.set(entry.map_or(0, |entry| u64::from(entry.0) + 1));
    }
}
