// SPDX-License-Identifier: MIT OR Apache-2.0
//! Property tests of events with any attributes on any CPU: an accepted event fits the CPU, and the result of read(2) has
//! the right size.

use perfmon_core::logic::admission::{choose_counter, AvailableCounters, OwnCounters};
use perfmon_core::logic::core_kinds::CoreKinds;
use perfmon_core::logic::counter::{each_counter, CounterId};
use perfmon_core::logic::cpuid::{Architecture, Capabilities, Microarchitecture};
use perfmon_core::logic::event_attr::{
    InvalidAttr, PerfEventAttr, PERF_COUNT_SW_DUMMY, PERF_TYPE_RAW, PERF_TYPE_SOFTWARE,
};
use perfmon_core::logic::event_config::EventConfig;
use perfmon_core::logic::evtsel::EventSelect;
use perfmon_core::logic::read_format::{EventTimes, EventValue, ReadFormat, MAX_WORDS_OF_ONE};
use proptest::prelude::*;
use zerocopy::FromBytes;

const INTEL: [Microarchitecture; 26] = [
    Microarchitecture::Unknown,
    Microarchitecture::Core2,
    Microarchitecture::Nehalem,
    Microarchitecture::Westmere,
    Microarchitecture::SandyBridge,
    Microarchitecture::IvyBridge,
    Microarchitecture::Haswell,
    Microarchitecture::Broadwell,
    Microarchitecture::Skylake,
    Microarchitecture::IceLake,
    Microarchitecture::GoldenCove,
    Microarchitecture::RedwoodCove,
    Microarchitecture::LionCove,
    Microarchitecture::CougarCove,
    Microarchitecture::PantherCove,
    Microarchitecture::CoyoteCove,
    Microarchitecture::Bonnell,
    Microarchitecture::Silvermont,
    Microarchitecture::Goldmont,
    Microarchitecture::GoldmontPlus,
    Microarchitecture::Tremont,
    Microarchitecture::Gracemont,
    Microarchitecture::Crestmont,
    Microarchitecture::Skymont,
    Microarchitecture::Darkmont,
    Microarchitecture::ArcticWolf,
];
const AMD: [Microarchitecture; 8] = [
    Microarchitecture::Unknown,
    Microarchitecture::AmdBeforeZen,
    Microarchitecture::Bulldozer,
    Microarchitecture::Zen1,
    Microarchitecture::Zen2,
    Microarchitecture::Zen4,
    Microarchitecture::Zen5,
    Microarchitecture::Zen6,
];

fn intel() -> impl Strategy<Value = (Capabilities, Microarchitecture)> {
    (
        1..=8u8,
        0..16u16,
        any::<u8>(),
        proptest::sample::select(&INTEL),
    )
        .prop_map(|(general_count, fixed, events, cpus)| {
            let capabilities = Capabilities {
                general_count,
                fixed,
                arch_events: events.into(),
                ..Capabilities::NONE
            };
            (capabilities, cpus)
        })
}

fn amd() -> impl Strategy<Value = (Capabilities, Microarchitecture)> {
    (4..=15u8, proptest::sample::select(&AMD)).prop_map(|(general_count, cpus)| {
        let capabilities = Capabilities {
            architecture: Architecture::AmdCore,
            general_count,
            arch_events: 0x7b,
            select_bits: EventSelect::COMMON_BITS | EventSelect::EVENT_HIGH,
            ..Capabilities::NONE
        };
        (capabilities, cpus)
    })
}

fn cpu() -> impl Strategy<Value = (Capabilities, Microarchitecture)> {
    prop_oneof![intel(), amd()]
}

/// Generates attributes of events that are counted and not sampled; most are valid.
fn attr() -> impl Strategy<Value = PerfEventAttr> {
    let config = prop_oneof![0..12u64, any::<u16>().prop_map(u64::from), any::<u64>()];
    (0..6u32, config, any::<u64>(), any::<u64>(), 0..33u64).prop_map(
        |(type_, config, flags, mask, read_format)| PerfEventAttr {
            type_,
            config,
            flags: flags & mask & (1 << 14) - 1 & !PerfEventAttr::FREQ,
            read_format,
            ..PerfEventAttr::ZERO
        },
    )
}

/// Checks `attr` for a machine whose CPUs are all of one kind.
fn new_config(
    attr: &PerfEventAttr,
    capabilities: &Capabilities,
    microarchitecture: Microarchitecture,
) -> Result<EventConfig, InvalidAttr> {
    let cpus = Capabilities {
        microarchitecture,
        ..*capabilities
    };
    EventConfig::new(attr, &cpus, &CoreKinds::one(&cpus))
}

fn raw(config: u64) -> PerfEventAttr {
    PerfEventAttr {
        type_: PERF_TYPE_RAW,
        config,
        ..PerfEventAttr::ZERO
    }
}

