// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The arithmetic that extends a counter of w bits to 64.
//!
//! For each hardware counter, memory holds a `total` and an `offset` with
//!
//! > raw = (total + offset) mod 2^w
//!
//! at the moment of the last update of `total`. The number of events counted since that update is
//! (raw - offset - total) mod 2^w, which is exact as long as it is less than 2^w. The counter is loaded so that it
//! overflows, and raises an interrupt, after half of its range at the latest. So the counts stay exact if the
//! interrupt is late by less than half of the range. A reload changes `offset` and never `total`.

/// The bits of a counter, and the number of events from its load to its overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width {
    /// A mask of all bits that the counter has.
    pub mask: u64,
    /// The number of events from the counter's load to its overflow: half of its range, or 2^31 if writes can't set
    /// bits above 31, unless [`Self::with_load_distance`] shortens it.
    pub load_distance: u64,
}

impl Width {
    /// Returns the width of a counter of `bits` bits, 1 to 64.
    ///
    /// Without `full_writes`, writing the counter sign-extends bit 31 (Intel SDM, volume 3B, section 21.2.8).
    #[must_use]
    pub const fn new(bits: u8, full_writes: bool) -> Self {
        let high_bit = bits.saturating_sub(1);
        let high_bit = if high_bit >= 64 { 63 } else { high_bit };
        Self {
            mask: ((1 << high_bit) - 1) << 1 | 1,
            load_distance: if full_writes || high_bit < 31 {
                1 << high_bit
            } else {
                1 << 31
            },
        }
    }

    /// Shortens the load distance to 2^`bits` events, unless it is shorter already.
    #[must_use]
    pub const fn with_load_distance(self, bits: u32) -> Self {
        if bits < self.load_distance.trailing_zeros() {
            Self {
                load_distance: 1 << bits,
                ..self
            }
        } else {
            self
        }
    }

    /// Returns the largest number of events that can be counted between two updates. A larger step means that another
    /// driver or a hypervisor has written the counter.
    ///
    /// The counter is updated at each tick of the kernel's timer and at each overflow. If another driver sets it to 0,
    /// the step seems to be half of its range, minus the events that it had counted since its load. A counter of 40
    /// bits or more can't count a quarter of its range between two ticks, so a larger step is an error.
    #[inline]
    #[must_use]
    pub const fn max_step(self) -> u64 {
        /// The mask of a counter of 40 bits, the narrowest counter whose steps can't reach a quarter of its range.
        const WIDE_MASK: u64 = (1 << 40) - 1;

        if self.mask >= WIDE_MASK {
            self.mask >> 2
        } else {
            self.mask >> 1
        }
    }

    /// Returns the value to load for an overflow after [`Self::load_distance`] events.
    #[inline]
    #[must_use]
    pub const fn load_value(self) -> u64 {
        self.load_distance.wrapping_neg() & self.mask
    }

    /// Returns whether a counter that holds `raw` has overflowed since it was loaded.
    #[inline]
    #[must_use]
    pub const fn has_overflowed(self, raw: u64) -> bool {
        raw < self.load_value()
    }

    /// Returns the value to load into a counter that has overflowed and holds `raw`. The next overflow comes
    /// [`Self::load_distance`] events after the last one.
    #[inline]
    #[must_use]
    pub const fn reload_value(self, raw: u64) -> u64 {
        if raw < self.load_distance {
            raw.wrapping_sub(self.load_distance) & self.mask
        } else {
            // The overflow is so late that the next overflow is due as well: the counter is loaded anew.
            self.load_value()
        }
    }
}

/// Returns the `offset` of a counter that holds `raw` when its total is `total`.
#[inline]
#[must_use]
pub const fn offset(raw: u64, total: u64) -> u64 {
    raw.wrapping_sub(total)
}

/// Returns the total of a counter that now holds `raw`. `total` and `offset` are the values of the
/// last update, `mask` is the mask of the counter's [`Width`].
#[inline]
#[must_use]
pub const fn advance(total: u64, offset: u64, raw: u64, mask: u64) -> u64 {
    let counted = raw.wrapping_sub(offset).wrapping_sub(total) & mask;
    total.wrapping_add(counted)
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_extend64))]
mod tests {
    use super::*;

    const BITS_48: Width = Width::new(48, true);
    const SHORT_DISTANCE: Width = BITS_48.with_load_distance(8);

