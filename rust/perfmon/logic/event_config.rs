// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The config of an event: a `struct perf_event_attr`, checked for these CPUs.
//!
//! Bits of the attribute that only concern records (`mmap`, `comm`, `task`, `sample_id_all` and so on) have no
//! effect on an event that only counts, and are accepted. `exclude_hv` and `exclude_idle` have no effect on x86, as
//! in Linux perf. `exclude_guest` is accepted because perf sets it for each event, but guests of KVM are counted
//! (see Documentation/known-issues.rst). An attribute that would change the count, or break what the
//! interface promises, is refused.

use super::core_kinds::{CoreKind, CoreKinds, Encodings};
use super::counter::{CounterId, CounterKind};
use super::cpuid::Capabilities;
use super::event_attr::{
    InvalidAttr, PerfEventAttr, PERF_COUNT_SW_DUMMY, PERF_TYPE_HARDWARE, PERF_TYPE_HW_CACHE,
    PERF_TYPE_SOFTWARE,
};
use super::event_counters::EventCounters;
use super::event_encoding::{encode, Alternative, EncodedEvent, Extra};
use super::evtsel::EventSelect;
use super::extra_registers::ExtraValue;
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
    /// The event on the first kind of core that counts it, with the modes. For the register of a counter see
    /// [`Self::select_on`].
    pub select: EventSelect,
    /// The event on each kind of core, with the modes.
    encodings: Encodings,
    /// All CPUs count the event.
    pub counts_on_all_cpus: bool,
    /// All CPUs count the event, with the same event select.
    pub is_same_on_all_cpus: bool,
    /// The fixed-function counter that counts exactly this event, on all kinds of cores that count it.
    pub fixed: Option<CounterId>,
    /// The bits of the general counters that can count the event, on all kinds of cores that count it.
    pub general: u64,
    /// The extra register that the event needs, and its value.
    pub extra: Option<ExtraValue>,
    /// The other extra register that can be used for the event, if there is one.
    alternative: Option<Alternative>,
    /// The event is off until it is enabled.
    pub disabled: bool,
    /// New tasks that the task creates are counted, too.
    pub inherit: bool,
    /// Only new threads of the process inherit the event.
    pub inherit_thread: bool,
    /// The event must always be on a counter. All events are, except those that take turns; a pinned event takes no turns.
    pub pinned: bool,
    /// No other group may be on the counters at the same time.
    pub exclusive: bool,
    /// The next exec enables the event.
    pub enable_on_exec: bool,
    /// An exec removes the event from the task.
    pub remove_on_exec: bool,
    /// If too few counters are free, the event [takes turns](super::turns) with other events.
    pub takes_turns: bool,
    /// The samples and other records in the ring.
    pub sampling: Sampling,
}

