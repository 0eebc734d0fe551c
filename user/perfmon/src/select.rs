// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters and event selects.

use std::fmt;

use perfmon_core::abi;
use perfmon_core::logic::evtsel;

/// The kind and the number of a counter. Every CPU has the counter.
///
/// ```
/// use perfmon::CounterId;
///
/// assert_eq!(CounterId::General(2).number(), 2);
/// assert_eq!(CounterId::Fixed(1).number(), 0x4000_0001);
/// assert_eq!(CounterId::Fixed(1).to_string(), "fixed counter 1");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CounterId {
    /// A general counter, which counts any event: 0 to [`Counters::number`](crate::Counters::number) - 1.
    General(u8),
    /// A fixed-function counter, which counts only the event that the manual assigns to it.
    Fixed(u8),
}

impl CounterId {
    /// Returns the number in the ABI, which is also the operand of the RDPMC instruction.
    #[must_use]
    #[expect(clippy::cast_possible_wrap, reason = "at most 2^30 + 255")]
    pub const fn number(self) -> i32 {
        match self {
            Self::General(n) => n as i32,
            Self::Fixed(n) => (abi::PMC_FIXED_BASE + n as u32) as i32,
        }
    }
}

impl fmt::Display for CounterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::General(n) => write!(f, "general counter {n}"),
            Self::Fixed(n) => write!(f, "fixed counter {n}"),
        }
    }
}

/// The CPU modes in which an event is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Modes {
    /// Only in user mode (CPL 1 to 3).
    User,
    /// Only in the kernel (CPL 0).
    Kernel,
    /// In user mode and in the kernel.
    #[default]
    Both,
}

/// An event select, which determines what a counter counts: `IA32_PERFEVTSELx` (Intel SDM, volume 3B, section
/// 21.2.1.1), or AMD's `PERF_CTL` (AMD APM, volume 2, section 13.2.1), which has four more bits for the event number.
///
/// The interrupt bit and the enable bit are no part of the select: the driver sets them.
///
/// ```
/// use perfmon::{EventSelect, Modes};
///
/// // Instructions, in user mode only.
/// assert_eq!(EventSelect::new(0xc0, 0x00).modes(Modes::User).bits(), 0x0001_00c0);
/// // Cycles in which at least two instructions retired, in both modes.
/// assert_eq!(EventSelect::new(0xc0, 0x00).at_least(2).bits(), 0x0203_00c0);
/// // An event number of 12 bits, which only AMD's CPUs have.
/// assert_eq!(EventSelect::new(0x1cd, 0x04).bits(), 0x1_0003_04cd);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct EventSelect(evtsel::EventSelect);

impl EventSelect {
    /// Creates the select of the event that the CPU's manual lists under this event number and unit mask, counted in
    /// user mode and in the kernel.
    ///
    /// Event numbers have 8 bits on Intel's CPUs and 12 bits on AMD's. Bits 15:12 are dropped; the driver refuses bits
    /// 11:8 on Intel's CPUs.
    #[must_use]
    pub const fn new(event: u16, unit_mask: u8) -> Self {
        Self(evtsel::EventSelect::new(event, unit_mask)).modes(Modes::Both)
    }

    /// Returns the select of a fixed counter. It contains only modes, since the event of the counter is fixed.
    ///
    /// ```
    /// use perfmon::{EventSelect, Modes};
    ///
    /// assert_eq!(EventSelect::fixed().modes(Modes::Kernel).bits(), 0x0002_0000);
    /// ```
    #[must_use]
    pub const fn fixed() -> Self {
        Self::new(0, 0)
    }

    /// Returns this select with a second unit mask, which is bits 15:8 of a unit mask of 16 bits. Intel's CPUs have a
    /// second unit mask from version 6 of performance monitoring on; the driver refuses it on other CPUs.
    ///
    /// ```
    /// use perfmon::EventSelect;
    ///
    /// // Event 0x24 with unit mask 0x1ff.
    /// assert_eq!(EventSelect::new(0x24, 0xff).unit_mask_2(0x01).bits(), 0x100_0003_ff24);
    /// ```
    #[must_use]
    pub const fn unit_mask_2(self, unit_mask: u8) -> Self {
        Self(self.0.with_unit_mask_2(unit_mask))
    }

