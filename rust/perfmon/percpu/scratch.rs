// SPDX-License-Identifier: GPL-2.0-only
//! Per-CPU buffers for data that are too large for a handler's stack.

use core::cell::UnsafeCell;

/// A buffer of `WORDS` words for one of this CPU's handlers: of overflows, or of mappings.
pub(crate) struct Scratch<const WORDS: usize>(UnsafeCell<[u64; WORDS]>);

// SAFETY: The words are used in one handler of one CPU only, which does not interrupt itself.
unsafe impl<const WORDS: usize> Sync for Scratch<WORDS> {}

impl<const WORDS: usize> Scratch<WORDS> {
    /// Returns the words, with whatever they have.
    ///
    /// # Safety
    ///
    /// To be called in the handler that they are for, on the CPU that they belong to, once until the result has gone.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "one handler alone uses them")]
    pub(crate) unsafe fn words(&self) -> &mut [u64; WORDS] {
        // SAFETY: The caller says that there is no other reference.
        unsafe { &mut *self.0.get() }
    }
}
