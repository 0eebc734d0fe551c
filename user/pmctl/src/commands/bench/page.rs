// SPDX-License-Identifier: MIT OR Apache-2.0
//! A suite's history as a page: a file of HTML that needs no other file and no script.

use std::io::Write;

use anyhow::Result;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use perfmon_compare::comparison::Comparison;
use perfmon_compare::figures::change;
use perfmon_compare::numbers::{format_change, format_interval, format_mean, format_spread};

use super::history::{History, Series};
use super::plot;
use crate::system::text::count;

const STYLE: &str = "\
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 72em; padding: 0 1em; color: #222; background: #fff }
table { border-collapse: collapse; width: 100% }
th, td { padding: .2em .7em; text-align: left; border-bottom: 1px solid #ddd }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums }
tr.more td.change { color: #b03000 }
tr.less td.change { color: #00704a }
figure { margin: 1em 0 }
figure svg { max-width: 100%; height: auto }
code { overflow-wrap: anywhere }";

/// Writes the page.
pub(super) fn write(
    history: &History,
    comparison: &Comparison<'_>,
    output: &mut impl Write,
) -> Result<()> {
    let measured = comparison.measured;
    let labels = history.labels();
    let title = match &labels[..] {
        [only] => only.clone(),
        [first, .., last] => format!("{first} to {last}"),
        [] => String::new(),
    };
    let sections = (0..measured.events.len()).map(|event| section(history, comparison, event));
    let sections = sections.collect::<Result<Vec<_>>>()?;
    let warning = comparison.machine_warning();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                p { (count(measured.commands.len() as u64, "benchmark")) ", on " (measured.machine) }
                @if let Some(warning) = warning { p { (warning) } }
                @for section in sections { (section) }
            }
        }
    };
    writeln!(output, "{}", page.into_string())?;
    Ok(())
}

/// Returns the plot and the table of an event.
fn section(history: &History, comparison: &Comparison<'_>, event: usize) -> Result<Markup> {
    let name = &comparison.measured.events[event][..];
    let has_history = history.labels().len() > 1;
    let changes_plot = has_history
        .then(|| plot::draw_changes(history, name))
        .transpose()?;
    let series = history.series(name);
    let rows = series.iter().enumerate();
    let rows = rows.map(|(command, series)| row(comparison, (command, event), series, has_history));
    let rows = rows.collect::<Result<Vec<_>>>()?;
    Ok(html! {
        h2 { (name) }
        @if let Some(svg) = changes_plot { figure { (PreEscaped(svg)) } }
        table {
            tr {
                th { "benchmark" }
                th.number { "before" }
                th.number { "mean" }
                th.number { "spread" }
                th.number { "change" }
                th { "95% interval" }
                @if has_history { th { "history" } }
            }
            @for row in rows { (row) }
        }
    })
}

fn row(
    comparison: &Comparison<'_>,
    (command, event): (usize, usize),
    series: &Series<'_>,
    has_history: bool,
) -> Result<Markup> {
    let row = comparison.row(command, event);
    let before = comparison.reference_values(command, event);
    let before_mean = before.map(|before| format_mean(row.is_time, before));
    let change = before.map(|before| change(before, row.values));
    let class = change
        .filter(|change| change.is_significant() && comparison.has_enough_runs(command, event))
        .map(|change| if change.part > 0.0 { "more" } else { "less" });
    let history = has_history.then(|| plot::draw_small(series)).transpose()?;
    Ok(html! {
        tr class=[class] {
            td { code { (row.command) } }
            td.number { (before_mean.unwrap_or_default()) }
            td.number { (format_mean(row.is_time, row.values)) }
            td.number { (format_spread(row.values)) }
            td.number.change { (change.map(format_change).unwrap_or_default()) }
            td { (change.map(format_interval).unwrap_or_default()) }
            @if let Some(svg) = history { td { (PreEscaped(svg)) } }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use perfmon_compare::comparison::Baseline;
    use perfmon_compare::document::BenchDocument;
    use perfmon_compare::testing;

    use super::*;

    /// Returns the page about this document, and the document of the tests before it.
    fn page_of(measured: &BenchDocument) -> String {
        let files = ["v1.json", "v2.json"].map(PathBuf::from);
        let history = History::new(&files, vec![testing::document(), measured.clone()]);
        let names: Vec<&str> = measured
            .commands
            .iter()
            .map(|entry| &entry.command[..])
            .collect();
        let baseline = Baseline::of_names((&files[0], testing::document()), &names);
        let comparison = Comparison {
            measured,
            baseline: Some(&baseline),
        };
        let mut text = Vec::new();
        write(&history, &comparison, &mut text).expect("a vector takes everything");
        String::from_utf8(text).expect("it is text")
    }

    #[test]
    fn a_change_of_too_few_runs_has_no_colour() {
        let mut measured = testing::document();
        let values = &mut measured.commands[0].values;
        values[0] = vec![5_000_000; 3];
        assert_eq!(page_of(&measured).matches("class=\"more\"").count(), 1);
        measured.commands[0].values[0].truncate(1);
        assert_eq!(page_of(&measured).matches("class=\"more\"").count(), 0);
    }

    #[test]
    fn names_are_text_in_the_page() {
        let mut measured = testing::document();
        measured.commands[1].command = "<script>alert(1)</script>".to_owned();
        let text = page_of(&measured);
        assert!(!text.contains("<script>"), "{text}");
        assert!(
            text.contains("&lt;script&gt;alert(1)&lt;/script&gt;"),
            "{text}"
        );
        assert_eq!(text.matches("<figure>").count(), 2, "a plot for each event");
    }
}
