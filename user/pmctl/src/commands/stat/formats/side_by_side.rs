// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metrics of several CPUs, cores, sockets or threads as a table: a row for each metric, and a column for each place.

use crate::commands::stat::metrics::MetricValue;
use crate::system::screen::Colors;

/// The smallest width of a column in characters.
const MIN_COLUMN_WIDTH: usize = 12;

/// Returns the lines of the table, of at most `width` characters. Columns that don't fit follow in further tables, after
/// an empty line.
pub(in crate::commands::stat) fn table_lines(
    values: &[MetricValue<'_>],
    width: usize,
    colors: &Colors,
) -> Vec<String> {
    let places = values_by_place(values);
    let Some(first) = places.first() else {
        return Vec::new();
    };
    let titles: Vec<String> = first.iter().map(metric_title).collect();
    let title_width = titles.iter().map(|title| title.chars().count()).max();
    let title_width = title_width.unwrap_or(0);
    let widths = places
        .iter()
        .map(|place_values| place_name(place_values).chars().count() + 2);
    let column_width = widths.fold(MIN_COLUMN_WIDTH, usize::max);
    let columns_per_table = (width.saturating_sub(title_width) / column_width).max(1);

    let mut lines = Vec::new();
    for places in places.chunks(columns_per_table) {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        let names = places
            .iter()
            .map(|place_values| format!("{:>column_width$}", place_name(place_values)));
        lines.push(format!("{:title_width$}{}", "", names.collect::<String>()));
        for (row, text) in titles.iter().enumerate() {
            let cells = places
                .iter()
                .map(|place_values| metric_cell(&place_values[row], column_width, colors));
            lines.push(format!("{text:title_width$}{}", cells.collect::<String>()));
        }
    }
    lines
}

/// Splits the values by place. Values of one place follow each other.
fn values_by_place<'v, 'a>(values: &'v [MetricValue<'a>]) -> Vec<&'v [MetricValue<'a>]> {
    values.chunk_by(|a, b| a.place == b.place).collect()
}

/// Returns the name of the place that has these values.
fn place_name<'a>(place_values: &[MetricValue<'a>]) -> &'a str {
    let place = place_values.first().and_then(|value| value.place);
    place.map_or("", |place| &place.name)
}

/// Returns the name of a metric and its unit.
fn metric_title(value: &MetricValue<'_>) -> String {
    match value.unit {
        "" => value.name.to_owned(),
        unit => format!("{} [{unit}]", value.name),
    }
}

/// Returns the number of a metric, in red if it has reached the metric's threshold.
fn metric_cell(value: &MetricValue<'_>, column_width: usize, colors: &Colors) -> String {
    let (text, style) = (value.text(), value.style(colors));
    format!("{style}{text:>column_width$}{style:#}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::stat::scope::{CountedPlace, PlaceKind};

    fn table_text(cpus: &[CountedPlace], colors: &Colors) -> String {
        let values: Vec<MetricValue<'_>> = cpus
            .iter()
            .flat_map(|cpu| {
                let value = |name, unit, number| MetricValue {
                    place: Some(cpu),
                    name,
                    unit,
                    number,
                    is_notable: Some(number > Some(50.0)),
                };
                [
                    value("insn_per_cycle", "", Some(0.5)),
                    value("tma_retiring", "%", Some(62.5)),
                    value("l1d_miss_rate", "%", None),
                ]
            })
            .collect();
        table_lines(&values, 78, colors).join("\n")
    }

    fn cpus(number: usize) -> Vec<CountedPlace> {
        let cpu = |cpu| CountedPlace {
            name: format!("CPU{cpu}"),
            kind: PlaceKind::Cpu,
        };
        (0..number).map(cpu).collect()
    }

    #[test]
    fn each_cpu_has_a_column() {
        let expected = "                         CPU0        CPU1
insn_per_cycle           0.50        0.50
tma_retiring [%]        62.50       62.50
l1d_miss_rate [%]  <no value>  <no value>";
        assert_eq!(table_text(&cpus(2), &Colors::NONE), expected);
        assert_eq!(table_text(&[], &Colors::NONE), "");
    }

    #[test]
    fn many_cpus_are_in_several_tables() {
        let text = table_text(&cpus(7), &Colors::NONE);
        let tables: Vec<&str> = text.split("\n\n").collect();
        assert_eq!(tables.len(), 2, "{text}");
        assert!(tables[0].lines().all(|line| line.len() <= 78), "{text}");
        assert!(tables[1].contains("CPU6") && tables[1].contains("insn_per_cycle"));
    }

    #[test]
    fn notable_values_are_red() {
        let text = table_text(&cpus(1), &Colors::new(true));
        assert!(text.contains("\x1b[31m       62.50\x1b[0m"), "{text:?}");
        assert_eq!(text.matches("\x1b[31m").count(), 1, "{text:?}");
    }
}
