// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counts of a closure.

use super::{Counts, Event, Group};
use crate::Error;

/// Runs `work`. Returns its result, and the instructions, cycles, branches and branch misses of the
/// calling thread in user mode.
///
/// For other events, or to measure often, open a [`Group`] once: [`Group::measure`].
///
/// ```no_run
/// let (sum, counts) = perfmon::measure(|| (0..1000).map(std::hint::black_box).sum::<u64>())?;
/// println!("{:?} instructions for {sum}", counts.get("instructions"));
/// # Ok::<(), perfmon::Error>(())
/// ```
///
/// # Errors
/// As [`Builder::open`](super::Builder::open) and [`Event::read`]. If the CPU lacks the branch events, or counters for
/// them, only instructions and cycles are counted.
pub fn measure<R>(work: impl FnOnce() -> R) -> Result<(R, Counts), Error> {
    let two = Group::of(Event::instructions().user().disabled()).and(Event::cycles().user());
    let four = two
        .clone()
        .and(Event::branches().user())
        .and(Event::branch_misses().user());
    let group = match four.open() {
        Ok(group) => group,
        Err(_) => two.open()?,
    };
    group.measure(work)
}
