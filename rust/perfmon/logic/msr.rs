// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The registers of PMUs by number.

use super::counter::{CounterId, CounterKind};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The number of a model-specific register of the PMU.
///
/// An `Msr` can have only the numbers of this file, so code that writes an `Msr` writes no register outside of the PMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Msr(u32);

impl Msr {
    /// `IA32_PERF_CAPABILITIES` (Intel SDM, volume 4).
    pub const PERF_CAPABILITIES: Self = Self(0x345);

    /// `IA32_MISC_ENABLE` (Intel SDM, volume 4, table 2-2).
    pub const MISC_ENABLE: Self = Self(0x1a0);
    /// `IA32_DS_AREA`
    pub const DS_AREA: Self = Self(0x600);
    /// `IA32_PEBS_ENABLE`
    pub const PEBS_ENABLE: Self = Self(0x3f1);
    /// `MSR_PEBS_DATA_CFG`
    pub const PEBS_DATA_CFG: Self = Self(0x3f2);

    /// `IA32_DEBUGCTL` (Intel SDM, volume 4, table 2-2).
    pub const DEBUGCTL: Self = Self(0x1d9);
    /// `MSR_LBR_SELECT` (Intel SDM, volume 4, table 2-39, which also has the other registers of branch records).
    pub const LBR_SELECT: Self = Self(0x1c8);
    /// `MSR_LASTBRANCH_TOS`: the index of the newest branch.
    pub const LBR_TOS: Self = Self(0x1c9);
    pub(super) const LBR_FROM: Self = Self(0x680);
    pub(super) const LBR_TO: Self = Self(0x6c0);
    pub(super) const LBR_INFO: Self = Self(0xdc0);

    /// `IA32_LBR_CTL` (Intel SDM, volume 4, table 2-2, which also has the other registers of architectural branch
    /// records).
    pub const LBR_CTL: Self = Self(0x14ce);
    /// `IA32_LBR_DEPTH`
    pub const LBR_DEPTH: Self = Self(0x14cf);
    pub(super) const ARCH_LBR_FROM: Self = Self(0x1500);
    pub(super) const ARCH_LBR_TO: Self = Self(0x1600);
    pub(super) const ARCH_LBR_INFO: Self = Self(0x1200);

    /// `LBR_SELECT` (AMD APM, volume 2, "Last Branch Stack Registers", which also has the other registers of AMD's
    /// records).
    pub const AMD_LBR_SELECT: Self = Self(0xc000_010e);
    /// `DBG_EXTN_CFG`
    pub const AMD_DBG_EXTN_CFG: Self = Self(0xc000_010f);
    pub(super) const AMD_LBR_FROM: Self = Self(0xc001_0300);
    pub(super) const AMD_LBR_TO: Self = Self(0xc001_0301);

    /// `MSR_OFFCORE_RSP_0`; the registers of [`ExtraRegister`](super::extra_registers::ExtraRegister) are in Intel SDM,
    /// volume 4, in the tables of the models.
    pub(super) const OFFCORE_RSP_0: Self = Self(0x1a6);
    pub(super) const OFFCORE_RSP_1: Self = Self(0x1a7);
    pub(super) const PEBS_LD_LAT: Self = Self(0x3f6);
    pub(super) const PEBS_FRONTEND: Self = Self(0x3f7);
    pub(super) const SNOOP_RSP_0: Self = Self(0x1328);
    pub(super) const SNOOP_RSP_1: Self = Self(0x1329);

    pub(super) const INTEL_PERFEVTSEL0: Self = Self(0x186);
    pub(super) const INTEL_PMC0: Self = Self(0xc1);
    /// The alias of `IA32_PMC0` whose writes set all bits.
    pub(super) const INTEL_A_PMC0: Self = Self(0x4c1);
    pub(super) const INTEL_FIXED_CTR0: Self = Self(0x309);
    pub(super) const INTEL_FIXED_CTR_CTRL: Self = Self(0x38d);
    pub(super) const INTEL_PERF_GLOBAL_CTRL: Self = Self(0x38f);
    pub(super) const INTEL_PERF_GLOBAL_STATUS: Self = Self(0x38e);
    /// The register that clears bits of `IA32_PERF_GLOBAL_STATUS`. From version 4 on, the manual
    /// calls this register `IA32_PERF_GLOBAL_STATUS_RESET`.
    pub(super) const INTEL_PERF_GLOBAL_OVF_CTRL: Self = Self(0x390);

    /// `IA32_PMC_GP0_CFG_A`: from version 6 on, another number of the event select of general counter 0 (Intel SDM,
    /// volume 4, table 2-2).
    pub(super) const INTEL_GP0_CFG_A: Self = Self(0x1901);
    /// `IA32_PMC_GP0_CFG_B`
    pub(super) const INTEL_GP0_CFG_B: Self = Self(0x1902);
    /// `IA32_PMC_GP0_CFG_C`
    pub(super) const INTEL_GP0_CFG_C: Self = Self(0x1903);
    /// `IA32_PMC_FX0_CFG_B`
    pub(super) const INTEL_FX0_CFG_B: Self = Self(0x1982);
    /// `IA32_PMC_FX0_CFG_C`
    pub(super) const INTEL_FX0_CFG_C: Self = Self(0x1983);
    /// The distance from a register of a counter to the same register of the next counter, in the registers of version 6.
    pub(super) const ALIAS_STRIDE: u32 = 4;

