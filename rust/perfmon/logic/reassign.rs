// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Moving events to other counters, for a new event that can be counted only by counters that are in use.
//!
//! The events that share a counter are one user of it, and move together. They move to a free counter, or to a counter
//! whose events move first. So a new event is refused only if no assignment of counters to the present users leaves a
//! counter for it (an augmenting path in the bipartite graph of users and counters; Berge, 1957).

use super::counter::{each_counter, highest, CounterId, MAX_COUNTERS};

/// Moves of events from counter to counter.
#[derive(Clone, Copy, Debug)]
pub struct Moves {
    /// The path of the moves: events move from each counter to the next one. The last counter is free before the moves,
    /// and the first counter after them.
    path: [CounterId; MAX_COUNTERS],
    /// The number of counters in `path`.
    len: usize,
}

impl Moves {
    /// Returns the counter that is free after the moves.
    #[must_use]
    pub const fn freed_counter(&self) -> CounterId {
        self.path[0]
    }

    /// Returns the moves in order, each from the first counter to the second one, which is free by then.
    pub fn each(&self) -> impl Iterator<Item = (CounterId, CounterId)> + '_ {
        let path = self.path.get(..self.len).unwrap_or(&[]);
        path.windows(2).rev().filter_map(|pair| match pair {
            [from, to] => Some((*from, *to)),
            _ => None,
        })
    }
}

/// Returns the fewest moves that free one of the counters `wanted_counters`. `free` are the counters without events, and
/// `targets_of` returns the counters to which all events of a counter could move. Returns `None` if there are no such
/// moves.
pub fn find_moves(
    wanted_counters: u64,
    free: u64,
    targets_of: impl Fn(CounterId) -> u64,
) -> Option<Moves> {
    // The counter whose events would move to the counter with this index; NONE for the counters in `wanted_counters`.
    let mut moves_from = [CounterId::NONE; MAX_COUNTERS];
    // The counters that the search has reached, and the counters that it reached in the last step.
    let (mut reached_counters, mut frontier) = (wanted_counters, wanted_counters);
    while frontier != 0 {
        let mut next_frontier = 0;
        for counter in each_counter(frontier) {
            let targets = targets_of(counter);
            if let Some(last) = highest(targets & free) {
                return Some(moves_to_free(counter, last, &moves_from));
            }
            for target in each_counter(targets & !reached_counters) {
                moves_from[target.index()] = counter;
                reached_counters |= target.bit();
                next_frontier |= target.bit();
            }
        }
        frontier = next_frontier;
    }
    None
}

/// Returns the moves that make the first counter of a path free. The path ends with `counter`, whose events move to
/// `free`; `moves_from` has the counter before each counter of the path.
fn moves_to_free(
    counter: CounterId,
    free: CounterId,
    moves_from: &[CounterId; MAX_COUNTERS],
) -> Moves {
    let mut moves = Moves {
        path: [free; MAX_COUNTERS],
        len: 1,
    };
    let mut next = counter;
    while let Some(place) = moves.path.get_mut(moves.len).filter(|_| !next.is_none()) {
        *place = next;
        moves.len += 1;
        next = moves_from[next.index()];
    }
    moves.path.reverse();
    moves.path.rotate_left(MAX_COUNTERS - moves.len);
    moves
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_reassign))]
mod tests {
    use super::super::counter::mask_of;
    use super::*;

    /// Returns the indices of a path's counters as decimal digits, the freed counter first.
    fn digits(moves: Option<Moves>) -> usize {
        let path = moves
            .iter()
            .flat_map(|moves| moves.path.iter().take(moves.len));
        path.fold(0, |digits, counter| digits * 10 + counter.index())
    }

    #[test]
    fn shortest_path_is_found() {
        // The events of counters 1 to 4 could move to the next counter. The events of counter 2
        // could also move to counter 4.
        let targets_of = |counter: CounterId| match counter.index() {
            2 => 0b1_1000,
            index @ 1..=4 => 2 << index,
            _ => 0,
        };
        assert_eq!(digits(find_moves(0b0_0010, 0b10_0000, targets_of)), 1245);
        assert_eq!(digits(find_moves(0b0_1010, 0b10_0000, targets_of)), 345);
        assert_eq!(digits(find_moves(0b0_0010, 0b01_0000, targets_of)), 124);
        assert_eq!(digits(find_moves(0b0_0001, 0b10_0000, targets_of)), 0);
        assert_eq!(digits(find_moves(0b0_0010, 0, targets_of)), 0);
        // Of two counters that are free, the highest is taken.
        assert_eq!(digits(find_moves(0b0_0100, 0b01_1000, targets_of)), 24);
    }

    #[test]
    fn moves_begin_at_the_free_counter() {
        let targets_of = |counter: CounterId| 2 << counter.index();
        let moves = find_moves(1, 1 << 3, targets_of);
        let mut pairs = moves.iter().flat_map(Moves::each);
        for expected in [(2, 3), (1, 2), (0, 1)] {
            let pair = pairs.next().map(|(from, to)| (from.index(), to.index()));
            assert_eq!(pair, Some(expected));
        }
        assert!(pairs.next().is_none());
        assert_eq!(moves.map(|moves| moves.freed_counter().index()), Some(0));
    }

    /// The number of counters of the model, in which each event has one of them.
    const COUNTERS: usize = 5;

    /// Returns whether each event, a mask of counters, can have a counter of its own among `counters`.
    fn all_fit(events: &[u64], counters: u64) -> bool {
        match events {
            [first, rest @ ..] => each_counter(first & counters)
                .any(|counter| all_fit(rest, counters & !counter.bit())),
            [] => true,
        }
    }

    /// Opens and closes events at random. An event is refused if, and only if, no assignment of all events exists.
    #[test]
    fn only_impossible_assignments_are_refused() {
        let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
        // The event of each counter, 0 if there is none.
        let mut events = [0_u64; COUNTERS];
        let (mut move_count, mut refusal_count) = (0, 0);
        for _ in 0..20_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            if state & 3 == 0 {
                events[(state >> 8) as usize % COUNTERS] = 0;
                continue;
            }
            let new = state >> 16 & state >> 32 & ((1 << COUNTERS) - 1);
            let mut all_events = [new; COUNTERS + 1];
            all_events[..COUNTERS].copy_from_slice(&events);
            let mut count = 0;
            for index in 0..all_events.len() {
                if all_events[index] != 0 || index == COUNTERS {
                    all_events[count] = all_events[index];
                    count += 1;
                }
            }
            let is_possible = all_fit(&all_events[..count], u64::MAX);
            let free =
                mask_of(each_counter((1 << COUNTERS) - 1).filter(|id| events[id.index()] == 0));
            let counter = highest(new & free).or_else(|| {
                let moves = find_moves(new, free, |counter| events[counter.index()])?;
                move_count += 1;
                for (from, to) in moves.each() {
                    assert!(events[to.index()] == 0 && events[from.index()] & to.bit() != 0);
                    events[to.index()] = core::mem::take(&mut events[from.index()]);
                }
                Some(moves.freed_counter())
            });
            assert_eq!(counter.is_some(), is_possible);
            match counter {
                Some(counter) => {
                    assert!(events[counter.index()] == 0 && new & counter.bit() != 0);
                    events[counter.index()] = new;
                }
                None => refusal_count += 1,
            }
        }
        assert!(move_count > 500 && refusal_count > 500);
    }
}