    /// Converts a register value, such as [`bits`](Self::bits) returns, and clears its interrupt and enable bits.
    /// Returns `None` if the value has a bit that the driver refuses: pin control (bit 19), any thread (bit 21), or a
    /// bit that no CPU has.
    ///
    /// ```
    /// use perfmon::EventSelect;
    ///
    /// let select = EventSelect::from_bits(0x0053_00c0).unwrap();
    /// assert_eq!(select, EventSelect::new(0xc0, 0x00));
    /// assert_eq!(EventSelect::from_bits(1 << 21), None);
    /// ```
    #[must_use]
    pub const fn from_bits(bits: u64) -> Option<Self> {
        match evtsel::EventSelect::from_abi(bits, evtsel::EventSelect::ANY_BITS) {
            Ok(select) => Some(Self(select)),
            Err(_) => None,
        }
    }

    /// Returns the register value.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0.to_abi(false)
    }

    /// Returns this select, counted only in `modes`.
    #[must_use]
    pub const fn modes(self, modes: Modes) -> Self {
        let user = matches!(modes, Modes::User | Modes::Both);
        let kernel = matches!(modes, Modes::Kernel | Modes::Both);
        Self(self.0.with_modes(user, kernel))
    }

    /// Sets the edge bit: counts how often the event's condition begins, and not the cycles in
    /// which the condition holds. Useful with a counter mask.
    #[must_use]
    pub const fn edge(self) -> Self {
        Self(self.0.with_edge())
    }

    /// Sets the counter mask: counts the cycles in which the event happens at least `events` times. With 0 the mask is
    /// off, and the event itself is counted.
    #[must_use]
    pub const fn at_least(self, events: u8) -> Self {
        Self(self.0.with_counter_mask(events, false))
    }

    /// Sets the counter mask and the invert bit: counts the cycles in which the event happens fewer than `events`
    /// times.
    #[must_use]
    pub const fn fewer_than(self, events: u8) -> Self {
        Self(self.0.with_counter_mask(events, true))
    }
}

impl fmt::Debug for EventSelect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventSelect({:#010x})", self.bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_is_in_its_place() {
        let plain = EventSelect::new(0xab, 0xcd);
        assert_eq!(plain.bits(), 0x0003_cdab);
        assert_eq!(plain.edge().bits(), 0x0007_cdab);
        assert_eq!(plain.fewer_than(2).bits(), 0x0283_cdab);
        assert_eq!(plain.at_least(0xff).bits(), 0xff03_cdab);
        assert_eq!(plain.fewer_than(0xff).at_least(1).bits(), 0x0103_cdab);
        assert_eq!(EventSelect::new(0xfab, 0xcd).bits(), 0xf_0003_cdab);
    }

    #[test]
    fn bits_that_no_cpu_has_make_no_select() {
        assert!(EventSelect::from_bits(0xf_ff87_ffff).is_some());
        assert_eq!(EventSelect::from_bits(1 << 37), None);
        assert_eq!(EventSelect::from_bits(1 << 63), None);
    }

    #[test]
    fn modes_replace_each_other() {
        let select = EventSelect::new(0, 0);
        assert_eq!(select.modes(Modes::User).bits(), 0x0001_0000);
        assert_eq!(
            select.modes(Modes::User).modes(Modes::Kernel).bits(),
            0x0002_0000
        );
        assert_eq!(
            select.modes(Modes::Kernel).modes(Modes::Both).bits(),
            0x0003_0000
        );
    }

    #[test]
    fn numbers_are_those_of_rdpmc() {
        assert_eq!(CounterId::General(7).number(), 7);
        assert_eq!(CounterId::Fixed(3).number(), (1 << 30) + 3);
    }
}
