// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl report`: tables of the programs and functions that were sampled.

mod absences;
mod accesses;
mod branches;
mod callers;
mod fused;
mod known_rows;
mod mode_mark;
mod nameless;
mod needed_data;
mod packages;
mod rows;
mod shown_rows;
mod values;

use std::io::Write;

use anyhow::Result;

use crate::args::{Key, Report};
use crate::events::cpus::Cpus;
use crate::recording::perfdata::{self, Recording};
use crate::recording::profile::{self, SourceLines};
use crate::system::screen::Screen;
use crate::system::table::{Align, Table};
use crate::system::text::{count, printable, thousands};
use absences::absence_notes;
pub(crate) use accesses::{compare_cells, shown_cells};
pub(crate) use callers::Tree;
pub(crate) use needed_data::{check_keys, check_recording, missing_data};
pub(crate) use rows::{Grouping, Share, Shares, key_heading, sum_by_row, totals};
pub(crate) use shown_rows::{LIMIT_ADVICE, NO_SAMPLE_PASSES, PERCENT_LIMIT_ADVICE};
use shown_rows::{within_limits, write_hidden_rows, write_no_sample};
use values::{amount_text, percent_text};
pub(crate) use values::{total_text, value_range};

/// Prints a table for each event, or the table of the branches.
pub(crate) fn report(args: &Report, output: &mut Screen) -> Result<()> {
    let recording = profile::open(&args.input.input)?;
    check_recording(args, &recording)?;
    write_report(args, &recording, output)
}

/// Prints the tables.
fn write_report(args: &Report, recording: &Recording, output: &mut Screen) -> Result<()> {
    let host = &recording.host;
    let name = match &host.name[..] {
        // The kernel's word for a host without a name.
        "" | "(none)" => String::new(),
        name => format!(" on {}", printable(name)),
    };
    write!(
        output,
        "Recorded: {}{name}",
        printable(&recording.notes.scope)
    )?;
    // An unfinished file lacks its end, which has the release and the number of CPUs.
    if !recording.is_unfinished {
        let cpus = count(host.cpus_online, "CPU");
        write!(output, " (Linux {}, {cpus})", printable(&host.release))?;
    }
    writeln!(output)?;
    perfdata::warn(&recording.notes, output.colors, output)?;
    if args.branches {
        return branches::write_table(recording, args, output);
    }
    let wants_lines = args.inlined.inline || args.rows.keys().contains(&Key::Srcline);
    let source_lines = wants_lines.then(|| SourceLines::new(recording));
    let grouping = Grouping::from_args(args);
    let (tables, gaps) = sum_by_row(recording, &grouping, source_lines.as_ref())?;
    let shown_options = (&grouping, source_lines.as_ref());
    gaps.write_warnings(recording, shown_options, output.colors, output)?;
    if !grouping.filter.is_empty() && tables.iter().all(|shares| shares.is_empty()) {
        return Ok(write_no_sample(output)?);
    }
    for (index, shares) in tables.iter().enumerate() {
        writeln!(output)?;
        write_event(recording, (index, shares), (args, &grouping), output)?;
    }
    Ok(())
}

