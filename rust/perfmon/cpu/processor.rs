// SPDX-License-Identifier: GPL-2.0-only
//! Registers and instructions of the processor, other than MSRs.

use core::{
    arch::{asm, x86_64},
    marker::PhantomData,
    num::NonZeroU64,
    ptr::{self, NonNull},
};
use kernel::bindings;

/// The registers of an interrupted program.
#[derive(Clone, Copy)]
pub(crate) struct Regs<'a> {
    regs: NonNull<bindings::pt_regs>,
    _interrupt: PhantomData<&'a bindings::pt_regs>,
}

impl<'a> Regs<'a> {
    /// # Safety
    ///
    /// `regs` must be the registers of an interrupt whose handler runs for as long as the result lives.
    #[inline(always)]
    pub(crate) unsafe fn new(regs: *mut bindings::pt_regs) -> Self {
        Self {
            // SAFETY: `new_unchecked` requires a pointer that is not null: the caller passes the address of
            // an interrupt's registers.
            regs: unsafe { NonNull::new_unchecked(regs) },
            _interrupt: PhantomData,
        }
    }

    /// Returns the registers.
    #[inline(always)]
    pub(crate) fn get(self) -> &'a bindings::pt_regs {
        // SAFETY: `as_ref` requires registers that live for `'a` and don't change: the caller of `new` promises that
        // their interrupt's handler runs as long, and the handler only reads them.
        unsafe { self.regs.as_ref() }
    }

    /// Returns whether a program was interrupted.
    #[inline(always)]
    pub(crate) fn is_user(self) -> bool {
        /// The requested privilege level: 3 in programs (Intel SDM, volume 3A, section 3.4.2).
        const RPL: u16 = 0b11;

        // SAFETY: Reading a member of a union requires bits that are a value of its type: `cs` is an integer.
        unsafe { self.get().__bindgen_anon_1.cs & RPL != 0 }
    }

    /// Returns the address of the instruction that was to be executed next.
    #[inline(always)]
    pub(crate) fn ip(self) -> u64 {
        // SAFETY: The dereference requires that the registers are alive: the caller of `new` promises that their
        // interrupt's handler runs as long as this value lives.
        unsafe { (*self.regs.as_ptr()).ip as u64 }
    }
}

/// The bits of CR3 that identify the address space in use (Intel SDM, volume 3A, section 2.5).
pub(crate) const CR3_ADDRESS_SPACE_MASK: u64 = ((1 << 52) - 1) & !0xfff;

/// Returns CR3.
#[inline(always)]
pub(crate) fn cr3() -> u64 {
    let cr3: u64;
    // SAFETY: The instruction must not fault and must have no effect but on the register: the module runs in kernel
    // mode, where CR3 can be read, and reading it has no effect.
    unsafe { asm!("mov {}, cr3", out(reg) cr3, options(nomem, nostack, preserves_flags)) };
    cr3
}

/// Executes CPUID on the current CPU, with the leaf in EAX and the subleaf in ECX.
pub(crate) fn cpuid(leaf: u32, subleaf: u32) -> x86_64::CpuidResult {
    // SAFETY: The function requires a CPU with CPUID, which every 64-bit CPU has.
    unsafe { x86_64::__cpuid_count(leaf, subleaf) }
}

/// Returns the time-stamp counter.
#[inline(always)]
pub(crate) fn timestamp() -> u64 {
    // SAFETY: The function requires a CPU with RDTSC, which every 64-bit CPU has, and the right to execute it, which
    // kernel mode always has.
    unsafe { x86_64::_rdtsc() }
}

/// A time in cycles of the time-stamp counter.
#[derive(Clone, Copy)]
pub(crate) struct Cycles(pub(crate) u64);

impl Cycles {
    /// Returns the time in nanoseconds; 0 if the kernel does not know the frequency.
    pub(crate) fn nanoseconds(self) -> u64 {
        /// Nanoseconds in a millisecond.
        const NS_PER_MS: u64 = 1_000_000;

        let Some(khz) = NonZeroU64::new(tsc_khz().into()) else {
            return 0;
        };
        self.0 / khz * NS_PER_MS + self.0 % khz * NS_PER_MS / khz
    }
}

/// Returns the frequency of the time-stamp counter in kHz; 0 if the kernel does not know it.
pub(crate) fn tsc_khz() -> u32 {
    // SAFETY: `read_volatile` requires an aligned, initialized variable, and no race: the kernel's variable always
    // exists. The kernel may still refine it (`tsc_refine_calibration_work()`), but a volatile read, like READ_ONCE(),
    // gets the old or the new value.
    unsafe { ptr::read_volatile(&raw const bindings::tsc_khz) }
}
