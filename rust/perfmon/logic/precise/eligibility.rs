// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The events that can have precise samples, and the counters that can take these samples.

use super::super::cores::Core;
use super::super::counter::CounterId;
use super::super::cpuid::{Capabilities, Microarchitecture};
use super::super::event_attr::{
    InvalidAttr, PerfEventAttr, PERF_SAMPLE_BRANCH_STACK, PERF_SAMPLE_CALLCHAIN,
    PERF_SAMPLE_CGROUP, PERF_SAMPLE_READ, PERF_SAMPLE_REGS_INTR, PERF_SAMPLE_REGS_USER,
    PERF_SAMPLE_STACK_USER, PERF_SAMPLE_WEIGHT, PERF_SAMPLE_WEIGHT_STRUCT,
};
use super::super::evtsel::EventSelect;
use super::super::pebs::{PebsFormat, PARTS_OF_RECORDS};
use super::super::sampling::Sampling;
use super::access::has_access;
use super::merging::is_merged;
use super::periods::check_trigger;

/// The parts of samples that the interrupt handler can add if each record has an interrupt. Records
/// of some formats have the branches themselves ([`Sampling::recorded_branches`]).
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
pub(in crate::logic) fn counters(
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
    if sampling.needs_interrupt_per_record || !is_merged(attr, sampling.trigger, select, format) {
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

/// Returns whether the processor defines precise samples for the edge, inversion and counter-mask
/// bits of `select`. With format 3, samples are defined only for cycles in which no instruction
/// retires, by two encodings (Linux: `intel_skl_pebs_event_constraints` in
/// arch/x86/events/intel/ds.c); Goldmont Plus has precise samples of any event.
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

/// Returns the counters whose records have the weight that the attribute asks for. On the big cores
/// that record the retire latency, the fixed-function counter of instructions does not record this
/// latency (Linux: `rwc_get_event_constraints` in arch/x86/events/intel/core.c).
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

/// Returns the counters that can take precise samples of an event on this core, as a mask. The
/// format of records may exclude more counters.
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

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(
    CONFIG_KUNIT = "y",
    kernel::macros::kunit_tests(perfmon_precise_eligibility)
)]
mod tests {
    use super::super::super::branch_records::BranchRecords;
    use super::super::super::event_attr::{
        PERF_SAMPLE_BRANCH_ANY, PERF_SAMPLE_IP, PERF_SAMPLE_TRANSACTION, PERF_TYPE_RAW,
    };
    use super::super::testing::{
        counters_in_format_four, counters_in_format_three, new_config, ICE_LAKE, INSTRUCTIONS,
        PRECISE_LEVEL, SKYLAKE, USER,
    };
    use super::*;
    use InvalidAttr::Unsupported;
    use Microarchitecture::{
        GoldenCove, Goldmont, GoldmontPlus, Gracemont, IceLake, LionCove, RedwoodCove, Skylake,
    };

    #[test]
    fn counters_follow_from_the_format() {
        assert_eq!(counters_in_format_three(INSTRUCTIONS), Ok(0xf));
        assert_eq!(counters_in_format_four(INSTRUCTIONS), Ok(0x1_0000_00ff));
        let lunar_lake = Capabilities {
            general_count: 10,
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
    fn parts_that_records_lack_are_refused() {
        let all_parts = PerfEventAttr {
            sample_type: PARTS_OF_RECORDS & !PERF_SAMPLE_WEIGHT,
            ..INSTRUCTIONS
        };
        assert_eq!(needs_interrupt_per_record(all_parts), Ok(false));
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
    fn needs_interrupt_per_record(attr: PerfEventAttr) -> Result<bool, InvalidAttr> {
        new_config(&attr, &ICE_LAKE).map(|config| config.sampling.needs_interrupt_per_record)
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
            assert_eq!(needs_interrupt_per_record(attr), Ok(true));
            let not_precise = PerfEventAttr {
                flags: USER,
                ..attr
            };
            assert_eq!(needs_interrupt_per_record(not_precise), Ok(false));
        }
        let backward = PerfEventAttr {
            flags: INSTRUCTIONS.flags | PerfEventAttr::WRITE_BACKWARD,
            ..INSTRUCTIONS
        };
        assert_eq!(needs_interrupt_per_record(backward), Ok(true));
        let wake_at_each_sample = PerfEventAttr {
            wakeup_events: 1,
            ..INSTRUCTIONS
        };
        assert_eq!(needs_interrupt_per_record(wake_at_each_sample), Ok(true));
        let wake_at_watermark = PerfEventAttr {
            flags: INSTRUCTIONS.flags | PerfEventAttr::WATERMARK,
            ..wake_at_each_sample
        };
        assert_eq!(needs_interrupt_per_record(wake_at_watermark), Ok(false));
        let monotonic = PerfEventAttr {
            flags: INSTRUCTIONS.flags | PerfEventAttr::USE_CLOCKID,
            clockid: 1,
            ..INSTRUCTIONS
        };
        assert_eq!(needs_interrupt_per_record(monotonic), Ok(true));
    }

    #[test]
    fn branches_are_in_records_from_format_four_on() {
        let with_branches = PerfEventAttr {
            sample_type: INSTRUCTIONS.sample_type | PERF_SAMPLE_BRANCH_STACK,
            branch_sample_type: PERF_SAMPLE_BRANCH_ANY,
            ..INSTRUCTIONS
        };
        // Returns whether samples show the branches of the record, and whether each sample has an
        // interrupt.
        let sampling = |attr, pebs, last_branch| {
            let capabilities = Capabilities {
                pebs: Some(pebs),
                last_branch: Some(last_branch),
                ..ICE_LAKE
            };
            new_config(attr, &capabilities).map(|config| {
                let sampling = config.sampling;
                (
                    sampling.recorded_branches.is_some(),
                    sampling.needs_interrupt_per_record,
                )
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
}
