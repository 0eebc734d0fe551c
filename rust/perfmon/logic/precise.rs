// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Precise events (`precise_ip` of the attribute). The processor writes a record of each of their samples itself, with the
//! address of the exact instruction. One interrupt delivers many samples if these have only parts that the records have, and
//! parts that are the same for all records. Events whose samples have other parts are single: each of their records raises
//! an interrupt, whose handler adds the other parts.

use super::cores::Core;
use super::counter::CounterId;
use super::cpuid::{Capabilities, Microarchitecture};
use super::event_attr::{
    InvalidAttr, PerfEventAttr, PERF_SAMPLE_BRANCH_STACK, PERF_SAMPLE_CALLCHAIN,
    PERF_SAMPLE_CGROUP, PERF_SAMPLE_DATA_SRC, PERF_SAMPLE_PERIOD, PERF_SAMPLE_READ,
    PERF_SAMPLE_REGS_INTR, PERF_SAMPLE_REGS_USER, PERF_SAMPLE_STACK_USER, PERF_SAMPLE_WEIGHT,
    PERF_SAMPLE_WEIGHT_STRUCT,
};
use super::evtsel::EventSelect;
use super::memory_access::{AccessFormat, Latency, Source, MEMORY_PARTS};
use super::pebs::{PebsFormat, PARTS_OF_RECORDS};
use super::sampling::{period_for, Sampling, Trigger};

/// The parts that the handler of an interrupt for each record can add. Records of some formats have the branches themselves
/// ([`Sampling::recorded_branches`]).
const PARTS_OF_INTERRUPT: u64 = PERF_SAMPLE_READ
    | PERF_SAMPLE_CALLCHAIN
    | PERF_SAMPLE_BRANCH_STACK
    | PERF_SAMPLE_REGS_USER
    | PERF_SAMPLE_STACK_USER
    | PERF_SAMPLE_REGS_INTR
    | PERF_SAMPLE_CGROUP;

/// Returns the counters that can sample an event precisely, as a mask; 0 if there is none.
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
    if !has_defined_records(select, capabilities, format) {
        return Err(InvalidAttr::Unsupported);
    }
    let has_supported_parts = attr.sample_type & !(PARTS_OF_RECORDS | PARTS_OF_INTERRUPT) == 0;
    let has_registers = attr.sample_type & PERF_SAMPLE_REGS_INTR == 0 || format.has_registers();
    if !has_supported_parts || !has_registers || !has_access(attr, select, capabilities, format) {
        return Err(InvalidAttr::Unsupported);
    }
    if sampling.single || !is_merged(attr, sampling.trigger, select, format) {
        check_trigger(sampling.trigger, select, capabilities)?;
    }
    match (format, attr.flags & PerfEventAttr::PRECISE_IP) {
        // The highest level requires evenly distributed samples, which only the fixed-function counter of instructions
        // can take.
        (PebsFormat::Three, PerfEventAttr::PRECISE_IP) => Err(InvalidAttr::Unsupported),
        (_, PerfEventAttr::PRECISE_IP) => Ok(CounterId::INSTRUCTIONS.bit()),
        (PebsFormat::Three, _) if select.event() == CYCLES => Err(InvalidAttr::Unsupported),
        _ => Ok(format.counters() & counters_of_core(select, capabilities)),
    }
    .map(|counters| counters & counters_with_weight(attr, capabilities))
}

/// Returns whether the processor defines precise samples for the edge, inversion and counter-mask bits of `select`. With
/// format 3 it does so only for cycles in which no instruction retires, by two encodings (Linux:
/// `intel_skl_pebs_event_constraints` in arch/x86/events/intel/ds.c); Goldmont Plus has precise samples of any event.
fn has_defined_records(
    select: EventSelect,
    capabilities: &Capabilities,
    format: PebsFormat,
) -> bool {
    const DEFINED: [EventSelect; 2] = [
        EventSelect::new(0xc0, 0).with_counter_mask(16, true),
        EventSelect::new(0xc0, 1).with_counter_mask(16, true),
    ];

    let has_flags = select.is_edge() || select.is_inverted() || select.counter_mask() != 0;
    let is_limited = matches!(format, PebsFormat::Three)
        && capabilities.microarchitecture != Microarchitecture::GoldmontPlus;
    !has_flags || !is_limited || DEFINED.contains(&select.with_modes(false, false))
}

