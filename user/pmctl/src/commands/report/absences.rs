// SPDX-License-Identifier: MIT OR Apache-2.0
//! Notes below a table: the reasons why rows lack the data that a key shows.

use super::needed_data::missing_data;
use crate::args::{Key, KeyNeed};
use crate::recording::perfdata::{Attr, NA};

/// The note on precise samples without a data source.
const NO_PRECISE_SOURCE: &str = "N/A: the processor has recorded nothing for these samples. It does so for loads of \
                                 -e mem-loads:pp, and in part for stores.";

/// The note on other samples without a data source.
const NO_SOURCE: &str = "N/A: nothing was recorded for these samples: they are of no load or store, or the PMU does not \
                         tell it.";

/// Returns the notes on the table of an event: on data that were not recorded for the event, and on rows without a data
/// source. `rows` are the cells of the shown rows.
pub(super) fn absence_notes<'a>(
    keys: &[Key],
    mut rows: impl Iterator<Item = &'a [String]>,
    attr: &Attr,
) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for need in keys.iter().filter_map(|key| key.need()) {
        if let Some((data, options)) = missing_data(need, attr.recorded_parts()) {
            let note = format!(
                "No {data} were recorded for this event. Record it with `pmctl record {options}`."
            );
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    let lacks_source = missing_data(KeyNeed::DataSource, attr.recorded_parts()).is_some();
    if !lacks_source && rows.any(|cells| lacks_value(keys, cells)) {
        let note = if attr.is_precise() {
            NO_PRECISE_SOURCE
        } else {
            NO_SOURCE
        };
        notes.push(note.to_owned());
    }
    notes
}

/// Returns whether a row has no value for a key of the data source. The keys `locked` and `blocked` are left out: their
/// value is N/A also for samples without a lock, or without anything to wait for.
fn lacks_value(keys: &[Key], cells: &[String]) -> bool {
    let mut cells = keys.iter().zip(cells);
    cells.any(|(key, cell)| matches!(key, Key::Mem | Key::Tlb | Key::Snoop) && cell == NA)
}

#[cfg(test)]
mod tests {
    use perfmon::Modes;

    use super::*;
    use crate::recording::perfdata::{EventKind, SampleParts};

    fn attr(has_data_source: bool, precision: u8) -> Attr {
        let parts = SampleParts {
            has_data_source,
            ..SampleParts::default()
        };
        Attr::sampled(EventKind::Hardware(1), 1000, Modes::User, parts).with_precision(precision)
    }

    fn notes(keys: &[Key], cells: &[&str], attr: &Attr) -> Vec<String> {
        let cells: Vec<String> = cells.iter().map(|cell| (*cell).to_owned()).collect();
        absence_notes(keys, std::iter::once(&cells[..]), attr)
    }

    #[test]
    fn rows_without_a_source_have_their_reason() {
        let recorded = attr(true, 2);
        assert_eq!(notes(&[Key::Mem], &["L1 hit"], &recorded), [""; 0]);
        assert_eq!(notes(&[Key::Symbol], &[NA], &recorded), [""; 0]);
        assert_eq!(
            notes(&[Key::Locked, Key::Blocked], &[NA, NA], &recorded),
            [""; 0]
        );
        for key in [Key::Mem, Key::Tlb, Key::Snoop] {
            assert_eq!(notes(&[key], &[NA], &recorded), [NO_PRECISE_SOURCE]);
        }
        assert_eq!(notes(&[Key::Tlb], &[NA], &attr(true, 0)), [NO_SOURCE]);
    }

    #[test]
    fn data_that_were_not_recorded_are_named_once() {
        let keys = [Key::Mem, Key::Snoop, Key::LocalWeight, Key::Cgroup];
        let notes = notes(&keys, &[NA, NA, "0", "/"], &attr(false, 2));
        assert_eq!(
            notes,
            [
                "No data sources were recorded for this event. Record it with `pmctl record -d -e NAME:pp`.",
                "No weights were recorded for this event. Record it with `pmctl record -W -e NAME:pp`.",
                "No cgroups were recorded for this event. Record it with `pmctl record --all-cgroups`.",
            ]
        );
    }
}
