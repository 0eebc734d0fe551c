// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The event select: what a general counter counts.
//!
//! One 64-bit layout serves both makers: Intel's `IA32_PERFEVTSELx` (SDM volume 3B, section
//! 21.2.1.1) uses bits 31:0, and from version 6 on some above them; AMD's `PERF_CTL` (APM volume 2,
//! section 13.2.1) puts bits 11:8 of the event number at 35:32.

use super::counter::Invalid;

/// A value of `IA32_PERFEVTSELx` (Intel) or `PERF_CTL` (AMD), without the bits that are the
/// driver's: enable and interrupt.
///
/// # Invariants
///
/// None of [`Self::INTERRUPT`], [`Self::ENABLE`], [`Self::PIN_CONTROL`] and [`Self::ANY_THREAD`] is
/// set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventSelect(u64);

impl EventSelect {
    /// Count in user mode (CPL 1 to 3).
    pub const USER: u64 = 1 << 16;
    /// Count in kernel mode (CPL 0).
    pub const KERNEL: u64 = 1 << 17;
    /// Count how often the condition begins, not for how many cycles it holds.
    pub const EDGE: u64 = 1 << 18;
    /// Drive the performance-monitoring pins: nothing for a program to do.
    pub const PIN_CONTROL: u64 = 1 << 19;
    /// Raise an interrupt on overflow.
    pub const INTERRUPT: u64 = 1 << 20;
    /// Count for both threads of a core: leaks the work of whoever runs on the other one.
    pub const ANY_THREAD: u64 = 1 << 21;
    /// Count at all.
    pub const ENABLE: u64 = 1 << 22;
    /// Count the cycles in which fewer, not at least, [`Self::counter_mask`] events happen.
    pub const INVERT: u64 = 1 << 23;

    /// The fields that the event selects of all makers have.
    pub const COMMON_BITS: u64 = 0xffff_ffff;
    /// Bits 11:8 of the event number, on AMD.
    pub const EVENT_HIGH: u64 = 0xf << 32;
    /// Intel's second unit mask, from version 6 of architectural performance monitoring on.
    pub const UNIT_MASK_2: u64 = 0xff << 40;
    /// Count the cycles in which exactly, not at least, [`Self::counter_mask`] events happen; Intel, from
    /// version 6 on.
    pub const EQUAL: u64 = 1 << 36;
    /// The bits that the event selects of one maker or another have.
    pub const ANY_BITS: u64 =
        Self::COMMON_BITS | Self::EVENT_HIGH | Self::UNIT_MASK_2 | Self::EQUAL;

    /// The bits that the driver decides about; a request may have them, to no effect.
    const DRIVERS: u64 = Self::INTERRUPT | Self::ENABLE;
    /// Bits 11:8 of AMD's event numbers are at 35:32 of the register.
    const EVENT_HIGH_SHIFT: u32 = 32 - 8;

    /// Selects `event` with `unit_mask`; counts in no mode until one is added.
    ///
    /// Bits 11:8 of `event` exist on AMD only; bits 15:12 nowhere, they are dropped.
    #[must_use]
    pub const fn new(event: u16, unit_mask: u8) -> Self {
        let low = (event & 0xff) as u64;
        let high = ((event & 0xf00) as u64) << Self::EVENT_HIGH_SHIFT;
        // INVARIANT: Only bits 7:0, 15:8 and 35:32 are set.
        Self(low | high | (unit_mask as u64) << 8)
    }

    /// What `PMIOSETUP` asks for, from `pmc_val`.
    ///
    /// # Errors
    ///
    /// As [`Self::from_wide_request`].
    pub const fn from_request(pmc_val: u32) -> Result<Self, Invalid> {
        Self::from_wide_request(pmc_val as u64, u32::MAX as u64)
    }

    /// What `PMIOSETUP2` asks for, on a CPU whose event selects have the bits `available`.
    ///
    /// # Errors
    ///
    /// [`Invalid::PinControl`] and [`Invalid::AnyThread`] if such a bit is set, [`Invalid::Select`] if one
    /// that is not available is.
    pub const fn from_wide_request(bits: u64, available: u64) -> Result<Self, Invalid> {
        if bits & Self::PIN_CONTROL != 0 {
            return Err(Invalid::PinControl);
        }
        if bits & Self::ANY_THREAD != 0 {
            return Err(Invalid::AnyThread);
        }
        if bits & !available != 0 {
            return Err(Invalid::Select);
        }
        // INVARIANT: The refused bits are not set, the driver's are taken off.
        Ok(Self(bits & !Self::DRIVERS))
    }

