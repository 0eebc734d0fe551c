// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Values, the events of `PERFMON_GROUP_MISC`: energy, temperatures and clocks. Each value has a register of its
//! own, which is not a counter of the PMU.

use super::cpuid::{Architecture, Capabilities};
use crate::abi;

/// The number of values.
pub const VALUE_COUNT: usize = 10;

/// The number of the first value in `PERFMON_GROUP_MISC`. Lower numbers are Fuchsia's values, which do not exist here.
const FIRST_NUMBER: u32 = abi::PERFMON_MISC_EVENT_ENERGY_PACKAGE;

const fn index_of(number: u32) -> u8 {
    (number - FIRST_NUMBER) as u8
}

/// A value: an event of `PERFMON_GROUP_MISC`. Its index is its number in the group minus the number of the first value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MiscEvent {
    /// The energy of a package.
    EnergyPackage = index_of(abi::PERFMON_MISC_EVENT_ENERGY_PACKAGE),
    /// The energy of all cores of a package.
    EnergyCores = index_of(abi::PERFMON_MISC_EVENT_ENERGY_CORES),
    /// The energy of a core.
    EnergyCore = index_of(abi::PERFMON_MISC_EVENT_ENERGY_CORE),
    /// The energy of a package's memory.
    EnergyMemory = index_of(abi::PERFMON_MISC_EVENT_ENERGY_MEMORY),
    /// The temperature of a package.
    TemperaturePackage = index_of(abi::PERFMON_MISC_EVENT_TEMPERATURE_PACKAGE),
    /// The temperature of a core.
    TemperatureCore = index_of(abi::PERFMON_MISC_EVENT_TEMPERATURE_CORE),
    /// The degrees Celsius from a package's temperature to the temperature at which the package throttles.
    MarginPackage = index_of(abi::PERFMON_MISC_EVENT_MARGIN_PACKAGE),
    /// The degrees Celsius from a core's temperature to the temperature at which the core throttles.
    MarginCore = index_of(abi::PERFMON_MISC_EVENT_MARGIN_CORE),
    /// The cycles of the core's clock in which the CPU was not halted.
    Aperf = index_of(abi::PERFMON_MISC_EVENT_APERF),
    /// The cycles of the time-stamp counter's clock in which the CPU was not halted.
    Mperf = index_of(abi::PERFMON_MISC_EVENT_MPERF),
}

/// A register that the module reads and never writes: the register of a value or of its unit, or the control of Intel PT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sensor(u32);

impl Sensor {
    const INTEL_ENERGY_UNIT: Self = Self(0x606);
    const AMD_ENERGY_UNIT: Self = Self(0xc001_0299);
    /// `MSR_TEMPERATURE_TARGET` (Intel SDM, volume 4).
    pub const TEMPERATURE_TARGET: Self = Self(0x1a2);
    /// `IA32_RTIT_CTL`: the control of Intel PT (Intel SDM, volume 4, table 2-2).
    pub const TRACE_CONTROL: Self = Self(0x570);
    /// The bit of [`Self::TRACE_CONTROL`] that is set while Intel PT traces (`TraceEn`).
    pub const TRACE_ENABLED: u64 = 1 << 0;

    /// Returns the register with the unit of energy.
    #[must_use]
    pub const fn energy_unit(architecture: Architecture) -> Self {
        match architecture {
            Architecture::Intel => Self::INTEL_ENERGY_UNIT,
            Architecture::AmdLegacy | Architecture::AmdCore | Architecture::AmdV2 => {
                Self::AMD_ENERGY_UNIT
            }
        }
    }

    /// Returns the number, for ECX of RDMSR.
    #[inline]
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// The quantity of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// The energy used since the trace started. The register has 32 bits, in units of [`Sensor::energy_unit`].
    Energy,
    /// The energy of the memory, which has another unit on some servers.
    MemoryEnergy,
    /// Degrees Celsius.
    Temperature,
    /// Degrees Celsius from the temperature to the temperature at which the CPU throttles.
    Margin,
    /// Cycles since the trace started. The register has 64 bits.
    Cycles,
}

