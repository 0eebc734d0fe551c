// SPDX-License-Identifier: GPL-2.0-only
//! The local APIC's entry for performance-monitoring interrupts (Intel SDM, volume 3A, section 12.5.1; AMD APM,
//! volume 2, section 16.4.5).

use crate::{cpu::ThisCpu, sys::ffi};

/// A value of LVTPC.
pub(crate) struct Lvtpc(u32);

impl Lvtpc {
    /// Interrupts are NMIs, not masked.
    pub(crate) const NMI: Self = Self(0b100 << 8);
    const DELIVERY_MODE: u32 = 0b111 << 8;
    const MASKED: u32 = 1 << 16;

    /// Returns the value that was [`saved`](Self::to_saved).
    pub(super) fn from_saved(value: u64) -> Self {
        Self(value as u32)
    }

    /// Returns the value as a number.
    pub(super) fn to_saved(&self) -> u64 {
        self.0.into()
    }

    /// Reads the current CPU's entry.
    #[inline(always)]
    pub(crate) fn read(_here: ThisCpu<'_>) -> Self {
        // SAFETY: `_here` proves that the caller stays on the CPU, and reading the entry has no effect.
        Self(unsafe { ffi::perfmon_lvtpc_read() })
    }

    /// Writes the current CPU's entry.
    #[inline(always)]
    pub(crate) fn write(&self, _here: ThisCpu<'_>) {
        // SAFETY: `_here` proves that the caller stays on the CPU. The value is `NMI`, for which the module has a
        // handler, or one that the entry had before the module changed it.
        unsafe { ffi::perfmon_lvtpc_write(self.0) };
    }

    /// Returns whether interrupts are NMIs, masked or not.
    #[inline(always)]
    pub(crate) fn is_nmi(&self) -> bool {
        self.0 & Self::DELIVERY_MODE == Self::NMI.0
    }

    /// Returns whether interrupts are NMIs and not masked.
    pub(crate) fn is_unmasked_nmi(&self) -> bool {
        self.0 & (Self::DELIVERY_MODE | Self::MASKED) == Self::NMI.0
    }
}
