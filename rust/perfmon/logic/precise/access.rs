// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The access to memory in the records of an event.

use super::super::cores::Core;
use super::super::cpuid::{Capabilities, Microarchitecture};
use super::super::event_attr::{PerfEventAttr, PERF_SAMPLE_DATA_SRC};
use super::super::evtsel::EventSelect;
use super::super::memory_access::{AccessFormat, Latency, Source, MEMORY_PARTS};
use super::super::pebs::PebsFormat;

/// Returns whether the records have the parts of the access to memory that the attribute asks for.
pub(super) fn has_access(
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
pub(in crate::logic) fn access_format(
    select: EventSelect,
    capabilities: &Capabilities,
) -> AccessFormat {
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

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(
    CONFIG_KUNIT = "y",
    kernel::macros::kunit_tests(perfmon_precise_access)
)]
mod tests {
    use super::super::super::event_attr::{
        InvalidAttr::{self, Unsupported},
        PERF_SAMPLE_ADDR, PERF_SAMPLE_WEIGHT,
    };
    use super::super::super::extra_registers::ExtraRegister;
    use super::super::testing::{new_config, ICE_LAKE, INSTRUCTIONS, SKYLAKE, USER};
    use super::*;
    use Microarchitecture::GoldenCove;

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
}