/// The CPUs that share a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All CPUs of a package. If a package of Intel has several dies, all CPUs of a die.
    Package,
    /// The CPUs of a core.
    Core,
    /// No other CPU: each CPU has its own register.
    Cpu,
}

/// The sets of values that CPUID reports by one bit.
pub mod sets {
    use super::MiscEvent as V;

    /// APERF and MPERF, from which a core's clock is computed.
    pub const CLOCKS: u16 = V::Aperf.bit() | V::Mperf.bit();
    /// The temperature of a core.
    pub const CORE_TEMPERATURE: u16 = V::TemperatureCore.bit() | V::MarginCore.bit();
    /// The temperature of a package.
    pub const PACKAGE_TEMPERATURE: u16 = V::TemperaturePackage.bit() | V::MarginPackage.bit();
    /// Intel's energy.
    pub const INTEL_ENERGY: u16 =
        V::EnergyPackage.bit() | V::EnergyCores.bit() | V::EnergyMemory.bit();
    /// AMD's energy.
    pub const AMD_ENERGY: u16 = V::EnergyPackage.bit() | V::EnergyCore.bit();
}

impl MiscEvent {
    const ALL: [Self; VALUE_COUNT] = [
        Self::EnergyPackage,
        Self::EnergyCores,
        Self::EnergyCore,
        Self::EnergyMemory,
        Self::TemperaturePackage,
        Self::TemperatureCore,
        Self::MarginPackage,
        Self::MarginCore,
        Self::Aperf,
        Self::Mperf,
    ];

    /// Returns the value with this number in `PERFMON_GROUP_MISC`; `None` if no value has the number.
    #[must_use]
    pub fn new(number: u32) -> Option<Self> {
        Self::from_index(number.checked_sub(FIRST_NUMBER)?)
    }

    #[inline]
    fn from_index(index: u32) -> Option<Self> {
        Self::ALL.get(index as usize).copied()
    }

    /// Returns the index, which is below [`VALUE_COUNT`].
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the bit of this value in sets of values.
    #[must_use]
    pub const fn bit(self) -> u16 {
        1 << self as u8
    }

    /// Returns the id of the event.
    #[must_use]
    pub const fn event(self) -> u16 {
        (abi::PERFMON_GROUP_MISC as u16) << 10 | FIRST_NUMBER as u16 + self as u16
    }

    /// Returns the quantity of the value.
    #[must_use]
    pub const fn quantity(self) -> Quantity {
        match self {
            Self::EnergyPackage | Self::EnergyCores | Self::EnergyCore => Quantity::Energy,
            Self::EnergyMemory => Quantity::MemoryEnergy,
            Self::TemperaturePackage | Self::TemperatureCore => Quantity::Temperature,
            Self::MarginPackage | Self::MarginCore => Quantity::Margin,
            Self::Aperf | Self::Mperf => Quantity::Cycles,
        }
    }

    /// Returns the CPUs that share the register.
    #[must_use]
    pub const fn scope(self) -> Scope {
        match self {
            Self::EnergyPackage
            | Self::EnergyCores
            | Self::EnergyMemory
            | Self::TemperaturePackage
            | Self::MarginPackage => Scope::Package,
            Self::EnergyCore | Self::TemperatureCore | Self::MarginCore => Scope::Core,
            Self::Aperf | Self::Mperf => Scope::Cpu,
        }
    }

    /// Returns the register (Intel SDM, volume 4; AMD's Processor Programming References); `None` if CPUs of this
    /// architecture lack the value.
    #[must_use]
    pub const fn sensor(self, architecture: Architecture) -> Option<Sensor> {
        let is_intel = matches!(architecture, Architecture::Intel);
        let number = match self {
            Self::EnergyPackage if is_intel => 0x611,
            Self::EnergyPackage => 0xc001_029b,
            Self::EnergyCore if !is_intel => 0xc001_029a,
            Self::EnergyCores if is_intel => 0x639,
            Self::EnergyMemory if is_intel => 0x619,
            Self::TemperaturePackage | Self::MarginPackage if is_intel => 0x1b1,
            Self::TemperatureCore | Self::MarginCore if is_intel => 0x19c,
            Self::Aperf => 0xe8,
            Self::Mperf => 0xe7,
            _ => return None,
        };
        Some(Sensor(number))
    }
}