/// Returns the counters whose records have the weight that the attribute asks for. On the big cores that record the retire
/// latency, the fixed-function counter of instructions does not record it (Linux: `rwc_get_event_constraints` in
/// arch/x86/events/intel/core.c).
fn counters_with_weight(attr: &PerfEventAttr, capabilities: &Capabilities) -> u64 {
    use Microarchitecture::{CougarCove, LionCove, RedwoodCove};

    let is_big = matches!(
        capabilities.microarchitecture,
        RedwoodCove | LionCove | CougarCove
    );
    let wants_weight = attr.sample_type & (PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT) != 0;
    if is_big && capabilities.has_retire_latency && wants_weight {
        !CounterId::INSTRUCTIONS.bit()
    } else {
        u64::MAX
    }
}

/// Returns whether the records have the parts of the access to memory that the attribute asks for.
fn has_access(
    attr: &PerfEventAttr,
    select: EventSelect,
    capabilities: &Capabilities,
    format: PebsFormat,
) -> bool {
    let core = Core::for_microarchitecture(capabilities.microarchitecture);
    let memory = core.memory_event(select);
    let lacks_source = memory.is_some_and(|memory| memory.source.is_none());
    let wants = |parts| attr.sample_type & parts != 0;
    (format.has_access() || !wants(MEMORY_PARTS)) && !(lacks_source && wants(PERF_SAMPLE_DATA_SRC))
}

/// Returns the form of the access to memory in the records of an event.
pub(super) fn access_format(select: EventSelect, capabilities: &Capabilities) -> AccessFormat {
    let core = Core::for_microarchitecture(capabilities.microarchitecture);
    let memory = core.memory_event(select);
    let has_threshold = memory.is_some_and(|memory| memory.has_threshold);
    AccessFormat {
        source: memory
            .and_then(|memory| memory.source)
            .unwrap_or(Source::UNKNOWN),
        latency: match capabilities.pebs {
            _ if capabilities.microarchitecture == Microarchitecture::Unknown => Latency::None,
            Some(PebsFormat::Four | PebsFormat::Five) if core.has_instruction_latency => {
                Latency::InstructionAndAccess
            }
            Some(PebsFormat::Four | PebsFormat::Five) => Latency::Access,
            Some(PebsFormat::Three) if has_threshold => Latency::Access,
            Some(PebsFormat::Three | PebsFormat::Merged) | None => Latency::None,
        },
        has_retire_latency: capabilities.has_retire_latency,
        has_threshold,
    }
}

/// Returns the counters that can take precise samples of an event on this core, as a mask. The formats of records may limit
/// them further.
fn counters_of_core(select: EventSelect, capabilities: &Capabilities) -> u64 {
    /// The bits of the fixed-function counters. `precise_limits` does not restrict these.
    const FIXED: u64 = !(u32::MAX as u64);

    let core = Core::for_microarchitecture(capabilities.microarchitecture);
    let limit = core
        .precise_limits
        .iter()
        .find(|(events, _)| events.contains(select));
    limit.map_or(u64::MAX, |(_, counters)| counters | FIXED)
}

/// The event of cycles that are not halted. Before format 4 the processor can't sample this event precisely.
pub const CYCLES: u16 = 0x3c;

/// Returns whether the processor merges the samples of an event, which it can if each instruction has a sample. A merged
/// sample stands for all executions of its instruction up to the interrupt. PERF_SAMPLE_PERIOD gives their number.
fn is_merged(
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
    sampling.precise && format.is_some_and(|format| merges_period(format, trigger))
}

/// Returns whether records of this format are merged if there is one for each period of `trigger`.
fn merges_period(format: PebsFormat, trigger: Trigger) -> bool {
    matches!(trigger, Trigger::Period(period) if format.merges(period))
}

/// Instructions, as the general counters and the fixed-function counter count them.
const INSTRUCTIONS: EventSelect = EventSelect::new(0xc0, 0);
/// Instructions, as only the fixed-function counter counts them.
const FIXED_INSTRUCTIONS: EventSelect = EventSelect::new(0x00, 0x01);

/// The smallest number of instructions that the fixed-function counter can be loaded for from Golden Cove and Gracemont on, if
/// it samples precisely (Linux: `glc_limit_period()` in arch/x86/events/intel/core.c).
pub const MIN_INSTRUCTIONS: u32 = 128;

