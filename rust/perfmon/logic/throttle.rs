// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! How much of a CPU's time overflow interrupts may take from one timer tick to the next.
//!
//! The two limits have the meaning of Linux's sysctls: `kernel.perf_event_max_sample_rate` is how many
//! samples a CPU takes in a second at most, `kernel.perf_cpu_time_max_percent` how much of its time they
//! take. Both become one budget of cycles of the time-stamp counter: each interrupt is charged its time, and
//! at least the share that one sample has of the most samples.

/// What the administrator has set, and what the machine is like.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Samples per second, on each CPU; 0: no limit.
    pub max_sample_rate: u32,
    /// The share of a CPU's time, in percent; 0, and 100 or more: no limit.
    pub max_percent: u32,
    /// Frequency of the time-stamp counter; 0 if it is not known.
    pub tsc_khz: u32,
    /// The time between two ticks, in nanoseconds.
    pub tick_ns: u64,
}

/// The budget, in cycles of the time-stamp counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For all interrupts between two ticks.
    pub per_tick: u64,
    /// What one interrupt is charged at least.
    pub least: u64,
    /// What an interrupt takes besides the handler: the way into it and out of it.
    pub entry: u64,
}

/// More than can be used between two ticks.
const UNLIMITED: u64 = 1 << 62;

/// A second in nanoseconds.
const SECOND: u64 = 1_000_000_000;

impl Limits {
    /// No limits.
    pub const NONE: Self = Self {
        per_tick: UNLIMITED,
        least: 0,
        entry: 0,
    };

    /// The limits that follow from the settings.
    #[must_use]
    pub const fn new(settings: &Settings) -> Self {
        let Settings {
            max_sample_rate,
            max_percent,
            tsc_khz,
            tick_ns,
        } = *settings;
        // Any will do where the frequency is not known; this one is of the slowest.
        let khz = if tsc_khz == 0 {
            1_000_000
        } else {
            tsc_khz as u64
        };
        let per_tick = if max_percent == 0 || max_percent >= 100 {
            UNLIMITED
        } else {
            cycles(khz, tick_ns) / 100 * max_percent as u64
        };
        let least = if max_sample_rate == 0 {
            0
        } else {
            per_tick / samples_per_tick(max_sample_rate, tick_ns)
        };
        Self {
            per_tick,
            least,
            // An interrupt and its return take 1 us or less on the processors of the last ten years.
            entry: cycles(khz, 1000),
        }
    }
}

/// Cycles in so many nanoseconds.
const fn cycles(khz: u64, ns: u64) -> u64 {
    khz.saturating_mul(ns) / 1_000_000
}

/// The most samples between two ticks, as Linux perf has it: at least one.
const fn samples_per_tick(rate: u32, tick_ns: u64) -> u64 {
    match (rate as u64).saturating_mul(tick_ns).div_ceil(SECOND) {
        0 => 1,
        samples => samples,
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_throttle))]
mod tests {
    use super::*;

    /// Linux's defaults, on a CPU of 2 GHz with CONFIG_HZ=250.
    const DEFAULTS: Settings = Settings {
        max_sample_rate: 100_000,
        max_percent: 25,
        tsc_khz: 2_000_000,
        tick_ns: 4_000_000,
    };

    #[test]
    fn defaults_are_a_quarter_of_the_time_for_400_samples() {
        let limits = Limits::new(&DEFAULTS);
        assert_eq!(limits.per_tick, 2_000_000);
        assert_eq!(limits.least, 5_000);
        assert_eq!(limits.entry, 2_000);
    }

    #[test]
    fn each_limit_can_be_lifted() {
        let rate_only = Limits::new(&Settings {
            max_percent: 100,
            ..DEFAULTS
        });
        assert_eq!(rate_only.per_tick, UNLIMITED);
        assert_eq!(rate_only.least, UNLIMITED / 400);
        let time_only = Limits::new(&Settings {
            max_sample_rate: 0,
            ..DEFAULTS
        });
        assert_eq!((time_only.per_tick, time_only.least), (2_000_000, 0));
        let none = Limits::new(&Settings {
            max_sample_rate: 0,
            max_percent: 0,
            ..DEFAULTS
        });
        assert_eq!((none.per_tick, none.least), (UNLIMITED, 0));
    }

    #[test]
    fn a_low_rate_is_one_sample_a_tick() {
        let limits = Limits::new(&Settings {
            max_sample_rate: 1,
            ..DEFAULTS
        });
        assert_eq!(limits.least, limits.per_tick);
    }

    #[test]
    fn an_unknown_frequency_and_absurd_numbers_do_no_harm() {
        let limits = Limits::new(&Settings {
            max_sample_rate: u32::MAX,
            max_percent: 99,
            tsc_khz: 0,
            tick_ns: 4_000_000,
        });
        assert_eq!(limits.per_tick, 3_960_000);
        assert_eq!(limits.least, 0);
        let limits = Limits::new(&Settings {
            tick_ns: u64::MAX,
            tsc_khz: u32::MAX,
            ..DEFAULTS
        });
        assert!(limits.least <= limits.per_tick);
    }
}
