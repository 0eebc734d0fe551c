// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The data that read(2) of an event returns: `struct read_format` of perf_event_open(2).

use super::event_attr::{
    InvalidAttr, PERF_FORMAT_GROUP, PERF_FORMAT_ID, PERF_FORMAT_LOST, PERF_FORMAT_MAX,
    PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING,
};

/// The parts of the data that read(2) returns, as bits `PERF_FORMAT_*`.
///
/// # Invariants
///
/// Only bits below `PERF_FORMAT_MAX` are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadFormat(u8);

/// The words of one event in a read(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventValue {
    /// The count.
    pub value: u64,
    /// The id of the event.
    pub id: u64,
    /// The number of lost samples.
    pub lost: u64,
}

/// The times of an event or of a group, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventTimes {
    /// The time in which the event was enabled.
    pub enabled: u64,
    /// The time in which the event was counted.
    pub running: u64,
}

impl EventTimes {
    /// Returns the times of an event that has counted for `running` and waited for `waited`, in nanoseconds.
    ///
    /// Each is rounded by itself, so that the difference of the times is the same as long as the event counts. Programs
    /// compare it between two readings.
    #[inline(always)]
    #[must_use]
    pub const fn of_parts(running: u64, waited: u64) -> Self {
        Self {
            enabled: running.wrapping_add(waited),
            running,
        }
    }
}

/// The largest number of words for one event: value, two times, id, lost.
pub const MAX_WORDS_OF_ONE: usize = 5;

impl ReadFormat {
    /// The number of formats.
    pub const COUNT: usize = PERF_FORMAT_MAX as usize;

    /// Returns the number of the format, which is less than [`Self::COUNT`].
    #[must_use]
    pub const fn number(self) -> usize {
        self.0 as usize
    }

    /// Returns the format with these bits of `read_format`.
    ///
    /// # Errors
    ///
    /// [`InvalidAttr::Invalid`] if a bit is undefined.
    pub const fn new(bits: u64) -> Result<Self, InvalidAttr> {
        if bits < PERF_FORMAT_MAX {
            // INVARIANT: No higher bit is set.
            Ok(Self(bits as u8))
        } else {
            Err(InvalidAttr::Invalid)
        }
    }

    #[inline(always)]
    const fn has(self, bit: u64) -> bool {
        self.0 & bit as u8 != 0
    }

    /// Returns the number of words of one field: 1 if its `bit` is set, otherwise 0.
    #[inline(always)]
    const fn words_for(self, bit: u64) -> usize {
        self.has(bit) as usize
    }

    /// Returns whether read(2) returns the count alone.
    #[inline(always)]
    #[must_use]
    pub const fn is_count_only(self) -> bool {
        self.0 == 0
    }

    /// Returns whether read(2) returns all events of the group.
    #[inline(always)]
    #[must_use]
    pub const fn is_group(self) -> bool {
        self.has(PERF_FORMAT_GROUP)
    }

    /// Returns whether read(2) returns a time.
    #[inline(always)]
    #[must_use]
    pub const fn has_times(self) -> bool {
        self.has(PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING)
    }

    /// Returns whether read(2) returns both times, whose quotient is the part of the time in which the event was
    /// counted.
    #[must_use]
    pub const fn has_both_times(self) -> bool {
        self.has(PERF_FORMAT_TOTAL_TIME_ENABLED) && self.has(PERF_FORMAT_TOTAL_TIME_RUNNING)
    }

    /// Returns the number of 64-bit words for a group of `events`. Without `PERF_FORMAT_GROUP` read(2)
    /// returns one event, whatever the size of the group.
    #[inline]
    #[must_use]
    pub const fn word_count(self, events: usize) -> usize {
        let times = self.words_for(PERF_FORMAT_TOTAL_TIME_ENABLED)
            + self.words_for(PERF_FORMAT_TOTAL_TIME_RUNNING);
        let event = 1 + self.words_for(PERF_FORMAT_ID) + self.words_for(PERF_FORMAT_LOST);
        if self.is_group() {
            1 + times + events * event
        } else {
            times + event
        }
    }

