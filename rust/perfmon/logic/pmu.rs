// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The PMU of a CPU, as data: its capabilities, its register numbers, and the limits of its use.

use super::core_kinds::CoreKinds;
use super::counter::{CounterId, MAX_COUNTERS};
use super::cpuid::{Architecture, Capabilities};
use super::evtsel::EventSelect;
use super::load_limit::LoadLimit;
use super::msr::Msr;
use super::regs::Registers;
use super::throttle::Limits;

/// The vendor, for differences beyond register numbers.
///
/// An enum instead of a trait, because indirect calls would take too large a part of the overflow handler's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    /// Intel.
    Intel,
    /// AMD, and Hygon, which builds AMD's cores.
    Amd,
}

impl Vendor {
    /// Returns the vendor whose PMUs have this architecture.
    #[must_use]
    pub const fn from_architecture(architecture: Architecture) -> Self {
        match architecture {
            Architecture::Intel => Self::Intel,
            Architecture::AmdLegacy | Architecture::AmdCore | Architecture::AmdV2 => Self::Amd,
        }
    }
}

/// The registers of one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterMsrs {
    /// The register to read the counter from.
    pub read: Msr,
    /// The register to write the counter to.
    pub write: Msr,
    /// The register with the counter's own enable bits: its event select, or `IA32_FIXED_CTR_CTRL`.
    pub control: Msr,
}

impl CounterMsrs {
    const fn new(registers: &Registers, counter: CounterId) -> Self {
        /// Any event: only the number of the register is used, not its value.
        const ANY_EVENT: EventSelect = EventSelect::new(0, 0);

        Self {
            read: registers.read_msr(counter),
            write: registers.write_msr(counter),
            control: registers.control(counter, ANY_EVENT, false).msr,
        }
    }
}

/// A PMU.
pub struct Pmu {
    /// The counters and events that all CPUs have.
    pub capabilities: Capabilities,
    /// The kinds of cores, whose events and counters differ.
    pub kinds: CoreKinds,
    /// The register numbers.
    pub registers: Registers,
    /// The registers of each counter, by [`CounterId::index`]. The registers are computed in
    /// advance, because the overflow handler uses them.
    pub msrs: [CounterMsrs; MAX_COUNTERS],
    /// The vendor.
    pub vendor: Vendor,
    /// The number of the general counter of the place-holder, an event of Linux perf that counts nothing and keeps
    /// perf's other events off each CPU. `None` where the kernel's reservation keeps perf off.
    pub place_holder: Option<u8>,
    /// If not 0, counters overflow after 2^`period_bits` events.
    pub period_bits: u32,
    /// The share of a CPU's time that overflow interrupts may take.
    pub throttle_limits: Limits,
    /// The smallest number of events from a counter's load to its overflow.
    pub load_limit: LoadLimit,
}

impl Pmu {
    /// A PMU without counters.
    pub const NONE: Self = Self::new(Capabilities::NONE);

    /// Returns the PMU with these capabilities, without limits except that a counter is loaded for at least two events.
    #[inline]
    #[must_use]
    pub const fn new(capabilities: Capabilities) -> Self {
        let registers = Registers::new(&capabilities);
        let mut this = Self {
            capabilities,
            kinds: CoreKinds::one(&capabilities),
            registers,
            msrs: [CounterMsrs::new(&registers, CounterId::FIRST); MAX_COUNTERS],
            vendor: Vendor::from_architecture(capabilities.architecture),
            place_holder: None,
            period_bits: 0,
            throttle_limits: Limits::NONE,
            load_limit: LoadLimit::Two,
        };
        this.set_capabilities(capabilities);
        this
    }

    /// Makes this the PMU with these capabilities. Works in place, since two PMUs are too large for a kernel stack.
    pub const fn set_capabilities(&mut self, capabilities: Capabilities) {
        self.capabilities = capabilities;
        self.registers = Registers::new(&capabilities);
        self.vendor = Vendor::from_architecture(capabilities.architecture);
        let mut index = 0;
        while let Some(counter) = CounterId::from_index(index) {
            self.msrs[counter.index()] = CounterMsrs::new(&self.registers, counter);
            index += 1;
        }
    }

    /// Returns the counters that some kind of core has, as a mask. The counters of
    /// [`Self::capabilities`] are the counters that all CPUs have.
    #[must_use]
    pub fn all_counters(&self) -> u64 {
        self.kinds.counters_of_any()
    }

    /// Returns the registers of a counter.
    #[inline(always)]
    #[must_use]
    pub const fn msrs(&self, counter: CounterId) -> &CounterMsrs {
        &self.msrs[counter.index()]
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_pmu))]
mod tests {
    use super::*;

    static INTEL: Pmu = Pmu::new(Capabilities {
        version: 4,
        general_count: 8,
        fixed: 0b111,
        full_width_writes: true,
        ..Capabilities::NONE
    });
    static AMD: Pmu = Pmu::new(Capabilities {
        architecture: Architecture::AmdV2,
        general_count: 6,
        ..Capabilities::NONE
    });

    fn msr_numbers(pmu: &Pmu, counter: Option<CounterId>) -> Option<[u32; 3]> {
        let msrs = pmu.msrs(counter?);
        Some([msrs.read, msrs.write, msrs.control].map(Msr::number))
    }

    #[test]
    fn counters_have_their_msrs() {
        let (general, fixed) = (CounterId::general(3), CounterId::fixed(2));
        assert_eq!(msr_numbers(&INTEL, general), Some([0xc4, 0x4c4, 0x189]));
        assert_eq!(msr_numbers(&INTEL, fixed), Some([0x30b, 0x30b, 0x38d]));
        assert_eq!(
            msr_numbers(&AMD, general),
            Some([0xc001_0207, 0xc001_0207, 0xc001_0206])
        );
    }

    #[test]
    fn msr_table_agrees_with_registers() {
        for pmu in [&INTEL, &AMD, &Pmu::NONE] {
            for counter in (0..).map_while(CounterId::from_index) {
                let msrs = pmu.msrs(counter);
                assert_eq!(msrs.read, pmu.registers.read_msr(counter));
                assert_eq!(msrs.write, pmu.registers.write_msr(counter));
            }
        }
    }

    #[test]
    fn the_vendor_follows_from_the_architecture() {
        assert_eq!(INTEL.vendor, Vendor::Intel);
        assert_eq!(AMD.vendor, Vendor::Amd);
        assert_eq!(
            Vendor::from_architecture(Architecture::AmdLegacy),
            Vendor::Amd
        );
        assert_eq!(
            Vendor::from_architecture(Architecture::AmdCore),
            Vendor::Amd
        );
    }

    #[test]
    fn a_new_pmu_has_no_limits() {
        assert_eq!(INTEL.throttle_limits, Limits::NONE);
        assert_eq!(INTEL.load_limit, LoadLimit::Two);
        assert_eq!(INTEL.period_bits, 0);
        assert_eq!(Pmu::NONE.capabilities.counters(), 0);
    }
}
