// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! How few events from a counter's load to its overflow a processor takes: as Linux perf has it (`limit_period`
//! in arch/x86/events).

use super::cpuid::Processor;
use super::evtsel::EventSelect;

/// What a processor asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadLimit {
    /// No processor is given a last event to wait for.
    Two,
    /// Nehalem and Westmere, and Haswell but for one event: with less, interrupts take too long.
    ThirtyTwo,
    /// Broadwell: two, but for one event.
    Broadwell,
    /// Haswell: 32, but for one event.
    Haswell,
}

/// INST_RETIRED.PREC_DIST, which errata HSW11 and BDM11 are about.
const PRECISE_INSTRUCTIONS: EventSelect = EventSelect::new(0xc0, 0x01);

impl LoadLimit {
    /// The limit of a processor of family 6, by its model (arch/x86/include/asm/intel-family.h).
    #[must_use]
    pub fn of(processor: &Processor) -> Self {
        if &processor.vendor != b"GenuineIntel" || processor.family() != 6 {
            return Self::Two;
        }
        match processor.model() {
            0x1a | 0x1e | 0x1f | 0x2e | 0x25 | 0x2c | 0x2f => Self::ThirtyTwo,
            0x3c | 0x3f | 0x45 | 0x46 => Self::Haswell,
            0x3d | 0x47 | 0x4f | 0x56 => Self::Broadwell,
            _ => Self::Two,
        }
    }

    /// The fewest events to load a counter for that counts `select`.
    #[must_use]
    pub const fn least(self, select: EventSelect) -> u32 {
        let precise = select.event() == PRECISE_INSTRUCTIONS.event()
            && select.unit_mask() == PRECISE_INSTRUCTIONS.unit_mask();
        match self {
            Self::Haswell | Self::Broadwell if precise => 128,
            Self::Two | Self::Broadwell => 2,
            Self::ThirtyTwo | Self::Haswell => 32,
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_limit))]
mod tests {
    use super::*;

    #[test]
    fn one_event_is_never_left() {
        let (any, precise) = (EventSelect::new(0xc0, 0), EventSelect::new(0xc0, 1));
        assert_eq!(LoadLimit::Two.least(precise), 2);
        assert_eq!(LoadLimit::ThirtyTwo.least(any), 32);
        assert_eq!(LoadLimit::Haswell.least(any), 32);
        assert_eq!(LoadLimit::Haswell.least(precise), 128);
        assert_eq!(LoadLimit::Broadwell.least(any), 2);
        assert_eq!(LoadLimit::Broadwell.least(precise), 128);
    }
}
