// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The tests of the parent module. They are in an inline module, since `kunit_tests` accepts only
//! inline modules.

#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_event_config))]
mod suite {
    use super::super::*;
    use crate::logic::cpuid::{Architecture, Microarchitecture};
    use crate::logic::event_attr::{
        PERF_COUNT_HW_INSTRUCTIONS, PERF_COUNT_HW_REF_CPU_CYCLES, PERF_TYPE_RAW,
    };
    use crate::logic::read_format::ReadFormat;
    use InvalidAttr::{Invalid, NoEvent, Unsupported};
    use Microarchitecture::{GoldenCove, Gracemont, Skylake, Zen4};

    const INTEL: Capabilities = Capabilities {
        microarchitecture: Skylake,
        general_count: 8,
        fixed: 0b111,
        arch_events: 0x7f,
        ..Capabilities::NONE
    };
    const AMD: Capabilities = Capabilities {
        architecture: Architecture::AmdV2,
        microarchitecture: Zen4,
        general_count: 6,
        arch_events: 0x7b,
        select_bits: EventSelect::COMMON_BITS | EventSelect::EVENT_HIGH,
        ..Capabilities::NONE
    };

    const CYCLES: PerfEventAttr = PerfEventAttr::ZERO;

    fn attr(type_: u32, config: u64) -> PerfEventAttr {
        PerfEventAttr {
            type_,
            config,
            ..CYCLES
        }
    }

    fn attr_with_flags(flags: u64) -> PerfEventAttr {
        PerfEventAttr { flags, ..CYCLES }
    }

    fn intel_config(attr: PerfEventAttr) -> Result<EventConfig, InvalidAttr> {
        EventConfig::new(&attr, &INTEL, &CoreKinds::one(&INTEL))
    }

    fn amd_config(attr: PerfEventAttr) -> Result<EventConfig, InvalidAttr> {
        EventConfig::new(&attr, &AMD, &CoreKinds::one(&AMD))
    }

    /// Returns the event select and the counters.
    fn select_and_counters(
        config: Result<EventConfig, InvalidAttr>,
    ) -> Result<(u64, u64), InvalidAttr> {
        config.map(|config| (config.select.stopped(), config.counters()))
    }

    #[test]
    fn hardware_events_have_select_and_counters() {
        let instructions = attr(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS.into());
        let ref_cycles = attr(PERF_TYPE_HARDWARE, PERF_COUNT_HW_REF_CPU_CYCLES.into());
        assert_eq!(
            select_and_counters(intel_config(instructions)),
            Ok((0x3_00c0, 1 << 32 | 0xff))
        );
        assert_eq!(
            select_and_counters(intel_config(CYCLES)),
            Ok((0x3_003c, 2 << 32 | 0xff))
        );
        assert_eq!(
            select_and_counters(intel_config(ref_cycles)),
            Ok((0x3_0300, 4 << 32))
        );
        assert_eq!(
            select_and_counters(amd_config(CYCLES)),
            Ok((0x3_0076, 0x3f))
        );
        assert_eq!(
            select_and_counters(intel_config(attr(PERF_TYPE_HARDWARE, 7))),
            Err(NoEvent)
        );
        assert_eq!(
            select_and_counters(intel_config(attr(PERF_TYPE_HARDWARE, 10))),
            Err(Invalid)
        );
    }

    #[test]
    fn cache_events_have_select_and_counters() {
        let l1d_read = attr(PERF_TYPE_HW_CACHE, 0);
        let branch_read_miss = attr(PERF_TYPE_HW_CACHE, 0x1_0005);
        assert_eq!(
            select_and_counters(intel_config(l1d_read)),
            Ok((0x3_81d0, 0x0f))
        );
        assert_eq!(
            select_and_counters(intel_config(branch_read_miss)),
            Ok((0x3_00c5, 0xff))
        );
        assert_eq!(
            select_and_counters(amd_config(branch_read_miss)),
            Ok((0x3_00c3, 0x3f))
        );
        assert_eq!(
            select_and_counters(intel_config(attr(PERF_TYPE_HW_CACHE, 2))),
            Err(NoEvent)
        );
        assert_eq!(
            select_and_counters(intel_config(attr(PERF_TYPE_HW_CACHE, 7))),
            Err(Invalid)
        );
        assert_eq!(
            select_and_counters(intel_config(attr(PERF_TYPE_HW_CACHE, 8 << 32))),
            Err(Unsupported)
        );
    }

