// SPDX-License-Identifier: GPL-2.0-only
//! RDMSR and WRMSR: all that the module executes are here.
//!
//! Which registers there are is the matter of [`crate::logic::regs`]; an [`Msr`] names nothing but a
//! register of the PMU, so the functions here are safe. They act on the current CPU and therefore
//! want to see that the caller stays on it.

use crate::{
    cpu::ThisCpu,
    ffi,
    logic::{
        plan::{Plan, Step},
        regs::Msr,
    },
};
use core::arch::asm;
use kernel::{error::to_result, prelude::*};

/// `EX_TYPE_RDMSR` and `EX_TYPE_WRMSR` of arch/x86/include/asm/extable_fixup_types.h: an access to a
/// register that does not exist is told in the log, and reads as 0.
const EX_TYPE_WRMSR: u32 = 8;
const EX_TYPE_RDMSR: u32 = 9;

/// Reads a register.
#[inline(always)]
pub(crate) fn read(here: &ThisCpu, msr: Msr) -> u64 {
    let (low, high) = read_halves(here, msr);
    high << 32 | low
}

/// Reads a register, as RDMSR gives it: bits 31:0, and bits 63:32.
#[inline(always)]
pub(crate) fn read_halves(_here: &ThisCpu, msr: Msr) -> (u64, u64) {
    let (low, high): (u64, u64);
    // SAFETY: Reading a register of the PMU has no effect, and if it is missing the exception table
    // leads to the next instruction. It counts as an access to memory, so that loads and stores of
    // what an overflow interrupt changes stay on their side of it.
    unsafe {
        asm!(
            "2: rdmsr",
            "3:",
            ".pushsection __ex_table, \"aM\", @progbits, 12",
            ".balign 4",
            ".long 2b - .",
            ".long 3b - .",
            ".long {fixup}",
            ".popsection",
            fixup = const EX_TYPE_RDMSR,
            in("ecx") msr.number(),
            // Their upper halves become 0.
            out("rax") low,
            out("rdx") high,
            options(nostack, preserves_flags),
        );
    }
    (low, high)
}

/// Writes a register.
#[inline(always)]
pub(crate) fn write(_here: &ThisCpu, msr: Msr, value: u64) {
    // SAFETY: The registers of the PMU count and do nothing else to the system: an overflow interrupt
    // is not enabled before there is a handler. If the register is missing, or refuses the value, the
    // exception table leads to the next instruction. As in the kernel's own, the compiler may not move
    // memory accesses across.
    unsafe {
        asm!(
            "2: wrmsr",
            "3:",
            ".pushsection __ex_table, \"aM\", @progbits, 12",
            ".balign 4",
            ".long 2b - .",
            ".long 3b - .",
            ".long {fixup}",
            ".popsection",
            fixup = const EX_TYPE_WRMSR,
            in("ecx") msr.number(),
            // Their upper halves are ignored.
            in("rax") value,
            in("rdx") value >> 32,
            options(nostack, preserves_flags),
        );
    }
}

/// Reads a register that may be missing: EIO then.
pub(crate) fn read_safe(_here: &ThisCpu, msr: Msr) -> Result<u64> {
    let mut value = 0;
    // SAFETY: `value` can be written.
    to_result(unsafe { ffi::perfmon_rdmsr_safe(msr.number(), &mut value) })?;
    Ok(value)
}

/// Makes one change. A register that is as it should be is not written: that would take longer than
/// reading it.
#[inline]
pub(crate) fn change(here: &ThisCpu, step: &Step) {
    if step.keep == 0 {
        write(here, step.msr, step.value);
        return;
    }
    let old = read(here, step.msr);
    let new = step.apply(old);
    if new != old {
        write(here, step.msr, new);
    }
}

/// Makes the changes of a plan, in order.
#[inline]
pub(crate) fn execute(here: &ThisCpu, plan: &Plan) {
    plan.steps().for_each(|step| change(here, step));
}
