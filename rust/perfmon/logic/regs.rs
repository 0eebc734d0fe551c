// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The register numbers of PMUs.

use super::branch_records::{BranchMsrs, BranchRecords};
use super::counter::{CounterId, CounterKind};
use super::cpuid::{Architecture, Capabilities};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The number of a model-specific register of the PMU.
///
/// Other numbers can't be made: code that writes an `Msr` writes nothing but the PMU.
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
    /// `MSR_LBR_SELECT` (Intel SDM, volume 4, table 2-39, as the other registers of branch records).
    pub const LBR_SELECT: Self = Self(0x1c8);
    /// `MSR_LASTBRANCH_TOS`: the index of the newest branch.
    pub const LBR_TOS: Self = Self(0x1c9);
    const LBR_FROM: Self = Self(0x680);
    const LBR_TO: Self = Self(0x6c0);
    const LBR_INFO: Self = Self(0xdc0);

    /// `IA32_LBR_CTL` (Intel SDM, volume 4, table 2-2, as the other registers of architectural branch records).
    pub const LBR_CTL: Self = Self(0x14ce);
    /// `IA32_LBR_DEPTH`
    pub const LBR_DEPTH: Self = Self(0x14cf);
    const ARCH_LBR_FROM: Self = Self(0x1500);
    const ARCH_LBR_TO: Self = Self(0x1600);
    const ARCH_LBR_INFO: Self = Self(0x1200);

    /// `LBR_SELECT` (AMD APM, volume 2, "Last Branch Stack Registers", as the other registers of AMD's branch records).
    pub const AMD_LBR_SELECT: Self = Self(0xc000_010e);
    /// `DBG_EXTN_CFG`
    pub const AMD_DBG_EXTN_CFG: Self = Self(0xc000_010f);
    const AMD_LBR_FROM: Self = Self(0xc001_0300);
    const AMD_LBR_TO: Self = Self(0xc001_0301);

    const INTEL_PERFEVTSEL0: Self = Self(0x186);
    const INTEL_PMC0: Self = Self(0xc1);
    /// The alias of `IA32_PMC0` whose writes set all bits.
    const INTEL_A_PMC0: Self = Self(0x4c1);
    const INTEL_FIXED_CTR0: Self = Self(0x309);
    const INTEL_FIXED_CTR_CTRL: Self = Self(0x38d);
    const INTEL_PERF_GLOBAL_CTRL: Self = Self(0x38f);
    const INTEL_PERF_GLOBAL_STATUS: Self = Self(0x38e);
    /// Clears bits of `IA32_PERF_GLOBAL_STATUS`; from version 4 on the manual calls it
    /// `IA32_PERF_GLOBAL_STATUS_RESET`.
    const INTEL_PERF_GLOBAL_OVF_CTRL: Self = Self(0x390);

    /// `IA32_PMC_GP0_CFG_A`: from version 6 on, another number of the event select of general counter 0. Each counter has
    /// [four numbers](Self::ALIAS_STRIDE) there (Intel SDM, volume 4, table 2-2).
    const INTEL_GP0_CFG_A: Self = Self(0x1901);
    /// `IA32_PMC_GP0_CFG_B`
    const INTEL_GP0_CFG_B: Self = Self(0x1902);
    /// `IA32_PMC_GP0_CFG_C`
    const INTEL_GP0_CFG_C: Self = Self(0x1903);
    /// `IA32_PMC_FX0_CFG_B`
    const INTEL_FX0_CFG_B: Self = Self(0x1982);
    /// `IA32_PMC_FX0_CFG_C`
    const INTEL_FX0_CFG_C: Self = Self(0x1983);
    const ALIAS_STRIDE: u32 = 4;

    const AMD_LEGACY_CTL0: Self = Self(0xc001_0000);
    const AMD_LEGACY_CTR0: Self = Self(0xc001_0004);
    const AMD_CORE_CTL0: Self = Self(0xc001_0200);
    const AMD_CORE_CTR0: Self = Self(0xc001_0201);
    const AMD_GLOBAL_STATUS: Self = Self(0xc000_0300);
    const AMD_GLOBAL_CTL: Self = Self(0xc000_0301);
    /// Clears bits of the status.
    const AMD_GLOBAL_STATUS_CLR: Self = Self(0xc000_0302);

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

    /// Returns `IA32_PMC_GPn_CFG_B` or `IA32_PMC_FXn_CFG_B`: the counters whose overflow reloads this one.
    #[must_use]
    pub const fn reload(counter: CounterId) -> Self {
        Self::extension(counter, Self::INTEL_GP0_CFG_B, Self::INTEL_FX0_CFG_B)
    }

    /// Returns `IA32_PMC_GPn_CFG_C` or `IA32_PMC_FXn_CFG_C`: what is reloaded, and the counter's records.
    #[must_use]
    pub const fn records(counter: CounterId) -> Self {
        Self::extension(counter, Self::INTEL_GP0_CFG_C, Self::INTEL_FX0_CFG_C)
    }

    const fn extension(counter: CounterId, general: Self, fixed: Self) -> Self {
        match counter.kind() {
            CounterKind::General(n) => general.plus(n as u32 * Self::ALIAS_STRIDE),
            CounterKind::Fixed(n) => fixed.plus(n as u32 * Self::ALIAS_STRIDE),
        }
    }

    #[inline]
    const fn plus(self, n: u32) -> Self {
        Self(self.0.wrapping_add(n))
    }
}

