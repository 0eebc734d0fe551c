// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts the time-stamp counter of the driver's records to the clock of perf's records.
//!
//! perf's own clock is best, and the default: it is the time-stamp counter times a factor that the
//! control page of an event has (`perf_event_open(2)`, `cap_user_time_zero`). The driver's and
//! perf's records are then in their true order to the nanosecond. Where perf's own clock is
//! something else, as in guests of KVM, perf is asked for times of `CLOCK_MONOTONIC_RAW`. The
//! time-stamp counter and this clock are read together at intervals, and times in between are
//! interpolated.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use perfmon::Device;

/// `CLOCK_MONOTONIC_RAW`, which programs can read, unlike perf's own clock.
pub(super) const FALLBACK_CLOCK: ClockId = ClockId::CLOCK_MONOTONIC_RAW;

/// The conversion from the time-stamp counter to perf's own clock, as `struct perf_event_mmap_page` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    pub(super) shift: u16,
    pub(super) mult: u32,
    pub(super) zero: u64,
}

impl Scale {
    /// Returns the time in nanoseconds when the counter was at `ticks`.
    fn nanoseconds(self, ticks: u64) -> u64 {
        let scaled = u128::from(ticks) * u128::from(self.mult) >> self.shift.min(127);
        // `zero` is negative if the counter began before the clock.
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the clock counts modulo 2^64"
        )]
        self.zero.wrapping_add(scaled as u64)
    }
}

/// The clock of a recording.
#[derive(Clone, Debug)]
pub(super) enum Clock {
    /// perf's own clock.
    Perf(Scale),
    /// Pairs of the time-stamp counter and [`FALLBACK_CLOCK`] in nanoseconds, read together, in the order of time.
    Pairs(Vec<(u64, u64)>),
}

impl Clock {
    /// Reads the clock, unless it is perf's own. Must be called at the beginning, at the end, and in between.
    pub(super) fn read(&mut self, device: &Device) {
        if let Self::Pairs(pairs) = self {
            // If the counter can't be read, the records have no times either.
            pairs.extend(read_pair(device));
        }
    }

    /// Returns the time in nanoseconds when the counter was at `ticks`.
    pub(super) fn nanoseconds(&self, ticks: u64) -> u64 {
        match self {
            Self::Perf(scale) => scale.nanoseconds(ticks),
            Self::Pairs(pairs) => interpolate(pairs, ticks),
        }
    }
}

/// Reads the counter and the clock at nearly the same time.
fn read_pair(device: &Device) -> Option<(u64, u64)> {
    const READ_TRIES: u32 = 5;
    let read_once = || {
        let before = now_ns()?;
        let ticks = device.timestamp().ok()?.ticks;
        let after = now_ns()?;
        Some((after - before, (ticks, before + (after - before) / 2)))
    };
    // The shortest try was disturbed least.
    let tries = (0..READ_TRIES).filter_map(|_| read_once());
    tries
        .min_by_key(|(length, _)| *length)
        .map(|(_, pair)| pair)
}

fn now_ns() -> Option<u64> {
    let time = Duration::from(clock_gettime(FALLBACK_CLOCK).ok()?);
    u64::try_from(time.as_nanos()).ok()
}

/// Returns the time at `ticks`, on the line through the nearest two pairs.
fn interpolate(pairs: &[(u64, u64)], ticks: u64) -> u64 {
    let [(first, begin), .., (last, end)] = *pairs else {
        return pairs.first().map_or(ticks, |pair| pair.1);
    };
    let next_index = pairs.partition_point(|pair| pair.0 <= ticks);
    let ((t0, ns0), (t1, ns1)) = match pairs.get(next_index.wrapping_sub(1)..=next_index) {
        Some(&[before, after]) => (before, after),
        // Before the first or after the last pair, the line through the first and the last pair is the most exact one.
        _ => ((first, begin), (last, end)),
    };
    let slope = |number: i128| {
        number * (i128::from(ns1) - i128::from(ns0)) / (i128::from(t1) - i128::from(t0)).max(1)
    };
    let time = i128::from(ns0) + slope(i128::from(ticks) - i128::from(t0));
    u64::try_from(time).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perfs_clock_is_the_counter_by_a_factor() {
        let scale = Scale {
            shift: 10,
            mult: 512,
            zero: 5,
        };
        assert_eq!(scale.nanoseconds(1001), 505);
        let early = Scale {
            zero: 0u64.wrapping_sub(500),
            ..scale
        };
        assert_eq!(early.nanoseconds(1002), 1);
        // The product needs more than 64 bits. The counter has this value after 36 years at 4 GHz.
        assert_eq!(scale.nanoseconds(4 << 60), (2 << 60) + 5);
    }

    #[test]
    fn times_between_two_readings_are_interpolated() {
        let pairs = [(1000, 10), (2000, 20), (3000, 40)];
        for (ticks, time) in [
            (1000, 10),
            (1500, 15),
            (2500, 30),
            (3000, 40),
            (4000, 55),
            (0, 0),
        ] {
            assert_eq!(interpolate(&pairs, ticks), time, "{ticks}");
        }
        assert_eq!(interpolate(&pairs[..1], 7), 10);
        assert_eq!(interpolate(&[], 7), 7);
    }
}
