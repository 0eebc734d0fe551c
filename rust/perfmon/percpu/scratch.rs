// SPDX-License-Identifier: GPL-2.0-only
//! Memory for what an overflow handler puts together: its stack has no room for it.

use core::cell::UnsafeCell;

/// So many words for this CPU's overflow handler.
pub(crate) struct Scratch<const WORDS: usize>(UnsafeCell<[u64; WORDS]>);

// SAFETY: The words are used in one CPU's overflow handler only, which nothing interrupts.
unsafe impl<const WORDS: usize> Sync for Scratch<WORDS> {}

impl<const WORDS: usize> Scratch<WORDS> {
    /// Returns the words, with whatever they have.
    ///
    /// # Safety
    ///
    /// To be called in the overflow handler of the CPU that they belong to, once until the result has gone.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "the overflow handler alone uses them")]
    pub(crate) unsafe fn words(&self) -> &mut [u64; WORDS] {
        // SAFETY: The caller says that there is no other reference.
        unsafe { &mut *self.0.get() }
    }
}