    /// The event select that a register's value makes. Bits that one can't have are dropped.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        // INVARIANT: All such bits are taken off.
        Self(bits & !(Self::DRIVERS | Self::PIN_CONTROL | Self::ANY_THREAD))
    }

    /// With the modes to count in, in place of those it had.
    #[must_use]
    pub const fn modes(self, user: bool, kernel: bool) -> Self {
        let mut bits = self.0 & !(Self::USER | Self::KERNEL);
        if user {
            bits |= Self::USER;
        }
        if kernel {
            bits |= Self::KERNEL;
        }
        // INVARIANT: Only bits of the modes are changed.
        Self(bits)
    }

    /// With edge detection.
    #[must_use]
    pub const fn edge(self) -> Self {
        // INVARIANT: Only this bit is changed.
        Self(self.0 | Self::EDGE)
    }

    /// With a threshold: cycles in which at least `threshold` events happen, or, if `invert`, fewer.
    #[must_use]
    pub const fn threshold(self, threshold: u8, invert: bool) -> Self {
        let mut bits = self.0 & !(0xff << 24 | Self::INVERT) | (threshold as u64) << 24;
        if invert {
            bits |= Self::INVERT;
        }
        // INVARIANT: Only the counter mask and the inversion are changed.
        Self(bits)
    }

    /// The register's value while the counter is stopped.
    #[must_use]
    pub const fn stopped(self) -> u64 {
        self.0
    }

    /// The register's value while the counter runs: with its interrupt, by which the module extends
    /// the counter to 64 bits.
    #[must_use]
    pub const fn running(self) -> u64 {
        self.0 | Self::ENABLE | Self::INTERRUPT
    }

    /// `pmc_val` as `PMIOGET` gives it: bits 31:0 of [`Self::to_wide_request`].
    #[must_use]
    pub const fn to_request(self, running: bool) -> u32 {
        self.to_wide_request(running) as u32
    }

    /// As `PMIOGET2` gives it: what was asked for, and whether it runs.
    #[must_use]
    pub const fn to_wide_request(self, running: bool) -> u64 {
        self.0 | if running { Self::ENABLE } else { 0 }
    }

    /// The event number: 8 bits on Intel, 12 on AMD.
    #[must_use]
    pub const fn event(self) -> u16 {
        (self.0 & 0xff | self.0 >> Self::EVENT_HIGH_SHIFT & 0xf00) as u16
    }

    /// The unit mask.
    #[must_use]
    pub const fn unit_mask(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// The counter mask: how many events in one cycle make one count; 0 counts events.
    #[must_use]
    pub const fn counter_mask(self) -> u8 {
        (self.0 >> 24) as u8
    }

    /// Whether it counts in user mode.
    #[must_use]
    pub const fn is_user(self) -> bool {
        self.0 & Self::USER != 0
    }

    /// Whether it counts in kernel mode.
    #[must_use]
    pub const fn is_kernel(self) -> bool {
        self.0 & Self::KERNEL != 0
    }

    /// Whether it counts edges.
    #[must_use]
    pub const fn is_edge(self) -> bool {
        self.0 & Self::EDGE != 0
    }

    /// Whether the comparison with the counter mask is inverted.
    #[must_use]
    pub const fn is_inverted(self) -> bool {
        self.0 & Self::INVERT != 0
    }

    /// Whether nothing but the modes is selected, as fixed-function counters need it.
    #[must_use]
    pub const fn is_modes_only(self) -> bool {
        self.0 & !(Self::USER | Self::KERNEL) == 0
    }
}