    /// Returns the size in bytes for a group of `events`. read(2) fails with `ENOSPC` if its buffer is smaller.
    #[inline]
    #[must_use]
    pub const fn size(self, events: usize) -> usize {
        self.word_count(events) * size_of::<u64>()
    }

    /// Writes the words of one event, without `PERF_FORMAT_GROUP`, to the beginning of `buffer`, and returns these words.
    ///
    /// `times` is called only if the format has a time.
    #[inline]
    pub fn encode_one(
        self,
        buffer: &mut [u64; MAX_WORDS_OF_ONE],
        event: EventValue,
        times: impl FnOnce() -> EventTimes,
    ) -> &[u64] {
        buffer[0] = event.value;
        // Fast path of the common format, a count alone.
        if self.0 == 0 {
            return &buffer[..1];
        }
        let mut writer = Writer {
            buffer,
            position: 1,
        };
        if self.has_times() {
            writer.put_times(self, times());
        }
        writer.put_id_and_lost(self, event);
        let end = writer.position;
        &buffer[..end]
    }

    /// Writes the words of a group to the beginning of `buffer`, and returns these words; `None` if `buffer` is too
    /// small, or one of the events is `None`.
    ///
    /// The leader is the first of `events`. `times` is called only if the format has a time, after the last of `events`
    /// has been read.
    #[inline(always)]
    pub fn encode_group(
        self,
        buffer: &mut [u64],
        events: impl IntoIterator<Item = Option<EventValue>>,
        times: impl FnOnce() -> EventTimes,
    ) -> Option<&[u64]> {
        let header_words = self.word_count(0);
        let mut writer = Writer {
            buffer,
            position: header_words,
        };
        let mut count = 0;
        for event in events {
            let event = event?;
            writer.push(event.value);
            writer.put_id_and_lost(self, event);
            count = u64::wrapping_add(count, 1);
        }
        let end = writer.position;
        writer.position = 0;
        writer.push(count);
        if self.has_times() {
            writer.put_times(self, times());
        }
        writer.buffer.get(..end)
    }
}

/// Writes words in order. Words that don't fit are counted and dropped.
struct Writer<'a> {
    buffer: &'a mut [u64],
    /// The index of the next word.
    position: usize,
}

impl Writer<'_> {
    #[inline(always)]
    fn push(&mut self, word: u64) {
        if let Some(place) = self.buffer.get_mut(self.position) {
            *place = word;
        }
        // The position never wraps. `+=` would check this again.
        self.position = self.position.wrapping_add(1);
    }

    #[inline(always)]
    fn put_times(&mut self, format: ReadFormat, times: EventTimes) {
        if format.has(PERF_FORMAT_TOTAL_TIME_ENABLED) {
            self.push(times.enabled);
        }
        if format.has(PERF_FORMAT_TOTAL_TIME_RUNNING) {
            self.push(times.running);
        }
    }

    #[inline(always)]
    fn put_id_and_lost(&mut self, format: ReadFormat, event: EventValue) {
        if format.has(PERF_FORMAT_ID) {
            self.push(event.id);
        }
        if format.has(PERF_FORMAT_LOST) {
            self.push(event.lost);
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_read_format))]
mod tests {
    use super::*;

    const FORMAT_ENABLED: u64 = PERF_FORMAT_TOTAL_TIME_ENABLED;
    const FORMAT_RUNNING: u64 = PERF_FORMAT_TOTAL_TIME_RUNNING;
    const FORMAT_ID: u64 = PERF_FORMAT_ID;
    const FORMAT_GROUP: u64 = PERF_FORMAT_GROUP;
    const FORMAT_LOST: u64 = PERF_FORMAT_LOST;

    const TIMES: EventTimes = EventTimes {
        enabled: 100,
        running: 90,
    };

