// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Which counter: the numbers of the ABI, and what may be asked of a counter.

use super::cpuid::Capabilities;
use super::evtsel::EventSelect;
use crate::abi;
use core::num::NonZeroU64;

/// General counters that the architecture has room for: bits 31:0 of `IA32_PERF_GLOBAL_CTRL`.
pub const MAX_GENERAL: usize = abi::NPMC as usize;
/// Fixed-function counters that it has room for: 4 bits each in `IA32_FIXED_CTR_CTRL`.
pub const MAX_FIXED: usize = 16;
/// Both.
pub const MAX_COUNTERS: usize = MAX_GENERAL + MAX_FIXED;

/// Why a request can't be fulfilled on any CPU like this one. All are `EINVAL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// There is no counter with this number.
    Number,
    /// `PMCF_PC`: the pins are not the program's.
    PinControl,
    /// `PMCF_ANY`: the other thread's work is not the program's.
    AnyThread,
    /// The event selects of these CPUs don't have such a bit.
    Select,
    /// A fixed-function counter has no event to select.
    FixedSelect,
}

/// A counter that the CPU has.
///
/// # Invariants
///
/// The index is below [`MAX_COUNTERS`]; it is the bit of `IA32_PERF_GLOBAL_CTRL` that stands for the
/// counter: 31:0 for general, 47:32 for fixed-function counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterId(u8);

/// The two kinds of counters, each counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Counts any event.
    General(u8),
    /// Counts the one event that the manual gives it (Intel SDM, volume 3B, table 21-2).
    Fixed(u8),
}

impl CounterId {
    const FIRST_FIXED: u8 = MAX_GENERAL as u8;
    const FIXED_BASE: u32 = abi::PMC_FIXED_BASE;

    /// The counter of an ABI number, as the structures of the counting calls have it.
    ///
    /// # Errors
    ///
    /// [`Invalid::Number`] if CPUs with these capabilities have no such counter.
    #[inline]
    pub const fn from_number(number: i32, capabilities: &Capabilities) -> Result<Self, Invalid> {
        match Self::possible(number) {
            Some(id) if capabilities.counters() & id.bit() != 0 => Ok(id),
            _ => Err(Invalid::Number),
        }
    }

    /// The counter of an ABI number, whether there is one or not: `None` if the architecture has no
    /// room for it.
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
    pub const fn possible(number: i32) -> Option<Self> {
        let number = number as u32;
        if number < MAX_GENERAL as u32 {
            // INVARIANT: Just compared.
            return Some(Self(number as u8));
        }
        let fixed = number.wrapping_sub(Self::FIXED_BASE);
        if fixed < MAX_FIXED as u32 {
            // INVARIANT: `fixed` is below MAX_FIXED.
            return Some(Self(Self::FIRST_FIXED + fixed as u8));
        }
        None
    }

    /// The first general counter, which every PMU has.
    pub const FIRST: Self = Self(0);

    /// The general counter `n`, or `None` if the architecture has no room for it.
    #[must_use]
    pub const fn general(n: u8) -> Option<Self> {
        if n < Self::FIRST_FIXED {
            // INVARIANT: Just compared.
            Some(Self(n))
        } else {
            None
        }
    }

    /// The fixed-function counter `n`, or `None` if the architecture has no room for it.
    #[must_use]
    pub const fn fixed(n: u8) -> Option<Self> {
        if (n as usize) < MAX_FIXED {
            // INVARIANT: Just compared.
            Some(Self(Self::FIRST_FIXED + n))
        } else {
            None
        }
    }

    /// The counter at that place in tables of [`MAX_COUNTERS`] entries.
    #[must_use]
    pub const fn from_index(index: u8) -> Option<Self> {
        if (index as usize) < MAX_COUNTERS {
            // INVARIANT: Just compared.
            Some(Self(index))
        } else {
            None
        }
    }

    /// Its place in tables of [`MAX_COUNTERS`] entries.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Its bit in the global control and status registers.
    #[inline]
    #[must_use]
    pub const fn bit(self) -> u64 {
        1 << self.0
    }

    /// Its kind, and its number among its kind.
    #[inline]
    #[must_use]
    pub const fn kind(self) -> Kind {
        if self.0 < Self::FIRST_FIXED {
            Kind::General(self.0)
        } else {
            Kind::Fixed(self.0 - Self::FIRST_FIXED)
        }
    }

    /// Whether the counter can count this.
    ///
    /// # Errors
    ///
    /// [`Invalid::FixedSelect`] if a fixed-function counter is asked for more than modes.
    pub const fn accept(self, select: EventSelect) -> Result<(), Invalid> {
        match self.kind() {
            Kind::Fixed(_) if !select.is_modes_only() => Err(Invalid::FixedSelect),
            _ => Ok(()),
        }
    }
}

