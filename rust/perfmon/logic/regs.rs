// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Where the registers of a PMU are.

use super::counter::{CounterId, Kind};
use super::cpuid::{Architecture, Capabilities};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The number of a model-specific register of the PMU: one of those named here, and no other.
///
/// So whoever has one can't write anything but counters with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Msr(u32);

impl Msr {
    /// `IA32_PERF_CAPABILITIES` (Intel SDM, volume 4).
    pub const PERF_CAPABILITIES: Self = Self(0x345);

    /// `IA32_DEBUGCTL` (Intel SDM, volume 4, table 2-2).
    pub const DEBUGCTL: Self = Self(0x1d9);
    /// `MSR_LBR_SELECT` (Intel SDM, volume 4, table 2-39, as the three that follow).
    pub const LBR_SELECT: Self = Self(0x1c8);
    /// `MSR_LASTBRANCH_TOS`: the place of the newest branch.
    pub const LBR_TOS: Self = Self(0x1c9);
    const LBR_FROM: Self = Self(0x680);
    const LBR_TO: Self = Self(0x6c0);
    const LBR_INFO: Self = Self(0xdc0);

    const INTEL_PERFEVTSEL0: Self = Self(0x186);
    const INTEL_PMC0: Self = Self(0xc1);
    /// The alias of `IA32_PMC0` whose writes set all bits.
    const INTEL_A_PMC0: Self = Self(0x4c1);
    const INTEL_FIXED_CTR0: Self = Self(0x309);
    const INTEL_FIXED_CTR_CTRL: Self = Self(0x38d);
    const INTEL_PERF_GLOBAL_CTRL: Self = Self(0x38f);
    const INTEL_PERF_GLOBAL_STATUS: Self = Self(0x38e);
    /// Clears bits of `IA32_PERF_GLOBAL_STATUS`; called `..._STATUS_RESET` from version 4 on.
    const INTEL_PERF_GLOBAL_OVF_CTRL: Self = Self(0x390);

    const AMD_LEGACY_CTL0: Self = Self(0xc001_0000);
    const AMD_LEGACY_CTR0: Self = Self(0xc001_0004);
    const AMD_CORE_CTL0: Self = Self(0xc001_0200);
    const AMD_CORE_CTR0: Self = Self(0xc001_0201);
    const AMD_GLOBAL_STATUS: Self = Self(0xc000_0300);
    const AMD_GLOBAL_CTL: Self = Self(0xc000_0301);
    /// Clears bits of the status.
    const AMD_GLOBAL_STATUS_CLR: Self = Self(0xc000_0302);

    /// The number that RDMSR and WRMSR take in ECX.
    #[inline]
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// `MSR_LASTBRANCH_n_FROM_IP`
    #[inline]
    #[must_use]
    pub const fn lbr_from(n: u32) -> Self {
        Self::LBR_FROM.plus(n)
    }

    /// `MSR_LASTBRANCH_n_TO_IP`
    #[inline]
    #[must_use]
    pub const fn lbr_to(n: u32) -> Self {
        Self::LBR_TO.plus(n)
    }

    /// `MSR_LBR_INFO_n`
    #[inline]
    #[must_use]
    pub const fn lbr_info(n: u32) -> Self {
        Self::LBR_INFO.plus(n)
    }

    #[inline]
    const fn plus(self, n: u32) -> Self {
        Self(self.0.wrapping_add(n))
    }
}

/// A place for an [`Msr`] in memory that several CPUs and interrupts use. All bits zero is an empty one.
///
/// ATOMICS: relaxed; whoever shares it orders the accesses.
#[derive(Debug, Default)]
pub struct MsrCell(AtomicU32);

impl MsrCell {
    /// What was put in, if anything was.
    #[inline]
    #[must_use]
    pub fn get(&self) -> Option<Msr> {
        match self.0.load(Relaxed) {
            0 => None,
            number => Some(Msr(number)),
        }
    }

    /// Puts `msr` in.
    #[inline]
    pub fn set(&self, msr: Msr) {
        self.0.store(msr.0, Relaxed);
    }
}

/// The registers that all counters of a PMU share, from version 2 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Global {
    /// One enable bit per counter.
    pub control: Msr,
    /// One overflow bit per counter.
    pub status: Msr,
    /// Writing a bit clears that counter's overflow.
    pub clear: Msr,
}

