// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The event select: what a general counter counts.
//!
//! One 64-bit layout serves both vendors. Intel's `IA32_PERFEVTSELx` (SDM volume 3B, section
//! 21.2.1.1) uses bits 31:0, and from version 6 on some higher bits; AMD's `PERF_CTL` (APM volume 2,
//! section 13.2.1) has bits 11:8 of the event number at 35:32.

use super::counter::{CounterId, CounterKind, InvalidCounter};

/// A value of `IA32_PERFEVTSELx` (Intel) or `PERF_CTL` (AMD), without the bits that the driver owns: enable and
/// interrupt.
///
/// # Invariants
///
/// None of [`Self::INTERRUPT`], [`Self::ENABLE`], [`Self::PIN_CONTROL`] and [`Self::ANY_THREAD`] is
/// set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventSelect(u64);

impl EventSelect {
    /// The bit that counts in user mode (CPL 1 to 3).
    pub const USER: u64 = 1 << 16;
    /// The bit that counts in kernel mode (CPL 0).
    pub const KERNEL: u64 = 1 << 17;
    /// The bit that counts how often the condition begins, not for how many cycles it holds.
    pub const EDGE: u64 = 1 << 18;
    /// The bit that drives the performance-monitoring pins. The driver refuses this bit.
    pub const PIN_CONTROL: u64 = 1 << 19;
    /// The bit that raises an interrupt on overflow.
    pub const INTERRUPT: u64 = 1 << 20;
    /// The bit that counts for both hyperthreads of a core. The driver refuses this bit, because
    /// the sibling may run another user's program.
    pub const ANY_THREAD: u64 = 1 << 21;
    /// The bit that enables the counter.
    pub const ENABLE: u64 = 1 << 22;
    /// The bit that counts the cycles with fewer than [`Self::counter_mask`] events, instead of
    /// cycles with at least that number.
    pub const INVERT: u64 = 1 << 23;

    /// The bits that the event selects of both vendors have.
    pub const COMMON_BITS: u64 = 0xffff_ffff;
    /// Bits 11:8 of the event number; AMD only.
    pub const EVENT_HIGH: u64 = 0xf << 32;
    /// The second unit mask; Intel only, from version 6 of architectural performance monitoring on.
    pub const UNIT_MASK_2: u64 = 0xff << 40;
    /// The bit that counts the cycles with exactly [`Self::counter_mask`] events, instead of cycles
    /// with at least that number; Intel only, from version 6 on.
    pub const EQUAL: u64 = 1 << 36;
    /// All bits that the event selects of any vendor have.
    pub const ANY_BITS: u64 =
        Self::COMMON_BITS | Self::EVENT_HIGH | Self::UNIT_MASK_2 | Self::EQUAL;

    /// A bit that marks events which need an [extra register](super::extra_registers). Registers
    /// don't have this bit, so the event select of such an event never equals the event select of a
    /// counter, and each window of the event takes the path that writes the extra register.
    pub const EXTRA_REGISTER: u64 = 1 << 63;

    /// The bits that the driver owns. If a program sets them, they have no effect.
    const DRIVER_BITS: u64 = Self::INTERRUPT | Self::ENABLE;
    /// The bits that the driver refuses.
    const REFUSED_BITS: u64 = Self::PIN_CONTROL | Self::ANY_THREAD;
    /// The distance from bits 11:8 of AMD's event numbers to their place in the register, bits
    /// 35:32.
    const EVENT_HIGH_SHIFT: u32 = 32 - 8;

    /// Selects `event` with `unit_mask`, in no mode.
    ///
    /// Bits 11:8 of `event` exist on AMD only; bits 15:12 don't exist and are dropped.
    #[must_use]
    pub const fn new(event: u16, unit_mask: u8) -> Self {
        let low = (event & 0xff) as u64;
        let high = ((event & 0xf00) as u64) << Self::EVENT_HIGH_SHIFT;
        // INVARIANT: Only bits 7:0, 15:8 and 35:32 are set.
        Self(low | high | (unit_mask as u64) << 8)
    }

