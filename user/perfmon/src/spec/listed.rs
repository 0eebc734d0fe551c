// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of the vendor's list for the CPU's model, and the counters that can count them.

use perfmon_core::logic::core_kinds::CoreKinds;
use perfmon_core::logic::cpuid::Capabilities;
use perfmon_core::logic::event_attr::{InvalidAttr, PERF_TYPE_RAW, PerfEventAttr};
use perfmon_core::logic::event_config::EventConfig;
use perfmon_core::logic::event_counters::EventCounters;
use perfmon_core::logic::evtsel::EventSelect as Select;
use perfmon_core::logic::pebs::PebsFormat;
use perfmon_events::{Event, ExtraRegister};

use super::memory_names;
use super::on_counters::OnCounters;
use crate::EventSelect;
use crate::event::Encoding;
use crate::pmu::{Pmu, Vendor};

/// The registers that an event may need besides its event select.
const EXTRA_REGISTERS: [(u32, &str); 10] = [
    (0x1a6, "MSR_OFFCORE_RSP_0"),
    (0x1a7, "MSR_OFFCORE_RSP_1"),
    (0x3e0, "MSR_OMR_0"),
    (0x3e1, "MSR_OMR_1"),
    (0x3e2, "MSR_OMR_2"),
    (0x3e3, "MSR_OMR_3"),
    (0x3f6, "MSR_PEBS_LD_LAT"),
    (0x3f7, "MSR_PEBS_FRONTEND"),
    (0x1328, "MSR_SNOOP_RSP_0"),
    (0x1329, "MSR_SNOOP_RSP_1"),
];

/// The number of `MSR_PEBS_LD_LAT_THRESHOLD`, the register with the smallest latency of loads.
const LOAD_LATENCY_MSR: u32 = 0x3f6;

/// Returns whether a listed event is counted with precise samples only: an event of slow loads, which take at least a
/// given latency.
#[must_use]
pub fn is_sampled_only(event: &Event) -> bool {
    event
        .extra
        .is_some_and(|extra| extra.register == LOAD_LATENCY_MSR)
}

/// Returns Intel's name of a register that events need besides their event select.
#[must_use]
pub fn register_name(register: u32) -> &'static str {
    let entry = EXTRA_REGISTERS
        .iter()
        .find(|(number, _)| *number == register);
    entry.map_or("a further register", |(_, name)| *name)
}

/// Finds an event by its name in the list of the CPU's model, or by perf's name of loads or stores; case does not matter.
pub(super) fn find(name: &str, pmu: &Pmu) -> Option<Event> {
    let model = pmu.model()?;
    model
        .event(name)
        .or_else(|| memory_names::find(name, model))
}

/// Returns the event select of a listed event, in both modes; `None` if the driver can't write it.
#[must_use]
pub fn select_of(event: &Event) -> Option<EventSelect> {
    let [unit_mask, unit_mask_2] = event.unit_mask.to_le_bytes();
    let select = EventSelect::new(event.number, unit_mask).unit_mask_2(unit_mask_2);
    let select = if event.edge { select.edge() } else { select };
    let select = match (event.counter_mask, event.invert) {
        (mask, true) => select.fewer_than(mask),
        (mask, false) => select.at_least(mask),
    };
    (!event.any_thread).then_some(select)
}

/// Returns the counters of this PMU that count a listed event.
///
/// # Errors
/// The reason why no counter counts it, in sentences.
pub fn counters_of_listed(event: &Event, pmu: &Pmu) -> Result<OnCounters, String> {
    let capabilities = pmu
        .capabilities()
        .map_err(|no_pmu| format!("The CPU has no PMU: {}.", no_pmu.reason()))?;
    let Some(select) = select_of(event) else {
        return Err(
            "It also counts events of the sibling hyperthread (AnyThread), which the driver does not allow."
                .to_owned(),
        );
    };
    if event.unit_mask > 0xff && capabilities.select_bits & Select::UNIT_MASK_2 == 0 {
        return Err("Its unit mask has more than 8 bits, and this CPU's have 8.".to_owned());
    }
    if pmu.is_emulated() && !is_emulated(event, pmu) {
        return Err(NOT_EMULATED_REASON.to_owned());
    }
    if let Some(extra) = event.extra {
        check_register(select, extra, pmu)?;
    }
    // `EventCounters` takes the select type of perfmon-core.
    let bits = Select::from_bits(select.bits());
    let driver_counters = EventCounters::new(bits, &capabilities, pmu.microarchitecture());
    match (driver_counters, event.fixed) {
        (Ok(driver_counters), None) => common_counters(event, select, &driver_counters, pmu),
        (Ok(_), Some(number)) if pmu.has_fixed(number) => Ok(OnCounters {
            select: None,
            general: 0,
            fixed: Some(number),
        }),
        (Err(_), Some(number)) if pmu.has_fixed(number) => Err(format!(
            "Only fixed counter {number} counts it, and the driver does not know that counter's event."
        )),
        (_, Some(number)) => Err(format!(
            "Only fixed counter {number} counts it, and this CPU lacks that counter."
        )),
        (Err(InvalidAttr::Unsupported), None) => Err(
            "It needs a register that the driver does not write, a second counter, or a counter that cores share."
                .to_owned(),
        ),
        (Err(_), None) => Err("No counter of this CPU counts it.".to_owned()),
    }
}

