// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Throttling: the part of a CPU's time that overflow interrupts may take between two timer ticks.
//!
//! The two settings have the meaning of Linux's sysctls: `kernel.perf_event_max_sample_rate` limits the samples of a
//! CPU per second, `kernel.perf_cpu_time_max_percent` the share of the CPU's time that samples take. Both become one
//! budget in cycles of the time-stamp counter. Each interrupt spends the time that it took, but no less than the
//! budget divided by the largest allowed number of samples.

use super::{
    counter::{CounterId, CounterKind},
    evtsel::EventSelect,
};

/// The administrator's settings, and the machine's clocks.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The limit of samples per second on each CPU; 0: no limit.
    pub max_sample_rate: u32,
    /// The limit of the samples' share of a CPU's time, in percent; 0, and 100 or more: no limit.
    pub max_percent: u32,
    /// The frequency of the time-stamp counter in kHz; 0 if it is unknown.
    pub tsc_khz: u32,
    /// The time between two ticks, in nanoseconds.
    pub tick_ns: u64,
}

/// The limits, in cycles of the time-stamp counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The time between two ticks.
    pub tick: u64,
    /// The budget of all interrupts between two ticks.
    pub per_tick: u64,
    /// The smallest number of cycles that an interrupt spends.
    pub min_cost: u64,
    /// The lower and the upper bound of the cycles that entering and leaving an interrupt take, which the handler can't
    /// measure.
    pub entry_bounds: (u64, u64),
}

/// A time that never passes.
const UNLIMITED: u64 = 1 << 62;

/// Without a limit, the budget is this many times the time between two ticks. Interrupts can use it up only if they keep
/// the tick off: an event of kernel mode may sample nothing but its own interrupts, so that nothing else runs on the CPU.
const TICKS_WITHOUT_LIMIT: u64 = 64;

/// Nanoseconds per second.
const NS_PER_SEC: u64 = 1_000_000_000;

impl Limits {
    /// No limits.
    pub const NONE: Self = Self {
        tick: UNLIMITED,
        per_tick: UNLIMITED,
        min_cost: 0,
        entry_bounds: (0, 0),
    };

    /// Splits the cycles of wake-ups into the part that this tick's budget pays, and the part that
    /// is left for the budgets of later ticks.
    #[must_use]
    pub const fn split_wake_ups(&self, wake_cycles: u64) -> (u64, u64) {
        /// The largest number of ticks whose budget pays: a wake-up that waited very long for a lock must not
        /// stop sampling for ever.
        const MAX_TICKS: u64 = 16;
        let max_cycles = self.per_tick.saturating_mul(MAX_TICKS);
        let wake_cycles = if wake_cycles < max_cycles {
            wake_cycles
        } else {
            max_cycles
        };
        if wake_cycles < self.per_tick {
            (wake_cycles, 0)
        } else {
            (self.per_tick, wake_cycles - self.per_tick)
        }
    }

    /// Returns the cycles of a handler that are not charged to the budget. With a limit of the time
    /// there are none. Without a limit, these are all cycles beyond one tick: a handler takes longer
    /// than a tick only if a hypervisor has stopped the CPU, and then the tick has not been held up
    /// by interrupts.
    #[must_use]
    pub const fn exempt_cycles(&self, handler_cycles: u64) -> u64 {
        let is_time_limited = self.per_tick <= self.tick;
        if is_time_limited {
            0
        } else {
            handler_cycles.saturating_sub(self.tick)
        }
    }

    /// Returns whether a tick that comes `elapsed` cycles after the previous one is late. If sampling is suspended, the
    /// interrupts of samples may have kept the tick off.
    #[must_use]
    pub const fn is_tick_late(&self, elapsed: u64) -> bool {
        elapsed > self.tick.saturating_add(self.tick / 2)
    }

    /// Returns the limits that follow from the settings.
    #[must_use]
    pub const fn new(settings: &Settings) -> Self {
        let Settings {
            max_sample_rate,
            max_percent,
            tsc_khz,
            tick_ns,
        } = *settings;
        // An unknown frequency is assumed to be 1 GHz, which is as low as any processor's.
        let khz = if tsc_khz == 0 {
            1_000_000
        } else {
            tsc_khz as u64
        };
        let tick = cycles(khz, tick_ns);
        let per_tick = if max_percent == 0 || max_percent >= 100 {
            tick.saturating_mul(TICKS_WITHOUT_LIMIT)
        } else {
            tick / 100 * max_percent as u64
        };
        let min_cost = if max_sample_rate == 0 {
            0
        } else {
            per_tick / samples_per_tick(max_sample_rate, tick_ns)
        };
        Self {
            tick,
            per_tick,
            min_cost,
            // 1 us and 50 us: processors of the last ten years take some 1 us, an emulated processor took 12 us.
            entry_bounds: (cycles(khz, 1_000), cycles(khz, 50_000)),
        }
    }
}

/// If at most this number of events is counted between two interrupts, the program has executed next to nothing: the
/// time between the interrupts is the cost of leaving the first one and entering the second one.
const MAX_SOON_EVENTS: u64 = 64;

