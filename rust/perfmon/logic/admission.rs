// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The choice of a counter for an event. (If no counter can be chosen, `event/resources.rs` returns
//! EBUSY.)
//!
//! The counters are tried in this order:
//!
//! 1. The fixed-function counter of the event, because it can count nothing else.
//! 2. A counter that already counts the same encoding for other descriptors: sharing it leaves the free counters to
//!    other programs.
//! 3. A counter of events of the same kind of target, which count at other times or on other CPUs. Events of another
//!    kind could not use that counter.
//! 4. A free counter.
//!
//! General counters are taken from the top, because traces take the lowest, and because most events
//! that only some counters can count are limited to the lowest counters.
//!
//! An event that [takes turns](super::turns) may also have the counters on which other events of its task or CPU take
//! turns. The event is admitted even if it can have only these counters.

use super::counter::{each_counter, highest, CounterId};
use super::event_config::EventConfig;

/// The counters that the new event may have, as masks.
#[derive(Clone, Copy, Debug, Default)]
pub struct AvailableCounters {
    /// The counters without an owner.
    pub free: u64,
    /// The counters that the new event could share with events of other tasks and CPUs
    /// ([`CounterUsers::can_admit`](super::sharing::CounterUsers::can_admit)).
    pub shareable: u64,
    /// The counters among `shareable` whose events all have the new event's select.
    pub same_select: u64,
    /// The counters of the events of the new event's own task or CPU.
    pub own: OwnCounters,
}

/// The counters of a task's or a CPU's events, as masks.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnCounters {
    /// The counters whose events all [agree](super::sharing::Demand::agrees) with the new event.
    pub agreeing: u64,
    /// The counters with an event that does not agree with the new event, which therefore can't
    /// have them.
    pub busy: u64,
    /// The counters on which events take turns.
    pub rotating: u64,
    /// The counters among `rotating` with an event that does not agree with the new event. The new
    /// event can have these counters only in its turn.
    pub contested: u64,
}

impl OwnCounters {
    /// Adds the counter of an event of the task or CPU. `agrees` tells whether the demands of that event and of the new
    /// event [agree](super::sharing::Demand::agrees).
    pub const fn add(&mut self, counter: CounterId, agrees: bool) {
        if agrees {
            self.agreeing |= counter.bit();
        } else {
            self.busy |= counter.bit();
        }
        self.agreeing &= !self.busy;
    }

    /// Adds the counters of an event of the task or CPU that takes turns. `agrees` returns whether the demands of that
    /// event and of the new event on a counter [agree](super::sharing::Demand::agrees).
    pub fn add_turns(&mut self, counters: u64, agrees: impl Fn(CounterId) -> bool) {
        self.rotating |= counters;
        for counter in each_counter(counters) {
            if agrees(counter) {
                self.agreeing |= counter.bit() & !self.busy;
            } else {
                self.contested |= counter.bit();
            }
        }
    }

    /// Returns the counters, as a mask, that the new event can't have all the time.
    #[must_use]
    pub const fn unavailable(&self) -> u64 {
        self.busy | self.contested
    }
}

/// Returns the counter for an event, or `None` if the event can have none. An event that counts nothing always gets
/// [`CounterId::NONE`].
#[must_use]
pub const fn choose_counter(config: &EventConfig, offers: &AvailableCounters) -> Option<CounterId> {
    if !config.takes_counter() {
        return Some(CounterId::NONE);
    }
    let possible_counters =
        config.counters() & (offers.free | offers.shareable) & !offers.own.unavailable();
    if let Some(counter) = config.fixed {
        if possible_counters & counter.bit() != 0 {
            return Some(counter);
        }
    }
    let by_preference = [
        possible_counters & offers.own.agreeing,
        possible_counters & offers.same_select,
        possible_counters & offers.shareable,
        possible_counters,
    ];
    let mut index = 0;
    while index < by_preference.len() {
        if let Some(counter) = highest(by_preference[index]) {
            return Some(counter);
        }
        index += 1;
    }
    None
}

