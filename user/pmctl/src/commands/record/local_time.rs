// SPDX-License-Identifier: MIT OR Apache-2.0
//! The local time, for names of files.

use std::fmt;
use std::mem::MaybeUninit;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::libc;

/// A local time with a resolution of a hundredth of a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LocalTime {
    year: i32,
    month: i32,
    day: i32,
    hour: i32,
    minute: i32,
    second: i32,
    hundredths: u32,
}

impl LocalTime {
    /// Returns the current local time.
    pub(super) fn now() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default();
        let seconds = libc::time_t::try_from(now.as_secs()).unwrap_or(0);
        let mut parts = MaybeUninit::<libc::tm>::zeroed();
        // SAFETY: localtime_r needs a readable `time_t` and a writable `tm`: both point to local variables.
        unsafe { libc::localtime_r(&raw const seconds, parts.as_mut_ptr()) };
        // SAFETY: All bytes of `parts` are initialized, at least to 0, and 0 is valid for its integers and its raw pointer.
        let parts = unsafe { parts.assume_init() };
        Self {
            year: parts.tm_year + 1900,
            month: parts.tm_mon + 1,
            day: parts.tm_mday,
            hour: parts.tm_hour,
            minute: parts.tm_min,
            second: parts.tm_sec,
            hundredths: now.subsec_millis() / 10,
        }
    }
}

/// Writes the time in the form that perf uses in names of files: 2026112214301542.
impl fmt::Display for LocalTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            year,
            month,
            day,
            hour,
            minute,
            second,
            hundredths,
        } = self;
        write!(
            f,
            "{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}{hundredths:02}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_16_digits() {
        let time = LocalTime {
            year: 2026,
            month: 1,
            day: 2,
            hour: 3,
            minute: 4,
            second: 5,
            hundredths: 6,
        };
        assert_eq!(time.to_string(), "2026010203040506");
        let now = LocalTime::now();
        assert_eq!(now.to_string().len(), 16, "{now}");
        assert!(now.year >= 2026 && (1..=12).contains(&now.month));
    }
}
