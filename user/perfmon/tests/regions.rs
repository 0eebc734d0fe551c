// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of regions that are passed when a thread ends. The example `regions` counts, where there is a device.

use std::cell::RefCell;

use perfmon::event::region;
use perfmon::region;

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

/// Variables of a thread are dropped in the opposite order, so the thread's event is closed before the last pass.
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
    assert_eq!((end.passes, end.instructions, end.failed), (0, 0, 1));
}
