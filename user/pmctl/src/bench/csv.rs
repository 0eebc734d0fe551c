// SPDX-License-Identifier: MIT OR Apache-2.0
//! The numbers as CSV: a line for each command and event. Times are in seconds, changes are parts: 0.01 is 1 %.

use std::io::Write;

use anyhow::Result;

use super::figures::{change, deviation, mean};
use super::{Compared, NS};

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

/// Writes the lines.
pub(super) fn write(compared: &Compared<'_>, output: &mut impl Write) -> Result<()> {
    let mut lines = csv::Writer::from_writer(output);
    lines.write_record(HEADINGS)?;
    let measured = compared.measured;
    for (event, name) in measured.events.iter().enumerate() {
        let unit = if measured.is_time(event) { NS } else { 1.0 };
        for (index, entry) in measured.commands.iter().enumerate() {
            let values = &entry.values[event];
            let extreme =
                |value: Option<&u64>| value.map_or(0.0, |value| *value as f64 / unit).to_string();
            let change = compared
                .before(index, event)
                .map(|before| change(before, values));
            let part = |part: Option<f64>| part.map_or_else(String::new, |part| part.to_string());
            lines.write_record([
                entry.command.clone(),
                name.clone(),
                values.len().to_string(),
                (mean(values) / unit).to_string(),
                (deviation(values) / unit).to_string(),
                extreme(values.iter().min()),
                extreme(values.iter().max()),
                part(change.map(|change| change.part)),
                part(change.map(|change| change.interval.low)),
                part(change.map(|change| change.interval.high)),
                super::figures::is_exact(values).to_string(),
            ])?;
        }
    }
    Ok(lines.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::testing;

    #[test]
    fn numbers_are_not_rounded() {
        let (measured, reference) = (testing::document(), testing::none());
        let compared = Compared {
            measured: &measured,
            reference: &reference,
        };
        let mut text = Vec::new();
        write(&compared, &mut text).expect("a vector takes everything");
        let text = String::from_utf8(text).expect("it is text");
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
