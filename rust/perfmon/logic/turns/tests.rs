// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The tests of the parent module. They are in an inline module, since `kunit_tests` accepts only
//! inline modules.

#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_turns))]
mod suite {
    use super::super::*;
    use crate::logic::core_kinds::{CoreKind, Encodings};
    use crate::logic::evtsel::EventSelect;
    use crate::logic::extra_registers::ExtraRegister;
    use core::cell::Cell;

    const MAX_EVENTS: usize = 8;

    #[derive(Clone, Copy)]
    struct Event {
        counters: u64,
        select: u16,
        leader: Option<usize>,
        enabled: bool,
        counter: CounterId,
        has_turn: bool,
        takes_turns: bool,
        extra: Option<ExtraValue>,
    }

    impl Event {
        const fn new(counters: u64, select: u16) -> Self {
            Self {
                counters,
                select,
                leader: None,
                enabled: true,
                counter: CounterId::NONE,
                has_turn: false,
                takes_turns: true,
                extra: None,
            }
        }
    }

    impl Member for Event {
        fn takes_turns(&self) -> bool {
            self.takes_turns
        }
        fn counters(&self) -> u64 {
            self.counters
        }
        fn demand_on(&self, _counter: CounterId) -> Demand {
            Demand {
                encodings: Encodings::same(
                    EventSelect::new(self.select, 0).with_modes(true, false),
                ),
                is_sampled: false,
                needs_own_counter: false,
            }
        }
        fn extra(&self) -> Option<ExtraValue> {
            self.extra
        }
        fn leader(&self) -> Option<usize> {
            self.leader
        }
        fn counter(&self) -> CounterId {
            self.counter
        }
        fn has_turn(&self) -> bool {
            self.has_turn
        }
        fn begin_turn(&mut self, counter: CounterId) {
            self.counter = counter;
            self.has_turn = true;
        }
        fn end_turn(&mut self) {
            self.has_turn = false;
        }
    }

    fn enabled(events: &[Event], index: usize) -> bool {
        events.get(index).is_some_and(|event| event.enabled)
    }

    /// Returns whether each event of the mask `event_mask` can have a counter of its own, without `taken_counters`.
    fn can_have(events: &[Event], event_mask: usize, taken_counters: u64) -> bool {
        if event_mask == 0 {
            return true;
        }
        let index = event_mask.trailing_zeros() as usize;
        let other_events = event_mask & (event_mask - 1);
        each_counter(events[index].counters & !taken_counters)
            .any(|counter| can_have(events, other_events, taken_counters | counter.bit()))
    }

    /// Returns whether each event of the mask `event_mask` can have a counter, if events with the same select share
    /// counters. `selects` has the select of each counter that an event has already.
    fn can_share(events: &[Event], event_mask: usize, selects: [Option<u16>; 5]) -> bool {
        if event_mask == 0 {
            return true;
        }
        let index = event_mask.trailing_zeros() as usize;
        let Event {
            counters, select, ..
        } = events[index];
        each_counter(counters).any(|counter| {
            let mut selects = selects;
            let counter_select = &mut selects[counter.index()];
            *counter_select.get_or_insert(select) == select
                && can_share(events, event_mask & (event_mask - 1), selects)
        })
    }

    /// Returns the events with a turn, as a mask.
    fn turn_mask(events: &[Event]) -> usize {
        let mut mask = 0;
        for (index, event) in events.iter().enumerate() {
            mask |= usize::from(event.has_turn) << index;
        }
        mask
    }

    /// Returns the events that must have a turn if the row begins at `first`, as a mask.
    fn expected_turns(events: &[Event], first: usize) -> usize {
        let mut with_turn = 0;
        for leader in indices_from(events.len(), first) {
            if events[leader].leader.is_some() || !events[leader].enabled {
                continue;
            }
            let mut group = 0;
            for (index, event) in events.iter().enumerate() {
                let is_in_group = index == leader || event.leader == Some(leader);
                group |= usize::from(is_in_group && event.enabled) << index;
            }
            if !can_have(events, with_turn | group, 0) {
                break;
            }
            with_turn |= group;
        }
        with_turn
    }

    /// Returns whether each event with a turn has a counter of its own that it may have.
    fn has_valid_counters(events: &[Event]) -> bool {
        let mut taken_counters = 0;
        for event in events.iter().filter(|event| event.has_turn) {
            if event.counters & event.counter.bit() & !taken_counters == 0 {
                return false;
            }
            taken_counters |= event.counter.bit();
        }
        true
    }

    /// Returns a function that returns the numbers of a random sequence, which is always the same.
    fn random_numbers() -> impl FnMut() -> u64 {
        let mut random = 1_u64;
        move || {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            random >> 33
        }
    }

