// SPDX-License-Identifier: GPL-2.0-only
//! Per-CPU memory for data that are too large for a handler's stack.

use core::cell::UnsafeCell;

/// Memory of `WORDS` words for one handler on a CPU: the overflow handler, or a handler that runs
/// with interrupts off, such as the handlers of mappings and of new cgroups.
pub(crate) struct Scratch<const WORDS: usize>(UnsafeCell<[u64; WORDS]>);

// SAFETY: `Sync` requires that several tasks may use the value at once: only `words` gives access, and its callers
// promise that only one handler on one CPU uses the value; a handler does not interrupt itself.
unsafe impl<const WORDS: usize> Sync for Scratch<WORDS> {}

impl<const WORDS: usize> Scratch<WORDS> {
    /// Returns the words, with their old contents.
    ///
    /// # Safety
    ///
    /// Only the handler that owns the words may call this, and only on the CPU that the words belong to. The handler
    /// must drop the result before it calls this again.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "one handler alone uses them")]
    pub(crate) unsafe fn words(&self) -> &mut [u64; WORDS] {
        // SAFETY: A `&mut` requires that there is no other reference: the caller promises that it is the only handler
        // that uses the words, and that it drops the result before it calls this again.
        unsafe { &mut *self.0.get() }
    }
}
