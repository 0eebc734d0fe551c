// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The periods that precise events can have.

use super::super::cpuid::{Capabilities, Microarchitecture};
use super::super::event_attr::InvalidAttr;
use super::super::evtsel::EventSelect;
use super::super::sampling::{period_for, Trigger};

/// The event of instructions for which general counters and the fixed-function counter can be used.
pub(super) const INSTRUCTIONS: EventSelect = EventSelect::new(0xc0, 0);
/// The event of instructions for which only the fixed-function counter can be used.
const FIXED_INSTRUCTIONS: EventSelect = EventSelect::new(0x00, 0x01);

/// The smallest number of instructions that the fixed-function counter can be loaded for from Golden Cove and Gracemont on, if
/// it samples precisely (Linux: `glc_limit_period()` in arch/x86/events/intel/core.c).
pub const MIN_INSTRUCTIONS: u32 = 128;

/// Returns the smallest number of events that a counter can be loaded for, if it samples `select`
/// precisely; 0 if only the limit of all samples applies.
///
/// A hybrid processor's common capabilities have an unknown microarchitecture, so they have the limit, too.
#[must_use]
pub fn min_load(select: EventSelect, capabilities: &Capabilities) -> u32 {
    use Microarchitecture::{
        Crestmont, Darkmont, GoldenCove, Gracemont, LionCove, RedwoodCove, Skymont, Unknown,
    };

    let has_limit = matches!(
        capabilities.microarchitecture,
        GoldenCove | RedwoodCove | LionCove | Gracemont | Crestmont | Skymont | Darkmont | Unknown
    );
    let encodings = [INSTRUCTIONS, FIXED_INSTRUCTIONS];
    if has_limit && encodings.contains(&select.with_modes(false, false)) {
        MIN_INSTRUCTIONS
    } else {
        0
    }
}

/// The smallest period: no counter can be loaded for fewer events.
pub const MIN_PERIOD: u64 = 2;
/// The smallest period of an event that counts in kernel mode.
pub const MIN_PERIOD_IN_KERNEL: u64 = 256;
/// The number of bits of a counter that the processor can load.
const LOADABLE_BITS: u8 = 32;
/// The largest period of counters that are not narrower than [`LOADABLE_BITS`].
pub const MAX_PERIOD: u64 = (1 << (LOADABLE_BITS - 1)) - 1;

/// Returns the allowed periods of samples that are not merged. A period is at most the number of events that the processor
/// can load into the counter. In kernel mode the interrupt handler is counted, too, so the period must be long enough that
/// the handler does not fill the buffer.
fn allowed_periods(select: EventSelect, capabilities: &Capabilities) -> core::ops::Range<u64> {
    let fixed_width = match capabilities.fixed {
        0 => LOADABLE_BITS,
        _ => capabilities.fixed_width,
    };
    let width = capabilities
        .general_width
        .min(fixed_width)
        .min(LOADABLE_BITS);
    let min_period = if select.is_kernel() {
        MIN_PERIOD_IN_KERNEL
    } else {
        MIN_PERIOD
    };
    min_period.max(min_load(select, capabilities).into())..1_u64 << width.saturating_sub(1)
}

/// Returns whether an overdue sample would make all samples after it overdue, too. `events_left` are the events to the
/// sample, as an `i64`: 0 or negative if it is due already. The counter can't be loaded for fewer than `min_load` events.
///
/// The overdue sample comes `min_load` events from now. If fewer than `min_load` events are then left to the next sample,
/// that one is overdue, too: the processor begins a period with each sample, so it never catches up, and interrupts after
/// each sample. With a period of `min_load` events no load can be shorter than a period, so samples may be overdue by
/// less than a period.
#[must_use]
pub const fn stays_overdue(events_left: u64, period: u64, min_load: u64) -> bool {
    let events_left = events_left as i64;
    let overdue_events = events_left.unsigned_abs();
    let is_next_overdue = period > min_load && overdue_events.saturating_add(2 * min_load) > period;
    events_left <= 0 && (overdue_events >= period || is_next_overdue)
}

/// Checks the period of an event with precise samples. Any frequency is allowed.
///
/// # Errors
///
/// [`InvalidAttr::Unsupported`] if the event has no samples, or if the period is not allowed.
pub fn check_trigger(
    trigger: Trigger,
    select: EventSelect,
    capabilities: &Capabilities,
) -> Result<(), InvalidAttr> {
    match trigger {
        Trigger::Period(period) if allowed_periods(select, capabilities).contains(&period) => {
            Ok(())
        }
        Trigger::Frequency(_) => Ok(()),
        Trigger::Never | Trigger::Period(_) => Err(InvalidAttr::Unsupported),
    }
}

/// Returns the allowed period that is closest to `period`.
#[must_use]
pub fn closest_period(period: u64, select: EventSelect, capabilities: &Capabilities) -> u64 {
    let allowed = allowed_periods(select, capabilities);
    period.max(allowed.start).min(allowed.end.saturating_sub(1))
}