/// Checks that the driver writes the register that a listed event needs.
///
/// # Errors
/// The reason why the driver does not write it, in a sentence.
fn check_register(select: EventSelect, extra: ExtraRegister, pmu: &Pmu) -> Result<(), String> {
    let number = register_of(select, extra.value, pmu).ok().flatten();
    if number == Some(extra.register) {
        return Ok(());
    }
    Err(format!(
        "It needs {} ({:#x}), a register that the driver does not write.",
        register_name(extra.register),
        extra.register
    ))
}

/// Returns the number and the value of the extra register that an event needs.
#[must_use]
pub fn extra_register(encoding: Encoding, pmu: &Pmu) -> Option<ExtraRegister> {
    match encoding {
        Encoding::RawWithRegister(select, value) => Some(ExtraRegister {
            register: register_of(select, value, pmu).ok()??,
            value,
        }),
        _ => None,
    }
}

/// Returns the number of the extra register that the driver writes for an event, if the event needs one.
///
/// # Errors
/// The driver's error if it refuses the event, or `value` for the register.
pub(super) fn register_of(
    select: EventSelect,
    value: u64,
    pmu: &Pmu,
) -> Result<Option<u32>, InvalidAttr> {
    /// A period that the driver accepts for precise samples of each event.
    const PERIOD: u64 = 1009;

    let counting = pmu.capabilities().map_err(|_| InvalidAttr::Unsupported)?;
    let counting_attr = PerfEventAttr {
        type_: PERF_TYPE_RAW,
        config: select.bits(),
        config1: value,
        ..PerfEventAttr::ZERO
    };
    // Only the driver can read the register with the format of precise samples, so this code
    // assumes format 4. The format makes no difference: slow loads, the only events that are
    // counted with precise samples alone, need the same register in each format.
    let sampling = Capabilities {
        pebs: Some(PebsFormat::Four),
        ..counting
    };
    let sampling_attr = PerfEventAttr {
        sample_period: PERIOD,
        flags: PerfEventAttr::PRECISE_LEVEL,
        ..counting_attr
    };
    let register_number = |attr: &PerfEventAttr, capabilities: &Capabilities| {
        let config = EventConfig::new(attr, capabilities, &CoreKinds::one(capabilities))?;
        Ok(config.extra.map(|extra| extra.register.msr().number()))
    };
    register_number(&counting_attr, &counting).or_else(|error| {
        match register_number(&sampling_attr, &sampling) {
            Ok(Some(LOAD_LATENCY_MSR)) => Ok(Some(LOAD_LATENCY_MSR)),
            _ => Err(error),
        }
    })
}

/// Returns whether the event with this encoding is counted with precise samples only, like [`is_sampled_only`].
pub(super) fn needs_precise_samples(encoding: Encoding, pmu: &Pmu) -> bool {
    extra_register(encoding, pmu).is_some_and(|extra| extra.register == LOAD_LATENCY_MSR)
}

