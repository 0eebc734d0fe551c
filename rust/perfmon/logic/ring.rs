// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Positions in a ring: numbers whose lower bits are the offset in the ring's data. The positions of later records are
//! higher; in a ring that is written backward, they are lower.

/// The place of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The position of the record's first byte.
    pub start: u64,
    /// The head of the ring after the record was written.
    pub head: u64,
}

/// The shape of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingShape {
    /// The size of the ring's data in bytes, a power of 2.
    pub size: u64,
    /// New records overwrite the oldest records.
    pub overwrite: bool,
    /// Records are written from high addresses to low addresses, so that the newest record is at the head.
    pub backward: bool,
}

impl RingShape {
    /// Returns the place for a record of `bytes` bytes; `None` if there is no room before `tail`.
    /// The reader writes `tail`, so it may have any value. A ring that overwrites its oldest
    /// records ignores `tail`.
    #[inline]
    #[must_use]
    pub const fn place(self, head: u64, tail: u64, bytes: u64) -> Option<Place> {
        if !self.overwrite {
            // One byte stays free, as in Linux perf, so that a full ring differs from an empty one. If the tail is
            // invalid, `used` is a large number.
            let used = self.bytes_between(tail, head);
            if used >= self.size || bytes >= self.size - used {
                return None;
            }
        } else if bytes > self.size {
            return None;
        }
        Some(if self.backward {
            let start = head.wrapping_sub(bytes);
            Place { start, head: start }
        } else {
            Place {
                start: head,
                head: head.wrapping_add(bytes),
            }
        })
    }

    /// Returns the number of records of `bytes` bytes that fit before `tail`. `bytes` is not 0.
    #[inline]
    #[must_use]
    pub const fn fitting_records(self, head: u64, tail: u64, bytes: u64) -> u64 {
        let room = if self.overwrite {
            self.size
        } else {
            // One byte stays free, as in `place`.
            let used = self.bytes_between(tail, head);
            self.size.saturating_sub(used).saturating_sub(1)
        };
        match room.checked_div(bytes) {
            Some(records) => records,
            None => 0,
        }
    }

    /// Returns the number of bytes between two heads, of which `from` is the earlier one.
    #[inline]
    #[must_use]
    pub const fn bytes_between(self, from: u64, to: u64) -> u64 {
        if self.backward {
            from.wrapping_sub(to)
        } else {
            to.wrapping_sub(from)
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_ring))]
mod tests {
    use super::*;

    const RING: RingShape = RingShape {
        size: 4096,
        overwrite: false,
        backward: false,
    };

    #[test]
    fn record_without_room_has_no_place() {
        let place_at = |start, head| Some(Place { start, head });
        assert_eq!(RING.place(0, 0, 24), place_at(0, 24));
        assert_eq!(RING.place(4072, 0, 16), place_at(4072, 4088));
        assert_eq!(RING.place(4072, 0, 24), None);
        assert_eq!(RING.place(4072, 8, 24), place_at(4072, 4096));
        assert_eq!(
            RING.place(u64::MAX - 7, u64::MAX - 7, 16),
            place_at(u64::MAX - 7, 8)
        );
    }

    #[test]
    fn fitting_records_agrees_with_place() {
        for (head, tail) in [
            (0, 0),
            (4000, 0),
            (4072, 0),
            (4095, 0),
            (4096, 0),
            (5000, 4990),
            (0, 1),
        ] {
            let fitting_count = RING.fitting_records(head, tail, 24);
            assert!(fitting_count == 0 || RING.place(head, tail, 24 * fitting_count).is_some());
            assert_eq!(RING.place(head, tail, 24 * (fitting_count + 1)), None);
        }
        let overwrite = RingShape {
            overwrite: true,
            ..RING
        };
        assert_eq!(overwrite.fitting_records(4000, 0, 24), 170);
    }

    #[test]
    fn invalid_tail_leaves_no_place() {
        for tail in [1, 4096, 1 << 63] {
            assert_eq!(RING.place(0, tail, 8), None);
        }
        assert_eq!(RING.place(10_000, 0, 8), None);
    }

    #[test]
    fn backward_ring_respects_the_tail() {
        let ring = RingShape {
            backward: true,
            ..RING
        };
        let place_at = |start| Some(Place { start, head: start });
        let full_head = 4080_u64.wrapping_neg();
        assert_eq!(ring.place(0, 0, 24), place_at(24_u64.wrapping_neg()));
        assert_eq!(
            ring.place(full_head, 0, 8),
            place_at(4088_u64.wrapping_neg())
        );
        assert_eq!(ring.place(full_head, 0, 16), None);
        assert_eq!(
            ring.place(full_head, 8_u64.wrapping_neg(), 16),
            place_at(4096_u64.wrapping_neg())
        );
        assert_eq!(ring.place(0, 8, 8), place_at(8_u64.wrapping_neg()));
        assert_eq!(ring.place(8, 0, 8), None);
    }

    #[test]
    fn overwriting_ring_always_has_a_place() {
        let ring = RingShape {
            overwrite: true,
            ..RING
        };
        let backward = RingShape {
            backward: true,
            ..ring
        };
        assert_eq!(
            ring.place(8000, 0, 24),
            Some(Place {
                start: 8000,
                head: 8024
            })
        );
        assert_eq!(ring.place(0, 0, 4104), None);
        let start = 24_u64.wrapping_neg();
        assert_eq!(backward.place(0, 0, 24), Some(Place { start, head: start }));
        assert_eq!(backward.bytes_between(0, start), 24);
        assert_eq!(ring.bytes_between(0, 24), 24);
    }
}