/// Returns the smallest number of events that a counter can be loaded for, if it samples `select` precisely; 0 if there is no
/// other limit than that of all samples.
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

/// The smallest number of events from an interrupt to the next record of a counter of kernel mode, if each record causes
/// an interrupt: as many events as [`MIN_RECORDS`] records have with the shortest period.
pub const MIN_DISTANCE_IN_KERNEL: u64 = MIN_RECORDS * MIN_PERIOD_IN_KERNEL;

/// The smallest number of records of a counter of kernel mode at which an interrupt is due. With the shortest period, this
/// many records need more instructions than the handler of Linux perf has. That handler may run in the same NMI. If an
/// interrupt became due in it, perf would take the interrupt and the records for its own.
pub const MIN_RECORDS: u64 = 16;

/// Returns the number of records in the buffer at which an interrupt is due while a sample is overdue. Without counters of
/// kernel mode it is one, since that record may be the overdue sample; otherwise [`MIN_RECORDS`] for each of the
/// `kernel_counters`.
#[must_use]
pub const fn records_to_interrupt_if_overdue(kernel_counters: u32) -> u64 {
    if kernel_counters == 0 {
        1
    } else {
        MIN_RECORDS * kernel_counters as u64
    }
}

/// Returns the number of records in the buffer at which an interrupt is due for an event of `frequency` samples in a
/// second: twice as many as are expected until the buffer is read at the next tick, after `tick_ns` nanoseconds. So a
/// period that is far too short is soon changed.
#[must_use]
pub const fn records_to_interrupt(frequency: u64, tick_ns: u64) -> u64 {
    const NS_PER_SECOND: u64 = 1_000_000_000;

    let records = frequency.saturating_mul(2).saturating_mul(tick_ns) / NS_PER_SECOND;
    if records < MIN_RECORDS {
        MIN_RECORDS
    } else {
        records
    }
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
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_precise))]
mod tests {
    use super::super::branch_records::BranchRecords;
    use super::super::core_kinds::CoreKinds;
    use super::super::cpuid::Microarchitecture::{
        GoldenCove, Goldmont, GoldmontPlus, Gracemont, IceLake, LionCove, RedwoodCove, Skylake,
    };
    use super::super::event_attr::{
        PERF_SAMPLE_ADDR, PERF_SAMPLE_BRANCH_ANY, PERF_SAMPLE_IP, PERF_SAMPLE_TID,
        PERF_SAMPLE_TIME, PERF_SAMPLE_TRANSACTION, PERF_TYPE_RAW,
    };
    use super::super::event_config::EventConfig;
    use super::super::extra_registers::ExtraRegister;
    use super::*;
    use InvalidAttr::Unsupported;

    const SKYLAKE: Capabilities = Capabilities {
        microarchitecture: Skylake,
        general: 8,
        general_width: 48,
        fixed: 0b111,
        fixed_width: 48,
        arch_events: 0x7f,
        pebs: Some(PebsFormat::Three),
        ..Capabilities::NONE
    };
    const ICE_LAKE: Capabilities = Capabilities {
        microarchitecture: IceLake,
        pebs: Some(PebsFormat::Four),
        ..SKYLAKE
    };

    const PRECISE_LEVEL: u64 = PerfEventAttr::PRECISE_LEVEL;
    const USER: u64 = PerfEventAttr::EXCLUDE_KERNEL;

    const INSTRUCTIONS: PerfEventAttr = PerfEventAttr {
        type_: PERF_TYPE_RAW,
        config: 0xc0,
        sample_period: 1009,
        sample_type: PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
        flags: 2 * PRECISE_LEVEL | USER,
        ..PerfEventAttr::ZERO
    };

    fn new_config(attr: &PerfEventAttr, cpus: &Capabilities) -> Result<EventConfig, InvalidAttr> {
        EventConfig::new(attr, cpus, &CoreKinds::one(cpus))
    }

    fn counters_in_format_three(attr: PerfEventAttr) -> Result<u64, InvalidAttr> {
        new_config(&attr, &SKYLAKE).map(|config| config.counters())
    }

    fn counters_in_format_four(attr: PerfEventAttr) -> Result<u64, InvalidAttr> {
        new_config(&attr, &ICE_LAKE).map(|config| config.counters())
    }

