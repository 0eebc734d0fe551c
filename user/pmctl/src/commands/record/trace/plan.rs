// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events of a trace: the driver's config, and their description in perf's file.

use anyhow::{Result, anyhow};
use perfmon::spec::{self, EventSpec, Precision, SampleRate};
use perfmon::trace::{Config, Event as TraceEvent, EventId, FixedEvent};
use perfmon::{CounterId, Encoding, Modes, Pmu, Session};

use crate::args::{TraceEvents, TraceOptions};
use crate::commands::record::branches::WantedBranches;
use crate::commands::record::sampled::{
    DEFAULT_EVENT, MIXED_BRANCHES, event_kind, refuse_linux_events, refuse_unsampled,
};
use crate::events::schedule::{CounterSupply, schedule};
use crate::events::values::{self, Unit, Value};
use crate::recording::perfdata::{self, Attr, EventKind, SampleParts};
use crate::system::exit::{self, Usage};

/// Events of the fixed counters, by number.
const FIXED_EVENTS: [FixedEvent; 4] = [
    FixedEvent::Instructions,
    FixedEvent::CoreCycles,
    FixedEvent::ReferenceCycles,
    FixedEvent::TopdownSlots,
];

/// The events of a trace.
#[derive(Debug)]
pub(super) struct TracePlan {
    pub(super) config: Config,
    /// The events in the order of the config.
    pub(super) events: Vec<TracedEvent>,
}

/// An event of a trace.
#[derive(Debug)]
pub(super) struct TracedEvent {
    pub(super) label: String,
    modes: Modes,
    kind: EventKind,
    /// Unit of a value; `None` for a count.
    pub(super) unit: Option<Unit>,
    pub(super) id: EventId,
    /// Period in events; `None` for an event that is counted at the samples of the first event.
    pub(super) period: Option<u32>,
}

/// The events that the command line asks for.
#[derive(Default)]
pub(super) struct WantedEvents {
    /// Events that make samples.
    sampled: Vec<EventSpec>,
    /// Events that are counted from sample to sample.
    counted: Vec<EventSpec>,
    /// Values that are read at each sample.
    values: Vec<Value>,
}

impl TracePlan {
    /// Makes a plan from the options and their events. Defines those events that have no ID in the driver.
    pub(super) fn new(
        options: &TraceOptions,
        wanted_events: WantedEvents,
        pmu: &Pmu,
        session: &Session,
    ) -> Result<Self> {
        let WantedEvents {
            sampled,
            counted,
            values,
        } = wanted_events;
        let period = |index: usize, event: &EventSpec| {
            if index >= sampled.len() {
                return Ok(None);
            }
            match event.rate {
                None => Ok(Some(options.period)),
                Some(SampleRate::Period(period)) if u32::try_from(period).is_ok() => {
                    Ok(u32::try_from(period).ok())
                }
                _ => Err(Usage(format!(
                    "{}: a trace of the whole machine takes a period below 2^32, and no frequency.",
                    event.label
                ))),
            }
        };
        let events: Vec<EventSpec> = [&sampled[..], &counted[..]].concat();
        refuse_impossible_options(options, &events)?;

        if options.branches {
            let wanted_branches = WantedBranches {
                is_call_stack: false,
                has_kernel: sampled.iter().any(|event| event.modes != Modes::User),
            };
            wanted_branches.check_support(pmu, session.device().properties().last_branch)?;
        }
        let supply = CounterSupply::of(session.device(), pmu);
        let counters = schedule(&events, supply).map_err(|error| Usage(error.to_string()))?;

        let mut planned = Vec::new();
        for (index, (event, counter)) in events.into_iter().zip(counters).enumerate() {
            let id = event_id(session, &event, counter, planned.len())?;
            planned.push(TracedEvent::counted(&event, id, period(index, &event)?));
        }
        if !values.is_empty() {
            values::require(&session.device().info().map_err(exit::with_help)?, &values)?;
            planned.extend(values.iter().map(TracedEvent::of_value));
        }
        let mut config = Config::builder();
        for event in &planned {
            config = config.event(event.to_trace(options.branches));
        }
        Ok(Self {
            config: config.build()?,
            events: planned,
        })
    }

    /// Describes the events for the file.
    pub(super) fn describe(&self, branches: bool) -> Vec<perfdata::Event> {
        let parts = SampleParts {
            has_branches: branches,
            ..SampleParts::default()
        };
        let describe = |planned: &TracedEvent| perfdata::Event {
            name: planned.label.clone(),
            attr: Attr::sampled(
                planned.kind,
                planned.period.unwrap_or(0).into(),
                planned.modes,
                parts,
            ),
        };
        self.events.iter().map(describe).collect()
    }
}

