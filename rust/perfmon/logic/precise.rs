// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Precise events (`precise_ip` of the attribute), whose samples the processor writes itself, with the address of the
//! very instruction. One interrupt delivers many samples. So samples can have only the parts that the processor's
//! records have, and the parts that are the same for all records when the interrupt reads them.

use super::counter::CounterId;
use super::cpuid::Capabilities;
use super::event_attr::{
    InvalidAttr, PerfEventAttr, PERF_SAMPLE_CPU, PERF_SAMPLE_ID, PERF_SAMPLE_IDENTIFIER,
    PERF_SAMPLE_IP, PERF_SAMPLE_PERIOD, PERF_SAMPLE_STREAM_ID, PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
};
use super::evtsel::EventSelect;
use super::pebs::PebsFormat;
use super::sampling::{Clock, Sampling, Trigger, Wakeup};

/// The parts that precise samples can have.
const SUPPORTED_PARTS: u64 = PERF_SAMPLE_IDENTIFIER
    | PERF_SAMPLE_IP
    | PERF_SAMPLE_TID
    | PERF_SAMPLE_TIME
    | PERF_SAMPLE_ID
    | PERF_SAMPLE_STREAM_ID
    | PERF_SAMPLE_CPU
    | PERF_SAMPLE_PERIOD;

/// Returns the counters that can sample an event precisely.
///
/// # Errors
///
/// [`InvalidAttr::Unsupported`] if the event can't have precise samples.
pub(super) fn counters(
    attr: &PerfEventAttr,
    sampling: &Sampling,
    select: EventSelect,
    capabilities: &Capabilities,
) -> Result<u64, InvalidAttr> {
    let format = capabilities.pebs.ok_or(InvalidAttr::Unsupported)?;
    let accepts_late_wakeup = matches!(sampling.wakeup, Wakeup::Samples(0) | Wakeup::Bytes(_));
    let is_supported = attr.sample_type & !SUPPORTED_PARTS == 0
        && sampling.clock == Clock::Local
        && !sampling.backward
        // Samples reach the ring at the interrupt only, so a reader can't be woken after a number of samples.
        && accepts_late_wakeup;
    let Trigger::Period(period) = sampling.trigger else {
        return Err(InvalidAttr::Unsupported);
    };
    if !is_supported || !allowed_periods(select, capabilities).contains(&period) {
        return Err(InvalidAttr::Unsupported);
    }
    match (format, attr.flags & PerfEventAttr::PRECISE_IP) {
        // The highest level requires evenly distributed samples, which only the fixed-function counter of instructions
        // can take.
        (PebsFormat::Four, PerfEventAttr::PRECISE_IP) => Ok(CounterId::INSTRUCTIONS.bit()),
        (PebsFormat::Three, PerfEventAttr::PRECISE_IP) => Err(InvalidAttr::Unsupported),
        (PebsFormat::Three, _) if select.event() == CYCLES => Err(InvalidAttr::Unsupported),
        _ => Ok(format.counters()),
    }
}

/// The event of cycles that are not halted. Before format 4 the processor can't sample this event precisely.
const CYCLES: u16 = 0x3c;

/// Returns the allowed periods. A period must not be longer than the processor can load the counter for. In kernel mode
/// the interrupt handler is counted, too, so the period must be long enough that the handler does not fill the buffer.
fn allowed_periods(select: EventSelect, capabilities: &Capabilities) -> core::ops::Range<u64> {
    /// The smallest period: no counter can be loaded for fewer events.
    const MIN_PERIOD: u64 = 2;
    /// The smallest period of an event that counts in kernel mode.
    const MIN_PERIOD_IN_KERNEL: u64 = 256;
    /// The number of bits of a counter that the processor can load.
    const LOADABLE_BITS: u8 = 32;

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
    min_period..1_u64 << width.saturating_sub(1)
}

/// Checks the new period of an event that has precise samples already.
///
/// # Errors
/// [`InvalidAttr::Unsupported`] if the period is not allowed.
pub fn check_period(
    period: u64,
    select: EventSelect,
    capabilities: &Capabilities,
) -> Result<(), InvalidAttr> {
    if allowed_periods(select, capabilities).contains(&period) {
        Ok(())
    } else {
        Err(InvalidAttr::Unsupported)
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_precise))]
mod tests {
    use super::super::cpuid::Microarchitecture::{IceLake, Skylake};
    use super::super::event_attr::{PERF_SAMPLE_CALLCHAIN, PERF_TYPE_RAW};
    use super::super::event_config::EventConfig;
    use super::*;
    use InvalidAttr::Unsupported;

    const SKYLAKE: Capabilities = Capabilities {
        general: 8,
        general_width: 48,
        fixed: 0b111,
        fixed_width: 48,
        arch_events: 0x7f,
        pebs: Some(PebsFormat::Three),
        ..Capabilities::NONE
    };
    const ICE_LAKE: Capabilities = Capabilities {
        pebs: Some(PebsFormat::Four),
        ..SKYLAKE
    };

