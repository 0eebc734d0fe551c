// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of trace configurations.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use perfmon::Modes;
use perfmon::abi::perfmon_config;
use perfmon::trace::{ArchEvent, Config, ConfigError, ConfigProblem, Event, EventId, FixedEvent};

const CYCLES: EventId = EventId::fixed(FixedEvent::CoreCycles);
const MISSES: EventId = EventId::arch(ArchEvent::LlcMisses);

fn build(events: &[Event]) -> Result<Config, ConfigError> {
    let builder = events
        .iter()
        .fold(Config::builder(), |builder, &event| builder.event(event));
    builder.build()
}

#[test]
fn the_error_names_the_event_that_conflicts_with_earlier_ones() {
    use ConfigProblem as P;
    let cycles = Event::sampling(CYCLES, 1000);
    let misses = Event::counting(MISSES);
    let user_branches = |event: Event| event.modes(Modes::User).last_branch();
    let with_rate = |event: Event| Event { rate: 9, ..event };
    let table: [(&[Event], EventId, P); 11] = [
        (&[Event::counting(EventId::NONE)], EventId::NONE, P::Event),
        (
            &[cycles, Event::counting(EventId::misc(100))],
            EventId::misc(100),
            P::Event,
        ),
        (
            &[Event::counting(EventId::from_bits(9 << 10))],
            EventId::from_bits(9 << 10),
            P::Event,
        ),
        (
            &[
                Event::counting(ArchEvent::TopdownSlots),
                cycles,
                misses,
                cycles,
            ],
            CYCLES,
            P::Twice,
        ),
        (&[misses.last_branch()], MISSES, P::LastBranch),
        (
            &[
                cycles,
                misses.last_branch(),
                Event::counting(ArchEvent::Branches),
            ],
            MISSES,
            P::LastBranch,
        ),
        (
            &[
                cycles,
                with_rate(Event::with_timebase(MISSES)).last_branch(),
            ],
            MISSES,
            P::LastBranch,
        ),
        (
            &[cycles.last_branch(), user_branches(with_rate(misses))],
            MISSES,
            P::LastBranchModes,
        ),
        (&[Event::with_timebase(CYCLES)], CYCLES, P::Timebase),
        (&[misses, Event::with_timebase(CYCLES)], CYCLES, P::Timebase),
        (
            &[cycles, Event::counting(EventId::NONE)],
            EventId::NONE,
            P::Event,
        ),
    ];
    for (events, event, problem) in table {
        let event = Some(event);
        assert_eq!(
            build(events),
            Err(ConfigError { event, problem }),
            "{events:?}"
        );
    }
}

#[test]
fn a_config_has_some_events_and_not_too_many() {
    let error = build(&[]).unwrap_err();
    assert_eq!((error.event, error.problem), (None, ConfigProblem::NoEvent));
    assert_eq!(error.to_string(), "there is no event; add one");

    let events: Vec<Event> = (0..33)
        .map(|n| Event::counting(EventId::model(n)))
        .collect();
    assert!(build(&events[..32]).is_ok());
    let error = build(&events).unwrap_err();
    assert_eq!(
        (error.event, error.problem),
        (Some(EventId::model(32)), ConfigProblem::TooMany)
    );
}

#[test]
fn a_config_survives_the_abi() {
    let config = build(&[
        Event::sampling(CYCLES, u32::MAX)
            .modes(Modes::User)
            .pc()
            .last_branch(),
        Event::with_timebase(MISSES).modes(Modes::Kernel),
        Event::counting(EventId::model(1023)),
    ]);
    let config = config.unwrap();
    assert_eq!(Config::from_abi(&config.to_abi()), Ok(config));
}

#[test]
fn a_structure_that_is_no_config_is_refused() {
    type Corrupt = fn(&mut perfmon_config);
    let config = build(&[Event::counting(CYCLES), Event::counting(MISSES)]).unwrap();
    let table: [(Corrupt, Option<EventId>, ConfigProblem); 5] = [
        (|raw| raw.events[0] = 0, None, ConfigProblem::NoEvent),
        (|raw| raw.rate[2] = 1, None, ConfigProblem::AfterTheEnd),
        (|raw| raw.flags[1] |= 0x20, None, ConfigProblem::Flag),
        (
            |raw| raw.events[1] = raw.events[0],
            None,
            ConfigProblem::Twice,
        ),
        (|raw| raw.flags[1] = 0, Some(MISSES), ConfigProblem::NoModes),
    ];
    for (corrupt, event, problem) in table {
        let mut raw = config.to_abi();
        corrupt(&mut raw);
        assert_eq!(Config::from_abi(&raw), Err(ConfigError { event, problem }));
    }
}