/// Returns a set of values with bit n for event n of `PERFMON_GROUP_MISC`.
#[must_use]
pub const fn event_number_mask(set: u16) -> u64 {
    (set as u64) << FIRST_NUMBER
}

/// Returns the values of a set, lowest number first.
#[inline]
pub fn values_in_set(mut set: u16) -> impl Iterator<Item = MiscEvent> {
    core::iter::from_fn(move || {
        let value = MiscEvent::from_index(set.trailing_zeros())?;
        set &= set.wrapping_sub(1);
        Some(value)
    })
}

/// The scale by which a register's bits become a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    event: MiscEvent,
    /// For an energy: n, if the register counts units of 2^-n Joules. For a temperature: the temperature in degrees
    /// Celsius at which the CPU throttles. Otherwise 0.
    unit_or_throttle_degrees: u8,
}

impl Scale {
    /// The unit of the memory's energy on servers: 2^-16 Joules, whatever the register of units says (Linux's
    /// arch/x86/events/rapl.c).
    const SERVER_MEMORY_UNIT: u8 = 16;

    /// Returns the scale of `event`. `energy_unit` and `temperature_target` are the values of the registers
    /// [`Sensor::energy_unit`] and [`Sensor::TEMPERATURE_TARGET`].
    #[must_use]
    pub const fn new(
        event: MiscEvent,
        cpu: &Capabilities,
        energy_unit: u64,
        temperature_target: u64,
    ) -> Self {
        let unit = (energy_unit >> 8) as u8 & 0x1f;
        let unit_or_throttle_degrees = match event.quantity() {
            Quantity::MemoryEnergy if cpu.server_memory_unit => Self::SERVER_MEMORY_UNIT,
            Quantity::Energy | Quantity::MemoryEnergy => unit,
            Quantity::Temperature => (temperature_target >> 16) as u8,
            Quantity::Margin | Quantity::Cycles => 0,
        };
        Self {
            event,
            unit_or_throttle_degrees,
        }
    }

    /// Returns the scale as a byte, for [`Self::from_byte`].
    #[must_use]
    pub const fn to_byte(self) -> u8 {
        self.unit_or_throttle_degrees
    }

    /// Returns the scale of `event` for which [`Self::to_byte`] has returned `byte`.
    #[inline]
    #[must_use]
    pub const fn from_byte(event: MiscEvent, byte: u8) -> Self {
        Self {
            event,
            unit_or_throttle_degrees: byte,
        }
    }

    /// Extends the contents `now` of the value's register to 64 bits. `last` is the result for earlier contents, since
    /// which the register must have advanced by less than its range. Returns `now` if the register never wraps.
    #[inline]
    #[must_use]
    pub const fn extend(self, last: u64, now: u64) -> u64 {
        match self.event.quantity() {
            Quantity::Energy | Quantity::MemoryEnergy => {
                last.wrapping_add((now as u32).wrapping_sub(last as u32) as u64)
            }
            Quantity::Temperature | Quantity::Margin | Quantity::Cycles => now,
        }
    }

    /// Returns the value for a record, in the unit of `struct perfmon_value_record`; `None` if the sensor's value is not
    /// valid. `start` is the extended value when the trace started, `now` the current one.
    #[inline]
    #[must_use]
    pub const fn value(self, start: u64, now: u64) -> Option<u64> {
        /// Bit 31 of `IA32_THERM_STATUS`. `IA32_PACKAGE_THERM_STATUS` lacks this bit.
        const VALID: u64 = 1 << 31;

        let margin = now >> 16 & 0xff;
        match self.event.quantity() {
            // The energy in units of 2^-32 Joules.
            Quantity::Energy | Quantity::MemoryEnergy => Some(
                now.wrapping_sub(start)
                    .wrapping_shl(32 - self.unit_or_throttle_degrees as u32),
            ),
            Quantity::Cycles => Some(now.wrapping_sub(start)),
            Quantity::Temperature | Quantity::Margin
                if now & VALID == 0 && matches!(self.event.scope(), Scope::Core) =>
            {
                None
            }
            Quantity::Temperature => {
                Some((self.unit_or_throttle_degrees as u64).wrapping_sub(margin))
            }
            Quantity::Margin => Some(margin),
        }
    }

