// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Counters by number: the numbers of the ABI, indices of tables, and bits of the global registers.

use crate::abi;
use core::num::NonZeroU64;

/// The number of general counters that the architecture has room for: bits 31:0 of `IA32_PERF_GLOBAL_CTRL`.
pub const MAX_GENERAL: usize = abi::NPMC as usize;
/// The largest number of fixed-function counters that the module uses. `IA32_FIXED_CTR_CTRL` has room for 16, with 4 bits
/// each, and no processor has more than 15.
pub const MAX_FIXED: usize = 15;
/// The number of entries in tables of counters: one for each counter of both kinds, and one for [`CounterId::NONE`].
pub const MAX_COUNTERS: usize = MAX_GENERAL + MAX_FIXED + 1;

/// The bits of all general counters.
pub const GENERAL_COUNTERS: u64 = (1 << MAX_GENERAL) - 1;

/// Returns the bits of the first `general` general counters and of the fixed-function counters `fixed`, as in
/// `IA32_PERF_GLOBAL_CTRL`.
#[must_use]
pub const fn counter_bits(general: u8, fixed: u16) -> u64 {
    (fixed as u64) << MAX_GENERAL | ((1u64 << general) - 1)
}

/// Returns the number of general counters in a mask of counters.
#[must_use]
pub const fn general_count(counters: u64) -> u8 {
    // CAST: The lower half has 32 bits.
    (counters as u32).count_ones() as u8
}

/// Returns whether a mask of counters has a fixed-function counter.
#[must_use]
pub const fn has_fixed(counters: u64) -> bool {
    counters >> MAX_GENERAL != 0
}

/// The reason why these CPUs can't count what a program asks for: `EINVAL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidCounter {
    /// No counter has this number.
    Number,
    /// `PMCF_PC` is set, which would drive the performance-monitoring pins.
    PinControl,
    /// `PMCF_ANY` is set, which would count the sibling hyperthread.
    AnyThread,
    /// A bit is set that the event selects of these CPUs lack.
    Select,
    /// A fixed-function counter was given an event, although it counts only its own event.
    FixedSelect,
    /// No kind of core has this type.
    Kind,
    /// The counter can't count the event. Other counters can.
    Event,
}

/// A counter.
///
/// # Invariants
///
/// The index is below [`MAX_COUNTERS`]. The index is the number of the counter's bit in
/// `IA32_PERF_GLOBAL_CTRL`: 31:0 for general, 46:32 for fixed-function counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterId(u8);

/// The kind of a counter, and its number within the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterKind {
    /// A general counter, which can count many events.
    General(u8),
    /// A fixed-function counter, which counts the one event that the manual assigns to it (Intel
    /// SDM, volume 3B, table 21-2).
    Fixed(u8),
}

impl CounterId {
    const FIRST_FIXED: u8 = MAX_GENERAL as u8;
    const FIXED_BASE: u32 = abi::PMC_FIXED_BASE;

    /// Returns the counter with this number in the structures of the counting calls, if it is among `counters`.
    ///
    /// # Errors
    ///
    /// [`InvalidCounter::Number`] if the counter is not among `counters`.
    #[inline]
    pub const fn from_number(number: i32, counters: u64) -> Result<Self, InvalidCounter> {
        match Self::from_abi_number(number) {
            Some(id) if counters & id.bit() != 0 => Ok(id),
            _ => Err(InvalidCounter::Number),
        }
    }

