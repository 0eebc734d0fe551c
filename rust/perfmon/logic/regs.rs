// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Where the registers of a PMU are.

use super::counter::{CounterId, Kind};
use super::cpuid::Capabilities;

/// The number of a model-specific register of the PMU: one of those named here, and no other.
///
/// So whoever has one can't write anything but counters with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Msr(u32);

impl Msr {
    /// `IA32_PERF_CAPABILITIES` (Intel SDM, volume 4).
    pub const PERF_CAPABILITIES: Self = Self(0x345);

    const INTEL_PERFEVTSEL0: Self = Self(0x186);
    const INTEL_PMC0: Self = Self(0xc1);
    /// The alias of `IA32_PMC0` whose writes set all bits.
    const INTEL_A_PMC0: Self = Self(0x4c1);
    const INTEL_FIXED_CTR0: Self = Self(0x309);
    const INTEL_FIXED_CTR_CTRL: Self = Self(0x38d);
    const INTEL_PERF_GLOBAL_CTRL: Self = Self(0x38f);
    /// Clears bits of `IA32_PERF_GLOBAL_STATUS`; called `..._STATUS_RESET` from version 4 on.
    const INTEL_PERF_GLOBAL_OVF_CTRL: Self = Self(0x390);

    /// The number that RDMSR and WRMSR take in ECX.
    #[inline]
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    #[inline]
    const fn plus(self, n: u32) -> Self {
        Self(self.0 + n)
    }
}

/// The registers that all counters of a PMU share, from version 2 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Global {
    /// One enable bit per counter.
    pub control: Msr,
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
}

impl Registers {
    /// Those of a PMU with these capabilities.
    #[must_use]
    pub const fn new(capabilities: &Capabilities) -> Self {
        Self {
            select: Msr::INTEL_PERFEVTSEL0,
            counter: Msr::INTEL_PMC0,
            counter_write: if capabilities.full_width_writes {
                Msr::INTEL_A_PMC0
            } else {
                Msr::INTEL_PMC0
            },
            stride: 1,
            fixed: Msr::INTEL_FIXED_CTR0,
            fixed_control: Msr::INTEL_FIXED_CTR_CTRL,
            global: if capabilities.version >= 2 {
                Some(Global {
                    control: Msr::INTEL_PERF_GLOBAL_CTRL,
                    clear: Msr::INTEL_PERF_GLOBAL_OVF_CTRL,
                })
            } else {
                None
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
}