impl EventConfig {
    /// Checks `attr` for CPUs that all have the capabilities `common`, and are of these kinds.
    ///
    /// # Errors
    ///
    /// The errors are checked in this order:
    ///
    /// - [`InvalidAttr::Invalid`] for attributes that Linux refuses for all events.
    /// - [`InvalidAttr::Unsupported`] for attributes that no event of this module has.
    /// - The errors of the event itself. If no kind of core has the event, these are the errors of the first kind that
    ///   the attribute asks for.
    pub fn new(
        attr: &PerfEventAttr,
        common: &Capabilities,
        kinds: &CoreKinds,
    ) -> Result<Self, InvalidAttr> {
        attr.check()?;
        check_support(attr)?;
        if is_dummy(attr) {
            return Self::dummy(attr);
        }
        let mut sampling = Sampling::new(attr)?;
        if let Some(stack) = &sampling.branches {
            match common.last_branch {
                Some(records) => records.check(stack)?,
                None => return Err(InvalidAttr::Unsupported),
            }
        }
        sampling.use_recorded_branches(attr, common.pebs, common.last_branch);
        let EncodedEvent {
            encodings,
            counters,
            extra,
            access,
        } = encode(attr, &sampling, common, kinds)?;
        let select = encodings.first().ok_or(InvalidAttr::NoEvent)?;
        let (extra, alternative) = match extra {
            Some(Extra { value, alternative }) => (Some(value), alternative),
            None => (None, None),
        };
        // INVARIANT: There is a counter in `EventCounters`.
        Ok(Self {
            encodings,
            extra,
            alternative,
            counts_on_all_cpus: encodings.are_on_all(kinds),
            is_same_on_all_cpus: encodings.are_same_on(kinds),
            ..Self::from_parts(attr, select, counters, Sampling { access, ..sampling })
        })
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
            encodings: Encodings::same(select),
            counts_on_all_cpus: true,
            is_same_on_all_cpus: true,
            fixed,
            general,
            extra: None,
            alternative: None,
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

    /// Uses the other extra register that can count the event, with its event select. A second call undoes this. Returns
    /// false without a change if there is no other register.
    pub fn swap_extra_register(&mut self) -> bool {
        let (Some(extra), Some(other)) = (&mut self.extra, self.alternative) else {
            return false;
        };
        // INVARIANT: There is a counter in `Alternative::general`.
        self.alternative = Some(Alternative {
            register: extra.register,
            select: self.select,
            general: self.general,
        });
        extra.register = other.register;
        self.select = other.select;
        self.general = other.general;
        self.encodings.set(extra.kind, other.select);
        true
    }

    /// Returns whether the event needs a counter, as all events but dummies do.
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

    /// Returns the event select for `counter` on the first kind of core that counts the event: the event, or only its
    /// modes on a fixed-function counter.
    #[must_use]
    pub const fn select_on(&self, counter: CounterId) -> EventSelect {
        register_select(self.select, counter)
    }

    /// Returns the event select for `counter` on a kind of core, or `None` if that kind does not count the event.
    #[must_use]
    pub fn select_on_kind(&self, counter: CounterId, kind: CoreKind) -> Option<EventSelect> {
        let select = self.encodings.for_kind(kind)?;
        Some(register_select(select, counter))
    }

    /// Returns the event selects for `counter` on each kind of core.
    #[must_use]
    pub fn encodings_on(&self, counter: CounterId) -> Encodings {
        self.encodings
            .map(|select| register_select(select, counter))
    }

    /// Returns whether CPUs of this kind count the event.
    #[must_use]
    pub const fn counts_on(&self, kind: CoreKind) -> bool {
        self.encodings.for_kind(kind).is_some()
    }

    /// Returns whether the event may be in the group of `leader`. The events of a group have the same times, so the same
    /// kinds of cores must count them. An event that counts nothing may follow any leader.
    #[must_use]
    pub fn can_share_group_with(&self, leader: &Self) -> bool {
        !self.takes_counter()
            || self.counts_on_all_cpus && leader.counts_on_all_cpus
            || self.encodings.are_on_same_kinds(&leader.encodings)
    }

    /// Returns whether an enabled event may have to wait: for its turn, or for its task to run on a CPU that counts it.
    #[must_use]
    pub const fn may_wait(&self) -> bool {
        self.takes_turns || !self.counts_on_all_cpus
    }

    /// Returns what the event requires of `counter`.
    #[must_use]
    pub fn demand_on(&self, counter: CounterId) -> Demand {
        let is_sampled = self.sampling.trigger.is_sampled();
        Demand {
            encodings: self.encodings_on(counter),
            is_sampled,
            needs_own_counter: is_sampled && (self.select.is_kernel() || self.sampling.precise),
        }
    }
}

/// Returns whether the attribute asks for a dummy, an event that counts nothing.
const fn is_dummy(attr: &PerfEventAttr) -> bool {
    attr.type_ == PERF_TYPE_SOFTWARE && attr.config == PERF_COUNT_SW_DUMMY
}

/// Refuses an attribute that asks for guests only, for an AUX area, for signals, or for a register that the module does not
/// write.
const fn check_support(attr: &PerfEventAttr) -> Result<(), InvalidAttr> {
    // EXCLUDE_HOST counts guests only. AMD's event selects have a bit for this, Intel's have none.
    const REFUSED_FLAGS: u64 =
        PerfEventAttr::EXCLUDE_HOST | PerfEventAttr::AUX_OUTPUT | PerfEventAttr::SIGTRAP;

    let has_aux = attr.aux_sample_size != 0 || attr.aux_action != 0;
    // `config1` to `config4` are values for registers besides the event select. Only raw events can have one.
    let is_general = matches!(
        attr.type_,
        PERF_TYPE_HARDWARE | PERF_TYPE_HW_CACHE | PERF_TYPE_SOFTWARE
    );
    let has_extra_config = is_general && attr.config1 != 0
        || attr.config2 != 0
        || attr.config3 != 0
        || attr.config4 != 0;
    if attr.has(REFUSED_FLAGS) || has_aux || has_extra_config {
        Err(InvalidAttr::Unsupported)
    } else {
        Ok(())
    }
}

/// Returns the event select that the register of `counter` needs for the event `select`.
const fn register_select(select: EventSelect, counter: CounterId) -> EventSelect {
    match counter.kind() {
        _ if counter.is_none() => EventSelect::new(0, 0),
        CounterKind::General(_) => select,
        CounterKind::Fixed(_) => {
            EventSelect::new(0, 0).with_modes(select.is_user(), select.is_kernel())
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_event_config))]
mod tests {
    use super::super::cpuid::{Architecture, Microarchitecture};
    use super::super::event_attr::{
        PERF_COUNT_HW_INSTRUCTIONS, PERF_COUNT_HW_REF_CPU_CYCLES, PERF_TYPE_RAW,
    };
    use super::super::read_format::ReadFormat;
    use super::*;
    use InvalidAttr::{Invalid, NoEvent, Unsupported};
    use Microarchitecture::{GoldenCove, Gracemont, Skylake, Zen4};

    const INTEL: Capabilities = Capabilities {
        microarchitecture: Skylake,
        general: 8,
        fixed: 0b111,
        arch_events: 0x7f,
        ..Capabilities::NONE
    };
    const AMD: Capabilities = Capabilities {
        architecture: Architecture::AmdV2,
        microarchitecture: Zen4,
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
        general: 6,
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

    /// Returns the event select on the big cores and the one on the small cores, each 0 if the cores don't count the event,
    /// and the counters.
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
        // Branches, as an event of each kind and of both.
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