    #[test]
    fn load_value_is_half_of_the_range() {
        assert_eq!(BITS_48.mask, 0xffff_ffff_ffff);
        assert_eq!(BITS_48.load_distance, 1 << 47);
        assert_eq!(BITS_48.load_value(), 0x8000_0000_0000);
        assert_eq!(Width::new(24, true).load_value(), 0x80_0000);
        assert_eq!(Width::new(64, true).mask, u64::MAX);
        assert_eq!(Width::new(64, true).load_value(), 1 << 63);
    }

    #[test]
    fn with_load_distance_only_shortens() {
        assert_eq!(SHORT_DISTANCE.mask, BITS_48.mask);
        assert_eq!(SHORT_DISTANCE.load_value(), 0xffff_ffff_ff00);
        assert_eq!(BITS_48.with_load_distance(47), BITS_48);
        assert_eq!(BITS_48.with_load_distance(48), BITS_48);
    }

    #[test]
    fn load_distance_without_full_writes_is_2_to_31() {
        let width = Width::new(40, false);
        assert_eq!(width.load_distance, 1 << 31);
        assert_eq!(width.load_value(), 0xff_8000_0000);
        // Counters of 32 bits or fewer: a write sets all their bits.
        assert_eq!(Width::new(24, false).load_value(), 0x80_0000);
        assert_eq!(Width::new(32, false).load_value(), 0x8000_0000);
    }

    #[test]
    fn counter_set_to_0_exceeds_max_step() {
        for width in [BITS_48, Width::new(40, true)] {
            // The counter is set to 0 after 5 events, or after a tenth of its range.
            for counted in [5, width.mask / 10] {
                let raw = (width.load_value() + counted) & width.mask;
                let step = advance(counted, offset(raw, counted), 0, width.mask) - counted;
                assert!(step > width.max_step());
            }
        }
        // A narrow counter may count half of its range from one overflow to the next.
        let width = Width::new(24, true);
        assert!(width.load_distance - 1 <= width.max_step());
    }

    #[test]
    fn overflow_comes_after_the_load_distance() {
        for width in [
            BITS_48,
            Width::new(40, false),
            Width::new(24, true),
            SHORT_DISTANCE,
        ] {
            assert_eq!(
                width.load_value().wrapping_add(width.load_distance) & width.mask,
                0
            );
            assert!(!width.has_overflowed(width.load_value()));
            assert!(!width.has_overflowed(width.mask));
            assert!(width.has_overflowed(0));
            assert!(width.has_overflowed(width.load_value() - 1));
        }
    }

    #[test]
    fn reload_keeps_events_after_the_overflow() {
        assert_eq!(BITS_48.reload_value(0), BITS_48.load_value());
        assert_eq!(BITS_48.reload_value(5), BITS_48.load_value() + 5);
        assert_eq!(
            BITS_48.reload_value(BITS_48.load_distance - 1),
            BITS_48.mask
        );
        let width = Width::new(40, false);
        assert_eq!(width.reload_value(7), 0xff_8000_0007);
        // An overflow that is late by more than the load distance: a write could not set the bits.
        assert_eq!(width.reload_value(1 << 31), width.load_value());
        assert_eq!(width.reload_value(0x12_3456_789a), width.load_value());
    }

    #[test]
    fn totals_continue_through_wraps_and_reloads() {
        for width in [Width::new(24, true), Width::new(40, false), SHORT_DISTANCE] {
            let (mut raw, mut total) = (width.load_value(), 0);
            let mut raw_offset = offset(raw, total);
            let mut expected = 0;
            // The steps wrap the counter at different values; the largest is its whole range.
            for step in [
                1,
                0x7f_ffff,
                width.mask,
                0,
                width.mask - 1,
                width.load_distance,
                0x12_3456,
            ] {
                raw = (raw + step) & width.mask;
                expected += step;
                total = advance(total, raw_offset, raw, width.mask);
                assert_eq!(total, expected);
                if width.has_overflowed(raw) {
                    raw = width.reload_value(raw);
                    raw_offset = offset(raw, total);
                    assert!(!width.has_overflowed(raw));
                    assert_eq!(advance(total, raw_offset, raw, width.mask), expected);
                }
            }
        }
    }

    #[test]
    fn totals_continue_beyond_the_width_and_around_64_bits() {
        let total = u64::MAX - 1;
        let raw_offset = offset(BITS_48.load_value(), total);
        assert_eq!(
            advance(total, raw_offset, BITS_48.load_value() + 5, BITS_48.mask),
            3
        );
    }
}
