// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of regions that are passed when a thread ends. The example `regions` tests counting, on a
//! machine with the device.

use std::cell::RefCell;

use perfmon::event::region::{self, CannotSetEvents};
use perfmon::{Event, Group, region};

/// Passes a region when the thread ends.
struct PassAtEnd;

impl Drop for PassAtEnd {
    fn drop(&mut self) {
        let _region = region!("end of a thread");
    }
}

thread_local! {
    static AT_END: RefCell<Option<PassAtEnd>> = const { RefCell::new(None) };
}

/// The variables of a thread are dropped in reverse order, so the thread's event is closed before the last pass.
#[test]
fn a_pass_after_the_thread_has_closed_its_event_is_not_counted() {
    let thread = std::thread::spawn(|| {
        AT_END.set(Some(PassAtEnd));
        let _region = region!("before");
    });
    thread.join().expect("the thread has not panicked");
    let totals = region::totals();
    let end = totals.iter().find(|total| total.name == "end of a thread");
    let end = end.expect("the region was passed");
    assert_eq!((end.passes, end[0], end.failed), (0, 0, 1));
    assert_eq!(end.get("instructions"), Some(0));
}

/// The other test also passes regions, so the events may already be fixed.
#[test]
fn regions_count_few_events_which_are_chosen_once() {
    let events = Group::of(Event::instructions().user());
    let many = (0..4).fold(events.clone(), |group, _| {
        group.and(Event::branches().user())
    });
    assert_eq!(region::set_events(many), Err(CannotSetEvents::TooMany(5)));
    drop(region!("first"));
    assert_eq!(region::set_events(events), Err(CannotSetEvents::TooLate));
}
