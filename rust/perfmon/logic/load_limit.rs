// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The smallest number of events from a counter's load to its overflow, as in Linux perf (`limit_period` in
//! arch/x86/events).

use super::cpuid::Processor;
use super::evtsel::EventSelect;

/// The limit of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadLimit {
    /// 2 events: some processors don't overflow after a single event.
    Two,
    /// Nehalem and Westmere: 32 events, because more frequent interrupts take too much time.
    ThirtyTwo,
    /// Broadwell: 2 events; 128 for the event of erratum BDM11.
    Broadwell,
    /// Haswell: 32 events; 128 for the event of erratum HSW11.
    Haswell,
}

/// INST_RETIRED.PREC_DIST, the event of errata HSW11 and BDM11.
const PRECISE_INSTRUCTIONS: EventSelect = EventSelect::new(0xc0, 0x01);

impl LoadLimit {
    /// Returns the limit of a processor. Models of family 6 are as in arch/x86/include/asm/intel-family.h.
    #[must_use]
    pub fn for_processor(processor: &Processor) -> Self {
        if &processor.vendor_id != b"GenuineIntel" || processor.family() != 6 {
            return Self::Two;
        }
        match processor.model() {
            0x1a | 0x1e | 0x1f | 0x2e | 0x25 | 0x2c | 0x2f => Self::ThirtyTwo,
            0x3c | 0x3f | 0x45 | 0x46 => Self::Haswell,
            0x3d | 0x47 | 0x4f | 0x56 => Self::Broadwell,
            _ => Self::Two,
        }
    }

    /// Returns the smallest number of events from the load of a counter that counts `select` to its overflow.
    #[must_use]
    pub const fn min_events(self, select: EventSelect) -> u32 {
        let is_precise = select.event() == PRECISE_INSTRUCTIONS.event()
            && select.unit_mask() == PRECISE_INSTRUCTIONS.unit_mask();
        match self {
            Self::Haswell | Self::Broadwell if is_precise => 128,
            Self::Two | Self::Broadwell => 2,
            Self::ThirtyTwo | Self::Haswell => 32,
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_load_limit))]
mod tests {
    use super::*;

    #[test]
    fn min_events_is_at_least_2() {
        let (any_event, precise_event) = (EventSelect::new(0xc0, 0), EventSelect::new(0xc0, 1));
        assert_eq!(LoadLimit::Two.min_events(precise_event), 2);
        assert_eq!(LoadLimit::ThirtyTwo.min_events(any_event), 32);
        assert_eq!(LoadLimit::Haswell.min_events(any_event), 32);
        assert_eq!(LoadLimit::Haswell.min_events(precise_event), 128);
        assert_eq!(LoadLimit::Broadwell.min_events(any_event), 2);
        assert_eq!(LoadLimit::Broadwell.min_events(precise_event), 128);
    }
}