    /// The lowest level of `precise_ip`.
    const PRECISE_LEVEL: u64 = 1 << 15;
    const USER: u64 = PerfEventAttr::EXCLUDE_KERNEL;

    const INSTRUCTIONS: PerfEventAttr = PerfEventAttr {
        type_: PERF_TYPE_RAW,
        config: 0xc0,
        sample_period: 1009,
        sample_type: PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
        flags: 2 * PRECISE_LEVEL | USER,
        ..PerfEventAttr::ZERO
    };

    fn counters_in_format_three(attr: PerfEventAttr) -> Result<u64, InvalidAttr> {
        EventConfig::new(&attr, &SKYLAKE, Skylake).map(|config| config.counters())
    }

    fn counters_in_format_four(attr: PerfEventAttr) -> Result<u64, InvalidAttr> {
        EventConfig::new(&attr, &ICE_LAKE, IceLake).map(|config| config.counters())
    }

    #[test]
    fn counters_follow_from_the_format() {
        assert_eq!(counters_in_format_three(INSTRUCTIONS), Ok(0xf));
        assert_eq!(counters_in_format_four(INSTRUCTIONS), Ok(0x1_0000_00ff));
        let without_pebs = EventConfig::new(
            &INSTRUCTIONS,
            &Capabilities {
                pebs: None,
                ..SKYLAKE
            },
            Skylake,
        );
        assert_eq!(
            without_pebs.map(|config| config.counters()),
            Err(Unsupported)
        );
    }

    #[test]
    fn highest_level_requires_instructions_and_format_four() {
        let highest_level = PerfEventAttr {
            flags: 3 * PRECISE_LEVEL | USER,
            ..INSTRUCTIONS
        };
        assert_eq!(counters_in_format_three(highest_level), Err(Unsupported));
        assert_eq!(counters_in_format_four(highest_level), Ok(0x1_0000_0000));
        let branches = PerfEventAttr {
            config: 0xc4,
            ..highest_level
        };
        assert_eq!(counters_in_format_four(branches), Err(Unsupported));
    }

    #[test]
    fn cycles_are_precise_from_format_four_on() {
        let cycles = PerfEventAttr {
            config: 0x3c,
            ..INSTRUCTIONS
        };
        assert_eq!(counters_in_format_three(cycles), Err(Unsupported));
        assert_eq!(counters_in_format_four(cycles), Ok(0x2_0000_00ff));
    }

    #[test]
    fn periods_are_limited_and_frequencies_refused() {
        let with_period = |sample_period| {
            counters_in_format_four(PerfEventAttr {
                sample_period,
                ..INSTRUCTIONS
            })
            .is_ok()
        };
        assert_eq!(
            [0, 1, 2, 0x7fff_ffff, 0x8000_0000].map(with_period),
            [false, false, true, true, false]
        );
        let kernel = |sample_period| {
            counters_in_format_four(PerfEventAttr {
                sample_period,
                flags: PRECISE_LEVEL,
                ..INSTRUCTIONS
            })
            .is_ok()
        };
        assert_eq!([255, 256].map(kernel), [false, true]);
        let frequency = PerfEventAttr {
            flags: INSTRUCTIONS.flags | PerfEventAttr::FREQ,
            ..INSTRUCTIONS
        };
        assert_eq!(counters_in_format_four(frequency), Err(Unsupported));
        let narrow_counters = Capabilities {
            general_width: 24,
            ..ICE_LAKE
        };
        let select = EventSelect::new(0xc0, 0).with_modes(true, false);
        assert!(check_period(0x7f_ffff, select, &narrow_counters).is_ok());
        assert!(check_period(0x80_0000, select, &narrow_counters).is_err());
    }

    #[test]
    fn parts_that_records_lack_are_refused() {
        let all_parts = PerfEventAttr {
            sample_type: SUPPORTED_PARTS,
            ..INSTRUCTIONS
        };
        assert!(counters_in_format_four(all_parts).is_ok());
        let call_chain = PerfEventAttr {
            sample_type: SUPPORTED_PARTS | PERF_SAMPLE_CALLCHAIN,
            ..INSTRUCTIONS
        };
        assert_eq!(counters_in_format_four(call_chain), Err(Unsupported));
        let backward = PerfEventAttr {
            flags: INSTRUCTIONS.flags | PerfEventAttr::WRITE_BACKWARD,
            ..INSTRUCTIONS
        };
        assert_eq!(counters_in_format_four(backward), Err(Unsupported));
        let wake_at_each_sample = PerfEventAttr {
            wakeup_events: 1,
            ..INSTRUCTIONS
        };
        assert_eq!(
            counters_in_format_four(wake_at_each_sample),
            Err(Unsupported)
        );
    }
}