/// Returns whether a counter that is loaded for `events` events overflows soon after the handler has returned: it
/// counts instructions or cycles, and `events` is small. `control` is the value of its control register.
#[inline]
#[must_use]
pub const fn overflows_soon(counter: CounterId, control: u64, events: u64) -> bool {
    if events > MAX_SOON_EVENTS {
        return false;
    }
    match counter.kind() {
        // Counter 0 counts instructions, 1 and 2 count cycles.
        CounterKind::Fixed(n) => n < 3,
        CounterKind::General(_) => {
            let select = EventSelect::from_bits(control);
            // Instructions (0xc0), cycles of Intel's processors (0x3c), cycles of AMD's (0x76).
            matches!(select.event(), 0xc0 | 0x3c | 0x76)
                && select.unit_mask() == 0
                && select.counter_mask() == 0
                && !select.is_edge()
        }
    }
}

/// Returns the cycles in `ns` nanoseconds.
const fn cycles(khz: u64, ns: u64) -> u64 {
    khz.saturating_mul(ns) / 1_000_000
}

/// Returns the largest allowed number of samples between two ticks, at least 1, as in Linux perf.
const fn samples_per_tick(rate: u32, tick_ns: u64) -> u64 {
    match (rate as u64).saturating_mul(tick_ns).div_ceil(NS_PER_SEC) {
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
    fn wake_ups_spend_the_budgets_of_this_tick_and_later_ones() {
        let limits = Limits::new(&DEFAULTS);
        let tick = limits.per_tick;
        assert_eq!(limits.split_wake_ups(0), (0, 0));
        assert_eq!(limits.split_wake_ups(tick - 1), (tick - 1, 0));
        assert_eq!(limits.split_wake_ups(3 * tick + 7), (tick, 2 * tick + 7));
        assert_eq!(limits.split_wake_ups(u64::MAX), (tick, 15 * tick));
        assert_eq!(Limits::NONE.split_wake_ups(1 << 40), (1 << 40, 0));
    }

    #[test]
    fn default_limits_are_a_quarter_of_the_time_and_400_samples() {
        let limits = Limits::new(&DEFAULTS);
        assert_eq!(limits.per_tick, 2_000_000);
        assert_eq!(limits.min_cost, 5_000);
        assert_eq!(limits.entry_bounds, (2_000, 100_000));
    }

    #[test]
    fn instructions_and_cycles_overflow_soon() {
        let general = CounterId::FIRST;
        assert!(overflows_soon(general, 0x0043_00c0, 1));
        assert!(overflows_soon(general, 0x0043_0076, 64));
        assert!(!overflows_soon(general, 0x0043_00c0, 65));
        assert!(!overflows_soon(general, 0x0043_00c4, 1));
        assert!(!overflows_soon(general, 0x0047_003c, 1));
        assert!(!overflows_soon(general, 0x0a43_00c0, 1));
        let fixed = |n| CounterId::fixed(n).expect("there is one");
        assert!(overflows_soon(fixed(1), 0xbb, 1));
        assert!(!overflows_soon(fixed(3), 0xbbbb, 1));
    }

    #[test]
    fn each_limit_can_be_disabled() {
        let rate_only = Limits::new(&Settings {
            max_percent: 100,
            ..DEFAULTS
        });
        assert_eq!(rate_only.per_tick, 64 * 8_000_000);
        assert_eq!(rate_only.min_cost, 64 * 8_000_000 / 400);
        let time_only = Limits::new(&Settings {
            max_sample_rate: 0,
            ..DEFAULTS
        });
        assert_eq!((time_only.per_tick, time_only.min_cost), (2_000_000, 0));
        let no_limits = Limits::new(&Settings {
            max_sample_rate: 0,
            max_percent: 0,
            ..DEFAULTS
        });
        assert_eq!(
            (no_limits.per_tick, no_limits.min_cost),
            (64 * 8_000_000, 0)
        );
    }

    #[test]
    fn stopped_handler_spends_a_tick_unless_time_is_limited() {
        let limits = Limits::new(&DEFAULTS);
        assert_eq!(limits.exempt_cycles(1 << 40), 0);
        let no_limit = Limits::new(&Settings {
            max_percent: 0,
            ..DEFAULTS
        });
        assert_eq!(no_limit.exempt_cycles(no_limit.tick), 0);
        assert_eq!(no_limit.exempt_cycles(no_limit.tick + 7), 7);
    }

    #[test]
    fn ticks_are_late_from_one_and_a_half_on() {
        let limits = Limits::new(&DEFAULTS);
        assert!(!limits.is_tick_late(12_000_000));
        assert!(limits.is_tick_late(12_000_001));
        assert!(!Limits::NONE.is_tick_late(1 << 62));
    }

    #[test]
    fn low_rate_allows_one_sample_per_tick() {
        let limits = Limits::new(&Settings {
            max_sample_rate: 1,
            ..DEFAULTS
        });
        assert_eq!(limits.min_cost, limits.per_tick);
    }

    #[test]
    fn extreme_settings_do_not_overflow() {
        let limits = Limits::new(&Settings {
            max_sample_rate: u32::MAX,
            max_percent: 99,
            tsc_khz: 0,
            tick_ns: 4_000_000,
        });
        assert_eq!(limits.per_tick, 3_960_000);
        assert_eq!(limits.min_cost, 0);
        let limits = Limits::new(&Settings {
            tick_ns: u64::MAX,
            tsc_khz: u32::MAX,
            ..DEFAULTS
        });
        assert!(limits.min_cost <= limits.per_tick);
    }
}
