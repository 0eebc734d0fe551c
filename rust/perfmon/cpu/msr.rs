// SPDX-License-Identifier: GPL-2.0-only
//! RDMSR and WRMSR, which the module executes only here.
//!
//! The functions are safe, because an [`Msr`] can only be one of the registers in [`crate::logic::msr`]. They act
//! on the current CPU: the token proves that the caller can't leave it.

use super::ThisCpu;
use crate::{
    logic::{
        msr::Msr,
        plan::{Plan, Step},
        values::Sensor,
    },
    sys::ffi,
};
use core::arch::asm;
use kernel::{error::to_result, prelude::*};

/// `EX_TYPE_RDMSR` and `EX_TYPE_WRMSR` of arch/x86/include/asm/extable_fixup_types.h, which perfmon_shim.c checks.
/// The kernel logs an access to a register that does not exist; reading it gives 0.
const EX_TYPE_WRMSR: u32 = 8;
const EX_TYPE_RDMSR: u32 = 9;

/// Expands to an instruction with an entry in the exception table, which leads to the next instruction and handles
/// the exception as `{fixup}` says.
macro_rules! with_fixup {
    ($instruction:literal) => {
        concat!(
            "2: ",
            $instruction,
            "\n3:\n\
             .pushsection __ex_table, \"aM\", @progbits, 12\n\
             .balign 4\n\
             .long 2b - .\n\
             .long 3b - .\n\
             .long {fixup}\n\
             .popsection"
        )
    };
}

/// Reads a register.
#[inline(always)]
pub(crate) fn read(here: ThisCpu<'_>, msr: Msr) -> u64 {
    let (low, high) = read_halves(here, msr);
    high << 32 | low
}

/// Reads a register as RDMSR does: bits 31:0, and bits 63:32.
#[inline(always)]
pub(crate) fn read_halves(here: ThisCpu<'_>, msr: Msr) -> (u64, u64) {
    rdmsr(here, msr.number())
}

/// Reads the register of a sensor, which the module never writes.
pub(crate) fn read_sensor(here: ThisCpu<'_>, sensor: Sensor) -> u64 {
    let (low, high) = rdmsr(here, sensor.number());
    high << 32 | low
}

#[inline(always)]
fn rdmsr(_here: ThisCpu<'_>, number: u32) -> (u64, u64) {
    let (low, high): (u64, u64);
    // SAFETY: The instruction must not fault, must have no effect but on the registers that are named, and must not be
    // moved across accesses to data that an overflow interrupt changes. If the register is missing, the exception table
    // leads to the next instruction. Reading a register of an `Msr` or a `Sensor` has no effect. Without `nomem` the
    // compiler moves no memory access across the instruction.
    unsafe {
        asm!(
            with_fixup!("rdmsr"),
            fixup = const EX_TYPE_RDMSR,
            in("ecx") number,
            // RDMSR clears the upper halves of RAX and RDX.
            out("rax") low,
            out("rdx") high,
            options(nostack, preserves_flags),
        );
    }
    (low, high)
}

/// Writes a register.
#[inline(always)]
pub(crate) fn write(_here: ThisCpu<'_>, msr: Msr, value: u64) {
    // SAFETY: The instruction must not fault, must not endanger memory, and must not be moved across accesses to data
    // that an overflow interrupt changes. If the register is missing or refuses the value, the exception table leads to
    // the next instruction. The registers of `Msr` affect counters and records only; the module enables overflow
    // interrupts after it has registered their handler, and records after it has set up their buffer. Without `nomem`
    // the compiler moves no memory access across the instruction.
    unsafe {
        asm!(
            with_fixup!("wrmsr"),
            fixup = const EX_TYPE_WRMSR,
            in("ecx") msr.number(),
            // WRMSR ignores the upper halves of RAX and RDX.
            in("rax") value,
            in("rdx") value >> 32,
            options(nostack, preserves_flags),
        );
    }
}

/// Reads a register that may be missing.
///
/// # Errors
///
/// EIO if the register is missing.
pub(crate) fn read_safe(here: ThisCpu<'_>, msr: Msr) -> Result<u64> {
    rdmsr_safe(here, msr.number())
}

/// Reads the register of a sensor, which may be missing.
///
/// # Errors
///
/// EIO if the register is missing.
pub(crate) fn read_sensor_safe(here: ThisCpu<'_>, sensor: Sensor) -> Result<u64> {
    rdmsr_safe(here, sensor.number())
}

fn rdmsr_safe(_here: ThisCpu<'_>, number: u32) -> Result<u64> {
    let mut value = 0;
    // SAFETY: perfmon_rdmsr_safe() requires a pointer that it may write to, which comes from a mutable reference. It
    // handles the exception if the register is missing.
    to_result(unsafe { ffi::perfmon_rdmsr_safe(number, &mut value) })?;
    Ok(value)
}

/// Writes a register that may be missing, or may refuse the value.
///
/// # Errors
///
/// EIO if the register is missing or refuses the value.
pub(crate) fn write_safe(_here: ThisCpu<'_>, msr: Msr, value: u64) -> Result {
    // SAFETY: perfmon_wrmsr_safe() requires a register whose writes don't endanger memory: the
    // registers of `Msr` affect counters and records only; the module enables overflow interrupts
    // after it has registered their handler, and records after it has set up their buffer. It
    // handles the exception if the register is missing or refuses the value.
    to_result(unsafe { ffi::perfmon_wrmsr_safe(msr.number(), value) })
}

/// Executes one step of a plan. Does not write a register that already has the value, since a write takes longer than a
/// read.
#[inline]
pub(crate) fn execute_step(here: ThisCpu<'_>, step: &Step) {
    if step.keep_mask == 0 {
        write(here, step.msr, step.value);
        return;
    }
    let old_value = read(here, step.msr);
    let new_value = step.apply(old_value);
    if new_value != old_value {
        write(here, step.msr, new_value);
    }
}

/// Executes the steps of a plan in order.
#[inline]
pub(crate) fn execute(here: ThisCpu<'_>, plan: &Plan) {
    plan.steps().for_each(|step| execute_step(here, step));
}
