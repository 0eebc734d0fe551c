// SPDX-License-Identifier: GPL-2.0-only
//! Per-CPU memory for data that are too large for a handler's stack.

use core::cell::UnsafeCell;

/// Memory of `WORDS` words for one of a CPU's handlers: of overflows, or of what tasks do.
pub(crate) struct Scratch<const WORDS: usize>(UnsafeCell<[u64; WORDS]>);

// SAFETY: Only `words` gives access, and its callers are one handler of one CPU, which does not interrupt itself.
unsafe impl<const WORDS: usize> Sync for Scratch<WORDS> {}

impl<const WORDS: usize> Scratch<WORDS> {
    /// Returns the words, with their old contents.
    ///
    /// # Safety
    ///
    /// To be called by the handler that the words are for, on their CPU, and not again before the result is dropped.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "one handler alone uses them")]
    pub(crate) unsafe fn words(&self) -> &mut [u64; WORDS] {
        // SAFETY: There must be no other reference to the words: the caller is the only handler that uses them, and
        // drops the result before it calls this again.
        unsafe { &mut *self.0.get() }
    }
}
