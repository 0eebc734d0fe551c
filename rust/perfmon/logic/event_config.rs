// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The config of an event: a `struct perf_event_attr`, checked for these CPUs.
//!
//! Bits of the attribute that only concern records (`mmap`, `comm`, `task`, `sample_id_all` and so on) have no
//! effect on an event that only counts, and are accepted. `exclude_hv` and `exclude_idle` have no effect on x86, as
//! in Linux perf. `exclude_guest` is accepted because perf sets it for each event, but guests of KVM are counted
//! (see Documentation/known-issues.rst). An attribute that would change the count, or break what the
//! interface promises, is refused.

use super::cache_events::cache_event;
use super::counter::{CounterId, CounterKind};
use super::cpuid::{Capabilities, Microarchitecture};
use super::event_attr::{
    InvalidAttr, PerfEventAttr, PERF_COUNT_SW_DUMMY, PERF_PMU_TYPE_SHIFT, PERF_TYPE_HARDWARE,
    PERF_TYPE_HW_CACHE, PERF_TYPE_RAW, PERF_TYPE_SOFTWARE,
};
use super::event_counters::EventCounters;
use super::evtsel::EventSelect;
use super::hardware_events::hardware_event;
use super::precise;
use super::sampling::Sampling;
use super::sharing::Demand;

/// An event that these CPUs can count, or a dummy, which takes no counter and exists for its records
/// ([`Self::takes_counter`]).
///
/// # Invariants
///
/// There is a counter for the event: [`Self::counters`] is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventConfig {
    /// The event, with the modes. For the register of a counter see [`Self::select_on`].
    pub select: EventSelect,
    /// The fixed-function counter that counts exactly this event.
    pub fixed: Option<CounterId>,
    /// The bits of the general counters that can count the event.
    pub general: u64,
    /// The event is off until it is enabled.
    pub disabled: bool,
    /// New tasks that the task creates are counted, too.
    pub inherit: bool,
    /// Only new threads of the process inherit the event.
    pub inherit_thread: bool,
    /// The event must always be on a counter. This holds for all events, because none are multiplexed.
    pub pinned: bool,
    /// No other group may be on the counters at the same time.
    pub exclusive: bool,
    /// The next exec enables the event.
    pub enable_on_exec: bool,
    /// The event leaves a task that executes a program.
    pub remove_on_exec: bool,
    /// If too few counters are free, the event [takes turns](super::turns) with other events.
    pub takes_turns: bool,
    /// The samples and other records in the ring.
    pub sampling: Sampling,
}

impl EventConfig {
    /// Checks `attr` for CPUs that all have these capabilities and this microarchitecture.
    ///
    /// # Errors
    ///
    /// [`InvalidAttr::Invalid`] for attributes that Linux refuses for all events, [`InvalidAttr::Unsupported`] for
    /// attributes that no event of this module has, and then the errors of the event itself, in this order.
    pub fn new(
        attr: &PerfEventAttr,
        capabilities: &Capabilities,
        microarchitecture: Microarchitecture,
    ) -> Result<Self, InvalidAttr> {
        attr.check()?;
        check_support(attr)?;
        if is_dummy(attr) {
            return Self::dummy(attr);
        }
        let sampling = Sampling::new(attr)?;
        if let Some(stack) = &sampling.branches {
            match capabilities.last_branch {
                Some(records) => records.check(stack)?,
                None => return Err(InvalidAttr::Unsupported),
            }
        }
        let select = event_select(attr, capabilities, microarchitecture)?.with_modes(
            !attr.has(PerfEventAttr::EXCLUDE_USER),
            !attr.has(PerfEventAttr::EXCLUDE_KERNEL),
        );
        let mut counters = EventCounters::new(select, capabilities, microarchitecture)?;
        if attr.has(PerfEventAttr::PRECISE_IP) {
            counters = counters.only(precise::counters(attr, &sampling, select, capabilities)?)?;
        }
        // INVARIANT: There is a counter in `EventCounters`.
        Ok(Self::from_parts(attr, select, counters, sampling))
    }

    /// Returns the config of [`PERF_COUNT_SW_DUMMY`]. The event never happens, so neither a period nor an attribute of
    /// counters has an effect.
    fn dummy(attr: &PerfEventAttr) -> Result<Self, InvalidAttr> {
        if attr.has(PerfEventAttr::PRECISE_IP) {
            return Err(InvalidAttr::Unsupported);
        }
        let without_period = PerfEventAttr {
            sample_period: 0,
            ..*attr
        };
        let sampling = Sampling::new(&without_period)?;
        let select = EventSelect::new(0, 0).with_modes(
            !attr.has(PerfEventAttr::EXCLUDE_USER),
            !attr.has(PerfEventAttr::EXCLUDE_KERNEL),
        );
        let counters = EventCounters {
            fixed: Some(CounterId::NONE),
            general: 0,
        };
        // INVARIANT: `counters()` is the bit of `CounterId::NONE`, and not 0.
        Ok(Self {
            pinned: false,
            exclusive: false,
            ..Self::from_parts(attr, select, counters, sampling)
        })
    }

    fn from_parts(
        attr: &PerfEventAttr,
        select: EventSelect,
        EventCounters { fixed, general }: EventCounters,
        sampling: Sampling,
    ) -> Self {
        // INVARIANT: The caller passes at least one counter.
        Self {
            select,
            fixed,
            general,
            disabled: attr.has(PerfEventAttr::DISABLED),
            inherit: attr.has(PerfEventAttr::INHERIT),
            inherit_thread: attr.has(PerfEventAttr::INHERIT_THREAD),
            pinned: attr.has(PerfEventAttr::PINNED),
            exclusive: attr.has(PerfEventAttr::EXCLUSIVE),
            enable_on_exec: attr.has(PerfEventAttr::ENABLE_ON_EXEC),
            remove_on_exec: attr.has(PerfEventAttr::REMOVE_ON_EXEC),
            takes_turns: false,
            sampling,
        }
    }