    /// Checks the bits that a program asks for, on a CPU whose event selects have the bits `available`. The bits
    /// that the driver owns are dropped.
    ///
    /// # Errors
    ///
    /// [`InvalidCounter::PinControl`] and [`InvalidCounter::AnyThread`] if such a bit is set,
    /// [`InvalidCounter::Select`] if a bit is set that these CPUs lack.
    pub const fn from_abi(bits: u64, available: u64) -> Result<Self, InvalidCounter> {
        if bits & Self::PIN_CONTROL != 0 {
            return Err(InvalidCounter::PinControl);
        }
        if bits & Self::ANY_THREAD != 0 {
            return Err(InvalidCounter::AnyThread);
        }
        if bits & !available != 0 {
            return Err(InvalidCounter::Select);
        }
        // INVARIANT: The refused bits are not set, and the bits that the driver owns are masked.
        Ok(Self(bits & !Self::DRIVER_BITS))
    }

    /// Checks that the counter can count this event.
    ///
    /// # Errors
    ///
    /// [`InvalidCounter::FixedSelect`] if the counter is a fixed-function counter, and the select has bits besides the
    /// modes.
    pub const fn check_counter(self, counter: CounterId) -> Result<(), InvalidCounter> {
        match counter.kind() {
            CounterKind::Fixed(_) if !self.is_modes_only() => Err(InvalidCounter::FixedSelect),
            _ => Ok(()),
        }
    }

    /// Returns the event select for the value of a register. Drops the bits that the driver owns or refuses.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        // INVARIANT: All bits that must not be set are masked.
        Self(bits & !(Self::DRIVER_BITS | Self::REFUSED_BITS))
    }

    /// Returns the event select with these modes instead of its own.
    #[must_use]
    pub const fn with_modes(self, user: bool, kernel: bool) -> Self {
        let mut bits = self.0 & !(Self::USER | Self::KERNEL);
        if user {
            bits |= Self::USER;
        }
        if kernel {
            bits |= Self::KERNEL;
        }
        // INVARIANT: Only USER and KERNEL change.
        Self(bits)
    }

    /// Returns the event select with this event and unit mask. For Intel only, whose event numbers have 8 bits.
    #[must_use]
    pub const fn with_event(self, event: u8, unit_mask: u8) -> Self {
        // INVARIANT: Only bits 7:0 and 15:8 change.
        Self(self.0 & !0xffff | event as u64 | (unit_mask as u64) << 8)
    }

    /// Returns the event select with [`Self::EXTRA_REGISTER`].
    #[must_use]
    pub const fn with_extra_register(self) -> Self {
        // INVARIANT: Only EXTRA_REGISTER changes.
        Self(self.0 | Self::EXTRA_REGISTER)
    }

    /// Returns the event select for a register: without [`Self::EXTRA_REGISTER`].
    #[must_use]
    pub const fn without_extra_register(self) -> Self {
        // INVARIANT: Only EXTRA_REGISTER changes.
        Self(self.0 & !Self::EXTRA_REGISTER)
    }

    /// Returns the event select with edge detection.
    #[must_use]
    pub const fn with_edge(self) -> Self {
        // INVARIANT: Only EDGE changes.
        Self(self.0 | Self::EDGE)
    }

    /// Returns the event select with this counter mask: it counts the cycles with at least `counter_mask` events or, if
    /// `invert` is true, the cycles with fewer events.
    #[must_use]
    pub const fn with_counter_mask(self, counter_mask: u8, invert: bool) -> Self {
        let mut bits = self.0 & !(0xff << 24 | Self::INVERT) | (counter_mask as u64) << 24;
        if invert {
            bits |= Self::INVERT;
        }
        // INVARIANT: Only the counter mask and INVERT change.
        Self(bits)
    }

    /// Returns the event select with this second unit mask.
    #[must_use]
    pub const fn with_unit_mask_2(self, unit_mask: u8) -> Self {
        // INVARIANT: Only UNIT_MASK_2 changes.
        Self(self.0 & !Self::UNIT_MASK_2 | (unit_mask as u64) << Self::UNIT_MASK_2.trailing_zeros())
    }

    /// Returns the register's value while the counter is stopped.
    #[must_use]
    pub const fn stopped(self) -> u64 {
        self.0
    }

    /// Returns the register's value while the counter runs. The interrupt is enabled, because the module extends
    /// the counter to 64 bits at each overflow.
    #[must_use]
    pub const fn running(self) -> u64 {
        self.0 | Self::ENABLE | Self::INTERRUPT
    }

    /// Returns the bits for a program: the bits that [`Self::from_abi`] accepted, and ENABLE if the counter is running.
    #[must_use]
    pub const fn to_abi(self, running: bool) -> u64 {
        self.0 | if running { Self::ENABLE } else { 0 }
    }

    /// Returns the event number: 8 bits on Intel, 12 on AMD.
    #[must_use]
    pub const fn event(self) -> u16 {
        (self.0 & 0xff | self.0 >> Self::EVENT_HIGH_SHIFT & 0xf00) as u16
    }

    /// Returns the unit mask.
    #[must_use]
    pub const fn unit_mask(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// Returns the second unit mask, 0 before version 6.
    #[must_use]
    pub const fn unit_mask_2(self) -> u8 {
        (self.0 >> Self::UNIT_MASK_2.trailing_zeros()) as u8
    }

    /// Returns the counter mask: if it is not 0, the counter counts cycles with at least this number of events.
    #[must_use]
    pub const fn counter_mask(self) -> u8 {
        (self.0 >> 24) as u8
    }

    /// Returns whether user mode is counted.
    #[must_use]
    pub const fn is_user(self) -> bool {
        self.0 & Self::USER != 0
    }

    /// Returns whether kernel mode is counted.
    #[must_use]
    pub const fn is_kernel(self) -> bool {
        self.0 & Self::KERNEL != 0
    }

    /// Returns whether edges are counted.
    #[must_use]
    pub const fn is_edge(self) -> bool {
        self.0 & Self::EDGE != 0
    }

    /// Returns whether the comparison with the counter mask is inverted.
    #[must_use]
    pub const fn is_inverted(self) -> bool {
        self.0 & Self::INVERT != 0
    }

    /// Returns whether a counter with these `bits` in its event select counts: it is enabled and has a mode.
    #[must_use]
    pub const fn is_counting(bits: u64) -> bool {
        bits & Self::ENABLE != 0 && bits & (Self::USER | Self::KERNEL) != 0
    }

    /// Returns whether only modes are set, as fixed-function counters require.
    #[must_use]
    pub const fn is_modes_only(self) -> bool {
        self.0 & !(Self::USER | Self::KERNEL) == 0
    }
}