    /// Returns the longest time in nanoseconds between two reads of the register that misses no wrap; `None` if the
    /// register never wraps.
    #[must_use]
    pub const fn refresh_ns(self) -> Option<u64> {
        /// The time in nanoseconds in which a register advances by 1 J at 1000 W, more than any package takes.
        const MIN_NS_PER_JOULE: u64 = 1_000_000;
        /// The longest time between two reads: a minute.
        const MAX_NS: u64 = 60_000_000_000;

        match self.event.quantity() {
            Quantity::Energy | Quantity::MemoryEnergy => {
                // Half the register's range.
                let joules = (1u64 << 31) >> self.unit_or_throttle_degrees;
                let ns = joules.saturating_mul(MIN_NS_PER_JOULE);
                Some(if ns < MAX_NS { ns } else { MAX_NS })
            }
            Quantity::Temperature | Quantity::Margin | Quantity::Cycles => None,
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_values))]
mod tests {
    use super::*;

    const INTEL: Capabilities = Capabilities::NONE;
    const SERVER: Capabilities = Capabilities {
        server_memory_unit: true,
        ..INTEL
    };
    /// A value of [`Sensor::energy_unit`]: 2^-14 Joules.
    const ENERGY_UNIT: u64 = 0xa_0e03;
    /// A value of [`Sensor::TEMPERATURE_TARGET`]: 100 degrees.
    const TARGET_TEMPERATURE: u64 = 100 << 16;

    fn scale(event: MiscEvent) -> Scale {
        Scale::new(event, &INTEL, ENERGY_UNIT, TARGET_TEMPERATURE)
    }

    #[test]
    fn events_have_the_sensors_of_the_vendor() {
        let sensor_number = |number: u32, architecture| {
            MiscEvent::new(number)
                .and_then(|event| event.sensor(architecture))
                .map(Sensor::number)
        };
        let (intel, amd) = (Architecture::Intel, Architecture::AmdV2);
        let numbers =
            |architecture| (32..43).map(move |number| sensor_number(number, architecture));
        let intel_numbers = [
            0x611, 0x639, 0, 0x619, 0x1b1, 0x19c, 0x1b1, 0x19c, 0xe8, 0xe7, 0,
        ];
        let amd_numbers = [0xc001_029b, 0, 0xc001_029a, 0, 0, 0, 0, 0, 0xe8, 0xe7, 0];
        assert!(numbers(intel)
            .map(Option::unwrap_or_default)
            .eq(intel_numbers));
        assert!(numbers(amd).map(Option::unwrap_or_default).eq(amd_numbers));
        assert_eq!(MiscEvent::Aperf.event(), 0x1028);
        assert!(
            Scope::Cpu == MiscEvent::Aperf.scope()
                && Quantity::Cycles == MiscEvent::Aperf.quantity()
        );
    }

    #[test]
    fn numbers_of_fuchsia_have_no_value() {
        assert!((0..32).all(|number| MiscEvent::new(number).is_none()));
        assert_eq!(event_number_mask(MiscEvent::EnergyPackage.bit()), 1 << 32);
        assert_eq!(event_number_mask(MiscEvent::Mperf.bit()), 1 << 41);
    }

