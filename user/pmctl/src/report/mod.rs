// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl report`: what a recording is about, as tables.

mod branches;
mod table;

use std::collections::HashMap;
use std::io::Write;

use anyhow::Result;

use crate::cli::{Key, Report};
use crate::exit::Usage;
use crate::perfdata::{self, Recording};
use crate::profile::{self, Named, number};
use crate::text::{count, printable, thousands};
use table::{Align, Table};

/// Shows a table for each event, or the one of the branches.
pub(crate) fn report(args: &Report, output: &mut impl Write) -> Result<()> {
    let recording = profile::open(&args.input.input)?;
    if args.branches && !recording.has_branches() {
        return Err(Usage(
            "--branches: no branches were recorded. `pmctl record -b` does.".to_owned(),
        )
        .into());
    }
    let host = &recording.host;
    writeln!(
        output,
        "Recorded: {} on {} (Linux {}, {})",
        printable(&recording.notes.scope),
        printable(&host.name),
        printable(&host.release),
        count(host.cpus_online, "CPU"),
    )?;
    perfdata::warn(&recording.notes, output)?;
    if args.branches {
        return branches::write(&recording, output);
    }
    let tables = shares(&recording, &args.sort)?;
    for (index, shares) in tables.iter().enumerate() {
        writeln!(output)?;
        write_event(&recording, (index, shares), &args.sort, output)?;
    }
    Ok(())
}

/// What falls to a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Share {
    events: u64,
    samples: u64,
}

/// The shares of an event, by what the rows differ in.
type Shares = HashMap<Vec<String>, Share>;

/// Adds up the samples of each event.
fn shares(recording: &Recording, keys: &[Key]) -> Result<Vec<Shares>> {
    let mut tables = vec![Shares::new(); recording.events.len()];
    profile::each_sample(recording, |named, _| {
        let row = keys.iter().map(|key| text(*key, named)).collect();
        let share = tables[named.sample.event].entry(row).or_default();
        share.events = share.events.saturating_add(named.sample.period);
        share.samples += 1;
        Ok(())
    })?;
    Ok(tables)
}

/// What a row says of a sample.
fn text(key: Key, named: &Named<'_>) -> String {
    match key {
        Key::Comm => named.comm.clone(),
        Key::Pid => number(named.stamp.task.pid),
        Key::Dso => named.site.dso(),
        Key::Symbol => {
            // As perf has it: which functions are the kernel's is seen at a glance.
            let mode = if named.sample.in_kernel() {
                "[k]"
            } else {
                "[.]"
            };
            format!("{mode} {}", named.site.symbol())
        }
        Key::Cpu => format!("{:03}", named.stamp.cpu),
    }
}

const fn heading(key: Key) -> &'static str {
    match key {
        Key::Comm => "command",
        Key::Pid => "pid",
        Key::Dso => "file",
        Key::Symbol => "function",
        Key::Cpu => "cpu",
    }
}

/// The table of an event.
fn write_event(
    recording: &Recording,
    (index, shares): (usize, &Shares),
    keys: &[Key],
    output: &mut impl Write,
) -> Result<()> {
    let events = shares.values().map(|share| share.events);
    let events = events.fold(0, u64::saturating_add);
    let samples: u64 = shares.values().map(|share| share.samples).sum();
    writeln!(
        output,
        "{}: {} of {} events; {} events were counted on all CPUs",
        printable(&recording.events[index].name),
        if samples == 1 {
            "1 sample".to_owned()
        } else {
            format!("{} samples", thousands(samples))
        },
        thousands(events),
        thousands(recording.notes.totals[index]),
    )?;
    if samples == 0 {
        return Ok(());
    }
    let mut rows: Vec<_> = shares.iter().collect();
    rows.sort_by(|(a_row, a), (b_row, b)| b.events.cmp(&a.events).then_with(|| a_row.cmp(b_row)));

    let mut headings = vec![("share", Align::Right), ("samples", Align::Right)];
    headings.extend(keys.iter().map(|key| (heading(*key), Align::Left)));
    let mut table = Table::new(&headings);
    for (row, share) in rows {
        let mut cells = vec![percent(share.events, events), thousands(share.samples)];
        cells.extend(row.iter().cloned());
        table.row(&cells);
    }
    Ok(table.write(output)?)
}

/// A part of a whole.
fn percent(part: u64, whole: u64) -> String {
    // Of nothing, nothing.
    format!("{:.2}%", part as f64 / whole.max(1) as f64 * 100.0)
}