/// Prints the table of an event.
fn write_event(
    recording: &Recording,
    (index, shares): (usize, &Shares),
    (args, grouping): (&Report, &Grouping),
    output: &mut Screen,
) -> Result<()> {
    let (events, samples) = totals(shares.values());
    let style = output.colors.heading;
    let unit = recording.events[index].attr.unit();
    writeln!(
        output,
        "{style}Samples: {} of event '{}'{style:#}",
        thousands(samples),
        printable(&recording.events[index].name),
    )?;
    // A level such as a temperature can't be divided among functions.
    if let Some(unit) = unit.filter(|unit| !unit.grows()) {
        if let Some(range) = value_range(recording, &grouping.filter, (index, unit))? {
            writeln!(output, "{range}")?;
        }
        return Ok(());
    }
    let events_of_all_samples = grouping.filter.is_empty().then_some(events);
    writeln!(
        output,
        "{}: {}{}{}",
        if unit.is_some() { "Sum" } else { "Event count" },
        amount_text(unit, events),
        if grouping.filter.is_empty() {
            ""
        } else {
            " of the chosen samples"
        },
        counted_text(recording, index, events_of_all_samples),
    )?;
    if samples == 0 {
        return Ok(());
    }
    let mut rows: Vec<_> = shares.iter().collect();
    let size = |share: &Share| {
        if args.children {
            share.children
        } else {
            share.events
        }
    };
    rows.sort_by(|(a_row, a), (b_row, b)| {
        let order = size(b).cmp(&size(a));
        order.then_with(|| compare_cells(&grouping.keys, a_row, b_row))
    });

    let mut headings = vec![("overhead", Align::Right), ("samples", Align::Right)];
    if args.children {
        headings.insert(0, ("children", Align::Right));
    }
    let keys = grouping.keys.iter();
    headings.extend(keys.map(|key| (key_heading(*key), Align::Left)));
    let mut table = Table::new(&headings);
    let min_events = args
        .graph()
        .map_or(0, |graph| min_events(graph.min_percent, events));
    let part = |share: &Share| size(share) as f64 / events.max(1) as f64;
    let shown_rows = within_limits(&rows, args, |(_, share)| part(share));
    for (row, share) in shown_rows {
        let mut cells = vec![percent_text(share.events, events), thousands(share.samples)];
        if args.children {
            cells.insert(0, percent_text(share.children, events));
        }
        cells.extend(shown_cells(&grouping.keys, row, share.samples));
        table.add_row(&cells, output.colors.style_of_share(part(share)));
        table.add_lines_below(share.callers.text_lines(events, min_events));
    }
    table.write(args.width, output.colors.heading, output)?;
    write_hidden_rows((rows.len(), table.len()), args, output)?;
    let attr = &recording.events[index].attr;
    let cells = shown_rows.iter().map(|(row, _)| &row[..]);
    for note in absence_notes(&grouping.keys, cells, attr) {
        writeln!(output, "  {note}")?;
    }
    Ok(())
}

/// Returns a text with the total count of an event, including events that no sample stands for; an
/// empty text if the total is not known. `sampled` is the number of events of all samples; `None`
/// if it is not shown.
fn counted_text(recording: &Recording, index: usize, sampled: Option<u64>) -> String {
    let notes = &recording.notes;
    let cpus = notes.scope.strip_prefix("CPU ");
    let scope = match cpus.filter(|cpus| Cpus::parse(cpus).is_ok()) {
        _ if notes.tasks_only => "counted".to_owned(),
        Some(cpus) => format!("of all programs on CPU {cpus}"),
        None => "of all programs on all CPUs".to_owned(),
    };
    let Some(total) = notes.total(index) else {
        return String::new();
    };
    let unit = recording.events[index].attr.unit();
    // No sample stands for the events since the last sample of each task or CPU, or for the events
    // of lost samples. Sums of values, such as energy, have no events.
    let sampled = sampled.filter(|_| unit.is_none());
    let rest = sampled.map_or(0, |sampled| total.saturating_sub(sampled));
    let note = match (notes.counted_all(), rest) {
        (false, _) => " or more, see LOST".to_owned(),
        (true, 0) => String::new(),
        (true, rest) => format!(" ({} in no sample)", thousands(rest)),
    };
    format!("; {scope}: {}{note}", amount_text(unit, total))
}

/// Returns the smallest number of events that is at least `percent` percent of `whole`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a part of a number of events, or more than there are"
)]
pub(crate) fn min_events(percent: f64, whole: u64) -> u64 {
    (whole as f64 * percent / 100.0).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::perfdata::example::example;

    #[test]
    fn counts_name_their_scope() {
        let mut recording = example(false);
        let mut text = |tasks_only, scope: &str, sampled| {
            recording.notes.tasks_only = tasks_only;
            scope.clone_into(&mut recording.notes.scope);
            recording.notes.totals[0] = 7;
            counted_text(&recording, 0, Some(sampled))
        };
        assert_eq!(text(true, "make", 7), "; counted: 7");
        assert_eq!(text(true, "make", 5), "; counted: 7 (2 in no sample)");
        assert_eq!(
            text(false, "the machine", 7),
            "; of all programs on all CPUs: 7"
        );
        assert_eq!(
            text(false, "CPU 0-1,3", 7),
            "; of all programs on CPU 0-1,3: 7"
        );
    }
}