/// Returns the counters, as a mask, that an event may have when it has its turn.
#[must_use]
pub const fn turn_counters(config: &EventConfig, offers: &AvailableCounters) -> u64 {
    let rotating_counters = offers.own.rotating & !offers.own.busy;
    config.counters() & (offers.free | offers.shareable) & rotating_counters
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_admission))]
mod tests {
    use super::super::core_kinds::CoreKinds;
    use super::super::cpuid::{Capabilities, Microarchitecture};
    use super::super::event_attr::{
        PerfEventAttr, PERF_COUNT_SW_DUMMY, PERF_TYPE_RAW, PERF_TYPE_SOFTWARE,
    };
    use super::*;

    const CPU: Capabilities = Capabilities {
        microarchitecture: Microarchitecture::Skylake,
        general_count: 8,
        fixed: 0b111,
        arch_events: 0x7f,
        ..Capabilities::NONE
    };
    const FIXED_COUNTERS: u64 = 0b111 << 32;
    const ALL_COUNTERS: u64 = FIXED_COUNTERS | 0xff;

    /// Returns the index of the counter that is chosen for a raw event.
    fn chosen_index_of(raw: u64, offers: &AvailableCounters) -> Option<usize> {
        let attr = PerfEventAttr {
            type_: PERF_TYPE_RAW,
            config: raw,
            ..PerfEventAttr::ZERO
        };
        let config = EventConfig::new(&attr, &CPU, &CoreKinds::one(&CPU)).ok()?;
        choose_counter(&config, offers).map(CounterId::index)
    }

    /// Returns the index of the counter that is chosen for a raw event if no other event counts the same.
    fn chosen_index(raw: u64, free: u64, shareable: u64, busy: u64) -> Option<usize> {
        let own = OwnCounters {
            busy,
            ..OwnCounters::default()
        };
        let offers = AvailableCounters {
            free,
            shareable,
            same_select: 0,
            own,
        };
        chosen_index_of(raw, &offers)
    }

    const INSTRUCTIONS: u64 = 0xc0;
    const BRANCHES: u64 = 0xc4;
    const REFERENCE_CYCLES: u64 = 0x0300;
    /// An event that only the first four general counters can count.
    const LOADS: u64 = 0x81d0;

    #[test]
    fn fixed_counter_precedes_general_ones() {
        assert_eq!(chosen_index(INSTRUCTIONS, ALL_COUNTERS, 0, 0), Some(32));
        assert_eq!(
            chosen_index(INSTRUCTIONS, ALL_COUNTERS & !0x80, 0x80, 0),
            Some(32)
        );
        assert_eq!(chosen_index(INSTRUCTIONS, 0, ALL_COUNTERS, 0), Some(32));
        assert_eq!(
            chosen_index(INSTRUCTIONS, ALL_COUNTERS, 0, 1 << 32),
            Some(7)
        );
        assert_eq!(chosen_index(INSTRUCTIONS, 0xff, 0, 0), Some(7));
        assert_eq!(chosen_index(REFERENCE_CYCLES, ALL_COUNTERS, 0, 0), Some(34));
        assert_eq!(
            chosen_index(REFERENCE_CYCLES, ALL_COUNTERS, 0, 1 << 34),
            None
        );
        assert_eq!(chosen_index(REFERENCE_CYCLES, 0xff, 0, 0), None);
    }

    #[test]
    fn shared_general_counters_precede_free_ones() {
        assert_eq!(chosen_index(BRANCHES, ALL_COUNTERS, 0, 0), Some(7));
        assert_eq!(chosen_index(BRANCHES, 0xf0, 0x0c, 0), Some(3));
        assert_eq!(chosen_index(BRANCHES, 0xf0, 0x0c, 0x08), Some(2));
        assert_eq!(chosen_index(BRANCHES, 0xf0, 0x0c, 0x0c), Some(7));
        assert_eq!(chosen_index(BRANCHES, 0xf0, 0x0c, 0x8c), Some(6));
    }

