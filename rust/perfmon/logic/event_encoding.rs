// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The encodings of the event that an attribute asks for: its event select on each kind of core, the counters that can count
//! it, and the extra register that it needs.
//!
//! The tests are those of [`super::event_config`].

use super::cache_events::cache_event;
use super::core_kinds::{CoreKind, CoreKinds, Encodings};
use super::cores::Core;
use super::cpuid::Capabilities;
use super::event_attr::{
    InvalidAttr, PerfEventAttr, PERF_PMU_TYPE_SHIFT, PERF_TYPE_HARDWARE, PERF_TYPE_HW_CACHE,
};
use super::event_counters::EventCounters;
use super::evtsel::EventSelect;
use super::extra_registers::{ExtraRegister, ExtraValue};
use super::hardware_events::hardware_event;
use super::memory_access::AccessFormat;
use super::precise;
use super::sampling::Sampling;

/// Another extra register that can count the same event ([`ExtraRegister::interchangeable_register`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Alternative {
    pub(super) register: ExtraRegister,
    /// The event select that uses the register, with the modes.
    pub(super) select: EventSelect,
    /// The bits of the general counters that can count with this event select.
    pub(super) general: u64,
}

/// The extra register of an event, and the register that can take its place.
pub(super) struct Extra {
    pub(super) value: ExtraValue,
    pub(super) alternative: Option<Alternative>,
}

/// The encodings of an event.
pub(super) struct EncodedEvent {
    /// The event selects, with the modes, on the kinds of cores that count the event.
    pub(super) encodings: Encodings,
    /// The counters that can count the event on all of these kinds.
    pub(super) counters: EventCounters,
    /// The extra register, if the event needs one. Only a raw event, which a single kind of core counts, can need one.
    pub(super) extra: Option<Extra>,
    /// The form of the access to memory in precise samples, limited to the parts that all of these
    /// kinds have in common.
    pub(super) access: AccessFormat,
}

/// Returns the encodings of the event that the attribute asks for.
pub(super) fn encode(
    attr: &PerfEventAttr,
    sampling: &Sampling,
    common: &Capabilities,
    kinds: &CoreKinds,
) -> Result<EncodedEvent, InvalidAttr> {
    let only_kind = only_kind(attr, kinds)?;
    let mut encodings = Encodings::NONE;
    let mut counters: Option<EventCounters> = None;
    let mut extra = None;
    let mut access: Option<AccessFormat> = None;
    let mut first_error = None;
    for kind in kinds
        .iter()
        .filter(|kind| only_kind.is_none_or(|only| only == *kind))
    {
        let capabilities = kinds.capabilities(kind, common);
        let (select, new_counters, new_extra) =
            match encode_for(attr, sampling, kind, &capabilities) {
                Ok(encoding) => encoding,
                // The kind has the event, but not its precise samples. If the kind were left out,
                // samples of its cores would be missing without notice.
                Err(InvalidAttr::Unsupported) if sampling.is_precise => {
                    return Err(InvalidAttr::Unsupported);
                }
                Err(error) => {
                    first_error = first_error.or(Some(error));
                    continue;
                }
            };
        encodings.set(kind, select);
        extra = new_extra;
        let new_access = precise::access_format(select, &capabilities);
        access = Some(match access {
            Some(access) => access.intersection(new_access),
            None => new_access,
        });
        counters = Some(match counters {
            Some(counters) => counters.intersection(new_counters)?,
            None => new_counters,
        });
    }
    match counters {
        Some(counters) => Ok(EncodedEvent {
            encodings,
            counters,
            extra,
            access: access.unwrap_or(AccessFormat::NONE),
        }),
        None => Err(first_error.unwrap_or(InvalidAttr::NoEvent)),
    }
}

