// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of schedules of events that fit, and of events that don't.

use super::*;
use CounterId::{Fixed, General};
use perfmon::EventSelect;
use proptest::prelude::*;

fn event(general: bool, fixed: Option<u8>, pinned: Option<CounterId>) -> EventSpec {
    EventSpec {
        general: general.then_some(EventSelect::new(0xc0, 0)),
        general_counters: if general { u64::MAX } else { 0 },
        fixed,
        pinned,
        ..EventSpec::absent("e", "")
    }
}

/// Returns an event that only these general counters can count.
fn limited(general_counters: u64) -> EventSpec {
    EventSpec {
        general_counters,
        ..event(true, None, None)
    }
}

const SMALL: CounterSupply = CounterSupply {
    general: 2,
    fixed: 0b111,
    busy: 0,
};

#[test]
fn general_counters_come_first() {
    let events = [event(true, Some(0), None), event(true, None, None)];
    assert_eq!(schedule(&events, SMALL), Ok(vec![General(0), General(1)]));
}

#[test]
fn counters_in_use_by_others_are_not_assigned() {
    let supply = CounterSupply {
        general: 3,
        fixed: 0b10,
        busy: 0b011,
    };
    let any = event(true, None, None);
    assert_eq!(
        schedule(std::slice::from_ref(&any), supply),
        Ok(vec![General(2)])
    );
    let error = schedule(&[any.clone(), any], supply).expect_err("one is free");
    assert!(
        error
            .to_string()
            .contains("1 general and 1 fixed counters are free"),
        "{error}"
    );
    // A pinned event gets its counter: the driver's error will name the owner.
    let pinned_event = event(true, None, Some(General(0)));
    assert_eq!(schedule(&[pinned_event], supply), Ok(vec![General(0)]));
}

#[test]
fn the_last_possible_event_gets_a_fixed_counter() {
    let events = [
        event(true, Some(0), None),
        event(true, Some(1), None),
        event(true, None, None),
    ];
    assert_eq!(
        schedule(&events, SMALL),
        Ok(vec![General(0), Fixed(1), General(1)])
    );
}

#[test]
fn only_one_of_two_events_gets_their_fixed_counter() {
    let events = [
        event(true, Some(0), None),
        event(true, Some(0), None),
        event(true, Some(1), None),
    ];
    let supply = CounterSupply {
        general: 1,
        fixed: 0b11,
        busy: 0,
    };
    assert_eq!(
        schedule(&events, supply),
        Ok(vec![General(0), Fixed(0), Fixed(1)])
    );
}

#[test]
fn fixed_counters_may_have_gaps() {
    let supply = CounterSupply {
        general: 0,
        fixed: 0b101,
        busy: 0,
    };
    let on_fixed = |number| schedule(&[event(false, Some(number), None)], supply);
    assert_eq!(on_fixed(2), Ok(vec![Fixed(2)]));
    assert!(on_fixed(1).is_err());
    assert!(on_fixed(255).is_err());
}

#[test]
fn a_pinned_event_gets_its_counter() {
    let events = [event(true, None, None), event(true, None, Some(General(0)))];
    assert_eq!(schedule(&events, SMALL), Ok(vec![General(1), General(0)]));
}

#[test]
fn a_counter_is_assigned_once() {
    let pinned_event = event(true, None, Some(General(1)));
    let error =
        schedule(&[pinned_event.clone(), pinned_event], SMALL).expect_err("there is one of it");
    let (label, by) = ("e".to_owned(), Some("e".to_owned()));
    assert_eq!(
        error,
        ScheduleError::Taken {
            label,
            counter: General(1),
            by
        }
    );
}

#[test]
fn too_many_events_are_refused() {
    let events = vec![event(true, None, None); 3];
    let error = schedule(&events, SMALL).expect_err("there are two counters");
    assert_eq!(
        error,
        ScheduleError::Full {
            label: "e".to_owned(),
            events: 3,
            supply: (2, 3)
        }
    );
}

#[test]
fn an_event_of_some_counters_gets_one_of_them() {
    let supply = CounterSupply {
        general: 3,
        fixed: 0,
        busy: 0,
    };
    let events = [event(true, None, None), limited(0b100), limited(0b110)];
    assert_eq!(
        schedule(&events, supply),
        Ok(vec![General(0), General(2), General(1)])
    );
    assert!(schedule(&[limited(0b1000)], supply).is_err());
}

