// SPDX-License-Identifier: MIT OR Apache-2.0
//! A comparison as JSON.

use std::io::Write;

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::comparison::{ComparedRecordings, Comparison, DiffRow};
use crate::args::Diff;
use crate::commands::report::key_heading;
use crate::recording::perfdata::Event;
use crate::system::screen::Screen;

/// Prints an array with an object for each event.
pub(super) fn write(compared: &ComparedRecordings<'_>, output: &mut Screen) -> Result<()> {
    let (recordings, args) = (&compared.recordings, compared.args);
    let side = |(index, event): (usize, &Event), comparison: &Comparison| {
        let (file, recording) = &recordings[index];
        let total = comparison.recording_totals[index];
        json!({
            "file": file.to_string_lossy(),
            "recorded": recording.notes.scope,
            "event": event.name,
            "precise": event.attr.is_precise(),
            "events": total.events,
            "samples": total.samples,
            "complete": recording.has_all_samples(),
        })
    };
    let table = |comparison: &Comparison| {
        let recorded_events = compared.recorded_events(comparison).into_iter();
        let sides = recorded_events
            .enumerate()
            .map(|event| side(event, comparison));
        let rows = comparison.rows.iter();
        let rows = rows.take(args.limit.unwrap_or(usize::MAX));
        json!({
            "event": comparison.event.name,
            "tested": match &comparison.periods {
                Some(_) if comparison.is_exact => "exact counts",
                Some(_) => "counts",
                None => "shares",
            },
            "recordings": sides.collect::<Vec<_>>(),
            "rows": rows.map(|row| row_object(comparison, row, args)).collect::<Vec<_>>(),
        })
    };
    let tables: Vec<Value> = compared.comparisons.iter().map(table).collect();
    serde_json::to_writer_pretty(&mut *output, &tables)?;
    Ok(writeln!(output)?)
}

/// Returns a row as an object: its keys, its numbers in each recording, and the differences from the first recording.
fn row_object(comparison: &Comparison, row: &DiffRow, args: &Diff) -> Value {
    let keys = args.keys();
    let keys = keys.iter().zip(&row.cells);
    let keys = keys.map(|(key, cell)| (key_heading(*key).to_owned(), Value::from(cell.as_str())));
    let mut object: Map<String, Value> = keys.collect();
    let shares = row.shares.iter().zip(&comparison.recording_totals);
    let shares = shares.map(|(share, total)| {
        json!({ "share": share.share_of(*total), "events": share.events, "samples": share.samples })
    });
    object.insert("recordings".to_owned(), shares.collect());
    let results = row.test_results.iter().zip(1..);
    let differences = results.map(|((p, significant), side)| {
        json!({ "delta": comparison.delta(row, side), "p": p, "significant": significant })
    });
    object.insert("differences".to_owned(), differences.collect());
    object.into()
}