    fn event(n: u64) -> EventValue {
        EventValue {
            value: n,
            id: n + 10,
            lost: n + 20,
        }
    }

    fn encodes_one_as(bits: u64, expected: &[u64]) -> bool {
        let mut room = [!0; MAX_WORDS_OF_ONE];
        ReadFormat::new(bits).is_ok_and(|format| {
            format.encode_one(&mut room, event(1), || TIMES) == expected
                && format.size(1) == expected.len() * 8
                && format.size(4) == expected.len() * 8
        })
    }

    fn encodes_group_as(bits: u64, expected: &[u64]) -> bool {
        let mut room = [!0; 12];
        ReadFormat::new(bits | FORMAT_GROUP).is_ok_and(|format| {
            format.encode_group(&mut room, [event(1), event(2)].map(Some), || TIMES)
                == Some(expected)
                && format.size(2) == expected.len() * 8
                && room[expected.len()] == !0
        })
    }

    #[test]
    fn unknown_bits_are_refused() {
        assert!(ReadFormat::new(0x1f).is_ok());
        assert_eq!(ReadFormat::new(0x20), Err(InvalidAttr::Invalid));
        assert_eq!(ReadFormat::new(1 << 63), Err(InvalidAttr::Invalid));
        assert_eq!(ReadFormat::new(1 << 8), Err(InvalidAttr::Invalid));
    }

    #[test]
    fn one_event_is_encoded_in_the_order_of_linux() {
        assert!(encodes_one_as(0, &[1]));
        assert!(encodes_one_as(FORMAT_ENABLED, &[1, 100]));
        assert!(encodes_one_as(FORMAT_RUNNING, &[1, 90]));
        assert!(encodes_one_as(FORMAT_ID, &[1, 11]));
        assert!(encodes_one_as(FORMAT_LOST, &[1, 21]));
        assert!(encodes_one_as(
            FORMAT_ENABLED | FORMAT_RUNNING | FORMAT_ID | FORMAT_LOST,
            &[1, 100, 90, 11, 21]
        ));
    }

    #[test]
    fn group_is_encoded_in_the_order_of_linux() {
        assert!(encodes_group_as(0, &[2, 1, 2]));
        assert!(encodes_group_as(
            FORMAT_ENABLED | FORMAT_RUNNING,
            &[2, 100, 90, 1, 2]
        ));
        assert!(encodes_group_as(FORMAT_ID, &[2, 1, 11, 2, 12]));
        assert!(encodes_group_as(
            FORMAT_ENABLED | FORMAT_RUNNING | FORMAT_ID | FORMAT_LOST,
            &[2, 100, 90, 1, 11, 21, 2, 12, 22]
        ));
    }

    #[test]
    fn group_is_not_encoded_in_part() {
        let mut room = [0; 3];
        let is_encoded = |room: &mut [u64], events: [Option<EventValue>; 2]| {
            ReadFormat::new(FORMAT_GROUP)
                .is_ok_and(|format| format.encode_group(room, events, || TIMES).is_some())
        };
        let two_events = [Some(event(1)), Some(event(2))];
        assert!(is_encoded(&mut room, two_events));
        assert!(!is_encoded(&mut room, [Some(event(1)), None]));
        assert!(!is_encoded(&mut room[..2], two_events));
        assert!(!is_encoded(&mut [], two_events));
    }

    #[test]
    fn times_are_called_only_if_the_format_has_a_time() {
        let mut times_calls = 0;
        let mut room = [0; MAX_WORDS_OF_ONE];
        for bits in [
            0,
            FORMAT_ID,
            FORMAT_LOST,
            FORMAT_ID | FORMAT_LOST,
            FORMAT_ENABLED,
        ] {
            if let Ok(format) = ReadFormat::new(bits) {
                format.encode_one(&mut room, event(1), || {
                    times_calls += 1;
                    TIMES
                });
            }
        }
        assert_eq!(times_calls, 1);
    }
}
