// SPDX-License-Identifier: GPL-2.0-only
//! Which elements of an array on one CPU are in use.

use super::Word;
use core::{
    num::NonZeroU64,
    sync::atomic::{compiler_fence, Ordering::SeqCst},
};

/// The elements of an array that are in use. All bits zero: none.
///
/// Interrupts are off where one is taken or given back; the overflow handler may look between.
pub(crate) struct Places(Word);

/// An element that is in use, and which nothing else takes meanwhile.
///
/// # Invariants
///
/// The number is less than [`PLACES`].
#[derive(Clone, Copy)]
pub(crate) struct Place(u8);

/// The most elements that can be in use.
pub(crate) const PLACES: usize = 64;

impl Places {
    /// Takes an element, which `prepare` makes ready before the overflow handler finds it; `None` if all are in use.
    pub(crate) fn take(&self, prepare: impl FnOnce(Place)) -> Option<Place> {
        let free = !self.0.get();
        if free == 0 {
            return None;
        }
        // INVARIANT: A word that is not 0 has fewer than 64 zeros below its lowest bit.
        let place = Place(free.trailing_zeros() as u8);
        prepare(place);
        compiler_fence(SeqCst);
        self.0.insert(place.bit());
        Some(place)
    }

    /// Gives an element back.
    pub(crate) fn give_back(&self, place: Place) {
        self.0.remove(place.bit());
    }

    /// Returns whether none is in use.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.get() == 0
    }

    /// Returns the elements that are in use.
    pub(crate) fn all(&self) -> impl Iterator<Item = Place> {
        let mut left = self.0.get();
        core::iter::from_fn(move || {
            let index = NonZeroU64::new(left)?.trailing_zeros() as u8;
            left &= left.wrapping_sub(1);
            // INVARIANT: The number of a word's bit.
            Some(Place(index))
        })
    }
}

impl Place {
    /// Returns the index of the element.
    #[inline(always)]
    pub(crate) fn index(self) -> usize {
        self.0.into()
    }

    fn bit(self) -> u64 {
        1 << self.0
    }
}

/// A place, or none. All bits zero is none.
pub(crate) struct PlaceCell(Word);

impl PlaceCell {
    /// Returns the place.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<Place> {
        let index = (self.0.get() as u8).checked_sub(1)?;
        // INVARIANT: `set` has stored that of a place.
        Some(Place(index))
    }

    /// Sets the place.
    pub(crate) fn set(&self, place: Option<Place>) {
        self.0.set(place.map_or(0, |place| u64::from(place.0) + 1));
    }
}
