// SPDX-License-Identifier: MIT OR Apache-2.0
//! The texts of a table's numbers: percentages, counts, and values of registers that are not counters. Energy is added
//! up, and a temperature has a range.

use anyhow::Result;

use crate::events::values::{Unit, signed};
use crate::recording::perfdata::Recording;
use crate::recording::profile;
use crate::recording::profile::Filter;
use crate::system::text::{count, thousands};

/// Returns a number of events, or the growth of a value with its unit, as text.
pub(super) fn amount_text(unit: Option<Unit>, number: u64) -> String {
    match unit {
        None | Some(Unit::Cycles) => thousands(number),
        Some(unit) => unit.in_words(number),
    }
}

/// Returns the total of an event or a value as text for a heading.
pub(crate) fn total_text(unit: Option<Unit>, events: u64) -> String {
    let noun = if unit.is_some() { "sum" } else { "event count" };
    format!("{noun} {}", amount_text(unit, events))
}

/// Returns the range and the median of a level, for the samples that pass the filter; `None` without samples.
pub(crate) fn value_range(
    recording: &Recording,
    filter: &Filter,
    (index, unit): (usize, Unit),
) -> Result<Option<String>> {
    let mut values: Vec<i64> = Vec::new();
    profile::each_sample_without_unwinding(recording, |named, names| {
        if named.sample.event == index && filter.keeps(named, names) {
            values.push(signed(named.sample.period));
        }
        Ok(())
    })?;
    values.sort_unstable();
    let (Some(least), Some(most)) = (values.first(), values.last()) else {
        return Ok(None);
    };
    let middle = values[values.len() / 2];
    Ok(Some(format!(
        "From {least} to {most} {}, median {middle} {} of {}",
        unit.name(),
        unit.name(),
        count(values.len() as u64, "sample")
    )))
}

/// Returns a part of a whole in percent.
pub(super) fn percent_text(part: u64, whole: u64) -> String {
    // Without events, max() avoids a division by 0, and the share is 0 %.
    format!("{:.2}%", part as f64 / whole.max(1) as f64 * 100.0)
}