/// Returns the counters that both the vendor's list and the driver allow for an event.
fn common_counters(
    event: &Event,
    select: EventSelect,
    driver_counters: &EventCounters,
    pmu: &Pmu,
) -> Result<OnCounters, String> {
    let listed_counters = event.counters.unwrap_or(u64::MAX);
    let general = driver_counters.general & listed_counters;
    // The driver numbers fixed counters from 32.
    let fixed = driver_counters
        .fixed
        .and_then(|counter| u8::try_from(counter.index() - 32).ok());
    if general == 0 && fixed.is_none() {
        let counters: Vec<String> = (0..64)
            .filter(|n| listed_counters >> n & 1 != 0)
            .map(|n| format!("PMC{n}"))
            .collect();
        return Err(format!(
            "Only {} count it, and this PMU has {} general counters.",
            counters.join(", "),
            pmu.general_counters()
        ));
    }
    Ok(OnCounters {
        select: (general != 0).then_some(select),
        general,
        fixed,
    })
}

/// Returns whether the list limits an event to fewer counters than the driver does. The driver may then choose a wrong
/// counter, so the event can only be counted on a counter that the program chooses.
pub(super) fn needs_own_counter_choice(event: &Event, pmu: &Pmu) -> bool {
    let Ok(OnCounters {
        select: Some(select),
        general,
        ..
    }) = counters_of_listed(event, pmu)
    else {
        return false;
    };
    if is_sampled_only(event) {
        // The driver's tables have the limits of events that are counted with precise samples only.
        return false;
    }
    let driver_counters = OnCounters::of(Select::from_bits(select.bits()), pmu);
    driver_counters.is_some_and(|counters| counters.general & !general != 0)
}

/// Returns the encoding by which a listed event of a task is opened.
pub(super) fn encoding(event: &Event, counters: &OnCounters) -> Option<Encoding> {
    match (counters.select, event.extra, counters.fixed) {
        (Some(select), Some(extra), _) => Some(Encoding::RawWithRegister(select, extra.value)),
        (Some(select), None, _) => Some(Encoding::Raw(select)),
        (None, _, fixed) => fixed.map(Encoding::Fixed),
    }
}

/// The reason why an emulated CPU lacks an event.
pub(super) const NOT_EMULATED_REASON: &str =
    "QEMU's emulation counts instructions, clocks, branches, loads and stores only.";

/// Returns whether QEMU's emulation counts an event (`Documentation/virtual-pmu.rst`).
fn is_emulated(event: &Event, pmu: &Pmu) -> bool {
    // The emulation ignores the edge bit, so an event with it counts wrong.
    !event.edge && is_emulated_number(event.number, event.unit_mask, pmu)
}

impl Pmu {
    /// Returns whether the PMU counts a raw event, given as the bits of its event select. QEMU's emulation accepts every
    /// event, but most of them stay at 0.
    #[must_use]
    pub fn counts(&self, config: u64) -> bool {
        is_counted(Select::from_bits(config), self)
    }
}

/// Returns whether this PMU counts the event of a select. In QEMU's emulation the counts of most
/// events stay at 0; a real PMU counts all events.
pub(super) fn is_counted(select: Select, pmu: &Pmu) -> bool {
    let unit_mask = u16::from_le_bytes([select.unit_mask(), select.unit_mask_2()]);
    !pmu.is_emulated() || is_emulated_number(select.event(), unit_mask, pmu)
}

/// Returns whether QEMU's emulation counts the event with this number and unit mask.
fn is_emulated_number(number: u16, unit_mask: u16, pmu: &Pmu) -> bool {
    let loads_and_stores: &[(u16, u16)] = match pmu.vendor() {
        // On a hybrid CPU, these numbers mean a different event on each kind of core.
        Vendor::Intel if pmu.processor().is_hybrid() => &[],
        Vendor::Intel => &[(0xd0, 0x81), (0xd0, 0x82)],
        Vendor::Amd => &[(0x29, 0x01), (0x29, 0x02)],
    };
    let others: &[(u16, u16)] = match pmu.vendor() {
        // Fixed counters have the event number 0.
        Vendor::Intel => &[
            (0xc0, 0x00),
            (0xc0, 0x01),
            (0x3c, 0x00),
            (0x3c, 0x01),
            (0xc4, 0x00),
            (0x00, 0x01),
            (0x00, 0x02),
            (0x00, 0x03),
            (0x00, 0x04),
            (0x00, 0x05),
            (0x00, 0x06),
            (0x00, 0x07),
        ],
        Vendor::Amd => &[(0xc0, 0x00), (0x76, 0x00), (0xc2, 0x00), (0x120, 0x01)],
    };
    [loads_and_stores, others]
        .iter()
        .any(|numbers| numbers.contains(&(number, unit_mask)))
}

#[cfg(test)]
#[path = "listed_tests.rs"]
mod tests;