    #[test]
    fn counters_with_the_same_select_precede_others() {
        let offers = |same_select, agreeing, busy| AvailableCounters {
            free: 0x0f | 1 << 32,
            shareable: 0xf0,
            same_select,
            own: OwnCounters {
                agreeing,
                busy,
                ..OwnCounters::default()
            },
        };
        assert_eq!(chosen_index_of(BRANCHES, &offers(0x30, 0, 0)), Some(5));
        assert_eq!(
            chosen_index_of(BRANCHES, &offers(0x30, 0x10, 0x20)),
            Some(4)
        );
        assert_eq!(chosen_index_of(BRANCHES, &offers(0x30, 0x40, 0)), Some(6));
        assert_eq!(chosen_index_of(BRANCHES, &offers(0x30, 0, 0x30)), Some(7));
        assert_eq!(
            chosen_index_of(INSTRUCTIONS, &offers(0x30, 0x40, 0)),
            Some(32)
        );
    }

    #[test]
    fn one_disagreeing_event_makes_its_counter_busy() {
        let [a, b] = [1, 2].map(CounterId::from_index);
        let mut own = OwnCounters::default();
        for (counter, agrees) in [(a, true), (a, false), (a, true), (b, true), (b, true)] {
            if let Some(counter) = counter {
                own.add(counter, agrees);
            }
        }
        assert_eq!((own.agreeing, own.busy), (0b100, 0b010));
    }

    #[test]
    fn events_take_turns_on_counters_of_other_turns() {
        let mut own = OwnCounters::default();
        own.add_turns(0b0111, |counter| counter.index() == 2);
        own.add_turns(0b1001, |_| true);
        assert_eq!((own.rotating, own.contested), (0b1111, 0b0011));
        assert_eq!(
            (own.agreeing & !own.unavailable(), own.unavailable()),
            (0b1100, 0b0011)
        );
        // The event can't have a counter that another event has all the time.
        if let Some(counter) = CounterId::general(1) {
            own.add(counter, false);
        }
        let attr = PerfEventAttr {
            type_: PERF_TYPE_RAW,
            config: BRANCHES,
            ..PerfEventAttr::ZERO
        };
        let config = EventConfig::new(&attr, &CPU, &CoreKinds::one(&CPU));
        assert!(config.is_ok());
        if let Ok(config) = config {
            let offers = AvailableCounters {
                free: 0,
                shareable: 0b0111,
                same_select: 0,
                own,
            };
            assert_eq!(turn_counters(&config, &offers), 0b0101);
            assert_eq!(
                choose_counter(&config, &offers).map(CounterId::index),
                Some(2)
            );
        }
    }

    #[test]
    fn counters_of_other_owners_are_not_chosen() {
        assert_eq!(chosen_index(BRANCHES, 0, 0, 0), None);
        assert_eq!(chosen_index(BRANCHES, FIXED_COUNTERS, 0, 0), None);
        assert_eq!(chosen_index(BRANCHES, 0x01, 0x02, 0x03), None);
        assert_eq!(chosen_index(BRANCHES, u64::MAX, u64::MAX, 0), Some(7));
    }

    #[test]
    fn dummy_needs_no_counter() {
        let attr = PerfEventAttr {
            type_: PERF_TYPE_SOFTWARE,
            config: PERF_COUNT_SW_DUMMY,
            ..PerfEventAttr::ZERO
        };
        let config = EventConfig::new(&attr, &CPU, &CoreKinds::one(&CPU));
        assert!(config.is_ok_and(
            |config| choose_counter(&config, &AvailableCounters::default())
                == Some(CounterId::NONE)
        ));
    }

    #[test]
    fn limited_events_get_only_their_counters() {
        assert_eq!(chosen_index(LOADS, ALL_COUNTERS, 0, 0), Some(3));
        assert_eq!(chosen_index(LOADS, 0x0f, 0xf0, 0), Some(3));
        assert_eq!(chosen_index(LOADS, ALL_COUNTERS & !0x0f, 0, 0), None);
    }
}
