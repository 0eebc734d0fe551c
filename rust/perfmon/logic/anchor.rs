// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Converts an earlier reading of the time-stamp counter to the time that a clock showed then.

/// The time of a clock at a moment, and the time-stamp counter at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    tsc: u64,
    ns: u64,
    /// The nanoseconds of a cycle, times 2^32.
    ns_per_cycle: u64,
}

impl Anchor {
    /// Returns the anchor for a clock that showed `ns` nanoseconds when the counter, of `khz` kHz,
    /// was `tsc`. With 0 kHz, time stands still.
    #[must_use]
    pub const fn new(tsc: u64, ns: u64, khz: u32) -> Self {
        let ns_per_cycle = match (1_000_000_u64 << 32).checked_div(khz as u64) {
            Some(ns_per_cycle) => ns_per_cycle,
            None => 0,
        };
        Self {
            tsc,
            ns,
            ns_per_cycle,
        }
    }

    /// Returns what the clock showed when the counter was `tsc`, which is earlier.
    #[inline(always)]
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "a clock of 64 bits")]
    pub const fn ns_at(&self, tsc: u64) -> u64 {
        let cycles = self.tsc.wrapping_sub(tsc) as u128;
        let ns_ago = (cycles * self.ns_per_cycle as u128) >> 32;
        self.ns.wrapping_sub(ns_ago as u64)
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_anchor))]
mod tests {
    use super::*;

    #[test]
    fn cycles_become_nanoseconds() {
        let anchor = Anchor::new(5_000_000_000, 77_000_000_000, 2_500_000);
        assert_eq!(anchor.ns_at(5_000_000_000), 77_000_000_000);
        // 2.5 cycles are a nanosecond; a rounding error of less than one stays.
        let second = 77_000_000_000 - anchor.ns_at(2_500_000_000);
        assert!((999_999_999..=1_000_000_000).contains(&second));
    }

    #[test]
    fn the_counter_may_wrap() {
        let anchor = Anchor::new(10, 1_000, 1_000_000);
        assert_eq!(anchor.ns_at(0_u64.wrapping_sub(90)), 900);
    }

    #[test]
    fn without_a_frequency_time_stands_still() {
        assert_eq!(Anchor::new(10, 1_000, 0).ns_at(3), 1_000);
    }
}