#[test]
fn the_message_names_the_conflict() {
    let supply = CounterSupply {
        general: 4,
        fixed: 0,
        busy: 0,
    };
    let with_label = |label: &str, event: EventSpec| EventSpec {
        label: label.to_owned(),
        ..event
    };
    let first_line = |events: &[EventSpec]| {
        let error = schedule(events, supply).expect_err("there is no room");
        error.to_string().lines().next().map(str::to_owned)
    };
    let (any, only) = (event(true, None, None), limited(0b100));
    let two = [
        with_label("a", any.clone()),
        with_label("b", only.clone()),
        with_label("c", only),
    ];
    assert_eq!(
        first_line(&two).as_deref(),
        Some("c: no counter is left: only PMC2 can count it, and b uses it")
    );
    let of_two = [0b011, 0b011, 0b001].map(limited);
    let three = [
        with_label("a", of_two[0].clone()),
        with_label("b", of_two[1].clone()),
        with_label("c", of_two[2].clone()),
    ];
    let message_of_three = first_line(&three).expect("it has a line");
    assert!(
        message_of_three.contains("only PMC0, PMC1 can count it, and "),
        "{message_of_three}"
    );
    assert_eq!(
        first_line(&[with_label("x", limited(0b1_0000))]).as_deref(),
        Some("x: no counter of this machine can count it")
    );
    let message = first_line(&vec![any; 5]).expect("it has a line");
    assert!(
        message.contains("4 general and 0 fixed counters are free"),
        "{message}"
    );
}

/// Returns whether an assignment exists, by trying all assignments.
fn is_possible(events: &[EventSpec], used: &mut Vec<CounterId>, supply: CounterSupply) -> bool {
    let Some((first, rest)) = events.split_first() else {
        return true;
    };
    let counters = (0..supply.general)
        .map(General)
        .chain((0..16).filter(|n| supply.fixed >> n & 1 != 0).map(Fixed));
    let candidates: Vec<CounterId> = counters
        .filter(|counter| match (first.pinned, counter) {
            (Some(pinned), _) => pinned == *counter,
            (None, General(number)) => first.general_counters >> number & 1 != 0,
            (None, Fixed(number)) => first.fixed == Some(*number),
        })
        .filter(|counter| !used.contains(counter))
        .collect();
    candidates.into_iter().any(|counter| {
        used.push(counter);
        let is_schedulable = is_possible(rest, used, supply);
        used.pop();
        is_schedulable
    })
}

fn any_event() -> impl Strategy<Value = EventSpec> {
    let fixed = prop::option::of(0u8..3);
    let pinned = prop::option::weighted(0.2, 0u8..3);
    let limits = prop::option::weighted(0.4, 1u64..16);
    (any::<bool>(), fixed, pinned, limits).prop_map(|(general, fixed, pinned, limits)| {
        let general = general || fixed.is_none();
        let event = event(general, fixed, pinned.filter(|_| general).map(General));
        // An event with a pinned counter has no other limit.
        let limits = limits.filter(|_| general && pinned.is_none());
        EventSpec {
            general_counters: limits.unwrap_or(event.general_counters),
            ..event
        }
    })
}

proptest! {
        /// An assignment is found exactly if there is one, and each event gets a counter that can count it.
        #[test]
        fn a_plan_is_found_if_there_is_one(
            events in prop::collection::vec(any_event(), 0..7), general in 0u8..4, fixed in 0u16..8,
        ) {
            let supply = CounterSupply { general, fixed,
 busy: 0,
};
            let plan = schedule(&events, supply);
            prop_assert_eq!(plan.is_ok(), is_possible(&events, &mut Vec::new(), supply));
            for (index, counter) in plan.iter().flatten().enumerate() {
                let event = &events[index];
                prop_assert!(event.pinned.is_none_or(|pinned| pinned == *counter));
                let possible = match counter {
                    General(number) => event.general_counters >> number & 1 != 0,
                    Fixed(number) => event.fixed == Some(*number),
                };
                prop_assert!(possible);
            }
        }
    }