    /// Returns the counter with this number in the structures of the counting calls, even if the CPUs lack it.
    /// `None` if the architecture has no room for it.
    #[inline]
    #[must_use]
    #[allow(
        clippy::cast_sign_loss,
        reason = "a negative number becomes one that is too large"
    )]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the number was compared with the size of a table"
    )]
    pub const fn from_abi_number(number: i32) -> Option<Self> {
        let number = number as u32;
        if number < MAX_GENERAL as u32 {
            // INVARIANT: `number` is below MAX_GENERAL.
            return Some(Self(number as u8));
        }
        let fixed = number.wrapping_sub(Self::FIXED_BASE);
        if fixed < MAX_FIXED as u32 {
            // INVARIANT: `fixed` is below MAX_FIXED, so the sum is below MAX_COUNTERS.
            return Some(Self(Self::FIRST_FIXED + fixed as u8));
        }
        None
    }

    /// Returns the number in the structures of the counting calls: the inverse of [`Self::from_abi_number`].
    #[must_use]
    pub const fn number(self) -> u32 {
        match self.kind() {
            CounterKind::General(n) => n as u32,
            CounterKind::Fixed(n) => Self::FIXED_BASE + n as u32,
        }
    }

    /// No counter, for events that count nothing. Tables have an entry for this value; the entry
    /// never changes.
    pub const NONE: Self = Self(MAX_COUNTERS as u8 - 1);

    /// Returns whether this is [`Self::NONE`].
    #[inline]
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == Self::NONE.0
    }

    /// The fixed-function counter of instructions.
    pub const INSTRUCTIONS: Self = Self(Self::FIRST_FIXED);

    /// The first general counter, which every PMU has.
    pub const FIRST: Self = Self(0);

    /// Returns general counter `n`, or `None` if the architecture has no room for this counter.
    #[must_use]
    pub const fn general(n: u8) -> Option<Self> {
        if n < Self::FIRST_FIXED {
            // INVARIANT: `n` is below MAX_GENERAL.
            Some(Self(n))
        } else {
            None
        }
    }

    /// Returns fixed-function counter `n`, or `None` if the architecture has no room for this
    /// counter.
    #[must_use]
    pub const fn fixed(n: u8) -> Option<Self> {
        if (n as usize) < MAX_FIXED {
            // INVARIANT: `n` is below MAX_FIXED, so the sum is below MAX_COUNTERS.
            Some(Self(Self::FIRST_FIXED + n))
        } else {
            None
        }
    }

    /// Returns the counter at this index in tables of [`MAX_COUNTERS`] entries; [`Self::NONE`] for the last.
    #[must_use]
    pub const fn from_index(index: u8) -> Option<Self> {
        if (index as usize) < MAX_COUNTERS {
            // INVARIANT: `index` is below MAX_COUNTERS.
            Some(Self(index))
        } else {
            None
        }
    }

    /// Returns the index in tables of [`MAX_COUNTERS`] entries.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the counter's bit in the global control and status registers.
    #[inline]
    #[must_use]
    pub const fn bit(self) -> u64 {
        // The index is below 64, so the shift does not wrap. `<<` would check this again.
        1_u64.wrapping_shl(self.0 as u32)
    }

    /// Returns the kind, with the number within the kind.
    #[inline]
    #[must_use]
    pub const fn kind(self) -> CounterKind {
        if self.0 < Self::FIRST_FIXED {
            CounterKind::General(self.0)
        } else {
            CounterKind::Fixed(self.0 - Self::FIRST_FIXED)
        }
    }
}

/// Returns the counters whose bits are set, lowest first. Skips [`CounterId::NONE`] and the bits above it.
#[inline]
pub fn each_counter(mut bits: u64) -> impl Iterator<Item = CounterId> {
    core::iter::from_fn(move || {
        let index = NonZeroU64::new(bits)?.trailing_zeros() as u8;
        if index >= CounterId::NONE.0 {
            return None;
        }
        bits &= bits.wrapping_sub(1);
        // INVARIANT: `index` is below MAX_COUNTERS.
        Some(CounterId(index))
    })
}

/// Returns the counter of the highest bit, if one is set.
#[must_use]
pub const fn highest(bits: u64) -> Option<CounterId> {
    match bits.checked_ilog2() {
        Some(index) => CounterId::from_index(index as u8),
        None => None,
    }
}

/// Returns the counters as a mask: the inverse of [`each_counter`].
pub fn mask_of(counters: impl Iterator<Item = CounterId>) -> u64 {
    counters.fold(0, |bits, counter| bits | counter.bit())
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_counter))]
mod tests {
    use super::super::cpuid::Capabilities;
    use super::*;

    const CPU: Capabilities = Capabilities {
        general_count: 8,
        fixed: 0b1_0111,
        ..Capabilities::NONE
    };

