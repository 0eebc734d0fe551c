// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of other registers than counters: energy is added up, a temperature has a range.

use crate::perfdata::Recording;
use crate::stat::values::Unit;
use crate::text::{count, thousands};

/// Returns a number of events, or of what a value has grown by.
pub(super) fn amount(unit: Option<Unit>, number: u64) -> String {
    match unit {
        None | Some(Unit::Cycles) => thousands(number),
        Some(unit) => unit.in_words(number),
    }
}

/// Returns the range and the mean of a level, as of the samples; `None` if there are none.
pub(super) fn range(recording: &Recording, index: usize, unit: Unit) -> Option<String> {
    let samples = recording.samples().filter(|(_, s)| s.event == index);
    let mut values: Vec<u64> = samples.map(|(_, sample)| sample.period).collect();
    values.sort_unstable();
    let (least, most) = (values.first()?, values.last()?);
    let middle = values[values.len() / 2];
    Some(format!(
        "From {least} to {most} {}, median {middle} {} of {}",
        unit.name(),
        unit.name(),
        count(values.len() as u64, "sample")
    ))
}
