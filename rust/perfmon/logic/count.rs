// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! How a counter of w bits becomes one of 64.
//!
//! Beside each hardware counter, memory holds a `total` and an `offset` with
//!
//! > raw = (total + offset) mod 2^w
//!
//! at the moment when `total` was last brought up to date. What the counter has counted since is
//! (raw - offset - total) mod 2^w, right as long as it is less than 2^w. A counter is loaded so that
//! it overflows, and interrupts, after half of its range: so that interrupt may come late by as much
//! again. Reloading changes `offset` and never `total`.

/// How many bits a counter has, and how many of them a write can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width {
    /// All bits that the counter has.
    pub mask: u64,
    /// Events from loading the counter to its overflow, a power of 2: half of its range, or of 2^32 if
    /// no more can be written, unless it is made shorter.
    pub period: u64,
}

impl Width {
    /// A counter of `bits` bits, 1 to 64.
    ///
    /// Without `full_writes`, writing it sign-extends bit 31 (Intel SDM, volume 3B, section 21.2.8).
    #[must_use]
    pub const fn new(bits: u8, full_writes: bool) -> Self {
        let half = bits.saturating_sub(1);
        let half = if half >= 64 { 63 } else { half };
        Self {
            mask: ((1 << half) - 1) << 1 | 1,
            period: if full_writes || half < 31 {
                1 << half
            } else {
                1 << 31
            },
        }
    }

    /// The same counter with a period of 2^`bits` events, if that is shorter.
    #[must_use]
    pub const fn with_period(self, bits: u32) -> Self {
        if bits < self.period.trailing_zeros() {
            Self {
                period: 1 << bits,
                ..self
            }
        } else {
            self
        }
    }

    /// The most events that can be counted between two looks, of which there is one in each tick of the
    /// kernel's timer and one at each overflow. A larger step is a sign that somebody else has written the
    /// counter.
    ///
    /// A counter that is set to 0 seems to have counted what was left to its overflow: half of its range, less
    /// what it had counted. A wide one can't count a quarter of its range in so short a time.
    #[inline]
    #[must_use]
    pub const fn most(self) -> u64 {
        /// Counters of at least so many bits are wide.
        const WIDE: u64 = (1 << 40) - 1;

        if self.mask >= WIDE {
            self.mask >> 2
        } else {
            self.mask >> 1
        }
    }

    /// What to load for an overflow after [`Self::period`] events.
    #[inline]
    #[must_use]
    pub const fn start(self) -> u64 {
        self.period.wrapping_neg() & self.mask
    }

    /// Whether a counter that holds `raw` has overflowed since it was loaded.
    #[inline]
    #[must_use]
    pub const fn has_overflowed(self, raw: u64) -> bool {
        raw < self.start()
    }

    /// What to load into a counter that has overflowed and holds `raw`, for its next overflow to come
    /// [`Self::period`] events after the last one.
    #[inline]
    #[must_use]
    pub const fn reload(self, raw: u64) -> u64 {
        if raw < self.period {
            raw.wrapping_sub(self.period) & self.mask
        } else {
            // So late that the next overflow is due as well: a new period.
            self.start()
        }
    }
}

/// The `offset` of a counter that holds `raw` when its total is `total`.
#[inline]
#[must_use]
pub const fn offset(raw: u64, total: u64) -> u64 {
    raw.wrapping_sub(total)
}

/// The total of a counter that now holds `raw`; `mask` is that of its [`Width`].
#[inline]
#[must_use]
pub const fn advance(total: u64, offset: u64, raw: u64, mask: u64) -> u64 {
    let counted = raw.wrapping_sub(offset).wrapping_sub(total) & mask;
    total.wrapping_add(counted)
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_count))]
mod tests {
    use super::*;

    const FULL: Width = Width::new(48, true);
    const SHORT: Width = FULL.with_period(8);

