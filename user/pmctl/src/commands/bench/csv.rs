// SPDX-License-Identifier: MIT OR Apache-2.0
//! The numbers as CSV: a line for each command and event. Times are in seconds, and a change of 0.01 is 1 %.

use std::io::Write;

use anyhow::Result;
use perfmon_compare::comparison::Comparison;
use perfmon_compare::condition::NS;
use perfmon_compare::figures::{deviation, is_exact, mean};

const HEADINGS: [&str; 11] = [
    "command",
    "event",
    "runs",
    "mean",
    "deviation",
    "min",
    "max",
    "change",
    "low",
    "high",
    "exact",
];

/// Writes the headings, and a line for each row.
pub(super) fn write(comparison: &Comparison<'_>, output: &mut impl Write) -> Result<()> {
    let mut lines = csv::Writer::from_writer(output);
    lines.write_record(HEADINGS)?;
    for row in comparison.rows() {
        let values = row.values;
        let unit = if row.is_time { NS } else { 1.0 };
        let extreme =
            |value: Option<&u64>| value.map_or(0.0, |value| *value as f64 / unit).to_string();
        let part = |part: Option<f64>| part.map_or_else(String::new, |part| part.to_string());
        lines.write_record([
            row.command.to_owned(),
            row.event.to_owned(),
            values.len().to_string(),
            (mean(values) / unit).to_string(),
            (deviation(values) / unit).to_string(),
            extreme(values.iter().min()),
            extreme(values.iter().max()),
            part(row.change.map(|change| change.part)),
            part(row.change.map(|change| change.interval.low)),
            part(row.change.map(|change| change.interval.high)),
            is_exact(values).to_string(),
        ])?;
    }
    Ok(lines.flush()?)
}

#[cfg(test)]
mod tests {
    use std::io;

    use perfmon_compare::testing;

    use super::*;

    #[test]
    fn numbers_are_not_rounded() {
        let text = testing::write_to_text(|comparison, text| {
            write(comparison, text).map_err(io::Error::other)
        });
        assert_eq!(text.lines().count(), 5);
        assert!(
            text.contains("./new,instructions:u,3,1020,0,1020,1020,0.02,0.02,0.02,true"),
            "{text}"
        );
        assert!(
            text.contains("./old 'a b',time,3,0.001,0.0001,0.0009,0.0011,,,,false"),
            "{text}"
        );
    }
}