const fn is_dummy(attr: &PerfEventAttr) -> bool {
    attr.type_ == PERF_TYPE_SOFTWARE && attr.config == PERF_COUNT_SW_DUMMY
}

proptest! {
    #[test]
    fn an_event_fits_its_cpu((capabilities, cpus) in cpu(), attr in attr()) {
        if let Ok(config) = new_config(&attr, &capabilities, cpus) {
            if is_dummy(&attr) {
                prop_assert_eq!(config.counters(), CounterId::NONE.bit());
            } else {
                prop_assert_ne!(config.counters(), 0);
                prop_assert_eq!(config.counters() & !capabilities.counters(), 0);
            }
            prop_assert_eq!(config.general >> 32, 0);
            prop_assert_eq!(config.select.stopped() & !capabilities.select_bits, 0);
            prop_assert_eq!(config.select.is_user(), !attr.has(PerfEventAttr::EXCLUDE_USER));
            for counter in each_counter(config.counters()) {
                let select = config.select_on(counter);
                prop_assert_eq!(select.check_counter(counter), Ok(()));
                prop_assert_eq!(select.is_user(), config.select.is_user());
                prop_assert_eq!(select.is_kernel(), config.select.is_kernel());
            }
            prop_assert!(attr.check().is_ok());
        }
    }

    #[test]
    fn any_bytes_cause_no_panic((capabilities, cpus) in cpu(), bytes in any::<[[u8; 16]; 9]>()) {
        let attr = PerfEventAttr::read_from_bytes(bytes.as_flattened());
        let attr = attr.map_err(|_| TestCaseError::fail("the size is wrong"))?;
        let _ = new_config(&attr, &capabilities, cpus);
    }

    #[test]
    fn an_event_and_its_encoding_have_the_same_counters(
        (capabilities, cpus) in cpu(),
        attr in attr().prop_filter("a dummy has no encoding", |attr| !is_dummy(attr)),
    ) {
        if let Ok(config) = new_config(&attr, &capabilities, cpus) {
            let raw_config = new_config(&raw(config.select.stopped()), &capabilities, cpus);
            prop_assert_eq!(raw_config.map(|c| c.counters()), Ok(config.counters()));
        }
    }

    #[test]
    fn the_chosen_counter_fits(
        (capabilities, cpus) in cpu(),
        attr in attr().prop_filter("a dummy has no choice", |attr| !is_dummy(attr)),
        [free, shareable, same_select, agreeing, busy] in any::<[u64; 5]>(),
    ) {
        if let Ok(config) = new_config(&attr, &capabilities, cpus) {
            let own_counters = OwnCounters {
                agreeing,
                busy,
                ..OwnCounters::default()
            };
            let offers = AvailableCounters { free, shareable, same_select, own: own_counters };
            let fitting = config.counters() & (free | shareable) & !busy;
            let highest = |bits: u64| (0..32).rev().map(|n| 1 << n).find(|bit| bits & bit != 0);
            let fixed = config.fixed.map(CounterId::bit).filter(|bit| fitting & bit != 0);
            let expected = fixed
                .or(highest(fitting & agreeing))
                .or(highest(fitting & same_select))
                .or(highest(fitting & shareable))
                .or(highest(fitting));
            prop_assert_eq!(choose_counter(&config, &offers).map(CounterId::bit), expected);
        }
    }

    #[test]
    fn the_size_of_a_reading_is_that_of_its_words(
        bits in 0..32u64,
        events in prop::collection::vec(any::<[u64; 3]>(), 0..6),
        [enabled, running] in any::<[u64; 2]>(),
    ) {
        let format = ReadFormat::new(bits).map_err(|_| TestCaseError::fail("the bits exist"))?;
        let times = || EventTimes { enabled, running };
        let events = || events.iter().map(|&[value, id, lost]| EventValue { value, id, lost });
        let has = |bit: u64, word: u64| (bits & bit != 0).then_some(word);
        let all_times = || has(1, enabled).into_iter().chain(has(2, running));
        let ids = |e: EventValue| has(4, e.id).into_iter().chain(has(16, e.lost));

        let count = events().count();
        let group_words: Vec<u64> = [count as u64]
            .into_iter()
            .chain(all_times())
            .chain(events().flat_map(|e| [e.value].into_iter().chain(ids(e))))
            .collect();
        let mut buffer = [0; 32];
        let is_group = bits & 8 != 0;
        if is_group {
            prop_assert_eq!(format.size(count), group_words.len() * 8);
            prop_assert_eq!(format.encode_group(&mut buffer, events().map(Some), times), Some(&*group_words));
        } else if let Some(event) = events().next() {
            let event_words: Vec<u64> = [event.value].into_iter().chain(all_times()).chain(ids(event)).collect();
            let mut buffer = [0; MAX_WORDS_OF_ONE];
            prop_assert_eq!(format.size(count), event_words.len() * 8);
            prop_assert_eq!(format.encode_one(&mut buffer, event, times), &*event_words);
        }
    }
}