    #[test]
    fn raw_events_have_select_and_counters() {
        let raw_attr = |config| attr(PERF_TYPE_RAW, config);
        assert_eq!(
            select_and_counters(intel_config(raw_attr(0xc0))),
            Ok((0x3_00c0, 1 << 32 | 0xff))
        );
        assert_eq!(
            select_and_counters(intel_config(raw_attr(0x0300))),
            Ok((0x3_0300, 4 << 32))
        );
        assert_eq!(
            select_and_counters(intel_config(raw_attr(0x0185_4f2e))),
            Ok((0x0187_4f2e, 0xff))
        );
        // Modes, interrupt and enable have no effect.
        assert_eq!(
            select_and_counters(intel_config(raw_attr(0x0053_00c5))),
            Ok((0x3_00c5, 0xff))
        );
        // Pin control, AnyThread and IN_TX are refused.
        assert_eq!(
            select_and_counters(intel_config(raw_attr(0x0008_00c5))),
            Err(Invalid)
        );
        assert_eq!(
            select_and_counters(intel_config(raw_attr(0x0020_00c5))),
            Err(Invalid)
        );
        assert_eq!(
            select_and_counters(intel_config(raw_attr(0x1_0000_00c5))),
            Err(Invalid)
        );
        // AMD's longer event numbers are accepted; GuestOnly and HostOnly are refused.
        assert_eq!(
            select_and_counters(amd_config(raw_attr(0x1_0000_0120))),
            Ok((0x1_0003_0120, 0x3f))
        );
        assert_eq!(
            select_and_counters(amd_config(raw_attr(1 << 40 | 0x76))),
            Err(Invalid)
        );
        assert_eq!(
            select_and_counters(amd_config(raw_attr(1 << 41 | 0x76))),
            Err(Invalid)
        );
    }

    #[test]
    fn other_pmus_are_refused() {
        assert_eq!(
            select_and_counters(intel_config(attr(1, 0))),
            Err(Unsupported)
        );
        assert_eq!(
            select_and_counters(intel_config(attr(5, 0))),
            Err(Unsupported)
        );
        assert_eq!(
            select_and_counters(intel_config(attr(u32::MAX, 0))),
            Err(Unsupported)
        );
        let on_pmu = |pmu: u64, number| intel_config(attr(PERF_TYPE_HARDWARE, pmu << 32 | number));
        assert_eq!(
            select_and_counters(on_pmu(4, 0)),
            select_and_counters(intel_config(CYCLES))
        );
        assert_eq!(select_and_counters(on_pmu(8, 0)), Err(Unsupported));
    }