    /// An event of a hybrid processor. If `is_on_both`, the first kind of core counts the event
    /// with the event select 1, and the second kind with the event select 2. Otherwise only the
    /// second kind counts the event, with the event select `select`. An event takes few bytes, so
    /// that a test can have many events.
    struct KindEvent<'a> {
        is_on_both: bool,
        select: u8,
        counters: u8,
        counter: CounterId,
        has_turn: bool,
        /// The number of calls for all events of the row.
        steps: &'a Cell<usize>,
    }

    impl<'a> KindEvent<'a> {
        fn new(is_on_both: bool, select: u8, counters: u8, steps: &'a Cell<usize>) -> Self {
            Self {
                is_on_both,
                select,
                counters,
                counter: CounterId::NONE,
                has_turn: false,
                steps,
            }
        }

        fn count_step(&self) {
            self.steps.set(self.steps.get() + 1);
        }
    }

    impl Member for KindEvent<'_> {
        fn takes_turns(&self) -> bool {
            self.count_step();
            true
        }
        fn counters(&self) -> u64 {
            self.count_step();
            self.counters.into()
        }
        fn demand_on(&self, _counter: CounterId) -> Demand {
            self.count_step();
            let mut encodings = Encodings::NONE;
            if self.is_on_both {
                encodings.set(CoreKind::FIRST, EventSelect::new(1, 0));
            }
            let select = if self.is_on_both { 2 } else { self.select };
            if let Some(second) = CoreKind::new(1) {
                encodings.set(second, EventSelect::new(select.into(), 0));
            }
            Demand {
                encodings,
                is_sampled: false,
                needs_own_counter: false,
            }
        }
        fn extra(&self) -> Option<ExtraValue> {
            None
        }
        fn leader(&self) -> Option<usize> {
            None
        }
        fn counter(&self) -> CounterId {
            self.count_step();
            self.counter
        }
        fn has_turn(&self) -> bool {
            self.count_step();
            self.has_turn
        }
        fn begin_turn(&mut self, counter: CounterId) {
            self.count_step();
            self.counter = counter;
            self.has_turn = true;
        }
        fn end_turn(&mut self) {
            self.count_step();
            self.has_turn = false;
        }
    }

    /// Returns the number of steps in which `N` events of a hybrid processor get turns. Half of the
    /// events count on both kinds. The others count on one kind, and a third of these have another
    /// event select than the events on both kinds. All events can have `counters`.
    fn steps_of_turns<const N: usize>(counters: u8) -> usize {
        let steps = Cell::new(0);
        let mut events: [KindEvent<'_>; N] = core::array::from_fn(|index| {
            let select = if index % 3 == 0 { 3 } else { 2 };
            KindEvent::new(index % 2 == 0, select, counters, &steps)
        });
        steps.set(0);
        let all_fit = give_turns(&mut events, 0, |_, _| true);
        // Two event selects for the second kind need two counters.
        assert_eq!(all_fit, counters != 0b1);
        steps.get()
    }

    #[test]
    fn number_of_steps_is_linear_if_events_of_kinds_share_counters() {
        for counters in [0b1, 0b11, 0b1111] {
            let (few, many) = (
                steps_of_turns::<16>(counters),
                steps_of_turns::<64>(counters),
            );
            assert!(many < 5 * few);
        }
    }

    #[test]
    fn event_of_one_kind_shares_with_those_of_both() {
        let steps = Cell::new(0);
        // The first event has the only counter. The event selects of the two kinds differ.
        let mut events = [(true, 2), (false, 3), (false, 2), (true, 2)]
            .map(|(is_on_both, select)| KindEvent::new(is_on_both, select, 1, &steps));
        assert!(!give_turns(&mut events, 0, |_, _| true));
        let turns = |events: &[KindEvent<'_>; 4]| events.each_ref().map(|event| event.has_turn);
        assert_eq!(turns(&events), [true, false, true, true]);
        // An event of the second kind begins, and leaves the first kind to the others.
        assert!(!give_turns(&mut events, 1, |_, _| true));
        assert_eq!(turns(&events), [false, true, false, false]);
        assert!(!give_turns(&mut events, 2, |_, _| true));
        assert_eq!(turns(&events), [true, false, true, true]);
    }

    #[test]
    fn turns_go_to_as_many_groups_as_fit() {
        let mut next_random = random_numbers();
        for _ in 0..2000 {
            let mut events = [Event::new(1, 0); MAX_EVENTS];
            let mut leader = 0;
            for (index, event) in events.iter_mut().enumerate() {
                let counters = next_random() & 0b1_1111;
                *event = Event::new(counters | 1 << (next_random() % 5), index as u16);
                event.enabled = next_random() % 8 != 0;
                if index != 0 && next_random() % 3 == 0 {
                    event.leader = Some(leader);
                } else {
                    leader = index;
                }
            }
            let mut first = 0;
            for _ in 0..2 * MAX_EVENTS {
                give_turns(&mut events, first, enabled);
                assert!(has_valid_counters(&events));
                assert_eq!(turn_mask(&events), expected_turns(&events, first));
                // A second call moves no event.
                let events_before = events;
                give_turns(&mut events, first, enabled);
                for (event, before) in events.iter().zip(&events_before) {
                    assert!(!event.has_turn || event.counter == before.counter);
                }
                first = super::super::next_first(&events, first);
            }
        }
    }

    /// The test [`turns_go_to_as_many_groups_as_fit`] with events that share counters. Events that
    /// share a counter move only together, and don't move to a counter that they could share with
    /// other events. So a group may wait although it would fit.
    #[test]
    fn events_that_share_a_counter_move_together() {
        let mut next_random = random_numbers();
        let (mut fit_count, mut missed_count) = (0, 0);
        for _ in 0..4000 {
            let mut events = [Event::new(1, 0); MAX_EVENTS];
            for (index, event) in events.iter_mut().enumerate() {
                let counters = next_random() & next_random() & 0b1_1111;
                let select = (index % 3) as u16;
                *event = Event::new(counters | 1 << (next_random() % 5), select);
                event.leader = (index > 5).then_some(5);
            }
            let all_fit = can_share(&events, (1 << MAX_EVENTS) - 1, [None; 5]);
            let have_turn = give_turns(&mut events, 0, enabled);
            assert!(all_fit || !have_turn);
            fit_count += usize::from(all_fit);
            missed_count += usize::from(all_fit && !have_turn);
            // Each event has a counter that it may have, and that has no other select.
            let mut selects = [None; 5];
            for event in events.iter().filter(|event| event.has_turn) {
                assert!(event.counters & event.counter.bit() != 0);
                let select = &mut selects[event.counter.index()];
                assert_eq!(*select.get_or_insert(event.select), event.select);
            }
        }
        assert!(fit_count > 1000);
        assert!(missed_count * 3 < fit_count);
    }

    #[test]
    fn shared_counter_is_left_to_an_event_that_needs_it() {
        // The first two events share counter 1, and can both move to counter 0.
        let mut events = [(0b11, 7), (0b11, 7), (0b10, 8)]
            .map(|(counters, select)| Event::new(counters, select));
        assert!(give_turns(&mut events, 0, enabled));
        assert_eq!(events.map(|event| event.counter.index()), [0, 0, 1]);
        // A group that does not fit leaves the events where they were.
        let mut events = [(0b11, 7), (0b11, 7), (0b10, 8), (0b10, 9)]
            .map(|(counters, select)| Event::new(counters, select));
        events[3].leader = Some(2);
        assert!(!give_turns(&mut events, 0, enabled));
        assert_eq!(turn_mask(&events), 0b11);
        assert_eq!(events.map(|event| event.counter.index())[..2], [1, 1]);
    }

    #[test]
    fn equal_events_get_equal_shares() {
        // Each event may have the counters of the previous event and one more, up to three.
        let mut events = [Event::new(0, 0); 5];
        for (index, event) in events.iter_mut().enumerate() {
            *event = Event::new((2 << index) - 1 & 0b111, index as u16);
        }
        let (mut first, mut shares) = (0, [0; 5]);
        for _ in 0..50 {
            assert!(!give_turns(&mut events, first, enabled));
            for (share, event) in shares.iter_mut().zip(&events) {
                *share += u32::from(event.has_turn);
            }
            first = next_first(&events, first);
        }
        assert_eq!(shares, [30; 5]);
    }

    #[test]
    fn tick_moves_as_few_events_as_possible() {
        let mut events = [0, 1, 2, 3].map(|select| Event::new(0b111, select));
        give_turns(&mut events, 0, enabled);
        let counters_before = events.map(|event| event.counter);
        let first = next_first(&events, 0);
        give_turns(&mut events, first, enabled);
        assert_eq!((first, turn_mask(&events)), (1, 0b1110));
        assert_eq!(
            events.map(|event| event.counter)[1..3],
            counters_before[1..3]
        );
        assert!(events[3].counter == counters_before[0]);
    }

    #[test]
    fn events_with_the_same_select_share_a_counter() {
        let mut events = [7, 8, 7, 7].map(|select| Event::new(0b11, select));
        assert!(give_turns(&mut events, 0, enabled));
        assert_eq!(turn_mask(&events), 0b1111);
        assert!(events[0].counter == events[2].counter && events[0].counter == events[3].counter);
        assert!(events[0].counter != events[1].counter);
    }

    #[test]
    fn events_that_can_share_a_counter_do_not_wait() {
        let mut events = [7, 8, 9, 7, 8, 9].map(|select| Event::new(0b11, select));
        assert!(!give_turns(&mut events, 0, enabled));
        assert_eq!(turn_mask(&events), 0b01_1011);
        assert!(!give_turns(&mut events, 1, enabled));
        assert_eq!(turn_mask(&events), 0b11_0110);
        // An event with the same select as an event that does not take turns does not wait either.
        events[0].takes_turns = false;
        events[0].counter = CounterId::FIRST;
        for event in &mut events[1..] {
            event.counters = if event.select == 7 { 0b111 } else { 0b110 };
        }
        for first in 1..6 {
            assert!(give_turns(&mut events, first, enabled));
            assert!(events[3].counter == CounterId::FIRST);
        }
    }

    #[test]
    fn events_that_need_no_counter_do_not_wait() {
        let mut events = [Event::new(1, 0), Event::new(1, 1), Event::new(0, 2)];
        assert!(!give_turns(&mut events, 0, enabled));
        assert_eq!(turn_mask(&events), 0b101);
        // An event without a counter waits together with its group.
        events[2].leader = Some(1);
        assert!(!give_turns(&mut events, 0, enabled));
        assert_eq!(turn_mask(&events), 0b001);
    }

    #[test]
    fn group_fits_is_false_for_too_large_a_group() {
        let mut events = [0, 1, 2].map(|select| Event::new(0b11, select));
        assert!(group_fits(&mut events, 0));
        events[1].leader = Some(0);
        assert!(group_fits(&mut events, 0));
        events[2].leader = Some(0);
        assert!(!group_fits(&mut events, 0));
        assert_eq!(turn_mask(&events), 0);
    }

    #[test]
    fn events_with_different_values_of_a_register_take_turns() {
        let extra = |register, value| {
            let kind = CoreKind::FIRST;
            Some(ExtraValue {
                kind,
                register,
                value,
            })
        };
        let mut events = [7, 7, 8, 7].map(|select| Event::new(0b111, select));
        events[0].extra = extra(ExtraRegister::Frontend, 1);
        events[1].extra = extra(ExtraRegister::Frontend, 2);
        events[3].extra = extra(ExtraRegister::Frontend, 1);
        assert!(!give_turns(&mut events, 0, enabled));
        // The last event can share the counter of the first one.
        assert_eq!(turn_mask(&events), 0b1001);
        assert!(!give_turns(&mut events, 1, enabled));
        assert_eq!(turn_mask(&events), 0b0110);
        // An event that does not take turns has the register all the time.
        events[0].takes_turns = false;
        events[0].counter = CounterId::FIRST;
        assert!(!give_turns(&mut events, 2, enabled));
        assert_eq!(turn_mask(&events), 0b1100);
        events[1].extra = extra(ExtraRegister::OffcoreResponse0, 2);
        events[1].select = 9;
        assert!(give_turns(&mut events, 1, enabled));
        // A group with two values never has a turn.
        events[1].extra = extra(ExtraRegister::Frontend, 2);
        events[2].extra = extra(ExtraRegister::Frontend, 3);
        events[2].leader = Some(1);
        assert!(!group_fits(&mut events, 1));
        assert!(group_fits(&mut events, 3));
    }

    #[test]
    fn widening_is_found_through_other_members() {
        let mut events = [(0b0001, 7), (0b0011, 8), (0b0110, 9)]
            .map(|(counters, select)| Event::new(counters, select));
        let find = |events: &[Event], wanted, free: [u64; 3]| {
            let free_counters = |event: &Event| free[usize::from(event.select) - 7];
            let widened = find_member_to_widen(events, wanted, free_counters);
            widened.map(|(event, counter)| (event.select, counter.index()))
        };
        assert_eq!(find(&events, 0b0001, [0b1000, 0, 0]), Some((7, 3)));
        assert_eq!(find(&events, 0b0001, [0, 0b1000, 0b1000]), Some((8, 3)));
        assert_eq!(find(&events, 0b0001, [0, 0, 0b1000]), Some((9, 3)));
        assert_eq!(find(&events, 0b0100, [0b1000, 0, 0]), Some((7, 3)));
        assert_eq!(find(&events, 0b0001, [0; 3]), None);
        assert_eq!(find(&events, 0b1_0000, [0b1000; 3]), None);
        events[1].takes_turns = false;
        assert_eq!(find(&events, 0b0001, [0, 0b1000, 0b1000]), None);
    }

    #[test]
    fn next_first_stays_without_a_turn() {
        assert_eq!(next_first::<Event>(&[], 0), 0);
        assert!(give_turns::<Event>(&mut [], 3, enabled));
        let mut events = [Event::new(1, 0); 2];
        events[0].enabled = false;
        events[1].enabled = false;
        assert!(give_turns(&mut events, 1, enabled));
        assert_eq!((turn_mask(&events), next_first(&events, 1)), (0, 1));
    }
}