// The request's flags are the register's bits 23:16: so the one can be copied into the other.
const _: () = {
    use crate::abi;
    const fn at(flag: u32) -> u64 {
        (flag as u64) << 16
    }
    assert!(at(abi::PMCF_USR) == EventSelect::USER);
    assert!(at(abi::PMCF_OS) == EventSelect::KERNEL);
    assert!(at(abi::PMCF_E) == EventSelect::EDGE);
    assert!(at(abi::PMCF_PC) == EventSelect::PIN_CONTROL);
    assert!(at(abi::PMCF_ANY) == EventSelect::ANY_THREAD);
    assert!(at(abi::PMCF_SYS_FLAGS) == EventSelect::DRIVERS);
    assert!(at(abi::PMCF_INV) == EventSelect::INVERT);
};

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_evtsel))]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_the_manuals_put_them() {
        let s = EventSelect::new(0x2e, 0x4f).modes(true, false);
        assert_eq!(s.stopped(), 0x0001_4f2e);
        assert_eq!(s.running(), 0x0051_4f2e);
        assert_eq!(s.edge().threshold(3, true).stopped(), 0x0385_4f2e);
        assert_eq!(
            EventSelect::new(0x76, 0).modes(false, true).stopped(),
            0x0002_0076
        );
    }

    #[test]
    fn high_event_bits_are_amds() {
        let s = EventSelect::new(0x1c7, 0x12);
        assert_eq!(s.stopped(), 0x1_0000_12c7);
        assert_eq!(s.event(), 0x1c7);
        assert_eq!(EventSelect::new(0xf1c7, 0).event(), 0x1c7);
    }

    #[test]
    fn fields_come_back() {
        let s = EventSelect::new(0xd1, 0x20)
            .modes(true, true)
            .threshold(0xfe, true)
            .edge();
        assert_eq!(s.event(), 0xd1);
        assert_eq!(s.unit_mask(), 0x20);
        assert_eq!(s.counter_mask(), 0xfe);
        assert!(s.is_user() && s.is_kernel() && s.is_edge() && s.is_inverted());
        let plain = s.modes(false, false).threshold(0, false);
        assert!(!plain.is_user() && !plain.is_kernel() && plain.is_edge() && !plain.is_inverted());
    }

    /// The bits of Intel's and of AMD's event selects.
    const NARROW: u64 = EventSelect::COMMON_BITS;
    const WIDE: u64 = NARROW | EventSelect::EVENT_HIGH;

    #[test]
    fn the_drivers_bits_are_dropped() {
        let all = EventSelect::from_request(0x0051_00c0);
        assert_eq!(all.map(EventSelect::stopped), Ok(0x0001_00c0));
        assert_eq!(all.map(|s| s.to_request(false)), Ok(0x0001_00c0));
        assert_eq!(all.map(|s| s.to_request(true)), Ok(0x0041_00c0));
    }

    #[test]
    fn a_running_register_tells_its_event() {
        let s = EventSelect::new(0x1c7, 0x12).modes(true, false);
        assert_eq!(EventSelect::from_bits(s.running()), s);
        assert_eq!(EventSelect::from_bits(u64::MAX).stopped(), !0x0078_0000);
    }

    #[test]
    fn leaking_bits_are_refused() {
        assert_eq!(EventSelect::from_request(1 << 19), Err(Invalid::PinControl));
        assert_eq!(EventSelect::from_request(1 << 21), Err(Invalid::AnyThread));
    }

    #[test]
    fn bits_that_the_cpu_lacks_are_refused() {
        let amd = EventSelect::new(0x1c7, 0).stopped();
        let found = |available| EventSelect::from_wide_request(amd, available);
        assert_eq!(found(NARROW), Err(Invalid::Select));
        assert_eq!(found(WIDE).map(EventSelect::event), Ok(0x1c7));
        assert_eq!(
            EventSelect::from_wide_request(1 << 36, WIDE),
            Err(Invalid::Select)
        );
    }

    #[test]
    fn all_other_bits_come_back() {
        let asked = WIDE & !0x0078_0000;
        let select = EventSelect::from_wide_request(asked, WIDE);
        assert_eq!(select.map(|s| s.to_wide_request(false)), Ok(asked));
        assert_eq!(select.map(|s| s.to_request(false)), Ok(asked as u32));
    }

    #[test]
    fn fixed_counters_take_modes_only() {
        assert!(EventSelect::new(0, 0).modes(true, true).is_modes_only());
        assert!(!EventSelect::new(0xc0, 0).is_modes_only());
        assert!(!EventSelect::new(0, 1).is_modes_only());
        assert!(!EventSelect::new(0, 0).edge().is_modes_only());
        assert!(!EventSelect::new(0, 0).threshold(1, false).is_modes_only());
        assert!(!EventSelect::new(0, 0).threshold(0, true).is_modes_only());
    }
}