impl TracedEvent {
    /// Describes an event that a counter counts.
    pub(super) fn counted(event: &EventSpec, id: EventId, period: Option<u32>) -> Self {
        Self {
            label: event.label.clone(),
            modes: event.modes,
            kind: event_kind(event),
            unit: None,
            id,
            period,
        }
    }

    /// Describes a value, which is read from its register at each sample.
    pub(super) fn of_value(value: &Value) -> Self {
        Self {
            label: value.name.to_owned(),
            // The value does not depend on the mode in which the machine executes.
            modes: Modes::Both,
            kind: EventKind::Value(u64::from(value.event as u32)),
            unit: Some(value.unit),
            id: value.event.into(),
            period: None,
        }
    }

    fn to_trace(&self, branches: bool) -> TraceEvent {
        let event = match self.period {
            Some(period) => TraceEvent::sampling(self.id, period).pc(),
            None => TraceEvent::with_timebase(self.id),
        };
        // A value has no modes, but the driver refuses an event without a mode.
        let modes = if self.unit.is_some() {
            Modes::User
        } else {
            self.modes
        };
        let event = event.modes(modes);
        if branches && self.period.is_some() {
            event.last_branch()
        } else {
            event
        }
    }
}

impl WantedEvents {
    /// Parses the events of the options, and refuses events that a trace can't record.
    pub(super) fn new(events: &TraceEvents, pmu: &Pmu) -> Result<Self, Usage> {
        let parse = |texts: &[String]| -> Result<Vec<EventSpec>, Usage> {
            for text in texts {
                refuse_linux_events(text, pmu)?;
                refuse_unsampled(text)?;
            }
            let lists = texts
                .iter()
                .map(|text| spec::parse_without_groups(text, pmu));
            let lists: Result<Vec<_>, _> = lists.collect();
            let lists = lists.map_err(|error| Usage(error.to_string()))?;
            let events: Vec<EventSpec> = lists.into_iter().flatten().collect();
            for event in &events {
                let lacking = if event.core_type.is_some() {
                    "has events of all kinds of cores only"
                } else if matches!(event.encoding, Some(Encoding::RawWithRegister(..))) {
                    "has no events that need an extra register"
                } else {
                    continue;
                };
                return Err(Usage(format!(
                    "{}: a trace, which --timebase and --rotate take, {lacking}. `pmctl record -e {0} -- COMMAND` samples \
                     this one without them.",
                    event.label
                )));
            }
            Ok(events)
        };
        match events {
            TraceEvents::Sampled(texts) => Ok(Self {
                sampled: match &texts[..] {
                    [] => parse(&[DEFAULT_EVENT.to_owned()])?,
                    texts => parse(texts)?,
                },
                ..Self::default()
            }),
            TraceEvents::Timebase { timebase, count } => {
                let sampled = parse(std::slice::from_ref(timebase))?;
                if sampled.len() != 1 {
                    return Err(Usage(
                        "--timebase takes one event; the others belong to --count.".to_owned(),
                    ));
                }
                let (counted, values) = values::split(count);
                Ok(Self {
                    sampled,
                    counted: parse(&counted)?,
                    values,
                })
            }
        }
    }
}

fn refuse_impossible_options(options: &TraceOptions, events: &[EventSpec]) -> Result<(), Usage> {
    let pinned = events
        .iter()
        .any(|event| matches!(event.pinned, Some(CounterId::General(_))));
    let mixed = events.iter().any(|event| event.modes != events[0].modes);
    let precise = events
        .iter()
        .any(|event| matches!(event.precision, Some(Precision::Level(_))));
    let refused = [
        (
            precise,
            "`:p`: traces, which --timebase and --rotate take, have no precise samples. Leave the letter out.",
        ),
        (
            pinned,
            "`:PMC0` and the like: the driver chooses the general counters of a recording. Leave the modifier out.",
        ),
        (
            options.branches && matches!(options.events, TraceEvents::Sampled(_)) && mixed,
            MIXED_BRANCHES,
        ),
    ];
    match refused.into_iter().find(|(applies, _)| *applies) {
        Some((_, reason)) => Err(Usage(reason.to_owned())),
        None => Ok(()),
    }
}

/// Returns the ID of an event on a counter. Events of fixed counters have IDs; other events are defined in the session.
fn event_id(
    session: &Session,
    event: &EventSpec,
    counter: CounterId,
    index: usize,
) -> Result<EventId> {
    match counter {
        CounterId::Fixed(number) => FIXED_EVENTS
            .get(usize::from(number))
            .map(|event| EventId::fixed(*event))
            .ok_or_else(|| anyhow!("{}: {counter} makes no samples", event.label)),
        CounterId::General(_) => {
            let id = EventId::model(u16::try_from(index)?);
            let select = event.select_on(counter);
            session.define_event(id, select).map_err(exit::with_help)?;
            Ok(id)
        }
    }
}