    #[test]
    fn counters_follow_from_the_format() {
        assert_eq!(counters_in_format_three(INSTRUCTIONS), Ok(0xf));
        assert_eq!(counters_in_format_four(INSTRUCTIONS), Ok(0x1_0000_00ff));
        let lunar_lake = Capabilities {
            general: 10,
            pebs: Some(PebsFormat::Five),
            ..ICE_LAKE
        };
        let config = new_config(&INSTRUCTIONS, &lunar_lake);
        assert_eq!(config.map(|config| config.counters()), Ok(0x1_0000_03ff));
        let without_pebs = new_config(
            &INSTRUCTIONS,
            &Capabilities {
                pebs: None,
                ..SKYLAKE
            },
        );
        assert_eq!(
            without_pebs.map(|config| config.counters()),
            Err(Unsupported)
        );
    }

    #[test]
    fn some_cores_limit_the_counters_of_an_event() {
        use Microarchitecture::{Goldmont, GoldmontPlus, LionCove};

        let counters = |config, microarchitecture, format| {
            let capabilities = Capabilities {
                microarchitecture,
                pebs: Some(format),
                ..SKYLAKE
            };
            let attr = PerfEventAttr {
                config,
                ..INSTRUCTIONS
            };
            new_config(&attr, &capabilities).map(|config| config.counters())
        };
        const BRANCHES: u64 = 0xc4;
        const OFFCORE: u64 = 0x012a;
        assert_eq!(counters(BRANCHES, Goldmont, PebsFormat::Three), Ok(0x1));
        assert_eq!(counters(BRANCHES, GoldmontPlus, PebsFormat::Three), Ok(0xf));
        assert_eq!(
            counters(0xc0, GoldenCove, PebsFormat::Four),
            Ok(0x1_0000_00fe)
        );
        assert_eq!(counters(BRANCHES, GoldenCove, PebsFormat::Four), Ok(0xff));
        assert_eq!(counters(OFFCORE, LionCove, PebsFormat::Five), Ok(0x1));
    }

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
    fn format_three_has_no_records_of_counter_masks() {
        let counters_of = |select: EventSelect, microarchitecture, pebs| {
            let attr = PerfEventAttr {
                type_: PERF_TYPE_RAW,
                config: select.stopped(),
                ..INSTRUCTIONS
            };
            let capabilities = Capabilities {
                microarchitecture,
                pebs: Some(pebs),
                ..ICE_LAKE
            };
            new_config(&attr, &capabilities).map(|config| config.counters() != 0)
        };
        let stalls = EventSelect::new(0xc0, 1).with_counter_mask(16, true);
        let slots = EventSelect::new(0xc2, 2).with_counter_mask(1, true);
        let edges = EventSelect::new(0xc2, 2).with_edge();
        assert_eq!(counters_of(stalls, Skylake, PebsFormat::Three), Ok(true));
        for select in [slots, edges] {
            assert_eq!(
                counters_of(select, Skylake, PebsFormat::Three),
                Err(Unsupported)
            );
            assert_eq!(
                counters_of(select, Goldmont, PebsFormat::Three),
                Err(Unsupported)
            );
            assert_eq!(
                counters_of(select, GoldmontPlus, PebsFormat::Three),
                Ok(true)
            );
            assert_eq!(counters_of(select, IceLake, PebsFormat::Four), Ok(true));
        }
    }