/// The registers of one kind of PMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    select: Msr,
    counter: Msr,
    /// Through which a counter is written.
    counter_write: Msr,
    /// Distance from the registers of one general counter to those of the next.
    stride: u32,
    fixed: Msr,
    /// Four bits per fixed-function counter.
    pub fixed_control: Msr,
    /// What all share, if there is such a thing.
    pub global: Option<Global>,
    /// Whether the status tells that branch records are frozen.
    pub remembers_frozen_branches: bool,
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
    remembers_frozen_branches: false,
};

const INTEL_GLOBAL: Global = Global {
    control: Msr::INTEL_PERF_GLOBAL_CTRL,
    status: Msr::INTEL_PERF_GLOBAL_STATUS,
    clear: Msr::INTEL_PERF_GLOBAL_OVF_CTRL,
};

/// AMD APM, volume 2, section 13.2.1. The fixed-function counters of the type are not there.
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

const AMD_GLOBAL: Global = Global {
    control: Msr::AMD_GLOBAL_CTL,
    status: Msr::AMD_GLOBAL_STATUS,
    clear: Msr::AMD_GLOBAL_STATUS_CLR,
};

impl Registers {
    /// Those of a PMU with these capabilities.
    #[must_use]
    pub const fn new(capabilities: &Capabilities) -> Self {
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
                remembers_frozen_branches: capabilities.version >= 4,
                ..INTEL
            },
            Architecture::AmdLegacy => AMD_LEGACY,
            Architecture::AmdCore => AMD_CORE,
            Architecture::AmdV2 => Self {
                global: Some(AMD_GLOBAL),
                ..AMD_CORE
            },
        }
    }

    /// The event select of general counter `n`. The kernel's reservation goes by this number.
    #[must_use]
    pub const fn select(&self, n: u8) -> Msr {
        self.select.plus(n as u32 * self.stride)
    }

    /// General counter `n`, by the number that the kernel's reservation goes by.
    #[must_use]
    pub const fn general(&self, n: u8) -> Msr {
        self.counter.plus(n as u32 * self.stride)
    }

    /// Where a counter is read.
    #[must_use]
    pub const fn read(&self, counter: CounterId) -> Msr {
        match counter.kind() {
            Kind::General(n) => self.general(n),
            Kind::Fixed(n) => self.fixed.plus(n as u32),
        }
    }

    /// Where a counter is written.
    #[must_use]
    pub const fn write(&self, counter: CounterId) -> Msr {
        match counter.kind() {
            Kind::General(n) => self.counter_write.plus(n as u32 * self.stride),
            Kind::Fixed(n) => self.fixed.plus(n as u32),
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
        ..Capabilities::NOTHING
    };

    #[test]
    fn intel() {
        let r = Registers::new(&V4);
        assert_eq!(r.select(7).number(), 0x18d);
        assert_eq!(r.general(7).number(), 0xc8);
        let general = CounterId::general(3);
        assert_eq!(general.map(|c| r.read(c).number()), Some(0xc4));
        assert_eq!(general.map(|c| r.write(c).number()), Some(0x4c4));
        let fixed = CounterId::fixed(2);
        assert_eq!(fixed.map(|c| r.read(c).number()), Some(0x30b));
        assert_eq!(fixed.map(|c| r.write(c).number()), Some(0x30b));
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
            CounterId::general(1).map(|c| r.write(c).number()),
            Some(0xc2)
        );
        assert_eq!(r.global, None);
    }

    fn amd(architecture: Architecture) -> Registers {
        Registers::new(&Capabilities {
            architecture,
            general: 6,
            ..Capabilities::NOTHING
        })
    }

    #[test]
    fn amd_legacy() {
        let r = amd(Architecture::AmdLegacy);
        assert_eq!(r.select(3).number(), 0xc001_0003);
        assert_eq!(r.general(3).number(), 0xc001_0007);
        assert_eq!(
            CounterId::general(3).map(|c| r.write(c).number()),
            Some(0xc001_0007)
        );
        assert_eq!(r.global, None);
    }

    #[test]
    fn amd_core_and_v2() {
        for architecture in [Architecture::AmdCore, Architecture::AmdV2] {
            let r = amd(architecture);
            assert_eq!(r.select(5).number(), 0xc001_020a);
            assert_eq!(r.general(5).number(), 0xc001_020b);
            assert_eq!(
                CounterId::general(5).map(|c| r.write(c).number()),
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