/// Returns the next period of an event with a frequency, which had `samples` samples with this period in `elapsed`
/// cycles. Each sample moves the period by an eighth of the difference, as in Linux perf. All samples together shorten it by
/// half at most, because all samples have the new period until the buffer is read the next time.
#[must_use]
pub fn next_period(period: u64, samples: u64, elapsed: u64, cycles_per_sample: u64) -> u64 {
    /// The number of samples from which on the measured period replaces the old one.
    const FULL_WEIGHT: u64 = 8;
    /// The longest period that is taken into account: the sum of eight such periods does not overflow.
    const MAX_PERIOD: u64 = 1 << 60;

    let measured = period_for(period.saturating_mul(samples), elapsed, cycles_per_sample);
    let measured = measured.max(period / 2).min(MAX_PERIOD);
    let weight = samples.min(FULL_WEIGHT);
    let old_weight = FULL_WEIGHT.saturating_sub(weight);
    let sum = period.min(MAX_PERIOD) * old_weight + measured * weight;
    (sum / FULL_WEIGHT).max(1)
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(
    CONFIG_KUNIT = "y",
    kernel::macros::kunit_tests(perfmon_precise_periods)
)]
mod tests {
    use super::super::super::event_attr::{InvalidAttr::Unsupported, PerfEventAttr};
    use super::super::testing::{
        counters_in_format_four, new_config, ICE_LAKE, INSTRUCTIONS, PRECISE_LEVEL,
    };
    use super::*;
    use Microarchitecture::{GoldenCove, Gracemont, IceLake};

    #[test]
    fn instructions_have_a_longer_period_from_golden_cove_on() {
        let period_is_allowed = |period, microarchitecture| {
            let capabilities = Capabilities {
                microarchitecture,
                ..ICE_LAKE
            };
            let attr = PerfEventAttr {
                sample_period: period,
                ..INSTRUCTIONS
            };
            new_config(&attr, &capabilities).is_ok()
        };
        assert!(period_is_allowed(127, IceLake));
        assert!(!period_is_allowed(127, GoldenCove));
        assert!(!period_is_allowed(127, Gracemont));
        assert!(period_is_allowed(128, GoldenCove));
    }

    #[test]
    fn periods_are_limited() {
        let is_allowed = |sample_period| {
            counters_in_format_four(PerfEventAttr {
                sample_period,
                ..INSTRUCTIONS
            })
            .is_ok()
        };
        assert_eq!(
            [0, 1, 2, 0x7fff_ffff, 0x8000_0000].map(is_allowed),
            [false, false, true, true, false]
        );
        let is_allowed_in_kernel = |sample_period| {
            counters_in_format_four(PerfEventAttr {
                sample_period,
                flags: PRECISE_LEVEL,
                ..INSTRUCTIONS
            })
            .is_ok()
        };
        assert_eq!([255, 256].map(is_allowed_in_kernel), [false, true]);
        let without_samples = PerfEventAttr {
            flags: INSTRUCTIONS.flags | PerfEventAttr::FREQ,
            sample_period: 0,
            ..INSTRUCTIONS
        };
        assert_eq!(counters_in_format_four(without_samples), Err(Unsupported));
        let narrow_counters = Capabilities {
            general_width: 24,
            ..ICE_LAKE
        };
        let select = EventSelect::new(0xc0, 0).with_modes(true, false);
        let check = |trigger| check_trigger(trigger, select, &narrow_counters);
        assert!(check(Trigger::Period(0x7f_ffff)).is_ok());
        assert!(check(Trigger::Period(0x80_0000)).is_err());
    }

    #[test]
    fn frequencies_have_allowed_periods() {
        let frequency = PerfEventAttr {
            flags: INSTRUCTIONS.flags | PerfEventAttr::FREQ,
            ..INSTRUCTIONS
        };
        assert!(counters_in_format_four(frequency).is_ok());
        let of_user = EventSelect::new(0xc0, 0).with_modes(true, false);
        let of_kernel = EventSelect::new(0xc0, 0).with_modes(false, true);
        assert_eq!(closest_period(1, of_user, &ICE_LAKE), 2);
        assert_eq!(closest_period(1, of_kernel, &ICE_LAKE), 256);
        assert_eq!(closest_period(1 << 31, of_user, &ICE_LAKE), (1 << 31) - 1);
        assert_eq!(closest_period(1009, of_kernel, &ICE_LAKE), 1009);
    }

    #[test]
    fn periods_follow_the_samples_of_a_frequency() {
        // 10 samples in the time of 20: half the period gives twice as many.
        assert_eq!(next_period(1000, 10, 20_000, 1_000), 500);
        // One sample moves the period by an eighth of the difference.
        assert_eq!(next_period(1000, 1, 2_000, 1_000), 937);
        // Samples that come far too late halve it at most.
        assert_eq!(next_period(1000, 8, 1 << 40, 1_000), 500);
        assert_eq!(next_period(1, 1, 1 << 40, 1), 1);
        // Samples that come far too soon set it.
        assert_eq!(next_period(1000, 16, 160, 1_000), 100_000);
    }

    #[test]
    fn samples_stay_overdue_if_the_next_one_would_be_overdue_too() {
        const MIN_LOAD: u64 = 2;
        for overdue_events in 0..3 * MIN_LOAD {
            let is_behind_by_a_period = overdue_events >= MIN_LOAD;
            let events_left = overdue_events.wrapping_neg();
            let stays_overdue = stays_overdue(events_left, MIN_LOAD, MIN_LOAD);
            assert_eq!(stays_overdue, is_behind_by_a_period);
        }
        for period in MIN_LOAD + 1..12 {
            for overdue_events in 0..3 * period {
                let events_since_due = overdue_events + MIN_LOAD;
                let is_next_overdue = period.saturating_sub(events_since_due) < MIN_LOAD;
                let events_left = overdue_events.wrapping_neg();
                assert_eq!(
                    stays_overdue(events_left, period, MIN_LOAD),
                    is_next_overdue
                );
            }
            assert!(!stays_overdue(1, period, MIN_LOAD));
        }
    }
}
