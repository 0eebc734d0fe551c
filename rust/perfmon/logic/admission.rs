// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The choice of a counter for an event that is admitted.
//!
//! Events share counters only within a pool: those of tasks in time, those of CPUs by CPU. A counter joins a pool
//! with its first event there, and is lost to all others. So an event prefers a counter that is in its pool
//! already. Fixed-function counters come first, because they can count nothing else; then general ones from the
//! top, because traces take the lowest, and because events that are limited to some counters are mostly limited
//! to the lowest.

use super::counter::CounterId;
use super::event_config::EventConfig;

/// Returns the counter for an event, or `None` if it does not fit. An event that counts nothing always does, with
/// [`CounterId::NONE`].
///
/// `free` has the bits of the counters without an owner, `pool` those of the pool that the event may share, and
/// `busy` those that events use which may be on a counter at the same time: of the same task or CPU.
#[must_use]
pub const fn choose(config: &EventConfig, free: u64, pool: u64, busy: u64) -> Option<CounterId> {
    if !config.takes_counter() {
        return Some(CounterId::NONE);
    }
    let fitting = config.counters() & (free | pool) & !busy;
    if let Some(counter) = config.fixed {
        if fitting & counter.bit() != 0 {
            return Some(counter);
        }
    }
    match highest(fitting & pool) {
        None => highest(fitting),
        counter => counter,
    }
}

/// Returns the counter of the highest bit.
const fn highest(bits: u64) -> Option<CounterId> {
    match bits.checked_ilog2() {
        Some(index) => CounterId::from_index(index as u8),
        None => None,
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_admission))]
mod tests {
    use super::super::cpuid::{Capabilities, Microarchitecture};
    use super::super::event_attr::{
        PerfEventAttr, PERF_COUNT_SW_DUMMY, PERF_TYPE_RAW, PERF_TYPE_SOFTWARE,
    };
    use super::*;

    const CPU: Capabilities = Capabilities {
        general: 8,
        fixed: 0b111,
        arch_events: 0x7f,
        ..Capabilities::NONE
    };
    const FIXED: u64 = 0b111 << 32;
    const ALL: u64 = FIXED | 0xff;

    /// Returns the index of the counter for a raw event.
    fn index(raw: u64, free: u64, pool: u64, busy: u64) -> Option<usize> {
        let attr = PerfEventAttr {
            type_: PERF_TYPE_RAW,
            config: raw,
            ..PerfEventAttr::ZERO
        };
        let config = EventConfig::new(&attr, &CPU, Microarchitecture::Skylake).ok()?;
        choose(&config, free, pool, busy).map(CounterId::index)
    }

    const INSTRUCTIONS: u64 = 0xc0;
    const BRANCHES: u64 = 0xc4;
    const REFERENCE: u64 = 0x0300;
    /// Limited to the first four general counters.
    const LOADS: u64 = 0x81d0;

    #[test]
    fn fixed_counters_come_first() {
        assert_eq!(index(INSTRUCTIONS, ALL, 0, 0), Some(32));
        assert_eq!(index(INSTRUCTIONS, ALL & !0x80, 0x80, 0), Some(32));
        assert_eq!(index(INSTRUCTIONS, 0, ALL, 0), Some(32));
        assert_eq!(index(INSTRUCTIONS, ALL, 0, 1 << 32), Some(7));
        assert_eq!(index(INSTRUCTIONS, 0xff, 0, 0), Some(7));
        assert_eq!(index(REFERENCE, ALL, 0, 0), Some(34));
        assert_eq!(index(REFERENCE, ALL, 0, 1 << 34), None);
        assert_eq!(index(REFERENCE, 0xff, 0, 0), None);
    }

    #[test]
    fn general_counters_come_from_the_pool_first() {
        assert_eq!(index(BRANCHES, ALL, 0, 0), Some(7));
        assert_eq!(index(BRANCHES, 0xf0, 0x0c, 0), Some(3));
        assert_eq!(index(BRANCHES, 0xf0, 0x0c, 0x08), Some(2));
        assert_eq!(index(BRANCHES, 0xf0, 0x0c, 0x0c), Some(7));
        assert_eq!(index(BRANCHES, 0xf0, 0x0c, 0x8c), Some(6));
    }

    #[test]
    fn counters_of_others_are_left_alone() {
        assert_eq!(index(BRANCHES, 0, 0, 0), None);
        assert_eq!(index(BRANCHES, FIXED, 0, 0), None);
        assert_eq!(index(BRANCHES, 0x01, 0x02, 0x03), None);
        assert_eq!(index(BRANCHES, u64::MAX, u64::MAX, 0), Some(7));
    }

    #[test]
    fn dummies_fit_everywhere() {
        let attr = PerfEventAttr {
            type_: PERF_TYPE_SOFTWARE,
            config: PERF_COUNT_SW_DUMMY,
            ..PerfEventAttr::ZERO
        };
        let config = EventConfig::new(&attr, &CPU, Microarchitecture::Skylake);
        assert!(config.is_ok_and(|config| choose(&config, 0, 0, u64::MAX) == Some(CounterId::NONE)));
    }

    #[test]
    fn limits_are_kept() {
        assert_eq!(index(LOADS, ALL, 0, 0), Some(3));
        assert_eq!(index(LOADS, 0x0f, 0xf0, 0), Some(3));
        assert_eq!(index(LOADS, ALL & !0x0f, 0, 0), None);
    }
}
