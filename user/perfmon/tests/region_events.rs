// SPDX-License-Identifier: MIT OR Apache-2.0
//! Test of the moment at which the events of regions are chosen, in a process that has passed no
//! region yet.

use perfmon::event::region::{self, CannotSetEvents};
use perfmon::{Event, Group, region};

#[test]
fn reading_the_sums_does_not_choose_the_events() {
    assert_eq!(region::totals(), []);
    let events = Group::of(Event::branches().user());
    assert_eq!(region::set_events(events.clone()), Ok(()));
    assert_eq!(
        region::set_events(events),
        Err(CannotSetEvents::TooLate),
        "they are chosen once"
    );
    drop(region!("first"));
    assert_eq!(region::totals()[0].get("branches"), Some(0));
}