    pub(super) const AMD_LEGACY_CTL0: Self = Self(0xc001_0000);
    pub(super) const AMD_LEGACY_CTR0: Self = Self(0xc001_0004);
    pub(super) const AMD_CORE_CTL0: Self = Self(0xc001_0200);
    pub(super) const AMD_CORE_CTR0: Self = Self(0xc001_0201);
    pub(super) const AMD_GLOBAL_STATUS: Self = Self(0xc000_0300);
    pub(super) const AMD_GLOBAL_CTL: Self = Self(0xc000_0301);
    /// `PerfCntrGlobalStatusClr`: clears bits of the global status.
    pub(super) const AMD_GLOBAL_STATUS_CLR: Self = Self(0xc000_0302);

    /// Returns the number, for ECX of RDMSR and WRMSR.
    #[inline]
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Returns `MSR_LASTBRANCH_n_FROM_IP`.
    #[inline]
    #[must_use]
    pub const fn lbr_from(n: u32) -> Self {
        Self::LBR_FROM.plus(n)
    }

    /// Returns `MSR_LASTBRANCH_n_TO_IP`.
    #[inline]
    #[must_use]
    pub const fn lbr_to(n: u32) -> Self {
        Self::LBR_TO.plus(n)
    }

    /// Returns `MSR_LBR_INFO_n`.
    #[inline]
    #[must_use]
    pub const fn lbr_info(n: u32) -> Self {
        Self::LBR_INFO.plus(n)
    }

    /// Returns `IA32_LBR_n_FROM_IP`.
    #[inline]
    #[must_use]
    pub const fn arch_lbr_from(n: u32) -> Self {
        Self::ARCH_LBR_FROM.plus(n)
    }

    /// Returns `IA32_LBR_n_TO_IP`.
    #[inline]
    #[must_use]
    pub const fn arch_lbr_to(n: u32) -> Self {
        Self::ARCH_LBR_TO.plus(n)
    }

    /// Returns `IA32_LBR_n_INFO`.
    #[inline]
    #[must_use]
    pub const fn arch_lbr_info(n: u32) -> Self {
        Self::ARCH_LBR_INFO.plus(n)
    }

    /// Returns `LbrFrom` of a branch.
    #[inline]
    #[must_use]
    pub const fn amd_lbr_from(n: u32) -> Self {
        Self::AMD_LBR_FROM.plus(n.wrapping_mul(2))
    }

    /// Returns `LbrTo` of a branch.
    #[inline]
    #[must_use]
    pub const fn amd_lbr_to(n: u32) -> Self {
        Self::AMD_LBR_TO.plus(n.wrapping_mul(2))
    }

    /// Returns `IA32_PMC_GPn_CFG_B` or `IA32_PMC_FXn_CFG_B`, which tells the counters whose overflow reloads this counter.
    #[must_use]
    pub const fn reload(counter: CounterId) -> Self {
        Self::cfg_alias_of(counter, Self::INTEL_GP0_CFG_B, Self::INTEL_FX0_CFG_B)
    }

    /// Returns `IA32_PMC_GPn_CFG_C` or `IA32_PMC_FXn_CFG_C`. The register has the value that the
    /// counter is reloaded with, and enables the counter's records.
    #[must_use]
    pub const fn records(counter: CounterId) -> Self {
        Self::cfg_alias_of(counter, Self::INTEL_GP0_CFG_C, Self::INTEL_FX0_CFG_C)
    }

    const fn cfg_alias_of(counter: CounterId, general: Self, fixed: Self) -> Self {
        match counter.kind() {
            CounterKind::General(n) => general.plus(n as u32 * Self::ALIAS_STRIDE),
            CounterKind::Fixed(n) => fixed.plus(n as u32 * Self::ALIAS_STRIDE),
        }
    }

    #[inline]
    pub(super) const fn plus(self, n: u32) -> Self {
        Self(self.0.wrapping_add(n))
    }
}

/// An optional [`Msr`] in memory that several CPUs and interrupts use. The number 0 stands for none.
///
/// ATOMICS: relaxed; the code that shares a cell orders the accesses.
#[derive(Debug, Default)]
pub struct MsrCell(AtomicU32);

impl MsrCell {
    /// Returns the register that was [set](Self::set) last; `None` if no register was set.
    #[inline]
    #[must_use]
    pub fn get(&self) -> Option<Msr> {
        match self.0.load(Relaxed) {
            0 => None,
            number => Some(Msr(number)),
        }
    }

    /// Stores `msr`.
    #[inline]
    pub fn set(&self, msr: Msr) {
        self.0.store(msr.0, Relaxed);
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_msr))]
mod tests {
    use super::*;

    #[test]
    fn cell_returns_the_register_that_was_set() {
        let cell = MsrCell::default();
        assert_eq!(cell.get(), None);
        cell.set(Msr::PERF_CAPABILITIES);
        assert_eq!(cell.get(), Some(Msr::PERF_CAPABILITIES));
    }
}
