// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! `struct perf_event_mmap_page` of `<linux/perf_event.h>`: the page of an event that programs map.
//!
//! A program reads the page again if `lock` has changed during the read. If `index` is not 0, the count is `offset`
//! plus the result of RDPMC for `index - 1`, as a signed number of `pmc_width` bits; otherwise the count is `offset`.

use super::counter::{CounterId, CounterKind};

/// The beginning of the page, up to the members for rings.
#[repr(C)]
#[derive(
    Clone,
    Copy,
    zerocopy_derive::FromBytes,
    zerocopy_derive::IntoBytes,
    zerocopy_derive::Immutable,
    zerocopy_derive::KnownLayout,
)]
pub struct UserPage {
    /// Always 0.
    pub version: u32,
    /// Always 0.
    pub compat_version: u32,
    /// The number of updates of the page. It tells a reader that the page has changed.
    pub lock: u32,
    /// The number of the counter for RDPMC, plus 1; 0 if RDPMC can't be used.
    pub index: u32,
    /// The number to add to the result of RDPMC.
    pub offset: i64,
    /// The time in nanoseconds in which the event was enabled, at the last change.
    pub time_enabled: u64,
    /// The time in nanoseconds in which the event was counted, at the last change.
    pub time_running: u64,
    /// The bits [`Self::CAP_BIT0_IS_DEPRECATED`] and [`Self::CAP_USER_RDPMC`].
    pub capabilities: u64,
    /// The width of the counter in bits.
    pub pmc_width: u16,
    /// Always 0, as all members for the time of programs: the module does not offer `cap_user_time`.
    pub time_shift: u16,
    /// Always 0, as `time_shift`.
    pub time_mult: u32,
    /// Always 0, as `time_shift`.
    pub time_offset: u64,
    /// Always 0, as `time_shift`.
    pub time_zero: u64,
    /// The number of bytes of this structure that have a meaning.
    pub size: u32,
    /// Always 0.
    pub reserved: u32,
    /// Always 0, as `time_shift`.
    pub time_cycles: u64,
    /// Always 0, as `time_shift`.
    pub time_mask: u64,
}

impl UserPage {
    /// Bit `cap_bit0_is_deprecated`: `capabilities` has the bits that are defined here.
    pub const CAP_BIT0_IS_DEPRECATED: u64 = 1 << 1;
    /// Bit `cap_user_rdpmc`: RDPMC may be used.
    pub const CAP_USER_RDPMC: u64 = 1 << 2;
    /// The value of `size`: the size of the C structure up to `__reserved`.
    pub const SIZE: u32 = size_of::<Self>() as u32;
}

/// The members of the page for the ring.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RingControl {
    /// The position after the last record.
    pub data_head: u64,
    /// The position up to which the program has read. The program writes it.
    pub data_tail: u64,
    /// The offset of the data in the mapping.
    pub data_offset: u64,
    /// The number of bytes of the data.
    pub data_size: u64,
}

impl RingControl {
    /// The offset of this structure in the page, in bytes.
    pub const OFFSET: usize = 1024;
}

/// Returns [`UserPage::index`] for a counter (Intel SDM, volume 2B, "RDPMC"; AMD APM, volume 3, "RDPMC").
#[must_use]
pub const fn page_index(counter: CounterId) -> u32 {
    /// The bit that is set in RDPMC's numbers of fixed-function counters.
    const FIXED: u32 = 1 << 30;

    match counter.kind() {
        CounterKind::General(n) => n as u32 + 1,
        CounterKind::Fixed(n) => (FIXED | n as u32) + 1,
    }
}

/// Returns [`UserPage::offset`] for a counter whose [`offset`](super::extend64::offset) is `offset` and whose bits are
/// `mask`, if the event's count is `base` plus the counter's total.
///
/// The counter was loaded with its top bit set. So the value of a counter of w bits is 2^w less as a signed number than as
/// an unsigned number.
#[inline]
#[must_use]
#[allow(clippy::cast_possible_wrap, reason = "the two's complement is meant")]
pub const fn page_offset(base: u64, offset: u64, mask: u64) -> i64 {
    base.wrapping_sub(offset).wrapping_add(mask).wrapping_add(1) as i64
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_user_page))]
mod tests {
    use super::super::extend64::{advance, offset, Width};
    use super::*;

    #[test]
    fn layout_matches_linux() {
        use core::mem::offset_of;
        assert_eq!(offset_of!(UserPage, lock), 8);
        assert_eq!(offset_of!(UserPage, offset), 16);
        assert_eq!(offset_of!(UserPage, capabilities), 40);
        assert_eq!(offset_of!(UserPage, pmc_width), 48);
        assert_eq!(offset_of!(UserPage, size), 72);
        assert_eq!(UserPage::SIZE, 96);
    }

    #[test]
    fn index_is_the_number_of_rdpmc_plus_1() {
        assert_eq!(CounterId::general(3).map(page_index), Some(4));
        assert_eq!(CounterId::fixed(1).map(page_index), Some(0x4000_0002));
    }

    /// Returns the count as a program computes it from the page.
    #[allow(clippy::cast_possible_wrap, clippy::cast_sign_loss, reason = "as in C")]
    fn count_by_program(page: i64, raw: u64, bits: u32) -> u64 {
        let unused = u64::BITS - bits;
        let signed = (raw << unused) as i64 >> unused;
        page.wrapping_add(signed) as u64
    }

    #[test]
    fn page_offset_lets_programs_compute_the_count() {
        for bits in [24, 40, 48] {
            let width = Width::new(bits as u8, true);
            let total = 1_000_003;
            let loaded = width.load_value();
            let offset = offset(loaded, total);
            let offset_in_page = page_offset(7, offset, width.mask);
            // The sum is also right after the overflow, until the counter is loaded again.
            for further_events in [
                0,
                1,
                width.load_distance - 1,
                width.load_distance,
                width.load_distance + 5,
            ] {
                let raw = loaded.wrapping_add(further_events) & width.mask;
                assert_eq!(
                    advance(total, offset, raw, width.mask),
                    total + further_events
                );
                assert_eq!(
                    count_by_program(offset_in_page, raw, bits),
                    7 + total + further_events
                );
            }
        }
    }
}
