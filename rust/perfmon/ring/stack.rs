// SPDX-License-Identifier: GPL-2.0-only
//! The program's stack in samples (`PERF_SAMPLE_STACK_USER`), for readers that unwind it.

use super::Record;
use crate::{logic::sample_format::SampleFormat, sys::ffi};
use core::ptr;
use kernel::bindings::pt_regs;

/// Returns how many bytes of the stack fit into a sample beside `words` words: at most `wanted`, a multiple of 8.
pub(super) fn size(user: Option<&pt_regs>, wanted: u32, words: usize) -> u32 {
    let Some(regs) = user else {
        return 0;
    };
    // SAFETY: The registers are those of the current task, and not changed.
    let most = unsafe { ffi::perfmon_user_stack(ptr::from_ref(regs).cast_mut()) };
    let wanted = u64::from(wanted).min(most) as u32 & !7;
    SampleFormat::stack_room(wanted, words)
}

/// Returns the words of the stack in a sample, with the numbers before and behind it.
pub(super) const fn words(size: u32) -> usize {
    match size {
        0 => 1,
        size => 2 + size as usize / size_of::<u64>(),
    }
}

/// Writes the stack: its size, and if that is not 0 as many bytes, and how many of them could be read.
#[cold]
pub(super) fn put(record: &mut Record<'_>, user: Option<&pt_regs>, size: u32) {
    record.put(size.into());
    let Some(regs) = user.filter(|_| size != 0) else {
        return;
    };
    let mut from = regs.sp as u64;
    let read = record.fill(size.into(), |to, bytes| {
        // SAFETY: This is the overflow handler; there is room for so many bytes, fewer than 2^16.
        let copied = u64::from(unsafe { ffi::perfmon_copy_stack(to, from, bytes as u32) });
        from = from.wrapping_add(copied);
        copied
    });
    record.put(read);
}
