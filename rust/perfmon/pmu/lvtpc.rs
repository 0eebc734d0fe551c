// SPDX-License-Identifier: GPL-2.0-only
//! The local APIC's entry for performance-monitoring interrupts (Intel SDM, volume 3A, section 12.5.1; AMD APM,
//! volume 2, section 16.4.5).

use crate::{cpu::ThisCpu, sys::ffi};

/// A value of LVTPC.
pub(crate) struct Lvtpc(u32);

impl Lvtpc {
    /// The value for interrupts that are NMIs and not masked.
    pub(crate) const NMI: Self = Self(0b100 << 8);
    const DELIVERY_MODE: u32 = 0b111 << 8;
    const MASKED: u32 = 1 << 16;

    /// Returns the entry from the number that [`Self::to_saved`] returned.
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
        // SAFETY: perfmon_lvtpc_read() requires a caller that stays on its CPU, which `_here` proves. Reading the entry
        // has no effect.
        Self(unsafe { ffi::perfmon_lvtpc_read() })
    }

    /// Writes the current CPU's entry.
    #[inline(always)]
    pub(crate) fn write(&self, _here: ThisCpu<'_>) {
        // SAFETY: perfmon_lvtpc_write() requires a caller that stays on its CPU, which `_here` proves, and a value
        // whose interrupts have a handler: it is `NMI`, whose handler the module has registered, or the value that the
        // entry had before the module changed it.
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
