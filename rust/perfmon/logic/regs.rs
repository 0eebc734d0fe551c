// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The registers that each kind of PMU has.

use super::branch_records::{BranchMsrs, BranchRecords};
use super::counter::{CounterId, CounterKind};
use super::cpuid::{Architecture, Capabilities};
use super::msr::Msr;

/// The registers that all counters of a PMU share; PMUs have them from version 2 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalMsrs {
    /// The register with an enable bit for each counter.
    pub control: Msr,
    /// The register with an overflow bit for each counter.
    pub status: Msr,
    /// The register in which writing 1 to a counter's bit clears its overflow bit in `status`.
    pub clear: Msr,
    /// The bit of `control` that enables top-down metrics (`PERF_METRICS`, from Ice Lake on), as a mask; 0 on AMD.
    pub metrics_enable: u64,
}

/// The registers of a PMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// The register with the event select of general counter 0.
    select: Msr,
    /// The register of general counter 0, for reading.
    counter: Msr,
    /// The register of general counter 0, for writing.
    counter_write: Msr,
    /// The distance from a register of one general counter to the same register of the next counter.
    stride: u32,
    /// The register of fixed-function counter 0.
    fixed: Msr,
    /// The register with four control bits for each fixed-function counter.
    pub fixed_control: Msr,
    /// The registers that all counters share; `None` before version 2.
    pub global: Option<GlobalMsrs>,
    /// The registers of the branch records; if the CPU has no records, the registers of Intel's stack.
    pub branches: BranchMsrs,
    /// The global status has a bit that is set while the branch records are frozen.
    pub has_freeze_status: bool,
    /// General counters have a second set of register numbers, which Linux perf uses.
    has_aliases: bool,
}

/// The registers of Intel's PMUs (Intel SDM, volume 4, table 2-2).
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
    metrics_enable: 1 << 48,
};

/// The registers of AMD's legacy counters (AMD APM, volume 2, section 13.2.1). AMD has no
/// fixed-function counters, so the numbers of their registers, which are Intel's, are not used.
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
    metrics_enable: 0,
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

    /// Returns the event select of general counter `n` under the number that Linux perf uses. Counters that this module
    /// does not use may have only this number.
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
        general_count: 8,
        fixed: 0b111,
        full_width_writes: true,
        ..Capabilities::NONE
    };

    #[test]
    fn registers_of_intel() {
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
    fn registers_of_intel_version_1() {
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
    fn perf_select_is_the_alias_from_version_6_on() {
        let select = |version, n| {
            let r = Registers::new(&Capabilities { version, ..V4 });
            (r.select_msr(n).number(), r.perf_select_msr(n).number())
        };
        assert_eq!(select(5, 7), (0x18d, 0x18d));
        assert_eq!(select(6, 0), (0x186, 0x1901));
        assert_eq!(select(6, 7), (0x18d, 0x191d));
    }

    #[test]
    fn registers_of_extended_counters() {
        let numbers = |counter: Option<CounterId>| {
            counter.map(|c| (Msr::reload(c).number(), Msr::records(c).number()))
        };
        assert_eq!(numbers(CounterId::general(7)), Some((0x191e, 0x191f)));
        assert_eq!(numbers(CounterId::fixed(1)), Some((0x1986, 0x1987)));
    }

    fn amd(architecture: Architecture) -> Registers {
        Registers::new(&Capabilities {
            architecture,
            general_count: 6,
            ..Capabilities::NONE
        })
    }

    #[test]
    fn registers_of_amd_legacy() {
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
    fn registers_of_amd_core_and_v2() {
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
