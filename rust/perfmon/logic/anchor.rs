// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Converts an earlier value of the time-stamp counter to the time of a clock at that moment.

/// The time of a clock at a moment, and the time-stamp counter at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    tsc: u64,
    ns: u64,
    /// The length of a cycle in nanoseconds, times 2^32.
    ns_per_cycle: u64,
}

impl Anchor {
    /// Returns the anchor for a clock that showed `ns` nanoseconds when the counter, of `khz` kHz,
    /// was `tsc`. If `khz` is 0, the frequency is unknown, and [`Self::ns_at`] always returns `ns`.
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

    /// Returns the time of the clock in nanoseconds when the counter was `tsc`, which is earlier than the anchor.
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
    fn cycles_are_converted_to_nanoseconds() {
        let anchor = Anchor::new(5_000_000_000, 77_000_000_000, 2_500_000);
        assert_eq!(anchor.ns_at(5_000_000_000), 77_000_000_000);
        // 2.5 cycles are a nanosecond. The rounding error is less than a nanosecond.
        let second_in_ns = 77_000_000_000 - anchor.ns_at(2_500_000_000);
        assert!((999_999_999..=1_000_000_000).contains(&second_in_ns));
    }

    #[test]
    fn ns_at_handles_a_wrapped_tsc() {
        let anchor = Anchor::new(10, 1_000, 1_000_000);
        assert_eq!(anchor.ns_at(0_u64.wrapping_sub(90)), 900);
    }

    #[test]
    fn ns_at_is_constant_without_a_frequency() {
        assert_eq!(Anchor::new(10, 1_000, 0).ns_at(3), 1_000);
    }
}