/// The counters whose bits are set, lowest first.
#[inline]
pub fn each(mut bits: u64) -> impl Iterator<Item = CounterId> {
    core::iter::from_fn(move || {
        let index = NonZeroU64::new(bits)?.trailing_zeros() as u8;
        if usize::from(index) >= MAX_COUNTERS {
            return None;
        }
        bits &= bits.wrapping_sub(1);
        // INVARIANT: Just compared.
        Some(CounterId(index))
    })
}

/// The bits of some counters: the inverse of [`each`].
pub fn bits(counters: impl Iterator<Item = CounterId>) -> u64 {
    counters.fold(0, |bits, counter| bits | counter.bit())
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_counter))]
mod tests {
    use super::*;

    const CPU: Capabilities = Capabilities {
        general: 8,
        fixed: 0b1_0111,
        ..Capabilities::NOTHING
    };

    fn kind(number: i32) -> Result<Kind, Invalid> {
        CounterId::from_number(number, &CPU).map(CounterId::kind)
    }

    #[test]
    fn numbers_in_range() {
        assert_eq!(kind(0), Ok(Kind::General(0)));
        assert_eq!(kind(7), Ok(Kind::General(7)));
        assert_eq!(kind(0x4000_0000), Ok(Kind::Fixed(0)));
        assert_eq!(kind(0x4000_0004), Ok(Kind::Fixed(4)));
    }

    #[test]
    fn numbers_out_of_range() {
        assert_eq!(kind(8), Err(Invalid::Number));
        assert_eq!(kind(32), Err(Invalid::Number));
        assert_eq!(kind(-1), Err(Invalid::Number));
        assert_eq!(kind(i32::MIN), Err(Invalid::Number));
        assert_eq!(kind(i32::MAX), Err(Invalid::Number));
        assert_eq!(kind(0x3fff_ffff), Err(Invalid::Number));
        // A hole, and the first one that there is no room for.
        assert_eq!(kind(0x4000_0003), Err(Invalid::Number));
        assert_eq!(kind(0x4000_0010), Err(Invalid::Number));
    }

    #[test]
    fn numbers_that_the_architecture_has_room_for() {
        let index = |number| CounterId::possible(number).map(CounterId::index);
        assert_eq!(index(31), Some(31));
        assert_eq!(index(32), None);
        assert_eq!(index(0x4000_000f), Some(MAX_COUNTERS - 1));
        assert_eq!(index(0x4000_0010), None);
        assert_eq!(index(-1), None);
        assert_eq!(index(0x3fff_ffff), None);
    }

    #[test]
    fn a_machine_without_counters_accepts_none() {
        assert_eq!(
            CounterId::from_number(0, &Capabilities::NOTHING),
            Err(Invalid::Number)
        );
    }

    #[test]
    fn bits_are_those_of_global_ctrl() {
        assert_eq!(CounterId::general(31).map(CounterId::bit), Some(1 << 31));
        assert_eq!(CounterId::fixed(0).map(CounterId::bit), Some(1 << 32));
        assert_eq!(
            CounterId::fixed(15).map(CounterId::index),
            Some(MAX_COUNTERS - 1)
        );
        assert_eq!(CounterId::general(32), None);
        assert_eq!(CounterId::fixed(16), None);
    }

    #[test]
    fn each_gives_the_set_bits() {
        let mut found = each(1 << 47 | 1 << 32 | 0b101).map(CounterId::index);
        assert_eq!(found.next(), Some(0));
        assert_eq!(found.next(), Some(2));
        assert_eq!(found.next(), Some(32));
        assert_eq!(found.next(), Some(47));
        assert_eq!(found.next(), None);
        assert_eq!(bits(each(1 << 47 | 0b101)), 1 << 47 | 0b101);
        // PERF_METRICS and the like are no counters.
        assert_eq!(each(1 << 48 | 1 << 63).count(), 0);
    }

    #[test]
    fn fixed_counters_select_nothing() {
        let (general, fixed) = (CounterId::general(0), CounterId::fixed(1));
        let modes = EventSelect::new(0, 0).modes(true, false);
        let event = EventSelect::new(0xc0, 0).modes(true, false);
        assert_eq!(fixed.map(|c| c.accept(modes)), Some(Ok(())));
        assert_eq!(
            fixed.map(|c| c.accept(event)),
            Some(Err(Invalid::FixedSelect))
        );
        assert_eq!(general.map(|c| c.accept(event)), Some(Ok(())));
    }
}