    #[test]
    fn masks_have_general_and_fixed_counters() {
        assert_eq!(counter_bits(8, 0b1_0111), 0x17_0000_00ff);
        assert_eq!(counter_bits(0, 0), 0);
        for (general, fixed) in [(0, 0), (8, 0), (32, 0), (0, 0b1000), (8, 0x7fff)] {
            let counters = counter_bits(general, fixed);
            assert_eq!(general_count(counters), general);
            assert_eq!(has_fixed(counters), fixed != 0);
        }
    }

    fn kind(number: i32) -> Result<CounterKind, InvalidCounter> {
        CounterId::from_number(number, CPU.counters()).map(CounterId::kind)
    }

    #[test]
    fn existing_counters_have_numbers() {
        assert_eq!(kind(0), Ok(CounterKind::General(0)));
        assert_eq!(kind(7), Ok(CounterKind::General(7)));
        assert_eq!(kind(0x4000_0000), Ok(CounterKind::Fixed(0)));
        assert_eq!(kind(0x4000_0004), Ok(CounterKind::Fixed(4)));
    }

    #[test]
    fn numbers_of_missing_counters_are_refused() {
        assert_eq!(kind(8), Err(InvalidCounter::Number));
        assert_eq!(kind(32), Err(InvalidCounter::Number));
        assert_eq!(kind(-1), Err(InvalidCounter::Number));
        assert_eq!(kind(i32::MIN), Err(InvalidCounter::Number));
        assert_eq!(kind(i32::MAX), Err(InvalidCounter::Number));
        assert_eq!(kind(0x3fff_ffff), Err(InvalidCounter::Number));
        // A gap in the bitmap, and the first number that the architecture has no room for.
        assert_eq!(kind(0x4000_0003), Err(InvalidCounter::Number));
        assert_eq!(kind(0x4000_0010), Err(InvalidCounter::Number));
    }

    #[test]
    fn from_abi_number_accepts_all_numbers_of_the_architecture() {
        let index = |number| CounterId::from_abi_number(number).map(CounterId::index);
        assert_eq!(index(31), Some(31));
        assert_eq!(index(32), None);
        assert_eq!(index(0x4000_000e), Some(MAX_COUNTERS - 2));
        assert_eq!(index(0x4000_000f), None);
        assert_eq!(index(0x4000_0010), None);
        assert_eq!(index(-1), None);
        assert_eq!(index(0x3fff_ffff), None);
    }

    #[test]
    fn number_0_is_refused_without_counters() {
        assert_eq!(CounterId::from_number(0, 0), Err(InvalidCounter::Number));
    }

    #[test]
    fn bits_are_those_of_global_ctrl() {
        assert_eq!(CounterId::general(31).map(CounterId::bit), Some(1 << 31));
        assert_eq!(CounterId::fixed(0).map(CounterId::bit), Some(1 << 32));
        assert_eq!(
            CounterId::fixed(14).map(CounterId::index),
            Some(MAX_COUNTERS - 2)
        );
        assert_eq!(CounterId::fixed(15), None);
        assert_eq!(CounterId::general(32), None);
        assert_eq!(CounterId::fixed(16), None);
    }

    #[test]
    fn each_returns_the_counters_of_set_bits() {
        let mut indices = each_counter(1 << 46 | 1 << 32 | 0b101).map(CounterId::index);
        assert_eq!(indices.next(), Some(0));
        assert_eq!(indices.next(), Some(2));
        assert_eq!(indices.next(), Some(32));
        assert_eq!(indices.next(), Some(46));
        assert_eq!(indices.next(), None);
        assert_eq!(mask_of(each_counter(1 << 46 | 0b101)), 1 << 46 | 0b101);
        // The bits above the counters (such as PERF_METRICS) and the bit of NONE are not counters.
        assert_eq!(each_counter(1 << 48 | 1 << 63).count(), 0);
        assert_eq!(each_counter(CounterId::NONE.bit()).count(), 0);
        assert!(CounterId::NONE.is_none() && !CounterId::FIRST.is_none());
    }
}