/// Returns the event select of the attribute, with its modes, the counters that can count the event, and its extra
/// register, on CPUs of this kind, which have these capabilities.
fn encode_for(
    attr: &PerfEventAttr,
    sampling: &Sampling,
    kind: CoreKind,
    capabilities: &Capabilities,
) -> Result<(EventSelect, EventCounters, Option<Extra>), InvalidAttr> {
    let microarchitecture = capabilities.microarchitecture;
    // The lower half is the event; `only_kind` has checked the upper half.
    let number = attr.config as u32;
    let select = match attr.type_ {
        PERF_TYPE_HARDWARE => hardware_event(number, capabilities, microarchitecture),
        PERF_TYPE_HW_CACHE => cache_event(number, microarchitecture),
        _ => raw_event(attr.config, capabilities),
    };
    let select = select?.with_modes(
        !attr.has(PerfEventAttr::EXCLUDE_USER),
        !attr.has(PerfEventAttr::EXCLUDE_KERNEL),
    );
    let counters = counters_for(attr, sampling, select, capabilities)?;
    match extra_for(attr, sampling, select, kind, capabilities)? {
        Some(extra) => Ok((select.with_extra_register(), counters, Some(extra))),
        None => Ok((select, counters, None)),
    }
}

/// Returns the counters that can count an event, on CPUs with these capabilities.
fn counters_for(
    attr: &PerfEventAttr,
    sampling: &Sampling,
    select: EventSelect,
    capabilities: &Capabilities,
) -> Result<EventCounters, InvalidAttr> {
    let counters = EventCounters::new(select, capabilities, capabilities.microarchitecture)?;
    if attr.has(PerfEventAttr::PRECISE_IP) {
        counters.only(precise::counters(attr, sampling, select, capabilities)?)
    } else {
        Ok(counters)
    }
}

/// Returns the extra register of an event, with the value that `config1` of the attribute gives.
///
/// # Errors
///
/// [`InvalidAttr::Invalid`] if the register does not have all bits of the value, or the event has no register and the value
/// is not 0.
fn extra_for(
    attr: &PerfEventAttr,
    sampling: &Sampling,
    select: EventSelect,
    kind: CoreKind,
    capabilities: &Capabilities,
) -> Result<Option<Extra>, InvalidAttr> {
    let value = attr.config1;
    let core = Core::for_microarchitecture(capabilities.microarchitecture);
    let events = core.extra_register_event(select);
    let Some((events, (register, mask))) = events.and_then(|it| Some((it, it.register?))) else {
        return match value {
            0 => Ok(None),
            _ => Err(InvalidAttr::Invalid),
        };
    };
    if value & !mask != 0 {
        return Err(InvalidAttr::Invalid);
    }
    // The event of this register happens only with precise samples.
    if register == ExtraRegister::LoadLatency && !sampling.is_precise {
        return Err(InvalidAttr::Unsupported);
    }
    let alternative = events
        .alternative(core.extra_register_events, value)
        .and_then(|(register, events)| {
            let select = events.first_select(select);
            let counters = counters_for(attr, sampling, select, capabilities).ok()?;
            Some(Alternative {
                register,
                select: select.with_extra_register(),
                general: counters.general,
            })
        })
        .filter(|alternative| alternative.general != 0);
    let value = ExtraValue {
        kind,
        register,
        value,
    };
    Ok(Some(Extra { value, alternative }))
}

/// Returns the only kind of core that may count the event, or `None` if each kind may.
///
/// As in Linux perf, the type of a raw event is the type of a PMU, and the upper half of the
/// `config` of other events may name a PMU. `PERF_TYPE_RAW` is the PMU of the big cores; 0 in the
/// upper half means all kinds, while in perf it means the big cores.
fn only_kind(attr: &PerfEventAttr, kinds: &CoreKinds) -> Result<Option<CoreKind>, InvalidAttr> {
    let perf_type = match attr.type_ {
        PERF_TYPE_HARDWARE | PERF_TYPE_HW_CACHE => (attr.config >> PERF_PMU_TYPE_SHIFT) as u32,
        type_ => type_,
    };
    match perf_type {
        0 => Ok(None),
        _ => match kinds.with_type(perf_type) {
            Some(kind) => Ok(Some(kind)),
            None => Err(InvalidAttr::Unsupported),
        },
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