    #[test]
    fn sets_have_all_values_of_a_vendor() {
        let values_of = |architecture| {
            (0..VALUE_COUNT as u32)
                .filter_map(MiscEvent::from_index)
                .filter(|event| event.sensor(architecture).is_some())
                .fold(0, |set, event| set | event.bit())
        };
        assert_eq!(
            values_of(Architecture::Intel),
            sets::CLOCKS | sets::CORE_TEMPERATURE | sets::PACKAGE_TEMPERATURE | sets::INTEL_ENERGY
        );
        assert_eq!(
            values_of(Architecture::AmdV2),
            sets::CLOCKS | sets::AMD_ENERGY
        );
        assert!(values_in_set(sets::AMD_ENERGY)
            .map(MiscEvent::index)
            .eq([0, 2]));
        assert!(values_in_set(0).next().is_none());
        assert_eq!(values_in_set(u16::MAX).count(), VALUE_COUNT);
    }

    #[test]
    fn energy_is_in_units_of_2_to_minus_32_joules() {
        let scale = scale(MiscEvent::EnergyPackage);
        // 2^14 units are a Joule.
        assert_eq!(scale.value(5, 5 + (1 << 14)), Some(1 << 32));
        assert_eq!(scale.value(5, 5), Some(0));
        // The smallest unit, and the largest unit.
        let smallest_unit = Scale::new(MiscEvent::EnergyPackage, &INTEL, 31 << 8, 0);
        assert_eq!(smallest_unit.value(0, 1), Some(2));
        let largest_unit = Scale::new(MiscEvent::EnergyPackage, &INTEL, 0, 0);
        assert_eq!(largest_unit.value(0, 1), Some(1 << 32));
    }

    #[test]
    fn energy_is_extended_beyond_its_register() {
        let scale = scale(MiscEvent::EnergyPackage);
        assert_eq!(scale.extend(0xffff_fff0, 0x10), 0x1_0000_0010);
        assert_eq!(scale.extend(0x1_0000_0010, 0x10), 0x1_0000_0010);
        assert_eq!(scale.extend(0x1_0000_0010, 0x11), 0x1_0000_0011);
        // The bits above bit 31 of the register are reserved.
        assert_eq!(scale.extend(0x10, 0xdead_0000_0000_0011), 0x11);
    }

    #[test]
    fn memory_energy_of_servers_has_its_own_unit() {
        let unit_of = |event, cpu| Scale::new(event, cpu, ENERGY_UNIT, 0).to_byte();
        assert_eq!(unit_of(MiscEvent::EnergyMemory, &INTEL), 14);
        assert_eq!(unit_of(MiscEvent::EnergyMemory, &SERVER), 16);
        assert_eq!(unit_of(MiscEvent::EnergyPackage, &SERVER), 14);
    }

    #[test]
    fn temperature_is_target_minus_margin() {
        let core = scale(MiscEvent::TemperatureCore);
        assert_eq!(core.value(7, 1 << 31 | 45 << 16), Some(55));
        assert_eq!(core.value(7, 45 << 16), None);
        let package = scale(MiscEvent::TemperaturePackage);
        assert_eq!(package.value(7, 127 << 16), Some(-27i64 as u64));
        assert_eq!(scale(MiscEvent::MarginPackage).value(7, 45 << 16), Some(45));
        assert_eq!(package.extend(1, 2), 2);
    }

    #[test]
    fn cycles_are_counted_from_the_start() {
        let scale = scale(MiscEvent::Aperf);
        assert_eq!(scale.value(u64::MAX, scale.extend(u64::MAX, 9)), Some(10));
        assert_eq!(scale.refresh_ns(), None);
    }

    #[test]
    fn refresh_ns_is_shorter_than_a_wrap() {
        let ns =
            |unit: u64| Scale::new(MiscEvent::EnergyPackage, &INTEL, unit << 8, 0).refresh_ns();
        assert_eq!(ns(14), Some(60_000_000_000));
        assert_eq!(ns(16), Some(32_768_000_000));
        assert_eq!(ns(31), Some(1_000_000));
        assert_eq!(ns(0), Some(60_000_000_000));
    }

    #[test]
    fn scale_is_restored_from_its_byte() {
        let scale = scale(MiscEvent::EnergyPackage);
        assert_eq!(
            Scale::from_byte(MiscEvent::EnergyPackage, scale.to_byte()),
            scale
        );
    }
}