    /// Returns whether the event counts something.
    #[must_use]
    pub const fn takes_counter(&self) -> bool {
        self.counters() & !CounterId::NONE.bit() != 0
    }

    /// Returns the bits of all counters that can count the event.
    #[must_use]
    pub const fn counters(&self) -> u64 {
        EventCounters {
            fixed: self.fixed,
            general: self.general,
        }
        .bits()
    }

    /// Returns the event select for `counter`: the event, or only its modes on a fixed-function counter.
    #[must_use]
    pub const fn select_on(&self, counter: CounterId) -> EventSelect {
        match counter.kind() {
            _ if counter.is_none() => EventSelect::new(0, 0),
            CounterKind::General(_) => self.select,
            CounterKind::Fixed(_) => {
                EventSelect::new(0, 0).with_modes(self.select.is_user(), self.select.is_kernel())
            }
        }
    }

    /// Returns what the event requires of `counter`.
    #[must_use]
    pub const fn demand_on(&self, counter: CounterId) -> Demand {
        let is_sampled = self.sampling.trigger.is_sampled();
        Demand {
            select: self.select_on(counter),
            is_sampled,
            needs_own_counter: is_sampled && (self.select.is_kernel() || self.sampling.precise),
        }
    }
}

/// Returns whether the event counts nothing.
const fn is_dummy(attr: &PerfEventAttr) -> bool {
    attr.type_ == PERF_TYPE_SOFTWARE && attr.config == PERF_COUNT_SW_DUMMY
}

/// Refuses an attribute that asks for guests only, an AUX area, signals, or another register than the event select.
const fn check_support(attr: &PerfEventAttr) -> Result<(), InvalidAttr> {
    // EXCLUDE_HOST counts guests only. AMD's event selects have a bit for this, Intel's have none.
    const REFUSED_FLAGS: u64 =
        PerfEventAttr::EXCLUDE_HOST | PerfEventAttr::AUX_OUTPUT | PerfEventAttr::SIGTRAP;

    let has_aux = attr.aux_sample_size != 0 || attr.aux_action != 0;
    // `config1` to `config4` are values for registers besides the event select, which no event of this module needs.
    let has_extra_config =
        attr.config1 != 0 || attr.config2 != 0 || attr.config3 != 0 || attr.config4 != 0;
    if attr.has(REFUSED_FLAGS) || has_aux || has_extra_config {
        Err(InvalidAttr::Unsupported)
    } else {
        Ok(())
    }
}

/// Returns the event select of the attribute. Its modes don't matter: the caller replaces them.
fn event_select(
    attr: &PerfEventAttr,
    capabilities: &Capabilities,
    microarchitecture: Microarchitecture,
) -> Result<EventSelect, InvalidAttr> {
    match attr.type_ {
        PERF_TYPE_HARDWARE => hardware_event(generic_event(attr)?, capabilities, microarchitecture),
        PERF_TYPE_HW_CACHE => cache_event(generic_event(attr)?, microarchitecture),
        PERF_TYPE_RAW => raw_event(attr.config, capabilities),
        _ => Err(InvalidAttr::Unsupported),
    }
}

/// Returns the number of an event whose `config` may name a PMU in its upper half.
///
/// The PMU of the CPUs has the type `PERF_TYPE_RAW`; 0 means the same PMU. This module has no other PMU, not even
/// those of a hybrid processor's kinds of cores.
const fn generic_event(attr: &PerfEventAttr) -> Result<u32, InvalidAttr> {
    match (attr.config >> PERF_PMU_TYPE_SHIFT) as u32 {
        0 | PERF_TYPE_RAW => Ok(attr.config as u32),
        _ => Err(InvalidAttr::Unsupported),
    }
}

/// Returns the event select in `config`.
///
/// The bits for modes, interrupt and enable have no effect, as in Linux perf. Other bits that the module or these CPUs
/// can't set are refused, whereas Linux drops them and counts something else: pin control, AnyThread, Intel's IN_TX and
/// IN_TXCP, AMD's HostOnly and GuestOnly.
fn raw_event(config: u64, capabilities: &Capabilities) -> Result<EventSelect, InvalidAttr> {
    EventSelect::from_abi(config, capabilities.select_bits).map_err(|_| InvalidAttr::Invalid)
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_event_config))]
mod tests {
    use super::super::cpuid::Architecture;
    use super::super::event_attr::{PERF_COUNT_HW_INSTRUCTIONS, PERF_COUNT_HW_REF_CPU_CYCLES};
    use super::super::read_format::ReadFormat;
    use super::*;
    use InvalidAttr::{Invalid, NoEvent, Unsupported};
    use Microarchitecture::{Skylake, Zen4};

    const INTEL: Capabilities = Capabilities {
        general: 8,
        fixed: 0b111,
        arch_events: 0x7f,
        ..Capabilities::NONE
    };
    const AMD: Capabilities = Capabilities {
        architecture: Architecture::AmdV2,
        general: 6,
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
        EventConfig::new(&attr, &INTEL, Skylake)
    }

    fn amd_config(attr: PerfEventAttr) -> Result<EventConfig, InvalidAttr> {
        EventConfig::new(&attr, &AMD, Zen4)
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