// The flags of the ABI are bits 23:16 of the register, so that a program's flags can be copied into the register.
const _: () = {
    use crate::abi;
    const fn register_bit(flag: u32) -> u64 {
        (flag as u64) << 16
    }
    assert!(register_bit(abi::PMCF_USR) == EventSelect::USER);
    assert!(register_bit(abi::PMCF_OS) == EventSelect::KERNEL);
    assert!(register_bit(abi::PMCF_E) == EventSelect::EDGE);
    assert!(register_bit(abi::PMCF_PC) == EventSelect::PIN_CONTROL);
    assert!(register_bit(abi::PMCF_ANY) == EventSelect::ANY_THREAD);
    assert!(register_bit(abi::PMCF_SYS_FLAGS) == EventSelect::DRIVER_BITS);
    assert!(register_bit(abi::PMCF_INV) == EventSelect::INVERT);
};

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_evtsel))]
mod tests {
    use super::*;

    #[test]
    fn fields_have_the_bits_of_the_manuals() {
        let select = EventSelect::new(0x2e, 0x4f).with_modes(true, false);
        assert_eq!(select.stopped(), 0x0001_4f2e);
        assert_eq!(select.running(), 0x0051_4f2e);
        assert_eq!(
            select.with_edge().with_counter_mask(3, true).stopped(),
            0x0385_4f2e
        );
        assert_eq!(
            EventSelect::new(0x76, 0).with_modes(false, true).stopped(),
            0x0002_0076
        );
    }

    #[test]
    fn high_event_bits_are_at_35_32() {
        let select = EventSelect::new(0x1c7, 0x12);
        assert_eq!(select.stopped(), 0x1_0000_12c7);
        assert_eq!(select.event(), 0x1c7);
        assert_eq!(EventSelect::new(0xf1c7, 0).event(), 0x1c7);
    }