/// An [`Msr`] or nothing, in memory that several CPUs and interrupts use. All bits zero is nothing.
///
/// ATOMICS: relaxed; the code that shares a cell orders the accesses.
#[derive(Debug, Default)]
pub struct MsrCell(AtomicU32);

impl MsrCell {
    /// Returns the last `msr` that was [set](Self::set).
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

/// The registers that all counters of a PMU share, from version 2 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalMsrs {
    /// One enable bit per counter.
    pub control: Msr,
    /// One overflow bit per counter.
    pub status: Msr,
    /// Writing a bit clears the counter's overflow in the status.
    pub clear: Msr,
}

/// The registers of a PMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// The event select of general counter 0.
    select: Msr,
    /// General counter 0, for reading.
    counter: Msr,
    /// General counter 0, for writing.
    counter_write: Msr,
    /// The distance from the registers of one general counter to those of the next.
    stride: u32,
    /// Fixed-function counter 0.
    fixed: Msr,
    /// Four control bits per fixed-function counter.
    pub fixed_control: Msr,
    /// The registers that all counters share, if there are such.
    pub global: Option<GlobalMsrs>,
    /// The registers of the branch records, if there are such.
    pub branches: BranchMsrs,
    /// A status bit tells that the branch records are frozen, if they can be.
    pub has_freeze_status: bool,
    /// General counters have other numbers besides, by which Linux perf uses them.
    has_aliases: bool,
}

/// Intel SDM, volume 4, table 2-2.
const INTEL: Registers = Registers {
    select: Msr::INTEL_PERFEVTSEL0,
    counter: Msr::INTEL_PMC0,
    counter_write: Msr::INTEL_PMC0,
    stride: 1,
    fixed: Msr::INTEL_FIXED_CTR0,
    fixed_control: Msr::INTEL_FIXED_CTR_CTRL,
    global: None,
    branches: BranchMsrs::new(BranchRecords::Stack),
    has_freeze_status: false,
    has_aliases: false,
};

const INTEL_GLOBAL: GlobalMsrs = GlobalMsrs {
    control: Msr::INTEL_PERF_GLOBAL_CTRL,
    status: Msr::INTEL_PERF_GLOBAL_STATUS,
    clear: Msr::INTEL_PERF_GLOBAL_OVF_CTRL,
};

/// AMD APM, volume 2, section 13.2.1. AMD has no fixed-function counters: their numbers are not used.
const AMD_LEGACY: Registers = Registers {
    select: Msr::AMD_LEGACY_CTL0,
    counter: Msr::AMD_LEGACY_CTR0,
    counter_write: Msr::AMD_LEGACY_CTR0,
    ..INTEL
};

const AMD_CORE: Registers = Registers {
    select: Msr::AMD_CORE_CTL0,
    counter: Msr::AMD_CORE_CTR0,
    counter_write: Msr::AMD_CORE_CTR0,
    stride: 2,
    ..INTEL
};

const AMD_GLOBAL: GlobalMsrs = GlobalMsrs {
    control: Msr::AMD_GLOBAL_CTL,
    status: Msr::AMD_GLOBAL_STATUS,
    clear: Msr::AMD_GLOBAL_STATUS_CLR,
};

impl Registers {
    /// Returns the registers of a PMU with these capabilities.
    #[must_use]
    pub const fn new(capabilities: &Capabilities) -> Self {
        let branches = match capabilities.last_branch {
            Some(records) => BranchMsrs::new(records),
            None => INTEL.branches,
        };
        match capabilities.architecture {
            Architecture::Intel => Self {
                counter_write: if capabilities.full_width_writes {
                    Msr::INTEL_A_PMC0
                } else {
                    Msr::INTEL_PMC0
                },
                global: if capabilities.version >= 2 {
                    Some(INTEL_GLOBAL)
                } else {
                    None
                },
                branches,
                has_freeze_status: capabilities.version >= 4,
                has_aliases: capabilities.has_aliases(),
                ..INTEL
            },
            Architecture::AmdLegacy => AMD_LEGACY,
            Architecture::AmdCore => AMD_CORE,
            Architecture::AmdV2 => Self {
                global: Some(AMD_GLOBAL),
                branches,
                has_freeze_status: true,
                ..AMD_CORE
            },
        }
    }

    /// Returns the event select of general counter `n`. The kernel reserves event selects by this number.
    #[must_use]
    pub const fn select_msr(&self, n: u8) -> Msr {
        self.select.plus(n as u32 * self.stride)
    }

