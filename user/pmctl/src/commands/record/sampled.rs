// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events that can be sampled, and their description in perf's file.

use perfmon::spec::{EventSpec, Meaning};
use perfmon::{EventSelect, Modes, Pmu};
use perfmon_core::logic::event_attr::{PERF_PMU_TYPE_SHIFT, PERF_TYPE_RAW};

use crate::events::linux_pmu::is_pmu_event;
use crate::events::software::is_software;
use crate::events::values::is_value;
use crate::events::words::words;
use crate::recording::perfdata::EventKind;
use crate::system::exit::Usage;

/// The event that is sampled without -e.
pub(super) const DEFAULT_EVENT: &str = "cycles";

/// The message for -b with events of different modes.
pub(super) const MIXED_BRANCHES: &str =
    "-b: a CPU records branches of the same modes for all events. Give all of them `:u`, or none.";

/// Refuses groups, and values that no counter counts.
pub(super) fn refuse_unsampled(text: &str) -> Result<(), Usage> {
    if text.contains('{') {
        return Err(Usage(format!(
            "{text}: `pmctl record` takes no groups: all events are sampled all the time. Write the events without the \
             braces."
        )));
    }
    match text.split(',').find(|word| is_value(word)) {
        Some(value) => Err(Usage(format!(
            "{value}: no counter counts this value, so it can't be sampled. `pmctl record --timebase cycles --count \
             {value} -- COMMAND` reads it at each sample of cycles, `pmctl stat -a -e {value} -- COMMAND` reads it for \
             the whole run."
        ))),
        None => Ok(()),
    }
}

/// Refuses events that Linux samples, which a trace can't record.
pub(super) fn refuse_linux_events(text: &str, pmu: &Pmu) -> Result<(), Usage> {
    match words(text).find(|word| is_software(word) || is_pmu_event(word, pmu)) {
        Some(event) => Err(Usage(format!(
            "{event}: Linux samples this event, and traces, which --timebase and --rotate take, have events of the CPU's \
             counters only. `pmctl record -e {event} -- COMMAND` samples it without them."
        ))),
        None => Ok(()),
    }
}

/// Returns the event as perf's file names it: by perf's number, or by the bits of its event select register.
pub(super) fn event_kind(event: &EventSpec) -> EventKind {
    if let Some(number) = event.meaning.and_then(Meaning::number) {
        // The upper half of the number is the type of perf's PMU, if only one kind of core counts
        // the event.
        let core_type = u64::from(event.core_type.unwrap_or(0));
        return EventKind::Hardware(core_type << PERF_PMU_TYPE_SHIFT | u64::from(number));
    }
    // perf has the modes in other fields. For perf, an event that only fixed counter n counts is event 0 with the unit
    // mask n + 1.
    let modes = EventSelect::fixed().modes(Modes::Both).bits();
    let general = event.general.map(|select| select.bits() & !modes);
    let fixed = event.fixed.map_or(0, |number| u64::from(number) + 1 << 8);
    let select = general.unwrap_or(fixed);
    match event.core_type {
        Some(core_type) if core_type != PERF_TYPE_RAW => EventKind::Other(core_type, select),
        _ => EventKind::Raw(select),
    }
}

#[cfg(test)]
mod tests {
    use perfmon::spec;

    use super::*;
    use crate::system::pmu::testing;

    fn event(text: &str) -> EventSpec {
        let mut events = spec::parse(text, &testing::intel()).expect("it exists");
        events.remove(0)
    }

    #[test]
    fn perf_knows_events_by_its_own_numbers_or_by_their_select() {
        for (text, kind) in [
            ("cycles:u", EventKind::Hardware(0)),
            ("BR_MISP_RETIRED.ALL_BRANCHES", EventKind::Hardware(5)),
            ("r1c0:k", EventKind::Raw(0x1c0)),
            ("cpu/event=0xc0,cmask=2/", EventKind::Raw(0x200_00c0)),
            ("fixed1", EventKind::Raw(0x200)),
        ] {
            assert_eq!(super::event_kind(&event(text)), kind, "{text}");
        }
    }

    #[test]
    fn events_of_one_kind_of_core_have_its_type() {
        for (text, core_type, kind) in [
            ("cycles", 4, EventKind::Hardware(4 << 32)),
            ("instructions", 9, EventKind::Hardware(9 << 32 | 1)),
            ("r1c0", 4, EventKind::Raw(0x1c0)),
            ("r1c0", 9, EventKind::Other(9, 0x1c0)),
        ] {
            let event = EventSpec {
                core_type: Some(core_type),
                ..event(text)
            };
            assert_eq!(super::event_kind(&event), kind, "{text}");
        }
    }
}
