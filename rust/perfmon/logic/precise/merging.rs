// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Samples that the processor merges: see [`PebsFormat::Merged`].

use super::super::cpuid::Capabilities;
use super::super::event_attr::{PerfEventAttr, PERF_SAMPLE_PERIOD};
use super::super::evtsel::EventSelect;
use super::super::pebs::PebsFormat;
use super::super::sampling::{Sampling, Trigger};
use super::periods::INSTRUCTIONS;

/// Returns whether the processor merges the samples of an event. The processor can merge samples if
/// each instruction has a sample. A merged sample stands for all executions of its instruction up
/// to the interrupt. PERF_SAMPLE_PERIOD gives their number.
pub(super) fn is_merged(
    attr: &PerfEventAttr,
    trigger: Trigger,
    select: EventSelect,
    format: PebsFormat,
) -> bool {
    merges_period(format, trigger)
        && select.with_modes(false, false) == INSTRUCTIONS
        && attr.sample_type & PERF_SAMPLE_PERIOD != 0
}

/// Returns whether the processor merges the samples of an event that was accepted and now has this trigger. Merged samples
/// don't have an interrupt each.
#[must_use]
pub fn merges_samples(sampling: &Sampling, trigger: Trigger, capabilities: &Capabilities) -> bool {
    let format = capabilities.pebs;
    sampling.is_precise && format.is_some_and(|format| merges_period(format, trigger))
}

/// Returns whether records of this format are merged if there is one record for each period of
/// `trigger`.
fn merges_period(format: PebsFormat, trigger: Trigger) -> bool {
    matches!(trigger, Trigger::Period(period) if format.merges(period))
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(
    CONFIG_KUNIT = "y",
    kernel::macros::kunit_tests(perfmon_precise_merging)
)]
mod tests {
    use super::super::super::event_attr::{InvalidAttr::Unsupported, PERF_SAMPLE_CALLCHAIN};
    use super::super::testing::{new_config, ICE_LAKE, INSTRUCTIONS, PRECISE_LEVEL};
    use super::*;

    #[test]
    fn only_instructions_are_merged() {
        let merging = Capabilities {
            pebs: Some(PebsFormat::Merged),
            ..ICE_LAKE
        };
        let counters_of =
            |attr, capabilities| new_config(&attr, capabilities).map(|config| config.counters());
        let each = PerfEventAttr {
            sample_period: 1,
            sample_type: INSTRUCTIONS.sample_type | PERF_SAMPLE_PERIOD,
            ..INSTRUCTIONS
        };
        assert_eq!(counters_of(each, &merging), Ok(0x1_0000_00ff));
        let of_both_modes = PerfEventAttr {
            flags: PRECISE_LEVEL,
            ..each
        };
        assert_eq!(counters_of(of_both_modes, &merging), Ok(0x1_0000_00ff));
        assert_eq!(counters_of(each, &ICE_LAKE), Err(Unsupported));
        let branches = PerfEventAttr {
            config: 0xc4,
            ..each
        };
        assert_eq!(counters_of(branches, &merging), Err(Unsupported));
        let inverted = PerfEventAttr {
            config: 0x0180_00c0,
            ..each
        };
        assert_eq!(counters_of(inverted, &merging), Err(Unsupported));
        let without_number = PerfEventAttr {
            sample_type: INSTRUCTIONS.sample_type,
            ..each
        };
        assert_eq!(counters_of(without_number, &merging), Err(Unsupported));
    }

    #[test]
    fn samples_with_an_interrupt_each_are_not_merged() {
        let merging = Capabilities {
            pebs: Some(PebsFormat::Merged),
            ..ICE_LAKE
        };
        let each = PerfEventAttr {
            sample_period: 1,
            sample_type: INSTRUCTIONS.sample_type | PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN,
            ..INSTRUCTIONS
        };
        let counters = |attr| new_config(&attr, &merging).map(|config| config.counters());
        assert_eq!(counters(each), Err(Unsupported));
        let with_period = PerfEventAttr {
            sample_period: 2,
            ..each
        };
        assert!(counters(with_period).is_ok());
    }
}