    /// Returns the number by which Linux perf uses the event select of general counter `n`. Counters that are not used
    /// here may have no other.
    #[must_use]
    pub const fn perf_select_msr(&self, n: u8) -> Msr {
        if self.has_aliases {
            Msr::INTEL_GP0_CFG_A.plus(n as u32 * Msr::ALIAS_STRIDE)
        } else {
            self.select_msr(n)
        }
    }

    /// Returns general counter `n`, for reading. The kernel reserves counters by this number.
    #[must_use]
    pub const fn counter_msr(&self, n: u8) -> Msr {
        self.counter.plus(n as u32 * self.stride)
    }

    /// Returns the register to read a counter from.
    #[must_use]
    pub const fn read_msr(&self, counter: CounterId) -> Msr {
        match counter.kind() {
            CounterKind::General(n) => self.counter_msr(n),
            CounterKind::Fixed(n) => self.fixed.plus(n as u32),
        }
    }

    /// Returns the register to write a counter to.
    #[must_use]
    pub const fn write_msr(&self, counter: CounterId) -> Msr {
        match counter.kind() {
            CounterKind::General(n) => self.counter_write.plus(n as u32 * self.stride),
            CounterKind::Fixed(n) => self.fixed.plus(n as u32),
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_regs))]
mod tests {
    use super::*;

    const V4: Capabilities = Capabilities {
        version: 4,
        general: 8,
        fixed: 0b111,
        full_width_writes: true,
        ..Capabilities::NONE
    };

    #[test]
    fn intel() {
        let r = Registers::new(&V4);
        assert_eq!(r.select_msr(7).number(), 0x18d);
        assert_eq!(r.counter_msr(7).number(), 0xc8);
        let general = CounterId::general(3);
        assert_eq!(general.map(|c| r.read_msr(c).number()), Some(0xc4));
        assert_eq!(general.map(|c| r.write_msr(c).number()), Some(0x4c4));
        let fixed = CounterId::fixed(2);
        assert_eq!(fixed.map(|c| r.read_msr(c).number()), Some(0x30b));
        assert_eq!(fixed.map(|c| r.write_msr(c).number()), Some(0x30b));
        assert_eq!(r.global.map(|g| g.control.number()), Some(0x38f));
    }

    #[test]
    fn cells_hold_registers() {
        let cell = MsrCell::default();
        assert_eq!(cell.get(), None);
        cell.set(Msr::PERF_CAPABILITIES);
        assert_eq!(cell.get(), Some(Msr::PERF_CAPABILITIES));
    }

    #[test]
    fn intel_version_1() {
        let v1 = Capabilities {
            version: 1,
            full_width_writes: false,
            ..V4
        };
        let r = Registers::new(&v1);
        assert_eq!(
            CounterId::general(1).map(|c| r.write_msr(c).number()),
            Some(0xc2)
        );
        assert_eq!(r.global, None);
    }

    #[test]
    fn perf_uses_the_aliases_of_version_6() {
        let select = |version, n| {
            let r = Registers::new(&Capabilities { version, ..V4 });
            (r.select_msr(n).number(), r.perf_select_msr(n).number())
        };
        assert_eq!(select(5, 7), (0x18d, 0x18d));
        assert_eq!(select(6, 0), (0x186, 0x1901));
        assert_eq!(select(6, 7), (0x18d, 0x191d));
    }

    #[test]
    fn extensions() {
        let numbers = |counter: Option<CounterId>| {
            counter.map(|c| (Msr::reload(c).number(), Msr::records(c).number()))
        };
        assert_eq!(numbers(CounterId::general(7)), Some((0x191e, 0x191f)));
        assert_eq!(numbers(CounterId::fixed(1)), Some((0x1986, 0x1987)));
    }

    fn amd(architecture: Architecture) -> Registers {
        Registers::new(&Capabilities {
            architecture,
            general: 6,
            ..Capabilities::NONE
        })
    }

    #[test]
    fn amd_legacy() {
        let r = amd(Architecture::AmdLegacy);
        assert_eq!(r.select_msr(3).number(), 0xc001_0003);
        assert_eq!(r.counter_msr(3).number(), 0xc001_0007);
        assert_eq!(
            CounterId::general(3).map(|c| r.write_msr(c).number()),
            Some(0xc001_0007)
        );
        assert_eq!(r.global, None);
    }

    #[test]
    fn amd_core_and_v2() {
        for architecture in [Architecture::AmdCore, Architecture::AmdV2] {
            let r = amd(architecture);
            assert_eq!(r.select_msr(5).number(), 0xc001_020a);
            assert_eq!(r.counter_msr(5).number(), 0xc001_020b);
            assert_eq!(
                CounterId::general(5).map(|c| r.write_msr(c).number()),
                Some(0xc001_020b)
            );
        }
        assert_eq!(amd(Architecture::AmdCore).global, None);
        let global = amd(Architecture::AmdV2).global;
        assert_eq!(global.map(|g| g.status.number()), Some(0xc000_0300));
        assert_eq!(global.map(|g| g.control.number()), Some(0xc000_0301));
        assert_eq!(global.map(|g| g.clear.number()), Some(0xc000_0302));
    }
}