    #[test]
    fn half_of_the_range_is_loaded() {
        assert_eq!(FULL.mask, 0xffff_ffff_ffff);
        assert_eq!(FULL.period, 1 << 47);
        assert_eq!(FULL.start(), 0x8000_0000_0000);
        assert_eq!(Width::new(24, true).start(), 0x80_0000);
        assert_eq!(Width::new(64, true).mask, u64::MAX);
        assert_eq!(Width::new(64, true).start(), 1 << 63);
    }

    #[test]
    fn periods_can_be_made_shorter_only() {
        assert_eq!(SHORT.mask, FULL.mask);
        assert_eq!(SHORT.start(), 0xffff_ffff_ff00);
        assert_eq!(FULL.with_period(47), FULL);
        assert_eq!(FULL.with_period(48), FULL);
    }

    #[test]
    fn without_full_writes_what_a_sign_extension_gives() {
        let w = Width::new(40, false);
        assert_eq!(w.period, 1 << 31);
        assert_eq!(w.start(), 0xff_8000_0000);
        // A counter that is narrower than a write.
        assert_eq!(Width::new(24, false).start(), 0x80_0000);
        assert_eq!(Width::new(32, false).start(), 0x8000_0000);
    }

    #[test]
    fn a_counter_that_is_set_to_0_is_found() {
        for w in [FULL, Width::new(40, true)] {
            // What it seems to have counted after 5 events, and after a tenth of its range.
            for counted in [5, w.mask / 10] {
                let raw = (w.start() + counted) & w.mask;
                let step = advance(counted, offset(raw, counted), 0, w.mask) - counted;
                assert!(step > w.most());
            }
        }
        // Half of a narrow one's range passes until its next overflow.
        let w = Width::new(24, true);
        assert!(w.period - 1 <= w.most());
    }

    #[test]
    fn overflow_comes_after_one_period() {
        for w in [FULL, Width::new(40, false), Width::new(24, true), SHORT] {
            assert_eq!(w.start().wrapping_add(w.period) & w.mask, 0);
            assert!(!w.has_overflowed(w.start()));
            assert!(!w.has_overflowed(w.mask));
            assert!(w.has_overflowed(0));
            assert!(w.has_overflowed(w.start() - 1));
        }
    }

    #[test]
    fn a_reload_keeps_what_came_after_the_overflow() {
        assert_eq!(FULL.reload(0), FULL.start());
        assert_eq!(FULL.reload(5), FULL.start() + 5);
        assert_eq!(FULL.reload(FULL.period - 1), FULL.mask);
        let w = Width::new(40, false);
        assert_eq!(w.reload(7), 0xff_8000_0007);
        // Later than by a period: a write could not express it.
        assert_eq!(w.reload(1 << 31), w.start());
        assert_eq!(w.reload(0x12_3456_789a), w.start());
    }

    #[test]
    fn totals_go_on_through_wraps_and_reloads() {
        for w in [Width::new(24, true), Width::new(40, false), SHORT] {
            let (mut raw, mut total) = (w.start(), 0);
            let mut off = offset(raw, total);
            let mut expected = 0;
            // Steps of up to the whole range, which wrap the counter at different places.
            for step in [1, 0x7f_ffff, w.mask, 0, w.mask - 1, w.period, 0x12_3456] {
                raw = (raw + step) & w.mask;
                expected += step;
                total = advance(total, off, raw, w.mask);
                assert_eq!(total, expected);
                if w.has_overflowed(raw) {
                    raw = w.reload(raw);
                    off = offset(raw, total);
                    assert!(!w.has_overflowed(raw));
                    assert_eq!(advance(total, off, raw, w.mask), expected);
                }
            }
        }
    }

    #[test]
    fn totals_go_on_beyond_the_width_and_around_64_bits() {
        let total = u64::MAX - 1;
        let off = offset(FULL.start(), total);
        assert_eq!(advance(total, off, FULL.start() + 5, FULL.mask), 3);
    }
}
