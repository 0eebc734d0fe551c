// SPDX-License-Identifier: GPL-2.0-only
//! The copy of the program's stack in samples (`PERF_SAMPLE_STACK_USER`), for tools that unwind it.

use super::Record;
use crate::{logic::sample_format::SampleFormat, sys::ffi};
use core::ptr;
use kernel::bindings::pt_regs;

/// Returns the number of bytes of the stack to copy into a sample with `words` other words: a multiple of 8, at most
/// `wanted_bytes`. Returns 0 if the program's registers are not known.
pub(super) fn size(user_regs: Option<&pt_regs>, wanted_bytes: u32, words: usize) -> u32 {
    let Some(regs) = user_regs else {
        return 0;
    };
    // SAFETY: The function requires the registers of the current task's program, which it only
    // reads: `regs` is a reference to the registers that the interrupt or the task has saved, or to
    // a copy of these.
    let stack_bytes = unsafe { ffi::perfmon_user_stack(ptr::from_ref(regs).cast_mut()) };
    let readable_bytes = u64::from(wanted_bytes).min(stack_bytes) as u32 & !7;
    SampleFormat::stack_room(readable_bytes, words)
}

/// Returns the number of words that a stack of `size` bytes takes in a sample. Includes one word for the size before the
/// stack, and one for the copied size after it.
pub(super) const fn words(size: u32) -> usize {
    match size {
        0 => 1,
        size => 2 + size as usize / size_of::<u64>(),
    }
}

/// Writes `size`, in bytes. If `size` is not 0, also writes a copy of so much of the stack, and the number of bytes that
/// could be read.
#[cold]
pub(super) fn put_stack(record: &mut Record<'_>, user_regs: Option<&pt_regs>, size: u32) {
    record.write_word(size.into());
    let Some(regs) = user_regs.filter(|_| size != 0) else {
        return;
    };
    let mut from = regs.sp as u64;
    let copied_bytes = record.write_with(size.into(), |to, bytes| {
        // SAFETY: The function requires memory for `bytes` bytes at `to`: `write_with` passes such
        // an address. The function may be called in NMIs, and outside of them with interrupts off,
        // for example by a task that finds records of the processor. The cast keeps the number:
        // `bytes` is at most `size`, a `u32`.
        let copied = u64::from(unsafe { ffi::perfmon_copy_stack(to, from, bytes as u32) });
        from = from.wrapping_add(copied);
        copied
    });
    record.write_word(copied_bytes);
}