    #[test]
    fn fixed_counter_of_big_cores_records_no_retire_latency() {
        let counters_of = |level, sample_type, microarchitecture| {
            let capabilities = Capabilities {
                microarchitecture,
                has_retire_latency: true,
                ..ICE_LAKE
            };
            let attr = PerfEventAttr {
                sample_type,
                flags: level * PRECISE_LEVEL | USER,
                ..INSTRUCTIONS
            };
            new_config(&attr, &capabilities)
                .map(|config| config.counters() & CounterId::INSTRUCTIONS.bit() != 0)
        };
        for microarchitecture in [RedwoodCove, LionCove] {
            assert_eq!(
                counters_of(2, PERF_SAMPLE_WEIGHT, microarchitecture),
                Ok(false)
            );
            assert_eq!(counters_of(2, PERF_SAMPLE_IP, microarchitecture), Ok(true));
            assert_eq!(
                counters_of(3, PERF_SAMPLE_WEIGHT_STRUCT, microarchitecture),
                Err(Unsupported)
            );
        }
        assert_eq!(counters_of(2, PERF_SAMPLE_WEIGHT, Gracemont), Ok(true));
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
    fn merged_records_have_no_access_to_memory() {
        let with_address = PerfEventAttr {
            sample_type: INSTRUCTIONS.sample_type | PERF_SAMPLE_ADDR,
            ..INSTRUCTIONS
        };
        let merging = Capabilities {
            pebs: Some(PebsFormat::Merged),
            ..ICE_LAKE
        };
        assert_eq!(
            new_config(&with_address, &merging).map(|_| ()),
            Err(Unsupported)
        );
        assert!(new_config(&with_address, &ICE_LAKE).is_ok());
    }

    #[test]
    fn slow_loads_are_sampled_precisely_only() {
        let slow_loads = PerfEventAttr {
            config: 0x01cd,
            config1: 30,
            ..INSTRUCTIONS
        };
        let config = new_config(&slow_loads, &SKYLAKE);
        let register = config.map(|config| config.extra.map(|extra| (extra.register, extra.value)));
        assert_eq!(register, Ok(Some((ExtraRegister::LoadLatency, 30))));
        assert_eq!(
            config.map(|config| config.sampling.access.has_threshold),
            Ok(true)
        );
        let not_precise = PerfEventAttr {
            flags: USER,
            ..slow_loads
        };
        assert_eq!(
            new_config(&not_precise, &SKYLAKE).map(|_| ()),
            Err(Unsupported)
        );
        let above_the_register = PerfEventAttr {
            config1: 0x1_0000,
            ..slow_loads
        };
        assert_eq!(
            new_config(&above_the_register, &SKYLAKE).map(|_| ()),
            Err(InvalidAttr::Invalid)
        );
    }

    #[test]
    fn golden_cove_has_no_source_of_slow_loads() {
        let golden_cove = Capabilities {
            microarchitecture: GoldenCove,
            ..ICE_LAKE
        };
        let is_ok = |config, part| {
            let attr = PerfEventAttr {
                config,
                sample_type: INSTRUCTIONS.sample_type | part,
                ..INSTRUCTIONS
            };
            new_config(&attr, &golden_cove).is_ok()
        };
        assert!(!is_ok(0x01cd, PERF_SAMPLE_DATA_SRC));
        assert!(is_ok(0x01cd, PERF_SAMPLE_WEIGHT));
        assert!(is_ok(0x81d0, PERF_SAMPLE_DATA_SRC));
    }

    #[test]
    fn latencies_follow_from_the_format() {
        let latency = |config, capabilities: &Capabilities| {
            access_format(EventSelect::new(config, 0x01), capabilities).latency
        };
        let golden_cove = Capabilities {
            microarchitecture: GoldenCove,
            ..ICE_LAKE
        };
        assert_eq!(latency(0xcd, &SKYLAKE), Latency::Access);
        assert_eq!(latency(0xd1, &SKYLAKE), Latency::None);
        assert_eq!(latency(0xd1, &ICE_LAKE), Latency::Access);
        assert_eq!(latency(0xcd, &golden_cove), Latency::InstructionAndAccess);
    }

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
    fn frequencies_interrupt_before_the_buffer_is_full() {
        assert_eq!(records_to_interrupt(10_000, 4_000_000), 80);
        assert_eq!(records_to_interrupt(1, 4_000_000), 16);
    }

    #[test]
    fn overdue_sample_causes_the_next_interrupt_unless_the_kernel_is_sampled() {
        assert_eq!(records_to_interrupt_if_overdue(0), 1);
        assert_eq!(records_to_interrupt_if_overdue(1), 16);
        assert_eq!(records_to_interrupt_if_overdue(2), 32);
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
    fn parts_that_records_lack_are_refused() {
        let all_parts = PerfEventAttr {
            sample_type: PARTS_OF_RECORDS & !PERF_SAMPLE_WEIGHT,
            ..INSTRUCTIONS
        };
        assert_eq!(is_single(all_parts), Ok(false));
        let transaction = PerfEventAttr {
            sample_type: all_parts.sample_type | PERF_SAMPLE_TRANSACTION,
            ..INSTRUCTIONS
        };
        assert_eq!(counters_in_format_four(transaction), Err(Unsupported));
        let registers = PerfEventAttr {
            sample_type: PERF_SAMPLE_REGS_INTR,
            sample_regs_intr: 1,
            ..INSTRUCTIONS
        };
        assert!(counters_in_format_three(registers).is_ok());
        assert!(counters_in_format_four(registers).is_ok());
        let merging = Capabilities {
            pebs: Some(PebsFormat::Merged),
            ..ICE_LAKE
        };
        assert_eq!(
            new_config(&registers, &merging).map(|_| ()),
            Err(Unsupported)
        );
    }

    /// Returns whether each record of an event has an interrupt.
    fn is_single(attr: PerfEventAttr) -> Result<bool, InvalidAttr> {
        new_config(&attr, &ICE_LAKE).map(|config| config.sampling.single)
    }

    #[test]
    fn interrupts_give_what_records_lack() {
        for part in [
            PERF_SAMPLE_READ,
            PERF_SAMPLE_CALLCHAIN,
            PERF_SAMPLE_REGS_USER,
            PERF_SAMPLE_CGROUP,
        ] {
            let attr = PerfEventAttr {
                sample_type: INSTRUCTIONS.sample_type | part,
                sample_regs_user: 1,
                ..INSTRUCTIONS
            };
            assert_eq!(is_single(attr), Ok(true));
            let not_precise = PerfEventAttr {
                flags: USER,
                ..attr
            };
            assert_eq!(is_single(not_precise), Ok(false));
        }
        let backward = PerfEventAttr {
            flags: INSTRUCTIONS.flags | PerfEventAttr::WRITE_BACKWARD,
            ..INSTRUCTIONS
        };
        assert_eq!(is_single(backward), Ok(true));
        let wake_at_each_sample = PerfEventAttr {
            wakeup_events: 1,
            ..INSTRUCTIONS
        };
        assert_eq!(is_single(wake_at_each_sample), Ok(true));
        let wake_at_watermark = PerfEventAttr {
            flags: INSTRUCTIONS.flags | PerfEventAttr::WATERMARK,
            ..wake_at_each_sample
        };
        assert_eq!(is_single(wake_at_watermark), Ok(false));
        let monotonic = PerfEventAttr {
            flags: INSTRUCTIONS.flags | PerfEventAttr::USE_CLOCKID,
            clockid: 1,
            ..INSTRUCTIONS
        };
        assert_eq!(is_single(monotonic), Ok(true));
    }

    #[test]
    fn branches_are_in_records_from_format_four_on() {
        let with_branches = PerfEventAttr {
            sample_type: INSTRUCTIONS.sample_type | PERF_SAMPLE_BRANCH_STACK,
            branch_sample_type: PERF_SAMPLE_BRANCH_ANY,
            ..INSTRUCTIONS
        };
        // Whether the branches are those of the record, and whether each sample has an interrupt.
        let sampling = |attr, pebs, last_branch| {
            let capabilities = Capabilities {
                pebs: Some(pebs),
                last_branch: Some(last_branch),
                ..ICE_LAKE
            };
            new_config(attr, &capabilities).map(|config| {
                let sampling = config.sampling;
                (sampling.recorded_branches.is_some(), sampling.single)
            })
        };
        let architectural = |depth| BranchRecords::Architectural { depth };
        for (pebs, last_branch, in_record) in [
            (PebsFormat::Three, BranchRecords::Stack, false),
            (PebsFormat::Four, BranchRecords::Stack, true),
            (PebsFormat::Five, architectural(32), true),
            (PebsFormat::Five, architectural(16), false),
            (PebsFormat::Merged, BranchRecords::Stack, false),
        ] {
            assert_eq!(
                sampling(&with_branches, pebs, last_branch),
                Ok((in_record, !in_record))
            );
        }
        let with_chain = PerfEventAttr {
            sample_type: with_branches.sample_type | PERF_SAMPLE_CALLCHAIN,
            ..with_branches
        };
        assert_eq!(
            sampling(&with_chain, PebsFormat::Four, BranchRecords::Stack),
            Ok((true, true))
        );
        let not_precise = PerfEventAttr {
            flags: USER,
            ..with_branches
        };
        assert_eq!(
            sampling(&not_precise, PebsFormat::Four, BranchRecords::Stack),
            Ok((false, false))
        );
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
