// SPDX-License-Identifier: GPL-2.0-only
//! The registers in samples (`PERF_SAMPLE_REGS_USER`, `PERF_SAMPLE_REGS_INTR`).

use super::Record;
use crate::sys::ffi;
use core::ptr;
use kernel::bindings::pt_regs;

/// The values of `enum perf_sample_regs_abi`.
mod regs_abi {
    pub(super) const NONE: u64 = 0;
    pub(super) const BITS_32: u64 = 1;
    pub(super) const BITS_64: u64 = 2;
}

/// Returns the register with the number `n` of `enum perf_event_x86_regs`; 0 for DS, ES, FS and GS, which samples
/// don't have.
fn register(regs: &pt_regs, n: u32) -> u64 {
    // SAFETY: To read a field of a union requires bits that are valid for its type: these fields are integers, for
    // which any bits are.
    let (cs, ss) = unsafe {
        (
            u64::from(regs.__bindgen_anon_1.cs),
            u64::from(regs.__bindgen_anon_2.ss),
        )
    };
    match n {
        0 => regs.ax as u64,
        1 => regs.bx as u64,
        2 => regs.cx as u64,
        3 => regs.dx as u64,
        4 => regs.si as u64,
        5 => regs.di as u64,
        6 => regs.bp as u64,
        7 => regs.sp as u64,
        8 => regs.ip as u64,
        9 => regs.flags as u64,
        10 => cs,
        11 => ss,
        16 => regs.r8 as u64,
        17 => regs.r9 as u64,
        18 => regs.r10 as u64,
        19 => regs.r11 as u64,
        20 => regs.r12 as u64,
        21 => regs.r13 as u64,
        22 => regs.r14 as u64,
        23 => regs.r15 as u64,
        _ => 0,
    }
}

/// Writes the ABI of the registers, and the registers in `mask` (`enum perf_event_x86_regs`). Without `regs`, writes
/// only `PERF_SAMPLE_REGS_ABI_NONE`.
pub(super) fn put_registers(record: &mut Record<'_>, regs: Option<&pt_regs>, mask: u64) {
    let Some(regs) = regs else {
        return record.write_word(regs_abi::NONE);
    };
    // SAFETY: The function requires a pointer to valid registers, which it only reads: `regs` is a reference.
    let is_64_bit = unsafe { ffi::perfmon_regs_are_64(ptr::from_ref(regs).cast_mut()) };
    record.write_word(if is_64_bit {
        regs_abi::BITS_64
    } else {
        regs_abi::BITS_32
    });
    let mut remaining = mask;
    while remaining != 0 {
        record.write_word(register(regs, remaining.trailing_zeros()));
        remaining &= remaining.wrapping_sub(1);
    }
}