    #[test]
    fn dummy_takes_no_counter() {
        let dummy_attr = PerfEventAttr {
            sample_period: 1,
            // PERF_SAMPLE_RAW, which samples can't have.
            sample_type: 1 << 10,
            flags: PerfEventAttr::PINNED | PerfEventAttr::EXCLUSIVE | PerfEventAttr::MMAP,
            ..attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY)
        };
        let config = intel_config(dummy_attr);
        assert!(config.is_ok_and(|config| {
            !config.takes_counter()
                && !config.pinned
                && !config.exclusive
                && !config.sampling.trigger.is_sampled()
                && config.sampling.mappings.are_wanted()
                && config.select_on(CounterId::NONE).stopped() == 0
        }));
        assert!(intel_config(CYCLES).is_ok_and(|config| config.takes_counter()));
        assert_eq!(
            select_and_counters(intel_config(attr(PERF_TYPE_SOFTWARE, 10))),
            Err(Unsupported)
        );
    }

    #[test]
    fn modes_follow_from_exclude() {
        let modes = |exclude| {
            intel_config(attr_with_flags(exclude))
                .map(|config| (config.select.is_user(), config.select.is_kernel()))
        };
        assert_eq!(modes(0), Ok((true, true)));
        assert_eq!(modes(PerfEventAttr::EXCLUDE_USER), Ok((false, true)));
        assert_eq!(modes(PerfEventAttr::EXCLUDE_KERNEL), Ok((true, false)));
        let flags_without_effect =
            PerfEventAttr::EXCLUDE_HV | PerfEventAttr::EXCLUDE_IDLE | PerfEventAttr::EXCLUDE_GUEST;
        assert_eq!(modes(flags_without_effect), Ok((true, true)));
        assert_eq!(modes(PerfEventAttr::EXCLUDE_HOST), Err(Unsupported));
    }

    #[test]
    fn flags_are_copied_to_the_config() {
        let flag_fields = |bits| {
            intel_config(attr_with_flags(bits)).map(|c| {
                [
                    c.disabled,
                    c.inherit,
                    c.inherit_thread,
                    c.pinned,
                    c.exclusive,
                    c.enable_on_exec,
                ]
                .map(u8::from)
            })
        };
        assert_eq!(flag_fields(0), Ok([0, 0, 0, 0, 0, 0]));
        assert_eq!(flag_fields(PerfEventAttr::DISABLED), Ok([1, 0, 0, 0, 0, 0]));
        assert_eq!(flag_fields(PerfEventAttr::INHERIT), Ok([0, 1, 0, 0, 0, 0]));
        let thread_flags = PerfEventAttr::INHERIT | PerfEventAttr::INHERIT_THREAD;
        assert_eq!(flag_fields(thread_flags), Ok([0, 1, 1, 0, 0, 0]));
        assert_eq!(flag_fields(PerfEventAttr::PINNED), Ok([0, 0, 0, 1, 0, 0]));
        assert_eq!(
            flag_fields(PerfEventAttr::EXCLUSIVE),
            Ok([0, 0, 0, 0, 1, 0])
        );
        assert_eq!(
            flag_fields(PerfEventAttr::ENABLE_ON_EXEC),
            Ok([0, 0, 0, 0, 0, 1])
        );
        let attr_with_read_format = PerfEventAttr {
            read_format: 0x1f,
            ..CYCLES
        };
        assert!(intel_config(attr_with_read_format)
            .is_ok_and(|config| Ok(config.sampling.read) == ReadFormat::new(0x1f)));
    }

    const BIG: Capabilities = Capabilities {
        microarchitecture: GoldenCove,
        fixed: 0b1111,
        arch_events: 0xff,
        ..INTEL
    };
    const SMALL: Capabilities = Capabilities {
        microarchitecture: Gracemont,
        general_count: 6,
        ..INTEL
    };
    /// perf's number of the PMU of the small cores.
    const ATOM: u32 = 10;
    const L1I_MISS: u64 = 0x1_0001;
    const L1D_MISS: u64 = 0x1_0000;

    fn hybrid_config(attr: PerfEventAttr) -> Result<EventConfig, InvalidAttr> {
        let mut kinds = CoreKinds::NONE;
        kinds.add(&BIG);
        kinds.add(&SMALL);
        kinds.set_types(|kind| Some([PERF_TYPE_RAW, ATOM, ATOM][kind.number()]));
        EventConfig::new(&attr, &BIG.intersection(SMALL), &kinds)
    }

    /// Returns the event select on the big cores, the event select on the small cores, and the
    /// counters. An event select is 0 if the cores don't count the event.
    fn hybrid_encoding(type_: u32, config: u64) -> Result<(u64, u64, u64), InvalidAttr> {
        let config = hybrid_config(attr(type_, config))?;
        let select_on = |number| {
            let select = config.encodings.for_kind(CoreKind::new(number)?);
            select.map(EventSelect::stopped)
        };
        let [big, small] = [0, 1].map(|number| select_on(number).unwrap_or(0));
        assert_eq!(config.counts_on_all_cpus, big != 0 && small != 0);
        assert_eq!(config.is_same_on_all_cpus, big == small);
        Ok((big, small, config.counters()))
    }

    #[test]
    fn an_event_has_an_encoding_for_each_kind_of_core() {
        assert_eq!(
            hybrid_encoding(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS.into()),
            Ok((0x3_00c0, 0x3_00c0, 1 << 32 | 0x3f))
        );
        assert_eq!(
            hybrid_encoding(PERF_TYPE_HW_CACHE, L1I_MISS),
            Ok((0x3_e424, 0x3_0280, 0xf))
        );
        // Small cores have no such event.
        assert_eq!(
            hybrid_encoding(PERF_TYPE_HW_CACHE, L1D_MISS),
            Ok((0x3_e124, 0, 0xf))
        );
        assert_eq!(hybrid_encoding(PERF_TYPE_HW_CACHE, 2), Err(NoEvent));
        assert_eq!(hybrid_encoding(PERF_TYPE_HW_CACHE, 7), Err(Invalid));
    }

    #[test]
    fn an_event_may_name_a_kind_of_core() {
        let [big, small] = [PERF_TYPE_RAW, ATOM].map(|perf_type| u64::from(perf_type) << 32);
        assert_eq!(
            hybrid_encoding(PERF_TYPE_HARDWARE, big | 1),
            Ok((0x3_00c0, 0, 1 << 32 | 0xff))
        );
        assert_eq!(
            hybrid_encoding(PERF_TYPE_HW_CACHE, small | L1I_MISS),
            Ok((0, 0x3_0280, 0x3f))
        );
        assert_eq!(
            hybrid_encoding(PERF_TYPE_HW_CACHE, small | L1D_MISS),
            Err(NoEvent)
        );
        assert_eq!(
            hybrid_encoding(PERF_TYPE_HW_CACHE, 11 << 32 | L1I_MISS),
            Err(Unsupported)
        );
    }

    #[test]
    fn raw_events_count_on_one_kind_of_core() {
        assert_eq!(
            hybrid_encoding(PERF_TYPE_RAW, 0x81d0),
            Ok((0x3_81d0, 0, 0xf))
        );
        assert_eq!(hybrid_encoding(ATOM, 0x81d0), Ok((0, 0x3_81d0, 0x3f)));
        assert_eq!(
            hybrid_encoding(PERF_TYPE_RAW, 0x00c0),
            Ok((0x3_00c0, 0, 1 << 32 | 0xff))
        );
        assert_eq!(hybrid_encoding(11, 0x00c0), Err(Unsupported));
        // The event needs an extra register on small cores only.
        assert_eq!(hybrid_encoding(ATOM, 0x05d0), Err(Unsupported));
        assert_eq!(
            hybrid_encoding(PERF_TYPE_RAW, 0x05d0),
            Ok((0x3_05d0, 0, 0xf))
        );
    }

    #[test]
    fn an_event_of_one_kind_of_core_can_have_any_counter_of_that_kind() {
        let counters = |type_, config| hybrid_config(attr(type_, config)).map(|c| c.counters());
        // Branches, as an event of each kind and as an event of both kinds.
        assert_eq!(counters(PERF_TYPE_RAW, 0x00c4), Ok(0xff));
        assert_eq!(counters(ATOM, 0x00c4), Ok(0x3f));
        assert_eq!(counters(PERF_TYPE_HARDWARE, 4), Ok(0x3f));
        // Slots, which fixed-function counter 3 of the big cores counts.
        assert_eq!(counters(PERF_TYPE_RAW, 0x0400), Ok(1 << 35));
        assert_eq!(counters(PERF_TYPE_RAW, 0x01a4), Ok(0xff));
        assert_eq!(counters(ATOM, 0x0400), Err(NoEvent));
        // The upper half names a kind; only big cores have the last event.
        let [big, small] = [PERF_TYPE_RAW, ATOM].map(|perf_type| u64::from(perf_type) << 32);
        assert_eq!(counters(PERF_TYPE_HARDWARE, big | 4), Ok(0xff));
        assert_eq!(counters(PERF_TYPE_HARDWARE, small | 4), Ok(0x3f));
        assert_eq!(counters(PERF_TYPE_HW_CACHE, L1D_MISS), Ok(0xf));
    }

    /// Returns the raw event with this `config1`.
    const fn extra_attr(type_: u32, config: u64, config1: u64) -> PerfEventAttr {
        PerfEventAttr {
            type_,
            config,
            config1,
            ..CYCLES
        }
    }

    /// Returns the event select without the mark, the general counters, and the number and value of the extra register.
    fn extra_config(config: &EventConfig) -> Option<(u64, u64, u32, u64)> {
        let extra = config.extra?;
        assert!(config.select != config.select.without_extra_register());
        assert_eq!(
            config.select_on_kind(CounterId::FIRST, extra.kind),
            Some(config.select)
        );
        Some((
            config.select.without_extra_register().stopped(),
            config.general,
            extra.register.msr().number(),
            extra.value,
        ))
    }

    #[test]
    fn an_event_may_need_an_extra_register() {
        let config = |config, config1| {
            let config = intel_config(extra_attr(PERF_TYPE_RAW, config, config1));
            config.map(|config| extra_config(&config))
        };
        assert_eq!(
            config(0x01b7, 0x1_0001),
            Ok(Some((0x3_01b7, 0xff, 0x1a6, 0x1_0001)))
        );
        assert_eq!(
            config(0x01bb, 0x1_0001),
            Ok(Some((0x3_01bb, 0xff, 0x1a7, 0x1_0001)))
        );
        assert_eq!(
            config(0x01c6, 0x40_0406),
            Ok(Some((0x3_01c6, 0x0f, 0x3f7, 0x40_0406)))
        );
        assert_eq!(config(0x01b7, 0), Ok(Some((0x3_01b7, 0xff, 0x1a6, 0))));
        // Other bits of the event select don't matter.
        assert_eq!(
            config(0x0104_01b7, 1),
            Ok(Some((0x0107_01b7, 0xff, 0x1a6, 1)))
        );
        assert_eq!(config(0xc0, 0), Ok(None));
        assert_eq!(config(0x01b7, 1 << 12), Err(Invalid));
        assert_eq!(config(0x01c6, 8), Err(Invalid));
        assert_eq!(config(0xc0, 1), Err(Invalid));
        assert_eq!(config(0x02b7, 1), Err(Invalid));
        assert_eq!(config(0x01cd, 3), Err(Unsupported));
    }

    #[test]
    fn registers_of_offcore_responses_are_interchangeable() {
        let config = intel_config(extra_attr(PERF_TYPE_RAW, 0x0104_01b7, 0x1_0001));
        assert!(config.is_ok());
        if let Ok(mut config) = config {
            let original = config;
            assert!(config.swap_extra_register());
            assert_eq!(
                extra_config(&config),
                Some((0x0107_01bb, 0xff, 0x1a7, 0x1_0001))
            );
            assert!(config.swap_extra_register());
            assert_eq!(config, original);
        }
        let config = intel_config(extra_attr(PERF_TYPE_RAW, 0x01c6, 1));
        assert!(config.is_ok_and(|mut config| !config.swap_extra_register()));
    }

    #[test]
    fn the_other_register_may_lack_bits() {
        for (value, is_swapped) in [(1 << 63 | 1, false), (1, true)] {
            let config = hybrid_config(extra_attr(ATOM, 0x01b7, value));
            assert!(config.is_ok());
            if let Ok(mut config) = config {
                assert_eq!(config.swap_extra_register(), is_swapped);
                let expected = if is_swapped { 0x3_02b7 } else { 0x3_01b7 };
                let select = extra_config(&config).map(|(select, ..)| select);
                assert_eq!(select, Some(expected));
            }
        }
        let wrong = hybrid_config(extra_attr(ATOM, 0x02b7, 1 << 63));
        assert_eq!(wrong.map(|config| config.general), Err(Invalid));
        // Big cores have no such event.
        let wrong = hybrid_config(extra_attr(PERF_TYPE_RAW, 0x02b7, 1));
        assert_eq!(wrong.map(|config| config.general), Err(Invalid));
    }

    #[test]
    fn a_group_counts_on_the_same_kinds_of_cores() {
        let instructions = attr(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS.into());
        let configs = [
            instructions,
            attr(PERF_TYPE_HW_CACHE, L1I_MISS),
            attr(PERF_TYPE_RAW, 0x81d0),
            attr(ATOM, 0x81d0),
            attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY),
        ]
        .map(hybrid_config);
        assert!(configs.iter().all(Result::is_ok));
        if let [Ok(all), Ok(other), Ok(big), Ok(small), Ok(dummy)] = configs {
            assert!(other.can_share_group_with(&all) && all.can_share_group_with(&other));
            assert!(!big.can_share_group_with(&all) && !all.can_share_group_with(&big));
            assert!(!big.can_share_group_with(&small) && big.can_share_group_with(&big));
            assert!(dummy.can_share_group_with(&big) && !big.can_share_group_with(&dummy));
            assert!(all.can_share_group_with(&dummy));
            assert!(big.may_wait() && !all.may_wait() && !other.may_wait() && !dummy.may_wait());
            // Events of the two kinds agree on a counter, since they never count on the same CPU.
            let counter = CounterId::FIRST;
            assert!(big.demand_on(counter).agrees(small.demand_on(counter)));
            assert!(big.demand_on(counter).agrees(big.demand_on(counter)));
            assert!(!all.demand_on(counter).agrees(big.demand_on(counter)));
        }
    }

    #[test]
    fn flags_of_records_are_accepted() {
        let record_flags = PerfEventAttr::MMAP
            | PerfEventAttr::COMM
            | PerfEventAttr::INHERIT_STAT
            | PerfEventAttr::TASK
            | PerfEventAttr::WATERMARK
            | PerfEventAttr::MMAP_DATA
            | PerfEventAttr::SAMPLE_ID_ALL
            | PerfEventAttr::EXCLUDE_CALLCHAIN_KERNEL
            | PerfEventAttr::EXCLUDE_CALLCHAIN_USER
            | PerfEventAttr::MMAP2
            | PerfEventAttr::COMM_EXEC
            | PerfEventAttr::USE_CLOCKID
            | PerfEventAttr::CONTEXT_SWITCH
            | PerfEventAttr::WRITE_BACKWARD
            | PerfEventAttr::NAMESPACES
            | PerfEventAttr::KSYMBOL
            | PerfEventAttr::BPF_EVENT
            | PerfEventAttr::CGROUP
            | PerfEventAttr::TEXT_POKE
            | PerfEventAttr::BUILD_ID
            | PerfEventAttr::DEFER_CALLCHAIN
            | PerfEventAttr::DEFER_OUTPUT;
        let counting_attr = PerfEventAttr {
            sample_type: 1 << 16,
            wakeup_events: 1,
            aux_watermark: 1,
            sample_max_stack: 9,
            // CLOCK_MONOTONIC
            clockid: 1,
            ..attr_with_flags(record_flags)
        };
        assert_eq!(
            select_and_counters(intel_config(counting_attr)),
            select_and_counters(intel_config(CYCLES))
        );
    }

    #[test]
    fn unsupported_attributes_are_refused() {
        let refused_flags = [
            1 << 15,
            1 << 16,
            PerfEventAttr::AUX_OUTPUT,
            PerfEventAttr::REMOVE_ON_EXEC | PerfEventAttr::SIGTRAP,
        ];
        for bits in refused_flags {
            assert_eq!(
                select_and_counters(intel_config(attr_with_flags(bits))),
                Err(Unsupported)
            );
        }
        let refused_attrs = [
            PerfEventAttr {
                sample_period: 1,
                sample_type: 1 << 10,
                ..CYCLES
            },
            PerfEventAttr {
                aux_sample_size: 1,
                ..CYCLES
            },
            PerfEventAttr {
                aux_action: 1,
                ..CYCLES
            },
            PerfEventAttr {
                config1: 1,
                ..CYCLES
            },
            PerfEventAttr {
                config2: 1,
                ..CYCLES
            },
            PerfEventAttr {
                config3: 1,
                ..CYCLES
            },
            PerfEventAttr {
                config4: 1,
                ..CYCLES
            },
        ];
        for attr in refused_attrs {
            assert_eq!(select_and_counters(intel_config(attr)), Err(Unsupported));
        }
    }

    #[test]
    fn invalid_precedes_unsupported() {
        let two_mistakes = PerfEventAttr {
            sample_period: 1 << 63,
            ..attr_with_flags(PerfEventAttr::FREQ)
        };
        assert_eq!(
            select_and_counters(intel_config(two_mistakes)),
            Err(Invalid)
        );
        let wrong_event = PerfEventAttr {
            config1: 1,
            ..attr(PERF_TYPE_HARDWARE, 10)
        };
        assert_eq!(
            select_and_counters(intel_config(wrong_event)),
            Err(Unsupported)
        );
    }

    #[test]
    fn fixed_counters_select_modes_only() {
        let select_and_counters = |counter: Option<CounterId>| {
            let config = intel_config(attr_with_flags(PerfEventAttr::EXCLUDE_KERNEL)).ok()?;
            Some(config.select_on(counter?).stopped())
        };
        assert_eq!(select_and_counters(CounterId::fixed(1)), Some(0x1_0000));
        assert_eq!(select_and_counters(CounterId::general(1)), Some(0x1_003c));
    }
}
