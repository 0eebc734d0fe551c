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
    /// The general counters, as a mask, each of which can count the event on every kind of core that counts it.
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
    /// The event must always be on a counter. All enabled events are always on a counter, except
    /// events that take turns. A pinned event takes no turns.
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

    /// Returns the config of [`PERF_COUNT_SW_DUMMY`]. The event never happens, so a period and the
    /// attributes for counters have no effect.
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

    /// Returns the demand of the event on `counter`.
    #[must_use]
    pub fn demand_on(&self, counter: CounterId) -> Demand {
        let is_sampled = self.sampling.trigger.is_sampled();
        Demand {
            encodings: self.encodings_on(counter),
            is_sampled,
            needs_own_counter: is_sampled && (self.select.is_kernel() || self.sampling.is_precise),
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
mod tests;