    #[test]
    fn fields_are_read_as_written() {
        let select = EventSelect::new(0xd1, 0x20)
            .with_modes(true, true)
            .with_counter_mask(0xfe, true)
            .with_edge();
        assert_eq!(select.event(), 0xd1);
        assert_eq!(select.unit_mask(), 0x20);
        assert_eq!(select.counter_mask(), 0xfe);
        assert!(select.is_user() && select.is_kernel() && select.is_edge() && select.is_inverted());
        let without_modes = select.with_modes(false, false).with_counter_mask(0, false);
        assert!(
            !without_modes.is_user()
                && !without_modes.is_kernel()
                && without_modes.is_edge()
                && !without_modes.is_inverted()
        );
    }

    /// The bits of Intel's event selects.
    const INTEL_BITS: u64 = EventSelect::COMMON_BITS;
    /// The bits of AMD's event selects.
    const AMD_BITS: u64 = INTEL_BITS | EventSelect::EVENT_HIGH;

    #[test]
    fn bits_of_the_driver_are_dropped() {
        let accepted_select = EventSelect::from_abi(0x0051_00c0, INTEL_BITS);
        assert_eq!(accepted_select.map(EventSelect::stopped), Ok(0x0001_00c0));
        assert_eq!(accepted_select.map(|s| s.to_abi(false)), Ok(0x0001_00c0));
        assert_eq!(accepted_select.map(|s| s.to_abi(true)), Ok(0x0041_00c0));
    }

    #[test]
    fn running_value_adds_enable_and_interrupt() {
        let select = EventSelect::new(0x1c7, 0x12).with_modes(true, false);
        assert_eq!(EventSelect::from_bits(select.running()), select);
        assert_eq!(EventSelect::from_bits(u64::MAX).stopped(), !0x0078_0000);
    }

    #[test]
    fn pin_control_and_any_thread_are_refused() {
        assert_eq!(
            EventSelect::from_abi(1 << 19, INTEL_BITS),
            Err(InvalidCounter::PinControl)
        );
        assert_eq!(
            EventSelect::from_abi(1 << 21, INTEL_BITS),
            Err(InvalidCounter::AnyThread)
        );
    }

    #[test]
    fn bits_that_the_cpu_lacks_are_refused() {
        let high_event = EventSelect::new(0x1c7, 0).stopped();
        let select_on = |available| EventSelect::from_abi(high_event, available);
        assert_eq!(select_on(INTEL_BITS), Err(InvalidCounter::Select));
        assert_eq!(select_on(AMD_BITS).map(EventSelect::event), Ok(0x1c7));
        assert_eq!(
            EventSelect::from_abi(1 << 36, AMD_BITS),
            Err(InvalidCounter::Select)
        );
    }

    #[test]
    fn all_other_bits_are_kept() {
        let requested_bits = AMD_BITS & !0x0078_0000;
        let select = EventSelect::from_abi(requested_bits, AMD_BITS);
        assert_eq!(select.map(|s| s.to_abi(false)), Ok(requested_bits));
    }

    #[test]
    fn modes_only_excludes_counter_masks() {
        assert!(EventSelect::new(0, 0)
            .with_modes(true, true)
            .is_modes_only());
        assert!(!EventSelect::new(0xc0, 0).is_modes_only());
        assert!(!EventSelect::new(0, 1).is_modes_only());
        assert!(!EventSelect::new(0, 0).with_edge().is_modes_only());
        assert!(!EventSelect::new(0, 0)
            .with_counter_mask(1, false)
            .is_modes_only());
        assert!(!EventSelect::new(0, 0)
            .with_counter_mask(0, true)
            .is_modes_only());
    }

    #[test]
    fn fixed_counters_refuse_an_event() {
        let (general, fixed) = (CounterId::general(0), CounterId::fixed(1));
        let modes = EventSelect::new(0, 0).with_modes(true, false);
        let event = EventSelect::new(0xc0, 0).with_modes(true, false);
        assert_eq!(fixed.map(|c| modes.check_counter(c)), Some(Ok(())));
        assert_eq!(
            fixed.map(|c| event.check_counter(c)),
            Some(Err(InvalidCounter::FixedSelect))
        );
        assert_eq!(general.map(|c| event.check_counter(c)), Some(Ok(())));
    }
}
