// SPDX-License-Identifier: MIT OR Apache-2.0
//! A table of `pmctl top` as text.

use std::io::{self, Write};

use anyhow::Result;

use crate::args::Graph;
use crate::commands::report::{self, Grouping, Share, key_heading};
use crate::recording::perfdata::Recording;
use crate::system::screen::Colors;
use crate::system::table::{Align, Table, hidden_rows_line};
use crate::system::text::{count, printable, thousands};

/// Advice for a table whose rows --entries hides.
pub(super) const ENTRIES_ADVICE: &str = "-E N shows more";

/// Prints the first rows of each event.
pub(super) fn write_tables(
    recording: &Recording,
    grouping: &Grouping,
    entries: usize,
    (colors, output): (Colors, &mut impl Write),
) -> Result<()> {
    let (tables, ..) = report::sum_by_row(recording, grouping, None)?;
    let style = colors.heading;
    for (index, (event, shares)) in recording.events.iter().zip(&tables).enumerate() {
        let (events, samples) = report::totals(shares.values());
        write!(
            output,
            "{style}Samples: {} of event '{}'{style:#}",
            thousands(samples),
            printable(&event.name),
        )?;
        let unit = event.attr.unit();
        // A level such as a temperature can't be divided among functions.
        if let Some(unit) = unit.filter(|unit| !unit.grows()) {
            writeln!(output)?;
            if let Some(range) = report::value_range(recording, &grouping.filter, (index, unit))? {
                writeln!(output, "{range}")?;
            }
            writeln!(output)?;
            continue;
        }
        writeln!(output, ", {}", report::total_text(unit, events))?;
        let mut rows: Vec<(&Vec<String>, &Share)> = shares.iter().collect();
        rows.sort_by(|(a_cells, a), (b_cells, b)| {
            let order = b.events.cmp(&a.events);
            order.then_with(|| report::compare_cells(&grouping.keys, a_cells, b_cells))
        });
        let mut headings = vec![("overhead", Align::Right), ("samples", Align::Right)];
        headings.extend(
            grouping
                .keys
                .iter()
                .map(|key| (key_heading(*key), Align::Left)),
        );
        let mut table = Table::new(&headings);
        let min_events = report::min_events(Graph::CALLER.min_percent, events);
        for (cells, share) in rows.iter().take(entries) {
            let part = share.events as f64 / events.max(1) as f64;
            let mut row = vec![format!("{:.2}%", part * 100.0), thousands(share.samples)];
            row.extend(report::shown_cells(&grouping.keys, cells, share.samples));
            table.add_row(&row, colors.style_of_share(part));
            table.add_lines_below(share.callers.text_lines(events, min_events));
        }
        table.write(None, style, output)?;
        let rest = rows.len().saturating_sub(entries);
        if rest > 0 {
            writeln!(output, "{}", hidden_rows_line(rest, ENTRIES_ADVICE))?;
        }
        writeln!(output)?;
    }
    Ok(())
}

/// Returns the message about records that were lost; `None` if none were.
pub(super) fn lost_in_words(records: u64) -> Option<String> {
    (records > 0).then(|| {
        format!(
            "{} came faster than they were read: take fewer (a larger -c, a smaller -F)",
            count(records, "record")
        )
    })
}

/// Writes the message about records that were lost, if there are some.
pub(super) fn write_lost(
    records: u64,
    (colors, output): (Colors, &mut impl Write),
) -> io::Result<()> {
    let mark = colors.warning;
    match lost_in_words(records) {
        Some(words) => writeln!(output, "{mark}LOST{mark:#}: {words}.\n"),
        None => Ok(()),
    }
}

/// Writes the reason for a table without samples: the sampled tasks executed a program that must not be sampled.
pub(super) fn write_left_program((colors, output): (Colors, &mut impl Write)) -> io::Result<()> {
    let mark = colors.warning;
    writeln!(
        output,
        "{mark}No sample{mark:#}. A sampled process, or a child of it, has executed a program that has more rights than its \
         caller (setuid, setgid, capabilities of its file), or that the caller may not read: that program is not sampled.\n\
         Start pmctl with the rights of the program (as root for a program of root's), or sample all programs: leave out -p \
         and -t.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Key, Order};
    use crate::recording::perfdata::example::{example, value_attr};
    use crate::recording::profile::Filter;

    fn text_of(recording: &Recording, graph: Option<Order>) -> String {
        let grouping = Grouping {
            keys: vec![Key::Comm],
            children: false,
            graph,
            inline: false,
            max_stack: 9,
            filter: Filter::default(),
        };
        let mut text = Vec::new();
        let result = write_tables(recording, &grouping, 9, (Colors::default(), &mut text));
        result.expect("a vector takes everything");
        String::from_utf8(text).expect("it is text")
    }

    /// Returns the example's tables as text, with the value `name` as the first event.
    fn tables(name: &str) -> String {
        let mut recording = example(false);
        name.clone_into(&mut recording.events[0].name);
        recording.events[0].attr = value_attr(name);
        text_of(&recording, None)
    }

    #[test]
    fn callers_are_below_their_row() {
        let recording = example(true);
        let [with, without] = [Some(Order::Callee), None].map(|graph| text_of(&recording, graph));
        let is_caller = |line: &&str| line.starts_with("            ");
        assert!(with.lines().any(|line| is_caller(&line)), "{with}");
        let rows: Vec<&str> = with.lines().filter(|line| !is_caller(line)).collect();
        assert_eq!(rows, without.lines().collect::<Vec<_>>());
    }

    #[test]
    fn a_program_that_is_not_sampled_has_a_reason() {
        let mut text = Vec::new();
        let result = write_left_program((Colors::default(), &mut text));
        result.expect("a vector takes everything");
        let text = String::from_utf8(text).expect("it is text");
        assert!(text.starts_with("No sample. A sampled process"), "{text}");
        assert!(
            text.contains("(setuid, setgid, capabilities of its file)"),
            "{text}"
        );
    }

    #[test]
    fn lost_records_are_told() {
        let written = |records| {
            let mut text = Vec::new();
            let result = write_lost(records, (Colors::default(), &mut text));
            result.expect("a vector takes everything");
            String::from_utf8(text).expect("it is text")
        };
        assert_eq!(written(0), "");
        assert!(written(1234).starts_with("LOST: 1,234 records came faster"));
    }

    #[test]
    fn values_have_their_units() {
        let level = tables("temperature");
        let text = "Samples: 1 of event 'temperature'\n\
                    From 1000 to 1000 °C, median 1000 °C of 1 sample\n\n\
                    Samples: 1 of event 'r1c0', event count 1,000\n";
        assert!(level.starts_with(text), "{level}");
        let energy = tables("energy-pkg");
        let head = "Samples: 1 of event 'energy-pkg', sum 0.000000 Joules\n";
        assert!(energy.starts_with(head), "{energy}");
        assert!(energy.contains("100.00%"), "{energy}");
    }
}
