// SPDX-License-Identifier: MIT OR Apache-2.0
//! A table of `pmctl top` as text.

use std::io::Write;

use anyhow::Result;

use crate::perfdata::Recording;
use crate::report::{self, Align, Grouping, Share, Table, heading};
use crate::screen::Screen;
use crate::text::{count, printable, thousands};

/// Prints the first rows of each event.
pub(super) fn write(
    recording: &Recording,
    grouping: &Grouping,
    entries: usize,
    output: &mut Screen,
) -> Result<()> {
    let (tables, ..) = report::shares(recording, grouping, None)?;
    let style = output.colors.heading;
    for (event, shares) in recording.events.iter().zip(&tables) {
        let events = shares.values().map(|share| share.events);
        let events = events.fold(0, u64::saturating_add);
        let samples: u64 = shares.values().map(|share| share.samples).sum();
        writeln!(
            output,
            "{style}Samples: {} of event '{}'{style:#}, event count {}",
            thousands(samples),
            printable(&event.name),
            thousands(events),
        )?;
        let mut rows: Vec<(&Vec<String>, &Share)> = shares.iter().collect();
        rows.sort_by(|(a_cells, a), (b_cells, b)| {
            b.events.cmp(&a.events).then_with(|| a_cells.cmp(b_cells))
        });
        let mut headings = vec![("overhead", Align::Right), ("samples", Align::Right)];
        headings.extend(grouping.keys.iter().map(|key| (heading(*key), Align::Left)));
        let mut table = Table::new(&headings);
        for (cells, share) in rows.iter().take(entries) {
            let part = share.events as f64 / events.max(1) as f64;
            let mut row = vec![format!("{:.2}%", part * 100.0), thousands(share.samples)];
            row.extend(cells.iter().cloned());
            table.row(&row, output.colors.share(part));
        }
        table.write(None, style, output)?;
        let rest = rows.len().saturating_sub(entries);
        if rest > 0 {
            writeln!(output, "  ({} not shown)", count(rest as u64, "row"))?;
        }
        writeln!(output)?;
    }
    Ok(())
}
